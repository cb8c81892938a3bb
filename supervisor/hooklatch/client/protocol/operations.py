"""The operations of a session, written once for both clients: their requests, and the changes of its state.

An operation is written as steps that do not wait, and `make_operation` makes a method of them. The method is awaited in
the asynchronous client, and blocks in the client for threads: each runs the steps in its own way.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

import msgspec

from hooklatch.client.protocol.exchange import is_async
from hooklatch.client.protocol.fires import RequestStep, Steps
from hooklatch.client.protocol.hooks import refuse_async, validate_scope
from hooklatch.client.protocol.json_values import decode_response
from hooklatch.client.protocol.options import PARENT, HookItem, Scope
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.tool_calls import PermissionQuestion, ToolCall, ToolOptions, ToolRun
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import VERSION

__all__ = ["Operation", "Registration", "SessionOperations", "introduce_session", "make_operation"]

log = logging.getLogger("hooklatch.client")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")


class ChangeResult(msgspec.Struct, frozen=True):
    """A change was made; it is active from this revision on."""

    revision: int


class RegistrationResult(ChangeResult, frozen=True):
    """Hooks were registered, in the order in which they were sent."""

    ids: list[str]


class Registration(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """A registered hook: its id, and the first revision in which it is active.

    `unregister()` is the session's own of that name, with this hook; it is awaited where that one is.
    """

    id: str
    revision: int
    unregister: Callable[[], T]


class AwaitedSession(Protocol):
    """A session whose operations are awaited."""

    def run_steps(self, steps: Steps[T], /) -> Coroutine[Any, Any, T]: ...


class BlockingSession(Protocol):
    """A session whose operations block."""

    def run_steps(self, steps: Steps[T], /) -> T: ...


class Operation(Protocol[P, T_co]):
    """The type of an operation: what a call returns depends on whose method it is."""

    @overload
    def __get__(self, session: AwaitedSession, kind: type[object], /) -> Callable[P, Coroutine[Any, Any, T_co]]: ...
    @overload
    def __get__(self, session: BlockingSession, kind: type[object], /) -> Callable[P, T_co]: ...


def make_operation(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Operation[P, T]:
    """Make a method of a function that returns steps."""

    @functools.wraps(steps)
    def method(session: Any, /, *arguments: P.args, **options: P.kwargs) -> Any:
        return session.run_steps(steps(session, *arguments, **options))

    return cast("Operation[P, T]", method)


class SessionOperations:
    """The operations of both clients' sessions, with and without a request to the daemon."""

    runs_async: ClassVar[bool]  # whether functions of the host may be async

    @property
    def _state(self) -> SessionState:
        raise NotImplementedError

    @property
    def session_id(self) -> str | None:
        """The session's id; None until a daemon has given one."""
        return self._state.session_id

    @property
    def resume_token(self) -> str | None:
        """The token that another process of the same run needs besides the id to join the session."""
        return self._state.resume_token

    @property
    def child_token(self) -> str | None:
        """The token that a child session needs besides this id to have this session's gates; it cannot join with it."""
        return self._state.child_token

    @property
    def child_environment(self) -> dict[str, str]:
        """Return what to add to the environment of a process whose sessions are children of this one.

        Raises:
            DaemonUnreachableError: no daemon has accepted the session yet, and a child would not have its gates.
        """
        if self.session_id is None or self.child_token is None:
            raise DaemonUnreachableError("no daemon has welcomed the session, so its children could not have its gates")
        return {PARENT: f"{self.child_token} {self.session_id}"}

    @property
    def revision(self) -> int | None:
        """Return the latest known revision of the registry."""
        return self._state.revision

    @property
    def budgets(self) -> Mapping[str, float]:
        """Return how many seconds a fire of each event may take, as the daemon said when the session was opened."""
        return self._state.welcome.budgets

    @property
    def refusals_in_a_row(self) -> int:
        """Return how often hooks have refused pre_tool_use since it last was allowed, or a tool last ran."""
        return self._state.breaker.refusals

    @property
    def is_closed(self) -> bool:
        """Return whether the session is over."""
        return self._state.is_closed

    @make_operation
    def run_tool(
        self,
        name: str,
        tool_input: Mapping[str, Any],
        function: Callable[[dict[str, Any]], object],
        /,
        *,
        permission: Callable[[PermissionQuestion], object] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Steps[ToolRun]:
        """Run one whole tool call: pre_tool_use, permission, the call, post_tool_use or post_tool_use_failure.

        The tool is called with its input as one dict, as hooks may have changed it: in a blocking session in this
        thread; else an async tool in this task, any other in a thread, which is left behind if the call is cancelled. A
        refused tool is never called. What it raises becomes `ToolRun.error`. `permission` is the host's own dialog, def
        or async def: it is asked if a hook asks, and (except with `only_on_ask`) if no hook has allowed the call; True
        lets it run, a text says why not, anything else refuses too. Without it, an ask that no permission hook allows
        is a refusal.

        Raises:
            TypeError: the tool or the dialog is async, and the session blocks.
            ValueError: the input is not plain finite JSON (InvalidPayloadError), or the session speaks a dialect.
            SessionClosedError: the session is over.
        """
        if not self.runs_async and (is_async(function) or (permission is not None and is_async(permission))):
            raise TypeError("an async function needs a session of hooklatch.connect(); nothing here runs it")
        return (yield from ToolCall(self._state, name, tool_input, function, permission, options).run())

    @make_operation
    def unregister(self, hook_id: str, *, scope: Scope = "session") -> Steps[int]:
        """Unregister a hook; return the first revision without it. Doing so again is not an error.

        Raises:
            RequestFailedError, DaemonUnreachableError: it is still active.
        """
        revision = yield from request_revision("unregister", {"id": hook_id, "scope": scope})
        if scope == "session":
            self._state.hooks.forget(hook_id)
        return revision

    @make_operation
    def enable(self, hook_id: str, *, scope: Scope = "session") -> Steps[int]:
        """Enable a disabled hook; return the revision. Raises as `unregister` does."""
        return switch_hook(self._state, "enable", hook_id, scope)

    @make_operation
    def disable(self, hook_id: str, *, scope: Scope = "session") -> Steps[int]:
        """Disable a hook, which stays registered; return the revision. Raises as `unregister` does."""
        return switch_hook(self._state, "disable", hook_id, scope)

    @make_operation
    def request(self, method: str, /, **params: Any) -> Steps[Any]:
        """Make any request of the protocol; return its result as plain data.

        Raises:
            InvalidPayloadError, RequestFailedError, UnreadableAnswerError, DaemonUnreachableError
        """
        return request_result(method, params)

    @make_operation
    def hooks(self, /, **filters: Any) -> Steps[Any]:
        """Return the hooks that this session sees, in the order in which they fire."""
        return request_result("hooks", filters)

    @make_operation
    def has_handlers(self, event: str) -> Steps[bool]:
        """Return whether an enabled hook listens to the event, by its name in the catalogue. No hook is run."""
        listed = yield from request_result("hooks", {"event": event})
        # One that is not disabled would be called, or would refuse because it cannot be.
        return any(hook.get("state") != "disabled" for hook in listed.get("hooks", ()))

    @make_operation
    def events(self) -> Steps[Any]:
        """Return the catalogue: which events can be fired, and how hooks may answer each."""
        return request_result("events", {})

    @make_operation
    def explain(self, event: str, payload: Mapping[str, Any]) -> Steps[Any]:
        """Return which hooks would be called, in which order, and why each other one would not. No hook is run."""
        return request_result("explain", {"event": event, "payload": payload})

    @make_operation
    def status(self) -> Steps[Any]:
        """Return the status of the daemon, as far as this session may see it."""
        return request_result("status", {})

    @make_operation
    def ping(self) -> Steps[None]:
        """Check that the daemon answers. Raises as `request_result` does."""
        yield from request_result("ping", {})

    @make_operation
    def update(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        personality: str | msgspec.UnsetType | None = msgspec.UNSET,
        plugins: Sequence[str] | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> Steps[int]:
        """Change the working directory, the personality or the plugins; return the revision of what the session sees.

        An argument that is left out changes nothing.  None as a personality or as plugins removes an earlier value.
        """
        before = self._state.changeable
        params = self._state.changed(cwd, personality, plugins)
        try:
            return (yield from request_revision("session.update", params))
        except RequestFailedError:
            # The next daemon's `hello` must not have what this daemon has refused.
            self._state.changed(**{key: before[key] for key in params})
            raise

    @make_operation
    def subscribe(self, *topics: str) -> Steps[int]:
        """Subscribe to announcements (by default "registry"); once this returns, none is missed.

        Raises:
            DaemonUnreachableError: not subscribed now, but as soon as there is a daemon.
        """
        return (yield from subscribe_topics(self._state, topics or ["registry"]))

    @make_operation
    def unsubscribe(self, *topics: str) -> Steps[None]:
        """Stop the announcements of these topics, or of all."""
        ended_topics = sorted(topics or self._state.topics - {"idle"})
        self._state.topics.difference_update(ended_topics)
        yield RequestStep("unsubscribe", {"topics": ended_topics})

    @make_operation
    def ensure_subscribed(self) -> Steps[None]:
        """Subscribe to the registry, now or when there is a daemon, unless there is a subscription already."""
        if not self._state.topics - {"idle"} and not self.is_closed:
            try:
                yield from subscribe_topics(self._state, ["registry"])
            except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
                log.warning("not subscribed yet: session=%s %s", self.session_id, error)

    def _registering(self, hooks: Sequence[HookItem], scope: Scope) -> Steps[RegistrationResult]:
        known = self._state.hooks
        definitions = known.define(hooks)
        if not self.runs_async:
            refuse_async(definitions)
        kept_hooks = validate_scope(scope, definitions)
        replaced = known.keep(kept_hooks)  # before the request: the daemon may call a hook before we read its response
        try:
            params = {"scope": scope, "hooks": [definition.wire for definition in definitions]}
            answer = decode_response((yield RequestStep("register", params)), RegistrationResult, "list of hook ids")
        except BaseException:
            known.withdraw(kept_hooks, replaced)
            raise
        for definition, hook_id in zip(definitions, answer.ids, strict=False):
            definition.wire.setdefault("id", hook_id)
        return answer


def introduce_session(state: SessionState, publish: Callable[[], None]) -> Steps[int | None]:
    """Introduce the session on a new connection, `publish` it once the daemon accepts it, and return the revision.

    Raises:
        DaemonUnreachableError, UnreadableAnswerError, RequestFailedError: the connection is of no use.
    """
    state.take_welcome((yield RequestStep("hello", state.hello(VERSION))))
    publish()
    return (yield from subscribe_topics(state)) if state.topics else state.welcome.revision


def request_result(method: str, params: Mapping[str, object]) -> Steps[Any]:
    return decode_response((yield RequestStep(method, params)), object, "JSON")


def switch_hook(state: SessionState, method: Literal["enable", "disable"], hook_id: str, scope: Scope) -> Steps[int]:
    revision = yield from request_revision(method, {"id": hook_id, "scope": scope})
    if scope == "session":
        state.hooks.switch(hook_id, is_enabled=method == "enable")
    return revision


def subscribe_topics(state: SessionState, topics: Sequence[str] = ()) -> Steps[int]:
    """Subscribe to these topics besides the earlier ones; return the revision from which on none is missed."""
    state.topics.update(topics)
    return (yield from request_revision("subscribe", {"topics": sorted(state.topics)}))


def request_revision(method: str, params: Mapping[str, object]) -> Steps[int]:
    return decode_response((yield RequestStep(method, params)), ChangeResult, "revision").revision
