"""GitHub Copilot CLI: two dialects of one program, by the spelling of the event (measured with 1.0.102).

An event installed as `preToolUse` comes in camelCase and without a name, so only the entry's command line knows it;
`PreToolUse` comes in Claude Code's keys and with Claude Code's names of tools, but with Copilot's own input.  A few
events come in camelCase under either spelling.  There are no ids of tool calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.core.messages import Decision
from hooklatch.core.tools import UnclearToolError
from hooklatch.hosts.fitting import explained, model_text, patch_of
from hooklatch.hosts.host import (
    Call,
    HookOutput,
    Host,
    Native,
    NativeEvent,
    Tool,
    UnreadableError,
    call_key,
    compact,
    context,
    gate,
    notice,
)
from hooklatch_worker.author.ambiguity import ambiguity

__all__ = ["Copilot"]

RESULT: Final = {"tool_response": "toolResult"}
SUBAGENT_STOP: Final = context(
    "subagent_stop", "resume", renamed={"subagent_id": "agentId", "agent_type": "agentType"}
)  # fmt: skip

CAMEL: Final[dict[str, NativeEvent]] = {
    "sessionStart": context("session_start"),
    "userPromptSubmitted": notice("user_prompt_submit"),  # it takes no answer
    "userPromptTransformed": notice(),
    "preToolUse": gate("pre_tool_use", "allow ask", "tool_input"),
    "permissionRequest": gate("permission_request", "allow ask", renamed={"suggestions": "permissionSuggestions"}),
    "postToolUse": notice("post_tool_use", renamed=RESULT),
    "postToolUseFailure": context("post_tool_use_failure"),
    "agentStop": context("stop", "resume", renamed={"finish_reason": "stopReason"}),
    "subagentStart": context("subagent_started", renamed={"subagent_id": "agentId", "agent_type": "agentType"}),
    "subagentStop": notice(),  # the subagent's own agentStop tells it, and takes an answer
    "preCompact": notice("pre_compact"),
    "notification": context("notification"),
    "errorOccurred": notice(),
    "sessionEnd": notice("session_end"),
}
PASCAL_NAMES: Final = {"userPromptSubmitted": "UserPromptSubmit", "agentStop": "Stop"}
PASCAL_KEYS: Final = {"toolResult": "tool_result", "stopReason": "stop_reason", "agentId": "agent_id"}


def pascal(name: str) -> str:
    return PASCAL_NAMES.get(name, name[:1].upper() + name[1:])


def in_pascal(name: str, event: NativeEvent) -> NativeEvent:
    if name in ("permissionRequest", "subagentStart"):  # they come in camelCase all the same, or in part
        return (
            event
            if name == "permissionRequest"
            else msgspec.structs.replace(event, renamed={"subagent_id": "agent_id"})
        )
    renamed = {ours: PASCAL_KEYS.get(theirs, theirs) for ours, theirs in event.renamed.items()}
    return msgspec.structs.replace(event, renamed=renamed)


WITHOUT_PASCAL: Final = ("userPromptTransformed", "errorOccurred")
PASCAL: Final[dict[str, NativeEvent]] = {
    pascal(name): in_pascal(name, event) for name, event in CAMEL.items() if name not in WITHOUT_PASCAL
}
EVENTS: Final = {**CAMEL, **PASCAL}
CALLS: Final[dict[str, Call]] = {
    "pre_tool_use": "begins", "permission_request": "goes_on", "post_tool_use": "ends", "post_tool_use_failure": "ends",
}  # fmt: skip


class Copilot(Host):
    name = "copilot"
    title = "Copilot CLI"
    aliases = ("copilot-cli", "github-copilot", "github-copilot-cli")
    events = EVENTS
    session_keys = ("session_id", "sessionId")
    turn_keys = ()
    call_keys = ()
    agent_keys = ("agent_id", "agentId")
    agent_type_keys = ("agent_type", "agentType")
    tool_keys = ("tool_name", "toolName")
    input_keys = ("tool_input", "toolArgs", "toolInput")
    metadata_keys = ("transcript_path", "transcriptPath", "timestamp")
    project_variables = ("COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> Native:
        native = super().read(event, document, environ)
        if native.event == "stop" and native.text(*self.agent_keys) is not None:
            # A subagent's stop; its session is its own, and the agent's is its parent.
            renamed = SUBAGENT_STOP.renamed if "agentId" in native.document else {"subagent_id": "agent_id"}
            return msgspec.structs.replace(native, spec=msgspec.structs.replace(SUBAGENT_STOP, renamed=renamed))
        return native

    def named(self, event: str | None, document: Mapping[str, Any]) -> str:
        said = document.get("hook_event_name", document.get("hookName"))
        if event is None or said is None:
            return super().named(event, {"hook_event_name": said} if said is not None else {})
        # Either spelling may come under either: what counts is that it is the same event.
        if not isinstance(said, str) or (said != event and pascal(said) != pascal(event)):
            raise UnreadableError(f"the entry for {event} was called for {str(said)[:100]!a}", event)
        return event

    def tool(self, native: Native) -> Tool | None:
        given = next((native.document[key] for key in self.input_keys if key in native.document), None)
        if not isinstance(given, str):
            return super().tool(native)
        # Some versions send the arguments as JSON in a text.
        name = native.text(*self.tool_keys)
        fault = ambiguity(given.encode())
        values: object = msgspec.json.decode(given) if fault is None else None
        if name is None or not isinstance(values, dict):
            raise UnclearToolError(f"the arguments of a tool are not a JSON object: {fault or 'another value'}")
        return self.known(native, Tool(name, cast("dict[str, Any]", values)))

    def known(self, native: Native, tool: Tool) -> Tool:
        tool = super().known(native, tool)
        if tool.kind == "other" and "-" in tool.name:  # server-tool; both may have dashes themselves
            server, _, name = tool.name.partition("-") if tool.name.count("-") == 1 else ("", "", "")
            return msgspec.structs.replace(tool, kind="mcp", server=server, tool=name)
        return tool

    def added(self, native: Native, tool: Tool | None) -> dict[str, Any]:
        added = super().added(native, tool)
        if tool is not None and not isinstance(native.document.get("tool_input", {}), dict):
            added["tool_input"] = tool.input
        return added

    def envelope(self, native: Native) -> dict[str, Any]:
        said = super().envelope(native)
        parent = native.text("parent_agent_id", "parentAgentId")
        if native.event == "subagent_stop" and parent is not None:
            said["session_id"] = parent
        return said

    def call_of(self, native: Native, tool: Tool | None) -> tuple[Call | None, str]:
        # Both dialects of one call are to give one key, and they name tools differently.
        same = msgspec.structs.replace(tool, name=tool.kind) if tool is not None and tool.kind != "other" else tool
        return CALLS.get(native.event), call_key(native.text(*self.session_keys), same)

    def render(self, native: Native, decision: Decision) -> HookOutput:
        can, verdict = native.spec.can, decision.verdict
        text = explained(decision) or "refused by hooklatch"
        is_refused = native.is_gate and verdict not in ("pass", "allow", "ask")
        if native.event == "permission_request":
            if is_refused:  # exit code 2 denies too, and is merged with the document
                return HookOutput(
                    exit_code=2, stdout=compact({"behavior": "deny", "message": text}), stderr=f"{text}\n"
                )
            return HookOutput(stdout=compact({"behavior": "allow"} if verdict == "allow" else {}))
        if native.is_gate:
            return HookOutput(stdout=compact(tool_answer(native.name, decision, text, is_refused=is_refused)))
        if decision.resume is not None and "resume" in can and verdict == "pass":
            return HookOutput(stdout=compact({"decision": "block", "reason": decision.resume or "go on"}))
        for_model = model_text(decision)
        if "context" not in can or not for_model:
            return HookOutput()
        if native.event == "post_tool_use_failure":
            return HookOutput(exit_code=2, stderr=f"{for_model}\n")
        return HookOutput(stdout=compact({"additionalContext": for_model}))


def tool_answer(name: str, decision: Decision, text: str, *, is_refused: bool) -> dict[str, Any]:
    said: dict[str, Any] = {}
    is_camel = name[:1].islower()
    if is_refused:
        said = {"permissionDecision": "deny", "permissionDecisionReason": text}
    else:
        if decision.verdict != "pass":
            said = {"permissionDecision": decision.verdict}
            said |= {"permissionDecisionReason": why} if (why := explained(decision)) else {}
        if "tool_input" in (patch := patch_of(decision)):
            said["modifiedArgs" if is_camel else "updatedInput"] = patch["tool_input"]
    if not said or is_camel:
        return said
    return {"hookSpecificOutput": {"hookEventName": name, **said}}
