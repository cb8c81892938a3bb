"""Counts and timings of fires and calls.

The numbers of a fire are appended to lists, and added up when a figure is read, or together with many others. Adding
up many costs a seventh of adding each, and the fire enters no function for it in place of seven.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from hooklatch.core.hooks.registry import Hook
from hooklatch.core.messages import Cause
from hooklatch.service.registry.failure_log import Failures

if TYPE_CHECKING:
    from hooklatch.core.status_answers import HookTimings

__all__ = ["BOUNDS_MS", "EventCount", "Fires", "CallStatistics", "Statistics", "UNTIMED"]

MAX_HOOKS = 4096  # hooks whose timings are kept: sessions bring new hook names without end
BOUNDS_MS = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
SAMPLES = 512  # latest durations of a hook, for its percentiles
TOGETHER = 256  # fires that are added up at once

Fires = dict[str, tuple[int, float | None]]  # by event: how often it was fired, and when last
NEVER = (0, None)
UNTIMED: Final[HookTimings] = {
    "count": 0, "p50_ms": None, "p99_ms": None, "min_ms": None, "mean_ms": None, "max_ms": None, "failures": {},
}  # fmt: skip


class EventCount(msgspec.Struct, frozen=True):
    """The number of an event's fires, the time of the last (seconds since 1970), and the durations of its decisions."""

    fired: int
    last_fired: float | None
    timings: HookTimings


class CallStatistics:
    """The durations of one hook or event, in histogram buckets and the latest ones exactly, and failures by cause."""

    __slots__ = ("_durations", "answered", "buckets", "failures", "total_ms")

    def __init__(self) -> None:
        self.answered: object = None  # the version of a hook whose call was the last that did not fail
        self.total_ms = 0.0
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        self.failures: Counter[str] = Counter()
        self._durations: deque[float] = deque(maxlen=SAMPLES)

    def add(self, cause: Cause | None, duration_ms: float) -> None:
        self.total_ms += duration_ms
        self.buckets[bisect_left(BOUNDS_MS, duration_ms)] += 1
        self._durations.append(duration_ms)
        if cause is not None and cause != "policy":
            self.failures[cause] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def timings(self) -> HookTimings:
        ordered = sorted(self._durations)
        if not ordered:
            return UNTIMED
        return {
            "count": self.count, "p50_ms": find_percentile(ordered, 0.5), "p99_ms": find_percentile(ordered, 0.99),
            "min_ms": round(ordered[0], 3), "mean_ms": round(sum(ordered) / len(ordered), 3),
            "max_ms": round(ordered[-1], 3), "failures": dict(self.failures),
        }  # fmt: skip


UNCALLED: Final = CallStatistics()


class Statistics:
    """The figures of `status`, `hooks` and `events`, counted since the daemon's start.

    `fired`, `calls` and `decided` are not added up yet. The code that fires, calls or decides appends to them, and
    calls `add_up` for every `TOGETHER` fires.  A fire has the counts of its session, if it has one, and its time.
    """

    def __init__(self) -> None:
        self.fired: list[tuple[str, Fires | None, float]] = []
        self.calls: list[tuple[Hook, Cause, float]] = []
        self.decided: list[tuple[str, str, Cause | None, float]] = []
        self.abandoned = 0
        self.dropped: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()  # events of the fired ones to which no hook listened
        self._fires: Fires = {}
        self._hooks: dict[tuple[str, str], CallStatistics] = {}  # by the session that registered it, and its name
        self._failures = Failures()
        self._events: dict[str, CallStatistics] = {}
        self._decisions: dict[tuple[str, str, str], int] = {}

    def count_skipped(self, event: str, fires: Fires, count: int) -> None:
        """Count events that a client did not fire as fired, and as skipped."""
        self.add_up()
        count_fires(event, (self._fires, fires), count, time.time())
        self.skipped[event] += count

    def add_up(self) -> None:
        """Add up what has been appended since the last time."""
        fired, self.fired = self.fired, []
        for event, own, moment in fired:
            count_fires(event, (self._fires,) if own is None else (self._fires, own), 1, moment)
        calls, self.calls = self.calls, []
        failures = self._failures if self._failures.has_any else None
        for hook, cause, duration_ms in calls:
            statistics = self._hooks.get((hook.owner, hook.name))
            if statistics is None:
                statistics = self._hooks[hook.owner, hook.name] = CallStatistics()
                if len(self._hooks) > MAX_HOOKS:
                    del self._hooks[next(iter(self._hooks))]
            statistics.add(cause, duration_ms)
            if cause == "policy":
                statistics.answered = hook.target
                if failures is not None:
                    failures.note_success(hook)
        decided, self.decided = self.decided, []
        for event, verdict, reason, duration_ms in decided:
            statistics = self._events.get(event)
            if statistics is None:
                statistics = self._events[event] = CallStatistics()
            statistics.add(reason, duration_ms)
            key = event, verdict, reason or "none"
            self._decisions[key] = self._decisions.get(key, 0) + 1

    @property
    def failures(self) -> Failures:
        """Return the last failures of each hook."""
        self.add_up()
        return self._failures

    @property
    def _statistics(self) -> dict[tuple[str, str], CallStatistics]:
        self.add_up()
        return self._hooks

    @property
    def event_statistics(self) -> dict[str, CallStatistics]:
        """Return the durations of the decisions on each event."""
        self.add_up()
        return self._events

    @property
    def decisions(self) -> dict[tuple[str, str, str], int]:
        """Return how many decisions there were, by event, verdict and cause."""
        self.add_up()
        return self._decisions

    @property
    def verdicts(self) -> Counter[str]:
        """Return how many decisions had each verdict."""
        counts: Counter[str] = Counter()
        for (_, verdict, _), count in self.decisions.items():
            counts[verdict] += count
        return counts

    @property
    def causes(self) -> Counter[str]:
        """Return how many fires failed for each cause."""
        counts = Counter({"abandoned": self.abandoned} if self.abandoned else {})
        for (_, _, cause), count in self.decisions.items():
            if cause not in ("none", "policy"):
                counts[cause] += count
        return counts

    def hook_statistics(self, hook: str) -> CallStatistics | None:
        """Return the timings of a shared hook by its layer and id; None if it was never called."""
        return self._statistics.get(("", hook))

    def has_answered(self, hook: Hook) -> bool:
        """Return whether this version of a hook has ever answered a call."""
        return self._statistics.get((hook.owner, hook.name), UNCALLED).answered == hook.target

    def forget(self, owner: str) -> None:
        """Forget the numbers of a session's own hooks, once it has ended, since its id may be reused."""
        self._hooks = {key: statistics for key, statistics in self._statistics.items() if key[0] != owner}
        self.failures.forget(owner)

    def timings(self, hook: str, owner: str = "") -> HookTimings:
        return self._statistics.get((owner, hook), UNCALLED).timings()

    def event(self, name: str) -> EventCount:
        timings = self.event_statistics.get(name, UNCALLED).timings()
        return EventCount(*self._fires.get(name, NEVER), timings)

    def event_of(self, fires: Fires, name: str) -> EventCount:
        """Return how often a session has fired an event, and the time of the last fire."""
        self.add_up()
        count, last = fires.get(name, NEVER)
        return EventCount(count, last, {**UNTIMED, "count": count})

    def events(self) -> dict[str, HookTimings]:
        """Return the timings of every event that was fired."""
        return {name: statistics.timings() for name, statistics in self.event_statistics.items()}

    def count_all(self, fires: Fires | None = None) -> int:
        """Return how many events were fired, in all or by the session with these counts."""
        self.add_up()
        return sum(count for count, _ in (self._fires if fires is None else fires).values())


def count_fires(event: str, all_fires: Iterable[Fires], count: int, moment: float) -> None:
    for fires in all_fires:
        fires[event] = (fires.get(event, NEVER)[0] + count, moment)


def find_percentile(ordered: list[float], fraction: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(fraction * len(ordered)))], 3)
