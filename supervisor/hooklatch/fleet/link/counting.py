"""How the gates have been decided since the bundle in force took effect: what a rollout is stopped by.

Knows lines of the record; opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hooklatch.fleet.policy.reports import GateCounts

__all__ = ["GateCounter"]

NEEDLE = b'"kind":"decision"'
MAX_NAME = 40  # characters of a cause
MAX_CAUSES = 32  # in a report; there are fewer, but a newer daemon may have more


class DecisionLine(msgspec.Struct, frozen=True):
    """What is counted of a decision."""

    seq: int
    kind: str
    gate: bool = False
    verdict: str | None = None
    cause: str | None = None


LINES = msgspec.json.Decoder(DecisionLine)


class GateCounter:
    """Counts from record `since` on."""

    def __init__(self, since: int) -> None:
        self.since = since
        self._decided = 0
        self._denied: dict[str, int] = {}

    def take(self, lines: Iterable[bytes]) -> None:
        """Count the next lines of the record; what is no decision of a gate counts for nothing."""
        for line in lines:
            if NEEDLE not in line:
                continue
            try:
                one = LINES.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if one.kind == "decision" and one.gate and one.seq >= self.since:
                self._decided += 1
                if one.verdict == "deny":
                    self._count((one.cause or "unknown")[:MAX_NAME])

    def _count(self, cause: str) -> None:
        if cause not in self._denied and len(self._denied) >= MAX_CAUSES:
            cause = "other"
        self._denied[cause] = self._denied.get(cause, 0) + 1

    @property
    def gates(self) -> GateCounts:
        return GateCounts(self.since, self._decided, dict(self._denied))
