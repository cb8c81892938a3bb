"""Tells the engine how this host is, and the daemon what was shipped.  Decides nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import trio

from hooklatch.fleet.engine.engine import Engine, EngineRefusedError
from hooklatch.fleet.link.asking import await_answer
from hooklatch.fleet.link.counting import GateCounter
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, LinkedDaemon
from hooklatch.fleet.link.known import REPORT, LinkState
from hooklatch.fleet.link.pauses import Backoff
from hooklatch.fleet.policy.reports import encode_report
from hooklatch.record.files.reading import read_entries_of_kind
from hooklatch.record.files.seeking import RecordChangedError, RecordCursor, find_newest_link
from hooklatch.record.files.segments import list_segments

__all__ = ["EVERY", "Gauge", "HostReporter", "ShippingNotifier"]

logger = logging.getLogger("hooklatch.link")
EVERY = 10.0  # seconds between two reports of a host where nothing happens
SOON = 0.5  # seconds, at least, between two reports of one where much does
TELL = 1.0  # seconds, at least, between two words to the daemon about what was shipped
NOTHING = -1  # has been told
MOST = 32 * 2**20  # bytes of the record that are counted for one report
LONGEST = 30.0  # seconds until an engine that refuses reports is tried again


class Gauge:
    """Measures a record for the reports: where it begins and ends, and how its gates decide.  Blocks on the disk."""

    def __init__(self, folder: str, known: LinkState) -> None:
        self._folder = folder
        self._known = known
        self._bundle = ""
        self._counter: GateCounter | None = None
        self._cursor = RecordCursor(folder)

    def measure(self) -> None:
        """Bring what is known of the record up to date; a record that cannot be read keeps its last measures."""
        try:
            self._known.newest = find_newest_link(self._folder) or self._known.newest
            segments = list_segments(self._folder)
            self._known.oldest = segments[0].first if segments else 0
            self._count()
        except RecordChangedError:
            self._counter = None  # another record: what was counted was of the one before
        except OSError:
            return  # shipping reads the same files, and tells

    def _count(self) -> None:
        answer = self._known.answer
        bundle = answer.applied.bundle if answer is not None and answer.applied is not None else ""
        if self._counter is None or bundle != self._bundle:
            self._begin(bundle)
        assert self._counter is not None
        read = 0
        while read < MOST and (lines := self._cursor.read()):
            self._counter.take(lines)
            read += sum(map(len, lines))
        self._known.gates = self._counter.gates

    def _begin(self, bundle: str) -> None:
        since = find_effective_seq(self._folder, bundle) if bundle else None
        if since is None:  # not on record, or retired since
            newest = find_newest_link(self._folder)
            since = newest.seq + 1 if newest is not None else 1
        self._bundle, self._counter = bundle, GateCounter(since)
        self._cursor.seek(since - 1)


def find_effective_seq(folder: str, bundle: str) -> int | None:
    """Return the record that says that a bundle took effect, the first one if several in a row do; None if none does.

    Raises:
        OSError: the record cannot be read.
    """
    since = None
    for record in read_entries_of_kind(list_segments(folder), "fleet", since=0):
        if record.get("action") != "applied":
            continue
        if record.get("bundle") != bundle:
            break
        since = int(record["seq"])
    return since


class HostReporter:
    """The reports of one host, over the life of any connection to the engine."""

    def __init__(self, host: str, gauge: Gauge, known: LinkState, *, every: float, now: Callable[[], float]) -> None:
        self._host = host
        self._gauge = gauge
        self._known = known
        self._every = every
        self._now = now
        self._pauses = Backoff(LONGEST, first=SOON)
        self._news = trio.Event()
        known.on_change = self._wake

    def _wake(self) -> None:
        self._news.set()

    async def run(self, engine: Engine) -> None:
        """Report until the connection ends.

        Raises:
            EngineError: it has.
        """
        while True:
            self._news = trio.Event()
            await trio.to_thread.run_sync(self._gauge.measure)
            try:
                await await_answer(
                    engine.report(self._host, encode_report(self._known.report(self._now(), time.time())))
                )
            except EngineRefusedError as error:
                self._known.fault(REPORT, f"the engine does not take this host's report: {error}")
                await trio.sleep(self._pauses.next())
                continue
            self._pauses.reset()
            self._known.fault(REPORT, None)
            await trio.sleep(SOON)
            with trio.move_on_after(max(0.0, self._every - SOON)):
                await self._news.wait()


class ShippingNotifier:
    """Tells the daemon up to which record the engine has them, so that it may remove those."""

    def __init__(self, daemon: LinkedDaemon, known: LinkState) -> None:
        self._daemon = daemon
        self._known = known

    async def run(self) -> None:
        """Tell until cancelled; a daemon that is new is told again."""
        told = NOTHING
        while True:
            await trio.sleep(TELL)
            if not self._daemon.is_connected():
                told = NOTHING
            elif self._known.epoch and self._known.shipped != told:
                told = self._known.shipped
                try:
                    await self._daemon.shipped(told)
                except (DaemonAbsentError, DaemonRefusedError) as error:
                    logger.warning("the daemon was not told what is shipped: %s", error, extra={"seq": told})
