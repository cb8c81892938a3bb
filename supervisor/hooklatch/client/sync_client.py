"""The client for threads.  Puts what users ask into requests, and answers into what they get; see `sync_keeper`."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload
from weakref import WeakSet

from hooklatch.client.protocol.announcements import Announcement, Inbox
from hooklatch.client.protocol.answers import Changed, Registered, is_handled, read_answer
from hooklatch.client.protocol.decisions import Accepted, Decision
from hooklatch.client.session.fires import Firing
from hooklatch.client.session.served import ServedFunction, is_async
from hooklatch.client.session.session_base import Facts, SessionBase
from hooklatch.client.session.session_state import (
    HookItem,
    HookOptions,
    Memory,
    Options,
    Scope,
    checked_scope,
    refuse_async,
    target_of,
)
from hooklatch.client.session.tool_calls import AskHost, CallTool, FireEvent, Raised, Returned, ToolCall, ToolOptions
from hooklatch.client.session.tool_runs import PermissionQuestion, ToolRun
from hooklatch.client.sockets import candidates
from hooklatch.client.sync_link import in_thread
from hooklatch.client.sync_reconnector import Reconnector
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError

__all__ = ["Announcements", "Registration", "SyncSession", "connect_sync"]

log = logging.getLogger("hooklatch.client")
SESSIONS: WeakSet[SyncSession] = WeakSet()
Callback = TypeVar("Callback", bound=Callable[[Announcement], object])


def connect_sync(
    path: str | os.PathLike[str] | None = None, *, session_id: str | None = None, **options: Unpack[Options]
) -> SyncSession:
    """Open a session with the daemon: `with connect_sync(host="my-agent") as s`. See `hooklatch.connect`.

    A `path` names the daemon's socket, and no other is tried. Without a daemon the session opens too, its gates deny
    with cause `no_daemon`, and it connects when there is one.

    Raises:
        DaemonUnreachableError: with `require=True`: no daemon is reachable.
        RequestFailedError: the daemon refused the session or one of its hooks.
        TypeError: a hook of `hooks` is an async function.
    """
    memory = Memory(session_id, options)
    refuse_async(memory.definitions)
    return SyncSession(Reconnector(candidates(path, options.get("runtime_dir")), memory))


class Registration:
    """A hook that was registered: its id, and the revision from which on it is in force."""

    def __init__(self, owner: SyncSession, hook_id: str, revision: int, scope: Scope) -> None:
        self.id = hook_id
        self.revision = revision
        self._owner = owner
        self._scope: Scope = scope

    def unregister(self) -> None:
        """Take the hook out; see `SyncSession.unregister`."""
        self._owner.unregister(self.id, scope=self._scope)


class Announcements:
    """What the daemon announces from now on: `for announcement in ...`; it ends with the session."""

    def __init__(self, owner: SyncSession) -> None:
        self._owner = owner
        self._news = threading.Event()
        self.inbox = Inbox(self._news.set)

    def __iter__(self) -> Announcements:
        return self

    def __next__(self) -> Announcement:
        self._owner.ensure_subscribed()
        while (announcement := self.inbox.take()) is None:
            if self._owner.is_closed:
                raise StopIteration
            self._news.wait()
            self._news.clear()
        return announcement


class SyncSession(Facts):
    """One live agent run. Made by `connect_sync`; use it in `with`, or call `close`.

    Any number of threads may use it at once. What it registered goes with it. A forked process that uses it joins the
    session on a connection of its own; the hooks that the session serves go on running in the parent.
    """

    def __init__(self, reconnector: Reconnector) -> None:
        self._original = reconnector
        self._keepers = {os.getpid(): reconnector}
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
        """Close this process's copies of connections that its parents made; the next use makes one of its own."""
        for reconnector in self._keepers.values():
            reconnector.abandon()
        self._keepers = {}

    @property
    def _reconnector(self) -> Reconnector:
        # A forked process has a copy of the parent's locks, held or not, and none of its threads.
        pid = os.getpid()
        return self._keepers.get(pid) or self._keepers.setdefault(pid, self._original.copy())

    @property
    def _memory(self) -> Memory:
        return self._reconnector.memory

    def _standing(self) -> SessionBase:
        return self._reconnector

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
        """Fire an event and give the decision; with `wait=False` only whether the daemon took it.

        The payload's fields go by name, and in `payload` where a name is one of this method's own. `envelope` has
        agent_id, agent_type, turn, metadata and the like; `context` comes back, changed by hooks, as
        `decision.context`. `timeout` is in seconds, and enforced by the daemon; without one its budget holds.
        A daemon that is unreachable, silent or talking nonsense is decided here: a gate denies, others pass.

        Raises:
            ValueError: the payload is not plain finite JSON (InvalidPayloadError), or an argument makes no sense.
            SessionClosedError: the session is over.
        """
        return self._fire(event, fields, wait)

    def run_tool(
        self,
        name: str,
        tool_input: Mapping[str, Any],
        function: Callable[[dict[str, Any]], object],
        /,
        *,
        permission: Callable[[PermissionQuestion], object] | None = None,
        **options: Unpack[ToolOptions],
    ) -> ToolRun:
        """Do the whole dance of one tool call: pre_tool_use, permission, the call, post_tool_use or its failure.

        The tool and `permission` are called in this thread. All else is as in `hooklatch.Session.run_tool`.

        Raises:
            TypeError: the tool or the dialog is async.
            ValueError: the input is not plain finite JSON (InvalidPayloadError), or the session speaks a dialect.
            SessionClosedError: the session is over.
        """
        if is_async(function) or (permission is not None and is_async(permission)):
            raise TypeError("an async function needs a session of hooklatch.connect(); nothing here runs it")
        call = ToolCall(self._memory, name, tool_input, options, has_dialog=permission is not None)
        answer: object = None
        while not isinstance(step := call.next(answer), ToolRun):
            match step:
                case FireEvent(event, arguments, wait):
                    answer = self._fire(event, arguments, wait)
                case AskHost(question):
                    answer = permission(question) if permission else None
                case CallTool(actual_input):
                    answer = self._call_tool(call, function, actual_input)
        return step

    def _call_tool(
        self, call: ToolCall, function: Callable[[dict[str, Any]], object], tool_input: dict[str, Any]
    ) -> Returned | Raised:
        started = time.perf_counter()
        try:
            result = function(tool_input)
        except Exception as error:
            return Raised(error, (time.perf_counter() - started) * 1000)
        except BaseException as error:
            if not self.is_closed:
                self._fire(*call.interruption(error))
            raise
        return Returned(result, (time.perf_counter() - started) * 1000)

    def _fire(self, event: str, arguments: Mapping[str, Any], wait: bool) -> Decision | Accepted:
        firing = Firing(self._memory, event, arguments, wait=wait)
        try:
            return firing.answered(self._reconnector.request("fire", firing.params))
        except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
            return firing.unanswered(error)

    def register(
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

        A served function takes one event and returns None or a verdict, like any hook. It runs in a thread of its own,
        also while a fire waits.

        Raises:
            TypeError: neither or both of a function and `run` were given, or an async function.
            RequestFailedError: the daemon refused it; `name` is "load_failed" where the file could not be loaded.
            DaemonUnreachableError: there is no daemon to register it with.
        """
        (registration,) = self.register_all([target_of(event, function, run, options)], scope=scope)
        return registration

    def register_all(self, hooks: Sequence[HookItem], *, scope: Scope = "session") -> list[Registration]:
        """Register hooks at once, all or none: definitions, or (event, function, options). See `register`."""
        definitions = self._memory.define(hooks)
        params = {"scope": scope, "hooks": [definition.wire for definition in definitions]}
        refuse_async(definitions)
        kept = checked_scope(scope, definitions)
        replaced = self._memory.keep(kept)  # first: the daemon may call a hook before we read that it is in force
        try:
            answer = read_answer(self._reconnector.request("register", params), Registered, "list of hook ids")
        except BaseException:
            self._memory.withdraw(kept, replaced)
            raise
        for definition, hook_id in zip(definitions, answer.ids, strict=False):
            definition.wire.setdefault("id", hook_id)
        return [Registration(self, hook_id, answer.revision, scope) for hook_id in answer.ids]

    def unregister(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Take a hook out; give the revision from which on it is gone. Once more is no error.

        Raises:
            RequestFailedError, DaemonUnreachableError: it is still in force.
        """
        revision = self._change("unregister", hook_id, scope)
        if scope == "session":
            self._memory.forget(hook_id)
        return revision

    def enable(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Put a disabled hook in force again; give the revision. Raises as `unregister` does."""
        return self._switch("enable", hook_id, scope)

    def disable(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Put a hook out of force and keep it registered; give the revision. Raises as `unregister` does."""
        return self._switch("disable", hook_id, scope)

    def request(self, method: str, /, **params: Any) -> Any:
        """Make any request of the protocol and give its result as plain data.

        Raises:
            InvalidPayloadError, RequestFailedError, UnreadableAnswerError, DaemonUnreachableError
        """
        return read_answer(self._reconnector.request(method, params), object, "JSON")

    def hooks(self, **filters: Any) -> Any:
        """The hooks that this session sees, in the order in which they fire."""
        return self.request("hooks", **filters)

    def has_handlers(self, event: str) -> bool:
        """Whether a hook that is not disabled listens to the event, by its name in the catalogue. Nothing is run."""
        return is_handled(self.hooks(event=event))

    def events(self) -> Any:
        """The catalogue: what can be fired, and what hooks of it may answer."""
        return self.request("events")

    def explain(self, event: str, payload: Mapping[str, Any]) -> Any:
        """Who would be asked, in which order, and why each other hook would not. Nothing is run."""
        return self.request("explain", event=event, payload=payload)

    def status(self) -> Any:
        """How the daemon is, as far as this session may know."""
        return self.request("status")

    def ping(self) -> None:
        """Return if the daemon answers. Raises as `request` does."""
        self._reconnector.request("ping", {})

    def update(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        personality: str | None = None,
        plugins: Sequence[str] | None = None,
    ) -> int:
        """Move the session to another working directory, or let other plugins fire; give the revision of what it sees.

        What is left out stays as it is.
        """
        params = self._memory.changed(cwd, personality, plugins)
        return read_answer(self._reconnector.request("session.update", params), Changed, "revision").revision

    def subscribe(self, *topics: str) -> int:
        """Ask for announcements ("registry" unless named otherwise); once this returns, none is missed.

        Raises:
            DaemonUnreachableError: not now, but as soon as there is a daemon.
        """
        self._memory.topics.update(topics or ("registry",))
        params = {"topics": sorted(self._memory.topics)}
        return read_answer(self._reconnector.request("subscribe", params), Changed, "revision").revision

    def unsubscribe(self, *topics: str) -> None:
        """Ask for no more announcements of these topics, or of any."""
        chosen = sorted(topics or self._memory.topics)
        self._memory.topics.difference_update(chosen)
        self._reconnector.request("unsubscribe", {"topics": chosen})

    def announcements(self) -> Announcements:
        """What is announced from now on; the first `for` subscribes to the registry if nothing did before."""
        listener = Announcements(self)
        self._reconnector.inboxes.add(listener.inbox)
        return listener

    def on_reload(self, callback: Callback) -> Callback:
        """Call `callback` with each announcement of the registry, in order, in a thread of its own.

        It is subscribed once this returns, or as soon as there is a daemon. What a callback raises is logged.
        """
        listener = self.announcements()
        self.ensure_subscribed()
        in_thread(self._call_back, listener, callback)
        return callback

    def ensure_subscribed(self) -> None:
        """Subscribe to the registry, now or when there is a daemon, unless something is subscribed to."""
        if not self._memory.topics and not self.is_closed:
            try:
                self.subscribe()
            except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
                log.warning("not subscribed yet: session=%s %s", self.session_id, error)

    def _call_back(self, listener: Announcements, callback: Callable[[Announcement], object]) -> None:
        for announcement in listener:
            if announcement.topic == "registry":
                try:
                    callback(announcement)
                except Exception:
                    log.exception("a callback of on_reload failed: session=%s", self.session_id)

    def _change(self, method: str, hook_id: str, scope: Scope) -> int:
        result = self._reconnector.request(method, {"id": hook_id, "scope": scope})
        return read_answer(result, Changed, "revision").revision

    def _switch(self, method: Literal["enable", "disable"], hook_id: str, scope: Scope) -> int:
        revision = self._change(method, hook_id, scope)
        if scope == "session":
            self._memory.switch(hook_id, is_enabled=method == "enable")
        return revision


def abandon_all() -> None:
    for session in list(SESSIONS):
        session.abandon()


# A forked process that never uses a session would otherwise keep its parent's connection open after the parent's death.
os.register_at_fork(after_in_child=abandon_all)
