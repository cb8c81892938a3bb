"""A session's operations, as steps.  Knows which requests are made and how their answers change the state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hooklatch.client.protocol.answers import Changed, Registered, is_handled, read_answer
from hooklatch.client.session.fires import fire
from hooklatch.client.session.hooks import checked_scope, refuse_async
from hooklatch.client.session.options import HookItem, Scope
from hooklatch.client.session.session_state import SessionState
from hooklatch.client.session.steps import Ask, CallFunction, Returned, RunApart, Steps
from hooklatch.client.session.tool_calls import AskHost, CallTool, FireEvent, Raised, ToolCall, ToolOptions
from hooklatch.client.session.tool_runs import PermissionQuestion, ToolRun
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import VERSION

__all__ = [
    "change",
    "ensure_subscribed",
    "has_handlers",
    "introduce",
    "register_all",
    "request",
    "run_tool",
    "subscribe",
    "unsubscribe",
    "update",
]

log = logging.getLogger("hooklatch.client")
HostFunction = Callable[[dict[str, Any]], object]
Dialog = Callable[[PermissionQuestion], object]


def introduce(state: SessionState, publish: Callable[[], None]) -> Steps[int | None]:
    """Introduce the session on a new connection, `publish` it once the daemon accepts it, and return the revision.

    Raises:
        DaemonUnreachableError, UnreadableAnswerError, RequestFailedError: the connection is of no use.
    """
    state.welcomed((yield Ask("hello", state.hello(VERSION))))
    publish()
    return (yield from subscribe(state)) if state.topics else state.welcome.revision


def request(method: str, params: Mapping[str, object]) -> Steps[Any]:
    """Make any request, and return its result as plain data."""
    return read_answer((yield Ask(method, params)), object, "JSON")


def has_handlers(event: str) -> Steps[bool]:
    """Return whether a hook that is not disabled listens to the event."""
    return is_handled((yield from request("hooks", {"event": event})))


def run_tool(
    state: SessionState,
    name: str,
    tool_input: Mapping[str, Any],
    function: HostFunction,
    permission: Dialog | None,
    options: ToolOptions,
) -> Steps[ToolRun]:
    """Take one tool call from its first hook to its result."""
    call = ToolCall(state, name, tool_input, options, has_dialog=permission is not None)
    answer: object = None
    while not isinstance(step := call.next(answer), ToolRun):
        match step:
            case FireEvent(event, arguments, wait):
                answer = yield from fire(state, event, arguments, wait=wait)
            case AskHost(question):
                answer = None if permission is None else (yield CallFunction(permission, question)).result
            case CallTool(actual_input):
                answer = yield from call_tool(state, call, CallFunction(function, actual_input))
    return step


def call_tool(state: SessionState, call: ToolCall, tool: CallFunction) -> Steps[Returned | Raised]:
    try:
        returned: Returned = yield tool
    except Exception as error:
        return Raised(error)
    except BaseException as error:
        if not state.is_closed:
            event, arguments, wait = call.interruption(error)
            yield RunApart(fire(state, event, arguments, wait=wait))
        raise
    return returned


def register_all(
    state: SessionState, hooks: Sequence[HookItem], scope: Scope, *, runs_async: bool
) -> Steps[Registered]:
    """Register hooks, all or none; async functions only if something can run them."""
    definitions = state.hooks.define(hooks)
    if not runs_async:
        refuse_async(definitions)
    kept = checked_scope(scope, definitions)
    replaced = state.hooks.keep(kept)  # first: the daemon may call a hook before we read that it is active
    try:
        params = {"scope": scope, "hooks": [definition.wire for definition in definitions]}
        answer = read_answer((yield Ask("register", params)), Registered, "list of hook ids")
    except BaseException:
        state.hooks.withdraw(kept, replaced)
        raise
    for definition, hook_id in zip(definitions, answer.ids, strict=False):
        definition.wire.setdefault("id", hook_id)
    return answer


def change(
    state: SessionState, method: Literal["unregister", "enable", "disable"], hook_id: str, scope: Scope
) -> Steps[int]:
    """Unregister, enable or disable a hook; return the revision."""
    revision = yield from revision_after(method, {"id": hook_id, "scope": scope})
    if scope == "session" and method == "unregister":
        state.hooks.forget(hook_id)
    elif scope == "session":
        state.hooks.switch(hook_id, is_enabled=method == "enable")
    return revision


def update(state: SessionState, **changes: Any) -> Steps[int]:
    """Change what a session may change while it lives; return the revision of what it sees."""
    return revision_after("session.update", state.changed(**changes))


def subscribe(state: SessionState, topics: Sequence[str] = ()) -> Steps[int]:
    """Subscribe to these topics besides the earlier ones; return the revision from which on none is missed."""
    state.topics.update(topics)
    return revision_after("subscribe", {"topics": sorted(state.topics)})


def ensure_subscribed(state: SessionState) -> Steps[None]:
    """Subscribe to the registry, now or when there is a daemon, unless there is a subscription already."""
    if not state.topics and not state.is_closed:
        try:
            yield from subscribe(state, ["registry"])
        except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
            log.warning("not subscribed yet: session=%s %s", state.session_id, error)


def unsubscribe(state: SessionState, topics: Sequence[str]) -> Steps[None]:
    """Unsubscribe from these topics, or from all."""
    chosen = sorted(topics or state.topics)
    state.topics.difference_update(chosen)
    yield Ask("unsubscribe", {"topics": chosen})


def revision_after(method: str, params: Mapping[str, object]) -> Steps[int]:
    return read_answer((yield Ask(method, params)), Changed, "revision").revision
