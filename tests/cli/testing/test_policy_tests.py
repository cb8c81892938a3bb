"""hooklatch test: cases are read with their line numbers, fired without a daemon, and compared.

Slow where a command runs: each is a process with workers of its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hooklatch.cli.terminal.parser import CommandError
from hooklatch.cli.testing.cases import Case, ExpectedDecision, find_case_problem, read_cases
from hooklatch.cli.testing.running import report_waiting
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import FireDecision
from support.commands import Place, new_place, serving
from support.repository import ROOT
from support.tables import table

PAGE = "".join((ROOT / "docs" / page).read_text() for page in ("guides/testing-policies.md", "reference/cases.md"))
NATIVE = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm x"}, "cwd": "/nowhere"}


def cases(text: str, name: str = "cases.toml", folder: Path = Path("/project")) -> list[Case]:
    return read_cases(name, text.encode(), str(folder))


def line(**entry: Any) -> str:
    return json.dumps({"event": "pre_tool_use", "expect": "deny", **entry})


def decision(**fields: Any) -> FireDecision:
    values: dict[str, Any] = dict.fromkeys(FireDecision.__struct_fields__)
    values |= {"decision_id": "1", "event": "pre_tool_use", "verdict": "deny", "cause": "policy", "retryable": False}
    values |= {"duration_ms": 1.0, "inject": [], "context": {}, "outcomes": [], "warnings": []}
    return FireDecision(**(values | fields))


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    toml = '[[case]]\nname = "a"\nevent = "stop"\ncwd = "sub"\npayload = { x = 1 }\nexpect = { verdict = "pass" }\n'
    lines = '\n{"name": "a", "event": "stop", "cwd": "sub", "payload": {"x": 1}, "expect": "pass"}\n'

    (one,), (other,) = cases(toml, folder=tmp_path), cases(lines, "cases.jsonl", tmp_path)

    assert (one.name, one.params, one.expected) == (other.name, other.params, other.expected)
    assert (one.place, other.place) == ("cases.toml:1", "cases.jsonl:2")
    assert (bytes(one.params.payload), one.params.envelope.cwd) == (b'{"x": 1}', str(tmp_path / "sub"))


def test_a_payload_may_be_in_a_file_beside_the_cases(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"tool_name":\n"Bash"}')

    (case,) = cases(line(payload_file="x.json"), "-", tmp_path)

    assert msgspec.json.decode(case.params.payload) == {"tool_name": "Bash"}


def test_a_native_payload_names_its_event_and_its_folder() -> None:
    (case,) = cases(json.dumps({"host": "claude-code", "payload": NATIVE, "expect": "deny"}), "-")

    assert (case.params.event, case.params.envelope.host, case.params.envelope.cwd) == (
        "pre_tool_use", "claude-code", "/nowhere",
    )  # fmt: skip
    assert msgspec.json.decode(case.params.payload)["tool_name"] == "Bash"


STOP = '[[case]]\nevent = "stop"\n'
PASS = f'{STOP}expect = "pass"\n'
NATIVE_CASE = '[[case]]\nexpect = "pass"\nhost = "claude-code"\n'


@table(
    ("text", "said"),
    [
        ("", "cases.toml: it holds no case"),
        ("[[case]]\nx", "cases.toml:2: not TOML"),
        ("x = 1\n[[cases]]", "cases.toml:1: the file has no key 'x'; it takes case"),
        ("[case]", "cases.toml:1: write [[case]]"),
        ("case = [1]", "cases.toml:1: a case is a table, not 1"),
        (f'{PASS}{STOP}expct = "pass"', "cases.toml:6: a case has no key 'expct'; did you mean 'expect'?"),
        (STOP, 'cases.toml:1: this case has no expect; write expect = "deny"'),
        ('[[case]]\nexpect = "pass"', "cases.toml:1: it fires no event"),
        ('[[case]]\nevent = 1\nexpect = "pass"', "cases.toml:2: event is a string"),
        (f'{STOP}expect = "denny"', "not 'denny'; did you mean 'deny'?"),
        (
            f"{STOP}expect = 1",
            "cases.toml:3: expect is a verdict (pass, allow, deny, ask, halt or claim), or a table such as",
        ),
        (
            f'{STOP}expect = {{ hook = "a" }}',
            "cases.toml:3: expect has no verdict; write one of 'pass', 'allow', 'deny'",
        ),
        (f'{STOP}[case.expect]\nverdict = "pass"\nreson = 1', "cases.toml:5: expect has no key 'reson'; did you"),
        (f'{STOP}expect = {{ verdict = "pass", reson = "x" }}', "cases.toml:3: expect has no key 'reson'; did you"),
        (f'{STOP}expect = {{ verdict = "pass", reason = 1 }}', "cases.toml:3: reason is a string, not 1"),
        (f"{PASS}payload = 1", "cases.toml:4: payload is a table"),
        (f"{PASS}payload = {{ n = nan }}", "cases.toml:4: payload is not JSON"),
        (f'{PASS}payload_file = "/nowhere"', "cases.toml:4: the payload /nowhere cannot be read"),
        ('[[case]]\nexpect = "pass"\nhost = "cursr"', "cases.toml:3: unknown host 'cursr'; there are claude-code"),
        (NATIVE_CASE, "the document does not name its event"),
        (f'{NATIVE_CASE}payload = {{ hook_event_name = "Setup" }}', "cases.toml:4: 'Setup' is an event of Claude"),
        (
            f'{NATIVE_CASE}event = "stop"\npayload = {{ hook_event_name = "PreCompact" }}',
            "cases.toml:4: event is 'stop', but the payload is of PreCompact",
        ),
    ],
)
def test_a_bad_case_is_refused_with_its_line_and_what_to_write(text: str, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        cases(text)

    assert caught.value.code == 65
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (line() + "\n{", "x.jsonl:2: not JSON"),
        ("[]", "x.jsonl:1: a case is a table"),
        (line(payload={}, payload_file="x"), "x.jsonl:1: write either payload or payload_file"),
        (line(payload={"a": "\ud800"}), "x.jsonl:1: not JSON that every program reads alike"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        cases(text, "x.jsonl")


def test_bytes_that_are_no_utf_8_are_refused_with_their_line() -> None:
    with pytest.raises(CommandError, match=r"x\.toml:2: not UTF-8"):
        read_cases("x.toml", b"\n\xff", "/")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"event": "pre_tol_use"}, "-:1: there is no event 'pre_tol_use'; did you mean 'pre_tool_use'?"),
        ({"event": "stop"}, "-:1: stop is never 'deny'; it is pass or halt"),
    ],
)
def test_what_no_decision_can_ever_be_is_said_before_anything_is_fired(entry: dict[str, Any], said: str) -> None:
    (case,) = cases(line(**entry), "-")

    assert find_case_problem(case, case.params.event, Catalogue.standard()) == said


@table(
    ("expected", "fields", "differences"),
    [
        ({"verdict": "deny"}, {}, []),
        ({"verdict": "deny"}, {"verdict": "pass"}, ["verdict is pass, not deny"]),
        ({"verdict": "deny"}, {"cause": "crash"}, ["cause is crash, not policy"]),
        ({"verdict": "deny", "cause": "crash"}, {"cause": "crash"}, []),
        ({"verdict": "deny", "hook": "a"}, {"layer": "global", "hook": "a"}, []),
        ({"verdict": "deny", "hook": "global/a"}, {"layer": "global", "hook": "a"}, []),
        ({"verdict": "deny", "hook": "a"}, {"layer": "global", "hook": "b"}, ["hook is b, not a"]),
        ({"verdict": "deny", "reason": "part"}, {"reason": "a part of it"}, []),
        ({"verdict": "deny", "reason": "part"}, {"reason": None}, ["reason is None, without 'part'"]),
        ({"verdict": "pass", "append": "x"}, {"verdict": "pass", "append": "xyz"}, []),
        ({"verdict": "pass", "inject": "été"}, {"verdict": "pass", "inject": [{"content": "un été"}]}, []),
        ({"verdict": "allow", "patch": {"a": [1]}}, {"verdict": "allow", "patch": {"a": msgspec.Raw(b"[1]")}}, []),
        ({"verdict": "pass", "patch": {"a": 1}}, {"verdict": "pass"}, ["patch of a is None, not 1"]),
    ],
)  # fmt: skip
def test_a_refusal_by_failure_is_no_success(
    expected: dict[str, Any], fields: dict[str, Any], differences: list[str]
) -> None:
    assert ExpectedDecision(**expected).differences(decision(**fields)) == differences


async def test_who_waits_is_told_after_a_second_and_then_ever_less(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with trio.move_on_after(8):
        await report_waiting(lambda: "loading")

    assert capsys.readouterr().err.splitlines() == ["hooklatch: loading …"] * 3


@pytest.fixture(scope="module")
def examples() -> Iterator[Place]:
    with new_place({}) as place:
        for path in (ROOT / "examples" / "hooks").iterdir():
            if path.is_file():
                shutil.copyfile(path, place.config.parent / path.name)
        yield place


@pytest.mark.slow
def test_the_example_passes_and_leaves_no_file(examples: Place) -> None:
    before = sorted(examples.folder.rglob("*"))

    report = examples.json("test", str(ROOT / "examples" / "policy-tests.toml"))
    without = examples.run("test")

    assert (report["passed"], report["failed"], report["diagnostics"]) == (8, 0, [])
    assert sorted(examples.folder.rglob("*")) == before
    assert (without.returncode, "hooklatch record cases, then: hooklatch test cases.jsonl" in without.stderr) == (
        66,
        True,
    )


@pytest.mark.slow
def test_the_cases_of_the_page_pass(examples: Place) -> None:
    toml = "\n".join(re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    lines = [text for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if '"expect":' in text]
    (examples.config.parent / "policy-tests.toml").write_text(toml)

    done = examples.run("test", str(examples.config.parent / "policy-tests.toml"), "-", stdin="".join(lines))
    by_default = examples.run("test")

    assert done.returncode == by_default.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "4 cases, 4 passed, 0 failed"
    assert by_default.stdout.endswith("policy-tests.toml: 3 cases, 3 passed, 0 failed\n")


@pytest.mark.slow
def test_a_failure_shows_what_came_instead(examples: Place) -> None:
    text = line(name="curl", payload={"tool_name": "Bash", "tool_input": {"command": "curl x"}})

    done = examples.run("test", "-", stdin=f"{text}\n{text.replace('curl x', 'rm -r x')}")

    assert done.returncode == 1
    assert "FAIL  curl: pass" in done.stdout
    assert "but     verdict is pass, not deny" in done.stdout
    assert "standard input:1" in done.stdout
    assert done.stdout.splitlines()[-1] == "standard input: 2 cases, 1 passed, 1 failed"
    assert "pass  " not in done.stdout


@pytest.mark.slow
def test_cases_may_be_in_another_systems_words(examples: Place) -> None:
    payload = {"toolName": "Bash", "args": {"command": "rm -r x"}}
    spoken = line(event="before_tool_call", payload=payload, dialect="ethos")
    unspoken = line(event="before_tool_call", payload=payload)

    done = examples.run("test", "-", stdin=spoken)
    by_option = examples.run("test", "-", "--dialect", "ethos", stdin=unspoken)
    without = examples.run("test", "-", stdin=unspoken)

    assert (done.returncode, by_option.returncode) == (0, 0), done.stdout + done.stderr + by_option.stderr
    assert (without.returncode, "is 'pre_tool_use' here" in without.stderr) == (65, True)


@pytest.mark.slow
def test_a_bad_file_fires_nothing(examples: Place) -> None:
    done = examples.run("test", "-", stdin=f"{line()}\n{line(event='stop')}")

    assert (done.returncode, done.stdout) == (65, "")
    assert "standard input:2: stop is never 'deny'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [(["missing.toml"], 66), (["cases.txt"], 64), (["-", "--config", "missing.toml"], 66)],
)
def test_what_is_not_there_is_said(examples: Place, words: list[str], code: int) -> None:
    assert examples.run("test", *words, stdin=line()).returncode == code


@pytest.mark.slow
def test_it_works_beside_a_daemon_and_leaves_it_alone() -> None:
    with new_place() as place, serving(place):
        before = place.json("status")["fired"]

        done = place.run("test", "-", stdin=line(payload={"tool_name": "Bash", "tool_input": {"command": "rm x"}}))

        assert done.returncode == 0, done.stdout + done.stderr
        assert place.json("status")["fired"] == before


@pytest.mark.slow
def test_hooks_that_do_not_load_are_no_success() -> None:
    with new_place({"hooks.toml": '[[source]]\npath = "gone.py"\n'}) as place:
        refused = place.run("test", "-", stdin=line(payload={"tool_name": "Bash"}))
        wanted = place.run(
            "test", "-", stdin=line(payload={"tool_name": "Bash"}, expect={"verdict": "deny", "cause": "load"})
        )

    assert (refused.returncode, wanted.returncode) == (1, 1)
    assert "cause is load, not policy" in refused.stdout
    assert "1 passed, 0 failed, and the hooks do not load" in wanted.stdout
    assert "gone.py" in wanted.stderr


@pytest.mark.slow
def test_a_hook_that_dies_in_each_case_is_asked_in_each() -> None:
    dying = 'import os\nfrom hooklatch import hook\n\n@hook("pre_tool_use")\ndef dies(event):\n    os._exit(1)\n'
    cases = "\n".join(line(expect={"verdict": "deny", "cause": "crash"}) for _ in range(8))

    with new_place({"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": dying}) as place:
        done = place.run("test", "-", stdin=cases)

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_budget_is_tested_by_the_cases_of_one_file_and_begins_anew_with_the_next(tmp_path: Path) -> None:
    """The budget is the example's own."""
    case = {"payload": {"tool_name": "Bash", "tool_input": {"command": "ls"}}}
    allowed, refused = line(**case, expect="pass"), line(**case, expect={"verdict": "deny", "reason": "50 commands"})
    for name, text in (("one.jsonl", [*[allowed] * 50, refused, refused]), ("two.jsonl", [allowed])):
        (tmp_path / name).write_text("\n".join(text))
    budget = (ROOT / "examples" / "hooks" / "budget.py").read_text()

    with new_place({"hooks.toml": '[[source]]\npath = "budget.py"\n', "budget.py": budget}) as place:
        report = place.json("test", str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl"))

    assert (report["passed"], report["failed"], report["diagnostics"]) == (53, 0, [])


def test_a_native_payload_may_be_any_hosts() -> None:
    payload = {"sessionId": "s", "toolName": "bash", "toolArgs": {"command": "ls"}}

    (case,) = cases(line(host="copilot", event="preToolUse", payload=payload), "-")

    assert (case.params.event, case.params.envelope.host) == ("pre_tool_use", "copilot")
