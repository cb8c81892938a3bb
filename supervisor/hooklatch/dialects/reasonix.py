"""The Reasonix dialect: camelCase keys, anchored matchers, and an exit code as the answer."""

from __future__ import annotations

from typing import Final

from hooklatch.dialects.dialect import Answers, Dialect, NativeEvent, feed

__all__ = ["REASONIX"]

COMMON = {"cwd": "cwd", "sessionId": "session_id"}
CALL = {**COMMON, "toolName": "tool_name", "toolArgs": "tool_input", "toolCallId": "tool_use_id"}
DONE = {**CALL, "toolResult": "tool_response", "durationMs": "duration_ms"}
TEXT = {**COMMON, "lastAssistantText": "last_assistant_message", "turn": "turn"}
BLOCK = {"deny": "block"}


def make_gating_event(event: str, keys: dict[str, str], **outputs: str) -> NativeEvent:
    """Return an event that a non-zero exit can block here, whether or not it can there."""
    return NativeEvent(feeds=(feed(event, keys),), answers=Answers(words=BLOCK, outputs=outputs))


def make_observing_event(event: str, keys: dict[str, str], **outputs: str) -> NativeEvent:
    return NativeEvent(feeds=(feed(event, keys, flow="sequential"),), answers=Answers(outputs=outputs))


REASONIX: Final = Dialect(
    name="reasonix",
    style="exit",
    matcher="full",
    matcher_elsewhere="ignored",
    event_key="event",
    registration={"match": "match", "command": "command"},
    shell={"payload": "reasonix", "exit_codes": "advisory"},
    timeout_unit="ms",
    layers=("builtin", "project", "plugin", "global", "parent", "session"),
    events={
        "PreToolUse": make_gating_event("pre_tool_use", CALL),
        "PostToolUse": make_observing_event("post_tool_use", DONE),
        "PostToolUseFailure": make_observing_event(
            "post_tool_use_failure", {**CALL, "error": "error", "isInterrupt": "is_interrupt"}
        ),
        "PermissionRequest": make_gating_event("permission_request", {**CALL, "subject": "subject"}),
        "UserPromptSubmit": make_gating_event("user_prompt_submit", {**COMMON, "prompt": "prompt", "turn": "turn"}),
        "Stop": make_observing_event("stop", TEXT),
        "StopFailure": make_observing_event("stop_failure", {**TEXT, "error": "error"}),
        "PostLLMCall": NativeEvent(
            feeds=(feed("post_model", {**COMMON, "reasoning": "reasoning", "turn": "turn"}),),
            answers=Answers(patch={"reasoning": "stdout"}),
        ),
        "SessionStart": make_observing_event("session_start", {**COMMON, "source": "source"}, inject="stdout"),
        "SessionEnd": make_observing_event("session_end", {**COMMON, "reason": "reason"}),
        # Not in Reasonix yet; its author lists it as missing.  Keys are spelt as in its other events.
        "PreSubagent": make_gating_event(
            "subagent_start", {**COMMON, "subagentId": "subagent_id", "agentType": "agent_type", "prompt": "prompt"}
        ),
        "SubagentStop": make_observing_event(
            "subagent_stop",
            {**COMMON, "subagentId": "subagent_id", "agentType": "agent_type", "lastAssistantText": "result"},
        ),
        "Notification": make_observing_event(
            "notification", {**COMMON, "message": "message", "notificationType": "notification_type"}
        ),
        "PreCompact": make_gating_event("pre_compact", {**COMMON, "trigger": "trigger"}, inject="stdout"),
    },
)
