"""Spares the second of two events that tell one tool call.  Knows decisions and time; decides nothing.

Only a decision that lets the call go on as it is may stand for both, once, for the other event, for a short time, and
while no hook has changed.  Whatever else comes is judged anew: a call is never passed that was not judged with this
very content.
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
    """What was decided on calls that may be told once more."""

    def __init__(self, now: Callable[[], float], epoch: Callable[[], int]) -> None:
        self._now = now
        self._epoch = epoch
        self._kept: dict[tuple[str, str], list[CachedDecision]] = {}  # by the call and the event that told it

    def keep(self, call: str, event: str, decision: FireDecision) -> None:
        """Keep a decision for the other event of this call, if it may stand for both."""
        if not call or decision.verdict not in ("pass", "allow") or decision.patch:
            return
        kept = self._kept.pop((call, event), [])
        if len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[call, event] = [*kept, CachedDecision(self._now(), self._epoch(), decision)]

    def take(self, call: str, event: str) -> FireDecision | None:
        """Return what was decided when another event told this call; nobody gets it a second time."""
        if not call:
            return None
        for key, kept in self._kept.items():
            if key[0] != call or key[1] == event:
                continue
            del self._kept[key]
            now, epoch = self._now(), self._epoch()
            fresh = [one for one in kept if now - one.at <= LIFETIME and one.epoch == epoch]
            if fresh[1:]:
                self._kept[key] = fresh[1:]
            return fresh[0].decision if fresh else None
        return None
