"""Claude Code: all its events, and only the answers that it honours (measured with 2.1.332)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.claude_form import ClaudeForm, find_worktree, rename_keys
from hooklatch.hosts.fitting import add_warning, decode_patch, explain_decision, format_model_text, turn_into_deny
from hooklatch.hosts.host import (
    HookOutput,
    HostEvent,
    HostEventSpec,
    add_to_output,
    make_context_event_spec,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
    make_result_event_spec,
)
from hooklatch.hosts.withholding import has_shape, say_in_shape

__all__ = ["ClaudeCode"]

CONTEXT_LIMIT: Final = 10_000  # characters that Claude Code shows the model; it puts more into a file


EVENTS: Final = {
    "SessionStart": make_context_event_spec("session_start", "context"),
    "Setup": make_notice_event_spec(),
    "SessionEnd": make_notice_event_spec("session_end", limit=5.0),  # all SessionEnd hooks together have 60 s at most
    "UserPromptSubmit": make_gate_event_spec("user_prompt_submit", "halt context"),
    "UserPromptExpansion": make_gate_event_spec("user_prompt_expansion", "halt"),
    "PreToolUse": make_gate_event_spec("pre_tool_use", "allow ask halt context", "tool_input"),
    # A shell command in the text of a skill or a command, which Claude Code runs as it reads that text.
    "PreSkillShellCommand": make_gate_event_spec("pre_tool_use"),
    "PermissionRequest": make_gate_event_spec("permission_request", "allow ask halt", "tool_input permissions"),
    "PermissionDenied": make_notice_event_spec("permission_denied"),
    "PostToolUse": make_result_event_spec(make_context_event_spec("post_tool_use", "halt context"), "halt"),
    "PostToolUseFailure": make_context_event_spec("post_tool_use_failure", "halt context"),
    "PostToolBatch": make_context_event_spec("post_tool_batch", "halt context"),
    "Notification": make_notice_event_spec("notification"),
    "MessageDisplay": make_notice_event_spec(),
    # Not subagent_start: Claude Code sends this when the subagent is already running and cannot be refused.
    "SubagentStart": make_context_event_spec("subagent_started", "context"),
    "SubagentStop": make_context_event_spec("subagent_stop", "halt resume"),
    "TaskCreated": make_gate_event_spec("task_created", ""),
    "TaskCompleted": make_context_event_spec("task_completed", "resume"),
    "TeammateIdle": make_context_event_spec("teammate_idle", "resume"),
    # Text for the model keeps the agent working here, so it is a `resume`.
    "Stop": make_context_event_spec("stop", "halt resume"),
    "StopFailure": make_notice_event_spec("stop_failure"),
    "InstructionsLoaded": make_notice_event_spec(),
    "ConfigChange": make_gate_event_spec("config_change", ""),  # not if the source is policy_settings
    "CwdChanged": make_notice_event_spec(),
    "DirectoryAdded": make_notice_event_spec(),
    "FileChanged": make_notice_event_spec(),
    # With an entry for it, Claude Code no longer makes the worktree itself: a hook has to, and name its path.
    "WorktreeCreate": make_gate_event_spec("worktree_create", "", "worktree_path", alters_host=True),
    "WorktreeRemove": make_gate_event_spec("worktree_remove", "", alters_host=True),
    "PreCompact": make_gate_event_spec("pre_compact", "halt"),
    "PostCompact": make_notice_event_spec("post_compact"),
    "PreModelSwitch": make_gate_event_spec("pre_model_switch", "allow ask"),
    "PostModelSwitch": make_notice_event_spec(),
    "Elicitation": make_gate_event_spec("elicitation", "allow ask", "content"),
    "ElicitationResult": make_gate_event_spec("elicitation_result", "", "content"),
}

# The events at which only exit code 2 with a text is honoured, and no JSON.
BY_EXIT_CODE: Final = frozenset({"TaskCreated", "TaskCompleted", "TeammateIdle", "WorktreeCreate", "WorktreeRemove"})


class ClaudeCode(ClaudeForm):
    """Claude Code's command hooks; its http hooks have the same documents and the same answers."""

    name: ClassVar[str] = "claude-code"
    title: ClassVar[str] = "Claude Code"
    events: ClassVar[Mapping[str, HostEventSpec]] = rename_keys(EVENTS)
    envelope_keys: ClassVar[Mapping[str, tuple[str, ...]]] = make_envelope_keys(turn="prompt_id")
    metadata_keys: ClassVar[tuple[str, ...]] = ("transcript_path", "permission_mode", "prompt_id", "effort")
    shown_verdicts: ClassVar[frozenset[str]] = frozenset({"ask", "halt"})  # its dialog has the question
    by_exit_code: ClassVar[Set[str]] = BY_EXIT_CODE

    def envelope(self, native: HostEvent) -> dict[str, Any]:
        fields = super().envelope(native)
        if began_as := encoded_start_folder(native.document.get("transcript_path")):
            fields["began_as"] = began_as
        return fields

    # -- fitting -------------------------------------------------------------------------------------------------

    def fit(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        decision = super().fit(native, decision)
        if native.name == "PermissionRequest":
            return fit_to_dialog(decision)
        if native.name == "WorktreeCreate" and decision.verdict == "pass" and not find_worktree(decision):
            return turn_into_deny(decision, "Claude Code lets hooks make the worktree, and none gave a worktree_path")
        if native.name in ("Elicitation", "ElicitationResult"):
            return fit_to_form(native, decision)
        if native.event == "tool_result" and decision.verdict == "pass" and decision.patch:
            return self.fit_to_shape(native, decision)
        if decision.verdict == "deny" and native.decode_value("source") == "policy_settings":
            return add_warning(decision, "Claude Code applies a change of policy_settings although it was refused")
        has_text = decision.inject or decision.append
        size = len(format_model_text(decision)) if has_text and "context" in native.spec.enforces else 0
        if size > CONTEXT_LIMIT:
            shown = f"{self.title} shows {CONTEXT_LIMIT} and puts the rest into a file"
            return add_warning(decision, f"{size} characters for the model: {shown}")
        return decision

    def fit_to_shape(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        """Return a changed result in the tool's shape: in another one it would be ignored, and the first one read."""
        if str(native.decode_value("tool_name")).startswith("mcp__"):
            return decision
        given, result = native.decode_value(self.find_result_key(native)), decode_patch(decision)["tool_response"]
        if isinstance(result, str):
            shaped = msgspec.Raw(msgspec.json.encode(self.withhold(given, result)))
            return msgspec.structs.replace(decision, patch={"tool_response": shaped})
        if has_shape(given, result):
            return decision
        return turn_into_deny(decision, f"a hook changed the result to another shape, which {self.title} ignores")

    # -- out -----------------------------------------------------------------------------------------------------

    def express(self, native: HostEvent, decision: FireDecision, after: HookOutput | None) -> HookOutput:
        output = super().express(native, decision, after)
        if native.spec.after is None or not decision.warnings:
            return output
        lines = [json.loads(output.stdout or "{}").get("systemMessage", ""), self.make_person_text(native, decision)]
        return add_to_output(output, systemMessage="\n".join(filter(None, lines)))

    def withhold(self, response: object, text: str) -> object:
        return text if response is None else say_in_shape(response, text)

    def render_result(self, native: HostEvent, decision: FireDecision, result: object, after: HookOutput) -> HookOutput:
        specific = json.loads(after.stdout or "{}").get("hookSpecificOutput", {"hookEventName": native.name})
        stop: dict[str, Any] = {}
        if decision.verdict == "halt":
            stop = {"continue": False, "stopReason": explain_decision(decision)}
        elif self.find_result_key(native) not in native.fields:  # in what shape is not known: the run ends unread
            stop = {"continue": False, "stopReason": result}
        return add_to_output(after, **stop, hookSpecificOutput={**specific, "updatedToolOutput": result})


def fit_to_dialog(decision: FireDecision) -> FireDecision:
    if decision.verdict in ("pass", "ask") and decision.patch:
        return turn_into_deny(decision, "Claude Code cannot change the call and still ask the user")
    return decision


def fit_to_form(native: HostEvent, decision: FireDecision) -> FireDecision:
    has_content = bool(decision.patch) and "content" in (decision.patch or {})
    is_answered = native.name == "ElicitationResult" and native.decode_value("action") == "accept"
    if decision.verdict in ("pass", "ask") and has_content and not is_answered:
        return turn_into_deny(decision, "Claude Code cannot fill in the form and still ask the user")
    if decision.verdict == "allow" and not has_content:
        weaker = msgspec.structs.replace(decision, verdict="pass")
        return add_warning(weaker, "an allow without content accepts nothing: the user is asked")
    return decision


def encoded_start_folder(transcript_path: object) -> str:
    """Return the encoded start directory in .../projects/-home-me-project/SESSION.jsonl, or ""."""
    if not isinstance(transcript_path, str):
        return ""
    _, separator, below = f"/{transcript_path}".rpartition("/projects/")
    name, is_folder, _ = below.partition("/")
    return name if separator and is_folder else ""
