"""Claude Code: all its events, and only the answers that it honours (measured with 2.1.330)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from hooklatch.core.messages import Decision
from hooklatch.hosts.fitting import explained, model_text, patch_of, refused, warned
from hooklatch.hosts.host import HookOutput, Host, Native, NativeEvent, compact, context, gate, notice

__all__ = ["ClaudeCode"]

CONTEXT_LIMIT: Final = 10_000  # characters that Claude Code shows the model; it puts more into a file


AGENT: Final = {"subagent_id": "agent_id"}
TASK: Final = {"subject": "task_subject", "description": "task_description", "teammate": "teammate_name"}

EVENTS: Final[dict[str, NativeEvent]] = {
    "SessionStart": context("session_start", "context"),
    "Setup": notice(),
    "SessionEnd": notice("session_end", limit=5.0),  # all SessionEnd hooks together have 60 s at most
    "UserPromptSubmit": gate("user_prompt_submit", "halt context"),
    "UserPromptExpansion": gate("user_prompt_expansion", "halt"),
    "PreToolUse": gate("pre_tool_use", "allow ask halt context", "tool_input"),
    "PermissionRequest": gate(
        "permission_request",
        "allow ask halt",
        "tool_input permissions",
        renamed={"suggestions": "permission_suggestions"},
    ),
    "PermissionDenied": notice("permission_denied"),
    "PostToolUse": context("post_tool_use", "halt context"),
    "PostToolUseFailure": context("post_tool_use_failure", "halt context"),
    "PostToolBatch": context("post_tool_batch", "halt context"),
    "Notification": notice("notification"),
    "MessageDisplay": notice(),
    # Not subagent_start: Claude Code sends this when the subagent is already running and cannot be refused.
    "SubagentStart": context("subagent_started", "context", renamed=AGENT),
    "SubagentStop": context("subagent_stop", "halt resume", renamed={**AGENT, "result": "last_assistant_message"}),
    "TaskCreated": gate("task_created", "", renamed=TASK),
    "TaskCompleted": context(
        "task_completed", "resume", renamed={"subject": "task_subject", "teammate": "teammate_name"}
    ),
    "TeammateIdle": context("teammate_idle", "resume", renamed={"teammate": "teammate_name"}),
    # Text for the model keeps it working here, so that is what it is: `resume`.
    "Stop": context("stop", "halt resume"),
    "StopFailure": notice("stop_failure"),
    "InstructionsLoaded": notice(),
    "ConfigChange": gate("config_change", "", renamed={"path": "file_path"}),  # not if the source is policy_settings
    "CwdChanged": notice(),
    "DirectoryAdded": notice(),
    "FileChanged": notice(),
    # With an entry for it, Claude Code no longer makes the worktree itself: a hook has to, and name its path.
    "WorktreeCreate": gate("worktree_create", "", "worktree_path", takes_over=True),
    "WorktreeRemove": gate("worktree_remove", "", takes_over=True),
    "PreCompact": gate("pre_compact", "halt"),
    "PostCompact": notice("post_compact"),
    "PreModelSwitch": gate("pre_model_switch", "allow ask"),
    "PostModelSwitch": notice(),
    "Elicitation": gate("elicitation", "allow ask", "content"),
    "ElicitationResult": gate("elicitation_result", "", "content"),
}

# Where only exit code 2 with a text is honoured, and no JSON.
BY_EXIT_CODE: Final = frozenset({"TaskCreated", "TaskCompleted", "TeammateIdle", "WorktreeCreate", "WorktreeRemove"})


class ClaudeCode(Host):
    """Claude Code's command hooks; its http hooks have the same documents and the same answers."""

    name: ClassVar[str] = "claude-code"
    title: ClassVar[str] = "Claude Code"
    aliases: ClassVar[tuple[str, ...]] = ("claude", "cc")
    events: ClassVar[Mapping[str, NativeEvent]] = EVENTS
    turn_keys: ClassVar[tuple[str, ...]] = ("prompt_id",)
    metadata_keys: ClassVar[tuple[str, ...]] = ("transcript_path", "permission_mode", "prompt_id", "effort")
    # Claude Code's dialect without some of its words is what several programs speak.
    context_limit: ClassVar[int] = CONTEXT_LIMIT

    def envelope(self, native: Native) -> dict[str, Any]:
        said = super().envelope(native)
        if began_as := name_of_start(native.document.get("transcript_path")):
            said["began_as"] = began_as
        return said

    # -- fitting -------------------------------------------------------------------------------------------------

    def fit(self, native: Native, decision: Decision) -> Decision:
        decision = super().fit(native, decision)
        if native.name == "PermissionRequest":
            return fitted_to_dialog(decision)
        if native.name == "WorktreeCreate" and decision.verdict == "pass" and not worktree_of(decision):
            return refused(decision, "Claude Code leaves making the worktree to hooks, and none gave a worktree_path")
        if native.name in ("Elicitation", "ElicitationResult"):
            return fitted_to_form(native, decision)
        if decision.verdict == "deny" and native.document.get("source") == "policy_settings":
            return warned(decision, "Claude Code applies a change of policy_settings although it was refused")
        size = len(model_text(decision))
        if size > self.context_limit and "context" in native.spec.can:
            shown = f"{self.title} shows {self.context_limit} and puts the rest into a file"
            return warned(decision, f"{size} characters for the model: {shown}")
        return decision

    # -- out -----------------------------------------------------------------------------------------------------

    def render(self, native: Native, decision: Decision) -> HookOutput:
        name, can, verdict = native.name, native.spec.can, decision.verdict
        is_refused = native.is_gate and verdict not in ("pass", "allow", "ask")
        text = explained(decision) or "refused by hooklatch"
        if name in BY_EXIT_CODE:
            if is_refused:
                return HookOutput(exit_code=2, stderr=f"{text}\n")
            if decision.resume is not None and verdict == "pass" and "resume" in can:
                return HookOutput(exit_code=2, stderr=f"{decision.resume or 'go on'}\n")
        said: dict[str, Any] = {}
        specific: dict[str, Any] = {}
        if verdict == "halt" and "halt" in can:
            said |= {"continue": False, "stopReason": text}  # on its own this would still let a tool run
        match name:
            case "PreToolUse" | "PreModelSwitch":
                specific |= permission(decision, text, is_refused=is_refused)
            case "PermissionRequest":
                specific |= dialog(decision, text, is_refused=is_refused)
            case "Elicitation" | "ElicitationResult":
                specific |= form(decision, is_refused=is_refused)
            case "WorktreeCreate":
                specific["worktreePath"] = worktree_of(decision)
            case _ if is_refused:
                said |= {"decision": "block", "reason": text}
            case _ if decision.resume is not None and "resume" in can and verdict == "pass":
                said |= {"decision": "block", "reason": decision.resume or "go on"}
            case _:
                pass
        if "context" in can and (for_model := model_text(decision)):
            specific["additionalContext"] = for_model
        if specific:
            said["hookSpecificOutput"] = {"hookEventName": name, **specific}
        if decision.warnings:
            said["systemMessage"] = "\n".join(f"hooklatch: {warning}" for warning in decision.warnings)
        return HookOutput(stdout=compact(said))


def permission(decision: Decision, text: str, *, is_refused: bool) -> dict[str, Any]:
    if is_refused:
        return {"permissionDecision": "deny", "permissionDecisionReason": text}
    said: dict[str, Any] = {}
    if decision.verdict in ("allow", "ask"):
        said["permissionDecision"] = decision.verdict
        if reason := explained(decision):
            said["permissionDecisionReason"] = reason
    if "tool_input" in (patch := patch_of(decision)):
        said["updatedInput"] = patch["tool_input"]
    return said


def dialog(decision: Decision, text: str, *, is_refused: bool) -> dict[str, Any]:
    # To ask means to stay silent: this event precedes a dialog that asks the person.
    if is_refused:
        interrupt = {"interrupt": True} if decision.verdict == "halt" else {}
        return {"decision": {"behavior": "deny", "message": text, **interrupt}}
    if decision.verdict != "allow":
        return {}
    names = {"tool_input": "updatedInput", "permissions": "updatedPermissions"}
    changes = {names[key]: value for key, value in patch_of(decision).items()}
    return {"decision": {"behavior": "allow", **changes}}


def form(decision: Decision, *, is_refused: bool) -> dict[str, Any]:
    # To pass or to ask means to stay silent: the person fills in the form, or has done so.
    if is_refused:
        return {"action": "decline"}
    if decision.patch and "content" in decision.patch:
        return {"action": "accept", "content": patch_of(decision)["content"]}
    return {}


def fitted_to_dialog(decision: Decision) -> Decision:
    if decision.verdict in ("pass", "ask") and decision.patch:
        return refused(decision, "Claude Code cannot change the call and still ask the user")
    return decision


def fitted_to_form(native: Native, decision: Decision) -> Decision:
    has_content = bool(decision.patch) and "content" in (decision.patch or {})
    is_answered = native.name == "ElicitationResult" and native.document.get("action") == "accept"
    if decision.verdict in ("pass", "ask") and has_content and not is_answered:
        return refused(decision, "Claude Code cannot fill in the form and still ask the user")
    if decision.verdict == "allow" and not has_content:
        weaker = msgspec.structs.replace(decision, verdict="pass")
        return warned(weaker, "an allow without content accepts nothing: the user is asked")
    return decision


def worktree_of(decision: Decision) -> str:
    path = patch_of(decision).get("worktree_path")
    return path if isinstance(path, str) else ""


def name_of_start(transcript_path: object) -> str:
    """Return the encoded start directory in .../projects/-home-me-project/SESSION.jsonl, or ""."""
    if not isinstance(transcript_path, str):
        return ""
    _, separator, below = f"/{transcript_path}".rpartition("/projects/")
    name, is_folder, _ = below.partition("/")
    return name if separator and is_folder else ""
