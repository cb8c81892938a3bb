"""The anchor and the mark, two small files that say how far a record has come.  They judge nothing.

A chain that was truncated is still a valid chain.  The anchor, a file among the segments, names the newest entry on
disk, and reveals the truncation up to the last sync.

The mark lies beside the record's directory, not in it, so that removing, restoring or truncating the directory does not
affect it by accident.  It holds which sequence numbers may have been used, where the record ended at a clean shutdown,
where it begins after retention, and whether there is an unacknowledged fault.

Both are overwritten at every group sync.  The mark is synced only every 5,000 records and when a change must not be
lost, so it adds no latency to a gate.  After a power failure it may be older than the anchor.
"""

from __future__ import annotations

import os
import re
import threading

import msgspec

from hooklatch.record.storage.chain import GENESIS
from hooklatch.record.storage.slots import SlotFile, read_form
from hooklatch_worker.systems.disks import sync_data

__all__ = ["BLOCK", "HighWaterMark", "MarkFile", "mark_path", "read_mark", "Anchor", "anchor_path", "read_anchor"]

BLOCK = 10_000  # sequence numbers reserved at once
MARK_FORM = re.compile(
    rb"(open|shut) (\d{18}) (\d{18}) ([0-9a-f]{64}) (\d{18}) ([0-9a-f]{64}) (\d{18}) (\d{18}) (\d{18})(?: (\S{1,64}))?"
)


class HighWaterMark(msgspec.Struct, frozen=True):
    """The content of the mark.

    `reserved_through` is the highest number that may have been used.  `seq` and `hash` are those of the newest entry
    known to be on disk, of the very last entry if the record `is_closed`.  Retention removed everything before
    `kept_seq`; `kept_prev` is the `prev` of that entry.  `reported_seq`: it is already reported that everything before
    this number is missing.  `lost` counts the entries that were already missing when retention reached them.
    `fault_seq`: a fault recorded at or after this number is unacknowledged; 0 if there is none.  `boot` is the boot in
    which the record was opened last.
    """

    is_closed: bool = False
    reserved_through: int = 0
    seq: int = 0
    hash: str = GENESIS
    kept_seq: int = 1
    kept_prev: str = GENESIS
    reported_seq: int = 0
    lost: int = 0
    fault_seq: int = 0
    boot: str = "-"

    def encode(self) -> bytes:
        return b"%b %018d %018d %b %018d %b %018d %018d %018d %b" % (
            b"shut" if self.is_closed else b"open", self.reserved_through, self.seq, self.hash.encode(), self.kept_seq,
            self.kept_prev.encode(), self.reported_seq, self.lost, self.fault_seq,
            self.boot.encode(),
        )  # fmt: skip


def mark_path(folder: str) -> str:
    return f"{os.path.abspath(folder)}.mark"


def read_mark(folder: str) -> HighWaterMark | None:
    """Return the mark beside a directory; None if there is no mark.

    Raises:
        SlotError: the file is unreadable or holds something else.
    """
    match = read_form(mark_path(folder), MARK_FORM, "a mark")
    if match is None:
        return None
    state, reserved_through, seq, own, kept_seq, kept_prev, reported_seq, lost, fault_seq, boot = match.groups()
    return HighWaterMark(
        state == b"shut", int(reserved_through), int(seq), own.decode(), int(kept_seq), kept_prev.decode(),
        int(reported_seq), int(lost), int(fault_seq), (boot or b"-").decode(),
    )  # fmt: skip


class MarkFile(SlotFile):
    """The mark of a record that is open for writing, shared by the main thread and the sync thread.

    Its methods raise OSError where it cannot be written: it is unchanged then, and no further number may be used.
    """

    def __init__(self, folder: str, mark: HighWaterMark) -> None:
        """Open the mark, set it and sync it."""
        super().__init__(mark_path(folder), mark.encode())
        self.mark = mark
        sync_data(self.fd)
        self._lock = threading.Lock()
        self._retirement: tuple[int, dict[str, object]] | None = None

    def reopen(self) -> None:
        """Create the file again, while no other thread writes to the descriptor that this closes."""
        with self._lock:
            super().reopen()

    def save(self, **changes: object) -> None:
        """Change some fields and sync."""
        with self._lock:
            self._set(msgspec.structs.replace(self.mark, **changes))
            sync_data(self.fd)

    def reserve(self, seq: int) -> None:
        """Reserve numbers beyond `seq`, before any of them is used."""
        self.save(reserved_through=seq + BLOCK)

    def advance(self, seq: int, own: str, used: int) -> None:
        """Note that this record is on disk, and reserve numbers well ahead of the last one `used`."""
        with self._lock:
            is_near = used + BLOCK // 2 >= self.mark.reserved_through
            reserved_through = used + BLOCK if is_near else self.mark.reserved_through
            self._set(msgspec.structs.replace(self.mark, seq=seq, hash=own, reserved_through=reserved_through))
            if is_near:
                sync_data(self.fd)

    def retire(self, seq: int, kept_seq: int, kept_prev: str, lost: int) -> None:
        """Set where the record begins as soon as record `seq`, which announces the removal, is on disk."""
        with self._lock:
            self._retirement = seq, {"kept_seq": kept_seq, "kept_prev": kept_prev, "lost": lost}

    def keep(self) -> None:
        """Cancel a retirement that could not be recorded."""
        with self._lock:
            self._retirement = None

    def _set(self, mark: HighWaterMark) -> None:
        if self._retirement is not None and mark.seq >= self._retirement[0]:
            mark = msgspec.structs.replace(mark, **self._retirement[1])
            self._retirement = None
        self.write(mark.encode())
        self.mark = mark


ANCHOR_FORM = re.compile(rb"(\d{18}) ([0-9a-f]{64})")


def anchor_path(folder: str) -> str:
    return os.path.join(folder, "anchor")


def read_anchor(folder: str) -> tuple[int, str] | None:
    """Return the sequence number and hash in the anchor; None if there is no anchor.

    Raises:
        SlotError: the file is unreadable or holds something else.
    """
    match = read_form(anchor_path(folder), ANCHOR_FORM, "an anchor")
    return (int(match[1]), match[2].decode()) if match is not None else None


class Anchor(SlotFile):
    """The anchor of a record that is open for writing.  Its methods raise OSError where it cannot be written."""

    def __init__(self, folder: str, seq: int, own: str) -> None:
        super().__init__(anchor_path(folder), encode_anchor(seq, own))

    def advance(self, seq: int, own: str) -> None:
        """Set the anchor and sync it."""
        self.write(encode_anchor(seq, own))
        sync_data(self.fd)


def encode_anchor(seq: int, own: str) -> bytes:
    return b"%018d %b" % (seq, own.encode())
