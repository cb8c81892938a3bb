"""How near a disk is to being full, and what is still recorded then.  Knows numbers; looks at no disk.

normal ──free < low──▶ low ──free < critical──▶ critical ──free < full, or an append found no space──▶ full

low        everything is recorded; a warning
critical   gates are recorded, without excerpts; everything else is counted
full       gates are denied; those denials are recorded from a reserve

It gets worse at once, and better only a tenth above the limit, so that it does not flutter.  Once an append has found
no space, it stays full until one has succeeded: free bytes say nothing of quotas.
"""

from __future__ import annotations

from enum import IntEnum

from hooklatch.record.settings import RecordSettings

__all__ = ["Disk", "Stage"]

MARGIN = 10  # the part of a limit that must be free beyond it, before it counts as over


class Stage(IntEnum):
    """A stage; a greater one is worse."""

    NORMAL = 0
    LOW = 1
    CRITICAL = 2
    FULL = 3

    @property
    def label(self) -> str:
        return self.name.lower()


class Disk:
    """The stage of one disk."""

    def __init__(self, settings: RecordSettings) -> None:
        self.stage = Stage.NORMAL
        self._has_run_out = False
        self.limit(settings)

    @property
    def has_run_out(self) -> bool:
        return self._has_run_out

    def limit(self, settings: RecordSettings) -> None:
        self._limits = {
            Stage.FULL: settings.full_bytes,
            Stage.CRITICAL: settings.critical_bytes,
            Stage.LOW: settings.low_bytes,
        }

    def saw(self, free: int) -> Stage:
        """Take the free bytes of a look at the disk; give the stage."""
        found = self._by(free)
        if found < self.stage:
            found = min(self.stage, self._by(free, with_margin=True))
        self.stage = Stage.FULL if self._has_run_out else found
        return self.stage

    def ran_out(self) -> Stage:
        """Take that an append found no space."""
        self._has_run_out = True
        self.stage = Stage.FULL
        return self.stage

    def found_room(self, free: int) -> Stage:
        """Take that an append succeeded after all."""
        self._has_run_out = False
        return self.saw(free)

    def _by(self, free: int, *, with_margin: bool = False) -> Stage:
        for stage, limit in self._limits.items():
            if free < limit + (limit // MARGIN if with_margin else 0):
                return stage
        return Stage.NORMAL
