"""The rules that `suggest` writes: where an exception goes in a guard, and what is never allowed."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.cli.daemon.suggest import split_lines
from hooklatch.cli.daemon.suggesting import JudgedCall, insert_exception, may_be_allowed
from hooklatch.guards.answered import describe_call
from hooklatch_worker.author.events import PreToolUse
from hooklatch_worker.author.verdicts import Verdict

CALL = JudgedCall("pre_tool_use", "Bash", "shell", "/p", None, '{"tool_input": {"command": "ls"}}', "ls")
FILE = JudgedCall("pre_tool_use", "Write", "write", "/p", "a.lock", "{}", "a.lock")
STARTS = (
    "def f(e):\n    return 1\n",
    "def f(e):\n    '''What\n    it is.'''\n    # why\n    return 1\n",
    "async def f(e, /):\n\treturn 1\n",
    "from hooklatch import hook\n@hook('a')\n# why\n@hook('b')\ndef f(e):\n"
    "    @wrapped\n    def inner():\n        return allow\n    return inner()\n",
    "# é\n'''a'''\nx = '''\x0c\n'''\ndef f(e): # c\n  if x:\n      return os\n  return allow\n",
    "def f(e):\r\n    return 1\r\n",
    "def f(e):\n    return 'no end of line'",
    "def f(e): return 1\n",
    "from hooklatch import hook, ask as a\nimport os.path\ndef f(hooks): return os.hook(hook=1)\n",
)
MARKED = "from hooklatch import hook\n@hook('a')\ndef f(e):\n    return 1\n"
OTHERS = (
    "\ufeffdef f(e):\n    return 1",
    # An ask may become a denial here, which an allow would not.
    MARKED.replace("@hook", "@strict\n@hook"),
    MARKED.replace("@hook", "@strict()\n@hook"),
    MARKED.replace("hooklatch", "elsewhere"),
    MARKED.replace("hooklatch", ".hooklatch"),
    MARKED.replace("hook\n@", "strict as hook\n@"),
    MARKED.replace("@", "hook = strict(hook)\n@", 1),
    MARKED.replace("@", "from elsewhere import *\n@", 1),
    MARKED.replace("@", "import hook.strict\n@", 1),
    MARKED.replace("@", "def allow_same_call(**_): return strict\n@", 1),
    MARKED + "f = strict(f)\n",
    MARKED + "def g(e):\n    return deny('no') if f(e) else None\n",
    "def f(e):\n    return 1\ndef f(e):\n    return 2\n",
    "class C:\n    def f(e):\n        return 1\n",
    "f = lambda e: 1\n",
    "def f(e):\n    return (\n",
)


def call_written(data: bytes, *, event: str = "pre_tool_use", cwd: str = "/p", **payload: Any) -> Any:
    """Call the function of a file that has an exception."""
    names: dict[str, Any] = {}
    exec(compile(data, "guard", "exec"), names)  # it is a text of this file
    made = PreToolUse(event, {"tool_name": "Bash", **payload}, {"cwd": cwd}, None, None, False, None)
    answer = names["f"](made)
    return trio.run(wait_for, answer) if isawaitable(answer) else answer


async def wait_for(answer: Awaitable[Any]) -> Any:
    return await answer


ASKING = "from hooklatch import ask, deny, halt, hook\n\n\n@hook('pre_tool_use')\ndef f(event):\n"
ANSWERS = """\
    said = event.tool_input["description"]
    return {"ask": ask("sure?"), "deny": deny("d"), "halt": halt("h"), "odd": 5}.get(said)
"""


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
    assert (
        insert_exception(after, "f", CALL._replace(given='{"tool_input": {"command": "pwd"}}'), "as before") is not None
    )


@pytest.mark.parametrize("text", OTHERS)
def test_a_file_in_which_the_place_is_not_sure_takes_no_exception(text: str) -> None:
    assert insert_exception(text.encode(), "f", CALL, "as before") is None


@pytest.mark.parametrize(
    "text", ["'", '"""', "\\", "\n", "\r", "\x00", "\u2028", "{x}", "\\N{DIGIT ONE}", "\udc80", "#"]
)
def test_no_text_leaves_its_literal(text: str) -> None:
    hostile = f"{text}{text}'); raise SystemExit #\n{text}"
    given = CALL._replace(cwd=hostile, tool=hostile, event=hostile)

    after = insert_exception(f"{ASKING}    return ask('sure?')\n".encode(), "f", given, hostile)

    assert after is not None
    assert after.isascii()
    ours = {"event": hostile, "tool_name": hostile, "cwd": hostile}
    answer = call_written(after, tool_input={"command": "ls"}, **ours)
    assert (answer.verdict, answer.reason) == ("allow", hostile)
    assert call_written(after, tool_input={"command": "ls"}, **{**ours, "cwd": text}).verdict == "ask"
    assert call_written(after, tool_input={"command": hostile}, **ours).verdict == "ask"
    assert call_written(after, tool_input=None, **ours).verdict == "ask"


@pytest.mark.parametrize("start", ["", "async "])
def test_an_exception_changes_an_ask_and_no_other_answer(start: str) -> None:
    text = ASKING.replace("def", f"{start}def") + ANSWERS

    after = insert_exception(text.encode(), "f", CALL, "as before")

    assert after is not None
    said = [
        (answer.verdict, answer.reason) if isinstance(answer, Verdict) else answer
        for word in ("ask", "deny", "halt", "none", "odd", "ask")
        for answer in [call_written(after, session_id="s", tool_input={"command": "ls", "description": word})]
    ]
    assert said == [("allow", "as before"), ("deny", "d"), ("halt", "h"), None, 5, ("allow", "as before")]
    assert call_written(after, tool_input={"command": "ls", "timeout": 5, "description": "ask"}).verdict == "allow"
    others: list[dict[str, Any]] = [{"tool_args": {"command": "rm"}}, {"tool_kind": "other"}]
    for other in others:
        assert call_written(after, **other, tool_input={"command": "ls", "description": "ask"}).verdict == "ask"


def test_an_exception_for_a_file_is_for_its_content_and_for_no_link(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "dir").mkdir()
    (folder / "other/below").mkdir(parents=True)
    (folder / "link").symlink_to("nowhere")
    cases = {
        "dir/a.lock": "allow", "./dir//a.lock": "allow", "dir": "allow", "dir/../a.lock": "ask", "~/a.lock": "ask",
        "link": "ask", "link/a.lock": "ask", "none/a.lock": "ask", "\0": "ask", "\udc80/a": "ask",
    }  # fmt: skip

    def answer(path: str, content: str = "x", approved: str = "x") -> str:
        call = describe_call({"tool_name": "Write", "tool_input": {"file_path": path, "content": approved}})
        made = FILE._replace(cwd=str(folder), path=path, given=call)
        after = insert_exception(f"{ASKING}    return ask('sure?')\n".encode(), "f", made, "as before")
        assert after is not None
        given = {"file_path": path, "content": content}
        return str(call_written(after, cwd=str(folder), tool_name="Write", tool_input=given).verdict)

    assert {path: answer(path) for path in cases} == cases
    assert answer("dir/a.lock", content="SECRET") == "ask"
    (folder / "dir").rename(folder / "was")
    (folder / "dir").symlink_to("other/below")
    assert {path: answer(path) for path in cases} == dict.fromkeys(cases, "ask")


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
