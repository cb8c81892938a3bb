"""The tasks that report: this host's state to the engine, and the number of shipped entries to the daemon.

The state has the decisions of gates since the active bundles took effect, by which a rollout may be stopped.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

import msgspec
import trio

from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, StoredReport
from hooklatch.fleet.enrolment import HostIdentity
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, DaemonSocket
from hooklatch.fleet.link.known import NAME, REPORT, Backoff, LinkState, await_answer
from hooklatch.fleet.manifests import DEFAULT_POLICY, FleetError
from hooklatch.fleet.reports import LEFT, EngineFault, GateCounts, HostReport, encode_report, read_report
from hooklatch.record.storage.lines import read_entries_of_kind
from hooklatch.record.storage.seeking import RecordChangedError, RecordCursor, find_newest_link
from hooklatch.record.storage.segments import list_segments
from hooklatch.threads import in_thread

__all__ = ["EVERY", "Gauge", "HostReporter", "ShippingNotifier", "GateCounter", "find_leaving"]

logger = logging.getLogger("hooklatch.link")
EVERY = 60.0  # seconds between two reports of a host where nothing happens, which each report says
EARLY, LATE = 0.75, 1.25  # of that: a report goes with a wait's end from then on, and without one at the latest then
BUSY = 10.0  # seconds between two looks whether the record has grown since the last report
SOON = 0.5  # seconds, at least, between two reports of a host with many changes
NOTIFY = 1.0  # seconds, at least, between two messages to the daemon
AWAY = 3  # times NOTIFY that an engine must be away until the daemon is told: one that restarts is back by then
NOTHING = -1  # no number was sent to this daemon yet
MAX_COUNTED = 32 * 2**20  # bytes of the record that are counted for one report
LONGEST = 30.0  # seconds until an engine that refuses reports is tried again


class Gauge:
    """The measures of a record for the reports: its first and last entry and its gates.  Blocks on the disk."""

    def __init__(self, folder: str, state: LinkState) -> None:
        self._folder = folder
        self._state = state
        self._bundles = frozenset[str]()
        self._counter: GateCounter | None = None
        self._cursor = RecordCursor(folder)

    def measure(self) -> None:
        """Bring the measures up to date; those of a record that cannot be read stay as they were."""
        try:
            self._state.newest = find_newest_link(self._folder) or self._state.newest
            segments = list_segments(self._folder)
            self._state.oldest = segments[0].first if segments else 0
            self._count()
        except RecordChangedError:
            self._counter = None  # the counts were of another record
        except OSError:
            return  # shipping reads the same files, and reports it

    def _count(self) -> None:
        answer = self._state.answer
        policies = answer.policies.values() if answer is not None else ()
        bundles = frozenset(of.applied.bundle for of in policies if of.applied is not None)
        if self._counter is None or bundles != self._bundles:
            self._begin_count(bundles)
        assert self._counter is not None
        byte_count = 0
        while byte_count < MAX_COUNTED and (lines := self._cursor.read()):
            self._counter.take(lines)
            byte_count += sum(map(len, lines))
        self._state.gates = self._counter.gates

    def _begin_count(self, bundles: frozenset[str]) -> None:
        since = find_effective_seq(self._folder, bundles) if bundles else None
        if since is None:  # the record does not say so, or retention has removed that entry
            newest = find_newest_link(self._folder)
            since = newest.seq + 1 if newest is not None else 1
        self._bundles, self._counter = bundles, GateCounter(since)
        self._cursor.seek(since - 1)


def find_effective_seq(folder: str, bundles: Collection[str]) -> int | None:
    """Return the number of the entry with which the last of these bundles took effect, None if there is none.

    Of several entries in a row of a policy's bundle it is the first: a version with the active bundle changes nothing.
    """
    began: dict[object, int] = {}  # by policy
    changed = set[object]()  # policies whose earlier entries are of other bundles
    for record in read_entries_of_kind(list_segments(folder), "fleet", since=0):
        if record.get("action") != "applied" or (policy := record.get("policy", DEFAULT_POLICY)) in changed:
            continue
        if record.get("bundle") in bundles:
            began[policy] = int(record["seq"])
        else:
            changed.add(policy)
    return max(began.values(), default=None)


def find_leaving(folder: str) -> int | None:
    """Return the number of the entry with which the daemon left its fleet; None if it has not, or cannot be read."""
    with suppress(OSError):
        for record in read_entries_of_kind(list_segments(folder), "fleet", since=0):
            if record.get("action") == LEFT:
                return int(record["seq"])
            if record.get("action") != "link refused":  # a link may try once more
                break
    return None


class HostReporter:
    """The reporter of one host; it outlives connections to the engine.  `reported` is what the engine took last."""

    def __init__(
        self, host: str, gauge: Gauge, state: LinkState, *, identity: HostIdentity | None, every: float,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self.reported: HostReport | None = None
        self._identity = identity
        self._sent = b""
        self._seen_at = 0  # when the engine took a report of this process that was seen there again
        self._host = host
        self._gauge = gauge
        self._state = state
        self._every = every
        self._clock = now
        self._pauses = Backoff(LONGEST, first=SOON)
        self._change = trio.Event()
        self._reporting = trio.Lock()
        self._reported_at = -math.inf
        state.on_change = self._wake

    def _wake(self) -> None:
        self._change.set()

    async def run(self, engine: Engine) -> None:
        """Report soon after a change, until the connection ends."""
        while True:
            self._change = trio.Event()
            if not await self._report(engine):
                await trio.sleep(self._pauses.next())
                continue
            await trio.sleep(SOON)
            while not self._change.is_set() and self._age < LATE * self._every:
                with trio.move_on_after(min(BUSY, self._every)):
                    await self._change.wait()
                if await self._measure() != self.reported:
                    break

    async def report_when_due(self, engine: Engine) -> None:
        """Report if the last report is old: no connection needs to be opened for it when no question waits."""
        if self._age >= EARLY * self._every:
            await self._report(engine)

    @property
    def _age(self) -> float:
        return self._clock() - self._reported_at

    async def _measure(self) -> HostReport:
        """Return the present report, but for the times in it."""
        async with self._reporting:
            await in_thread(self._gauge.measure)
        return msgspec.structs.replace(self._state.make_report(0.0, 0.0), stale_s=None, every_s=self._every)

    async def _report(self, engine: Engine) -> bool:
        """Report; return whether the engine took it."""
        report, now = await self._measure(), self._clock()
        timed = self._state.make_report(now, time.time())
        timed = msgspec.structs.replace(report, stale_s=timed.stale_s, clock=timed.clock)
        data = self._identity.sign_report(timed) if self._identity is not None else encode_report(timed)
        try:
            await self._look_for_others(engine)
            await await_answer(engine.report(self._host, data))
        except EngineRefusedError as error:
            self._state.set_fault(REPORT, f"the engine does not take this host's report: {error}")
            return False
        self.reported, self._reported_at, self._sent = report, now, data
        self._pauses.reset()
        self._state.set_fault(REPORT, None)
        return True

    async def _look_for_others(self, engine: Engine) -> None:
        """Find that another process reports as this host: a copy of this machine, or a thief of its password."""
        if not self._sent or (stored := await await_answer(engine.newest_report(self._host))) is None:
            return
        if stored.data == self._sent:
            self._seen_at = stored.at
        # An older one is of an engine that was restored from a copy.
        elif self._identity is not None and stored.at > self._seen_at:
            text = self._describe_other(stored, self._identity)
            if text is not None:
                self._state.add_finding(text)
                self._state.set_fault(NAME, text, "shared")

    def _describe_other(self, stored: StoredReport, identity: HostIdentity) -> str | None:
        try:
            other = read_report(stored.data, self._host)
        except FleetError as error:
            return f"another process reports as this host: {error}"
        if other.instance == identity.instance:  # of this process: a reply was lost
            return None
        whose = "two machines have this host's name, or another process has its password for the engine"
        if other.key == identity.key:
            whose = "two machines have this host's name and its key: one is a copy of the other"
        return f"{whose} (instances {identity.instance} and {other.instance[:16] or 'unknown'})"


class ShippingNotifier:
    """The notifier of the daemon: what was shipped, so that retention may remove it, and what the engine lacks."""

    def __init__(self, daemon: DaemonSocket, state: LinkState) -> None:
        self._daemon = daemon
        self._state = state

    async def run(self) -> None:
        """Send the number and the fault when they change, and to each new daemon, until cancelled."""
        reported, away_since, refused_until = NOTHING, 0, 0.0
        while True:
            await trio.sleep(NOTIFY)
            fault = self._state.engine_fault
            away_since = away_since + 1 if fault is not None and fault.kind == "away" else AWAY
            if away_since >= AWAY and trio.current_time() >= refused_until:
                try:
                    await self._report_engine(fault)
                except DaemonRefusedError:  # the task of the policy reports it; a daemon records each link it refuses
                    refused_until = trio.current_time() + LONGEST
            if not self._daemon.is_connected():
                reported = NOTHING
            elif self._state.epoch and self._state.shipped != reported:
                reported = self._state.shipped
                try:
                    await self._daemon.report_shipped(reported)
                except (DaemonAbsentError, DaemonRefusedError) as error:
                    logger.warning("the daemon was not told what is shipped: %s", error, extra={"seq": reported})

    async def _report_engine(self, fault: EngineFault | None) -> None:
        answer = self._state.answer if self._daemon.is_connected() else None
        believed = answer.engine if answer is not None else None
        if fault != believed:
            with suppress(DaemonAbsentError):
                self._state.update(await self._daemon.report_engine(fault), trio.current_time())


NEEDLE = b'"kind":"decision"'
MAX_NAME = 40  # characters of a cause
MAX_CAUSES = 32  # in a report; there are fewer, but a newer daemon may have more


class Observation(msgspec.Struct, frozen=True):
    """The fields of a call's outcome that say whether a hook which only observes would have denied or asked."""

    observed: bool = False
    verdict: str | None = None
    cause: str | None = None

    @property
    def is_denial(self) -> bool:
        """Return whether it would have: by its answer, or because it has none."""
        return self.observed and (self.verdict in ("deny", "halt") or self.cause not in (None, "policy"))

    @property
    def is_question(self) -> bool:
        """Return whether it would have asked."""
        return self.observed and self.verdict == "ask"


class DecisionLine(msgspec.Struct, frozen=True):
    """The fields of an entry that the counter reads."""

    seq: int
    kind: str
    gate: bool = False
    verdict: str | None = None
    cause: str | None = None
    outcomes: list[Observation] = []


LINES = msgspec.json.Decoder(DecisionLine)


class GateCounter:
    """A counter that begins with record `since`."""

    def __init__(self, since: int) -> None:
        self.since = since
        self._decided = 0
        self._denied: dict[str, int] = {}
        self._would_deny = self._would_ask = 0

    def take(self, lines: Iterable[bytes]) -> None:
        """Count the decisions of gates among the next lines of the record."""
        for line in lines:
            if NEEDLE not in line:  # a search is much cheaper than decoding each line
                continue
            try:
                decision = LINES.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if decision.kind == "decision" and decision.gate and decision.seq >= self.since:
                self._decided += 1
                if decision.verdict == "deny":
                    self._count((decision.cause or "unknown")[:MAX_NAME])
                elif any(outcome.is_denial for outcome in decision.outcomes):
                    self._would_deny += 1
                elif decision.verdict != "ask":
                    self._would_ask += any(outcome.is_question for outcome in decision.outcomes)

    def _count(self, cause: str) -> None:
        if cause not in self._denied and len(self._denied) >= MAX_CAUSES:
            cause = "other"
        self._denied[cause] = self._denied.get(cause, 0) + 1

    @property
    def gates(self) -> GateCounts:
        return GateCounts(self.since, self._decided, dict(self._denied), self._would_deny, self._would_ask)
