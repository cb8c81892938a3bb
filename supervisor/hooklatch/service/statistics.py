"""Counts and timings.  Knows numbers; decides nothing."""

from __future__ import annotations

import time
from collections import Counter, deque

import msgspec

from hooklatch.core.messages import Cause, Decision

__all__ = ["EventCount", "HookTimings", "Statistics"]

MAX_HOOKS = 4096  # whose timings are kept; sessions come and go with hooks of ever new names
SAMPLES = 512  # latest durations of a hook that its percentiles are taken from


class HookTimings(msgspec.Struct, frozen=True):
    """How one hook did: calls, milliseconds of the latest ones, failures by cause."""

    count: int
    p50_ms: float | None
    p99_ms: float | None
    failures: dict[str, int]


class EventCount(msgspec.Struct, frozen=True):
    """How often an event was fired, and when last, in seconds since 1970."""

    fired: int
    last_fired: float | None


class HookRecord:
    __slots__ = ("count", "durations", "failures")

    def __init__(self) -> None:
        self.count = 0
        self.durations: deque[float] = deque(maxlen=SAMPLES)
        self.failures: Counter[str] = Counter()


class Statistics:
    """What `status`, `hooks` and `events` show; kept since the daemon's start."""

    def __init__(self) -> None:
        self._hooks: dict[str, HookRecord] = {}
        self._fired: Counter[str] = Counter()
        self._last_fired: dict[str, float] = {}
        self.verdicts: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def fired(self, event: str) -> None:
        self._fired[event] += 1
        self._last_fired[event] = time.time()

    def called(self, hook: str, cause: Cause, duration_ms: float) -> None:
        record = self._hooks.get(hook)
        if record is None:
            record = self._hooks[hook] = HookRecord()
            if len(self._hooks) > MAX_HOOKS:
                del self._hooks[next(iter(self._hooks))]
        record.count += 1
        record.durations.append(duration_ms)
        if cause != "policy":
            record.failures[cause] += 1

    def decided(self, decision: Decision) -> None:
        self.verdicts[decision.verdict] += 1
        if decision.cause is not None and decision.cause != "policy":
            self.causes[decision.cause] += 1

    def timings(self, hook: str) -> HookTimings:
        record = self._hooks.get(hook)
        if record is None:
            return HookTimings(0, None, None, {})
        ordered = sorted(record.durations)
        return HookTimings(record.count, at(ordered, 0.5), at(ordered, 0.99), dict(record.failures))

    def event(self, name: str) -> EventCount:
        return EventCount(self._fired[name], self._last_fired.get(name))

    @property
    def total_fired(self) -> int:
        return self._fired.total()


def at(ordered: list[float], fraction: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(fraction * len(ordered)))], 3)
