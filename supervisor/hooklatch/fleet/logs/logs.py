"""One host's log as the engine has it: batches to entries, each entry once.  Pure.

    batch ─▶ unpack_batch ─▶ each entry: known already? ─▶ new entries, in the order of their numbers

A batch that cannot be read is a finding, since its entries are then missing from the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hooklatch.core.status_answers import RecordLine
from hooklatch.fleet.batches import BatchError, ShippedRecord, unpack_batch
from hooklatch.fleet.engine.engine import RecordBatch
from hooklatch.fleet.logs.places import RecordMatch, SeenRecords

__all__ = ["ReceivedBatch", "FleetLogEntry", "FleetRecordLine", "LogFinding", "HostLog"]


LATEST = 2**42  # ms since the epoch, in 2109: a host may claim any number as a time of arrival


class LogFinding(msgspec.Struct, frozen=True):
    """Something wrong with a host's log.

    unreadable  a batch cannot be read; conflict: one number has two records
    missing     numbers are missing; altered: a record is not the one that its neighbour follows
    lost        the host removed records before they were shipped, and says so
    anew        the host's record began anew: it was truncated, rewritten or removed
    engine      the engine has less than the host was told that it has
    time        a batch cannot have arrived when it says
    report      the host's report cannot be read, or contradicts its log
    told        the host itself reports something wrong
    local       the record on this machine is not the one that was shipped
    """

    host: str
    what: str
    text: str
    epoch: int | None = None
    seq: int | None = None


class FleetLogEntry(msgspec.Struct, frozen=True):
    """An entry of a host, and when the engine took it, in ms since the epoch by its clock."""

    host: str
    epoch: int
    at: int
    record: ShippedRecord

    @property
    def document(self) -> dict[str, Any]:
        """Return the entry with its host, epoch and time, under three names that no entry may use."""
        return {
            "fleet_host": self.host,
            "fleet_epoch": self.epoch,
            "fleet_at": self.at,
            **{name: value for name, value in self.record.document.items() if not name.startswith("fleet_")},
        }


class FleetRecordLine(RecordLine):
    """`fleet log`: a record, and its host."""

    host: str


class ReceivedBatch(msgspec.Struct, frozen=True):
    """A batch as it was read: its host, its numbers, and those of its entries that were not known yet, in order."""

    host: str
    epoch: int
    batch: RecordBatch
    entries: tuple[FleetLogEntry, ...]
    findings: tuple[LogFinding, ...] = ()


class HostLog:
    """The part of one host's log that was read so far.  `seen_records` has the entries of each epoch."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.seen_records: dict[int, SeenRecords] = {}
        self.repeated = 0  # records that came again
        self._conflicts: set[tuple[int, int, str]] = set()

    def take(self, epoch: int, batch: RecordBatch) -> ReceivedBatch:
        """Return a batch with those of its entries that were not known yet."""
        batch = msgspec.structs.replace(batch, at=min(batch.at, LATEST))
        try:
            records = unpack_batch(batch.data, host=self.host, epoch=epoch, first=batch.first, last=batch.last)
        except BatchError as error:
            text = (
                f"the batch of records {batch.first} to {batch.last} of {self.host} (epoch {epoch}) cannot be read:"
                f" {error}; they are still in the record on {self.host}, unless retention has removed them"
            )
            return self._make_received(
                epoch, batch, [], [LogFinding(self.host, "unreadable", text, epoch, batch.first)]
            )
        seen_records = self.seen_records.setdefault(epoch, SeenRecords())
        new: list[ShippedRecord] = []
        findings: list[LogFinding] = []
        for record in records:
            match = self._take(epoch, seen_records, record)
            if match is RecordMatch.SAME:
                self.repeated += 1
                continue
            new.append(record)
            if match is RecordMatch.OTHER:  # both are shown: a reader cannot know which is the host's own
                text = f"record {record.seq} of {self.host} (epoch {epoch}) was shipped twice, with different hashes"
                findings.append(LogFinding(self.host, "conflict", text, epoch, record.seq))
        return self._make_received(epoch, batch, new, findings)

    def _make_received(
        self, epoch: int, batch: RecordBatch, records: Iterable[ShippedRecord], findings: Iterable[LogFinding]
    ) -> ReceivedBatch:
        entries = tuple(FleetLogEntry(self.host, epoch, batch.at, record) for record in records)
        return ReceivedBatch(self.host, epoch, batch, entries, tuple(findings))

    def _take(self, epoch: int, seen_records: SeenRecords, record: ShippedRecord) -> RecordMatch:
        match = seen_records.take(record.seq, record.hash, record.prev)
        if match is RecordMatch.NEW and self._is_in_another_epoch(epoch, record):
            return RecordMatch.SAME
        if match is RecordMatch.OTHER:
            conflict = (epoch, record.seq, record.hash)
            if conflict in self._conflicts:
                return RecordMatch.SAME
            self._conflicts.add(conflict)
        return match

    def _is_in_another_epoch(self, epoch: int, record: ShippedRecord) -> bool:
        """Return whether another epoch has this entry: a record that began anew is shipped from its beginning."""
        own = record.hash[:32]
        return any(seen.hash_of(record.seq) == own for number, seen in self.seen_records.items() if number != epoch)
