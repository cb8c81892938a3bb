"""When to stop restarting.  Knows deaths, moments and probes; knows no process and has no clock.

The words are OTP's: an *intensity* of deaths within a *period* is too much.  Where OTP would then end the supervisor,
we quarantine the one hook, and let it prove itself again:

    state       | happening            | next
    ------------+----------------------+----------------------------------------------------
    closed      | died, <= intensity   | closed
    closed      | died, > intensity    | open, until now + 1 s
    open        | asked before `until` | refused
    open        | asked after `until`  | probing (this one call goes through, others are refused)
    probing     | answered             | closed, the past forgotten
    probing     | died                 | open, for twice as long as before, at most 60 s
    any         | reset                | closed
"""

from __future__ import annotations

from collections import deque
from enum import Enum

__all__ = ["INTENSITY", "PERIOD", "Breaker", "BreakerState", "TokenBucket"]

INTENSITY = 5  # deaths; one more within the period quarantines
PERIOD = 30.0  # seconds
FIRST_PROBE = 1.0  # seconds until a quarantined hook is probed
LAST_PROBE = 60.0  # seconds; the longest wait between two probes
NEARLY = 1e-6  # of a token; rounding may leave so little to wait for that the clock could not show it


class BreakerState(Enum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Decides whether one hook may be called, by how often its workers died of it."""

    def __init__(self, *, intensity: int = INTENSITY, period: float = PERIOD) -> None:
        self._intensity = intensity
        self._period = period
        self._deaths: deque[float] = deque()
        self._wait = FIRST_PROBE
        self.until = 0.0
        self.state = BreakerState.CLOSED
        self.last_death = ""

    @property
    def is_quarantined(self) -> bool:
        return self.state is not BreakerState.CLOSED

    def permits(self, now: float) -> bool:
        """Say whether a call may start now; the one that ends a wait is the probe."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.OPEN and now >= self.until:
            self.state = BreakerState.PROBING
            return True
        return False

    def answered(self) -> None:
        """Take note of a call that ended without a death."""
        if self.state is BreakerState.PROBING:
            self.reset()

    def died(self, now: float, how: str = "") -> bool:
        """Take note of a death, and how it came; say whether it quarantined the hook just now."""
        self.last_death = how
        if self.state is BreakerState.PROBING:
            self._wait = min(self._wait * 2, LAST_PROBE)
            return self._open(now)
        self._deaths.append(now)
        while self._deaths and self._deaths[0] <= now - self._period:
            self._deaths.popleft()
        if self.state is BreakerState.CLOSED and len(self._deaths) > self._intensity:
            self._wait = FIRST_PROBE
            return self._open(now)
        return False

    def unresolved(self, now: float) -> None:
        """Take note of a probe that ended neither way (its client left, or no worker was free): probe again soon."""
        if self.state is BreakerState.PROBING:
            self.state = BreakerState.OPEN
            self.until = now

    def explain(self, now: float) -> str:
        """Say why the hook is quarantined, and when it is probed."""
        again = max(self.until - now, 0.0)
        probe = f"it is probed in {again:.0f} s" if self.state is BreakerState.OPEN else "it is being probed"
        how = f", the last time: {self.last_death}" if self.last_death else ""
        return f"its worker died more than {self._intensity} times in {self._period:.0f} s{how}; {probe}"

    def reset(self) -> None:
        self._deaths.clear()
        self._wait = FIRST_PROBE
        self.state = BreakerState.CLOSED

    def _open(self, now: float) -> bool:
        self.state = BreakerState.OPEN
        self.until = now + self._wait
        return True


class TokenBucket:
    """Spreads forks: `burst` at once, then `rate` a second."""

    def __init__(self, *, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._last: float | None = None

    def take(self, now: float) -> float:
        """Take a token and give 0, or give the seconds until there is one."""
        if self._last is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
        self._last = now
        if self._tokens >= 1.0 - NEARLY:
            self._tokens = max(self._tokens - 1.0, 0.0)
            return 0.0
        return (1.0 - self._tokens) / self._rate
