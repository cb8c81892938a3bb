"""hooklatch test: which cases run, what is shown of them, what they cover, and hooks in this process.

Slow: each command is a process with workers of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from support.commands import Place, new_place

pytestmark = pytest.mark.slow

LOUD = """
import sys
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def loud(event):
    print("looking at", event.tool_input["command"])
    if event.tool_input["command"] == "crash":
        raise KeyError("oops")
    return deny("no rm") if event.tool_input["command"] == "rm" else None

@hook("pre_tool_use", match="Bash", id="counts", runtime="trio")
async def counts(event):
    return deny("enough") if event.state.increment("n") > 100 else None
"""


def bash(command: str, name: str, expect: str = "deny") -> str:
    payload = {"tool_name": "Bash", "tool_input": {"command": command}}
    return json.dumps({"name": name, "event": "pre_tool_use", "payload": payload, "expect": expect})


@pytest.fixture(scope="module")
def loud() -> Iterator[Place]:
    with new_place({"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": LOUD}) as place:
        cases = [bash("rm", "rm"), bash("crash", "a \x1b crash"), bash("ls", "ls", expect="pass")]
        (place.folder / "cases.jsonl").write_text("\n".join(cases))
        yield place


def test_a_failure_shows_what_hooks_printed_and_the_report_for_ci_has_it_too(loud: Place) -> None:
    done = loud.run("test", "cases.jsonl", "--junit", "report.xml", "--coverage")
    suite = ElementTree.parse(loud.folder / "report.xml").getroot()[0]

    assert done.returncode == 1, done.stderr
    assert "stdout  looking at crash" in done.stdout
    assert "KeyError: 'oops'" in done.stdout
    assert "looking at ls" not in done.stdout
    assert re.search(r"^LACKS +global/counts .*no case that it denies$", done.stdout, re.MULTILINE)
    assert re.search(r"^ok +global/guards:loud ", done.stdout, re.MULTILINE)
    assert {key: suite.get(key) for key in ("tests", "failures")} == {"tests": "3", "failures": "1"}
    assert [case.get("name") for case in suite] == ["rm", "a \ufffd crash", "ls"]
    # More than these Jenkins' schema does not admit, and drops the report.
    assert {key for case in suite for key in case.attrib} == {"name", "classname", "time"}
    assert "place: cases.jsonl:2\n" in (suite[1][0].text or "")
    assert (suite[1][0].get("message") or "").startswith("cause is crash, not policy")


def test_a_hook_that_no_case_sees_deny_can_be_a_failure(loud: Place) -> None:
    words = ("test", "cases.jsonl", "-k", "rm or ls", "--fail-uncovered")

    uncovered = loud.run(*words, "--json")
    excepted = loud.run(*words, "--except", "counts")

    report = json.loads(uncovered.stdout)
    assert (uncovered.returncode, report["passed"], report["failed"]) == (1, 2, 0)
    assert [one["hook"] for one in report["coverage"] if one["missing"]] == ["global/counts"]
    assert excepted.returncode == 0, excepted.stdout


def test_hooks_run_in_this_process_for_a_debugger(loud: Place) -> None:
    done = loud.run("test", "cases.jsonl", "--in-process", "--pdb", stdin="p event.tool_input\nq\n")
    as_json = loud.run("test", "cases.jsonl", "--in-process", "--json")

    assert done.returncode == 1
    assert "(Pdb) {'command': 'crash'}" in done.stdout
    assert "loud raised KeyError" in done.stderr
    assert "2 passed, 1 failed" in done.stdout
    assert [case["passed"] for case in json.loads(as_json.stdout)["cases"]] == [True, False, True]
    assert "looking at ls" in as_json.stderr


LEAVES = {
    "at once": "os._exit(0)", "by a signal": "os.kill(os.getpid(), 9)", "with its pipe": "os.closerange(3, 1000)",
    "by SystemExit in a thread's stead": "sys.exit(0)",
}  # fmt: skip


@pytest.mark.parametrize("how", LEAVES)
def test_a_hook_that_leaves_the_process_is_named_and_the_report_is_whole(how: str) -> None:
    code = LOUD.replace(
        'print("looking', f'if event.tool_input["command"] == "leave": import os; {LEAVES[how]}\n    print("looking'
    )
    with new_place({"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": code}) as place:
        cases = [bash("rm", "a"), bash("leave", "left"), bash("ls", "after", expect="pass")]
        (place.folder / "cases.jsonl").write_text("\n".join(cases))
        done = place.run("test", "cases.jsonl", "--in-process")

    assert done.returncode == 1, done.stderr
    assert "3 cases, 2 passed, 1 failed" in done.stdout
    assert "global/guards:loud failed (crash)" in done.stdout


@pytest.mark.parametrize(("expect", "code"), [("deny", 1), ("pass", 1)])
def test_a_hook_that_leaves_at_the_end_changes_no_report_and_is_named(expect: str, code: int) -> None:
    text = "import atexit, os\natexit.register(os._exit, 0)\n" + LOUD
    with new_place({"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": text}) as place:
        (place.folder / "cases.jsonl").write_text(bash("ls", "one", expect=expect))
        done = place.run("test", "cases.jsonl", "--in-process")

    assert (done.returncode, f"{int(expect == 'pass')} passed" in done.stdout) == (code, True), done.stderr
    assert "guards.py: a function that a hook left to run at the end" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-k", "nothing"], 66, "none of 3 cases matches"),
        (["-k", "("], 64, "cannot be read at its end"),
        (["--pdb"], 64, "--in-process --pdb"),
        (["-", "--in-process", "--pdb"], 64, "standard input is yours"),
        (["--junit", "/nowhere/report.xml"], 73, "/nowhere/report.xml cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(loud: Place, words: list[str], code: int, said: str) -> None:
    done = loud.run("test", "cases.jsonl", *words)

    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_case_that_the_matcher_leaves_out_is_not_one_that_the_hook_lets_pass() -> None:
    hooks = '[[source]]\npath = "g.py"\n'
    code = """from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash", where={"command": "rm"})
def no_rm(event):
    return deny("no")
"""
    other = json.dumps({"event": "pre_tool_use", "payload": {"tool_name": "Read"}, "expect": "pass"})
    with new_place({"hooks.toml": hooks, "g.py": code}) as place:
        found: list[int] = []
        for passed in (other, bash("ls", "ls", expect="pass")):
            (place.folder / "cases.jsonl").write_text("\n".join([bash("rm", "rm x"), passed]))
            found.append(place.run("test", "cases.jsonl", "--fail-uncovered").returncode)

    assert found == [1, 0]
