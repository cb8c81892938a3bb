"""The client under trio and under asyncio.  Puts what users ask into requests, and answers into what they get.

Imports neither library: the one that runs when the session is opened is used; see `async_keeper` and `runtime`.
"""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload

from hooklatch.client.async_reconnector import Reconnector
from hooklatch.client.library import enter_runtime
from hooklatch.client.protocol.announcements import Announcement, Inbox
from hooklatch.client.protocol.answers import Changed, Registered, is_handled, read_answer
from hooklatch.client.protocol.decisions import Accepted, Decision
from hooklatch.client.runtime import Runtime
from hooklatch.client.session.fires import Firing
from hooklatch.client.session.served import ServedFunction
from hooklatch.client.session.session_base import Facts, SessionBase
from hooklatch.client.session.session_state import (
    HookItem,
    HookOptions,
    Memory,
    Options,
    Scope,
    checked_scope,
    target_of,
)
from hooklatch.client.session.tool_calls import AskHost, CallTool, FireEvent, Raised, Returned, ToolCall, ToolOptions
from hooklatch.client.session.tool_runs import PermissionQuestion, ToolRun
from hooklatch.client.sockets import candidates
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError

__all__ = ["Announcements", "Registration", "Session", "connect", "session"]

log = logging.getLogger("hooklatch.client")
Callback = TypeVar("Callback", bound=Callable[[Announcement], object])


def connect(
    path: str | os.PathLike[str] | None = None, *, session_id: str | None = None, **options: Unpack[Options]
) -> Session:
    """Open a session with the daemon: `async with connect() as s`, under trio or under asyncio.

    A `path` names the daemon's socket, and no other is tried.

    Without a daemon the session opens too, its gates deny with cause `no_daemon`, and it connects when there is one.

    Raises:
        DaemonUnreachableError: with `require=True`: no daemon is reachable.
        RequestFailedError: the daemon refused the session or one of its hooks.
    """
    return Session(Reconnector(candidates(path, options.get("runtime_dir")), Memory(session_id, options)))


def session(id: str | None = None, **options: Unpack[Options]) -> Session:  # noqa: A002 - the key's name on the wire
    """Open the session of that id, or a new one: `async with session(host="my-agent") as s`. See `connect`."""
    return connect(session_id=id, **options)


class Registration:
    """A hook that was registered: its id, and the revision from which on it is in force."""

    def __init__(self, owner: Session, hook_id: str, revision: int, scope: Scope) -> None:
        self.id = hook_id
        self.revision = revision
        self._owner = owner
        self._scope: Scope = scope

    async def unregister(self) -> None:
        """Take the hook out; see `Session.unregister`."""
        await self._owner.unregister(self.id, scope=self._scope)


class Announcements:
    """What the daemon announces from now on: `async for announcement in ...`; it ends with the session."""

    def __init__(self, owner: Session) -> None:
        self._owner = owner
        self._runtime = owner.runtime
        self._news = self._runtime.event()
        self.inbox = Inbox(self._wake)

    def __aiter__(self) -> Announcements:
        return self

    async def __anext__(self) -> Announcement:
        await self._owner.ensure_subscribed()
        while (announcement := self.inbox.take()) is None:
            if self._owner.is_closed:
                raise StopAsyncIteration
            await self._news.wait()
            self._news = self._runtime.event()
        return announcement

    def _wake(self) -> None:
        self._news.set()


class Session(Facts):
    """One live agent run. Made by `connect` or `session`; use it in `async with`.

    Any number of tasks of one trio run, or of one asyncio loop, may use it at once. What it registered goes with it:
    the daemon ends it with the block, and its id may be used again.
    """

    def __init__(self, reconnector: Reconnector) -> None:
        self._reconnector = reconnector
        self._memory = reconnector.memory

    async def __aenter__(self) -> Session:
        self._reconnector.check_open()
        runtime = await enter_runtime()
        try:
            await self._reconnector.start(runtime)
        except BaseException:
            await self._close(runtime)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_closed:
            await self._close(self.runtime)

    async def _close(self, runtime: Runtime) -> None:
        try:
            await self._reconnector.leave()
        finally:
            await runtime.aclose()

    def _standing(self) -> SessionBase:
        return self._reconnector

    @property
    def runtime(self) -> Runtime:
        """Where the session's tasks run; for its own parts."""
        return self._reconnector.runtime

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
        """Fire an event and give the decision; with `wait=False` only whether the daemon took it.

        The payload's fields go by name, and in `payload` where a name is one of this method's own. `envelope` has
        agent_id, agent_type, turn, metadata and the like; `context` comes back, changed by hooks, as
        `decision.context`. `timeout` is in seconds, and enforced by the daemon; without one its budget holds.
        A daemon that is unreachable, silent or talking nonsense is decided here: a gate denies, others pass.

        Raises:
            ValueError: the payload is not plain finite JSON (InvalidPayloadError), or an argument makes no sense.
            SessionClosedError: the session is over.
        """
        return await self._fire(event, fields, wait)

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
        """Do the whole dance of one tool call: pre_tool_use, permission, the call, post_tool_use or its failure.

        The tool is called with its input as one dict, as hooks may have changed it; an async one in this task, another
        one in a thread, which a cancelled call leaves behind. A refused one never runs. What it raises becomes
        `ToolRun.error`. `permission` is the host's own dialog, def or async def: it is asked where a hook asks, and
        (but for `only_on_ask`) wherever none has allowed the call; True lets it run, a text says why not, all else
        refuses too. Without it, an ask that no permission hook allows is a refusal.

        Raises:
            ValueError: the input is not plain finite JSON (InvalidPayloadError), or the session speaks a dialect.
            SessionClosedError: the session is over.
        """
        call = ToolCall(self._memory, name, tool_input, options, has_dialog=permission is not None)
        answer: object = None
        while not isinstance(step := call.next(answer), ToolRun):
            match step:
                case FireEvent(event, arguments, wait):
                    answer = await self._fire(event, arguments, wait)
                case AskHost(question):
                    answer = await self.runtime.call(permission, question) if permission else None
                case CallTool(actual_input):
                    answer = await self._call_tool(call, function, actual_input)
        return step

    async def _call_tool(
        self, call: ToolCall, function: Callable[[dict[str, Any]], object], tool_input: dict[str, Any]
    ) -> Returned | Raised:
        started = time.perf_counter()
        try:
            result = await self.runtime.call(function, tool_input)
        except Exception as error:
            return Raised(error, (time.perf_counter() - started) * 1000)
        except BaseException as error:
            if not self.is_closed:  # this task may wait for nothing any more, so another one tells the hooks
                self.runtime.start_soon(self._fire, *call.interruption(error))
            raise
        return Returned(result, (time.perf_counter() - started) * 1000)

    async def _fire(self, event: str, arguments: Mapping[str, Any], wait: bool) -> Decision | Accepted:
        firing = Firing(self._memory, event, arguments, wait=wait)
        try:
            return firing.answered(await self._reconnector.request("fire", firing.params))
        except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
            return firing.unanswered(error)

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
        of the session, another one in a thread.

        Raises:
            TypeError: neither or both of a function and `run` were given.
            RequestFailedError: the daemon refused it; `name` is "load_failed" where the file could not be loaded.
            DaemonUnreachableError: there is no daemon to register it with.
        """
        (registration,) = await self.register_all([target_of(event, function, run, options)], scope=scope)
        return registration

    async def register_all(self, hooks: Sequence[HookItem], *, scope: Scope = "session") -> list[Registration]:
        """Register hooks at once, all or none: definitions, or (event, function, options). See `register`."""
        definitions = self._memory.define(hooks)
        params = {"scope": scope, "hooks": [definition.wire for definition in definitions]}
        kept = checked_scope(scope, definitions)
        replaced = self._memory.keep(kept)  # first: the daemon may call a hook before we read that it is in force
        try:
            answer = read_answer(await self._reconnector.request("register", params), Registered, "list of hook ids")
        except BaseException:
            self._memory.withdraw(kept, replaced)
            raise
        for definition, hook_id in zip(definitions, answer.ids, strict=False):
            definition.wire.setdefault("id", hook_id)
        return [Registration(self, hook_id, answer.revision, scope) for hook_id in answer.ids]

    async def unregister(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Take a hook out; give the revision from which on it is gone. Once more is no error.

        Raises:
            RequestFailedError, DaemonUnreachableError: it is still in force.
        """
        revision = await self._change("unregister", hook_id, scope)
        if scope == "session":
            self._memory.forget(hook_id)
        return revision

    async def enable(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Put a disabled hook in force again; give the revision. Raises as `unregister` does."""
        return await self._switch("enable", hook_id, scope)

    async def disable(self, hook_id: str, *, scope: Scope = "session") -> int:
        """Put a hook out of force and keep it registered; give the revision. Raises as `unregister` does."""
        return await self._switch("disable", hook_id, scope)

    async def request(self, method: str, /, **params: Any) -> Any:
        """Make any request of the protocol and give its result as plain data.

        Raises:
            InvalidPayloadError, RequestFailedError, UnreadableAnswerError, DaemonUnreachableError
        """
        return read_answer(await self._reconnector.request(method, params), object, "JSON")

    async def hooks(self, **filters: Any) -> Any:
        """The hooks that this session sees, in the order in which they fire."""
        return await self.request("hooks", **filters)

    async def has_handlers(self, event: str) -> bool:
        """Whether a hook that is not disabled listens to the event, by its name in the catalogue. Nothing is run."""
        return is_handled(await self.hooks(event=event))

    async def events(self) -> Any:
        """The catalogue: what can be fired, and what hooks of it may answer."""
        return await self.request("events")

    async def explain(self, event: str, payload: Mapping[str, Any]) -> Any:
        """Who would be asked, in which order, and why each other hook would not. Nothing is run."""
        return await self.request("explain", event=event, payload=payload)

    async def status(self) -> Any:
        """How the daemon is, as far as this session may know."""
        return await self.request("status")

    async def ping(self) -> None:
        """Return if the daemon answers. Raises as `request` does."""
        await self._reconnector.request("ping", {})

    async def update(
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
        return read_answer(await self._reconnector.request("session.update", params), Changed, "revision").revision

    async def subscribe(self, *topics: str) -> int:
        """Ask for announcements ("registry" unless named otherwise); once this returns, none is missed.

        Raises:
            DaemonUnreachableError: not now, but as soon as there is a daemon.
        """
        self._memory.topics.update(topics or ("registry",))
        params = {"topics": sorted(self._memory.topics)}
        return read_answer(await self._reconnector.request("subscribe", params), Changed, "revision").revision

    async def unsubscribe(self, *topics: str) -> None:
        """Ask for no more announcements of these topics, or of any."""
        chosen = sorted(topics or self._memory.topics)
        self._memory.topics.difference_update(chosen)
        await self._reconnector.request("unsubscribe", {"topics": chosen})

    def announcements(self) -> Announcements:
        """What is announced from now on; the first `async for` subscribes to the registry if nothing did before."""
        listener = Announcements(self)
        self._reconnector.inboxes.add(listener.inbox)
        return listener

    def on_reload(self, callback: Callback) -> Callback:
        """Call `callback`, def or async def, with each announcement of the registry, in order, one at a time.

        Subscribes soon; `await s.subscribe()` waits until it is so. What a callback raises is logged.
        """
        self.runtime.start_soon(self._call_back, self.announcements(), callback)
        return callback

    async def ensure_subscribed(self) -> None:
        """Subscribe to the registry, now or when there is a daemon, unless something is subscribed to."""
        if not self._memory.topics and not self.is_closed:
            try:
                await self.subscribe()
            except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
                log.warning("not subscribed yet: session=%s %s", self.session_id, error)

    async def _call_back(self, listener: Announcements, callback: Callable[[Announcement], object]) -> None:
        async for announcement in listener:
            if announcement.topic == "registry":
                try:
                    result = callback(announcement)
                    if inspect.isawaitable(result):
                        await result
                except Exception:
                    log.exception("a callback of on_reload failed: session=%s", self.session_id)

    async def _change(self, method: str, hook_id: str, scope: Scope) -> int:
        result = await self._reconnector.request(method, {"id": hook_id, "scope": scope})
        return read_answer(result, Changed, "revision").revision

    async def _switch(self, method: Literal["enable", "disable"], hook_id: str, scope: Scope) -> int:
        revision = await self._change(method, hook_id, scope)
        if scope == "session":
            self._memory.switch(hook_id, is_enabled=method == "enable")
        return revision
