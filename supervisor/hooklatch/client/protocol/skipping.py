"""The events that a client decides itself, and their counts.  Knows names and counts; does not know sockets or clocks.

A permission belongs to one connection and to the daemon's latest announcement on it.  The counts outlive the
connection: counts that were not reported yet are reported on the next one.
"""

from __future__ import annotations

import msgspec

from hooklatch.core.protocol import encode_notification

__all__ = ["NOT_PERMITTED", "REPORT", "Permission", "SkippedCounts"]

REPORT = 1.0  # seconds after the first skipped event until its report to the daemon, with all others until then


class Permission(msgspec.Struct, frozen=True):
    """The events that no hook of the session listened to when the registry had this revision."""

    events: frozenset[str] = frozenset()
    revision: int = 0


NOT_PERMITTED = Permission()


class SkippedCounts:
    """The number of times that each event was skipped since the last report."""

    def __init__(self) -> None:
        self.unreported: dict[str, int] = {}
        self._total = 0  # since the session began, reported or not

    def add(self, event: str) -> int:
        """Count a skipped event, and return its number in the session."""
        self._total += 1
        self.unreported[event] = self.unreported.get(event, 0) + 1
        return self._total

    def take(self) -> bytes:
        """Return the line that reports all counts, and reset them; nothing if there are none."""
        if not self.unreported:
            return b""
        line = encode_notification("skipped", {"events": self.unreported})
        self.unreported = {}
        return line
