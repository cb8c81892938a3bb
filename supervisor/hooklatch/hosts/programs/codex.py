"""Codex CLI: Claude Code's documents, and answers that are checked key by key (measured with 0.169.0).

One key more than Codex knows, an empty reason, `ask`, or `continue: false` before a tool make it run the tool.  So a
gate's answer has the keys that it needs and no others, and warnings are on record only.
"""

from __future__ import annotations

from typing import Any, Final

from hooklatch.core.messages import Decision
from hooklatch.hosts.fitting import explained, model_text, patch_of, warned
from hooklatch.hosts.host import HookOutput, Host, Native, NativeEvent, compact, context, gate, notice

__all__ = ["Codex"]

AGENT: Final = {"subagent_id": "agent_id"}

EVENTS: Final[dict[str, NativeEvent]] = {
    "SessionStart": context("session_start"),
    "UserPromptSubmit": gate("user_prompt_submit", "context"),
    "PreToolUse": gate("pre_tool_use", "context", "tool_input"),
    "PermissionRequest": gate("permission_request", "allow ask"),
    "PostToolUse": context("post_tool_use", "halt context"),
    "PreCompact": gate("pre_compact", "halt"),
    "PostCompact": notice("post_compact"),
    # The subagent runs already: there is nothing to refuse.
    "SubagentStart": context("subagent_started", renamed=AGENT),
    "SubagentStop": context("subagent_stop", "resume", renamed={**AGENT, "result": "last_assistant_message"}),
    "Stop": context("stop", "resume"),
    "SessionEnd": notice("session_end", limit=3.0),  # the most that Codex allows
    "Interrupt": notice(limit=3.0),
}


class Codex(Host):
    name = "codex"
    title = "Codex"
    aliases = ("codex-cli", "openai-codex")
    events = EVENTS
    metadata_keys = ("transcript_path", "permission_mode", "model", "turn_id")
    project_variables = ()  # it names none; what its aliases for plugins say is the plugin's folder

    def fit(self, native: Native, decision: Decision) -> Decision:
        decision = super().fit(native, decision)
        if native.name == "PreToolUse" and decision.patch and decision.verdict == "pass" and model_text(decision):
            return warned(decision, "text for the model was lost: Codex takes it or a changed input, not both")
        return decision

    def render(self, native: Native, decision: Decision) -> HookOutput:
        name, can, verdict = native.name, native.spec.can, decision.verdict
        text = explained(decision) or "refused by hooklatch"
        said: dict[str, Any] = {}
        if native.is_gate and verdict not in ("pass", "allow", "ask"):
            said = refusal_at(name, text)
        elif name == "PermissionRequest":
            # To ask means to stay silent: Codex then asks the person.
            said = specific(name, decision={"behavior": "allow"}) if verdict == "allow" else {}
        elif name == "PreToolUse" and decision.patch:
            # An allow is taken together with a changed input alone; it does not skip Codex's own approval.
            said = specific(name, permissionDecision="allow", updatedInput=patch_of(decision)["tool_input"])
        elif verdict == "halt" and "halt" in can:
            said = {"continue": False, "stopReason": text}
        elif decision.resume is not None and "resume" in can:
            said = {"decision": "block", "reason": decision.resume or "go on"}
        elif "context" in can and (for_model := model_text(decision)):
            said = specific(name, additionalContext=for_model)
        if decision.warnings and not native.is_gate and verdict != "halt":
            said["systemMessage"] = "\n".join(f"hooklatch: {warning}" for warning in decision.warnings)
        return HookOutput(stdout=compact(said))


def refusal_at(name: str, text: str) -> dict[str, Any]:
    match name:
        case "PreToolUse":
            return specific(name, permissionDecision="deny", permissionDecisionReason=text)
        case "PermissionRequest":
            return specific(name, decision={"behavior": "deny", "message": text})
        case "PreCompact":
            return {"continue": False, "stopReason": text}
        case _:
            return {"decision": "block", "reason": text}


def specific(name: str, **said: object) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": name, **said}}
