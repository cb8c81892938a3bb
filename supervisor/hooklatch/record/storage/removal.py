"""The removal of old segments, such that it cannot be mistaken for tampering, nor tampering for a removal.

`retention` decides which segments are old.

    look ─▶ plan ─▶ report a fleet's loss ─▶ `retired` entry ─▶ synced ─▶ in the mark ─▶ files removed

After a kill at any point, the next start finds where the record begins in the mark, or in records newer than the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from hooklatch.core.messages import ChainHead
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage import retention
from hooklatch.record.storage.journal import ChainWriter
from hooklatch.record.storage.mark import MarkFile
from hooklatch.record.storage.recovery import RecordError
from hooklatch.record.storage.segments import SegmentFile, list_segments
from hooklatch.record.storage.syncing import RecordSync
from hooklatch.threads import in_thread

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ShippingStatus

__all__ = ["SegmentRemover"]


LOSSES = 20  # removals of what a fleet's engine did not have, that the status lists


class SegmentRemover:
    """The retention of one record.  `append` writes an entry, `note` reports a fault."""

    def __init__(
        self,
        journal: ChainWriter,
        mark: MarkFile,
        syncs: RecordSync,
        *,
        append: Callable[..., ChainHead],
        note: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._mark = mark
        self._syncs = syncs
        self._append = append
        self._note = note
        self._reported: set[str] = set()
        self.shipped: int | None = None  # the last record that a fleet's engine has acknowledged, as it was last told
        self.lost: list[retention.UnshippedRecords] = []  # what was removed before it was acknowledged

    async def look(self, settings: RecordSettings, now: float) -> None:
        """Remove segments over the limits, and report segments that something else removed.

        Raises:
            OSError, RecordError: it failed, or could not be recorded.
        """
        folder, current = self._journal.folder, self._journal.segment.place
        missing = retention.find_missing_beginning(folder, self._mark.mark)
        if missing is not None:
            self._note(missing)
            self._mark.save(reported_seq=list_segments(folder)[0].first)
        retirement = await in_thread(
            retention.plan_retirement, folder, current, settings, now, self._mark.mark, self.shipped
        )
        if retirement is None or not self._may_remove(retirement):
            return
        if retirement.unshipped is not None:
            self._report_loss(retirement.unshipped, settings)
        if retirement.places:
            await self._announce(retirement)
            if retirement.unshipped is not None:
                self.lost.append(retirement.unshipped)
        await in_thread(retention.remove_segments, folder, [*retirement.leftover, *retirement.places])

    def shipping(self, known: Mapping[SegmentFile, tuple[int, float]]) -> ShippingStatus:
        """Return what waits for the fleet's engine, and what this daemon removed before it was acknowledged."""
        waiting = None
        with suppress(OSError):
            waiting = retention.count_unshipped(known, self.shipped or 0, self._journal.seq)
        return {
            "shipped_seq": self.shipped,
            "waiting_records": waiting.records if waiting is not None else None,
            "waiting_bytes": waiting.bytes if waiting is not None else None,
            "lost_records": sum(records.records for records in self.lost),
            "lost_bytes": sum(records.bytes for records in self.lost),
            "lost": [records.describe() for records in self.lost[-LOSSES:]],
        }

    def _may_remove(self, retirement: retention.SegmentRetirement) -> bool:
        """Report gaps; return false if a removal would hide one that has not been acknowledged."""
        for hole in retirement.holes:
            if hole not in self._reported:
                self._reported.add(hole)
                self._note(hole)
        return retirement.lost == self._mark.mark.lost or not self._mark.mark.fault_seq

    def _report_loss(self, records: retention.UnshippedRecords, settings: RecordSettings) -> None:
        """Report a removal of entries that the fleet's engine may not have, before it happens."""
        cause = "more than keep_unshipped_mib waited" if self.shipped is not None else "no link has said what it has"
        which = f"records {records.first_seq} to {records.last_seq} ({records.records}, {records.bytes} bytes)"
        text = (
            f"{which} are removed, and the fleet's engine did not acknowledge them: {cause}; see that `hooklatch link`"
            " runs, or raise keep_unshipped_mib"
        )
        if text not in self._reported:
            self._reported.add(text)
            self._note(text)

    async def _announce(self, retirement: retention.SegmentRetirement) -> None:
        """Bring the announcement of a removal to disk, in the record and in the mark, before any file is removed."""
        self._mark.retire(self._journal.seq + 1, retirement.kept_seq, retirement.kept_prev, retirement.lost)
        try:
            head = self._append("retired", **retirement.record)
        except RecordError:
            self._mark.keep()
            raise
        await self._syncs.wait_for(head)
        await in_thread(self._mark.save)
        if self._mark.mark.kept_seq != retirement.kept_seq:
            raise RecordError(f"{self._mark.path} does not say where the record begins")
