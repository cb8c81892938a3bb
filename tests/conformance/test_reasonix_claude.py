"""Reasonix's own cases on a real daemon: hooks in Claude Code's form, which its present line runs too (RG)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.native import Place
from conformance.rows.reasonix import ROWS
from conformance.runs.reasonix import EDIT, answered, run, seen, settings, specific
from conformance.table import Checks

check = Checks(ROWS)


# -- imported -----------------------------------------------------------------------------------------------------


@check("RG-05")
async def claude_settings(place: Place) -> None:
    handlers = {
        "PostToolUse": [
            {"matcher": "bash", "hooks": [{"type": "command", "command": "cat > tool; pwd > folder", "timeout": 2}]}
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "cat > prompt"}]}],
    }
    place.write("CLAUDE.md", "be brief")
    hooks = settings(**handlers)

    async with place.session("reasonix", *hooks) as client:
        await client.fire("PostToolUse", toolName="bash", toolArgs={"command": "ls"}, toolResult="a.ts")
        await client.fire("UserPromptSubmit", prompt="hello", turn=1)

    assert [(hook["payload"], hook["output"]) for hook in hooks] == [("claude", "json")] * 2
    assert hooks[0]["timeout"] == 2.0
    tool = json.loads((place.folder / "tool").read_text())
    assert (tool["hook_event_name"], tool["tool_name"], tool["tool_response"]) == ("PostToolUse", "bash", "a.ts")
    assert json.loads((place.folder / "prompt").read_text())["prompt"] == "hello"
    assert (place.folder / "folder").read_text() == f"{place.folder}\n"


@check("RG-11")
async def names_of_tools(place: Place) -> None:
    handler = [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]
    by_tool = {}
    async with place.session("reasonix", *settings(PreToolUse=handler)) as client:
        for tool in ("Bash", "bash"):
            by_tool[tool] = (await client.render("PreToolUse", toolName=tool, toolArgs={}))["blocked"]
    native = await run(place, "PreToolUse", {"match": "bash", "command": "exit 2"}, toolName="Bash", toolArgs={})

    assert by_tool == {"Bash": True, "bash": False}
    assert native["blocked"] is False


# -- what they read -----------------------------------------------------------------------------------------------

INPUTS: list[Any] = [
    {"path": "a.ts", "content": "x"},
    {"path": "/abs/a.ts"},
    {"path": "nb.ipynb", "mode": "delete"},
    {"ids": ["1"], "timeout": 3},
    {"tasks": [{"prompt": "a"}, {"prompt": "b"}]},
    {},
    "no object",
]


@check("RG-12", "RG-13")
async def inputs_are_the_hosts(place: Place) -> None:
    for given in INPUTS:
        document = await seen(place, "PreToolUse", toolName="write_file", toolArgs=given)
        assert (document["tool_name"], document["tool_input"]) == ("write_file", given)


@check("RG-22")
async def claude_keys(place: Place) -> None:
    document = await seen(
        place,
        "PostToolUseFailure",
        **EDIT,
        error="exit status 1",
        isInterrupt=False,
        sessionId="s-9",
        cwd=str(place.folder),
    )

    assert {"session_id", "cwd", "hook_event_name", "tool_name", "tool_input", "error", "is_interrupt"} <= set(document)
    assert document["tool_name"] == "edit_file"
    assert not {"toolName", "toolArgs", "isInterrupt", "event"} & set(document)


@check("RG-23")
async def claude_guard(place: Place) -> None:
    handler = [{"matcher": "write_file", "hooks": [{"type": "command", "command": "cat > seen; exit 2"}]}]

    async with place.session("reasonix", *settings(PreToolUse=handler)) as client:
        answer = await client.render("PreToolUse", toolName="write_file", toolArgs={"path": "a.ts"})

    assert answer["blocked"]
    assert json.loads((place.folder / "seen").read_text())["tool_input"] == {"path": "a.ts"}


@check("RG-24")
async def responses_are_the_hosts(place: Place) -> None:
    for result in ("plain", '{"json": true}', {"stdout": "x"}):
        document = await seen(place, "PostToolUse", **EDIT, toolResult=result)
        assert document["tool_response"] == result
    assert "tool_response" not in await seen(place, "PreToolUse", **EDIT)


# -- what they say ------------------------------------------------------------------------------------------------

ANSWERS = [
    ("PreToolUse", specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no"), "deny", "no"),
    ("PreToolUse", specific("PreToolUse", permissionDecision="allow"), "allow", ""),
    ("PermissionRequest", specific("PermissionRequest", decision={"behavior": "deny", "message": "no"}), "deny", "no"),
    ("PreToolUse", "plain text", "deny", None),
    ("PostToolUse", specific("PostToolUse", permissionDecision="deny"), "pass", None),
    ("UserPromptSubmit", json.dumps({"decision": "block", "reason": "no"}), "deny", "no"),
    ("UserPromptSubmit", json.dumps({"decision": "approve"}), "pass", None),
]


@check("RG-15")
async def json_denies(place: Place) -> None:
    for event, printed, verdict, reason in ANSWERS:
        decision = await answered(place, event, printed)
        assert decision["verdict"] == verdict, printed
        assert decision["rendered"]["blocked"] is (verdict == "deny")
        if reason:
            assert decision["rendered"]["stderr"] == reason


@check("RG-16")
async def json_allows(place: Place) -> None:
    allow, deny = {"behavior": "allow"}, {"behavior": "deny", "message": "no"}

    request = await answered(place, "PermissionRequest", specific("PermissionRequest", decision=allow))
    denied = await answered(place, "PermissionRequest", specific("PermissionRequest", decision=deny))
    before = await answered(place, "PreToolUse", specific("PreToolUse", permissionDecision="allow"))

    assert [decision["verdict"] for decision in (request, denied, before)] == ["allow", "deny", "allow"]
    assert before["rendered"]["decision"] == "pass"


@check("RG-17")
async def session_start(place: Place) -> None:
    context = await answered(place, "SessionStart", specific("SessionStart", additionalContext="use tabs"))
    plain = await answered(place, "SessionStart", "  use tabs  \n")
    other = await answered(place, "SessionStart", specific("Stop", additionalContext="use tabs"))
    broken = await answered(place, "SessionStart", '{"hookSpecificOutput": ')

    assert [decision["rendered"]["stdout"] for decision in (context, plain, other, broken)] == [
        "use tabs", "use tabs", "", "",
    ]  # fmt: skip
    for decision in (other, broken):
        assert decision["rendered"]["decision"] == "warn"
        assert decision["rendered"]["message"]


@check("RG-19")
async def native_output_is_no_answer(place: Place) -> None:
    deny = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")

    claude = await answered(place, "PreToolUse", deny)
    native = await answered(place, "PreToolUse", deny, payload="reasonix", output="exit")

    assert (claude["rendered"]["blocked"], native["rendered"]["blocked"]) == (True, False)


@check("RG-20")
async def updated_input(place: Place) -> None:
    changed = specific("PreToolUse", updatedInput={"path": "b.ts"})
    both = specific("PreToolUse", permissionDecision="deny", updatedInput={"path": "b.ts"})

    taken = await answered(place, "PreToolUse", changed)
    denied = await answered(place, "PreToolUse", both)
    absent = await answered(place, "PreToolUse", "{}")

    assert (taken["verdict"], taken["patch"]) == ("pass", {"tool_input": {"path": "b.ts"}})
    assert taken["rendered"]["blocked"] is True
    assert (denied["verdict"], denied["patch"], absent["patch"]) == ("deny", None, None)


@check("RG-21")
async def claude_permission(place: Place) -> None:
    blocked = await run(place, "PermissionRequest", {"command": "exit 2", "payloadFormat": "claude"})
    allowed = await answered(place, "PermissionRequest", specific("PermissionRequest", decision={"behavior": "allow"}))

    assert blocked["blocked"] is True
    assert (allowed["verdict"], allowed["rendered"]["blocked"]) == ("allow", False)


@check("RG-32")
async def text_for_the_model(place: Place) -> None:
    text = "\x1b[31mformatted\x00"

    opted = await answered(place, "PostToolUse", specific("PostToolUse", additionalContext=text))
    other = await answered(place, "PostToolUse", "formatted", payload="reasonix", output="exit")

    assert (opted["append"], other["append"]) == (text, None)
    assert any("append was lost" in warning for warning in opted["warnings"])


@pytest.mark.parametrize("holds", check.cases())
async def test_a_row_of_hooks_in_claude_form(holds: Any, place: Place) -> None:
    await holds(place)
