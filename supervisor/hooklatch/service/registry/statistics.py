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

    __slots__ = ("buckets", "count", "durations", "failures", "total_ms")

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        self.durations: deque[float] = deque(maxlen=SAMPLES)
        self.failures: Counter[str] = Counter()

    def add(self, cause: Cause | None, duration_ms: float) -> None:
        self.count += 1
        self.total_ms += duration_ms
        self.buckets[bisect_left(BOUNDS_MS, duration_ms)] += 1
        self.durations.append(duration_ms)
        if cause is not None and cause != "policy":
            self.failures[cause] += 1

    def timings(self) -> HookTimings:
        ordered = sorted(self.durations)
        return HookTimings(
            self.count,
            at(ordered, 0.5),
            at(ordered, 0.99),
            round(ordered[0], 3),
            round(sum(ordered) / len(ordered), 3),
            round(ordered[-1], 3),
            dict(self.failures),
        )


class Statistics:
    """What `status`, `hooks` and `events` show; counted since the daemon's start."""

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, str], Record] = {}  # by the session that registered it, and its name
        self.failures = Failures()
        self.event_records: dict[str, Record] = {}
        self._fired: Counter[str] = Counter()
        self._last_fired: dict[str, float] = {}
        self.decisions: Counter[tuple[str, str, str]] = Counter()  # by event, verdict and cause
        self.verdicts: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def fired(self, event: str) -> None:
        self._fired[event] += 1
        self._last_fired[event] = time.time()

    def called(self, hook: str, cause: Cause, duration_ms: float, *, owner: str = "") -> None:
        record = self._hooks.get((owner, hook))
        if record is None:
            record = self._hooks[owner, hook] = Record()
            if len(self._hooks) > MAX_HOOKS:
                del self._hooks[next(iter(self._hooks))]
        record.add(cause, duration_ms)

    def decided(self, decision: Decision) -> None:
        self.event_records.setdefault(decision.event, Record()).add(decision.cause, decision.duration_ms)
        self.decisions[decision.event, decision.verdict, decision.cause or "none"] += 1
        self.verdicts[decision.verdict] += 1
        if decision.cause is not None and decision.cause != "policy":
            self.causes[decision.cause] += 1

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
        return EventCount(self._fired[name], self._last_fired.get(name), timings)

    def events(self) -> dict[str, HookTimings]:
        """Return the timings of every event that was fired."""
        return {name: record.timings() for name, record in self.event_records.items()}

    @property
    def total_fired(self) -> int:
        return self._fired.total()


def at(ordered: list[float], fraction: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(fraction * len(ordered)))], 3)
