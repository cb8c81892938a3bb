"""GitHub Copilot CLI: two dialects of one program, by the spelling of the event (measured with 1.0.102).

An event installed as `preToolUse` comes in camelCase and without a name, so only the entry's command line knows it;
`PreToolUse` comes in Claude Code's keys and with Claude Code's names of tools, but with Copilot's own input.  A few
events come in camelCase under either spelling.  There are no ids of tool calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.fitting import decode_patch, explain_decision, format_model_text
from hooklatch.hosts.host import (
    STAGES,
    Call,
    HookOutput,
    Host,
    HostEvent,
    HostEventSpec,
    HostTool,
    UnreadableError,
    call_key,
    encode_document,
    make_context_event_spec,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
)

__all__ = ["Copilot"]

RESULT: Final = {"tool_response": "toolResult"}
SUBAGENT_STOP: Final = make_context_event_spec(
    "subagent_stop", "resume", renamed={"subagent_id": "agentId", "agent_type": "agentType"}
)  # fmt: skip

CAMEL: Final[dict[str, HostEventSpec]] = {
    "sessionStart": make_context_event_spec("session_start"),
    "userPromptSubmitted": make_notice_event_spec("user_prompt_submit"),  # it reads no answer
    "userPromptTransformed": make_notice_event_spec(),
    "preToolUse": make_gate_event_spec("pre_tool_use", "allow ask", "tool_input"),
    "permissionRequest": make_gate_event_spec(
        "permission_request", "allow ask", renamed={"suggestions": "permissionSuggestions"}
    ),
    "postToolUse": make_notice_event_spec("post_tool_use", renamed=RESULT),
    "postToolUseFailure": make_context_event_spec("post_tool_use_failure"),
    "agentStop": make_context_event_spec("stop", "resume", renamed={"finish_reason": "stopReason"}),
    "subagentStart": make_context_event_spec(
        "subagent_started", renamed={"subagent_id": "agentId", "agent_type": "agentType"}
    ),
    "subagentStop": make_notice_event_spec(),  # the subagent's own agentStop reports it, and reads an answer
    "preCompact": make_notice_event_spec("pre_compact"),
    "notification": make_context_event_spec("notification"),
    "errorOccurred": make_notice_event_spec(),
    "sessionEnd": make_notice_event_spec("session_end"),
}
PASCAL_NAMES: Final = {"userPromptSubmitted": "UserPromptSubmit", "agentStop": "Stop"}
PASCAL_KEYS: Final = {"toolResult": "tool_result", "stopReason": "stop_reason", "agentId": "agent_id"}


def make_pascal_name(name: str) -> str:
    return PASCAL_NAMES.get(name, name[:1].upper() + name[1:])


def rename_to_pascal(name: str, event: HostEventSpec) -> HostEventSpec:
    if name in ("permissionRequest", "subagentStart"):  # their keys are in camelCase under either spelling, or some are
        return (
            event
            if name == "permissionRequest"
            else msgspec.structs.replace(event, renamed={"subagent_id": "agent_id"})
        )
    renamed = {ours: PASCAL_KEYS.get(theirs, theirs) for ours, theirs in event.renamed.items()}
    return msgspec.structs.replace(event, renamed=renamed)


WITHOUT_PASCAL: Final = ("userPromptTransformed", "errorOccurred")
PASCAL: Final[dict[str, HostEventSpec]] = {
    make_pascal_name(name): rename_to_pascal(name, event) for name, event in CAMEL.items() if name not in WITHOUT_PASCAL
}
EVENTS: Final = {**CAMEL, **PASCAL}


class Copilot(Host):
    name = "copilot"
    title = "Copilot CLI"
    events = EVENTS
    envelope_keys = make_envelope_keys(
        session_id="session_id sessionId", agent_id="agent_id agentId", agent_type="agent_type agentType", turn=""
    )
    call_keys = ()
    tool_keys = ("tool_name", "toolName")
    input_keys = ("tool_input", "toolArgs", "toolInput")
    has_text_inputs = True  # in some versions
    metadata_keys = ("transcript_path", "transcriptPath", "timestamp")
    project_variables = ("COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> HostEvent:
        native = super().read(event, document, environ)
        if native.event == "stop" and native.text("agent_id", "agentId") is not None:
            # A subagent's stop; its session is its own, and the agent's is its parent.
            renamed = SUBAGENT_STOP.renamed if "agentId" in native.document else {"subagent_id": "agent_id"}
            return msgspec.structs.replace(native, spec=msgspec.structs.replace(SUBAGENT_STOP, renamed=renamed))
        return native

    def read_event_name(self, event: str | None, document: Mapping[str, Any]) -> str:
        named = document.get("hook_event_name", document.get("hookName"))
        if event is None or named is None:
            return super().read_event_name(event, {"hook_event_name": named} if named is not None else {})
        # Copilot may send either spelling to either hook: only the event itself must be the same.
        if not isinstance(named, str) or (named != event and make_pascal_name(named) != make_pascal_name(event)):
            raise UnreadableError(f"the hook for {event} was called for {str(named)[:100]!a}", event)
        return event

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        tool = super().classify_tool(native, tool)
        if tool.kind == "other" and "-" in tool.name:  # server-tool; both may have dashes themselves
            server, _, name = tool.name.partition("-") if tool.name.count("-") == 1 else ("", "", "")
            return msgspec.structs.replace(tool, kind="mcp", server=server, tool=name)
        return tool

    def envelope(self, native: HostEvent) -> dict[str, Any]:
        fields = super().envelope(native)
        parent = native.text("parent_agent_id", "parentAgentId")
        if native.event == "subagent_stop" and parent is not None:
            fields["session_id"] = parent
        return fields

    def find_call_stage(self, native: HostEvent, tool: HostTool | None) -> tuple[Call | None, str]:
        # Both dialects of one call must give one key, although they name tools differently.
        common_tool = (
            msgspec.structs.replace(tool, name=tool.kind) if tool is not None and tool.kind != "other" else tool
        )
        return STAGES.get(native.event), call_key(native.text("session_id", "sessionId"), common_tool)

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        can, verdict = native.spec.enforces, decision.verdict
        text = explain_decision(decision)
        is_refused = native.is_gate and verdict not in ("pass", "allow", "ask")
        if native.event == "permission_request":
            if is_refused:  # exit code 2 denies too, and is merged with the document
                return HookOutput(
                    exit_code=2, stdout=encode_document({"behavior": "deny", "message": text}), stderr=f"{text}\n"
                )
            return HookOutput(stdout=encode_document({"behavior": "allow"} if verdict == "allow" else {}))
        if native.is_gate:
            return HookOutput(
                stdout=encode_document(build_copilot_answer(native.name, decision, text, is_refused=is_refused))
            )
        if decision.resume is not None and "resume" in can and verdict == "pass":
            return HookOutput(stdout=encode_document({"decision": "block", "reason": decision.resume or "go on"}))
        for_model = format_model_text(decision)
        if "context" not in can or not for_model:
            return HookOutput()
        if native.event == "post_tool_use_failure":
            return HookOutput(exit_code=2, stderr=f"{for_model}\n")
        return HookOutput(stdout=encode_document({"additionalContext": for_model}))


def build_copilot_answer(name: str, decision: FireDecision, text: str, *, is_refused: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    is_camel = name[:1].islower()
    if is_refused:
        answer = {"permissionDecision": "deny", "permissionDecisionReason": text}
    else:
        if decision.verdict != "pass":
            answer = {"permissionDecision": decision.verdict}
            answer |= {"permissionDecisionReason": text} if text else {}
        if "tool_input" in (patch := decode_patch(decision)):
            answer["modifiedArgs" if is_camel else "updatedInput"] = patch["tool_input"]
    if not answer or is_camel:
        return answer
    return {"hookSpecificOutput": {"hookEventName": name, **answer}}
