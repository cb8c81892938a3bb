"""Brings records to the disk, many with one call, and knows which are there.  Knows files and waiters; no policy.

The sync runs in a thread.  Those who write meanwhile share the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from hooklatch.core.messages import Head
from hooklatch.record.files.anchor import Anchor
from hooklatch.record.files.mark import MarkFile
from hooklatch.record.files.segments import sync_folder
from hooklatch.record.storage.journal import Journal
from hooklatch.record.storage.recovery import RecordError

__all__ = ["Syncs"]

MAX_LOST = 1000


class Syncs:
    """The syncs of one record."""

    def __init__(self, book: Journal, anchor: Anchor, mark: MarkFile, fdatasync: Callable[[int], None]) -> None:
        self.synced_seq = 0
        self.synced_at = time.monotonic()
        self.count = 0
        self.trouble: str | None = None  # why the anchor or the mark cannot be written; gone when they can
        self._thefts: list[str] = []  # of the anchor or the mark, not yet told
        self._away: set[str] = set()  # those that were taken, and could not be made again yet
        self._journal = book
        self._anchor = anchor
        self._mark = mark
        self._fdatasync = fdatasync
        self._lost: list[tuple[int, int]] = []  # ranges of records whose sync failed
        self._tried_seq = 0  # up to here every record is on the disk, or lost
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_over = False

    async def wait_for(self, head: Head) -> None:
        """Wait until a record is on the disk.

        Raises:
            RecordError: it may not be there, and nobody can know.
        """
        while True:
            if any(first <= head.seq <= last for first, last in self._lost):
                raise RecordError(f"record {head.seq} may not be on the disk: its sync failed; see: hooklatch status")
            if self._tried_seq >= head.seq:
                return
            if self._is_over:
                raise RecordError(f"record {head.seq} was not synced: the daemon is about to end")
            await self._waiting.park()

    async def once(self) -> str | None:
        """Bring all that is written by now to the disk; give what went wrong, if anything."""
        book = self._journal
        seq, own = book.seq, book.hash
        ended = list(book.closing)
        is_folder_dirty = book.is_folder_dirty
        fault = book.segment.fault()
        fds = [segment.fd for segment in (*ended, book.segment)]
        # Until the thread has ended, nobody may close these descriptors: `closing` keeps them.
        fault = await trio.to_thread.run_sync(self._sync, fds, is_folder_dirty, seq, own) or fault
        for segment in ended:
            segment.close()
            book.closing.remove(segment)
        if is_folder_dirty and not book.closing and fault is None:
            book.is_folder_dirty = False
        self._settle(seq, fault)
        return fault

    def once_blocking(self) -> str | None:
        """Do the same in this thread: at the end, when there is nobody to wait."""
        book = self._journal
        fds = [segment.fd for segment in (*book.closing, book.segment)]
        fault = self._sync(fds, book.is_folder_dirty, book.seq, book.hash)
        self._settle(book.seq, fault)
        return fault

    def end(self) -> None:
        """Let those who still wait know that they do so in vain."""
        self._is_over = True
        self._waiting.unpark_all()

    def _settle(self, seq: int, fault: str | None) -> None:
        if fault is None:
            self.synced_seq = self._tried_seq = seq
            self.synced_at = time.monotonic()
            self.count += 1
        else:
            # What was written while the sync ran stands in the same file, and shares its fate.
            self._lost = [*self._lost[-MAX_LOST:], (self._tried_seq + 1, self._journal.seq)]
            self._tried_seq = self._journal.seq
        self._waiting.unpark_all()

    def _sync(self, fds: list[int], is_folder_dirty: bool, seq: int, own: str) -> str | None:
        try:
            for fd in fds:
                self._fdatasync(fd)
            if is_folder_dirty:
                sync_folder(self._journal.folder)
        except OSError as error:
            return f"the record in {self._journal.folder} cannot be synced: {error.strerror or error}"
        self._tell_beside(seq, own)
        return None

    def take_thefts(self) -> list[str]:
        """Return what somebody did to the anchor and the mark since the last call."""
        thefts, self._thefts = self._thefts, []
        return thefts

    def _tell_beside(self, seq: int, own: str) -> None:
        """Have the anchor and the mark say what is on the disk now."""
        trouble = None
        for one in (self._anchor, self._mark):
            try:
                if not one.slot.is_in_place():
                    if one.path not in self._away:
                        self._thefts.append(f"{one.path} was removed or replaced while it was being written")
                    self._away.add(one.path)
                    one.slot.reopen()
                    self._away.remove(one.path)
                if one is self._anchor:
                    self._anchor.write(seq, own)
                else:
                    self._mark.advance(seq, own, self._journal.seq)
            except OSError as error:
                trouble = f"{one.path} cannot be written: {error.strerror or error}"
        self.trouble = trouble
