"""Removes old segments such that the removal cannot be mistaken for tampering, nor tampering for a removal.

Does not decide which segments are old.

    look ─▶ plan ─▶ `retired` record ─▶ synced ─▶ in the mark ─▶ files removed

After a kill at any point, the next start finds where the record begins in the mark, or in records newer than the mark.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from hooklatch.core.messages import Head
from hooklatch.record.files.mark import MarkFile
from hooklatch.record.files.segments import list_segments
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.journal import Journal
from hooklatch.record.storage.recovery import RecordError
from hooklatch.record.storage.retention import Retirement, missing_before, plan, remove
from hooklatch.record.storage.syncing import Syncs

__all__ = ["SegmentRemover"]


class SegmentRemover:
    """Applies retention to one record.  `append` writes a record, `note` reports a fault."""

    def __init__(
        self,
        journal: Journal,
        mark: MarkFile,
        syncs: Syncs,
        *,
        append: Callable[..., Head],
        note: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._mark = mark
        self._syncs = syncs
        self._append = append
        self._note = note
        self._reported: set[str] = set()

    async def look(self, settings: RecordSettings, now: float) -> None:
        """Remove segments over the limits, and report segments that something else removed.

        Raises:
            OSError, RecordError: it failed, or could not be recorded.
        """
        folder, current = self._journal.folder, self._journal.segment.place
        missing = missing_before(folder, self._mark.mark)
        if missing is not None:
            self._note(missing)
            self._mark.save(told_seq=list_segments(folder)[0].first)
        retirement = await trio.to_thread.run_sync(plan, folder, current, settings, now, self._mark.mark)
        if retirement is None or not self._may_remove(retirement):
            return
        if retirement.places:
            await self._announce(retirement)
        await trio.to_thread.run_sync(remove, folder, [*retirement.leftover, *retirement.places])

    def _may_remove(self, retirement: Retirement) -> bool:
        """Report gaps; return false if a removal would hide one that has not been acknowledged."""
        for hole in retirement.holes:
            if hole not in self._reported:
                self._reported.add(hole)
                self._note(hole)
        return retirement.lost == self._mark.mark.lost or not self._mark.mark.fault_seq

    async def _announce(self, retirement: Retirement) -> None:
        """Bring the announcement of a removal to disk, in the record and in the mark, before any file is removed."""
        self._mark.retire(self._journal.seq + 1, retirement.kept_seq, retirement.kept_prev, retirement.lost)
        try:
            head = self._append("retired", **retirement.record)
        except RecordError:
            self._mark.keep()
            raise
        await self._syncs.wait_for(head)
        await trio.to_thread.run_sync(self._mark.save)
        if self._mark.mark.kept_seq != retirement.kept_seq:
            raise RecordError(f"{self._mark.path} does not say where the record begins")
