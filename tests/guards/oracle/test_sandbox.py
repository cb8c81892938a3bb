"""The sandbox: it refuses to begin in any weaker setting, and a text can neither leave it nor outlive it.

Slow: it is compiled, and loops and bombs of forks are ended by its limits of time.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest

from guards.oracle.probes import WEAKER, is_possible, probe, refused
from guards.oracle.sandbox import CUT, HERE, SHELLS, Built, Ran, Refused, Sandbox, built

pytestmark = pytest.mark.slow
STEPS = re.findall(r"\b(NO_\w+)\b", (HERE / "sandbox.h").read_text())


def test_no_text_gets_out(programs: Built) -> None:
    probe(programs)


@pytest.mark.parametrize("setting", WEAKER)
def test_it_refuses_to_begin_in_a_weaker_setting(programs: Built, setting: str) -> None:
    if not is_possible(WEAKER[setting]):
        pytest.skip("this machine cannot start anything so")

    said = refused(programs, WEAKER[setting])

    assert said.startswith("oracle: this machine does not give: namespaces") == (setting == "without user namespaces")


def test_each_step_that_is_left_out_is_noticed_before_a_text_runs(programs: Built) -> None:
    ran: list[str] = []
    with built(weaker=True) as weaker:
        with Sandbox(weaker) as sandbox:
            assert sandbox.run("dash", b"prog1").words == [[b"prog1"]]
        for step, name in enumerate(STEPS, 1):
            with Sandbox(weaker, without=step) as sandbox, contextlib.suppress(Refused):
                ran.append(f"{name}: {sandbox.run('dash', b'prog1')}")

    assert len(STEPS) == 14
    assert ran == []


def test_a_text_arrives_as_it_was_written(programs: Built) -> None:
    with Sandbox(programs) as sandbox:
        for shell in SHELLS:
            assert sandbox.run(shell, b"prog1 'a\n\xff\x01 b' ''\n") == Ran([[b"prog1", b"a\n\xff\x01 b", b""]], 0)


def test_an_sh_is_dash_but_where_sh_is_bash(programs: Built) -> None:
    text = b"sh -c 'prog1 $BASH_VERSION$0'"
    with Sandbox(programs) as sandbox:
        versions = [sandbox.run(shell, text).words[0][1] for shell in SHELLS]

    assert [version == b"sh" for version in versions] == [True, False, True]


def test_what_cannot_be_a_text_is_not_handed_over(programs: Built) -> None:
    with Sandbox(programs) as sandbox:
        for text in (b"a\0b", b"x" * 100_001):
            with pytest.raises(ValueError, match="no argument"):
                sandbox.run("bash", text)
        assert sandbox.run("bash", b"exit 3") == Ran([], 3)


def test_words_that_do_not_fit_into_a_record_are_cut(programs: Built) -> None:
    with Sandbox(programs) as sandbox:
        ran = sandbox.run("bash", b"prog1 a $(printf %05000d 0) b; prog2")

    assert ran.words == [[b"prog1", b"a", CUT], [b"prog2"]]


def test_what_a_text_writes_in_place_of_a_stub_is_no_record(programs: Built) -> None:
    with Sandbox(programs) as sandbox:
        ran = sandbox.run("bash", b"prog1; echo 'a long line of letters' >&200; prog2")

    assert ran.words == [[b"prog1"]]


def test_a_program_is_named_by_its_file_and_not_by_what_it_was_called(programs: Built) -> None:
    with Sandbox(programs) as sandbox:
        ran = sandbox.run("bash", b"hash -p /bin/prog1 f; f a; exec -a ls prog2 b")

    assert ran.words == [[b"prog1", b"a"], [b"prog2", b"b"]]


def test_it_leaves_no_process_and_no_descriptor(programs: Built) -> None:
    before, others = os.listdir("/proc/self/fd"), children()

    with Sandbox(programs) as sandbox:
        sandbox.run("bash", b"prog1 & exit 1")
        tree = [pid for pid in children() if pid not in others]
        assert len(tree) == 1

    assert sandbox.close() == (0, "")
    assert os.listdir("/proc/self/fd") == before
    assert not any(Path(f"/proc/{pid}").exists() for pid in tree)


def children() -> list[str]:
    """Return the processes that this one has started and not ended."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
