"""Gemini CLI: names of its own, answers with one `decision` (measured with 0.61.0).

It reads standard error where standard output is empty, so it is always given a document.  It merges a changed input
into the old one, so nothing can be taken out of it.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from hooklatch.core.messages import Decision
from hooklatch.hosts.fitting import explained, model_text, patch_of, refused
from hooklatch.hosts.host import (
    Call,
    HookOutput,
    Host,
    Native,
    NativeEvent,
    Request,
    Tool,
    call_key,
    compact,
    context,
    gate,
    notice,
)

__all__ = ["Gemini"]

EVENTS: Final[dict[str, NativeEvent]] = {
    "SessionStart": context("session_start"),
    "BeforeAgent": gate("user_prompt_submit", "context"),
    "BeforeTool": gate("pre_tool_use", "allow ask halt", "tool_input"),
    "AfterTool": context("post_tool_use"),
    "AfterAgent": context("stop", "resume", renamed={"last_assistant_message": "prompt_response"}),
    "PreCompress": notice("pre_compact"),  # it does not wait, and sends this before every turn
    "Notification": notice("notification"),
    "SessionEnd": notice("session_end"),
    # The whole conversation, at each model call: it is not fired.
    "BeforeModel": notice(),
    "AfterModel": notice(),
    "BeforeToolSelection": notice(),
}
CALLS: Final[dict[str, Call]] = {"BeforeTool": "begins", "AfterTool": "ends"}
NOTHING: Final = HookOutput(stdout="{}\n")


class Gemini(Host):
    name = "gemini"
    title = "Gemini CLI"
    aliases = ("gemini-cli", "google-gemini")
    events = EVENTS
    turn_keys = ()
    metadata_keys = ("transcript_path", "timestamp")
    project_variables = ("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def request(self, native: Native) -> Request:
        request = super().request(native)
        if error_of(native) is None:
            return request
        params = msgspec.structs.replace(request.params, event="post_tool_use_failure")
        return msgspec.structs.replace(request, params=params)

    def known(self, native: Native, tool: Tool) -> Tool:
        said = native.document.get("mcp_context")
        about = cast("dict[str, object]", said) if isinstance(said, dict) else {}
        if about or tool.name.startswith("mcp_"):
            server, name = about.get("server_name"), about.get("tool_name")
            return msgspec.structs.replace(
                tool, kind="mcp", server=server if isinstance(server, str) else "",
                tool=name if isinstance(name, str) else "",
            )  # fmt: skip
        return super().known(native, tool)

    def added(self, native: Native, tool: Tool | None) -> dict[str, Any]:
        error = error_of(native)
        return super().added(native, tool) | ({"error": error} if error is not None else {})

    def call_of(self, native: Native, tool: Tool | None) -> tuple[Call | None, str]:
        return CALLS.get(native.name), call_key(native.text("session_id"), tool)

    def fit(self, native: Native, decision: Decision) -> Decision:
        decision = super().fit(native, decision)
        changed = patch_of(decision).get("tool_input")
        if native.is_gate and changed is not None and is_shortened(native.document.get("tool_input"), changed):
            return refused(decision, "Gemini CLI merges a changed input, and cannot take out what a hook took out")
        return decision

    def render(self, native: Native, decision: Decision) -> HookOutput:
        can, verdict = native.spec.can, decision.verdict
        text = explained(decision) or "refused by hooklatch"
        said: dict[str, Any] = {}
        specific: dict[str, Any] = {}
        if native.is_gate and verdict not in ("pass", "allow", "ask"):
            said |= {"decision": "deny", "reason": text}
            if verdict == "halt" and "halt" in can:
                said |= {"continue": False, "stopReason": text}
        elif native.is_gate:
            if verdict != "pass":
                said |= {"decision": verdict} | ({"reason": why} if (why := explained(decision)) else {})
            if "tool_input" in (patch := patch_of(decision)):
                specific["tool_input"] = patch["tool_input"]
        elif decision.resume is not None and "resume" in can and verdict == "pass":
            said |= {"decision": "deny", "reason": decision.resume or "go on"}  # that is: try again
        if "context" in can and (for_model := model_text(decision)):
            specific["additionalContext"] = for_model
        if specific:
            said["hookSpecificOutput"] = {"hookEventName": native.name, **specific}
        if decision.warnings:
            said["systemMessage"] = "\n".join(f"hooklatch: {warning}" for warning in decision.warnings)
        return HookOutput(stdout=compact(said)) if said else NOTHING

    def silence(self, event: str | None) -> HookOutput:
        return NOTHING


def error_of(native: Native) -> object:
    response = native.document.get("tool_response")
    return cast("dict[str, object]", response).get("error") if isinstance(response, dict) else None


def is_shortened(before: object, after: object) -> bool:
    """Return whether a key that was there, at any depth, is not any more."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
    return any(key not in new or is_shortened(value, new[key]) for key, value in old.items())
