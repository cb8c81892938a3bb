"""The rules for restarts: when to start a child again, and when to give up.  Knows failures and times; has no clock.

Terms are OTP's: a *child spec* says how a child is restarted (permanent: always; transient: unless it ended normally;
temporary: never), and more than an *intensity* of failures within a *period* is too much.  Where OTP would then end
the supervisor, and with it everything, the daemon continues without that child:

    a child              | event                                   | next
    ---------------------+-----------------------------------------+---------------------------------------------
    running              | failed, <= intensity within the period  | waiting, for its next backoff
    running              | failed, > intensity within the period   | down, for its longest backoff
    waiting, down        | the backoff is over                     | running
    running, was down    | ran for a period                        | running, failures forgotten
    running              | returned, and it is permanent           | as if it failed
    running              | returned, and it is not; or failed, and | ended
                         | it is temporary                         |
    running              | would be restarted, and is significant  | the supervisor ends: without it nothing is safe

    a hook's breaker     | event                                   | next
    ---------------------+-----------------------------------------+---------------------------------------------
    closed               | died, <= intensity within the period    | closed
    closed               | died, > intensity within the period     | open, until now + 1 s
    open                 | call before `until`                     | refused
    open                 | call after `until`                      | probing (this call passes, others are refused)
    probing              | answered                                | closed, deaths forgotten
    probing              | died                                    | open, for twice as long, at most 60 s
    any                  | reset                                   | closed
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Literal, TypeAlias

import msgspec

__all__ = [
    "INTENSITY", "PERIOD", "Breaker", "BreakerState", "ChildLifecycle", "LifecycleState", "NextStep", "Restart",
    "RestartPolicy", "Restarts", "TokenBucket",
]  # fmt: skip

INTENSITY = 5  # failures allowed within the period
PERIOD = 30.0  # seconds
FIRST_PROBE = 1.0  # seconds until the first probe of a quarantined hook
LAST_PROBE = 60.0  # seconds; the longest interval between two probes
NEARLY = 1e-6  # tokens; after rounding, the remaining wait may be too short for the clock to show


class Restart(Enum):
    """The rule by which a child that ended is started again."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class RestartPolicy(msgspec.Struct, frozen=True):
    """The number of failures that a child may have, and the backoff after each."""

    intensity: int = INTENSITY
    period: float = PERIOD
    waits: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 60.0)  # seconds, by number of failures; the last one repeats


class Restarts(msgspec.Struct, eq=False):
    """The recent failures of one child, and the earliest time of its next start."""

    policy: RestartPolicy
    failures: deque[float] = msgspec.field(default_factory=deque[float])
    not_before: float = 0.0
    is_down: bool = False

    def record_failure(self, now: float) -> None:
        """Record a failure."""
        policy = self.policy
        self.failures.append(now)
        prune_moments(self.failures, now - policy.period)
        self.is_down = self.is_down or len(self.failures) > policy.intensity
        nth = len(policy.waits) if self.is_down else len(self.failures)
        self.not_before = now + policy.waits[min(nth, len(policy.waits)) - 1]

    def wait(self, now: float) -> float:
        """Return the remaining backoff in seconds."""
        return max(self.not_before - now, 0.0)

    def reset(self) -> None:
        """Forget all failures, since the child works again."""
        self.failures.clear()
        self.is_down = False
        self.not_before = 0.0


LifecycleState: TypeAlias = Literal["running", "waiting", "down", "ended"]
NextStep: TypeAlias = Literal["restart", "end", "escalate"]


class ChildLifecycle(msgspec.Struct, eq=False):
    """The state machine of one supervised child, which begins with its first start, at `since`."""

    restart: Restart
    restarts: Restarts
    since: float
    is_significant: bool = False
    state: LifecycleState = "running"
    starts: int = 1
    fault: str | None = None  # text of the last failure

    def record_start(self, now: float) -> None:
        """Record another start."""
        self.since = now
        self.state = "running"
        self.starts += 1

    def record_end(self, now: float, fault: str | None) -> NextStep:
        """Record the end, by a fault or (None) by returning, and return the next step."""
        if fault is None and self.restart is Restart.PERMANENT:
            fault = "it returned, and should not have"
        if fault is not None:
            self._record_failure(now, fault)
        if fault is None or self.restart is Restart.TEMPORARY:
            self.state = "ended"
            return "end"
        if self.is_significant:
            self.state = "down"
            return "escalate"
        self.state = "down" if self.restarts.is_down else "waiting"
        return "restart"

    def _record_failure(self, now: float, fault: str) -> None:
        if now - self.since >= self.restarts.policy.period:
            self.restarts.reset()
        self.restarts.record_failure(now)
        self.fault = fault

    @property
    def not_before(self) -> float:
        """The earliest time of the next start."""
        return self.restarts.not_before

    def explain(self, now: float) -> str | None:
        """Return the last failure within the period and what happens next; None if there is none."""
        if self.fault is None:
            return None
        match self.state:
            case "waiting":
                return f"{self.fault}; it is started again in {self.restarts.wait(now):.1f} s"
            case "down":
                return f"{self.fault}; it failed too often, and is tried again in {self.restarts.wait(now):.0f} s"
            case "running" if now - self.since < self.restarts.policy.period:
                return f"{self.fault}; it was started again"
            case _:
                return None


class BreakerState(Enum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """The rule whether a hook may be called, by the deaths of its workers."""

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
        """Return whether a call may start now; the first call after the quarantine is the probe."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.OPEN and now >= self.until:
            self.state = BreakerState.PROBING
            return True
        return False

    def record_answer(self) -> bool:
        """Record a call that ended without killing its worker; return whether that ended the quarantine."""
        is_proven = self.state is BreakerState.PROBING
        if is_proven:
            self.reset()
        return is_proven

    def record_death(self, now: float, how: str = "") -> bool:
        """Record a death and its cause, and return whether this death quarantined the hook."""
        self.last_death = how
        if self.state is BreakerState.PROBING:
            self._wait = min(self._wait * 2, LAST_PROBE)
            return self._open(now)
        self._deaths.append(now)
        prune_moments(self._deaths, now - self._period)
        if self.state is BreakerState.CLOSED and len(self._deaths) > self._intensity:
            self._wait = FIRST_PROBE
            return self._open(now)
        return False

    def end_probe(self, now: float) -> None:
        """Record a probe without a result (its client left, or no worker was free), so that the next call probes."""
        if self.state is BreakerState.PROBING:
            self.state = BreakerState.OPEN
            self.until = now

    def explain(self, now: float) -> str:
        """Return why the hook is quarantined, and when it is probed next."""
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


class TokenBucket(msgspec.Struct, kw_only=True, eq=False):
    """A rate limiter for forks: `burst` at once, then `rate` per second.  `used` are the tokens of the burst."""

    rate: float
    burst: int
    used: float = 0.0
    last: float | None = None

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        if self.last is not None:
            self.used = max(0.0, self.used - (now - self.last) * self.rate)
        self.last = now
        left = self.burst - self.used
        if left >= 1.0 - NEARLY:
            self.used = min(self.used + 1.0, self.burst)
            return 0.0
        return (1.0 - left) / self.rate


def prune_moments(moments: deque[float], until: float) -> None:
    """Drop the moments up to and including `until`."""
    while moments and moments[0] <= until:
        moments.popleft()
