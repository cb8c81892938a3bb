"""The counter of gate decisions since the active bundle took effect, by which a rollout may be stopped."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hooklatch.fleet.reports import GateCounts

__all__ = ["GateCounter"]

NEEDLE = b'"kind":"decision"'
MAX_NAME = 40  # characters of a cause
MAX_CAUSES = 32  # in a report; there are fewer, but a newer daemon may have more


class DecisionLine(msgspec.Struct, frozen=True):
    """The fields of an entry that the counter reads."""

    seq: int
    kind: str
    gate: bool = False
    verdict: str | None = None
    cause: str | None = None


LINES = msgspec.json.Decoder(DecisionLine)


class GateCounter:
    """A counter that begins with record `since`."""

    def __init__(self, since: int) -> None:
        self.since = since
        self._decided = 0
        self._denied: dict[str, int] = {}

    def take(self, lines: Iterable[bytes]) -> None:
        """Count the decisions of gates among the next lines of the record."""
        for line in lines:
            if NEEDLE not in line:  # a search is much cheaper than decoding each line
                continue
            try:
                decision = LINES.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if decision.kind == "decision" and decision.gate and decision.seq >= self.since:
                self._decided += 1
                if decision.verdict == "deny":
                    self._count((decision.cause or "unknown")[:MAX_NAME])

    def _count(self, cause: str) -> None:
        if cause not in self._denied and len(self._denied) >= MAX_CAUSES:
            cause = "other"
        self._denied[cause] = self._denied.get(cause, 0) + 1

    @property
    def gates(self) -> GateCounts:
        return GateCounts(self.since, self._decided, dict(self._denied))
