"""How much room the disk has left, and what was not recorded for want of it.  Knows one folder's disk.

What could not be recorded is counted by its event, and the counts are recorded as soon as there is room again.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import suppress
from typing import Protocol

import msgspec

from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.disk import Disk, Stage

__all__ = ["DiskSpace"]

logger = logging.getLogger("hooklatch.record")


class Put(Protocol):
    def __call__(self, kind: str, body: bytes, *, from_reserve: bool = False) -> object: ...


class DiskSpace:
    """The room for one record.  `put` appends to it, and raises OSError where it cannot."""

    def __init__(self, folder: str, settings: RecordSettings, put: Put) -> None:
        self.free_bytes = 0
        self.unrecorded: Counter[str] = Counter()
        self._folder = folder
        self._settings = settings
        self._disk = Disk(settings)
        self._put = put

    @property
    def stage(self) -> Stage:
        return self._disk.stage

    def apply(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._disk.limit(settings)

    def look(self) -> None:
        """Look how full the disk is, and take the stage from that."""
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return  # whether it can be written shows when it is
        self.free_bytes = found.f_bavail * found.f_frsize
        before = self._disk.stage
        if self._disk.saw(self.free_bytes) is not before:
            self._changed(before)
        elif self._disk.has_run_out and self.free_bytes >= self._settings.full_bytes:
            self._try_again()

    def ran_out(self) -> None:
        """Take that an append found no room."""
        before = self._disk.stage
        if self._disk.ran_out() is not before:
            self._changed(before)

    def count(self, event: str) -> None:
        """Count what is not recorded."""
        self.unrecorded[event] += 1

    def tell_unrecorded(self, *, from_reserve: bool = False) -> None:
        """Record what was not recorded, if anything.

        Raises:
            OSError: there is no room for that either.
        """
        if self.unrecorded:
            self._put("unrecorded", msgspec.json.encode({"events": self.unrecorded}), from_reserve=from_reserve)
            self.unrecorded.clear()

    def _try_again(self) -> None:
        """Find out by writing whether there is room again: free bytes say nothing of quotas."""
        before = self._disk.stage
        with suppress(OSError):
            if self.unrecorded:
                self.tell_unrecorded()
            else:
                self._put("disk", self._told(before, before))
            self._disk.found_room(self.free_bytes)
            self._changed(before)

    def _changed(self, before: Stage) -> None:
        stage = self._disk.stage
        log = logger.info if stage < before else logger.warning
        log("disk folder=%s stage=%s free=%d", self._folder, stage.label, self.free_bytes)
        with suppress(OSError):
            self._put("disk", self._told(before, stage), from_reserve=stage is Stage.FULL)
            if stage < Stage.CRITICAL:
                self.tell_unrecorded()

    def _told(self, before: Stage, stage: Stage) -> bytes:
        return msgspec.json.encode({"stage": stage.label, "previous": before.label, "free_bytes": self.free_bytes})

    def explain(self) -> str | None:
        """Return what the stage means, where it means something."""
        what = {
            Stage.NORMAL: None,
            Stage.LOW: "is getting full: make room",
            Stage.CRITICAL: "is nearly full: only gates are recorded, without excerpts; make room",
            Stage.FULL: "is full, so gates are denied: make room there, and it goes on by itself",
        }[self.stage]
        return f"the disk of {self._folder} {what} ({self.free_bytes} bytes are free)" if what else None
