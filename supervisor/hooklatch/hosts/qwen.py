"""Qwen Code: Claude Code's words for fewer events, and no changed input (measured with 0.24.4)."""

from __future__ import annotations

from typing import Final

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.claude_code import ClaudeCode, rename_keys
from hooklatch.hosts.fitting import fit_decision
from hooklatch.hosts.host import (
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
    project_variables = ("QWEN_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def fit(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        return fit_decision(self.title, native.name, native.spec, decision)
