"""One host's log as the engine has it: batches to records, each record once.  Pure; knows no engine and no clock.

    batch ─▶ unpack ─▶ each record: known already? ─▶ new ones, in the order of their numbers

A batch that cannot be read is a finding, never silence: what it held is then missing from the log, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hooklatch.fleet.engine.engine import Batch
from hooklatch.fleet.policy.batches import BatchError, ShippedRecord, unpack
from hooklatch.fleet.sink.places import Known, Places

__all__ = ["Arrival", "Entry", "Finding", "HostLog"]


LATEST = 2**42  # ms since the epoch, in 2109: what a host says of an arrival may be any number


class Finding(msgspec.Struct, frozen=True):
    """Something about a host's log that is not as it should be.

    unreadable  a batch cannot be read; conflict: one number has two records
    missing     numbers are missing; altered: a record is not the one that its neighbour follows
    lost        the host removed records before they were shipped, and says so
    anew        the host's record began anew: it was truncated, rewritten or removed
    engine      the engine has less than the host was told that it has
    time        a batch cannot have arrived when it says
    report      what the host says of itself cannot be read, or contradicts its log
    told        the host itself reports something wrong
    local       the record on this machine is not the one that was shipped
    """

    host: str
    what: str
    text: str
    epoch: int | None = None
    seq: int | None = None


class Entry(msgspec.Struct, frozen=True):
    """A record of a host, and when the engine took it, in ms since the epoch by its clock."""

    host: str
    epoch: int
    at: int
    record: ShippedRecord

    @property
    def document(self) -> dict[str, Any]:
        """Return the record with whose it is; these three names no record has."""
        return {
            "fleet_host": self.host,
            "fleet_epoch": self.epoch,
            "fleet_at": self.at,
            **{name: value for name, value in self.record.document.items() if not name.startswith("fleet_")},
        }


class Arrival(msgspec.Struct, frozen=True):
    """A batch as it was read: whose, its numbers, and those of its records that were not known yet, in order."""

    host: str
    epoch: int
    batch: Batch
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...] = ()


class HostLog:
    """What was read of one host's log so far.  `places` has the records of each epoch."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.places: dict[int, Places] = {}
        self.repeated = 0  # records that came again
        self._conflicts: set[tuple[int, int, str]] = set()

    def take(self, epoch: int, batch: Batch) -> Arrival:
        """Return what a batch holds that was not known yet."""
        batch = msgspec.structs.replace(batch, at=min(batch.at, LATEST))
        try:
            records = unpack(batch.data, host=self.host, epoch=epoch, first=batch.first, last=batch.last)
        except BatchError as error:
            text = (
                f"the batch of records {batch.first} to {batch.last} of {self.host} (epoch {epoch}) cannot be read:"
                f" {error}; they are still in the record on {self.host}, unless retention has removed them"
            )
            return self._arrived(epoch, batch, [], [Finding(self.host, "unreadable", text, epoch, batch.first)])
        places = self.places.setdefault(epoch, Places())
        new: list[ShippedRecord] = []
        findings: list[Finding] = []
        for record in records:
            known = self._take(epoch, places, record)
            if known is Known.SAME:
                self.repeated += 1
                continue
            new.append(record)
            if known is Known.OTHER:  # both are shown: which is the host's own is not for a reader to guess
                text = f"record {record.seq} of {self.host} (epoch {epoch}) was shipped twice, with different hashes"
                findings.append(Finding(self.host, "conflict", text, epoch, record.seq))
        return self._arrived(epoch, batch, new, findings)

    def _arrived(
        self, epoch: int, batch: Batch, records: Iterable[ShippedRecord], findings: Iterable[Finding]
    ) -> Arrival:
        entries = tuple(Entry(self.host, epoch, batch.at, record) for record in records)
        return Arrival(self.host, epoch, batch, entries, tuple(findings))

    def _take(self, epoch: int, places: Places, record: ShippedRecord) -> Known:
        known = places.take(record.seq, record.hash, record.prev)
        if known is Known.NEW and self._is_of_another(epoch, record):
            return Known.SAME
        if known is Known.OTHER:
            conflict = (epoch, record.seq, record.hash)
            if conflict in self._conflicts:
                return Known.SAME
            self._conflicts.add(conflict)
        return known

    def _is_of_another(self, epoch: int, record: ShippedRecord) -> bool:
        """Return whether another epoch has this very record: a record that began anew is shipped from its beginning."""
        own = record.hash[:32]
        return any(one.hash_of(record.seq) == own for number, one in self.places.items() if number != epoch)
