"""Keeps a session connected under trio: connects, introduces it, serves its hooks, and begins again when that ends.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Knows nothing of what is asked over the link. While there is none, every request fails at once.
"""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Mapping, Sequence
from weakref import WeakSet

import msgspec
import trio

from hooklatch.client.announcements import Announcement, Inbox
from hooklatch.client.answers import Changed, read_answer
from hooklatch.client.core import CallRequested
from hooklatch.client.liveness import backoff
from hooklatch.client.memory import Memory
from hooklatch.client.served import ServedFunction, describe, encode_answer, is_async, served_event
from hooklatch.client.trio_link import Link, open_connection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, SessionClosedError, UnreadableAnswerError
from hooklatch.version import VERSION
from hooklatch_worker.events import Event

__all__ = ["Keeper"]

log = logging.getLogger("hooklatch.client")


class Keeper:
    """The connections of one session, one at a time."""

    def __init__(self, paths: Sequence[str], memory: Memory) -> None:
        self.memory = memory
        self.inboxes: WeakSet[Inbox] = WeakSet()
        self.is_closed = False
        self.link: Link | None = None
        self._paths = paths
        self._problem = "the session was not opened; use it in async with"
        self._nursery: trio.Nursery | None = None

    async def start(self, nursery: trio.Nursery) -> None:
        """Make the first attempt; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
        """
        self._nursery = nursery
        try:
            await self._open(nursery)
        except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
            if self.memory.must_raise(error):
                raise
            self._note(error)
        nursery.start_soon(self._stay_connected, nursery)

    def close(self) -> None:
        """Stop for good; listeners end."""
        self.is_closed = True
        if self.link is not None:
            self.link.end(DaemonUnreachableError("the session was closed"))
        for inbox in list(self.inboxes):
            inbox.wake()

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Make a request on the present link; see `Link.request`.

        Raises:
            DaemonUnreachableError: there is no link.
            SessionClosedError: there will be none.
        """
        if self.is_closed:
            raise SessionClosedError("the session is closed; open another one")
        if self.link is None:
            await trio.lowlevel.checkpoint()
            raise DaemonUnreachableError(self._problem)
        return await self.link.request(method, params)

    def announce(self, announcement: Announcement) -> None:
        if announcement.current is not None:
            self.memory.revision = announcement.current
        for inbox in list(self.inboxes):
            inbox.put(announcement)

    async def _stay_connected(self, nursery: trio.Nursery) -> None:
        attempts = 0
        while True:
            if self.link is not None:
                await self.link.ended.wait()
                self._note(self.link.failure)
                self.link, attempts = None, 0
            await trio.sleep(backoff(attempts, random.random()))
            attempts += 1
            try:
                await self._open(nursery)
            except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
                self._note(error)

    async def _open(self, nursery: trio.Nursery) -> None:
        connection = await open_connection(self._paths, self.memory.liveness)
        link = Link(connection, nursery, self.memory.liveness, serve=self._serve, announce=self.announce)
        nursery.start_soon(link.run)
        try:
            self.memory.welcomed(await link.request("hello", self.memory.hello(VERSION)))
            link.slots.total_tokens = self.memory.in_flight
            self.link = link
            revision = self.memory.welcome.revision
            if self.memory.topics:
                result = await link.request("subscribe", {"topics": sorted(self.memory.topics)})
                revision = read_answer(result, Changed, "revision").revision
        except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
            self.link = None
            link.end(DaemonUnreachableError(str(error)))
            raise
        self._problem = ""
        log.info("connected: session=%s revision=%s", self.memory.session_id, revision)
        if missed := self.memory.heard_of(revision):
            self.announce(missed)

    def _note(self, error: Exception | None) -> None:
        problem = str(error)
        if problem != self._problem:
            self._problem = problem
            if not self.is_closed:
                log.warning("no daemon: session=%s %s", self.memory.session_id, problem)

    async def _serve(self, call: CallRequested) -> bytes | str:
        definition = self.memory.served(call.hook)
        if definition is None or definition.function is None:
            return f"this client serves no hook {call.hook!r}"
        try:
            return encode_answer(await invoke(definition.function, served_event(call, definition.config)))
        except (Exception, SystemExit) as error:
            log.warning("a served hook failed: session=%s hook=%s", self.memory.session_id, call.hook, exc_info=True)
            return describe(error)


async def invoke(function: ServedFunction, event: Event) -> object:
    if is_async(function):
        result: object = function(event)
    else:
        result = await trio.to_thread.run_sync(function, event, abandon_on_cancel=True)
    return await result if inspect.isawaitable(result) else result
