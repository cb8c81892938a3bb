"""The client under trio and under asyncio: its typed API for hosts.  The work is done in `session.operations`.

Imports neither library, nor anyio, until a session is opened.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from hooklatch.client.protocol.announcements import Announcement, Inbox
from hooklatch.client.protocol.decisions import Accepted, Decision
from hooklatch.client.session import operations
from hooklatch.client.session.fires import fire
from hooklatch.client.session.hooks import target_of
from hooklatch.client.session.options import HookItem, HookOptions, Options, Scope
from hooklatch.client.session.served import ServedFunction
from hooklatch.client.session.session_base import SessionFacts
from hooklatch.client.session.session_state import SessionState
from hooklatch.client.session.steps import Steps, fail
from hooklatch.client.session.tool_calls import ToolOptions
from hooklatch.client.session.tool_runs import PermissionQuestion, ToolRun
from hooklatch.client.sockets import candidates
from hooklatch.errors import DaemonUnreachableError, SessionClosedError

if TYPE_CHECKING:
    from hooklatch.client.async_reconnector import AsyncReconnector
    from hooklatch.client.tasks import SessionTasks

__all__ = ["Announcements", "Registration", "Session", "connect", "session"]

T = TypeVar("T")
log = logging.getLogger("hooklatch.client")
Callback = TypeVar("Callback", bound=Callable[[Announcement], object])


def connect(
    path: str | os.PathLike[str] | None = None, *, session_id: str | None = None, **options: Unpack[Options]
) -> Session:
    """Open a session with the daemon: `async with connect() as s`, under trio or under asyncio.

    With a `path` to the daemon's socket, no other is tried.

    Without a daemon the session opens too: its gates deny with cause `no_daemon`, and it connects when there is one.

    Raises:
        DaemonUnreachableError: with `require=True`: no daemon is reachable.
        RequestFailedError: the daemon refused the session or one of its hooks.
    """
    return Session(candidates(path, options.get("runtime_dir")), SessionState(session_id, options))


def session(id: str | None = None, **options: Unpack[Options]) -> Session:  # noqa: A002 - the key's name on the wire
    """Open the session with that id, or a new one: `async with session(host="my-agent") as s`. See `connect`."""
    return connect(session_id=id, **options)


class Registration:
    """A registered hook: its id, and the first revision in which it is active."""

    def __init__(self, owner: Session, hook_id: str, revision: int, scope: Scope) -> None:
        self.id = hook_id
        self.revision = revision
        self._owner = owner
        self._scope: Scope = scope

    async def unregister(self) -> None:
        """Unregister the hook; see `Session.unregister`."""
        await self._owner.unregister(self.id, scope=self._scope)


class Announcements:
    """The daemon's announcements from now on: `async for announcement in ...`; ends with the session."""

    def __init__(self, owner: Session) -> None:
        self._owner = owner
        self._new_event = owner.opened.tasks.event
        self._news = self._new_event()
        self.inbox = Inbox(lambda: self._news.set())

    def __aiter__(self) -> Announcements:
        return self

    async def __anext__(self) -> Announcement:
        await self._owner.ensure_subscribed()
        while (announcement := self.inbox.take()) is None:
            if self._owner.is_closed:
                raise StopAsyncIteration
            await self._news.wait()
            self._news = self._new_event()
        return announcement


class Session(SessionFacts):
    """One live agent run. Made by `connect` or `session`; use it in `async with`.

    Any number of tasks of one trio run, or of one asyncio loop, may use it at once. Its hooks end with it: the daemon
    ends the session with the block, and its id may be used again.
    """

    def __init__(self, paths: Sequence[str], state: SessionState) -> None:
        super().__init__()
        self._paths = paths
        self._own_state = state
        self._reconnector: AsyncReconnector | None = None
        self._tasks: AbstractAsyncContextManager[SessionTasks] | None = None

    async def __aenter__(self) -> Session:
        if self._reconnector is not None:
            raise SessionClosedError("the session was opened already; open another one")
        # Imported here, since a program that imports this module may never open a session.
        from hooklatch.client.async_reconnector import AsyncReconnector
        from hooklatch.client.tasks import open_tasks

        manager = open_tasks()
        self._reconnector = AsyncReconnector(self._paths, self._state, await manager.__aenter__())
        self._tasks = manager
        try:
            await self._reconnector.start()
        except BaseException:
            await self._close(self._reconnector, manager)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reconnector is not None and self._tasks is not None and not self.is_closed:
            await self._close(self._reconnector, self._tasks)

    async def _close(self, reconnector: AsyncReconnector, tasks: AbstractAsyncContextManager[SessionTasks]) -> None:
        try:
            await reconnector.close()
        finally:
            # Its tasks do not see the body's own exception, which a group would wrap.
            await tasks.__aexit__(None, None, None)

    @property
    def _state(self) -> SessionState:
        return self._own_state

    @property
    def is_connected(self) -> bool:
        """Return whether a daemon has accepted the session and has not been lost since."""
        return self._reconnector is not None and self._reconnector.is_connected

    @property
    def opened(self) -> AsyncReconnector:
        """Return what keeps the session connected; for its own parts.

        Raises:
            RuntimeError: it was not opened.
            SessionClosedError: it is over.
        """
        if self._reconnector is None:
            raise RuntimeError("the session was not opened; use it in async with")
        self._reconnector.check_open()
        return self._reconnector

    async def _run(self, steps: Steps[T]) -> T:
        if self._reconnector is None:
            return fail(steps, DaemonUnreachableError("the session was not opened; use it in async with"))
        return await self._reconnector.run(steps)

    @overload
    async def fire(
        self,
        event: str,
        /,
        *,
        wait: Literal[True] = True,
        call_id: str | None = None,
        timeout: float | None = None,
        context: Mapping[str, Any] | None = None,
        plugins: Sequence[str] | None = None,
        envelope: Mapping[str, Any] | None = None,
        payload: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Decision: ...
    @overload
    async def fire(self, event: str, /, *, wait: Literal[False], **fields: Any) -> Accepted: ...
    async def fire(self, event: str, /, *, wait: bool = True, **fields: Any) -> Decision | Accepted:
        """Fire an event and return the decision; with `wait=False` only whether the daemon accepted it.

        Payload fields are keyword arguments, or in `payload` if a name is one of this method's own. `envelope` has
        agent_id, agent_type, turn, metadata and the like; `context` comes back, changed by hooks, as
        `decision.context`. `timeout` is in seconds, and enforced by the daemon; the default is the event's budget.
        Without a usable answer of the daemon the client decides: a gate denies, others pass.

        Raises:
            ValueError: the payload is not plain finite JSON (InvalidPayloadError), or an argument makes no sense.
            SessionClosedError: the session is over.
        """
        return await self._run(fire(self._state, event, fields, wait=wait))

    async def run_tool(
        self,
        name: str,
        tool_input: Mapping[str, Any],
        function: Callable[[dict[str, Any]], object],
        /,
        *,
        permission: Callable[[PermissionQuestion], object] | None = None,
        **options: Unpack[ToolOptions],
    ) -> ToolRun:
        """Run one whole tool call: pre_tool_use, permission, the call, post_tool_use or post_tool_use_failure.

        The tool is called with its input as one dict, as hooks may have changed it: an async tool in this task, any
        other in a thread, which is left behind if the call is cancelled. A refused tool is never called. What it raises
        becomes `ToolRun.error`. `permission` is the host's own dialog, def or async def: it is asked if a hook asks,
        and (except with `only_on_ask`) if no hook has allowed the call; True lets it run, a text says why not, anything
        else refuses too. Without it, an ask that no permission hook allows is a refusal.

        Raises:
            ValueError: the input is not plain finite JSON (InvalidPayloadError), or the session speaks a dialect.
            SessionClosedError: the session is over.
        """
        return await self._run(operations.run_tool(self._state, name, tool_input, function, permission, options))

    async def register(
        self,
        event: str,
        function: ServedFunction | None = None,
        /,
        *,
        run: str | None = None,
        scope: Scope = "session",
        **options: Unpack[HookOptions],
    ) -> Registration:
        """Register a hook: a function of this process, or `run="file.py:name"` for a worker, once it is loaded.

        A served function takes one event and returns None or a verdict, like any hook. An async one runs as a task
        of the session, any other in a thread.

        Raises:
            TypeError: neither or both of a function and `run` were given.
            RequestFailedError: the daemon refused it; `name` is "load_failed" if the file could not be loaded.
            DaemonUnreachableError: there is no daemon to register it with.
        """
        (registration,) = await self.register_all([target_of(event, function, run, options)], scope=scope)
        return registration

    async def register_all(self, hooks: Sequence[HookItem], *, scope: Scope = "session") -> list[Registration]:
        """Register hooks at once, all or none: definitions, or (event, function, options). See `register`."""
        steps = operations.register_all(self._state, hooks, scope, runs_async=True)
        answer = await self._run(steps)
        return [Registration(self, hook_id, answer.revision, scope) for hook_id in answer.ids]

    async def unregister(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Unregister a hook; return the first revision without it. Doing so again is not an error.

        Raises:
            RequestFailedError, DaemonUnreachableError: it is still active.
        """
        return await self._run(operations.change(self._state, "unregister", hook_id, scope))

    async def enable(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Enable a disabled hook; return the revision. Raises as `unregister` does."""
        return await self._run(operations.change(self._state, "enable", hook_id, scope))

    async def disable(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Disable a hook, which stays registered; return the revision. Raises as `unregister` does."""
        return await self._run(operations.change(self._state, "disable", hook_id, scope))

    async def request(self, method: str, /, **params: Any) -> Any:
        """Make any request of the protocol; return its result as plain data.

        Raises:
            InvalidPayloadError, RequestFailedError, UnreadableAnswerError, DaemonUnreachableError
        """
        return await self._run(operations.request(method, params))

    async def hooks(self, **filters: Any) -> Any:
        """Return the hooks that this session sees, in the order in which they fire."""
        return await self.request("hooks", **filters)

    async def has_handlers(self, event: str) -> bool:
        """Return whether an enabled hook listens to the event, by its name in the catalogue. No hook is run."""
        return await self._run(operations.has_handlers(event))

    async def events(self) -> Any:
        """Return the catalogue: which events can be fired, and how hooks may answer each."""
        return await self.request("events")

    async def explain(self, event: str, payload: Mapping[str, Any]) -> Any:
        """Return which hooks would be called, in which order, and why each other one would not. No hook is run."""
        return await self.request("explain", event=event, payload=payload)

    async def status(self) -> Any:
        """Return the status of the daemon, as far as this session may see it."""
        return await self.request("status")

    async def ping(self) -> None:
        """Check that the daemon answers. Raises as `request` does."""
        await self.request("ping")

    async def update(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        personality: str | None = None,
        plugins: Sequence[str] | None = None,
    ) -> int:
        """Change the working directory, the personality or the plugins; return the revision of what the session sees.

        What is left out stays unchanged.
        """
        return await self._run(operations.update(self._state, cwd=cwd, personality=personality, plugins=plugins))

    async def subscribe(self, *topics: str) -> int:
        """Subscribe to announcements (by default "registry"); once this returns, none is missed.

        Raises:
            DaemonUnreachableError: not subscribed now, but as soon as there is a daemon.
        """
        return await self._run(operations.subscribe(self._state, topics or ["registry"]))

    async def unsubscribe(self, *topics: str) -> None:
        """Stop the announcements of these topics, or of all."""
        await self._run(operations.unsubscribe(self._state, topics))

    def announcements(self) -> Announcements:
        """Return the announcements from now on. The first `async for` subscribes to the registry if needed."""
        listener = Announcements(self)
        self.opened.inboxes.add(listener.inbox)
        return listener

    def on_reload(self, callback: Callback) -> Callback:
        """Call `callback`, def or async def, with each announcement of the registry, in order, one at a time.

        The subscription follows soon; `await s.subscribe()` waits for it. What a callback raises is logged.
        """
        self.opened.tasks.start_from_anywhere(self._call_back, self.announcements(), callback)
        return callback

    async def ensure_subscribed(self) -> None:
        """Subscribe to the registry, now or when there is a daemon, unless there is a subscription already."""
        await self._run(operations.ensure_subscribed(self._state))

    async def _call_back(self, listener: Announcements, callback: Callable[[Announcement], object]) -> None:
        async for announcement in listener:
            if announcement.topic == "registry":
                try:
                    result = callback(announcement)
                    if inspect.isawaitable(result):
                        await result
                except Exception:
                    log.exception("a callback of on_reload failed: session=%s", self.session_id)
