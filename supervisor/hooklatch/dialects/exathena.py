"""The ExAthena dialect: regular expressions that search; answers are ok, deny, halt, inject, transform or augment."""

from __future__ import annotations

from typing import Any, Final

from hooklatch.dialects.dialect import Answers, Dialect, EventMapping, NativeEvent, feed, keep_names

__all__ = ["EXATHENA"]

SESSION = keep_names("session_id", "parent_session_id")
CALL = keep_names("tool_name", "tool_use_id")
ARGUMENTS = {**CALL, "arguments": "tool_input"}
SUBAGENT = {"subagent_id": "subagent_id", "agent": "agent_type", "isolation": "isolation"}
END = keep_names("finish_reason", "result")
CHAT = {**SESSION, **keep_names("request", "messages")}
HALT = {"halt": "halt"}
REFUSE = {"deny": "deny", "halt": "halt"}
INJECT = {"inject": "inject"}


def make_listening_event(event: str, keys: dict[str, str], **outputs: str) -> NativeEvent:
    """Return an event that cannot be refused; a halt asks to stop the run, if the catalogue allows it."""
    heard = feed(event, keys, flow="sequential" if event != "pre_iteration" else None)
    return NativeEvent(feeds=(heard,), answers=Answers(words=HALT if "halt" in heard.verdicts else {}, outputs=outputs))


def make_gate_event(*feeds: EventMapping, words: dict[str, str], patch: dict[str, str] | None = None) -> NativeEvent:
    """Return an event that can be refused; its hooks can inject wherever the catalogue allows it."""
    outputs = INJECT if feeds[0].event != "permission_request" else {}
    return NativeEvent(feeds=feeds, answers=Answers(words=words, patch=patch or {}, outputs=outputs))


EVENTS: Final[dict[str, Any]] = {
    "SessionStart": make_listening_event("session_start", {**SESSION, "source": "source"}, **INJECT),
    "SessionEnd": make_listening_event("session_end", {**SESSION, **END}),
    "UserPromptSubmit": make_gate_event(
        # Each hook is given the prompt as it came, and the last one's transform counts.
        feed("user_prompt_submit", {**SESSION, "prompt": "prompt"}, view="original", combine="last_wins"),
        words=HALT,
        patch={"prompt": "transform"},
    ),
    "PreIteration": make_listening_event(
        "pre_iteration",
        {**SESSION, **keep_names("iteration", "unproductive_iterations", "fingerprint")},
        **INJECT,
    ),
    "ChatParams": make_gate_event(
        feed("pre_model", CHAT, fills={"model_id": "request.model"}),
        feed("model_request", CHAT, fills={"model_id": "request.model"}, flow="sequential", when="passed"),
        words=HALT,
    ),
    "PreToolUse": make_gate_event(feed("pre_tool_use", CALL, gathers="tool_input", nested="arguments"), words=REFUSE),
    "PostToolUse": make_listening_event(
        "post_tool_use", {**ARGUMENTS, "result": "tool_response", "cwd": "cwd"}, append="augment", **INJECT
    ),
    "PostToolUseFailure": make_listening_event("post_tool_use_failure", {**ARGUMENTS, "reason": "error"}, **INJECT),
    "PermissionRequest": make_gate_event(feed("permission_request", ARGUMENTS), words=REFUSE),
    "PermissionDenied": make_listening_event("permission_denied", {**ARGUMENTS, "reason": "reason"}, **INJECT),
    "ToolDenied": make_listening_event("permission_denied", {**ARGUMENTS, "denial": "denial"}, **INJECT),
    "Stop": make_listening_event("stop", {**SESSION, **END}),
    "StopFailure": make_listening_event("stop_failure", {**SESSION, **END}),
    "SubagentStart": make_gate_event(
        feed("subagent_start", {**SESSION, **SUBAGENT, "prompt": "prompt"}),
        feed("subagent_started", {**SESSION, **SUBAGENT, "prompt": "prompt"}, flow="sequential", when="passed"),
        words=HALT,
    ),
    "SubagentStop": make_listening_event(
        "subagent_stop", {**SESSION, **SUBAGENT, **keep_names("outcome", "result")}, **INJECT
    ),
    # A run only compacts automatically there, so the trigger has a default that matchers can match.
    "PreCompact": make_gate_event(
        feed("pre_compact", keep_names("trigger", "estimate"), defaults={"trigger": "auto"}), words=HALT
    ),
    "PreCompactStage": make_listening_event("compact_stage", keep_names("stage", "estimate"), **INJECT),
    "PostCompact": make_listening_event("post_compact", keep_names("metadata"), **INJECT),
    "Notification": make_listening_event("notification", keep_names("message", "notification_type"), **INJECT),
}

EXATHENA: Final = Dialect(
    name="exathena",
    style="tagged",
    matcher="search",
    registration={"matcher": "match"},
    structured={"halt": "halt", "inject": "injects", "patch": "transform", "append": "augments"},
    on_halt={"finish_reason": "error_halted"},
    events=EVENTS,
)
