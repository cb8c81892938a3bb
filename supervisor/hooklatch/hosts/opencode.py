"""OpenCode: a plugin inside the program, which starts the forwarder (measured with 1.18.33).

The plugin sends the document that it was called with, and throws to refuse.  It is answered with one document:

    {"verdict": "pass"}                     continue; with "args" or "output", these replace the tool's own
    {"verdict": "deny", "reason": "..."}    throw an error with this text, which the model reads in place of a result,
                                            and show the person the text in "person", if there is one
    {}                                      at every event but these two

At a gate, any other answer is a refusal, and so is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.fitting import decode_patch, explain_decision, explain_to_person
from hooklatch.hosts.host import (
    HookOutput,
    Host,
    HostEvent,
    HostEventSpec,
    HostTool,
    encode_document,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
    make_result_event_spec,
    print_result,
)

__all__ = ["OpenCode"]

EVENTS: Final[dict[str, HostEventSpec]] = {
    "tool.execute.before": make_gate_event_spec("pre_tool_use", "", "tool_input"),
    "tool.execute.after": make_result_event_spec(
        make_notice_event_spec("post_tool_use", renamed={"tool_response": "output"})
    ),
    "session.created": make_notice_event_spec("session_start"),
    "session.idle": make_notice_event_spec("stop"),
    "session.error": make_notice_event_spec("stop_failure"),
    "session.compacted": make_notice_event_spec("post_compact"),
    "session.deleted": make_notice_event_spec("session_end"),
    "chat.message": make_notice_event_spec("user_prompt_submit"),
    "permission.asked": make_notice_event_spec("notification"),
}
SUBAGENT: Final = make_notice_event_spec(
    "subagent_started", renamed={"subagent_id": "sessionID"}
)  # a session below another


class OpenCode(Host):
    name = "opencode"
    title = "OpenCode"
    events = EVENTS
    name_keys = ("event",)
    envelope_keys = make_envelope_keys(
        session_id="sessionID", turn="messageID", agent_id="", agent_type="agent", parent_session_id="parentID"
    )
    call_keys = ("callID",)
    tool_keys = ("tool",)
    input_keys = ("args",)
    folder_keys = ("cwd", "directory")
    metadata_keys = ("worktree", "model", "agent")
    project_variables = ()
    shown_verdicts = frozenset()  # a call that was refused looks like one that ran

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> HostEvent:
        native = super().read(event, document, environ)
        if native.name == "session.created" and native.text("parentID") is not None:
            return msgspec.structs.replace(native, spec=SUBAGENT)
        return native

    def envelope(self, native: HostEvent) -> dict[str, Any]:
        fields = super().envelope(native)
        if (root := native.text("worktree", "directory")) is not None:
            fields["began_in"] = root
        return fields

    def list_added_keys(self, native: HostEvent, tool: HostTool | None) -> dict[str, Any]:
        added = super().list_added_keys(native, tool)
        if native.event == "session_start":
            added.setdefault("source", "startup")
        if native.event == "notification":
            added.setdefault("notification_type", "permission_prompt")
        return added

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        tool = super().classify_tool(native, tool)
        if tool.kind == "other" and "_" in tool.name:  # server_tool; both may have underscores themselves
            server, _, name = tool.name.partition("_") if tool.name.count("_") == 1 else ("", "", "")
            return msgspec.structs.replace(tool, kind="mcp", server=server, tool=name)
        return tool

    def render_result(self, native: HostEvent, decision: FireDecision, result: object, after: HookOutput) -> HookOutput:
        if decision.verdict != "pass":
            texts = {"reason": result, "person": explain_to_person(decision)}
            return HookOutput(stdout=encode_document({"verdict": "deny", **texts}))
        output = cast("object", result) if isinstance(result, dict) else {"output": print_result(result)}
        return HookOutput(stdout=encode_document({"verdict": "pass", "output": output}))

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        if not native.is_gate:
            return self.silence(native.name)
        if decision.verdict != "pass":
            texts = {"reason": explain_decision(decision), "person": self.make_person_text(native, decision)}
            return HookOutput(stdout=encode_document({"verdict": "deny", **texts}))
        answer: dict[str, Any] = {"verdict": "pass"}
        if "tool_input" in (patch := decode_patch(decision)):
            answer["args"] = patch["tool_input"]
        return HookOutput(stdout=encode_document(answer))

    def refusal(self, event: str | None, reason: str) -> HookOutput:
        return HookOutput(stdout=encode_document({"verdict": "deny", "reason": reason}))

    def silence(self, event: str | None) -> HookOutput:
        return HookOutput(stdout='{"verdict":"pass"}\n' if event == "tool.execute.after" else "{}\n")
