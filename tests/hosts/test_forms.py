"""The exact form of each answer, host by host; Claude Code's are in `test_claude_forms.py`."""

from __future__ import annotations

from typing import Any

from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import HookOutput
from support.honoured import said
from support.native import answered, decided, native
from support.tables import table

DENY = decided("deny", reason="no")
ASK = decided("ask", reason="sure?")
ALLOW = decided("allow")
PATCH = decided("pass", patch={"tool_input": {"command": "ls"}})
TEXT = decided("pass", append="remember")
RESUME = decided("pass", resume="tests fail")
HALT = decided("halt", reason="enough")

NO = "no (hooklatch)"
TOOL = "PreToolUse"
SHOWN = "hooklatch refused this call: no"
DENIED = {"hookEventName": TOOL, "permissionDecision": "deny", "permissionDecisionReason": NO}
CHANGED = {"command": "ls"}

FORMS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("codex", TOOL, DENY, {"hookSpecificOutput": DENIED}),
    ("codex", TOOL, ALLOW, {}),
    ("codex", TOOL, PATCH, {"hookSpecificOutput": {
        "hookEventName": TOOL, "permissionDecision": "allow", "updatedInput": CHANGED}}),
    ("codex", TOOL, TEXT, {"hookSpecificOutput": {"hookEventName": TOOL, "additionalContext": "remember"}}),
    ("codex", "UserPromptSubmit", DENY, {"decision": "block", "reason": NO}),
    ("codex", "PermissionRequest", ALLOW, {"hookSpecificOutput": {
        "hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}),
    ("codex", "PermissionRequest", ASK, {}),
    ("codex", "PreCompact", DENY, {"continue": False, "stopReason": NO}),
    ("codex", "PostToolUse", DENY, {"decision": "block", "reason": f"withheld by hooklatch: {NO}"}),
    ("codex", "Stop", RESUME, {"decision": "block", "reason": "tests fail"}),
    ("codex", "SessionStart", TEXT, {"hookSpecificOutput": {
        "hookEventName": "SessionStart", "additionalContext": "remember"}}),
    ("gemini", "BeforeTool", DENY, {"decision": "deny", "reason": NO, "systemMessage": SHOWN}),
    ("gemini", "BeforeTool", ASK, {
        "decision": "ask", "reason": "sure? (hooklatch)", "systemMessage": "hooklatch asks: sure?"}),
    ("gemini", "BeforeTool", ALLOW, {"decision": "allow"}),
    ("gemini", "BeforeTool", PATCH, {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": CHANGED}}),
    ("gemini", "BeforeTool", HALT, {
        "decision": "deny", "reason": "enough (hooklatch)", "continue": False, "stopReason": "enough (hooklatch)",
        "systemMessage": "hooklatch refused this call: enough"}),
    ("gemini", "BeforeAgent", DENY, {"decision": "deny", "reason": NO}),
    ("gemini", "AfterAgent", RESUME, {"decision": "deny", "reason": "tests fail"}),
    ("gemini", "AfterTool", DENY, {"decision": "deny", "reason": f"withheld by hooklatch: {NO}"}),
    ("copilot", "preToolUse", DENY, {"permissionDecision": "deny", "permissionDecisionReason": NO}),
    ("copilot", "preToolUse", PATCH, {"modifiedArgs": CHANGED}),
    ("copilot", TOOL, DENY, {"hookSpecificOutput": DENIED}),
    ("copilot", TOOL, PATCH, {"hookSpecificOutput": {"hookEventName": TOOL, "updatedInput": CHANGED}}),
    ("copilot", "permissionRequest", DENY, {"behavior": "deny", "message": NO}),
    ("copilot", "permissionRequest", ALLOW, {"behavior": "allow"}),
    ("copilot", "agentStop", RESUME, {"decision": "block", "reason": "tests fail"}),
    ("copilot", "sessionStart", TEXT, {"additionalContext": "remember"}),
    ("cursor", "preToolUse", DENY, {"permission": "deny", "user_message": SHOWN, "agent_message": NO}),
    ("cursor", "preToolUse", PATCH, {"updated_input": CHANGED}),
    ("cursor", "beforeSubmitPrompt", DENY, {"continue": False, "user_message": NO}),
    ("cursor", "stop", RESUME, {"followup_message": "tests fail"}),
    ("cursor", "sessionStart", TEXT, {"additional_context": "remember"}),
    ("opencode", "tool.execute.before", DENY, {"verdict": "deny", "reason": NO, "person": SHOWN}),
    ("opencode", "tool.execute.before", PATCH, {"verdict": "pass", "args": CHANGED}),
    ("opencode", "tool.execute.before", ALLOW, {"verdict": "pass"}),
    ("qwen", TOOL, DENY, {"hookSpecificOutput": DENIED}),
    ("qwen", "Stop", RESUME, {"decision": "block", "reason": "tests fail"}),
    ("kimi", "UserPromptSubmit", TEXT, {"message": "remember"}),
    ("grok", TOOL, DENY, {"hookSpecificOutput": DENIED}),
    ("grok", TOOL, PATCH, {"hookSpecificOutput": {"hookEventName": TOOL, "updatedInput": CHANGED}}),
    ("grok", "UserPromptSubmit", DENY, {"decision": "block", "reason": NO}),
    ("letta", TOOL, PATCH, {"hookSpecificOutput": {"hookEventName": TOOL, "updatedInput": CHANGED}}),
    ("auggie", "Stop", RESUME, {"hookSpecificOutput": {
        "hookEventName": "Stop", "decision": "block", "reason": "tests fail"}}),
    ("droid", TOOL, ALLOW, {"hookSpecificOutput": {"hookEventName": TOOL, "permissionDecision": "allow"}}),
    ("droid", "Stop", RESUME, {"decision": "block", "reason": "tests fail"}),
    ("cline", TOOL, DENY, {"cancel": True, "errorMessage": NO}),
    ("cline", TOOL, PATCH, {"overrideInput": CHANGED}),
    ("cline", "PostToolUse", TEXT, {"context": "remember"}),
]  # fmt: skip


@table(("host", "event", "decision", "expected"), FORMS)
def test_an_answer_has_the_hosts_form(host: str, event: str, decision: Any, expected: dict[str, Any]) -> None:
    assert said(answered(host, event, decision)) == expected


STRICTER: list[tuple[str, str, Any, dict[str, Any], str]] = [
    ("codex", TOOL, ASK, {}, "cannot ask"),
    ("codex", TOOL, HALT, {}, "cannot end the run"),
    ("qwen", TOOL, PATCH, {}, "cannot change tool_input"),
    ("cursor", "preToolUse", ASK, {}, "cannot ask"),
    ("kimi", TOOL, PATCH, {}, "cannot change tool_input"),
    ("goose", TOOL, PATCH, {}, "cannot change tool_input"),
    ("grok", TOOL, ASK, {}, "cannot ask"),
    ("droid", TOOL, PATCH, {"tool_input": {"command": "a", "timeout": 1}}, "cannot remove the keys"),
    ("opencode", "tool.execute.before", ASK, {}, "cannot ask"),
    ("gemini", "BeforeTool", PATCH, {"tool_input": {"command": "rm", "timeout": 3}}, "cannot remove"),
    ("gemini", "BeforeAgent", decided("pass", patch={"prompt": "p"}), {}, "cannot change prompt"),
    ("cursor", "beforeShellExecution", PATCH, {}, "cannot change tool_input"),
    ("copilot", "permissionRequest", PATCH, {}, "cannot change tool_input"),
]


@table(("host", "event", "decision", "document", "why"), STRICTER)
def test_what_a_host_cannot_be_told_becomes_a_deny_that_says_so(
    host: str, event: str, decision: Any, document: dict[str, Any], why: str
) -> None:
    fit = find_host(host).fit(native(host, event, **document), decision)

    assert fit.verdict == "deny"
    assert why in fit.warnings[-1]
    assert why in (fit.reason or "")
    assert fit.patch is None


def test_qwen_in_its_yolo_mode_is_told_that_a_question_has_nobody_to_answer_it() -> None:
    yolo, default = (
        find_host("qwen").fit(native("qwen", TOOL, permission_mode=mode), ASK) for mode in ("yolo", "default")
    )

    assert (default.verdict, yolo.verdict) == ("ask", "deny")
    assert yolo.reason == "Not run: it needs the user's yes, and Qwen Code asks nobody in its YOLO mode: sure?"


def test_gemini_may_be_told_to_change_what_was_there() -> None:
    fit = find_host("gemini").fit(native("gemini", "BeforeTool", tool_input={"command": "rm"}), PATCH)

    assert fit.verdict == "pass"


def test_an_allow_that_a_host_does_not_take_is_no_more_than_a_pass() -> None:
    fit = find_host("codex").fit(native("codex", TOOL), ALLOW)

    assert fit.verdict == "pass"
    assert "takes no allow" in fit.warnings[0]


def test_copilot_is_told_of_a_failed_tool_by_the_exit_code() -> None:
    output = answered("copilot", "postToolUseFailure", TEXT)

    assert output == HookOutput(exit_code=2, stderr="remember\n")


def test_an_agent_of_ones_own_gets_the_decision_and_an_exit_code() -> None:
    passed, denied = (answered("generic", "pre_tool_use", one) for one in (PATCH, DENY))

    assert (passed.exit_code, said(passed)["patch"]) == (0, {"tool_input": CHANGED})
    assert (denied.exit_code, said(denied)["verdict"], denied.stderr) == (2, "deny", f"{NO}\n")
