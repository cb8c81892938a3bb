"""One host's log as the engine has it: batches to entries, each entry once.  Pure.

    batch ─▶ unpack_batch ─▶ each entry: known already? ─▶ new entries, in the order of their numbers

A batch that cannot be read is a finding, since its entries are then missing from the log.

A log may hold an entry twice: a reply was lost and the batch was made anew, or two links ran.  So every number is taken
once, in any order of the batches, and two hashes of one number are noticed.  That takes some 42 bytes an entry, and
some 600 where a host ships numbers far apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec

from hooklatch.core.status_answers import RecordLine
from hooklatch.fleet.batches import MAX_DATA, BatchError, ShippedRecord, read_batch_lines, split_batch_lines
from hooklatch.fleet.engine.engine import RecordBatch

__all__ = [
    "RecordMatch", "ChainPosition", "SeenRecords", "ReceivedBatch", "FleetLogEntry", "FleetRecordLine",
    "LogFinding", "HostLog",
]  # fmt: skip

PAGE = 16  # records in a page
HALF = 16  # bytes kept of each hash: 128 bits, as a witness has
WIDTH = 2 * HALF
NOTHING = bytes(WIDTH)


class RecordMatch(Enum):
    """The relation of a new entry to those that are known."""

    NEW = "new"
    SAME = "same"
    OTHER = "other"  # that number has another hash


class ChainPosition(msgspec.Struct, frozen=True):
    """An entry's number, and the beginnings of its hash and of the hash before it, in hexadecimal."""

    seq: int
    hash: str
    prev: str


class SeenRecords:
    """The entries of one epoch that were seen."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.count = 0

    def take(self, seq: int, own: str, prev: str) -> RecordMatch:
        """Take an entry, unless its number is taken; return how it relates to the known ones."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = encode_position(own, prev)
        if page is None:
            page = self._pages[seq // PAGE] = bytearray(PAGE * WIDTH)
        stored = bytes(page[at : at + WIDTH])
        if stored == NOTHING:
            page[at : at + WIDTH] = entry
            self.count += 1
            return RecordMatch.NEW
        return RecordMatch.SAME if stored[:HALF] == entry[:HALF] else RecordMatch.OTHER

    def hash_of(self, seq: int) -> str | None:
        """Return the beginning of an entry's hash, None if it was not seen."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = bytes(page[at : at + WIDTH]) if page is not None else NOTHING
        return entry[:HALF].hex() if entry != NOTHING else None

    def __iter__(self) -> Iterator[ChainPosition]:
        """Yield the entries in order of their numbers."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in range(0, PAGE * WIDTH, WIDTH):
                entry = bytes(page[at : at + WIDTH])
                if entry != NOTHING:
                    yield ChainPosition(number * PAGE + at // WIDTH, entry[:HALF].hex(), entry[HALF:].hex())


def encode_position(own: str, prev: str) -> bytes:
    entry = bytes.fromhex(own[: 2 * HALF] + prev[: 2 * HALF])
    # A host may claim any hash for an entry of which it left something out, but zeros mean an empty slot here.
    return entry if entry[:HALF].strip(b"\0") else b"\0" * (HALF - 1) + b"\1" + entry[HALF:]


LATEST = 2**42  # ms since the epoch, in 2109: a host may claim any number as a time of arrival


class LogFinding(msgspec.Struct, frozen=True):
    """Something wrong with a host's log.

    unreadable  a batch cannot be read; conflict: one number has two records
    missing     numbers are missing; altered: a record is not the one that its neighbour follows
    lost        the host removed records before they were shipped, and says so
    anew        the host's record began anew: it was truncated, rewritten or removed
    engine      the engine has less than the host was told that it has
    much        the log has more than is read of one host beside others
    name        another host has shipped the same record
    signature   the host's key has not signed it
    identity    the host was never enrolled, or was retired
    time        a batch, or the report, cannot have arrived when it says
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
    """The part of one host's log that was read so far: `read_bytes`, unpacked.

    `seen_records` has the entries of each epoch.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.seen_records: dict[int, SeenRecords] = {}
        self.repeated = 0  # records that came again
        self.read_bytes = 0
        self._conflicts: set[tuple[int, int, str]] = set()

    def take(self, epoch: int, batch: RecordBatch) -> ReceivedBatch:
        """Return a batch with those of its entries that were not known yet."""
        batch = msgspec.structs.replace(batch, at=min(batch.at, LATEST))
        try:
            lines = split_batch_lines(batch.data)
            self.read_bytes += sum(map(len, lines))
            records = read_batch_lines(lines, host=self.host, epoch=epoch, first=batch.first, last=batch.last)
        except BatchError as error:
            self.read_bytes += min(MAX_DATA, len(batch.data))
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
