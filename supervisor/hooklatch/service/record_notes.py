"""The notes of events besides decisions: new revisions and files, suspensions, quarantines, faults, reloads.

They go to the record, to those administrators who subscribe to `operations`, or to both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hooklatch.core.hooks.registry import Hook
from hooklatch.record.writer import RecordError, RecordWriter
from hooklatch.service.loading.sources import SourceBuild
from hooklatch.service.registry.announcing import RegistryChange

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReloadAnswer

__all__ = ["RecordNotes"]

logger = logging.getLogger("hooklatch.record_notes")
MAX_TEXT = 64 * 1024  # bytes of a source that are on record; a guard has a few thousand
CHANGES = ("previous", "revision", "digest", "added", "removed", "changed")


class RecordNotes(msgspec.Struct, frozen=True):
    """The writer of notes. If one cannot be recorded, that is logged, and no fire is denied for it.

    `announce` notifies subscribers of the kind of an event and its fields.
    """

    record: RecordWriter
    announce: Callable[[str, Mapping[str, object]], None]

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record one event of this daemon."""
        try:
            self.record.append(kind, **fields)
        except RecordError as error:
            logger.error("not recorded kind=%s: %s", kind, error)

    def note_operation(self, kind: str, fields: dict[str, Any]) -> None:
        """Record an operation on hooks by an operator or the daemon, and announce it."""
        self.note(kind, fields)
        self.announce(kind, fields)

    def note_revision(self, announcement: RegistryChange) -> None:
        """Record a new revision of the global registry."""
        self.note("registry", {name: getattr(announcement, name) for name in CHANGES})

    def note_file(self, path: str, digest: str) -> None:
        """Record the version of a file that declares hooks, when it becomes active."""
        self.note("source", {"kind_of_source": "configuration", "location": path, "sha256": digest})

    def note_build(self, unit: SourceBuild) -> None:
        """Record the version of a source, when it becomes active, with its text if that is not long.

        Only the record tells later what a guard said at a time.
        """
        source = unit.source
        fields = {
            "kind_of_source": source.kind, "location": source.location, "sha256": source.digest, "build": unit.build,
        }  # fmt: skip
        if unit.text and len(unit.text) <= MAX_TEXT:
            fields["text"] = unit.text.decode(errors="replace")
        self.note("source", fields)

    def note_quarantine(self, hook: Hook, explanation: str) -> None:
        """Record and announce that a hook is no longer called."""
        self.note_operation("quarantined", {"hook": hook.name, "why": explanation})

    def note_release(self, hook: str, explanation: str) -> None:
        """Record and announce that a hook is called again; `hook` is its full name."""
        self.note_operation("released", {"hook": hook, "why": explanation})

    def announce_reload(self, announce_reload: ReloadAnswer) -> None:
        """Announce the result of a reload. The record has its revision and its files already."""
        self.announce("reloaded", announce_reload)
