"""The programs that speak Claude Code's dialect, each as a table: its events, its keys, what it reads of answers.

The tables were read from the programs' own packages, at the versions in `cli/hosts/layouts.py`, and played with them
where that is possible.  In all of them a plain hook that crashes, hangs or prints something else lets the tool run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.core.refusal_texts import ASKED
from hooklatch.hosts.claude_form import ClaudeForm, rename_keys
from hooklatch.hosts.fitting import decode_patch, explain_decision, format_model_text, turn_into_deny
from hooklatch.hosts.host import (
    HookOutput,
    HostEvent,
    HostEventSpec,
    HostTool,
    encode_document,
    make_context_event_spec,
    make_envelope_keys,
    make_gate_event_spec,
    make_notice_event_spec,
)
from hooklatch_worker.author.tools import UnclearToolError

__all__ = ["Auggie", "Cline", "Droid", "Goose", "Grok", "Kimi", "Letta", "Qwen"]

OUTPUT: Final = {"tool_response": "tool_output"}
AS_TASK: Final = {"task_id": "todo_id", "subject": "todo_content"}


def set_limit(events: Mapping[str, HostEventSpec], limit: float) -> dict[str, HostEventSpec]:
    """Return the events with a limit of the program's own, which is below ours."""
    return {
        name: msgspec.structs.replace(spec, limit=min(spec.limit, limit)) for name, spec in rename_keys(events).items()
    }


class Qwen(ClaudeForm):
    """Qwen Code: fewer events, and no changed input (played with 0.24.4)."""

    name = "qwen"
    title = "Qwen Code"
    events = rename_keys({
        "SessionStart": make_context_event_spec("session_start"),
        # Qwen Code sends this for each turn of the model.
        "UserPromptSubmit": make_gate_event_spec("user_prompt_submit", "context"),
        "UserPromptExpansion": make_gate_event_spec("user_prompt_expansion"),
        "PreToolUse": make_gate_event_spec("pre_tool_use", "allow ask"),
        "PermissionRequest": make_gate_event_spec("permission_request", "allow ask"),
        "PermissionDenied": make_notice_event_spec("permission_denied"),
        # It takes no other result.
        "PostToolUse": make_context_event_spec("post_tool_use"),
        "PostToolUseFailure": make_context_event_spec("post_tool_use_failure"),
        "PostToolBatch": make_notice_event_spec("post_tool_batch"),
        "MessageDisplay": make_notice_event_spec(),
        "InstructionsLoaded": make_notice_event_spec(),
        "Notification": make_notice_event_spec("notification"),
        "SubagentStart": make_context_event_spec("subagent_started"),
        "SubagentStop": make_context_event_spec("subagent_stop", "resume"),
        "Stop": make_context_event_spec("stop", "resume"),
        "StopFailure": make_notice_event_spec("stop_failure"),
        "PreCompact": make_notice_event_spec("pre_compact"),
        "PostCompact": make_notice_event_spec("post_compact"),
        "SessionEnd": make_notice_event_spec("session_end"),
        "SessionDelete": make_notice_event_spec(),
        "TodoCreated": make_notice_event_spec("task_created", renamed=AS_TASK),
        "TodoCompleted": make_notice_event_spec("task_completed", renamed=AS_TASK),
    })  # fmt: skip
    envelope_keys = make_envelope_keys(turn="")
    metadata_keys = ("transcript_path", "permission_mode", "timestamp")
    project_variables = ("QWEN_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")

    def fit(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        decision = super().fit(native, decision)
        if decision.verdict == "ask" and native.decode_value("permission_mode") == "yolo":  # it refuses what is asked
            return turn_into_deny(decision, f"{ASKED}{self.title} asks nobody in its YOLO mode")
        return decision


class Kimi(ClaudeForm):
    """Kimi Code: a refusal is all that it reads before a tool (played with 2.1.0)."""

    name = "kimi"
    title = "Kimi Code"
    events = set_limit({
        "SessionStart": make_notice_event_spec("session_start"),
        "UserPromptSubmit": make_gate_event_spec("user_prompt_submit", "context"),
        "UserPromptQueued": make_notice_event_spec(),
        "TurnStarted": make_notice_event_spec(),
        "PreToolUse": make_gate_event_spec("pre_tool_use"),
        # It waits for no answer to what it asks a person.
        "PermissionRequest": make_notice_event_spec(),
        "PermissionResult": make_notice_event_spec(),
        "PostToolUse": make_notice_event_spec("post_tool_use", renamed=OUTPUT),
        "PostToolUseFailure": make_notice_event_spec("post_tool_use_failure"),
        "SubagentStart": make_notice_event_spec(),
        "SubagentStop": make_notice_event_spec(),
        "TaskStarted": make_notice_event_spec(),
        "Stop": make_context_event_spec("stop", "resume"),
        "StopFailure": make_notice_event_spec("stop_failure", renamed={"error": "error_type"}),
        "Interrupt": make_notice_event_spec(),
        "PreCompact": make_notice_event_spec("pre_compact"),
        "PostCompact": make_notice_event_spec("post_compact"),
        "Notification": make_notice_event_spec("notification"),
        "SessionHeartbeat": make_notice_event_spec(),
        "SessionEnd": make_notice_event_spec("session_end"),
    }, 600.0)  # fmt: skip  # seconds, the most that its settings may say
    call_keys = ("tool_call_id",)
    envelope_keys = make_envelope_keys(agent_type="agent_name")
    metadata_keys = ("client_type", "session_title", "model", "profile")
    project_variables = ()
    by_exit_code = frozenset({"PreToolUse", "UserPromptSubmit", "Stop"})
    context_key = "message"
    shows_warnings = False

    def list_added_keys(self, native: HostEvent, tool: HostTool | None) -> dict[str, Any]:
        added, prompt = super().list_added_keys(native, tool), native.document.get("prompt")
        if isinstance(prompt, list):  # of parts
            parts = [cast("dict[str, object]", part) for part in cast("list[object]", prompt) if isinstance(part, dict)]
            added["prompt"] = "\n".join(str(part.get("text", "")) for part in parts)
        return added


class Grok(ClaudeForm):
    """Grok: Claude Code's keys beside its own; an `ask` does not hold where it approves all (played with 1.0.41)."""

    name = "grok"
    title = "Grok"
    events = rename_keys({
        "SessionStart": make_notice_event_spec("session_start"),
        "UserPromptSubmit": make_gate_event_spec("user_prompt_submit"),
        "PreToolUse": make_gate_event_spec("pre_tool_use", "context", "tool_input"),
        "PermissionDenied": make_notice_event_spec("permission_denied"),
        # It takes another result in its own shape, which is not used yet.
        "PostToolUse": make_context_event_spec("post_tool_use", renamed={"tool_response": "toolResult"}),
        "PostToolUseFailure": make_context_event_spec("post_tool_use_failure"),
        "SubagentStart": make_notice_event_spec(),
        "SubagentStop": make_context_event_spec("subagent_stop", "halt resume", renamed={
            "subagent_id": "sessionId", "agent_type": "subagentType", "result": "lastAssistantMessage"}),
        "Stop": make_context_event_spec("stop", "halt resume", renamed={
            "last_assistant_message": "lastAssistantMessage", "stop_hook_active": "stopHookActive"}),
        "StopFailure": make_notice_event_spec("stop_failure"),
        "StopCancelled": make_notice_event_spec(),
        "Notification": make_notice_event_spec("notification", renamed={"notification_type": "notificationType"}),
        "PreCompact": make_notice_event_spec("pre_compact"),
        "PostCompact": make_notice_event_spec("post_compact"),
        "SessionEnd": make_notice_event_spec("session_end"),
    })  # fmt: skip
    envelope_keys = make_envelope_keys(turn="promptId", agent_type="subagentType")
    metadata_keys = ("transcript_path", "permission_mode", "workspaceRoot")
    project_variables = ("GROK_WORKSPACE_ROOT", "CLAUDE_PROJECT_DIR")

    def tool(self, native: HostEvent) -> HostTool | None:
        if native.is_gate and native.document.get("toolInputTruncated") not in (None, False):
            raise UnclearToolError("Grok sent only a part of the tool's input, so nobody can judge it")
        return super().tool(native)


class Letta(ClaudeForm):
    """Letta Code: one session for each of its agents; exit code 2 is its only refusal (played with 0.32.18)."""

    name = "letta"
    title = "Letta Code"
    events = rename_keys({
        "SessionStart": make_notice_event_spec("session_start"),
        "UserPromptSubmit": make_gate_event_spec("user_prompt_submit"),
        "PreToolUse": make_gate_event_spec("pre_tool_use", "", "tool_input"),
        "PermissionRequest": make_gate_event_spec("permission_request", "ask"),
        "PostToolUse": make_context_event_spec("post_tool_use", renamed={"tool_response": "tool_result"}),
        "PostToolUseFailure": make_context_event_spec("post_tool_use_failure", renamed={"error": "error_message"}),
        "Notification": make_notice_event_spec("notification", renamed={"notification_type": "level"}),
        "Stop": make_context_event_spec("stop", "resume", renamed={
            "last_assistant_message": "assistant_message", "finish_reason": "stop_reason"}),
        "SubagentStop": make_context_event_spec("subagent_stop", "resume", renamed={
            "subagent_id": "subagent_id", "agent_type": "subagent_type"}),
        "PreCompact": make_notice_event_spec("pre_compact"),
        "SessionEnd": make_notice_event_spec("session_end"),
    })  # fmt: skip
    name_keys = ("event_type",)
    call_keys = ("tool_call_id",)
    folder_keys = ("working_directory",)
    envelope_keys = make_envelope_keys(session_id="agent_id", agent_id="", turn="", agent_type="")
    metadata_keys = ("conversation_id", "agent_name")
    project_variables = ("LETTA_WORKING_DIR",)
    by_exit_code = frozenset({"PreToolUse", "UserPromptSubmit", "PermissionRequest", "Stop", "SubagentStop"})
    shows_warnings = False


class Auggie(ClaudeForm):
    """Auggie: the gate before tools is its only one, and a document of 10 MiB passes by it (played with 0.36.0)."""

    name = "auggie"
    title = "Auggie"
    events = rename_keys({
        "SessionStart": make_context_event_spec("session_start"),
        "PromptSubmit": make_notice_event_spec("user_prompt_submit", renamed={"prompt": "user_prompt"}),
        "PreToolUse": make_gate_event_spec("pre_tool_use", "", "tool_input"),
        "PostToolUse": make_context_event_spec("post_tool_use", renamed=OUTPUT),
        "Stop": make_context_event_spec("stop", "resume", renamed={"finish_reason": "agent_stop_cause"}),
        "Notification": make_notice_event_spec("notification", renamed={"message": "notification_message"}),
        "SessionEnd": make_notice_event_spec("session_end"),
    })  # fmt: skip
    call_keys = ()
    folder_keys = ("workspace_roots",)
    envelope_keys = make_envelope_keys(session_id="conversation_id", turn="")
    metadata_keys = ("workspace_roots",)
    project_variables = ("AUGMENT_PROJECT_DIR",)
    by_exit_code = frozenset({"PreToolUse"})
    nests_block = True

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        if native.document.get("is_mcp_tool") is True:
            return msgspec.structs.replace(tool, kind="mcp", tool=tool.name)
        return super().classify_tool(native, tool)


class Droid(ClaudeForm):
    """Droid: refused by exit code 2, since another hook's `allow` outranks a refusal in JSON (played with 0.225.2)."""

    name = "droid"
    title = "Droid"
    events = rename_keys({
        "SessionStart": make_context_event_spec("session_start"),
        "UserPromptSubmit": make_gate_event_spec("user_prompt_submit", "context"),
        "PreToolUse": make_gate_event_spec("pre_tool_use", "allow", "tool_input"),
        "PostToolUse": make_context_event_spec("post_tool_use"),
        "Notification": make_notice_event_spec("notification"),
        "Stop": make_context_event_spec("stop", "halt resume"),
        "SubagentStop": make_notice_event_spec(),
        "PreCompact": make_gate_event_spec("pre_compact"),
        "SessionEnd": make_notice_event_spec("session_end"),
    })  # fmt: skip
    call_keys = ()
    merges_input = True
    envelope_keys = make_envelope_keys(turn="message_id")
    metadata_keys = ("transcript_path", "permission_mode")
    project_variables = ("FACTORY_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
    by_exit_code = frozenset({"PreToolUse", "UserPromptSubmit", "PreCompact"})


class Goose(ClaudeForm):
    """Goose: hooks of a plugin; only a refusal is read, before tools and where it ends (played with 1.52.0)."""

    name = "goose"
    title = "Goose"
    events = rename_keys({
        "SessionStart": make_notice_event_spec("session_start"),
        "UserPromptSubmit": make_notice_event_spec("user_prompt_submit", renamed={"prompt": "message"}),
        "PreToolUse": make_gate_event_spec("pre_tool_use"),
        "PreToolUseResult": make_notice_event_spec(),
        "PostToolUse": make_notice_event_spec("post_tool_use", renamed=OUTPUT),
        "PostToolUseFailure": make_notice_event_spec("post_tool_use_failure", renamed={"error": "tool_output"}),
        # They repeat what is reported before.
        "BeforeReadFile": make_notice_event_spec(),
        "AfterFileEdit": make_notice_event_spec(),
        "BeforeShellExecution": make_notice_event_spec(),
        "AfterShellExecution": make_notice_event_spec(),
        "Stop": make_context_event_spec("stop", "resume"),
        "SessionEnd": make_notice_event_spec("session_end"),
    })  # fmt: skip
    name_keys = ("event",)
    call_keys = ("tool_call_id",)
    folder_keys = ("working_dir",)
    envelope_keys = make_envelope_keys(turn="")
    metadata_keys = ("matcher_context",)
    project_variables = ()
    by_exit_code = frozenset({"PreToolUse", "Stop"})
    shows_warnings = False

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        server, mark, name = tool.name.partition("__")
        if not mark:
            return super().classify_tool(native, tool)
        if server == "developer":  # its own extension
            return super().classify_tool(native, msgspec.structs.replace(tool, name=name))
        return msgspec.structs.replace(tool, kind="mcp", server=server, tool=name)


class Cline(ClaudeForm):
    """Cline: a script for each event, whose exit code it does not read; a refusal ends its run (played with 3.0.65)."""

    name = "cline"
    title = "Cline"
    # Only these two are waited for; it kills them after two minutes.
    events = set_limit({
        "TaskStart": make_notice_event_spec("session_start"),
        "TaskResume": make_notice_event_spec(),
        "UserPromptSubmit": make_notice_event_spec("user_prompt_submit"),
        "PreToolUse": make_gate_event_spec("pre_tool_use", "context", "tool_input"),
        "PostToolUse": make_context_event_spec("post_tool_use"),
        "TaskComplete": make_notice_event_spec("stop"),
        "TaskError": make_notice_event_spec(),
        "TaskCancel": make_notice_event_spec(),
        "SessionShutdown": make_notice_event_spec("session_end"),
    }, 120.0)  # fmt: skip
    names: Final = {
        "agent_start": "TaskStart", "agent_resume": "TaskResume", "prompt_submit": "UserPromptSubmit",
        "tool_call": "PreToolUse", "tool_result": "PostToolUse", "agent_end": "TaskComplete",
        "agent_error": "TaskError", "agent_abort": "TaskCancel", "session_shutdown": "SessionShutdown",
    }  # fmt: skip
    name_keys = ("hookName",)
    folder_keys = ("workspaceRoots",)
    envelope_keys = make_envelope_keys(session_id="taskId", turn="", agent_type="")
    metadata_keys = ("clineVersion", "workspaceRoots")
    project_variables = ()

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> HostEvent:
        native = super().read(event, document, environ)
        added = find_cline_fields(native)
        encoded = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in added.items()}
        return msgspec.structs.replace(
            native, document={**native.document, **added}, fields={**native.fields, **encoded}
        )  # fmt: skip

    def read_event_name(self, event: str | None, document: Mapping[str, Any]) -> str:
        named = document.get("hookName")
        known = self.names.get(named, named) if isinstance(named, str) else named
        return super().read_event_name(event, {"hookName": known} if "hookName" in document else {})

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        tool = super().classify_tool(native, tool)
        if tool.kind == "shell" and "commands" in tool.input:
            rest = {key: value for key, value in tool.input.items() if key != "commands"}
            if "command" in rest:
                raise UnclearToolError("a call of Cline has both `commands` and `command`")
            return msgspec.structs.replace(tool, input={**rest, "command": join_lines(tool.input["commands"])})
        return tool

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        if native.is_gate and decision.verdict not in ("pass", "allow"):
            return HookOutput(stdout=encode_document({"cancel": True, "errorMessage": explain_decision(decision)}))
        answer: dict[str, Any] = {}
        if native.is_gate and "tool_input" in (patch := decode_patch(decision)):
            answer["overrideInput"] = patch["tool_input"]
        if "context" in native.spec.enforces and (for_model := format_model_text(decision)):
            answer["context"] = for_model
        return HookOutput(stdout=encode_document(answer))

    def refusal(self, event: str | None, reason: str) -> HookOutput:
        return HookOutput(stdout=encode_document({"cancel": True, "errorMessage": reason}))


def find_cline_fields(native: HostEvent) -> dict[str, Any]:
    """Return what a document of Cline has below its own keys, under the keys of most programs."""
    added: dict[str, Any] = {}
    call = native.document.get("tool_call", native.document.get("tool_result"))
    names = {"tool_name": "name", "tool_input": "input", "tool_use_id": "id", "tool_response": "output"}
    if isinstance(call, dict):
        fields = cast("dict[str, Any]", call)
        added = {ours: fields[theirs] for ours, theirs in names.items() if theirs in fields}
    submitted = native.document.get("userPromptSubmit")
    if isinstance(submitted, dict) and "prompt" in submitted:
        added["prompt"] = cast("dict[str, Any]", submitted)["prompt"]
    return added


def join_lines(given: object) -> str:
    """Return the commands of one call as the lines of a script; one may be a program and its arguments.

    Raises:
        UnclearToolError: one of them is neither.
    """
    lines: list[str] = []
    for each in cast("list[object]", given) if isinstance(given, list) else [given]:
        table = cast("dict[str, object]", each) if isinstance(each, dict) else {"command": each}
        given_words: object = table.get("args") or []
        command = table.get("command")
        if not isinstance(command, str) or not isinstance(given_words, list) or not table.keys() <= {"command", "args"}:
            raise UnclearToolError("one of the commands of a call of Cline is neither text nor a program")
        words = list(map(str, cast("list[object]", given_words)))
        lines.append(shlex.join([command, *words]) if words else command)
    return "\n".join(lines)
