"""The form in which Claude Code reads answers, and so do the programs that took it over: one adapter, a table for each.

    class Droid(ClaudeForm):        # in `speakers`
        name, title, events = ...   # the table: its events, the names of its keys, and the answers that it reads

Nothing here is of one program: what only Claude Code does is in its own module.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.fitting import decode_patch, explain_decision, format_model_text
from hooklatch.hosts.host import HookOutput, Host, HostEvent, HostEventSpec, encode_document
from hooklatch_worker.runtime.shell_forms import CLAUDE_FIELDS

__all__ = ["ClaudeForm", "find_worktree", "rename_keys"]

TOP_KEYS: Final = frozenset({"message"})  # the keys for text that stand beside hookSpecificOutput, and not in it


def rename_keys(events: Mapping[str, HostEventSpec]) -> dict[str, HostEventSpec]:
    """Return the events with Claude Code's names of our keys, where they have none of their own."""
    return {
        name: msgspec.structs.replace(
            spec, renamed={**CLAUDE_FIELDS.get((spec.after or spec).event, {}), **spec.renamed}
        )
        for name, spec in events.items()
    }


class ClaudeForm(Host):
    """A program that reads Claude Code's answers, as far as its table says."""

    by_exit_code: ClassVar[Set[str]] = frozenset()  # events that are refused by exit code 2 with a text, and no JSON
    nests_block: ClassVar[bool] = False  # whether it reads `decision: block` in hookSpecificOutput
    context_key: ClassVar[str] = "additionalContext"  # of text for the model
    shows_warnings: ClassVar[bool] = True  # by systemMessage; others would show the model the document

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        name, can, verdict = native.name, native.spec.enforces, decision.verdict
        is_refused = native.spec.kind == "gate" and verdict not in ("pass", "allow", "ask")
        text = explain_decision(decision) if verdict != "pass" else ""
        if name in self.by_exit_code:
            if is_refused:
                return HookOutput(exit_code=2, stderr=f"{text}\n")
            if decision.resume is not None and verdict == "pass" and "resume" in can:
                return HookOutput(exit_code=2, stderr=f"{decision.resume or 'go on'}\n")
        answer: dict[str, Any] = {}
        specific: dict[str, Any] = {}
        if verdict == "halt" and "halt" in can:
            answer |= {"continue": False, "stopReason": text}  # alone, it would still let the tool run
        match name:
            case "PreToolUse" | "PreModelSwitch" | "PreSkillShellCommand":
                specific |= build_permission(decision, text, is_refused=is_refused)
            case "PermissionRequest":
                specific |= build_dialog(decision, text, is_refused=is_refused)
            case "Elicitation" | "ElicitationResult":
                specific |= build_form(decision, is_refused=is_refused)
            case "WorktreeCreate":
                specific["worktreePath"] = find_worktree(decision)
            case _ if is_refused:
                answer |= {"decision": "block", "reason": text}
            case _ if decision.resume is not None and "resume" in can and verdict == "pass":
                block = {"decision": "block", "reason": decision.resume or "go on"}
                specific, answer = (block, answer) if self.nests_block else (specific, answer | block)
            case _:
                pass
        has_text = "context" in can and (decision.inject or decision.append)
        if has_text and (for_model := format_model_text(decision)):
            (answer if self.context_key in TOP_KEYS else specific)[self.context_key] = for_model
        if specific:
            answer["hookSpecificOutput"] = {"hookEventName": name, **specific}
        is_said = self.shows_warnings and (verdict != "pass" or decision.warnings)
        if is_said and (for_person := self.make_person_text(native, decision)):
            answer["systemMessage"] = for_person
        return HookOutput(stdout=encode_document(answer))


def build_permission(decision: FireDecision, text: str, *, is_refused: bool) -> dict[str, Any]:
    if is_refused:
        return {"permissionDecision": "deny", "permissionDecisionReason": text}
    permission: dict[str, Any] = {}
    if decision.verdict in ("allow", "ask"):
        permission["permissionDecision"] = decision.verdict
        if text:
            permission["permissionDecisionReason"] = text
    if decision.patch and "tool_input" in decision.patch:
        permission["updatedInput"] = decode_patch(decision)["tool_input"]
    return permission


def build_dialog(decision: FireDecision, text: str, *, is_refused: bool) -> dict[str, Any]:
    # To ask means to stay silent: this event precedes a dialog that asks the person.
    if is_refused:
        interrupt = {"interrupt": True} if decision.verdict == "halt" else {}
        return {"decision": {"behavior": "deny", "message": text, **interrupt}}
    if decision.verdict != "allow":
        return {}
    names = {"tool_input": "updatedInput", "permissions": "updatedPermissions"}
    changes = {names[key]: value for key, value in decode_patch(decision).items()}
    return {"decision": {"behavior": "allow", **changes}}


def build_form(decision: FireDecision, *, is_refused: bool) -> dict[str, Any]:
    # To pass or to ask means to stay silent: the person fills in the form, or has done so.
    if is_refused:
        return {"action": "decline"}
    if decision.patch and "content" in decision.patch:
        return {"action": "accept", "content": decode_patch(decision)["content"]}
    return {}


def find_worktree(decision: FireDecision) -> str:
    path = decode_patch(decision).get("worktree_path")
    return path if isinstance(path, str) else ""
