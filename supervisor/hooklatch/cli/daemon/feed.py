"""The reports and decisions that `ui` and `top` show: the thread that fetches them, and the rows that they become.

report, and the one before ──▶ rows of hooks, ordered        announcements, and open asks ──▶ rows of decisions

The thread has the one connection and hands over what came, a batch at a time: it reads no further until the screen has
taken a batch.  So a screen that is too slow is a slow reader of the daemon, which counts what it leaves out.  If the
daemon is gone, the thread reports the error and tries again.
"""

from __future__ import annotations

import argparse
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.cli.schema import TopHook
    from hooklatch.core.answers import Ask, HookStatus
    from hooklatch.core.status_answers import StatusAnswer

__all__ = [
    "RETRY_INTERVAL", "SORTS", "DecisionRow", "DecisionRows", "FeedItem", "KnownDecisions", "LiveFeed", "PollFailure",
    "TopBoard", "TopReport", "build_board", "build_rows", "convert_to_record", "fetch_top_report", "is_transient",
    "order_rows",
]  # fmt: skip

STATES = ("quarantined", "inactive", "suspended", "disabled", "active")  # faults first


class TopReport(NamedTuple):
    """A report of the daemon, and its moment (monotonic seconds, and seconds since 1970)."""

    moment: float
    at: float
    status: StatusAnswer
    hooks: Sequence[HookStatus]


class TopBoard(NamedTuple):
    """The figures to show: the last report, its rows in order, fires a second, and why no newer report came."""

    report: TopReport
    rows: Sequence[TopHook]
    fires_per_s: float | None = None
    fault: str | None = None


def build_rows(now: TopReport, before: TopReport | None) -> list[TopHook]:
    """Return the rows of a report; rates are those since the report before, if that was of the same daemon."""
    earlier: dict[str, HookStatus] = {}
    seconds = now.moment - before.moment if before is not None else 0.0
    if before is not None and before.status["pid"] == now.status["pid"]:
        earlier = {hook["name"]: hook for hook in before.hooks}
    return [build_top_row(hook, earlier.get(hook["name"]), seconds) for hook in now.hooks]


def build_top_row(hook: HookStatus, before: HookStatus | None, seconds: float) -> TopHook:
    timings = hook["timings"]
    rate = compute_rate(timings["count"], before["timings"]["count"] if before is not None else None, seconds)
    return {
        "name": hook["name"], "event": hook["event"], "state": hook["state"], "calls": timings["count"],
        "calls_per_s": rate, "p50_ms": timings["p50_ms"], "p99_ms": timings["p99_ms"],
        "failures": timings["failures"], "load": hook["load"],
    }  # fmt: skip


def compute_rate(now: int, before: int | None, seconds: float) -> float | None:
    """Return the rate a second; None if it is not known, such as after a restart, which counts from 0."""
    return None if before is None or seconds <= 0 or now < before else (now - before) / seconds


def build_board(
    now: TopReport, before: TopReport | None, sort: str = "state", *, is_reversed: bool = False
) -> TopBoard:
    """Return the figures of two reports."""
    is_same = before is not None and before.status["pid"] == now.status["pid"]
    fired = before.status["fired"] if is_same and before is not None else None
    fires = compute_rate(now.status["fired"], fired, now.moment - before.moment if before is not None else 0.0)
    return TopBoard(now, order_rows(build_rows(now, before), sort, is_reversed=is_reversed), fires)


def rank_by_state(row: TopHook) -> tuple[float, ...]:
    known = STATES.index(row["state"]) if row["state"] in STATES else 0
    return (known, -(row["calls_per_s"] or 0.0))


# From the largest to the smallest, except for names; of equal ones the order is that of firing.
SORTS: Mapping[str, Callable[[TopHook], Any]] = {
    "state": rank_by_state,
    "calls/s": lambda row: -(row["calls_per_s"] or 0.0),
    "p50": lambda row: -(row["p50_ms"] or 0.0),
    "p99": lambda row: -(row["p99_ms"] or 0.0),
    "failures": lambda row: -sum(row["failures"].values()),
    "memory": lambda row: -((row["load"] and row["load"]["memory_bytes"]) or 0),
    "queue": lambda row: -(row["load"]["waiting"] if row["load"] else 0),
    "hook": lambda row: row["name"],
}


def order_rows(rows: Sequence[TopHook], sort: str, *, is_reversed: bool = False) -> list[TopHook]:
    """Return rows in the order of one of SORTS, or the other way round."""
    ordered = sorted(rows, key=SORTS[sort])
    return ordered[::-1] if is_reversed else ordered


def fetch_top_report(link: AdminConnection, session: str | None) -> TopReport:
    """Return a report on all hooks.

    Raises:
        HooklatchError: the daemon gives none.
    """
    status, hooks = link.ask("status"), link.ask("hooks", session=session)["hooks"]
    return TopReport(time.monotonic(), time.time(), status, hooks)


# -- decisions ---------------------------------------------------------------------------------------------------------

KEPT = 2000  # decisions that are kept to be looked at


class DecisionRow(NamedTuple):
    """A decision as a record has it; or, with `ask`, an ask that waits for a person."""

    record: Mapping[str, Any]
    ask: Ask | None = None


class DecisionRows:
    """The newest decisions by their ids, the oldest first, and behind them the open asks.

    `left_out` is the number of those that the daemon did not send, or that are not kept any more.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.left_out = 0
        self._kept = kept
        self._decided: dict[str, DecisionRow] = {}
        self._open: dict[str, DecisionRow] = {}

    @property
    def waiting(self) -> int:
        """Return how many asks are open."""
        return len(self._open)

    @property
    def rows(self) -> dict[str, DecisionRow]:
        return {**self._decided, **self._open}

    def take(self, announcement: Mapping[str, Any]) -> None:
        """Take an announcement of the topics `decisions` or `asks`."""
        if "missed" in announcement:
            self.left_out += announcement["missed"] if announcement["topic"] == "decisions" else 0
        elif "decision" in announcement:
            self._add(convert_to_record(announcement))
        elif "opened" in announcement:
            ask: Ask = announcement["opened"]
            if ask["id"] not in self._decided:
                self._open[ask["id"]] = DecisionRow(make_ask_record(ask), ask)
        elif "closed" in announcement:
            self._close(announcement["closed"]["id"], announcement["closed"])

    def take_known(self, records: Sequence[Mapping[str, Any]], asks: Sequence[Ask]) -> None:
        """Take decisions of the record, and all open asks; any other ask has ended."""
        for record in records:
            self._add(record)
        for ended in {*self._open} - {ask["id"] for ask in asks}:
            self._close(ended, {"verdict": "closed", "reason": "this screen was not told how it ended"})
        for ask in asks:
            self.take({"topic": "asks", "opened": ask})

    def _close(self, name: str, end: Mapping[str, Any]) -> None:
        """Keep an ask that has ended, until the decision comes that tells more."""
        if (row := self._open.get(name)) is not None:
            self._add({**row.record, "kind": "decision", "verdict": end["verdict"], "reason": end["reason"]})

    def _add(self, record: Mapping[str, Any]) -> None:
        name = str(record.get("decision_id"))
        known = self._open.pop(name, None) or self._decided.pop(name, None)  # told again: its place is the newest's
        if known is not None and "subject" in known.record:  # of a large input an ask tells more than its decision
            record = {**record, "subject": known.record["subject"]}
        self._decided[name] = DecisionRow(record)
        while len(self._decided) > self._kept:
            del self._decided[next(iter(self._decided))]
            self.left_out += 1


def convert_to_record(announcement: Mapping[str, Any]) -> dict[str, Any]:
    """Return an announcement with the keys of the record, so that the same filters and lines apply."""
    if announcement["topic"] == "decisions":
        envelope = {"at": announcement.get("at"), "session": announcement.get("session_id")}
        facts = {key: announcement[key] for key in ("tool", "subject", "host") if announcement.get(key) is not None}
        return {"kind": "decision", **announcement.get("decision", {}), **facts, **envelope}
    if announcement["topic"] == "registry":
        return {"kind": "registry", **announcement}
    return dict(announcement)


def make_ask_record(ask: Ask) -> dict[str, Any]:
    fields = {key: ask[key] for key in ("at", "event", "tool", "subject", "host", "reason")}
    return {"kind": "ask", "decision_id": ask["id"], "session": ask["session_id"], "hook": ask["hook"], **fields}


# -- the thread --------------------------------------------------------------------------------------------------------

RETRY_INTERVAL = 1.0  # seconds between attempts to reach a daemon that is gone
TOPICS = ["decisions", "asks"]
PAST = 200  # decisions on record to begin with
BATCH = 200  # announcements that are handed over at once


class PollFailure(NamedTuple):
    """The error in place of a report; with `is_final` a further attempt does not help."""

    error: Exception
    is_final: bool


class KnownDecisions(NamedTuple):
    """The newest decisions on record, the oldest first, and all asks that are open now."""

    records: Sequence[Mapping[str, Any]]
    asks: Sequence[Ask]


FeedItem: TypeAlias = "TopReport | PollFailure | KnownDecisions | Mapping[str, Any]"


class LiveFeed(threading.Thread):
    """A thread that hands over a report each `interval` seconds, and announcements as they come.

    `hand_over` is called with each batch, and has `acknowledge` called once the batch is taken.
    """

    def __init__(
        self, arguments: argparse.Namespace, interval: float, hand_over: Callable[[list[FeedItem]], object]
    ) -> None:
        super().__init__(name="feed", daemon=True)  # at the end it may still be waiting for a silent daemon
        self._arguments = arguments
        self._interval = interval
        self._hand_over = hand_over
        self._taken = threading.Event()
        self._over = threading.Event()
        self._link: AdminConnection | None = None

    def acknowledge(self) -> None:
        """Have the thread go on: what it handed over last was taken."""
        self._taken.set()

    def end(self) -> None:
        """End the thread, also one that waits for the daemon; nothing is handed over from now on."""
        import socket  # `watch`, which has no such thread, loads this module too

        self._over.set()
        self._taken.set()
        if (link := self._link) is not None:
            with suppress(OSError):  # closed meanwhile
                link.stream.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        while not self._over.is_set():
            try:
                with connect_administrator(self._arguments) as self._link:
                    self._follow(self._link)
            except Exception as error:  # also a bug: the thread of the screen raises it, and the terminal is restored
                is_final = not is_transient(error)
                self._hand([PollFailure(error, is_final)])
                if is_final:
                    return
                self._over.wait(RETRY_INTERVAL)

    def _follow(self, link: AdminConnection) -> None:
        link.ask("subscribe", topics=TOPICS)  # first: what comes while the others are read is announced
        records = read_newest_decisions(link.ask("status")["record"]["folder"])
        batch: list[FeedItem] = [KnownDecisions(records, link.ask("asks")["asks"])]
        due = 0.0
        while not self._over.is_set():
            if (now := time.monotonic()) >= due:
                due = now + self._interval
                batch.append(fetch_top_report(link, self._arguments.session))
            elif link.has_line or select.select([link], [], [], due - now)[0]:
                batch.append(link.announcement())
                while link.has_line and len(batch) < BATCH:
                    batch.append(link.announcement())
                if any(is_gap_of_asks(item) for item in batch):
                    batch.append(KnownDecisions((), link.ask("asks")["asks"]))
            if batch:
                self._hand(batch)
                batch = []

    def _hand(self, batch: list[FeedItem]) -> None:
        self._taken.clear()
        if not self._over.is_set():
            self._hand_over(batch)
            self._taken.wait()


def read_newest_decisions(folder: str) -> list[dict[str, Any]]:
    """Return the newest decisions on record, the oldest first; none if the record cannot be read here."""
    from hooklatch.record.storage.reading import Filters, NoRecordError, read_newest

    try:
        return [*islice(read_newest(folder, Filters(kind="decision")), PAST)][::-1]
    except (NoRecordError, OSError):
        return []


def is_gap_of_asks(item: FeedItem) -> bool:
    return isinstance(item, Mapping) and item["topic"] == "asks" and "missed" in item


def is_transient(error: Exception) -> bool:
    """Return whether a further attempt may help: the daemon is gone, drains, or is overloaded."""
    if isinstance(error, RequestFailedError):
        return error.name in ("draining", "overload")
    return isinstance(error, DaemonUnreachableError)
