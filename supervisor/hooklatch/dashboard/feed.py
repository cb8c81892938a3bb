"""The requests of pages to the daemon, and the feed of its announcements to open pages.  Knows no page.

A page sends several requests.  If one has no response, the page shows the reason in its place, and assumes nothing.

no page is open ─▶ one is: connect, subscribe ─▶ a StatusSample every 3 s and after each change, a DecisionBatch
      ▲                      │ the daemon is gone      │
      └── the last one left ─┴── a sample of that ◀────┘  and again in 2 s

Clients may skip events without hooks, except while a subscriber gets decisions. So the feed subscribes only while a
page is open.  A decision is shown as the record has it, without secrets, or as announced if the record lacks it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, cast

import msgspec
import trio

from hooklatch.client.trio_admin import TIMEOUT, AdminConnector, TrioAdminConnection
from hooklatch.core.answers import Ask, AsksAnswer
from hooklatch.core.status_answers import LogAnswer, StatusAnswer
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError

__all__ = [
    "QueryResult", "DaemonQueries", "open_asker", "DecisionBatch", "DashboardFeed", "Happening", "StatusSample",
    "TooManyError", "fetch_status_sample",
]  # fmt: skip

T = TypeVar("T")


class QueryResult(msgspec.Struct, Generic[T], frozen=True):
    """The daemon's response, or the `fault` for which there is none. It has exactly one of both."""

    value: T | None = None
    fault: str = ""


class DaemonQueries:
    """The requests over one connection. Once that is lost, every further request has the same fault."""

    def __init__(self, link: TrioAdminConnection | None, fault: str = "") -> None:
        self._link = link
        self._fault = fault

    async def ask(
        self, method: str, shape: type[T], /, *, timeout: float = TIMEOUT, **params: object
    ) -> QueryResult[T]:
        """Return the daemon's response, or the fault if there is none within `timeout` seconds."""
        if self._link is None:
            return QueryResult(fault=self._fault)
        try:
            return QueryResult(await self._link.ask(method, shape, timeout=timeout, **params))
        except RequestFailedError as error:
            return QueryResult(fault=error.message)
        except HooklatchError as error:
            self._link, self._fault = None, str(error)
            return QueryResult(fault=self._fault)


@asynccontextmanager
async def open_asker(daemon: AdminConnector) -> AsyncGenerator[DaemonQueries]:
    """Connect for the requests of a page. Without a daemon, each of them gets that fault."""
    try:
        link = await daemon.connect()
    except HooklatchError as error:
        yield DaemonQueries(None, str(error))
        return
    async with link:
        yield DaemonQueries(link)


PULSE = 3.0  # seconds between two samples of the daemon's status
RETRY = 2.0  # seconds after a connection that failed
GATHER = 0.25  # seconds in which decisions are gathered, so that a busy daemon is asked four times a second at most
MAX_ROWS = 20  # decisions in one batch; earlier ones are only counted
MAX_SEARCHED = 200  # records that are asked for to find them
MAX_LAG = 32  # happenings that a slow browser may be behind
MAX_LISTENERS = 16
TOPICS = ("registry", "decisions")
OPTIONAL_TOPICS = ("operations", "asks")  # of daemons that know them


class TooManyError(Exception):
    """More pages are open than are served."""


class StatusSample(msgspec.Struct, frozen=True):
    """The daemon's status and asks at a moment, as far as it responded."""

    at: float
    status: QueryResult[StatusAnswer]
    asks: QueryResult[list[Ask]]


class DecisionBatch(msgspec.Struct, frozen=True):
    """Decisions, oldest first: each announcement with its record, if there is one. `omitted` more came before them."""

    decisions: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    omitted: int


Happening = StatusSample | DecisionBatch


async def fetch_status_sample(asker: DaemonQueries) -> StatusSample:
    """Request the daemon's present status and asks."""
    status = await asker.ask("status", StatusAnswer)
    asks = await asker.ask("asks", AsksAnswer)
    return StatusSample(
        time.time(), status, QueryResult(asks.value["asks"] if asks.value is not None else None, asks.fault)
    )


class DashboardFeed:
    """The feed, which sends happenings to its listeners while `run` runs."""

    def __init__(self, daemon: AdminConnector) -> None:
        self._daemon = daemon
        self._listeners: set[trio.MemorySendChannel[Happening]] = set()
        self._arrived = trio.Event()
        self._watching: AnnouncementBuffer | None = None
        self._is_over = False

    @contextmanager
    def listening(self) -> Generator[trio.MemoryReceiveChannel[Happening]]:
        """Provide a channel of happenings. It ends with the feed, or when its reader is too slow.

        Raises:
            TooManyError: too many listen already.
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise TooManyError(f"{MAX_LISTENERS} pages are open already; close one")
        send, receive = trio.open_memory_channel[Happening](MAX_LAG)
        if self._is_over:
            send.close()
        else:
            self._listeners.add(send)
            self._arrived.set()
            if self._watching is not None:
                self._watching.changed.set()  # it need not wait for the next pulse
        try:
            yield receive
        finally:
            self._listeners.discard(send)
            send.close()
            receive.close()

    def end(self) -> None:
        """End every listener's channel, so that their connections end too."""
        self._is_over = True
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def run(self) -> None:
        """Watch the daemon while there are listeners, until cancelled."""
        while True:
            if not self._listeners:
                self._arrived = trio.Event()
                await self._arrived.wait()
            try:
                await self._watch()
            except* HooklatchError as group:
                fault = find_first_error(group)
                self._send_to_all(StatusSample(time.time(), QueryResult(fault=fault), QueryResult(fault=fault)))
                await trio.sleep(RETRY)

    async def _watch(self) -> None:
        async with await self._daemon.connect() as link, open_asker(self._daemon) as asker:
            await subscribe_all(link)
            watch = self._watching = AnnouncementBuffer()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch.receive, link)
                    nursery.start_soon(self._gather, watch, asker)
                    await self._send_samples(watch)
                    nursery.cancel_scope.cancel()
            finally:
                self._watching = None

    async def _send_samples(self, watch: AnnouncementBuffer) -> None:
        """Send samples until the last listener has left."""
        while self._listeners:
            watch.changed = trio.Event()
            async with open_asker(self._daemon) as asker:
                sample = await fetch_status_sample(asker)
            self._send_to_all(sample)
            if sample.status.value is None:
                raise DaemonUnreachableError(sample.status.fault)
            with trio.move_on_after(PULSE):
                await watch.changed.wait()
                await trio.sleep(GATHER)  # several changes at once are one

    async def _gather(self, watch: AnnouncementBuffer, asker: DaemonQueries) -> None:
        while True:
            await watch.decided.wait()
            await trio.sleep(GATHER)
            watch.decided = trio.Event()
            announced, omitted = watch.take()
            log = await asker.ask("log", LogAnswer, kind="decision", limit=MAX_SEARCHED)
            if log.value is None:
                raise DaemonUnreachableError(log.fault)
            known = {record.get("decision_id"): record for record in log.value["records"]}
            self._send_to_all(
                DecisionBatch([(params, known.get(find_decision_id(params))) for params in announced], omitted)
            )

    def _send_to_all(self, happening: Happening) -> None:
        for listener in list(self._listeners):
            try:
                listener.send_nowait(happening)
            except trio.WouldBlock:
                listener.close()  # its browser connects again, and begins with the present state
                self._listeners.discard(listener)


class AnnouncementBuffer:
    """The announcements of one connection that were not sent to listeners yet."""

    def __init__(self) -> None:
        self.decided = trio.Event()
        self.changed = trio.Event()
        self._latest: deque[Mapping[str, Any]] = deque(maxlen=MAX_ROWS)
        self._count = 0

    async def receive(self, link: TrioAdminConnection) -> None:
        """Take announcements until the daemon hangs up."""
        while True:
            announcement = await link.announcement()
            if announcement.get("topic") == "decisions":
                self._take(announcement)
            else:
                self.changed.set()

    def _take(self, announcement: Mapping[str, Any]) -> None:
        missed = announcement.get("missed")  # by this connection, since it read too slowly
        if isinstance(missed, int):
            self._count += missed
        else:
            self._latest.append(announcement)
            self._count += 1
        self.decided.set()

    def take(self) -> tuple[list[Mapping[str, Any]], int]:
        """Return the newest decisions that were not taken yet, and how many came before them."""
        latest, count = list(self._latest), self._count
        self._latest.clear()
        self._count = 0
        return latest, count - len(latest)


def find_first_error(group: BaseExceptionGroup[HooklatchError]) -> str:
    first = group.exceptions[0]
    return find_first_error(first) if isinstance(first, BaseExceptionGroup) else str(first)


def find_decision_id(announcement: Mapping[str, Any]) -> object:
    decision: object = announcement.get("decision")
    return cast("dict[str, object]", decision).get("decision_id") if isinstance(decision, dict) else None


async def subscribe_all(link: TrioAdminConnection) -> None:
    """Subscribe to all topics that the daemon has."""
    await link.ask("subscribe", dict[str, Any], topics=[*TOPICS])
    for topic in OPTIONAL_TOPICS:
        try:
            await link.ask("subscribe", dict[str, Any], topics=[topic])
        except RequestFailedError:
            continue  # a change is then seen at the next pulse
