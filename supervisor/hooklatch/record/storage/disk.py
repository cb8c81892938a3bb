"""The stages of a filling disk, and the entries that are still recorded in each.  Pure.

normal ──free < low──▶ low ──free < critical──▶ critical ──free < full, or an append failed with ENOSPC──▶ full

low        everything is recorded, with a warning
critical   gates are recorded, without excerpts; everything else is counted
full       gates are denied; those denials are recorded from a reserve

A stage worsens at once, and improves only with a tenth more than its limit free (hysteresis).  After an append failed
with ENOSPC, the stage stays full until one succeeds: the number of free bytes does not reflect quotas.
"""

from __future__ import annotations

from enum import IntEnum

from hooklatch.record.settings import RecordSettings

__all__ = ["Disk", "DiskStage"]

MARGIN = 10  # a stage ends only when limit / MARGIN more bytes are free than the limit


class DiskStage(IntEnum):
    """A stage of a filling disk; greater is worse."""

    NORMAL = 0
    LOW = 1
    CRITICAL = 2
    FULL = 3

    @property
    def label(self) -> str:
        return self.name.lower()


class Disk:
    """The current stage of one disk."""

    def __init__(self, settings: RecordSettings) -> None:
        self.stage = DiskStage.NORMAL
        self.has_run_out = False
        self.set_limits(settings)

    def set_limits(self, settings: RecordSettings) -> None:
        self._limits = {
            DiskStage.FULL: settings.full_bytes,
            DiskStage.CRITICAL: settings.critical_bytes,
            DiskStage.LOW: settings.low_bytes,
        }

    def saw(self, free: int) -> DiskStage:
        """Record how many bytes are free; return the stage."""
        stage = self._stage_at(free)
        if stage < self.stage:
            stage = min(self.stage, self._stage_at(free, with_margin=True))
        self.stage = DiskStage.FULL if self.has_run_out else stage
        return self.stage

    def ran_out(self) -> DiskStage:
        """Record that an append failed for lack of space; return the stage."""
        self.has_run_out = True
        self.stage = DiskStage.FULL
        return self.stage

    def found_room(self, free: int) -> DiskStage:
        """Record that an append succeeded again; return the stage."""
        self.has_run_out = False
        return self.saw(free)

    def _stage_at(self, free: int, *, with_margin: bool = False) -> DiskStage:
        for stage, limit in self._limits.items():
            if free < limit + (limit // MARGIN if with_margin else 0):
                return stage
        return DiskStage.NORMAL
