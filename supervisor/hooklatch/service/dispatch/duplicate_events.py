"""The decisions on tool calls that a host reports by two events, so that the second one need not be judged.

A decision counts for both events only if it lets the call continue unchanged: once, for the other event, for a short
time, and while no hook has changed.  Anything else is judged again, so that no call passes that was not judged with
this very content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hooklatch.core.messages import FireDecision

__all__ = ["DuplicateEvents"]

MAX_KEPT = 1024
LIFETIME = 5.0  # seconds; a host sends the second event right after the answer to the first


class CachedDecision(NamedTuple):
    """A decision, when it was made, and the epoch of the hooks that made it."""

    at: float
    epoch: int
    decision: FireDecision


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
