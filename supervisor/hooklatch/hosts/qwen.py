"""Qwen Code: Claude Code's words for fewer events, and no changed input (measured with 0.24.4)."""

from __future__ import annotations

from typing import Final

from hooklatch.core.messages import FireDecision
from hooklatch.core.refusal_texts import ASKED
from hooklatch.hosts.claude_code import ClaudeCode, rename_keys
from hooklatch.hosts.fitting import fit_decision, turn_into_deny
from hooklatch.hosts.host import (
    Host,
    HostEvent,
    make_context_event_spec,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
)

__all__ = ["Qwen"]

EVENTS: Final = {
    "SessionStart": make_context_event_spec("session_start"),
    # Qwen Code sends this for each turn of the model.
    "UserPromptSubmit": make_gate_event_spec("user_prompt_submit", "context"),
    "UserPromptExpansion": make_gate_event_spec("user_prompt_expansion"),
    "PreToolUse": make_gate_event_spec("pre_tool_use", "allow ask"),
    "PermissionRequest": make_gate_event_spec("permission_request", "allow ask"),
    "PermissionDenied": make_notice_event_spec("permission_denied"),
    # It takes no other result.
    "PostToolUse": make_context_event_spec("post_tool_use"),
    "PostToolUseFailure": make_context_event_spec("post_tool_use_failure"),
    "PostToolBatch": make_notice_event_spec("post_tool_batch"),
    "MessageDisplay": make_notice_event_spec(),
    "InstructionsLoaded": make_notice_event_spec(),
    "Notification": make_notice_event_spec("notification"),
    "SubagentStart": make_context_event_spec("subagent_started"),
    "SubagentStop": make_context_event_spec("subagent_stop", "resume"),
    "Stop": make_context_event_spec("stop", "resume"),
    "StopFailure": make_notice_event_spec("stop_failure"),
    "PreCompact": make_notice_event_spec("pre_compact"),
    "PostCompact": make_notice_event_spec("post_compact"),
    "SessionEnd": make_notice_event_spec("session_end"),
    "SessionDelete": make_notice_event_spec(),
}


AS_TASK: Final = {"task_id": "todo_id", "subject": "todo_content"}
TODOS: Final = {
    "TodoCreated": make_notice_event_spec("task_created", renamed=AS_TASK),
    "TodoCompleted": make_notice_event_spec("task_completed", renamed=AS_TASK),
}


class Qwen(ClaudeCode):
    name = "qwen"
    title = "Qwen Code"
    events = rename_keys(EVENTS) | TODOS
    envelope_keys = make_envelope_keys(turn="")
    metadata_keys = ("transcript_path", "permission_mode", "timestamp")
    shown_verdicts = Host.shown_verdicts
    project_variables = ("QWEN_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def fit(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        decision = fit_decision(self.title, native.name, native.spec, decision)
        if decision.verdict == "ask" and native.decode_value("permission_mode") == "yolo":  # it refuses what is asked
            return turn_into_deny(decision, f"{ASKED}{self.title} asks nobody in its YOLO mode")
        return decision
