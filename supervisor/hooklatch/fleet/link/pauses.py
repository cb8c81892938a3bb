"""How long to pause after a failure: longer each time up to a bound, and never the same for all hosts at once.

Knows numbers; waits for nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["Backoff"]

FIRST = 0.05  # seconds


class Backoff:
    """The pauses of one thing that is tried again and again; `chance` returns a number from 0 to 1."""

    def __init__(self, longest: float, first: float = FIRST, chance: Callable[[], float] = random.random) -> None:
        self._longest = longest
        self._first = min(first, longest)
        self._chance = chance
        self._bound = self._first

    def next(self) -> float:
        """Return the next pause in seconds: from half of a bound that doubles to all of it."""
        bound = self._bound
        self._bound = min(self._longest, bound * 2)
        return bound * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        """Begin anew: it has worked."""
        self._bound = self._first
