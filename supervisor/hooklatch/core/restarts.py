"""When to restart, and when to stop restarting.  Knows failures and moments; knows no process and has no clock.

The words are OTP's: a *child spec* says how a part is restarted (permanent: always; transient: unless it ended well;
temporary: never), and an *intensity* of failures within a *period* is too much.  Where OTP would then end the
supervisor, and with it everything, we go on without the one part:

    a part of the daemon | happening                               | next
    ---------------------+-----------------------------------------+---------------------------------------------
    running              | failed, <= intensity within the period  | waiting, for the next of its waits
    running              | failed, > intensity within the period   | down, for the last of its waits
    waiting, down        | its moment comes                        | running
    running, was down    | ran for a period                        | running, the past forgotten
    running              | returned, and it is permanent           | as failed
    running              | returned, and it is not; or failed, and | ended
                         | it is temporary                         |
    running              | would be restarted, and is significant  | the supervisor ends: without it nothing is safe

    a hook's breaker     | happening                               | next
    ---------------------+-----------------------------------------+---------------------------------------------
    closed               | died, <= intensity within the period    | closed
    closed               | died, > intensity within the period     | open, until now + 1 s
    open                 | asked before `until`                    | refused
    open                 | asked after `until`                     | probing (this call goes through, others not)
    probing              | answered                                | closed, the past forgotten
    probing              | died                                    | open, for twice as long, at most 60 s
    any                  | reset                                   | closed
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Literal, TypeAlias

import msgspec

__all__ = [
    "INTENSITY",
    "PERIOD",
    "Breaker",
    "BreakerState",
    "Lifecycle",
    "Next",
    "Restart",
    "RestartPolicy",
    "Restarts",
    "State",
    "TokenBucket",
]

INTENSITY = 5  # failures; one more within the period is too much
PERIOD = 30.0  # seconds
FIRST_PROBE = 1.0  # seconds until a quarantined hook is probed
LAST_PROBE = 60.0  # seconds; the longest wait between two probes
NEARLY = 1e-6  # of a token; rounding may leave so little to wait for that the clock could not show it


class Restart(Enum):
    """Which ends of a part call for another start."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class RestartPolicy(msgspec.Struct, frozen=True):
    """How often a part may fail, and how long each failure within the period has its restart wait."""

    intensity: int = INTENSITY
    period: float = PERIOD
    waits: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 60.0)  # by failures; the last one repeats


class Restarts:
    """The failures of one part, and the moment before which it must not be started again."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._failures: deque[float] = deque()
        self.not_before = 0.0
        self.is_down = False

    def failed(self, now: float) -> None:
        """Take note of a failure."""
        policy = self._policy
        self._failures.append(now)
        prune(self._failures, now - policy.period)
        self.is_down = self.is_down or len(self._failures) > policy.intensity
        nth = len(policy.waits) if self.is_down else len(self._failures)
        self.not_before = now + policy.waits[min(nth, len(policy.waits)) - 1]

    def wait(self, now: float) -> float:
        """Return the seconds that a start at this moment has to wait."""
        return max(self.not_before - now, 0.0)

    def reset(self) -> None:
        """Forget the past: it works again."""
        self._failures.clear()
        self.is_down = False
        self.not_before = 0.0


State: TypeAlias = Literal["running", "waiting", "down", "ended"]
Next: TypeAlias = Literal["restart", "end", "escalate"]


class Lifecycle:
    """What one supervised part is at the moment, and what comes next."""

    def __init__(self, restart: Restart, policy: RestartPolicy, *, is_significant: bool) -> None:
        self._restart = restart
        self._period = policy.period
        self._is_significant = is_significant
        self._restarts = Restarts(policy)
        self._since = 0.0
        self.state: State = "running"
        self.starts = 0
        self.fault: str | None = None  # of its last failure

    def started(self, now: float) -> None:
        """Take note that it runs from now on."""
        self._since = now
        self.state = "running"
        self.starts += 1

    def ended(self, now: float, fault: str | None) -> Next:
        """Take note of its end, with a fault or (None) by returning; say what to do."""
        if fault is None and self._restart is Restart.PERMANENT:
            fault = "it returned, and should not have"
        if fault is not None:
            self._failed(now, fault)
        if fault is None or self._restart is Restart.TEMPORARY:
            self.state = "ended"
            return "end"
        if self._is_significant:
            self.state = "down"
            return "escalate"
        self.state = "down" if self._restarts.is_down else "waiting"
        return "restart"

    def _failed(self, now: float, fault: str) -> None:
        if now - self._since >= self._period:
            self._restarts.reset()
        self._restarts.failed(now)
        self.fault = fault

    @property
    def not_before(self) -> float:
        """The moment of its next start."""
        return self._restarts.not_before

    def explain(self, now: float) -> str | None:
        """Return what is wrong with it, or was within the period; None where all is well."""
        if self.fault is None:
            return None
        match self.state:
            case "waiting":
                return f"{self.fault}; it is started again in {self._restarts.wait(now):.1f} s"
            case "down":
                return f"{self.fault}; it failed too often, and is tried again in {self._restarts.wait(now):.0f} s"
            case "running" if now - self._since < self._period:
                return f"{self.fault}; it was started again"
            case _:
                return None


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
        """Return whether a call may start now; the one that ends a wait is the probe."""
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
        prune(self._deaths, now - self._period)
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
        """Return why the hook is quarantined, and when it is probed."""
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


def prune(moments: deque[float], until: float) -> None:
    """Forget what was no later than a moment."""
    while moments and moments[0] <= until:
        moments.popleft()
