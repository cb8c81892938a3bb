"""The event classes of the catalogue: fields as annotations, the moment of the event as docstring.

The only source of both: the daemon's catalogue reads them from here.  Does not know which answers an event allows or
how the answers of its hooks are combined.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from hooklatch_worker.author.call_context import CallContext
from hooklatch_worker.author.event import EVENT_CLASSES as EVENT_CLASSES
from hooklatch_worker.author.event import CustomEvent as CustomEvent
from hooklatch_worker.author.event import Event as Event
from hooklatch_worker.author.tools import OTHER, UnclearToolError, arguments, find_tool_kind_by_name


def build_event(
    event_name: str,
    payload: dict[str, Any],
    envelope: dict[str, Any] | bytes,
    config: dict[str, Any] | None,
    merged: dict[str, Any] | None,
    reinvoked: bool,
    call: CallContext | None = None,
) -> Event:
    """Return the event to call a hook with; a name outside the catalogue gives a `CustomEvent`.

    `call` is the context of the call in a worker, if there is one.
    """
    event_class = EVENT_CLASSES.get(event_name, CustomEvent)
    return event_class(event_name, payload, envelope, config, merged, reinvoked, call)


def read_tool_arguments(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a payload's tool: those that its host's adapter has read, or else by the tool's name.

    Raises:
        UnclearToolError: they could be read in two ways, or lack what a tool of its kind needs.
    """
    given: object = payload.get("tool_args")
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    tool_input: object = payload.get("tool_input") or {}
    if not isinstance(tool_input, dict):
        raise UnclearToolError("the input of the tool is not an object")
    kind: object = payload.get("tool_kind")
    if not isinstance(kind, str) or kind == OTHER:
        kind = find_tool_kind_by_name(str(payload.get("tool_name")))
    return arguments(kind, cast("dict[str, Any]", tool_input))


class ToolEvent(Event):
    """Common fields of events about one tool call.

    `command`, `path`, `paths` and `url` are read from `tool_args`; None, or no path, where the tool has none.  What
    could be read in two ways raises: then the hook fails, and a gate denies.
    """

    __payload_fields__: ClassVar[dict[str, str]] = {
        "tool_name": "str",
        "tool_input": "dict[str, Any]",
        "tool_kind": "str",
        "tool_args": "dict[str, Any]",
    }

    tool_name: str
    tool_input: dict[str, Any]

    @property
    def tool_kind(self) -> str:
        """The kind of the tool, such as "shell"; "other" if no table has it."""
        kind: object = self.payload.get("tool_kind")
        return kind if isinstance(kind, str) else find_tool_kind_by_name(str(self.payload.get("tool_name")))

    @property
    def tool_args(self) -> dict[str, Any]:
        """The input of the tool with the keys that all hosts share."""
        return read_tool_arguments(self.payload)

    @property
    def command(self) -> str | None:
        return self._read_text("command")

    @property
    def url(self) -> str | None:
        return self._read_text("url")

    @property
    def path(self) -> str | None:
        if self.tool_args.get("paths") and "path" not in self.tool_args:
            raise UnclearToolError("the tool names several files: read event.paths")
        return self._read_text("path")

    @property
    def paths(self) -> list[str]:
        """All files that the tool names."""
        paths: list[str] | None = self.tool_args.get("paths")
        return paths if paths is not None else [] if (path := self.path) is None else [path]

    def _read_text(self, key: str) -> str | None:
        value = self.tool_args.get(key)
        if value is not None and not isinstance(value, str):
            raise UnclearToolError(f"the {key} of the tool is not text")
        return value


class ModelEvent(Event):
    """Common fields of events about one model call."""

    model_id: str


class SubagentEvent(Event):
    """Common fields of events about one subagent."""

    subagent_id: str | None
    agent_type: str | None


class SessionStart(Event, event="session_start"):
    """A session has begun or was resumed, before its first prompt."""

    source: str
    platform: str | None
    system_info: dict[str, Any] | None


class SessionEnd(Event, event="session_end"):
    """A session is over, after stop or stop_failure."""

    finish_reason: str | None
    reason: str | None
    result: Any


class UserPromptSubmit(Event, event="user_prompt_submit"):
    """A person has sent a prompt that the model has not seen yet."""

    prompt: str
    params: dict[str, Any] | None
    turn: int | None


class UserPromptExpansion(Event, event="user_prompt_expansion"):
    """A command that a person typed is about to become a prompt."""

    command_name: str
    command_args: str | None
    command_source: str | None
    expansion_type: str | None
    prompt: str | None


class PromptBuild(Event, event="prompt_build"):
    """The system prompt is about to be put together."""

    history: list[Any] | None
    personality_id: str | None


class PreIteration(Event, event="pre_iteration"):
    """A step of the agent's loop is about to begin."""

    iteration: int | None
    unproductive_iterations: int | None
    fingerprint: str | None


class PreModel(ModelEvent, event="pre_model"):
    """A request is about to be sent to the model and can still be changed or refused."""

    request: dict[str, Any] | None
    messages: list[Any] | None


class PostModel(ModelEvent, event="post_model"):
    """The model has answered, and the answer can still be changed."""

    response: Any
    reasoning: Any


class ModelTurnEvent(ModelEvent):
    """Common fields of the two notifications about one model call."""

    turn: int | None
    usage: dict[str, Any] | None
    duration_ms: float | None
    finish_reason: str | None


class ModelRequest(ModelTurnEvent, event="model_request"):
    """The final request goes out to the model, after a passed pre_model."""


class ModelResponse(ModelTurnEvent, event="model_response"):
    """The model's answer is final, after post_model."""


class ToolSelection(ToolEvent, event="tool_selection"):
    """The model has chosen a tool, and another can still be put in its place."""

    candidates: list[Any] | None


class PreToolUse(ToolEvent, event="pre_tool_use"):
    """A tool is about to run with this input."""

    tool_use_id: str | None


class PermissionRequest(ToolEvent, event="permission_request"):
    """The host is about to ask a person whether a tool may run."""

    tool_use_id: str | None
    suggestions: list[Any] | None
    permission_id: str | None
    prompt_tool_name: str | None
    interrupt: bool | None


class PermissionDenied(ToolEvent, event="permission_denied"):
    """A tool call was refused, by hooklatch or by the host. `denial["code"]` is the cause."""

    tool_use_id: str | None
    reason: str | None
    denial: dict[str, Any] | None


class PostToolUse(ToolEvent, event="post_tool_use"):
    """A tool has run and succeeded."""

    tool_response: Any
    tool_use_id: str | None
    duration_ms: float | None


class PostToolUseFailure(ToolEvent, event="post_tool_use_failure"):
    """A tool has run and failed, or was interrupted."""

    tool_use_id: str | None
    error: Any
    is_interrupt: bool | None
    content: Any
    category: str | None


class PostToolBatch(Event, event="post_tool_batch"):
    """All tool calls of one model turn have run, and the model has not seen their results yet."""

    tool_calls: list[Any]


class ToolResult(ToolEvent, event="tool_result"):
    """A tool's result is about to be shown to the model and can still be changed."""

    tool_response: Any


class ToolPath(Event, event="tool_path"):
    """A tool has touched a file."""

    tool_name: str
    file_path: str | None
    working_dir: str | None


class CallMismatch(Event, event="call_mismatch"):
    """A tool call did not run as it was judged: it was overruled, unasked or altered. Fired by the daemon itself."""

    cause: str
    tool_name: str
    tool_input: Any
    tool_use_id: str | None
    decision_id: str | None
    reason: str


class Stop(Event, event="stop"):
    """The run has finished cleanly. Otherwise stop_failure is fired instead."""

    finish_reason: str | None
    result: Any
    last_assistant_message: str | None
    turn: int | None
    duration_ms: float | None
    stop_hook_active: bool | None


class StopFailure(Event, event="stop_failure"):
    """The run has ended in an error or was cut off. Fired in place of stop."""

    finish_reason: str | None
    result: Any
    error: Any
    turn: int | None


class SubagentStart(SubagentEvent, event="subagent_start"):
    """A subagent is about to be started and can still be refused."""

    prompt: str | None
    isolation: str | None


class SubagentStarted(SubagentEvent, event="subagent_started"):
    """A subagent has been started. Fired only after a passed subagent_start."""


class SubagentStop(SubagentEvent, event="subagent_stop"):
    """A subagent has finished, with any outcome."""

    outcome: str | None
    result: Any
    isolation: str | None
    transcript_path: str | None


class PreCompact(Event, event="pre_compact"):
    """The conversation is about to be compacted. A deny skips the compaction, and the run continues."""

    trigger: str
    estimate: Any


class CompactStage(Event, event="compact_stage"):
    """One stage of a compaction is done."""

    stage: str | None
    estimate: Any


class PostCompact(Event, event="post_compact"):
    """A compaction is done. `metadata` holds before, after, dropped_count, stages_applied and reason."""

    metadata: dict[str, Any] | None


class Notification(Event, event="notification"):
    """The host notifies its user."""

    message: str | None
    notification_type: str
    title: str | None
    content: Any
    status: str | None
    category: str | None


class TaskCreated(Event, event="task_created"):
    """A task is about to be added to the host's list."""

    task_id: str | None
    subject: str | None
    description: str | None
    teammate: str | None


class TaskCompleted(Event, event="task_completed"):
    """A task of the host's list is about to count as done."""

    task_id: str | None
    subject: str | None
    status: str | None


class TeammateIdle(Event, event="teammate_idle"):
    """A teammate has run out of work."""

    teammate: str | None


class ConfigChange(Event, event="config_change"):
    """The host's configuration has changed on disk and is about to be applied."""

    source: str
    path: str | None
    change: Any
    reload_type: str | None


class WorktreeCreate(Event, event="worktree_create"):
    """The host needs a separate working tree. A hook makes it and names its path."""

    name: str
    agent_type: str | None


class WorktreeRemove(Event, event="worktree_remove"):
    """A working tree is about to be removed."""

    worktree_path: str | None


class PreModelSwitch(Event, event="pre_model_switch"):
    """The session is about to continue with another model."""

    from_model: str | None
    to_model: str
    requested_model: str | None
    source: str | None
    context_tokens: int | None


class ElicitationEvent(Event):
    """Common fields of the two events about a question that an MCP server asks a person."""

    mcp_server_name: str
    mode: str | None
    elicitation_id: str | None


class Elicitation(ElicitationEvent, event="elicitation"):
    """An MCP server is about to ask a person for input. A hook may answer in that person's place."""

    message: str | None
    url: str | None
    requested_schema: dict[str, Any] | None


class ElicitationResult(ElicitationEvent, event="elicitation_result"):
    """A person has answered an MCP server's question, and the answer has not been sent yet."""

    action: str | None
    content: dict[str, Any] | None


class PersonalitySwitch(Event, event="personality_switch"):
    """The agent is about to take on another personality."""

    from_: str | None
    to: str


class InboundEvent(Event):
    """Common fields of events about an unanswered message."""

    platform: str
    chat_id: str | None
    text: str | None
    message: Any


class MessageClaim(InboundEvent, event="message_claim"):
    """A message came in from a chat platform, and a hook may take it before any agent does."""


class MessageDispatch(InboundEvent, event="message_dispatch"):
    """An unclaimed message is about to go to an agent, and a hook may still answer it."""


class MessageSend(Event, event="message_send"):
    """A message is about to be sent and can still be changed."""

    chat_id: str | None
    message: Any


class DeliveryEvent(Event):
    """Common fields of notifications about a delivered message."""

    chat_id: str | None
    message_id: str | None
    message: Any


class MessageReceived(DeliveryEvent, event="message_received"):
    """A message has been received."""


class MessageSent(DeliveryEvent, event="message_sent"):
    """A message has been sent."""


class ErrorEvent(Event):
    """Common fields of events about an error."""

    error_type: str
    message: str | None
    source: str | None


class ErrorIntercept(ErrorEvent, event="error_intercept"):
    """An error was raised, and a hook may handle it before anything else does."""

    data: Any


class ErrorTransform(ErrorEvent, event="error_transform"):
    """An unhandled error is about to be shown, and its text can still be changed."""


class ErrorRecover(ErrorEvent, event="error_recover"):
    """An error is about to end the run, and a hook may supply a value with which the run continues."""

    data: Any


class ErrorLog(ErrorEvent, event="error_log"):
    """An error is about to be logged. This is the last of the four events about errors."""


class DataEvent(Event):
    """Common fields of events that carry measurements."""

    event_type: str
    data: Any
    metadata: dict[str, Any] | None


class Telemetry(DataEvent, event="telemetry"):
    """The host has telemetry to hand over."""


class CustomLog(DataEvent, event="custom_log"):
    """The host has a log record to hand over."""


class Metrics(DataEvent, event="metrics"):
    """The host has metrics to hand over."""


class Performance(DataEvent, event="performance"):
    """The host has timings to hand over."""
