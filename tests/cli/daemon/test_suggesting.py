"""The rules that `suggest` writes: where an exception goes in a guard, and what is never allowed."""

from __future__ import annotations

from typing import Any

import pytest

from hooklatch.cli.daemon.suggest import split_lines
from hooklatch.cli.daemon.suggesting import JudgedCall, insert_exception, may_be_allowed

CALL = JudgedCall("pre_tool_use", "Bash", "shell", "/p", None, '{"command": "ls"}', "ls")
FILE = JudgedCall("pre_tool_use", "Write", "write", "/p", "a.lock", "{}", "a.lock")
STARTS = (
    "def f(e):\n    return 1\n",
    "def f(e):\n    '''What\n    it is.'''\n    # why\n    return 1\n",
    "async def f(e, /):\n\treturn 1\n",
    "@g\n@h(1)\ndef f(e):\n    @wrapped\n    def inner():\n        return allow\n    return inner()\n",
    "# é\n'''a'''\nx = '''\x0c\n'''\ndef f(e): # c\n  if x:\n      return os\n  return allow\n",
    "def f(e):\r\n    return 1\r\n",
    "\ufeffdef f(e):\n    return 1",
    "def f(e):\n    return 'no end of line'",
)
OTHERS = (
    "def f(e): return 1\n",
    "def f(e):\n    'only this'\n",
    "def f(e):\n    'a'; return 1\n",
    "def f():\n    return 1\n",
    "def f(e):\n    return 1\ndef f(e):\n    return 2\n",
    "class C:\n    def f(e):\n        return 1\n",
    "f = lambda e: 1\n",
    "def f(e):\n    return (\n",
)


def call_written(data: bytes, **event: Any) -> Any:
    """Call the function of a file that has an exception, without running any more of it."""
    names: dict[str, Any] = {}
    exec(compile(data, "guard", "exec"), names)  # it is a text of this file
    return names["f"](type("Event", (), {"event": "pre_tool_use", "tool_name": "Bash", "cwd": "/p", **event})())


@pytest.mark.parametrize("text", STARTS)
def test_an_exception_is_added_and_nothing_else_of_the_file_is_changed(text: str) -> None:
    before = text.encode()

    after = insert_exception(before, "f", CALL, "as before")

    assert after is not None
    assert after.endswith(before.splitlines(keepends=True)[-1])
    lines = before.splitlines(keepends=True)
    assert [line for line in after.splitlines(keepends=True) if line in lines] == lines
    assert after.count(b"\r\n") in (0, len(after.splitlines()))
    assert insert_exception(after, "f", CALL, "as before, once more") is None
    assert insert_exception(after, "f", CALL._replace(given='{"command": "pwd"}'), "as before") is not None


@pytest.mark.parametrize("text", OTHERS)
def test_a_file_in_which_the_place_is_not_sure_takes_no_exception(text: str) -> None:
    assert insert_exception(text.encode(), "f", CALL, "as before") is None


@pytest.mark.parametrize(
    "text", ["'", '"""', "\\", "\n", "\r", "\x00", "\u2028", "{x}", "\\N{DIGIT ONE}", "\udc80", "#"]
)
def test_no_text_leaves_its_literal(text: str) -> None:
    hostile = f"{text}{text}'); raise SystemExit #\n{text}"
    given = CALL._replace(cwd=hostile, tool=hostile, event=hostile)

    after = insert_exception(b"def f(e):\n    return 1\n", "f", given, hostile)

    assert after is not None
    assert after.isascii()
    ours = {"event": hostile, "tool_name": hostile, "cwd": hostile}
    answer = call_written(after, tool_input={"command": "ls", "timeout": 5}, **ours)
    assert (answer.verdict, answer.reason) == ("allow", hostile)
    assert call_written(after, tool_input={"command": "ls", "timeout": 5}, **{**ours, "cwd": text}) == 1
    assert call_written(after, tool_input={"command": hostile}, **ours) == 1
    assert call_written(after, tool_input=None, **ours) == 1


def denial(subject: str, **more: Any) -> dict[str, Any]:
    return {"event": "pre_tool_use", "verdict": "deny", "cause": "policy", "cwd": "/q", "tool": "Bash",
            "subject": subject, **more}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "denied", "expected"),
    [
        (CALL, denial("ls"), False),
        (CALL, denial("ls", tool="Shell", cwd=None), False),
        (CALL, denial("ls -l"), True),
        (CALL, denial("ls", event="permission_request"), True),
        (CALL, denial("l…"), False),  # it was cut, and may have been the same
        (CALL, denial("cat…"), True),
        (CALL, denial("Bash"), False),  # what was judged is not on record
        (CALL, denial("pre_tool_use", tool=None), False),
        (CALL._replace(subject="ls…"), denial("ls -l"), False),
        (FILE, denial("/p/a.lock", tool="Edit"), False),
        (FILE, denial("x/../a.lock", tool="Edit", cwd="/p"), False),
        (FILE, denial("b.py a.lock", tool="apply_patch"), False),
        (FILE, denial("/q/b.lock", tool="Edit"), True),
    ],
)
def test_nothing_is_allowed_that_was_or_may_have_been_denied(
    call: JudgedCall, denied: dict[str, Any], expected: bool
) -> None:
    assert may_be_allowed(call, [denial("else"), denied]) is expected


def test_lines_are_those_of_python() -> None:
    text = "a\u2028b\x0cc\x85d\x1ee\r\nf\rg\n\n"

    assert split_lines(text) == ["a\u2028b\x0cc\x85d\x1ee", "f", "g", ""]
