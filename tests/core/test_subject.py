"""What was judged, in a few words: of each kind of tool and event, of payloads that are cut, and of hostile ones."""

from __future__ import annotations

import json

import pytest

from hooklatch.core.subject import MAX_SUBJECT, describe_subject, read_subject
from support.tables import table


def tool(name: str, **tool_input: object) -> dict[str, object]:
    return {"tool_name": name, "tool_input": tool_input}


SUBJECTS = [
    ("pre_tool_use", tool("Bash", command="git push --force origin main"), "git push --force origin main"),
    ("pre_tool_use", tool("exec_command", cmd=["rm", "-rf", "a b"]), "rm -rf 'a b'"),
    ("pre_tool_use", tool("Write", file_path="/srv/a.py", content="x"), "/srv/a.py"),
    ("pre_tool_use", tool("apply_patch", command="*** Begin Patch\n*** Update File: a\n*** Add File: b\n"), "a b"),
    ("pre_tool_use", tool("Grep", pattern="TODO", path="src"), "TODO src"),
    ("pre_tool_use", tool("WebFetch", url="https://example.org/x", prompt="sum it up"), "https://example.org/x"),
    ("pre_tool_use", tool("Task", subagent_type="tester", prompt="run all"), "tester run all"),
    ("pre_tool_use", tool("mcp__github__create_issue", title="x"), 'github create_issue {"title":"x"}'),
    ("pre_tool_use", tool("Mystery", colour="red"), "red"),
    ("pre_tool_use", tool("Mystery", colour="red", n=1), '{"colour":"red","n":1}'),
    ("pre_tool_use", tool("Mystery"), "Mystery"),
    ("post_tool_use", {"tool_name": "Bash", "tool_args": {"command": "ls"}}, "ls"),
    ("user_prompt_submit", {"prompt": "delete all"}, "delete all"),
    ("notification", {"message": "it waits", "notification_type": "idle"}, "it waits"),
    ("stop", {}, "stop"),
    ("pre_tool_use", None, "pre_tool_use"),
]


@table(("event", "payload", "subject"), SUBJECTS)
def test_a_subject_is_what_was_judged(event: str, payload: object, subject: str) -> None:
    assert describe_subject(event, None, payload) == subject


HOSTILE = [
    (tool("Bash", command="ls\x1b]0;x\x07\x1b[2J\nrm \u202ex"), r"ls\x1b]0;x\x07\x1b[2J\nrm \u202ex"),
    ({**tool("Bash", command="rm x"), "tool_args": {"command": "ls"}, "tool_kind": "read"}, "rm x"),  # what runs counts
    (tool("Bash", command="ls", cmd="rm x"), '{"command":"ls","cmd":"rm x"}'),  # two commands: both are shown
    (tool("Bash", command=7), '{"command":7}'),
    ({"tool_name": ["Bash"], "tool_input": "rm"}, "pre_tool_use"),
    ({"tool_name": "Write", "tool_input": {"omitted_bytes": 5000}}, "Write (5000 bytes)"),
    (tool("Bash", command=""), '{"command":""}'),
]


@table(("payload", "subject"), HOSTILE)
def test_a_hostile_payload_writes_nothing_but_its_subject(payload: object, subject: str) -> None:
    assert describe_subject("pre_tool_use", None, payload) == subject


def test_a_long_subject_is_cut_once_its_characters_are_visible() -> None:
    shown = describe_subject("pre_tool_use", None, tool("Bash", command="\x1b" * 1000))

    assert (len(shown), shown[-1]) == (MAX_SUBJECT, "…")
    assert shown.isprintable()


def test_of_an_excerpt_that_is_cut_anywhere_the_subject_is_what_is_there_of_it() -> None:
    payload = {"cwd": "/srv", "n": [1, {"x": 2}], **tool("Bash", description='a "{', command='echo "☃\\n" > b')}
    whole, text = 'echo "☃\\n" > b', json.dumps(payload, ensure_ascii=False)

    for end in range(len(text) + 1):
        subject = read_subject({"event": "pre_tool_use", "excerpt_cut": text[:end]})
        command = subject.removesuffix("…")

        assert whole.startswith(command) or command in ("pre_tool_use", "Bash", "Bas", "Ba", "B") or command[0] == "{"
    assert read_subject({"event": "pre_tool_use", "excerpt_cut": text[:-6]}) == 'echo "☃\\n" …'


@pytest.mark.parametrize("event", [None, 7, "x"])
def test_a_record_without_fields_has_a_subject_all_the_same(event: object) -> None:
    assert read_subject({"event": event, "tool": 3, "excerpt": [1]}) == str(event or "")
