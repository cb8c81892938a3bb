"""Waiting for an engine: for an answer under a deadline of our own, and after failures, longer each time.

An answer that stays away means that the connection is gone.  If an engine comes back, its hosts must not all connect in
the same moment.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from hooklatch.core.text import format_duration
from hooklatch.fleet.engine.engine import UnreachableError

__all__ = ["TIMEOUT", "Backoff", "await_answer"]

T = TypeVar("T")
TIMEOUT = 20.0  # seconds; the engine's own limit is shorter, and this limit is for the case that it fails
FIRST = 0.05  # seconds


async def await_answer(answer: Awaitable[T], seconds: float = TIMEOUT) -> T:
    """Return an engine's answer, or raise UnreachableError: it did not come in time."""
    with trio.move_on_after(seconds):
        return await answer
    raise UnreachableError(f"the engine did not answer within {format_duration(seconds)}")


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
