"""The numbers of calls and failures of each hook, by interval, while a page is open.

The daemon counts since its start, so the number of an interval is the difference of two samples.
"""

from __future__ import annotations

from collections import deque

from hooklatch.core.answers import HooksAnswer
from hooklatch.dashboard.asker import QueryResult

__all__ = ["LENGTH", "Samples"]

LENGTH = 5.0  # seconds of an interval
MAX_INTERVALS = 60  # intervals
MAX_HOOKS = 2000  # hooks


class Samples:
    """The last intervals of each hook, oldest first, as (calls, failed of them)."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}
        self._intervals: dict[str, deque[tuple[int, int]]] = {}
        self._next = 0.0

    def is_due(self, at: float) -> bool:
        """Return whether the interval has ended at a moment (Unix time)."""
        return at >= self._next

    def take(self, at: float, answer: QueryResult[HooksAnswer]) -> None:
        """Take the counts of a moment (Unix time), unless an interval has not ended."""
        if answer.value is None or not self.is_due(at):
            return
        is_late = at > self._next + 2 * LENGTH  # no page was open: these calls belong to no single interval
        self._next = at + LENGTH
        counts = {
            hook["name"]: (hook["timings"]["count"], sum(hook["timings"]["failures"].values()))
            for hook in answer.value["hooks"][:MAX_HOOKS]
        }
        for name, (calls, failed) in counts.items():
            before = self._counts.get(name)
            intervals = self._intervals.setdefault(name, deque(maxlen=MAX_INTERVALS))
            if before is None or is_late or calls < before[0]:  # a daemon that was restarted counts from 0
                continue
            intervals.append((calls - before[0], max(failed - before[1], 0)))
        self._counts = counts
        self._intervals = {name: intervals for name, intervals in self._intervals.items() if name in counts}

    def of(self, hook: str) -> list[tuple[int, int]]:
        """Return the last intervals of a hook, oldest first."""
        return list(self._intervals.get(hook, ()))
