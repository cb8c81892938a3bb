"""The client under trio and under asyncio: its typed API for hosts.  What is not here is in `protocol/operations.py`.

Imports neither library, nor anyio, until a session is opened.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from hooklatch.client.protocol.announcements import Announcement, AnnouncementQueue
from hooklatch.client.protocol.decisions import Accepted, Decision
from hooklatch.client.protocol.exchange import ServedFunction
from hooklatch.client.protocol.fires import Steps, fail_steps, fire_event
from hooklatch.client.protocol.hooks import describe_target
from hooklatch.client.protocol.operations import Registration, SessionOperations
from hooklatch.client.protocol.options import HookItem, HookOptions, Scope, SessionOptions
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.sockets import list_socket_candidates
from hooklatch.errors import DaemonUnreachableError, SessionClosedError

if TYPE_CHECKING:
    from hooklatch.client.async_connection import AsyncReconnector, SessionTasks

__all__ = ["Announcements", "Session", "connect", "session"]

T = TypeVar("T")
log = logging.getLogger("hooklatch.client")
Callback = TypeVar("Callback", bound=Callable[[Announcement], object])


def connect(
    path: str | os.PathLike[str] | None = None, *, session_id: str | None = None, **options: Unpack[SessionOptions]
) -> Session:
    """Open a session with the daemon: `async with connect() as s`, under trio or under asyncio.

    With a `path` to the daemon's socket, no other is tried.

    Without a daemon the session opens too: its gates deny with cause `no_daemon`, and it connects when there is one.

    Raises:
        DaemonUnreachableError: with `require=True`: no daemon is reachable.
        RequestFailedError: the daemon refused the session or one of its hooks.
    """
    return Session(list_socket_candidates(path, options.get("runtime_dir")), SessionState(session_id, options))


def session(id: str | None = None, **options: Unpack[SessionOptions]) -> Session:  # noqa: A002 - the key's name on the wire
    """Open the session with that id, or a new one: `async with session(host="my-agent") as s`. See `connect`."""
    return connect(session_id=id, **options)


class Announcements:
    """The daemon's announcements from now on: `async for announcement in ...`; ends with the session."""

    def __init__(self, owner: Session) -> None:
        self._owner = owner
        self._new_event = owner.opened.tasks.event
        self._news = self._new_event()
        self.inbox = AnnouncementQueue(lambda: self._news.set())

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


class Session(SessionOperations):
    """One live agent run. Made by `connect` or `session`; use it in `async with`.

    Any number of tasks of one trio run, or of one asyncio loop, may use it at once. Its hooks end with it: the daemon
    ends the session with the block, and its id may be used again.
    """

    runs_async = True

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
        from hooklatch.client.async_connection import AsyncReconnector, open_tasks

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

    async def run_steps(self, steps: Steps[T]) -> T:
        if self._reconnector is None:
            return fail_steps(steps, DaemonUnreachableError("the session was not opened; use it in async with"))
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
        return await self.run_steps(fire_event(self._state, event, fields, wait=wait))

    async def register(
        self,
        event: str,
        function: ServedFunction | None = None,
        /,
        *,
        run: str | None = None,
        scope: Scope = "session",
        **options: Unpack[HookOptions],
    ) -> Registration[Coroutine[Any, Any, int]]:
        """Register a hook: a function of this process, or `run="file.py:name"` for a worker, once it is loaded.

        A served function takes one event and returns None or a verdict, like any hook. An async one runs as a task
        of the session, any other in a thread.

        Raises:
            TypeError: neither or both of a function and `run` were given.
            RequestFailedError: the daemon refused it; `name` is "load_failed" if the file could not be loaded.
            DaemonUnreachableError: there is no daemon to register it with.
        """
        (registration,) = await self.register_all([describe_target(event, function, run, options)], scope=scope)
        return registration

    async def register_all(
        self, hooks: Sequence[HookItem], *, scope: Scope = "session"
    ) -> list[Registration[Coroutine[Any, Any, int]]]:
        """Register hooks at once, all or none: definitions, or (event, function, options). See `register`."""
        answer = await self.run_steps(self._registering(hooks, scope))
        unregister = partial(self.unregister, scope=scope)
        return [Registration(hook_id, answer.revision, partial(unregister, hook_id)) for hook_id in answer.ids]

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

    async def _call_back(self, listener: Announcements, callback: Callable[[Announcement], object]) -> None:
        async for announcement in listener:
            if announcement.topic == "registry":
                try:
                    result = callback(announcement)
                    if inspect.isawaitable(result):
                        await result
                except Exception:
                    log.exception("a callback of on_reload failed: session=%s", self.session_id)
