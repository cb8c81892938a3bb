"""Cursor: a permission and two messages (from its documentation; it does not run without a window).

A shell command or an MCP call is reported twice, as `preToolUse` and as `beforeShellExecution` or `beforeMCPExecution`,
and either of the two may be installed.  Each is judged as the same event.  Where both report the same call alike, the
second gets the decision of the first (`same_call`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.fitting import decode_patch, explain_decision, explain_to_person, format_model_text
from hooklatch.hosts.host import (
    HookOutput,
    Host,
    HostEvent,
    HostEventSpec,
    HostFire,
    HostTool,
    add_to_output,
    call_key,
    encode_document,
    make_context_event_spec,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
    make_result_event_spec,
    print_result,
)
from hooklatch_worker.author.tools import find_tool_kind_by_name

__all__ = ["CursorHost"]

SUBAGENT: Final = {"agent_type": "subagent_type", "prompt": "task"}

EVENTS: Final[dict[str, HostEventSpec]] = {
    "sessionStart": make_context_event_spec("session_start"),
    "beforeSubmitPrompt": make_gate_event_spec("user_prompt_submit"),
    "preToolUse": make_gate_event_spec("pre_tool_use", "allow", "tool_input"),  # an ask is not enforced here
    "beforeShellExecution": make_gate_event_spec("pre_tool_use", "allow ask"),
    "beforeMCPExecution": make_gate_event_spec("pre_tool_use", "allow ask"),
    "beforeReadFile": make_gate_event_spec("pre_tool_use", "allow"),
    "beforeTabFileRead": make_gate_event_spec("pre_tool_use", "allow"),
    "postToolUse": make_result_event_spec(
        make_context_event_spec("post_tool_use", renamed={"tool_response": "tool_output", "duration_ms": "duration"})
    ),
    "postToolUseFailure": make_notice_event_spec("post_tool_use_failure", renamed={"error": "error_message"}),
    # They repeat the report of postToolUse.
    "afterShellExecution": make_notice_event_spec(),
    "afterMCPExecution": make_notice_event_spec(),
    "afterFileEdit": make_notice_event_spec("tool_path"),
    "subagentStart": make_gate_event_spec("subagent_start", renamed=SUBAGENT),
    "subagentStop": make_context_event_spec("subagent_stop", "resume", renamed=SUBAGENT),
    "stop": make_context_event_spec("stop", "resume", renamed={"finish_reason": "status"}),
    "preCompact": make_notice_event_spec("pre_compact"),
    "sessionEnd": make_notice_event_spec("session_end"),
    "afterAgentResponse": make_notice_event_spec(),
    "afterAgentThought": make_notice_event_spec(),
    "afterTabFileEdit": make_notice_event_spec(),
    "workspaceOpen": make_notice_event_spec(),
}
# The tools of events that do not name theirs.
TOOLS: Final = {
    "beforeShellExecution": "Shell", "beforeReadFile": "Read", "beforeTabFileRead": "TabRead", "afterFileEdit": "Write",
}  # fmt: skip
EMPTY_OUTPUT: Final = HookOutput(stdout="{}\n")


class CursorHost(Host):
    name = "cursor"
    title = "Cursor"
    events = EVENTS
    envelope_keys = make_envelope_keys(
        session_id="conversation_id session_id", turn="generation_id", agent_id="subagent_id",
        agent_type="subagent_type", parent_session_id="parent_conversation_id",
    )  # fmt: skip
    folder_keys = ("cwd", "workspace_roots")
    joins_calls = False  # it has two events for a command before it runs, and was not seen to run any
    has_text_inputs = True  # of beforeMCPExecution
    metadata_keys = ("transcript_path", "model", "cursor_version", "workspace_roots", "user_email")
    project_variables = ("CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> HostEvent:
        native = super().read(event, document, environ)
        after, tool = native.spec.after, native.text("tool_name") or ""
        if after is not None and not tool.startswith("MCP:"):  # of other tools it takes no other result
            return msgspec.structs.replace(native, spec=after)
        return native

    def tool(self, native: HostEvent) -> HostTool | None:
        name, document = TOOLS.get(native.name), native.document
        if name is not None:
            keys = ("command", "cwd") if name == "Shell" else ("file_path",)
            tool = HostTool(name, {key: document[key] for key in keys if key in document})
            return self.classify_tool(native, tool)
        return super().tool(native)

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        if native.name == "beforeMCPExecution" or tool.name.startswith("MCP:"):
            return msgspec.structs.replace(tool, kind="mcp", tool=tool.name.removeprefix("MCP:"))
        kind = "read" if tool.name == "TabRead" else find_tool_kind_by_name(tool.name)
        return msgspec.structs.replace(tool, kind=kind)

    def list_added_keys(self, native: HostEvent, tool: HostTool | None) -> dict[str, Any]:
        added = super().list_added_keys(native, tool)
        if tool is not None and native.name == "beforeMCPExecution":  # as preToolUse names it, so that hooks match both
            added["tool_name"] = f"MCP:{tool.tool}"
        return added

    def make_fire(self, native: HostEvent) -> HostFire:
        fire = super().make_fire(native)
        return msgspec.structs.replace(fire, same_call=self.find_same_call(native, self.tool(native)))

    def find_same_call(self, native: HostEvent, tool: HostTool | None) -> str:
        """Return the key that both events of one call share; "" if there is only one event."""
        if tool is None or tool.kind not in ("shell", "mcp") or native.event != "pre_tool_use":
            return ""
        compared_input = dict(tool.input) if tool.kind == "mcp" else {"command": tool.input.get("command")}
        folder = "" if tool.kind == "mcp" else str(tool.input.get("cwd") or "")
        plain = HostTool(f"{tool.tool or 'Shell'} {folder}", compared_input)
        return call_key(f"{native.text('conversation_id')} {native.text('generation_id')}", plain)

    def render_result(self, native: HostEvent, decision: FireDecision, result: object, after: HookOutput) -> HookOutput:
        if decision.verdict == "pass" and isinstance(result, dict):
            return add_to_output(after, updated_mcp_tool_output=cast("object", result))
        content = [{"type": "text", "text": print_result(result)}]
        return add_to_output(after, updated_mcp_tool_output={"content": content})

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        can, verdict = native.spec.enforces, decision.verdict
        text = explain_decision(decision)
        answer: dict[str, Any] = {}
        if native.is_gate and verdict not in ("pass", "allow", "ask"):
            if native.name == "beforeSubmitPrompt":
                answer = {"continue": False, "user_message": text}
            else:
                answer = {"permission": "deny", "user_message": explain_to_person(decision), "agent_message": text}
        elif native.is_gate:
            if verdict != "pass":
                answer = {"permission": verdict}
                if text:
                    answer |= {"user_message": explain_to_person(decision) or text, "agent_message": text}
            if "tool_input" in (patch := decode_patch(decision)):
                answer["updated_input"] = patch["tool_input"]
        elif decision.resume is not None and "resume" in can and verdict == "pass":
            answer = {"followup_message": decision.resume or "go on"}
        elif "context" in can and (for_model := format_model_text(decision)):
            answer = {"additional_context": for_model}
        return HookOutput(stdout=encode_document(answer)) if answer else EMPTY_OUTPUT

    def silence(self, event: str | None) -> HookOutput:
        return EMPTY_OUTPUT
