"""What happens in the daemon, for as long as somebody looks.  Knows the daemon's announcements; knows no page.

nobody looks ─▶ somebody does: connect, subscribe ─▶ a Pulse every 3 s and after each change, a Batch of decisions
      ▲                      │ the daemon is gone        │
      └── the last one left ─┴── a Pulse that says so ◀──┘  and again in 2 s

Clients need not fire what no hook listens to, except while somebody watches decisions: so it watches only while a page
is open.  A decision is shown as the record has it, without secrets; one that is not there, as it was announced.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import trio

from hooklatch.dashboard.daemon.answers import HooksAnswer, OpenAskList, RecordPage, ShownAsk, StatusSummary
from hooklatch.dashboard.daemon.asker import DaemonQueries, QueryResult, open_asker
from hooklatch.dashboard.daemon.link import DaemonConnector, DaemonLink, DaemonUnansweredError, RequestRejectedError
from hooklatch.dashboard.daemon.samples import Samples

__all__ = ["DecisionBatch", "DashboardFeed", "Happening", "StatusSample", "TooManyError", "fetch_status_sample"]

PULSE = 3.0  # seconds between two looks at the daemon
AGAIN = 2.0  # seconds after a connection that failed
GATHER = 0.25  # seconds in which decisions are gathered, so that a busy daemon is asked four times a second at most
MOST_ROWS = 20  # decisions in one batch; those before them are counted
LOOKED_AT = 200  # records that are asked for to find them
WAITING = 32  # happenings that a slow browser may be behind
MOST_LISTENERS = 16
TOPICS = ("registry", "decisions")
FURTHER = ("operations", "asks")  # of daemons that know them


class TooManyError(Exception):
    """More pages are open than are served."""


class StatusSample(msgspec.Struct, frozen=True):
    """How the daemon is at a moment, as far as it answered."""

    at: float
    status: QueryResult[StatusSummary]
    asks: QueryResult[list[ShownAsk]]


class DecisionBatch(msgspec.Struct, frozen=True):
    """Decisions, oldest first: each announcement with its record, if there is one; `omitted` came before them."""

    decisions: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    omitted: int


Happening = StatusSample | DecisionBatch


async def fetch_status_sample(asker: DaemonQueries) -> StatusSample:
    """Ask how the daemon is now."""
    status = await asker.ask("status", StatusSummary)
    asks = await asker.ask("asks", OpenAskList)
    return StatusSample(
        time.time(), status, QueryResult(asks.value.asks if asks.value is not None else None, asks.fault)
    )


class DashboardFeed:
    """Tells listeners what happens, while `run` runs."""

    def __init__(self, daemon: DaemonConnector, samples: Samples) -> None:
        self._daemon = daemon
        self._samples = samples
        self._listeners: set[trio.MemorySendChannel[Happening]] = set()
        self._arrived = trio.Event()
        self._watching: AnnouncementBuffer | None = None
        self._is_over = False

    @contextmanager
    def listening(self) -> Generator[trio.MemoryReceiveChannel[Happening]]:
        """Yield a channel of what happens meanwhile; it ends with the feed, or when its reader is too slow.

        Raises:
            TooManyError: too many listen already.
        """
        if len(self._listeners) >= MOST_LISTENERS:
            raise TooManyError(f"{MOST_LISTENERS} pages are open already; close one")
        send, receive = trio.open_memory_channel[Happening](WAITING)
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
            except* DaemonUnansweredError as group:
                fault = find_first_error(group)
                self._tell(StatusSample(time.time(), QueryResult(fault=fault), QueryResult(fault=fault)))
                await trio.sleep(AGAIN)

    async def _watch(self) -> None:
        async with self._daemon.connect() as link, open_asker(self._daemon) as asker:
            await subscribe_all(link)
            watch = self._watching = AnnouncementBuffer()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch.receive, link)
                    nursery.start_soon(self._gather, watch, asker)
                    await self._pulse(watch)
                    nursery.cancel_scope.cancel()
            finally:
                self._watching = None

    async def _pulse(self, watch: AnnouncementBuffer) -> None:
        """Say how the daemon is, until nobody listens."""
        while self._listeners:
            watch.changed = trio.Event()
            async with open_asker(self._daemon) as asker:
                pulse = await fetch_status_sample(asker)
                if self._samples.is_due(pulse.at):
                    self._samples.take(pulse.at, await asker.ask("hooks", HooksAnswer))
            self._tell(pulse)
            if pulse.status.value is None:
                raise DaemonUnansweredError(pulse.status.fault)
            with trio.move_on_after(PULSE):
                await watch.changed.wait()
                await trio.sleep(GATHER)  # several changes at once are one

    async def _gather(self, watch: AnnouncementBuffer, asker: DaemonQueries) -> None:
        while True:
            await watch.decided.wait()
            await trio.sleep(GATHER)
            watch.decided = trio.Event()
            announced, omitted = watch.take()
            log = await asker.ask("log", RecordPage, kind="decision", limit=LOOKED_AT)
            if log.value is None:
                raise DaemonUnansweredError(log.fault)
            known = {record.get("decision_id"): record for record in log.value.records}
            self._tell(DecisionBatch([(one, known.get(find_decision_id(one))) for one in announced], omitted))

    def _tell(self, happening: Happening) -> None:
        for listener in list(self._listeners):
            try:
                listener.send_nowait(happening)
            except trio.WouldBlock:
                listener.close()  # its browser connects again, and begins with how things are then
                self._listeners.discard(listener)


class AnnouncementBuffer:
    """What one connection has announced and nobody has told yet."""

    def __init__(self) -> None:
        self.decided = trio.Event()
        self.changed = trio.Event()
        self._latest: deque[Mapping[str, Any]] = deque(maxlen=MOST_ROWS)
        self._count = 0

    async def receive(self, link: DaemonLink) -> None:
        """Take announcements until the daemon hangs up.

        Raises:
            UnansweredError: it did.
        """
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


def find_first_error(group: BaseExceptionGroup[DaemonUnansweredError]) -> str:
    first = group.exceptions[0]
    return find_first_error(first) if isinstance(first, BaseExceptionGroup) else str(first)


def find_decision_id(announcement: Mapping[str, Any]) -> object:
    decision: object = announcement.get("decision")
    return cast("dict[str, object]", decision).get("decision_id") if isinstance(decision, dict) else None


async def subscribe_all(link: DaemonLink) -> None:
    """Subscribe to all that the daemon knows of.

    Raises:
        UnansweredError: not even to decisions.
    """
    await link.ask("subscribe", dict[str, Any], topics=TOPICS)
    for topic in FURTHER:
        try:
            await link.ask("subscribe", dict[str, Any], topics=[topic])
        except RequestRejectedError:
            continue  # a change is then seen at the next pulse
