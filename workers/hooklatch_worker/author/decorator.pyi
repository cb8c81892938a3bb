"""What a hook of each event may take and answer, for type checkers.

Written by `python tests/support/hook_stub.py` from the catalogue; a test holds it to that.  The last overload takes
any call, so that a wrong option is one short error and not a list of all overloads; it overlaps the others on purpose.
"""

# mypy: disable-error-code="overload-overlap"
# pyright: reportOverlappingOverload=false

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Never, TypeAlias, TypedDict, TypeVar, Unpack, overload

from hooklatch_worker.author import events as e
from hooklatch_worker.author.verdicts import Verdict

E = TypeVar("E")
V = TypeVar("V")
Hook: TypeAlias = Callable[[E], V | Awaitable[V | None] | None]

class Options(TypedDict, total=False):
    match: str | list[str] | Mapping[str, object] | None
    where: Mapping[str, object] | None
    id: str | None
    priority: int
    timeout: float | None
    description: str
    enabled: bool
    observe: bool
    optional: bool
    only_judges: bool
    config: dict[str, Any] | None
    runtime: Literal["trio", "asyncio"]
    files: list[str] | tuple[str, ...]

class AmendOptions(Options, total=False):
    amends: bool

class NothingToAmend:
    """Fits no function: the type of a hook declared with `amends` on an event that cannot be amended."""

class WrongOption:
    """Fits no function: the type of a hook marked with an option, or a value of one, that @hook does not take."""

AnyHook = TypeVar("AnyHook", bound=Hook[Any, Verdict[Any]])
SessionStartHook = TypeVar("SessionStartHook", bound=Hook[e.SessionStart, Verdict[Literal["halt", "inject"]]])
SessionEndHook = TypeVar("SessionEndHook", bound=Hook[e.SessionEnd, Verdict[Never]])
UserPromptSubmitHook = TypeVar(
    "UserPromptSubmitHook", bound=Hook[e.UserPromptSubmit, Verdict[Literal["deny", "ask", "halt", "amend", "inject"]]]
)
UserPromptExpansionHook = TypeVar(
    "UserPromptExpansionHook", bound=Hook[e.UserPromptExpansion, Verdict[Literal["deny", "ask", "halt"]]]
)
PromptBuildHook = TypeVar("PromptBuildHook", bound=Hook[e.PromptBuild, Verdict[Literal["amend", "last"]]])
PreIterationHook = TypeVar("PreIterationHook", bound=Hook[e.PreIteration, Verdict[Literal["halt", "inject", "last"]]])
PreModelHook = TypeVar("PreModelHook", bound=Hook[e.PreModel, Verdict[Literal["deny", "halt", "amend", "inject"]]])
PostModelHook = TypeVar("PostModelHook", bound=Hook[e.PostModel, Verdict[Literal["amend", "last"]]])
ModelRequestHook = TypeVar("ModelRequestHook", bound=Hook[e.ModelRequest, Verdict[Never]])
ModelResponseHook = TypeVar("ModelResponseHook", bound=Hook[e.ModelResponse, Verdict[Never]])
ToolSelectionHook = TypeVar("ToolSelectionHook", bound=Hook[e.ToolSelection, Verdict[Literal["deny", "amend"]]])
PreToolUseHook = TypeVar(
    "PreToolUseHook", bound=Hook[e.PreToolUse, Verdict[Literal["allow", "deny", "ask", "halt", "amend", "inject"]]]
)
PermissionRequestHook = TypeVar(
    "PermissionRequestHook", bound=Hook[e.PermissionRequest, Verdict[Literal["allow", "deny", "ask", "halt", "amend"]]]
)
PermissionDeniedHook = TypeVar(
    "PermissionDeniedHook", bound=Hook[e.PermissionDenied, Verdict[Literal["halt", "inject"]]]
)
PostToolUseHook = TypeVar("PostToolUseHook", bound=Hook[e.PostToolUse, Verdict[Literal["halt", "inject", "append"]]])
PostToolUseFailureHook = TypeVar(
    "PostToolUseFailureHook", bound=Hook[e.PostToolUseFailure, Verdict[Literal["halt", "inject", "append"]]]
)
PostToolBatchHook = TypeVar("PostToolBatchHook", bound=Hook[e.PostToolBatch, Verdict[Literal["halt", "inject"]]])
ToolResultHook = TypeVar("ToolResultHook", bound=Hook[e.ToolResult, Verdict[Literal["deny", "halt", "amend"]]])
ToolPathHook = TypeVar("ToolPathHook", bound=Hook[e.ToolPath, Verdict[Never]])
CallMismatchHook = TypeVar("CallMismatchHook", bound=Hook[e.CallMismatch, Verdict[Never]])
StopHook = TypeVar("StopHook", bound=Hook[e.Stop, Verdict[Literal["halt", "resume"]]])
StopFailureHook = TypeVar("StopFailureHook", bound=Hook[e.StopFailure, Verdict[Never]])
SubagentStartHook = TypeVar(
    "SubagentStartHook", bound=Hook[e.SubagentStart, Verdict[Literal["deny", "ask", "halt", "amend", "inject"]]]
)
SubagentStartedHook = TypeVar("SubagentStartedHook", bound=Hook[e.SubagentStarted, Verdict[Literal["inject"]]])
SubagentStopHook = TypeVar("SubagentStopHook", bound=Hook[e.SubagentStop, Verdict[Literal["halt", "inject", "resume"]]])
PreCompactHook = TypeVar("PreCompactHook", bound=Hook[e.PreCompact, Verdict[Literal["deny", "ask", "halt", "inject"]]])
CompactStageHook = TypeVar("CompactStageHook", bound=Hook[e.CompactStage, Verdict[Literal["halt", "inject"]]])
PostCompactHook = TypeVar("PostCompactHook", bound=Hook[e.PostCompact, Verdict[Literal["halt", "inject"]]])
NotificationHook = TypeVar("NotificationHook", bound=Hook[e.Notification, Verdict[Literal["halt", "inject"]]])
TaskCreatedHook = TypeVar("TaskCreatedHook", bound=Hook[e.TaskCreated, Verdict[Literal["deny", "ask"]]])
TaskCompletedHook = TypeVar("TaskCompletedHook", bound=Hook[e.TaskCompleted, Verdict[Literal["resume"]]])
TeammateIdleHook = TypeVar("TeammateIdleHook", bound=Hook[e.TeammateIdle, Verdict[Literal["resume"]]])
ConfigChangeHook = TypeVar("ConfigChangeHook", bound=Hook[e.ConfigChange, Verdict[Literal["deny", "ask"]]])
WorktreeCreateHook = TypeVar(
    "WorktreeCreateHook", bound=Hook[e.WorktreeCreate, Verdict[Literal["deny", "ask", "amend"]]]
)
WorktreeRemoveHook = TypeVar("WorktreeRemoveHook", bound=Hook[e.WorktreeRemove, Verdict[Literal["deny", "ask"]]])
PreModelSwitchHook = TypeVar(
    "PreModelSwitchHook", bound=Hook[e.PreModelSwitch, Verdict[Literal["allow", "deny", "ask"]]]
)
ElicitationHook = TypeVar(
    "ElicitationHook", bound=Hook[e.Elicitation, Verdict[Literal["allow", "deny", "ask", "amend"]]]
)
ElicitationResultHook = TypeVar(
    "ElicitationResultHook", bound=Hook[e.ElicitationResult, Verdict[Literal["deny", "ask", "amend"]]]
)
PersonalitySwitchHook = TypeVar(
    "PersonalitySwitchHook", bound=Hook[e.PersonalitySwitch, Verdict[Literal["amend", "last"]]]
)
MessageClaimHook = TypeVar("MessageClaimHook", bound=Hook[e.MessageClaim, Verdict[Literal["claim", "last"]]])
MessageDispatchHook = TypeVar("MessageDispatchHook", bound=Hook[e.MessageDispatch, Verdict[Literal["claim", "last"]]])
MessageSendHook = TypeVar("MessageSendHook", bound=Hook[e.MessageSend, Verdict[Literal["amend", "last"]]])
MessageReceivedHook = TypeVar("MessageReceivedHook", bound=Hook[e.MessageReceived, Verdict[Never]])
MessageSentHook = TypeVar("MessageSentHook", bound=Hook[e.MessageSent, Verdict[Never]])
ErrorInterceptHook = TypeVar("ErrorInterceptHook", bound=Hook[e.ErrorIntercept, Verdict[Literal["claim", "last"]]])
ErrorRecoverHook = TypeVar("ErrorRecoverHook", bound=Hook[e.ErrorRecover, Verdict[Literal["claim", "last"]]])
ErrorTransformHook = TypeVar("ErrorTransformHook", bound=Hook[e.ErrorTransform, Verdict[Literal["amend", "last"]]])
ErrorLogHook = TypeVar("ErrorLogHook", bound=Hook[e.ErrorLog, Verdict[Never]])
TelemetryHook = TypeVar("TelemetryHook", bound=Hook[e.Telemetry, Verdict[Never]])
CustomLogHook = TypeVar("CustomLogHook", bound=Hook[e.CustomLog, Verdict[Never]])
MetricsHook = TypeVar("MetricsHook", bound=Hook[e.Metrics, Verdict[Never]])
PerformanceHook = TypeVar("PerformanceHook", bound=Hook[e.Performance, Verdict[Never]])

@overload
def hook(
    event: Literal["session_start"], **options: Unpack[Options]
) -> Callable[[SessionStartHook], SessionStartHook]: ...
@overload
def hook(event: Literal["session_end"], **options: Unpack[Options]) -> Callable[[SessionEndHook], SessionEndHook]: ...
@overload
def hook(
    event: Literal["user_prompt_submit"], **options: Unpack[AmendOptions]
) -> Callable[[UserPromptSubmitHook], UserPromptSubmitHook]: ...
@overload
def hook(
    event: Literal["user_prompt_expansion"], **options: Unpack[Options]
) -> Callable[[UserPromptExpansionHook], UserPromptExpansionHook]: ...
@overload
def hook(
    event: Literal["prompt_build"], **options: Unpack[AmendOptions]
) -> Callable[[PromptBuildHook], PromptBuildHook]: ...
@overload
def hook(
    event: Literal["pre_iteration"], **options: Unpack[Options]
) -> Callable[[PreIterationHook], PreIterationHook]: ...
@overload
def hook(event: Literal["pre_model"], **options: Unpack[AmendOptions]) -> Callable[[PreModelHook], PreModelHook]: ...
@overload
def hook(event: Literal["post_model"], **options: Unpack[AmendOptions]) -> Callable[[PostModelHook], PostModelHook]: ...
@overload
def hook(
    event: Literal["model_request"], **options: Unpack[Options]
) -> Callable[[ModelRequestHook], ModelRequestHook]: ...
@overload
def hook(
    event: Literal["model_response"], **options: Unpack[Options]
) -> Callable[[ModelResponseHook], ModelResponseHook]: ...
@overload
def hook(
    event: Literal["tool_selection"], **options: Unpack[AmendOptions]
) -> Callable[[ToolSelectionHook], ToolSelectionHook]: ...
@overload
def hook(
    event: Literal["pre_tool_use"], **options: Unpack[AmendOptions]
) -> Callable[[PreToolUseHook], PreToolUseHook]: ...
@overload
def hook(
    event: Literal["permission_request"], **options: Unpack[AmendOptions]
) -> Callable[[PermissionRequestHook], PermissionRequestHook]: ...
@overload
def hook(
    event: Literal["permission_denied"], **options: Unpack[Options]
) -> Callable[[PermissionDeniedHook], PermissionDeniedHook]: ...
@overload
def hook(
    event: Literal["post_tool_use"], **options: Unpack[Options]
) -> Callable[[PostToolUseHook], PostToolUseHook]: ...
@overload
def hook(
    event: Literal["post_tool_use_failure"], **options: Unpack[Options]
) -> Callable[[PostToolUseFailureHook], PostToolUseFailureHook]: ...
@overload
def hook(
    event: Literal["post_tool_batch"], **options: Unpack[Options]
) -> Callable[[PostToolBatchHook], PostToolBatchHook]: ...
@overload
def hook(
    event: Literal["tool_result"], **options: Unpack[AmendOptions]
) -> Callable[[ToolResultHook], ToolResultHook]: ...
@overload
def hook(event: Literal["tool_path"], **options: Unpack[Options]) -> Callable[[ToolPathHook], ToolPathHook]: ...
@overload
def hook(
    event: Literal["call_mismatch"], **options: Unpack[Options]
) -> Callable[[CallMismatchHook], CallMismatchHook]: ...
@overload
def hook(event: Literal["stop"], **options: Unpack[Options]) -> Callable[[StopHook], StopHook]: ...
@overload
def hook(
    event: Literal["stop_failure"], **options: Unpack[Options]
) -> Callable[[StopFailureHook], StopFailureHook]: ...
@overload
def hook(
    event: Literal["subagent_start"], **options: Unpack[AmendOptions]
) -> Callable[[SubagentStartHook], SubagentStartHook]: ...
@overload
def hook(
    event: Literal["subagent_started"], **options: Unpack[Options]
) -> Callable[[SubagentStartedHook], SubagentStartedHook]: ...
@overload
def hook(
    event: Literal["subagent_stop"], **options: Unpack[Options]
) -> Callable[[SubagentStopHook], SubagentStopHook]: ...
@overload
def hook(event: Literal["pre_compact"], **options: Unpack[Options]) -> Callable[[PreCompactHook], PreCompactHook]: ...
@overload
def hook(
    event: Literal["compact_stage"], **options: Unpack[Options]
) -> Callable[[CompactStageHook], CompactStageHook]: ...
@overload
def hook(
    event: Literal["post_compact"], **options: Unpack[Options]
) -> Callable[[PostCompactHook], PostCompactHook]: ...
@overload
def hook(
    event: Literal["notification"], **options: Unpack[Options]
) -> Callable[[NotificationHook], NotificationHook]: ...
@overload
def hook(
    event: Literal["task_created"], **options: Unpack[Options]
) -> Callable[[TaskCreatedHook], TaskCreatedHook]: ...
@overload
def hook(
    event: Literal["task_completed"], **options: Unpack[Options]
) -> Callable[[TaskCompletedHook], TaskCompletedHook]: ...
@overload
def hook(
    event: Literal["teammate_idle"], **options: Unpack[Options]
) -> Callable[[TeammateIdleHook], TeammateIdleHook]: ...
@overload
def hook(
    event: Literal["config_change"], **options: Unpack[Options]
) -> Callable[[ConfigChangeHook], ConfigChangeHook]: ...
@overload
def hook(
    event: Literal["worktree_create"], **options: Unpack[AmendOptions]
) -> Callable[[WorktreeCreateHook], WorktreeCreateHook]: ...
@overload
def hook(
    event: Literal["worktree_remove"], **options: Unpack[Options]
) -> Callable[[WorktreeRemoveHook], WorktreeRemoveHook]: ...
@overload
def hook(
    event: Literal["pre_model_switch"], **options: Unpack[Options]
) -> Callable[[PreModelSwitchHook], PreModelSwitchHook]: ...
@overload
def hook(
    event: Literal["elicitation"], **options: Unpack[AmendOptions]
) -> Callable[[ElicitationHook], ElicitationHook]: ...
@overload
def hook(
    event: Literal["elicitation_result"], **options: Unpack[AmendOptions]
) -> Callable[[ElicitationResultHook], ElicitationResultHook]: ...
@overload
def hook(
    event: Literal["personality_switch"], **options: Unpack[AmendOptions]
) -> Callable[[PersonalitySwitchHook], PersonalitySwitchHook]: ...
@overload
def hook(
    event: Literal["message_claim"], **options: Unpack[Options]
) -> Callable[[MessageClaimHook], MessageClaimHook]: ...
@overload
def hook(
    event: Literal["message_dispatch"], **options: Unpack[Options]
) -> Callable[[MessageDispatchHook], MessageDispatchHook]: ...
@overload
def hook(
    event: Literal["message_send"], **options: Unpack[AmendOptions]
) -> Callable[[MessageSendHook], MessageSendHook]: ...
@overload
def hook(
    event: Literal["message_received"], **options: Unpack[Options]
) -> Callable[[MessageReceivedHook], MessageReceivedHook]: ...
@overload
def hook(
    event: Literal["message_sent"], **options: Unpack[Options]
) -> Callable[[MessageSentHook], MessageSentHook]: ...
@overload
def hook(
    event: Literal["error_intercept"], **options: Unpack[Options]
) -> Callable[[ErrorInterceptHook], ErrorInterceptHook]: ...
@overload
def hook(
    event: Literal["error_recover"], **options: Unpack[Options]
) -> Callable[[ErrorRecoverHook], ErrorRecoverHook]: ...
@overload
def hook(
    event: Literal["error_transform"], **options: Unpack[AmendOptions]
) -> Callable[[ErrorTransformHook], ErrorTransformHook]: ...
@overload
def hook(event: Literal["error_log"], **options: Unpack[Options]) -> Callable[[ErrorLogHook], ErrorLogHook]: ...
@overload
def hook(event: Literal["telemetry"], **options: Unpack[Options]) -> Callable[[TelemetryHook], TelemetryHook]: ...
@overload
def hook(event: Literal["custom_log"], **options: Unpack[Options]) -> Callable[[CustomLogHook], CustomLogHook]: ...
@overload
def hook(event: Literal["metrics"], **options: Unpack[Options]) -> Callable[[MetricsHook], MetricsHook]: ...
@overload
def hook(event: Literal["performance"], **options: Unpack[Options]) -> Callable[[PerformanceHook], PerformanceHook]: ...
@overload
def hook(
    event: Literal[
        "session_start",
        "session_end",
        "user_prompt_expansion",
        "pre_iteration",
        "model_request",
        "model_response",
        "permission_denied",
        "post_tool_use",
        "post_tool_use_failure",
        "post_tool_batch",
        "tool_path",
        "call_mismatch",
        "stop",
        "stop_failure",
        "subagent_started",
        "subagent_stop",
        "pre_compact",
        "compact_stage",
        "post_compact",
        "notification",
        "task_created",
        "task_completed",
        "teammate_idle",
        "config_change",
        "worktree_remove",
        "pre_model_switch",
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
    ],
    *,
    amends: bool,
    **options: Unpack[Options],
) -> Callable[[NothingToAmend], NothingToAmend]: ...
@overload
def hook(event: str | list[str], **options: Unpack[AmendOptions]) -> Callable[[AnyHook], AnyHook]: ...
@overload
def hook(event: object = ..., **options: object) -> Callable[[WrongOption], WrongOption]: ...
