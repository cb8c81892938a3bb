"""The mark: what is known of a record outside of its folder.  Knows one small file; judges nothing.

It lies beside the folder, not in it: who removes, restores or cuts the folder does not take it along by accident.  It
tells which numbers may have been used, where the record ended when it was ended, from where on it was kept, and
whether there is a fault that nobody has acknowledged.

It is written over with every group sync and brought to the disk only now and then: every 5,000 records, and with what
must not be forgotten.  So it costs a gate nothing; after a power cut it may be older than the anchor.
"""

from __future__ import annotations

import os
import re
import threading

import msgspec

from hooklatch.record.files.chain import GENESIS
from hooklatch.record.files.slots import Slot, SlotError, read_slot

__all__ = ["BLOCK", "Mark", "MarkFile", "path_of_mark", "read_mark"]

BLOCK = 10_000  # numbers that are reserved at once
FORM = re.compile(rb"(open|shut) (\d{18}) (\d{18}) ([0-9a-f]{64}) (\d{18}) ([0-9a-f]{64}) (\d{18}) (\d{18}) (\d{18})")


class Mark(msgspec.Struct, frozen=True):
    """What it says.

    `through` is the highest number that may have been used.  `seq` and `hash` are the newest record that is known to be
    on the disk; the last of all if the record `is_shut`.  Everything before `kept_seq` was removed by retention;
    `kept_prev` is what the record of that number holds of the one before.  `told_seq`: that what lies before is gone
    has been told.  `lost` numbers were gone already when retention came to them.  `fault_seq`: a fault that was
    recorded from this number on has not been acknowledged; 0 if there is none.
    """

    is_shut: bool = False
    through: int = 0
    seq: int = 0
    hash: str = GENESIS
    kept_seq: int = 1
    kept_prev: str = GENESIS
    told_seq: int = 0
    lost: int = 0
    fault_seq: int = 0

    def spelled(self) -> bytes:
        return b"%b %018d %018d %b %018d %b %018d %018d %018d" % (
            b"shut" if self.is_shut else b"open", self.through, self.seq, self.hash.encode(), self.kept_seq,
            self.kept_prev.encode(), self.told_seq, self.lost, self.fault_seq,
        )  # fmt: skip


def path_of_mark(folder: str) -> str:
    return f"{os.path.abspath(folder)}.mark"


def read_mark(folder: str) -> Mark | None:
    """Return what the mark beside a folder says; None where there is none.

    Raises:
        SlotError: it says nothing that was written here.
    """
    path = path_of_mark(folder)
    text = read_slot(path)
    if text is None:
        return None
    match = FORM.fullmatch(text)
    if match is None:
        raise SlotError(f"{path} holds no mark; somebody wrote to it")
    state, through, seq, own, kept_seq, kept_prev, *numbers = match.groups()
    told_seq, lost, fault_seq = (int(number) for number in numbers)
    return Mark(
        state == b"shut",
        int(through),
        int(seq),
        own.decode(),
        int(kept_seq),
        kept_prev.decode(),
        told_seq,
        lost,
        fault_seq,
    )


class MarkFile:
    """The mark of a record that is written to, by the daemon's thread and by that of the sync."""

    def __init__(self, folder: str, mark: Mark) -> None:
        """Make it say this, on the disk.

        Raises:
            OSError: it cannot be written.
        """
        self.path = path_of_mark(folder)
        self.mark = mark
        self.slot = Slot(self.path, mark.spelled())
        os.fdatasync(self.slot.fd)
        self._lock = threading.Lock()
        self._retirement: tuple[int, Mark] | None = None

    def save(self, **changes: object) -> None:
        """Change what it says, on the disk.

        Raises:
            OSError: it could not be written, and says what it did.
        """
        with self._lock:
            self._write(msgspec.structs.replace(self.mark, **changes))
            os.fdatasync(self.slot.fd)

    def reserve(self, seq: int) -> None:
        """Have numbers beyond `seq`, before one of them is used.

        Raises:
            OSError: they cannot be had, so none may be used.
        """
        self.save(through=seq + BLOCK)

    def advance(self, seq: int, own: str, used: int) -> None:
        """Take that this record is on the disk, and have enough numbers beyond the one that was `used` last.

        Raises:
            OSError: it could not be written.
        """
        with self._lock:
            is_near = used + BLOCK // 2 >= self.mark.through
            through = used + BLOCK if is_near else self.mark.through
            self._write(msgspec.structs.replace(self.mark, seq=seq, hash=own, through=through))
            if is_near:
                os.fdatasync(self.slot.fd)

    def retire(self, seq: int, kept_seq: int, kept_prev: str, lost: int) -> None:
        """Have it say where the record begins as soon as record `seq`, which tells of it, is on the disk."""
        with self._lock:
            self._retirement = (seq, Mark(kept_seq=kept_seq, kept_prev=kept_prev, lost=lost))

    def keep(self) -> None:
        """Take back what was to be retired: there is no record of it."""
        with self._lock:
            self._retirement = None

    def _write(self, mark: Mark) -> None:
        if self._retirement is not None and mark.seq >= self._retirement[0]:
            kept = self._retirement[1]
            mark = msgspec.structs.replace(mark, kept_seq=kept.kept_seq, kept_prev=kept.kept_prev, lost=kept.lost)
            self._retirement = None
        self.slot.write(mark.spelled())
        self.mark = mark

    def close(self) -> None:
        self.slot.close()
