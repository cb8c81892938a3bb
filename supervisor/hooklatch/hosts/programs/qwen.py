"""Qwen Code: Claude Code's words for fewer events, and no changed input (measured with 0.15.10)."""

from __future__ import annotations

from typing import Final

from hooklatch.core.messages import Decision
from hooklatch.hosts.fitting import fitted
from hooklatch.hosts.host import Native, NativeEvent, context, gate, notice
from hooklatch.hosts.programs.claude_code import ClaudeCode

__all__ = ["Qwen"]

AGENT: Final = {"subagent_id": "agent_id"}

EVENTS: Final[dict[str, NativeEvent]] = {
    "SessionStart": context("session_start"),
    "UserPromptSubmit": gate("user_prompt_submit", "context"),  # it sends this for each turn of the model
    "PreToolUse": gate("pre_tool_use", "allow ask"),
    "PermissionRequest": gate(
        "permission_request", "allow ask", renamed={"suggestions": "permission_suggestions"}
    ),
    "PostToolUse": context("post_tool_use"),
    "PostToolUseFailure": context("post_tool_use_failure"),
    "Notification": notice("notification"),
    "SubagentStart": context("subagent_started", renamed=AGENT),
    "SubagentStop": context("subagent_stop", "resume", renamed={**AGENT, "result": "last_assistant_message"}),
    "Stop": context("stop", "resume"),
    "StopFailure": notice("stop_failure"),
    "PreCompact": notice("pre_compact"),
    "PostCompact": notice("post_compact"),
    "SessionEnd": notice("session_end"),
}  # fmt: skip


class Qwen(ClaudeCode):
    name = "qwen"
    title = "Qwen Code"
    aliases = ("qwen-code", "qwencode")
    events = EVENTS
    turn_keys = ()
    metadata_keys = ("transcript_path", "permission_mode", "timestamp")
    project_variables = ("QWEN_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def fit(self, native: Native, decision: Decision) -> Decision:
        return fitted(self.title, native.name, native.spec, decision)
