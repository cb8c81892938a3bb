"""What each form of the entry gives a host in place of a tool's result, where nobody decided about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hooklatch.hosts.find import find_host
from support.entries import FORMS, run
from support.native import native
from support.tables import table

pytestmark = pytest.mark.parametrize("form", FORMS)
CLAUDE = find_host("claude-code")
SECRET = 'a \\ "secret" é'

RESULTS: dict[str, Any] = {
    "a shell's": {"stdout": SECRET, "stderr": SECRET, "interrupted": False, "isImage": True},
    "a file": {"type": "image", "file": {"base64": SECRET, "type": "image/png"}},
    "an MCP server's": [{"type": "text", "text": SECRET}, {"type": "text", "text": SECRET}],
    "a text": SECRET,
    "no text": "",
    "a search": {"mode": "content", "numFiles": 3, "filenames": [SECRET, SECRET], "appliedLimit": None},
    "an edit": {
        "filePath": SECRET, "originalFile": None, "userModified": False, "type": "update",
        "structuredPatch": [{"oldStart": -1.5, "lines": [SECRET, "x"]}, {"oldStart": 2, "lines": []}],
    },
    "a word that is long": {"status": "a" * 33, "type": "Not a word", "mode": ""},
    "nothing": None,
    "nothing in it": {},
    "empty lists": {"a": [], "b": [[]], "c": {"d": {}}},
}  # fmt: skip


def withheld(form: str, folder: str, document: bytes) -> dict[str, Any]:
    """Return what the entry says where no daemon listens."""
    code, stdout, stderr = run(form, folder, document, host="claude-code", event="PostToolUse")
    assert (code, stderr, stdout.count(b"\n")) == (0, b"", 1)
    said: dict[str, Any] = json.loads(stdout)
    return said


@table("name", RESULTS)
@table("indent", [None, 1])
def test_a_result_is_replaced_in_its_own_shape_as_the_daemon_does_it(
    form: str, folder: str, name: str, indent: int | None
) -> None:
    document = {
        "tool_name": "T",
        "tool_input": {"tool_response": "x", "n": [1, {"a": "]}"}]},
        "tool_response": RESULTS[name],
    }

    said = withheld(form, folder, json.dumps(document, indent=indent).encode())

    specific = said.pop("hookSpecificOutput")
    assert said == {}
    assert SECRET not in str(specific)
    text = next((found for found in texts(specific["updatedToolOutput"]) if found.startswith("withheld")), "")
    assert text.startswith("withheld by hooklatch: hooklatch is not running. ") or name in (
        "nothing", "nothing in it", "empty lists",
    )  # fmt: skip
    event = native("claude-code", "PostToolUse", **document)
    if RESULTS[name] is not None:
        assert specific["updatedToolOutput"] == CLAUDE.withhold(event.decode_value("tool_response"), text)


def texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        below = value.values() if isinstance(value, dict) else value
        return [text for one in below for text in texts(one)]
    return [value] if isinstance(value, str) else []


BROKEN = {
    "no JSON": b'{"tool_response": {"a": ',
    "no result": b'{"tool_name": "Bash"}',
    "a list": b'["tool_response"]',
    "a text that does not end": b'{"tool_response": "a',
    "too deep": b'{"tool_response": {"a":' + b'{"a":' * 200 + b'"x"' + b"}" * 202,
    "nothing": b"",
}


@table("name", BROKEN)
def test_a_result_that_cannot_be_read_ends_the_run(form: str, folder: str, name: str) -> None:
    said = withheld(form, folder, BROKEN[name])

    assert said["continue"] is False
    assert said["stopReason"].startswith("withheld by hooklatch: ")


@table(
    ("host", "event", "key"),
    [
        ("codex", "PostToolUse", "reason"),
        ("gemini", "AfterTool", "reason"),
        ("cursor", "postToolUse", "updated_mcp_tool_output"),
    ],
)
def test_hosts_that_take_a_text_get_one(form: str, folder: str, host: str, event: str, key: str) -> None:
    code, stdout, _ = run(form, folder, b'{"tool_response": "x"}', host=host, event=event)

    assert code == 0
    assert "withheld by hooklatch: hooklatch is not running. " in str(json.loads(stdout)[key])
