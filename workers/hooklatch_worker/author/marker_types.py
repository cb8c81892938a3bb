"""The types of each event's hooks and their answers, for type checkers.  Never imported at run time.

Repeats the letters of the catalogue as types: a test runs both type checkers over every event and every verdict, and
compares with the catalogue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Never, TypeAlias, TypedDict, TypeVar

from hooklatch_worker.author import events as e
from hooklatch_worker.author.verdicts import Verdict

E = TypeVar("E")
V = TypeVar("V")

Match: TypeAlias = str | list[str] | Mapping[str, object]
Runtime: TypeAlias = Literal["trio", "asyncio"]


class MarkerOptions(TypedDict, total=False):
    """The keyword arguments of every overload of `hook`."""

    match: Match | None
    id: str | None
    priority: int
    timeout: float | None
    description: str
    enabled: bool
    observe: bool
    optional: bool
    config: dict[str, Any] | None
    runtime: Runtime


class AmendOptions(MarkerOptions, total=False):
    """The keyword arguments for events whose hooks may change the payload."""

    amends: bool


class HasNothingToAmend:
    """Fits no function: the type of a hook declared with `amends` on an event that cannot be amended."""


Unchanging: TypeAlias = Literal[
    "session_start",
    "session_end",
    "pre_iteration",
    "model_request",
    "model_response",
    "permission_denied",
    "post_tool_use",
    "post_tool_use_failure",
    "tool_path",
    "stop",
    "stop_failure",
    "subagent_started",
    "subagent_stop",
    "pre_compact",
    "compact_stage",
    "post_compact",
    "notification",
    "task_completed",
    "teammate_idle",
    "config_change",
    "message_claim",
    "message_dispatch",
    "message_received",
    "message_sent",
    "error_intercept",
    "error_recover",
    "error_log",
    "telemetry",
    "custom_log",
    "metrics",
    "performance",
]

Hook: TypeAlias = Callable[[E], V | Awaitable[V | None] | None]

Observing: TypeAlias = Verdict[Never]
Speaking: TypeAlias = Verdict[Literal["halt", "inject"]]
Commenting: TypeAlias = Verdict[Literal["halt", "inject", "append"]]
Resuming: TypeAlias = Verdict[Literal["resume"]]
Stopping: TypeAlias = Verdict[Literal["halt", "resume"]]
Returning: TypeAlias = Verdict[Literal["halt", "inject", "resume"]]
Stepping: TypeAlias = Verdict[Literal["halt", "inject", "last"]]
Amending: TypeAlias = Verdict[Literal["amend", "last"]]
Claiming: TypeAlias = Verdict[Literal["claim", "last"]]
Approving: TypeAlias = Verdict[Literal["deny", "ask"]]
Choosing: TypeAlias = Verdict[Literal["deny", "amend"]]
Requesting: TypeAlias = Verdict[Literal["deny", "halt", "inject", "amend"]]
Compacting: TypeAlias = Verdict[Literal["deny", "ask", "halt", "inject"]]
Starting: TypeAlias = Verdict[Literal["deny", "ask", "halt", "inject", "amend"]]
Permitting: TypeAlias = Verdict[Literal["allow", "deny", "ask", "halt", "amend"]]
Guarding: TypeAlias = Verdict[Literal["allow", "deny", "ask", "halt", "inject", "amend"]]

AnyHook = TypeVar("AnyHook", bound=Hook[Any, Verdict[Any]])
SessionStartHook = TypeVar("SessionStartHook", bound=Hook[e.SessionStart, Speaking])
SessionEndHook = TypeVar("SessionEndHook", bound=Hook[e.SessionEnd, Observing])
UserPromptSubmitHook = TypeVar("UserPromptSubmitHook", bound=Hook[e.UserPromptSubmit, Starting])
PromptBuildHook = TypeVar("PromptBuildHook", bound=Hook[e.PromptBuild, Amending])
PreIterationHook = TypeVar("PreIterationHook", bound=Hook[e.PreIteration, Stepping])
PreModelHook = TypeVar("PreModelHook", bound=Hook[e.PreModel, Requesting])
PostModelHook = TypeVar("PostModelHook", bound=Hook[e.PostModel, Amending])
ModelRequestHook = TypeVar("ModelRequestHook", bound=Hook[e.ModelRequest, Observing])
ModelResponseHook = TypeVar("ModelResponseHook", bound=Hook[e.ModelResponse, Observing])
ToolSelectionHook = TypeVar("ToolSelectionHook", bound=Hook[e.ToolSelection, Choosing])
PreToolUseHook = TypeVar("PreToolUseHook", bound=Hook[e.PreToolUse, Guarding])
PermissionRequestHook = TypeVar("PermissionRequestHook", bound=Hook[e.PermissionRequest, Permitting])
PermissionDeniedHook = TypeVar("PermissionDeniedHook", bound=Hook[e.PermissionDenied, Speaking])
PostToolUseHook = TypeVar("PostToolUseHook", bound=Hook[e.PostToolUse, Commenting])
PostToolUseFailureHook = TypeVar("PostToolUseFailureHook", bound=Hook[e.PostToolUseFailure, Commenting])
ToolResultHook = TypeVar("ToolResultHook", bound=Hook[e.ToolResult, Amending])
ToolPathHook = TypeVar("ToolPathHook", bound=Hook[e.ToolPath, Observing])
StopHook = TypeVar("StopHook", bound=Hook[e.Stop, Stopping])
StopFailureHook = TypeVar("StopFailureHook", bound=Hook[e.StopFailure, Observing])
SubagentStartHook = TypeVar("SubagentStartHook", bound=Hook[e.SubagentStart, Starting])
SubagentStartedHook = TypeVar("SubagentStartedHook", bound=Hook[e.SubagentStarted, Observing])
SubagentStopHook = TypeVar("SubagentStopHook", bound=Hook[e.SubagentStop, Returning])
PreCompactHook = TypeVar("PreCompactHook", bound=Hook[e.PreCompact, Compacting])
CompactStageHook = TypeVar("CompactStageHook", bound=Hook[e.CompactStage, Speaking])
PostCompactHook = TypeVar("PostCompactHook", bound=Hook[e.PostCompact, Speaking])
NotificationHook = TypeVar("NotificationHook", bound=Hook[e.Notification, Speaking])
TaskCompletedHook = TypeVar("TaskCompletedHook", bound=Hook[e.TaskCompleted, Resuming])
TeammateIdleHook = TypeVar("TeammateIdleHook", bound=Hook[e.TeammateIdle, Resuming])
ConfigChangeHook = TypeVar("ConfigChangeHook", bound=Hook[e.ConfigChange, Approving])
PersonalitySwitchHook = TypeVar("PersonalitySwitchHook", bound=Hook[e.PersonalitySwitch, Amending])
MessageClaimHook = TypeVar("MessageClaimHook", bound=Hook[e.MessageClaim, Claiming])
MessageDispatchHook = TypeVar("MessageDispatchHook", bound=Hook[e.MessageDispatch, Claiming])
MessageSendHook = TypeVar("MessageSendHook", bound=Hook[e.MessageSend, Amending])
MessageReceivedHook = TypeVar("MessageReceivedHook", bound=Hook[e.MessageReceived, Observing])
MessageSentHook = TypeVar("MessageSentHook", bound=Hook[e.MessageSent, Observing])
ErrorInterceptHook = TypeVar("ErrorInterceptHook", bound=Hook[e.ErrorIntercept, Claiming])
ErrorRecoverHook = TypeVar("ErrorRecoverHook", bound=Hook[e.ErrorRecover, Claiming])
ErrorTransformHook = TypeVar("ErrorTransformHook", bound=Hook[e.ErrorTransform, Amending])
ErrorLogHook = TypeVar("ErrorLogHook", bound=Hook[e.ErrorLog, Observing])
TelemetryHook = TypeVar("TelemetryHook", bound=Hook[e.Telemetry, Observing])
CustomLogHook = TypeVar("CustomLogHook", bound=Hook[e.CustomLog, Observing])
MetricsHook = TypeVar("MetricsHook", bound=Hook[e.Metrics, Observing])
PerformanceHook = TypeVar("PerformanceHook", bound=Hook[e.Performance, Observing])
