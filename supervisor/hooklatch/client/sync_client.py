"""The client for threads: its typed API for hosts.  What is not here is in `protocol/operations.py`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload
from weakref import WeakSet

from hooklatch.client.protocol.announcements import Announcement, AnnouncementQueue
from hooklatch.client.protocol.decisions import Accepted, Decision
from hooklatch.client.protocol.exchange import ServedFunction
from hooklatch.client.protocol.fires import Steps, fire_event
from hooklatch.client.protocol.hooks import describe_target, refuse_async
from hooklatch.client.protocol.operations import Registration, SessionOperations
from hooklatch.client.protocol.options import HookItem, HookOptions, Scope, SessionOptions
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.sockets import list_socket_candidates
from hooklatch.client.sync_connection import SyncReconnector, start_thread

__all__ = ["SyncAnnouncements", "SyncSession", "connect_sync"]

log = logging.getLogger("hooklatch.client")
T = TypeVar("T")
SESSIONS: WeakSet[SyncSession] = WeakSet()
Callback = TypeVar("Callback", bound=Callable[[Announcement], object])


def connect_sync(
    path: str | os.PathLike[str] | None = None, *, session_id: str | None = None, **options: Unpack[SessionOptions]
) -> SyncSession:
    """Open a session with the daemon: `with connect_sync(host="my-agent") as s`. See `hooklatch.connect`.

    With a `path` to the daemon's socket, no other is tried. Without a daemon the session opens too: its gates deny with
    cause `no_daemon`, and it connects when there is one.

    Raises:
        DaemonUnreachableError: with `require=True`: no daemon is reachable.
        RequestFailedError: the daemon refused the session or one of its hooks.
        TypeError: a hook of `hooks` is an async function.
    """
    state = SessionState(session_id, options)
    refuse_async(state.hooks)
    return SyncSession(SyncReconnector(list_socket_candidates(path, options.get("runtime_dir")), state))


class SyncAnnouncements:
    """The daemon's announcements from now on: `for announcement in ...`; ends with the session."""

    def __init__(self, owner: SyncSession) -> None:
        self._owner = owner
        self._news = threading.Event()
        self.inbox = AnnouncementQueue(self._news.set)

    def __iter__(self) -> SyncAnnouncements:
        return self

    def __next__(self) -> Announcement:
        self._owner.ensure_subscribed()
        while (announcement := self.inbox.take()) is None:
            if self._owner.is_closed:
                raise StopIteration
            self._news.wait()
            self._news.clear()
        return announcement


class SyncSession(SessionOperations):
    """One live agent run. Made by `connect_sync`; use it in `with`, or call `close`.

    Any number of threads may use it at once. Its hooks end with it. A forked process that uses it joins the session on
    its own connection; the hooks that the session serves continue to run in the parent.
    """

    runs_async = False

    def __init__(self, reconnector: SyncReconnector) -> None:
        self._original = reconnector
        self._reconnectors = {os.getpid(): reconnector}
        SESSIONS.add(self)

    def __enter__(self) -> SyncSession:
        try:
            self._reconnector.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session, in this process; every waiting fire is decided now."""
        self._reconnector.close()

    def abandon(self) -> None:
        """Close this process's copies of connections that its parents made; the next use opens its own."""
        for reconnector in self._reconnectors.values():
            reconnector.abandon()
        self._reconnectors = {}

    @property
    def _reconnector(self) -> SyncReconnector:
        # A forked process has a copy of the parent's locks, held or not, and none of its threads.
        pid = os.getpid()
        return self._reconnectors.get(pid) or self._reconnectors.setdefault(pid, self._original.copy())

    @property
    def _state(self) -> SessionState:
        return self._reconnector.state

    @property
    def is_connected(self) -> bool:
        """Return whether a daemon has accepted the session and has not been lost since."""
        return self._reconnector.is_connected

    def run_steps(self, steps: Steps[T]) -> T:
        return self._reconnector.run(steps)

    @overload
    def fire(
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
    def fire(self, event: str, /, *, wait: Literal[False], **fields: Any) -> Accepted: ...
    def fire(self, event: str, /, *, wait: bool = True, **fields: Any) -> Decision | Accepted:
        """Fire an event and return the decision; with `wait=False` only whether the daemon accepted it.

        What it takes, means and raises is as in `hooklatch.Session.fire`.
        """
        reconnector = self._reconnector
        return reconnector.run(fire_event(reconnector.state, event, fields, wait=wait))

    def register(
        self,
        event: str,
        function: ServedFunction | None = None,
        /,
        *,
        run: str | None = None,
        scope: Scope = "session",
        **options: Unpack[HookOptions],
    ) -> Registration[int]:
        """Register a hook: a function of this process, or `run="file.py:name"` for a worker, once it is loaded.

        A served function takes one event and returns None or a verdict, like any hook. It runs in its own thread, also
        while a fire waits.

        Raises:
            TypeError: neither or both of a function and `run` were given, or an async function.
            RequestFailedError: the daemon refused it; `name` is "load_failed" if the file could not be loaded.
            DaemonUnreachableError: there is no daemon to register it with.
        """
        (registration,) = self.register_all([describe_target(event, function, run, options)], scope=scope)
        return registration

    def register_all(self, hooks: Sequence[HookItem], *, scope: Scope = "session") -> list[Registration[int]]:
        """Register hooks at once, all or none: definitions, or (event, function, options). See `register`."""
        answer = self.run_steps(self._registering(hooks, scope))
        unregister = partial(self.unregister, scope=scope)
        return [Registration(hook_id, answer.revision, partial(unregister, hook_id)) for hook_id in answer.ids]

    def announcements(self) -> SyncAnnouncements:
        """Return the announcements from now on. The first `for` subscribes to the registry if needed."""
        listener = SyncAnnouncements(self)
        self._reconnector.inboxes.add(listener.inbox)
        return listener

    def on_reload(self, callback: Callback) -> Callback:
        """Call `callback` with each announcement of the registry, in order, in a thread of its own.

        It is subscribed once this returns, or as soon as there is a daemon. What a callback raises is logged.
        """
        listener = self.announcements()
        self.ensure_subscribed()
        start_thread(self._call_back, listener, callback)
        return callback

    def _call_back(self, listener: SyncAnnouncements, callback: Callable[[Announcement], object]) -> None:
        for announcement in listener:
            if announcement.topic == "registry":
                try:
                    callback(announcement)
                except Exception:
                    log.exception("a callback of on_reload failed: session=%s", self.session_id)


def abandon_all() -> None:
    for session in list(SESSIONS):
        session.abandon()


# Otherwise a forked process that never uses a session keeps its parent's connection open after the parent's death.
os.register_at_fork(after_in_child=abandon_all)
