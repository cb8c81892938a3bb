"""The syncing of entries to disk in groups.

The sync runs in a thread.  Entries that are written in the meantime share the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from hooklatch.core.messages import ChainHead
from hooklatch.directories import sync_folder
from hooklatch.record.storage.journal import ChainWriter
from hooklatch.record.storage.mark import Anchor, MarkFile
from hooklatch.record.storage.recovery import RecordError
from hooklatch.threads import in_thread

__all__ = ["RecordSync"]

MAX_LOST = 1000


class Syncable(Protocol):
    """Files of payloads whose last lines may not be on the disk."""

    def sync(self) -> None: ...


class RecordSync:
    """The syncs of one record."""

    def __init__(
        self,
        journal: ChainWriter,
        anchor: Anchor,
        mark: MarkFile,
        fdatasync: Callable[[int], None],
        take_payloads: Callable[[], Syncable | None] = lambda: None,
    ) -> None:
        self.synced_seq = 0
        self.synced_at = journal.now()
        self.count = 0
        self.trouble: str | None = None  # why the anchor or the mark cannot be written at the moment
        self._tampering: list[str] = []  # removals or replacements of the anchor or the mark, not yet reported
        self._missing: set[str] = set()  # those of the two that could not be created again yet
        self._journal = journal
        self._anchor = anchor
        self._mark = mark
        self._fdatasync = fdatasync
        self._take_payloads = take_payloads
        self._lost: list[tuple[int, int]] = []  # ranges of records whose sync failed
        self._tried_seq = 0  # every record up to this number is on disk or lost
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_over = False

    async def wait_for(self, head: ChainHead) -> None:
        """Wait until a record is on disk.

        Raises:
            RecordError: it may not be on disk, and there is no way to know.
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
        """Sync everything written so far; return what went wrong, or None."""
        journal = self._journal
        seq, own = journal.seq, journal.hash
        ended = list(journal.closing)
        is_folder_dirty = journal.is_folder_dirty
        fault = journal.segment.fault()
        fds = [segment.fd for segment in (*ended, journal.segment)]
        # These descriptors must stay open until the thread has ended: `closing` keeps them.
        fault = await in_thread(self._sync, fds, is_folder_dirty, seq, own, self._take_payloads()) or fault
        for segment in ended:
            segment.close()
            journal.closing.remove(segment)
        if is_folder_dirty and not journal.closing and fault is None:
            journal.is_folder_dirty = False
        self._settle(seq, fault)
        return fault

    def once_blocking(self) -> str | None:
        """Sync in this thread, at shutdown."""
        journal = self._journal
        fds = [segment.fd for segment in (*journal.closing, journal.segment)]
        fault = self._sync(fds, journal.is_folder_dirty, journal.seq, journal.hash, self._take_payloads())
        self._settle(journal.seq, fault)
        return fault

    def end(self) -> None:
        """Wake the tasks that still wait, so that they fail."""
        self._is_over = True
        self._waiting.unpark_all()

    def _settle(self, seq: int, fault: str | None) -> None:
        if fault is None:
            self.synced_seq = self._tried_seq = seq
            self.synced_at = self._journal.now()
            self.count += 1
        else:
            # What was written during the sync is in the same file, so it may be lost as well.
            self._lost = [*self._lost[-MAX_LOST:], (self._tried_seq + 1, self._journal.seq)]
            self._tried_seq = self._journal.seq
        self._waiting.unpark_all()

    def _sync(self, fds: list[int], is_folder_dirty: bool, seq: int, own: str, payloads: Syncable | None) -> str | None:
        if payloads is not None:
            payloads.sync()  # before the records that name their digests
        try:
            for fd in fds:
                self._fdatasync(fd)
            if is_folder_dirty:
                sync_folder(self._journal.folder)
        except OSError as error:
            return f"the record in {self._journal.folder} cannot be synced: {error.strerror or error}"
        self._update_witnesses(seq, own)
        return None

    def take_tampering(self) -> list[str]:
        """Return what other processes did to the anchor and the mark since the last call."""
        tampering, self._tampering = self._tampering, []
        return tampering

    def _update_witnesses(self, seq: int, own: str) -> None:
        """Write the newest entry on disk to the anchor and the mark."""
        problem = None
        for slot_file in (self._anchor, self._mark):
            try:
                if not slot_file.is_in_place():
                    if slot_file.path not in self._missing:
                        self._tampering.append(f"{slot_file.path} was removed or replaced while it was being written")
                    self._missing.add(slot_file.path)
                    slot_file.reopen()
                    self._missing.remove(slot_file.path)
                if slot_file is self._anchor:
                    self._anchor.advance(seq, own)
                else:
                    self._mark.advance(seq, own, self._journal.seq)
            except OSError as error:
                problem = f"{slot_file.path} cannot be written: {error.strerror or error}"
        self.trouble = problem
