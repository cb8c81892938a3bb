"""Has old segments removed, so that nobody takes it for a theft, nor a theft for it.  Does not decide what is old.

    look ─▶ plan ─▶ `retired` record ─▶ on the disk ─▶ in the mark ─▶ files removed

After a kill anywhere between, the next start finds in the mark, or in the records that are newer than it, from where on
the record is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from hooklatch.core.messages import Head
from hooklatch.record.files.mark import MarkFile
from hooklatch.record.files.segments import places
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.journal import Journal
from hooklatch.record.storage.recovery import RecordError
from hooklatch.record.storage.retention import Retirement, missing_before, plan, remove
from hooklatch.record.storage.syncing import Syncs

__all__ = ["Retiring"]


class Append(Protocol):
    def __call__(self, kind: str, **fields: object) -> Head: ...


class Retiring:
    """Retention of one record.  `append` records something, `note` a fault."""

    def __init__(
        self, book: Journal, mark: MarkFile, syncs: Syncs, *, append: Append, note: Callable[[str], None]
    ) -> None:
        self._journal = book
        self._mark = mark
        self._syncs = syncs
        self._append = append
        self._note = note
        self._holes: set[str] = set()  # that were told

    async def look(self, settings: RecordSettings, now: float) -> None:
        """Remove what is too much or too old, and tell what somebody else removed.

        Raises:
            OSError, RecordError: it could not be done, or not be recorded.
        """
        folder, current = self._journal.folder, self._journal.segment.place
        missing = missing_before(folder, self._mark.mark)
        if missing is not None:
            self._note(missing)
            self._mark.save(told_seq=places(folder)[0].first)
        retirement = await trio.to_thread.run_sync(plan, folder, current, settings, now, self._mark.mark)
        if retirement is None or not self._may_go(retirement):
            return
        if retirement.places:
            await self._tell(retirement)
        await trio.to_thread.run_sync(remove, folder, [*retirement.leftover, *retirement.places])

    def _may_go(self, retirement: Retirement) -> bool:
        """Return whether nothing is removed that would show what is missing, before somebody knows of that."""
        for hole in retirement.holes:
            if hole not in self._holes:
                self._holes.add(hole)
                self._note(hole)
        return retirement.lost == self._mark.mark.lost or not self._mark.mark.fault_seq

    async def _tell(self, retirement: Retirement) -> None:
        """Have it on the disk, in the record and in the mark, that segments go; only then may they."""
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
