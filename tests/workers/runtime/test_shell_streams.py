"""Input and output of a command: arguments, streams, sizes."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from workers.runtime.shell_driven import Driven

PYTHON = shlex.quote(sys.executable)
KEPT = 256 * 1024
BIG = {"tool_name": "Write", "tool_input": {"path": "a", "content": "x" * 4 * 2**20}}


@pytest.mark.parametrize(
    "argument",
    [
        pytest.param("", id="RG-27-empty"),
        pytest.param("two words", id="RG-27-spaces"),
        pytest.param("$HOME %PATH% !X! `id` $(id)", id="RG-27-expansions"),
        pytest.param("a && b | c; d > e", id="RG-27-operators"),
        pytest.param("\"double\" 'single' \\", id="RG-27-quotes"),
        pytest.param("one\ntwo\r\n", id="RG-27-line-breaks"),
        pytest.param("🙂 ä", id="RG-27-emoji"),
        pytest.param("-c", id="an-option"),
    ],
)
def test_arguments_are_delivered_literally(shared: Driven, argument: str) -> None:
    reply = shared.run(["printf", "[%s]", argument])

    assert reply.stdout.decode() == f"[{argument}]"


@pytest.mark.parametrize(
    ("line", "output"),
    [
        pytest.param("printf hi", b"hi", id="RG-26-printf"),
        pytest.param("echo \"a  b\" 'c $HOME'", b"a  b c $HOME\n", id="RG-28-quotes"),
        pytest.param("printf %s \"$HOME\"", b"/home/someone", id="RG-28-expansion"),
        pytest.param("printf 'b\\na\\n' | sort | tr -d '\\n'", b"ab", id="RG-28-pipeline"),
        pytest.param("(exit 3); printf $?", b"3", id="RG-28-subshell"),
        pytest.param("printf %s $(echo x | tr x y)", b"y", id="RG-28-command-substitution"),
        pytest.param("read -r line && printf %.1s \"$line\"", b"{", id="RG-28-standard-input"),
        pytest.param("-x || printf '%s' $?", b"127", id="a-line-that-looks-like-an-option"),
        pytest.param("printf one;\nprintf two", b"onetwo", id="two-lines"),
    ],
)  # fmt: skip
def test_a_line_is_run_by_a_real_shell(shared: Driven, line: str, output: bytes) -> None:
    assert shared.run(line).stdout == output


def test_the_input_is_one_line_of_json_and_then_ends(shared: Driven) -> None:
    reply = shared.run("cat", fields={"tool_name": "Bash", "tool_input": {"command": "a\nb"}})

    assert reply.stdout.endswith(b"\n")
    assert reply.stdout.count(b"\n") == 1
    assert json.loads(reply.stdout)["tool_input"] == {"command": "a\nb"}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("exit 0", id="RX-exit-0-with-4-MiB"),
        pytest.param("exec <&-; true", id="closed"),
        pytest.param("head -c 1", id="one-byte-read"),
    ],
)
def test_input_that_nobody_reads_changes_nothing(shared: Driven, command: str) -> None:
    assert shared.run(command, fields=BIG).word == "pass"


def test_much_input_and_much_output_do_not_wait_for_each_other(shared: Driven) -> None:
    reply = shared.run(f"{PYTHON} -c 'import sys; print(2 * sys.stdin.read())' | tee /dev/stderr; exit 2", fields=BIG)

    assert reply.word == "deny"
    assert (len(reply.stdout), len(reply.stderr)) == (KEPT, KEPT)


def test_a_command_that_echoes_while_it_reads_is_not_blocked(shared: Driven) -> None:
    reply = shared.run("cat; echo end >&2", fields=BIG)

    assert reply.stderr == b"end\n"


@pytest.mark.parametrize(
    ("size", "truncated"),
    [
        pytest.param(KEPT, False, id="RX-29-the-limit-itself"),
        pytest.param(KEPT + 1, True, id="RX-27-one-more"),
        pytest.param(400_000, True, id="RG-26-400000"),
    ],
)
def test_output_over_256_kib_is_cut_and_marked(shared: Driven, size: int, truncated: bool) -> None:
    for stream in ("", ">&2"):
        reply = shared.run(f"head -c {size} /dev/zero {stream}")

        assert max(len(reply.stdout), len(reply.stderr)) == min(size, KEPT)
        assert reply.truncated is truncated
        assert reply.word == "pass"


def test_output_that_never_ends_is_dropped_until_the_deadline(shared: Driven) -> None:
    reply = shared.run("exec yes", timeout=0.2)

    assert (reply.word, len(reply.stdout), reply.truncated) == ("timeout", KEPT, True)


def test_output_cut_within_a_character_is_still_text(shared: Driven) -> None:
    reply = shared.run("printf '\\303\\244\\303' >&2; exit 2")

    assert reply.text == "ä\ufffd"


def test_an_answer_over_256_kib_is_garbage(shared: Driven) -> None:
    text = '{"verdict": "allow", "warnings": ["\'; head -c 300000 /dev/zero | tr \'\\0\' x; printf \'"]}'

    assert shared.run(f"printf '%s' '{text}'", output="json").word == "protocol"
