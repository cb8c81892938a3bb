"""Runs an agent's lifecycle hooks in supervised workers, and fails closed.

For authors of hooks: `hook`, the verdicts, and the classes of the events; `hooklatch.testing` tries hooks out.
For hosts: `connect`, `session` and `connect_sync`.

Each name is loaded when it is first used, so that an author's file does not load trio.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing typing would be most of what this file costs
if TYPE_CHECKING:
    from hooklatch.client.async_client import Session, connect, session
    from hooklatch.client.protocol.announcements import Announcement
    from hooklatch.client.protocol.decisions import Accepted, Decision, RefusedError
    from hooklatch.client.protocol.tool_calls import PermissionQuestion, ToolRun
    from hooklatch.client.sync_client import SyncSession, connect_sync
    from hooklatch.errors import (
        DaemonUnreachableError,
        HooklatchError,
        InvalidPayloadError,
        RequestFailedError,
        SessionClosedError,
        UnreadableAnswerError,
    )
    from hooklatch_worker import *

__all__ = [
    # for authors of hooks
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
    # for hosts
    "connect", "connect_sync", "session", "Accepted", "Announcement", "Decision", "PermissionQuestion", "Session",
    "SyncSession", "ToolRun", "HooklatchError", "DaemonUnreachableError", "InvalidPayloadError", "RefusedError",
    "RequestFailedError", "SessionClosedError", "UnreadableAnswerError",
]  # fmt: skip

HOMES = {
    "StateError": "hooklatch_worker",
    "connect": "hooklatch.client.async_client",
    "session": "hooklatch.client.async_client",
    "Session": "hooklatch.client.async_client",
    "connect_sync": "hooklatch.client.sync_client",
    "SyncSession": "hooklatch.client.sync_client",
    "Announcement": "hooklatch.client.protocol.announcements",
    "Accepted": "hooklatch.client.protocol.decisions",
    "Decision": "hooklatch.client.protocol.decisions",
    "RefusedError": "hooklatch.client.protocol.decisions",
    "PermissionQuestion": "hooklatch.client.protocol.tool_calls",
    "ToolRun": "hooklatch.client.protocol.tool_calls",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = HOMES.get(name) or ("hooklatch.errors" if name.endswith("Error") else "hooklatch_worker")
    found = getattr(import_module(home), name)
    globals()[name] = found  # once is enough
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
