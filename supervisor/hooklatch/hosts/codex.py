"""Codex CLI: Claude Code's documents, and answers that are checked key by key (measured with 0.171.0).

An unknown key, an empty reason, `ask`, or `continue: false` before a tool make Codex run the tool.  So a gate's answer
has only the keys that it needs, and warnings are only in the record.
"""

from __future__ import annotations

from typing import Any, Final

from hooklatch.core.light_json import as_object
from hooklatch.core.messages import FireDecision
from hooklatch.hosts.fitting import add_warning, decode_patch, explain_decision, format_model_text
from hooklatch.hosts.host import (
    HookOutput,
    Host,
    HostEvent,
    HostEventSpec,
    HostTool,
    add_to_output,
    encode_document,
    make_context_event_spec,
    make_gate_event_spec,
    make_notice_event_spec,
    make_result_event_spec,
    print_result,
)

__all__ = ["Codex"]

MODEL: Final = {"model_id": "model"}
AGENT: Final = {"subagent_id": "agent_id"}

EVENTS: Final[dict[str, HostEventSpec]] = {
    # Neither can be refused.
    "PreModelRequest": make_notice_event_spec("model_request", renamed=MODEL),
    "PostModelRequest": make_notice_event_spec("model_response", renamed=MODEL),
    "SessionStart": make_context_event_spec("session_start"),
    "UserPromptSubmit": make_gate_event_spec("user_prompt_submit", "context"),
    "PreToolUse": make_gate_event_spec("pre_tool_use", "context", "tool_input"),
    "PermissionRequest": make_gate_event_spec("permission_request", "allow ask"),
    "PostToolUse": make_result_event_spec(make_context_event_spec("post_tool_use", "halt context")),
    "PreCompact": make_gate_event_spec("pre_compact", "halt"),
    "PostCompact": make_notice_event_spec("post_compact"),
    # The subagent runs already: there is nothing to refuse.
    "SubagentStart": make_context_event_spec("subagent_started", renamed=AGENT),
    "SubagentStop": make_context_event_spec(
        "subagent_stop", "resume", renamed={**AGENT, "result": "last_assistant_message"}
    ),
    "Stop": make_context_event_spec("stop", "resume"),
    "SessionEnd": make_notice_event_spec("session_end", limit=3.0),  # the maximum that Codex allows
    "Interrupt": make_notice_event_spec(limit=3.0),
}


class Codex(Host):
    name = "codex"
    title = "Codex"
    events = EVENTS
    metadata_keys = ("transcript_path", "permission_mode", "model", "turn_id")
    project_variables = ()  # it names none; its aliases for plugins name the plugin's folder

    def list_added_keys(self, native: HostEvent, tool: HostTool | None) -> dict[str, Any]:
        added = super().list_added_keys(native, tool)
        if "token_usage" in native.document and "usage" not in native.document:
            added["usage"] = read_usage(native.document["token_usage"])
        return added

    def fit(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        decision = super().fit(native, decision)
        if (
            native.name == "PreToolUse"
            and decision.patch
            and decision.verdict == "pass"
            and format_model_text(decision)
        ):
            return add_warning(decision, "text for the model was lost: Codex takes it or a changed input, not both")
        return decision

    def render_result(self, native: HostEvent, decision: FireDecision, result: object, after: HookOutput) -> HookOutput:
        return add_to_output(after, decision="block", reason=print_result(result) or " ")  # an empty one is ignored

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        name, can, verdict = native.name, native.spec.enforces, decision.verdict
        text = explain_decision(decision)
        answer: dict[str, Any] = {}
        if native.is_gate and verdict not in ("pass", "allow", "ask"):
            answer = build_refusal(name, text)
        elif name == "PermissionRequest":
            # To ask means to stay silent: Codex then asks the person.
            answer = build_specific_output(name, decision={"behavior": "allow"}) if verdict == "allow" else {}
        elif name == "PreToolUse" and decision.patch:
            # Codex accepts an allow only with a changed input; it does not skip Codex's own approval.
            answer = build_specific_output(
                name, permissionDecision="allow", updatedInput=decode_patch(decision)["tool_input"]
            )
        elif verdict == "halt" and "halt" in can:
            answer = {"continue": False, "stopReason": text}
        elif decision.resume is not None and "resume" in can:
            answer = {"decision": "block", "reason": decision.resume or "go on"}
        elif "context" in can and (for_model := format_model_text(decision)):
            answer = build_specific_output(name, additionalContext=for_model)
        if decision.warnings and not native.is_gate and verdict != "halt":
            answer["systemMessage"] = self.make_person_text(native, decision)
        return HookOutput(stdout=encode_document(answer))


def read_usage(given: object) -> object:
    """Return the tokens of one response under the keys of other programs; another value stays as it is.

    Codex counts what was read from a cache, or written to it, in the input too.
    """
    counts = as_object(given)
    if "output_tokens" not in counts:
        return given
    fresh, read, written = map(counts.get, ("input_tokens", "cached_input_tokens", "cache_write_input_tokens"))
    if isinstance(fresh, int) and isinstance(read, int) and isinstance(written, int) and fresh >= read + written:
        fresh -= read + written
    return {
        "input_tokens": fresh, "output_tokens": counts.get("output_tokens"),
        "cache_creation_input_tokens": written, "cache_read_input_tokens": read,
    }  # fmt: skip


def build_refusal(name: str, text: str) -> dict[str, Any]:
    match name:
        case "PreToolUse":
            return build_specific_output(name, permissionDecision="deny", permissionDecisionReason=text)
        case "PermissionRequest":
            return build_specific_output(name, decision={"behavior": "deny", "message": text})
        case "PreCompact":
            return {"continue": False, "stopReason": text}
        case _:
            return {"decision": "block", "reason": text}


def build_specific_output(name: str, **fields: object) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": name, **fields}}
