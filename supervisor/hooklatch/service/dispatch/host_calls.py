"""The tool calls that a host reports by two events: the decision that counts for both, and ids where it gives none.

A decision counts for both events only if it lets the call continue unchanged: once, for the other event, for a short
time, and while no hook has changed.  Anything else is judged again, so that no call passes that was not judged with
this very content.

A call's begin and end have its session, tool and input in common.  Calls that are equal in all of that are numbered in
the order in which they began, and are assumed to end in the same order, since no event says which of them ended first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hooklatch.core.messages import FireDecision

__all__ = ["DuplicateEvents", "CallNumbers", "FirstRefusals"]

MAX_KEPT = 1024
LIFETIME = 5.0  # seconds; a host sends the second event right after the answer to the first
MAX_NUMBERED = 4096  # equal calls that are remembered; an older one begins at 1 again


class CachedDecision(NamedTuple):
    """A decision, when it was made, and the epoch of the hooks that made it."""

    at: float
    epoch: int
    decision: FireDecision


class FirstRefusals:
    """The sessions that were told whose rule it is that refused a call: each hears it once."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}

    def take(self, host: str, session_id: str | None) -> bool:
        """Return whether this is the first refusal of a session; False where the session is not known."""
        if session_id is None or (host, session_id) in self._told:
            return False
        self._told[host, session_id] = None
        if len(self._told) > MAX_KEPT:
            del self._told[next(iter(self._told))]
        return True


class DuplicateEvents:
    """The decisions on calls that another event may report once more."""

    def __init__(self, clock: Callable[[], float], epoch: Callable[[], int]) -> None:
        self._clock = clock
        self._epoch = epoch
        self._cached: dict[tuple[str, str], list[CachedDecision]] = {}  # by the call and the event that reported it

    def keep(self, call: str, event: str, decision: FireDecision) -> None:
        """Keep a decision for the other event of this call, if it may count for both."""
        if not call or decision.verdict not in ("pass", "allow") or decision.patch:
            return
        earlier = self._cached.pop((call, event), [])
        if len(self._cached) >= MAX_KEPT:
            del self._cached[next(iter(self._cached))]
        # A list, since equal calls at the same time have one key: each decision spares one event.
        self._cached[call, event] = [*earlier, CachedDecision(self._clock(), self._epoch(), decision)]

    def take(self, call: str, event: str) -> FireDecision | None:
        """Return and remove the decision that was made when another event reported this call."""
        if not call:
            return None
        for key, decisions in self._cached.items():
            if key[0] != call or key[1] == event:
                continue
            del self._cached[key]
            now, epoch = self._clock(), self._epoch()
            fresh = [cached for cached in decisions if now - cached.at <= LIFETIME and cached.epoch == epoch]
            if fresh[1:]:
                self._cached[key] = fresh[1:]
            return fresh[0].decision if fresh else None
        return None


class CallNumbers:
    """The counts of begun and ended calls, by their key."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}  # begun, ended

    def begin_call(self, key: str) -> str:
        """Return the id of a call that begins."""
        begun, ended = self._counts.pop(key, (0, 0))
        self._keep(key, begun + 1, ended)
        return make_call_id(key, begun + 1)

    def find_open_call(self, key: str) -> str:
        """Return the id of the call that began last."""
        return make_call_id(key, self._counts.get(key, (1, 0))[0])

    def end_call(self, key: str) -> str:
        """Return the id of the oldest call that has not ended, or that of the last call if all have."""
        begun, ended = self._counts.pop(key, (1, 0))
        ended = min(ended + 1, begun)
        self._keep(key, begun, ended)
        return make_call_id(key, ended)

    def _keep(self, key: str, begun: int, ended: int) -> None:
        if len(self._counts) >= MAX_NUMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = begun, ended


def make_call_id(key: str, number: int) -> str:
    return f"{key}-{number}"
