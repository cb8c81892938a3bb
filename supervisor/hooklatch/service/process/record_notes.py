"""Notes what is not a decision: new revisions, new versions of files, suspensions, quarantines, faults, reloads.

It goes to the record, to those administrators who subscribe to `operations`, or to both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hooklatch.core.hooks.registry import Hook
from hooklatch.record.writer import RecordError, RecordWriter
from hooklatch.service.building.sources import SourceBuild
from hooklatch.service.loading.files import ReloadResult
from hooklatch.service.registry.announcing import RegistryChange

__all__ = ["RecordNotes"]

logger = logging.getLogger("hooklatch.record_notes")
CHANGES = ("previous", "revision", "digest", "added", "removed", "changed")


class RecordNotes(msgspec.Struct, frozen=True):
    """Entries that nothing is denied for if they cannot be recorded: that is logged instead.

    `announce` tells subscribers: the kind of what happened, and its fields.
    """

    record: RecordWriter
    announce: Callable[[str, Mapping[str, object]], None]

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record one event of this daemon."""
        try:
            self.record.append(kind, **fields)
        except RecordError as error:
            logger.error("not recorded kind=%s: %s", kind, error)

    def operated(self, kind: str, fields: dict[str, Any]) -> None:
        """Record what an operator or the daemon did about hooks, and announce it."""
        self.note(kind, fields)
        self.announce(kind, fields)

    def registry(self, announcement: RegistryChange) -> None:
        """Record a new revision of the global registry."""
        self.note("registry", {name: getattr(announcement, name) for name in CHANGES})

    def declared(self, path: str, digest: str) -> None:
        """Record which version of a file that declares hooks becomes active."""
        self.note("source", {"kind_of_source": "configuration", "location": path, "sha256": digest})

    def adopted(self, unit: SourceBuild) -> None:
        """Record which version of a source becomes active."""
        source = unit.source
        self.note("source", {"kind_of_source": source.kind, "location": source.location, "sha256": source.digest,
                             "build": unit.build})  # fmt: skip

    def quarantined(self, hook: Hook, why: str) -> None:
        """Record and announce that a hook is no longer called."""
        self.operated("quarantined", {"hook": hook.name, "why": why})

    def released(self, hook: str, why: str) -> None:
        """Record and announce that a hook is called again; `hook` is its full name."""
        self.operated("released", {"hook": hook, "why": why})

    def reloaded(self, reloaded: ReloadResult) -> None:
        """Announce what a reload did; the record has its revision and its files already."""
        self.announce("reloaded", msgspec.structs.asdict(reloaded))

    def fault(self, kind: str, text: str) -> None:
        """Announce a fault of the record itself, or its end; the record has it, as far as it can be written."""
        self.announce(kind, {"text": text})
