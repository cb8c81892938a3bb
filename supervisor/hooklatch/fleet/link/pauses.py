"""The pauses after failures: longer each time up to a bound, and never the same for all hosts at once.

If an engine comes back, its hosts must not all connect in the same moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["Backoff"]

FIRST = 0.05  # seconds


class Backoff:
    """The pauses of one task that is retried, up to `maximum` seconds; `chance` returns a number from 0 to 1."""

    def __init__(self, maximum: float, first: float = FIRST, chance: Callable[[], float] = random.random) -> None:
        self._maximum = maximum
        self._first = min(first, maximum)
        self._chance = chance
        self._bound = self._first

    def next(self) -> float:
        """Return the next pause in seconds: from half of a bound that doubles to all of it."""
        bound = self._bound
        self._bound = min(self._maximum, bound * 2)
        return bound * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        """Begin anew with the first pause, after a success."""
        self._bound = self._first
