"""The times that a client waits for a silent daemon, and before it tries again.  The time is passed in.

no request waits      no ping, no deadline: a quiet daemon is a healthy one
a request waits       each `interval` without a byte: "ping", then the next interval begins
`misses` in a row     "dead"

Intervals are counted, not summed: a client that was itself suspended for a minute has missed one interval, not sixty.
"""

from __future__ import annotations

from math import inf
from typing import Final, Literal

import msgspec

__all__ = ["Liveness", "Heartbeat", "compute_backoff", "compute_crowd_delay"]

FIRST_RETRY: Final = 0.05  # seconds
LAST_RETRY: Final = 5.0
JITTER: Final = 0.5  # a delay is up to this fraction shorter, so that a thousand clients do not return in one instant


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """The timeouts of a client, in seconds."""

    interval: float = 1.0
    misses: int = 5
    connect: float = 2.0  # for retries while the daemon's backlog is full


class Heartbeat:
    """The liveness of a connection's peer. `due` is the time of the next check, infinite if no request waits."""

    def __init__(self, liveness: Liveness) -> None:
        self.due = inf
        self._liveness = liveness
        self._missed = 0
        self._waiting = 0

    def begin(self, now: float) -> None:
        """Note that one more request waits for its answer, or a line to be taken."""
        self._waiting += 1
        if self._waiting == 1:
            self.heard(now)

    def finish(self) -> None:
        """Note that one of these waits no longer."""
        self._waiting -= 1
        if not self._waiting:
            self.due = inf

    def heard(self, now: float) -> None:
        """Note a sign of life: bytes that arrived, or room that the peer made in a full buffer."""
        self._missed = 0
        self.due = now + self._liveness.interval if self._waiting else inf

    def check(self, now: float) -> Literal["fine", "ping", "dead"]:
        """Return what to do at `now`."""
        if now < self.due:
            return "fine"
        self._missed += 1
        self.due = now + self._liveness.interval
        return "dead" if self._missed >= self._liveness.misses else "ping"


def compute_backoff(attempt: int, chance: float) -> float:
    """Return the seconds before the next attempt to connect; `chance` is a random number from 0 to 1."""
    longest = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(attempt, 16))
    return longest * (1 - JITTER * chance)


def compute_crowd_delay(attempt: int) -> float:
    """Return the seconds before a connect that met a full backlog is tried again."""
    return min(0.05, 0.001 * 2.0 ** min(attempt, 6))
