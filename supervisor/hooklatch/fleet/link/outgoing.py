"""The record as batches to ship: where shipping continues, and what follows, with nothing but the configured fields.

The engine's newest entry of this host is the only state.  If the record does not have that entry any more, the record
was changed: the log in the engine stays as it is, and the record is shipped anew into a log of the next epoch.
Its methods block on the disk, so they are called in threads, one at a time.  Only one read and one batch are in memory,
even if there is much to ship.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

import msgspec

from hooklatch.fleet.batches import PackedBatch, pack_batch
from hooklatch.record.storage.chain import ChainLink, read_link
from hooklatch.record.storage.mark import read_anchor
from hooklatch.record.storage.seeking import RecordCursor, find_newest_link, read_seq
from hooklatch.record.storage.slots import SlotError

__all__ = ["ENOUGH", "ShippingReader", "LocalRecords", "Resume", "ShippedHead", "RecordBacklog", "compare_records"]

AFTER_ALL = 2**63  # above each number of an entry
ENOUGH = 64 * 1024  # bytes that are shipped at once
URGENT = (b'"verdict":"deny"', b'"kind":"fault"')  # as a daemon writes them
SYNC = 2.0  # seconds to wait for a record to be synced before it is shipped all the same


class ShippingReader:
    """A reader of one host's record for shipping.

    An entry that a power cut takes back must not have been shipped: the record would look truncated.  So an entry waits
    until the anchor says that it is on the disk, but `SYNC` seconds at most.
    Nothing after entry `end` is shipped.
    `lost` counts the entries that are missing up to the last batch, and `findings` describe them.  The caller clears
    both, the count once that batch is acknowledged: a batch that is packed again counts them again.  Each method may
    raise OSError: the record cannot be read; `next` and `check` also RecordChangedError: compare again.
    """

    def __init__(
        self, folder: str, host: str, fields: Collection[str], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self.lost = 0
        self.findings: list[str] = []
        self.end = AFTER_ALL
        self._host = host
        self._fields = frozenset(fields)
        self._clock = now
        self._cursor = RecordCursor(folder)
        self._epoch = 1
        self._seq = 0  # of the last record that was packed
        self._hash: str | None = None
        self._lines: list[bytes] = []
        self._taken = 0  # of these lines
        self._unsynced: list[bytes] = []
        self._unsynced_since = 0.0

    def compare(self, shipped: ShippedHead | None) -> Resume:
        """Return where shipping continues after this entry in the engine."""
        return compare_records(shipped, self._read_around(shipped.seq if shipped is not None else 0))

    def newest(self) -> ChainLink | None:
        """Return the newest entry; None if there is none yet."""
        try:
            return find_newest_link(self.folder)
        except FileNotFoundError:
            return None

    def seek(self, resume: Resume) -> None:
        """Go to the place where shipping continues."""
        self._cursor.seek(resume.after)
        self._epoch, self._seq, self._hash = resume.epoch, resume.after, resume.hash
        self._lines, self._taken, self._unsynced = [], 0, []
        self.lost = resume.lost

    def has_more(self) -> bool:
        """Return whether something may wait; it is cheap, since it is called often."""
        return self._taken < len(self._lines) or bool(self._unsynced) or self._cursor.has_more()

    def look(self) -> RecordBacklog:
        """Read what follows, up to some bytes, and return what waits to be shipped."""
        while sum(map(len, self._unsynced)) < ENOUGH and (lines := self._cursor.read()):
            self._unsynced += lines
            self._unsynced_since = self._clock()
        lines = [*self._lines[self._taken :], *self._unsynced]
        is_urgent = self.end < AFTER_ALL or any(needle in line for line in lines for needle in URGENT)
        return RecordBacklog(sum(map(len, lines)), is_urgent)

    def next(self) -> PackedBatch | None:
        """Return the next batch; None if there is nothing to ship yet."""
        while True:
            begin, missed = self._taken, self._cursor.missed
            packed = pack_batch(self._host, self._epoch, self._take_lines(), self._fields)
            if packed is not None:
                self._note_losses(packed, self._lines[begin : self._taken])
                return packed
            self._lines, self._taken = self._take_synced_lines(), 0
            if not self._lines and self._cursor.missed == missed:
                return None

    def check(self) -> None:
        """Check that the record still has the entry that was read last."""
        self._cursor.check()

    def _take_lines(self) -> Iterator[bytes]:
        while self._taken < len(self._lines):
            line = self._lines[self._taken]
            self._taken += 1
            seq = read_seq(line)
            if seq is None or self._seq < seq <= self.end:  # the engine would refuse a repeated number each time
                yield line

    def _take_synced_lines(self) -> list[bytes]:
        if not self._unsynced:
            self._unsynced, self._unsynced_since = self._cursor.read(), self._clock()
        lines = self._unsynced
        limit = self._read_synced_seq()
        is_late = self._clock() - self._unsynced_since >= SYNC
        cut = len(lines) if limit is None or is_late else sum(1 for line in lines if (read_seq(line) or 0) <= limit)
        self._unsynced = lines[cut:]
        return lines[:cut]

    def _read_synced_seq(self) -> int | None:
        try:
            anchor = read_anchor(self.folder)
        except SlotError:  # the record has a fault, which its daemon reports; its entries are shipped all the same
            return None
        return anchor[0] if anchor is not None else None

    def _note_losses(self, packed: PackedBatch, lines: list[bytes]) -> None:
        """Count the entries that are missing before a batch or in it, and describe them in a finding."""
        links = (read_link(line) for line in lines)
        prev = next(link.prev for link in links if link is not None and link.seq == packed.first)
        if self._hash is not None and prev != self._hash:
            missing = max(1, packed.first - self._seq - 1)
            self.lost += missing
            which = f"{missing} records before record {packed.first}"
            self.findings.append(f"{which} are not in the record any more, or are damaged, and were not shipped")
        elif packed.unreadable:
            self.lost += packed.unreadable
            which = f"{packed.unreadable} lines among records {packed.first} to {packed.last}"
            self.findings.append(f"{which} are damaged, and were not shipped; see: hooklatch log verify")
        self._seq, self._hash = packed.last, packed.hash

    def _read_around(self, seq: int) -> LocalRecords:
        cursor = RecordCursor(self.folder)
        newest = find_newest_link(self.folder)
        same = cursor.seek(seq) if seq else None
        following = find_first_valid(cursor, above=seq)
        cursor.seek(0)
        return LocalRecords(same, following, find_first_valid(cursor, above=0), newest)


class RecordBacklog(msgspec.Struct, frozen=True):
    """The records that wait to be shipped: how many bytes, and whether a denial or a fault is among them."""

    size: int = 0
    is_urgent: bool = False


def find_first_valid(cursor: RecordCursor, *, above: int) -> ChainLink | None:
    """Return the next valid entry with a number above this one."""
    while lines := cursor.read():
        for line in lines:
            link = read_link(line)
            if link is not None and link.seq > above:
                return link
    return None


class ShippedHead(msgspec.Struct, frozen=True):
    """The newest entry of a log in the engine; without a hash only its number is known."""

    epoch: int
    seq: int
    hash: str


class LocalRecords(msgspec.Struct, frozen=True):
    """The entries around a number: the entry with it, the next one, the oldest one and the newest one."""

    same: ChainLink | None
    following: ChainLink | None
    oldest: ChainLink | None
    newest: ChainLink | None


class Resume(msgspec.Struct, frozen=True):
    """The place where shipping continues: after entry `after`, with `hash` if that is known, in the log of `epoch`.

    `is_rewritten`: the record differs from what was shipped.  `finding` is a text for the report, `lost` how many
    entries were removed before they were shipped.
    """

    epoch: int
    after: int = 0
    hash: str | None = None
    is_rewritten: bool = False
    finding: str | None = None
    lost: int = 0


def compare_records(shipped: ShippedHead | None, local: LocalRecords) -> Resume:
    """Return where shipping continues; `local` are the entries around `shipped.seq`."""
    if shipped is None:
        return Resume(1)
    if local.same is not None and local.same.hash == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    if not shipped.hash and local.newest is not None and local.newest.seq >= shipped.seq:
        subject = f"the engine's log of this host, epoch {shipped.epoch}"
        return Resume(shipped.epoch, shipped.seq, finding=f"{subject}, was emptied: it had records up to {shipped.seq}")
    if (contradiction := describe_rewriting(shipped, local)) is not None:
        shipped_text = f"the engine has record {shipped.seq} in epoch {shipped.epoch}"
        finding = f"{contradiction}; {shipped_text}, and what the record has now goes into a new epoch"
        return Resume(shipped.epoch + 1, is_rewritten=True, finding=finding)
    assert local.following is not None
    if local.following.prev == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    lost = local.following.seq - shipped.seq - 1
    finding = f"records {shipped.seq + 1} to {shipped.seq + lost} were removed before they were shipped"
    return Resume(shipped.epoch, shipped.seq, finding=finding, lost=lost)


def describe_rewriting(shipped: ShippedHead, local: LocalRecords) -> str | None:
    """Return how the record contradicts the shipped entry; None if it does not."""
    if local.newest is None:
        return "the record is empty"
    if local.newest.seq < shipped.seq:
        return f"the record was truncated: it ends with {local.newest.seq}"
    if local.same is not None:
        return f"the record was rewritten: record {shipped.seq} has another hash"
    if local.following is None or local.oldest is None:
        return f"record {shipped.seq} is damaged, and no later one can be read"
    begins_later = local.oldest.seq > shipped.seq
    if not begins_later and local.following.prev != shipped.hash:
        return f"record {shipped.seq} is gone from the middle of the record"
    return None
