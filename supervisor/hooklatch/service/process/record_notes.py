"""Writes to the record what is not a decision: new revisions, new versions of files, suspensions, quarantines."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from hooklatch.core.hooks.registry import Hook
from hooklatch.record.writer import Record, RecordError
from hooklatch.service.loading.sources import Unit
from hooklatch.service.registry.registries import Announcement

__all__ = ["RecordNotes"]

logger = logging.getLogger("hooklatch.record_notes")
CHANGES = ("previous", "revision", "digest", "added", "removed", "changed")


class RecordNotes(msgspec.Struct, frozen=True):
    """Entries that nothing is denied for if they cannot be recorded: that is logged instead."""

    record: Record

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record one event of this daemon."""
        try:
            self.record.append(kind, **fields)
        except RecordError as error:
            logger.error("not recorded kind=%s: %s", kind, error)

    def registry(self, announcement: Announcement) -> None:
        """Record a new revision of the global registry."""
        self.note("registry", {name: getattr(announcement, name) for name in CHANGES})

    def declared(self, path: str, digest: str) -> None:
        """Record which version of a file that declares hooks becomes active."""
        self.note("source", {"kind_of_source": "configuration", "location": path, "sha256": digest})

    def adopted(self, unit: Unit) -> None:
        """Record which version of a source becomes active."""
        source = unit.source
        self.note("source", {"kind_of_source": source.kind, "location": source.location, "sha256": source.digest,
                             "build": unit.build})  # fmt: skip

    def quarantined(self, hook: Hook, why: str) -> None:
        """Record that a hook is no longer called."""
        self.note("quarantined", {"hook": hook.name, "why": why})
