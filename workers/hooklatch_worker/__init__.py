"""The API for hook authors: the marker, the verdicts and the events.  Needs msgspec only.

Each name is loaded when it is first used: the daemon, which uses the modules beside this one, needs none of them.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing typing would be most of what this file costs
if TYPE_CHECKING:
    from hooklatch_worker.author.composition import chain, composite, when
    from hooklatch_worker.author.decorator import hook
    from hooklatch_worker.author.events import (  # isort: skip
        CallMismatch, CompactStage, ConfigChange, CustomEvent, CustomLog, Elicitation, ElicitationResult,
        ErrorIntercept, ErrorLog, ErrorRecover, ErrorTransform, Event, MessageClaim, MessageDispatch, MessageReceived,
        MessageSend, MessageSent, Metrics, ModelRequest, ModelResponse, Notification, Performance, PermissionDenied,
        PermissionRequest, PersonalitySwitch, PostCompact, PostModel, PostToolBatch, PostToolUse, PostToolUseFailure,
        PreCompact, PreIteration, PreModel, PreModelSwitch, PreToolUse, PromptBuild, SessionEnd, SessionStart, Stop,
        StopFailure, SubagentStart, SubagentStarted, SubagentStop, TaskCompleted, TaskCreated, TeammateIdle,
        Telemetry, ToolPath, ToolResult, ToolSelection, UserPromptExpansion, UserPromptSubmit, WorktreeCreate,
        WorktreeRemove,
    )  # fmt: skip
    from hooklatch_worker.author.state import Scope, State, StateError
    from hooklatch_worker.author.verdicts import (  # isort: skip
        Verdict, allow, amend, append, ask, claim, context, deny, halt, inject, last, resume, warn,
    )  # fmt: skip

__all__ = [
    "hook", "CustomEvent", "Event", "Scope", "State", "StateError", "Verdict", "allow", "amend", "append", "ask",
    "chain", "claim", "composite", "context", "deny", "halt", "inject", "last", "resume", "warn", "when",
    # the events, by the classes of what a hook is called with
    "SessionStart", "SessionEnd", "UserPromptSubmit", "UserPromptExpansion", "PromptBuild", "PreIteration",
    "PreModel", "PostModel", "ModelRequest", "ModelResponse", "ToolSelection", "PreToolUse", "PermissionRequest",
    "PermissionDenied", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "ToolResult", "ToolPath", "CallMismatch",
    "Stop", "StopFailure", "SubagentStart", "SubagentStarted", "SubagentStop", "PreCompact", "CompactStage",
    "PostCompact", "Notification", "TaskCreated", "TaskCompleted", "TeammateIdle", "ConfigChange", "WorktreeCreate",
    "WorktreeRemove", "PreModelSwitch", "Elicitation", "ElicitationResult", "PersonalitySwitch", "MessageClaim",
    "MessageDispatch", "MessageSend", "MessageReceived", "MessageSent", "ErrorIntercept", "ErrorTransform",
    "ErrorRecover", "ErrorLog", "Telemetry", "CustomLog", "Metrics", "Performance",
]  # fmt: skip

HOMES = {
    "composition": ("chain", "composite", "when"),
    "decorator": ("hook",),
    "state": ("Scope", "State", "StateError"),
    "verdicts": (
        *("Verdict", "allow", "amend", "append", "ask", "claim", "context", "deny", "halt", "inject", "last"),
        *("resume", "warn"),
    ),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((home for home, names in HOMES.items() if name in names), "events")
    found = getattr(import_module(f"hooklatch_worker.author.{home}"), name)
    globals()[name] = found  # once is enough
    return found
