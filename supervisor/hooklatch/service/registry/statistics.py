"""Counts and timings.  Knows numbers; decides nothing."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, deque

import msgspec

from hooklatch.core.messages import Cause, Decision
from hooklatch.service.registry.failure_log import Failures

__all__ = ["BOUNDS_MS", "EventCount", "HookTimings", "Record", "Statistics"]

MAX_HOOKS = 4096  # hooks whose timings are kept; sessions come and go with ever new hook names
BOUNDS_MS = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
NEVER = (0, None)
SAMPLES = 512  # latest durations of a hook, for its percentiles


class HookTimings(msgspec.Struct, frozen=True):
    """How one hook, or all fires of one event, did: how many, failures by cause, milliseconds of the latest ones."""

    count: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    min_ms: float | None = None
    mean_ms: float | None = None
    max_ms: float | None = None
    failures: dict[str, int] = {}


class EventCount(msgspec.Struct, frozen=True):
    """How often an event was fired, when last (seconds since 1970), and how long its decisions took."""

    fired: int
    last_fired: float | None
    timings: HookTimings


class Record:
    """All durations, counted in histogram buckets; the latest ones exactly; failures by cause."""

    __slots__ = ("_buckets", "_durations", "_failures", "_new", "_total_ms")

    def __init__(self) -> None:
        self._new: list[tuple[Cause | None, float]] = []  # not counted yet: counting many at once costs a seventh
        self._total_ms = 0.0
        self._buckets = [0] * (len(BOUNDS_MS) + 1)
        self._durations: deque[float] = deque(maxlen=SAMPLES)
        self._failures: Counter[str] = Counter()

    def add(self, cause: Cause | None, duration_ms: float) -> None:
        self._new.append((cause, duration_ms))
        if len(self._new) >= SAMPLES:
            self._count()

    def _count(self) -> None:
        for cause, duration_ms in self._new:
            self._total_ms += duration_ms
            self._buckets[bisect_left(BOUNDS_MS, duration_ms)] += 1
            self._durations.append(duration_ms)
            if cause is not None and cause != "policy":
                self._failures[cause] += 1
        self._new.clear()

    @property
    def count(self) -> int:
        return sum(self.buckets)

    @property
    def buckets(self) -> list[int]:
        self._count()
        return self._buckets

    @property
    def total_ms(self) -> float:
        self._count()
        return self._total_ms

    @property
    def failures(self) -> Counter[str]:
        self._count()
        return self._failures

    def timings(self) -> HookTimings:
        count = self.count
        ordered = sorted(self._durations)
        return HookTimings(
            count,
            at(ordered, 0.5),
            at(ordered, 0.99),
            round(ordered[0], 3),
            round(sum(ordered) / len(ordered), 3),
            round(ordered[-1], 3),
            dict(self._failures),
        )


class Statistics:
    """What `status`, `hooks` and `events` show; counted since the daemon's start."""

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, str], Record] = {}  # by the session that registered it, and its name
        self.failures = Failures()
        self.event_records: dict[str, Record] = {}
        self._fired: dict[str, tuple[int, float | None]] = {}  # how often each event was, and when last
        self.decisions: dict[tuple[str, str, str], int] = {}  # by event, verdict and cause
        self.abandoned = 0
        self.dropped: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()  # of those that were fired: the events that no hook listened to

    def fired(self, event: str, count: int = 1) -> None:
        self._fired[event] = (self._fired.get(event, NEVER)[0] + count, time.time())

    def called(self, hook: str, cause: Cause, duration_ms: float, *, owner: str = "") -> None:
        record = self._hooks.get((owner, hook))
        if record is None:
            record = self._hooks[owner, hook] = Record()
            if len(self._hooks) > MAX_HOOKS:
                del self._hooks[next(iter(self._hooks))]
        record.add(cause, duration_ms)

    def decided(self, decision: Decision) -> None:
        record = self.event_records.get(decision.event)
        if record is None:
            record = self.event_records[decision.event] = Record()
        record.add(decision.cause, decision.duration_ms)
        key = decision.event, decision.verdict, decision.cause or "none"
        self.decisions[key] = self.decisions.get(key, 0) + 1

    @property
    def verdicts(self) -> Counter[str]:
        """Return how many decisions had each verdict."""
        found: Counter[str] = Counter()
        for (_, verdict, _), count in self.decisions.items():
            found[verdict] += count
        return found

    @property
    def causes(self) -> Counter[str]:
        """Return how many fires failed for each cause."""
        found = Counter({"abandoned": self.abandoned} if self.abandoned else {})
        for (_, _, cause), count in self.decisions.items():
            if cause not in ("none", "policy"):
                found[cause] += count
        return found

    def hook_record(self, hook: str) -> Record | None:
        """Return the timings of a shared hook by its layer and id; None if it was never called."""
        return self._hooks.get(("", hook))

    def forget(self, owner: str) -> None:
        """Forget what a session registered, once it has ended: its id may be reused."""
        self._hooks = {key: record for key, record in self._hooks.items() if key[0] != owner}
        self.failures.forget(owner)

    def timings(self, hook: str, owner: str = "") -> HookTimings:
        record = self._hooks.get((owner, hook))
        return record.timings() if record is not None else HookTimings()

    def event(self, name: str) -> EventCount:
        record = self.event_records.get(name)
        timings = record.timings() if record is not None else HookTimings()
        return EventCount(*self._fired.get(name, NEVER), timings)

    def events(self) -> dict[str, HookTimings]:
        """Return the timings of every event that was fired."""
        return {name: record.timings() for name, record in self.event_records.items()}

    @property
    def total_fired(self) -> int:
        return sum(count for count, _ in self._fired.values())


def at(ordered: list[float], fraction: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(fraction * len(ordered)))], 3)
