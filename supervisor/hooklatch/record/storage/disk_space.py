"""The disk space of a record: the stages of a filling disk, and the entries that are still recorded in each.

normal ──free < low──▶ low ──free < critical──▶ critical ──free < full, or an append failed with ENOSPC──▶ full

low        everything is recorded, with a warning
critical   gates are recorded, without excerpts; everything else is counted
full       gates are denied; those denials are recorded from a reserve

A stage worsens at once, and improves only with a tenth more than its limit free (hysteresis).  After an append failed
with ENOSPC, the stage stays full until one succeeds: the number of free bytes does not reflect quotas.

Unrecorded events are counted by name.  The counts are recorded as soon as there is space.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

import msgspec

from hooklatch.record.settings import RecordSettings

__all__ = ["DiskSpace", "Disk", "DiskStage"]

logger = logging.getLogger("hooklatch.record")
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


class DiskSpace:
    """The disk space of one record.  `put` appends to the record, and raises OSError if it cannot."""

    def __init__(self, folder: str, settings: RecordSettings, put: Callable[..., object]) -> None:
        self.free_bytes = 0
        self.unrecorded: Counter[str] = Counter()
        self._folder = folder
        self._settings = settings
        self.stage = DiskStage.NORMAL
        self._disk = Disk(settings)
        self._put = put

    def apply(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._disk.set_limits(settings)

    def look(self) -> None:
        """Check the free space and update the stage."""
        try:
            space = os.statvfs(self._folder)
        except OSError:
            return  # writing will show whether it works
        self.free_bytes = space.f_bavail * space.f_frsize
        before, self.stage = self.stage, self._disk.saw(self.free_bytes)
        if self.stage is not before:
            self._record_stage(before)
        elif self._disk.has_run_out and self.free_bytes >= self._settings.full_bytes:
            self._try_again()

    def ran_out(self) -> None:
        """Note that an append failed for lack of space."""
        before, self.stage = self.stage, self._disk.ran_out()
        if self.stage is not before:
            self._record_stage(before)

    def count(self, event: str) -> None:
        """Count an event that is not recorded."""
        self.unrecorded[event] += 1

    def record_unrecorded(self, *, from_reserve: bool = False) -> None:
        """Record the counts of unrecorded events, if any.

        Raises:
            OSError: there is no space for the counts either.
        """
        if self.unrecorded:
            self._put("unrecorded", msgspec.json.encode({"events": self.unrecorded}), from_reserve=from_reserve)
            self.unrecorded.clear()

    def _try_again(self) -> None:
        """Test by writing whether there is space again: the number of free bytes does not reflect quotas."""
        before = self.stage
        with suppress(OSError):
            if self.unrecorded:
                self.record_unrecorded()
            else:
                self._put("disk", self._stage_entry(before, before))
            self.stage = self._disk.found_room(self.free_bytes)
            self._record_stage(before)

    def _record_stage(self, before: DiskStage) -> None:
        stage = self.stage
        log = logger.info if stage < before else logger.warning
        log("disk folder=%s stage=%s free=%d", self._folder, stage.label, self.free_bytes)
        with suppress(OSError):
            self._put("disk", self._stage_entry(before, stage), from_reserve=stage is DiskStage.FULL)
            if stage < DiskStage.CRITICAL:
                self.record_unrecorded()

    def _stage_entry(self, before: DiskStage, stage: DiskStage) -> bytes:
        return msgspec.json.encode({"stage": stage.label, "previous": before.label, "free_bytes": self.free_bytes})

    def explain(self) -> str | None:
        """Return a warning for the current stage; None if it is normal."""
        state = {
            DiskStage.NORMAL: None,
            DiskStage.LOW: "is getting full: free some space",
            DiskStage.CRITICAL: "is nearly full: only gates are recorded, without excerpts; free some space",
            DiskStage.FULL: "is full, so gates are denied until there is space: free some space",
        }[self.stage]
        return f"the disk of {self._folder} {state} ({self.free_bytes} bytes are free)" if state else None
