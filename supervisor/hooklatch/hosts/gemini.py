"""Gemini CLI: names of its own, answers with one `decision` (measured with 0.61.0).

It reads standard error where standard output is empty, so it always gets a document.  It merges a changed input into
the old one, so a hook cannot remove a key.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from hooklatch.core.light_json import as_object
from hooklatch.core.messages import FireDecision
from hooklatch.hosts.fitting import decode_patch, explain_decision, format_model_text
from hooklatch.hosts.host import (
    HookOutput,
    Host,
    HostEvent,
    HostEventSpec,
    HostFire,
    HostTool,
    add_to_output,
    encode_document,
    make_context_event_spec,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
    make_result_event_spec,
    print_result,
)

__all__ = ["Gemini"]

EVENTS: Final[dict[str, HostEventSpec]] = {
    "SessionStart": make_context_event_spec("session_start"),
    "BeforeAgent": make_gate_event_spec("user_prompt_submit", "context"),
    "BeforeTool": make_gate_event_spec("pre_tool_use", "allow ask halt", "tool_input"),
    "AfterTool": make_result_event_spec(make_context_event_spec("post_tool_use")),
    "AfterAgent": make_context_event_spec("stop", "resume", renamed={"last_assistant_message": "prompt_response"}),
    "PreCompress": make_notice_event_spec("pre_compact"),  # it does not wait, and sends this before every turn
    "Notification": make_notice_event_spec("notification"),
    "SessionEnd": make_notice_event_spec("session_end"),
    # The whole conversation, at each model call: it is not fired.
    "BeforeModel": make_notice_event_spec(),
    "AfterModel": make_notice_event_spec(),
    "BeforeToolSelection": make_notice_event_spec(),
}
EMPTY_OUTPUT: Final = HookOutput(stdout="{}\n")


class Gemini(Host):
    name = "gemini"
    title = "Gemini CLI"
    events = EVENTS
    call_keys = ()
    merges_input = True
    envelope_keys = make_envelope_keys(turn="")
    metadata_keys = ("transcript_path", "timestamp")
    shown_verdicts = frozenset()  # its dialog has no question
    project_variables = ("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def make_fire(self, native: HostEvent) -> HostFire:
        fire = super().make_fire(native)
        has_failed = find_tool_error(native) is not None
        return msgspec.structs.replace(fire, after="post_tool_use_failure") if has_failed else fire

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        context = as_object(native.document.get("mcp_context"))
        if context or tool.name.startswith("mcp_"):
            server, name = context.get("server_name"), context.get("tool_name")
            return msgspec.structs.replace(
                tool, kind="mcp", server=server if isinstance(server, str) else "",
                tool=name if isinstance(name, str) else "",
            )  # fmt: skip
        return super().classify_tool(native, tool)

    def list_added_keys(self, native: HostEvent, tool: HostTool | None) -> dict[str, Any]:
        error = find_tool_error(native)
        return super().list_added_keys(native, tool) | ({"error": error} if error is not None else {})

    def render_result(self, native: HostEvent, decision: FireDecision, result: object, after: HookOutput) -> HookOutput:
        if isinstance(result, dict):
            result = cast("dict[str, object]", result).get("llmContent", cast("object", result))
        return add_to_output(after, decision="deny", reason=print_result(result) or " ")

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        can, verdict = native.spec.enforces, decision.verdict
        text = explain_decision(decision)
        answer: dict[str, Any] = {}
        specific: dict[str, Any] = {}
        if native.is_gate and verdict not in ("pass", "allow", "ask"):
            answer |= {"decision": "deny", "reason": text}
            if verdict == "halt" and "halt" in can:
                answer |= {"continue": False, "stopReason": text}
        elif native.is_gate:
            if verdict != "pass":
                answer |= {"decision": verdict} | ({"reason": text} if text else {})
            if "tool_input" in (patch := decode_patch(decision)):
                specific["tool_input"] = patch["tool_input"]
        elif decision.resume is not None and "resume" in can and verdict == "pass":
            answer |= {"decision": "deny", "reason": decision.resume or "go on"}  # Gemini CLI then tries again
        if "context" in can and (for_model := format_model_text(decision)):
            specific["additionalContext"] = for_model
        if specific:
            answer["hookSpecificOutput"] = {"hookEventName": native.name, **specific}
        if (verdict != "pass" or decision.warnings) and (for_person := self.make_person_text(native, decision)):
            answer["systemMessage"] = for_person
        return HookOutput(stdout=encode_document(answer)) if answer else EMPTY_OUTPUT

    def silence(self, event: str | None) -> HookOutput:
        return EMPTY_OUTPUT


def find_tool_error(native: HostEvent) -> object:
    response = native.document.get("tool_response")
    return cast("dict[str, object]", response).get("error") if isinstance(response, dict) else None
