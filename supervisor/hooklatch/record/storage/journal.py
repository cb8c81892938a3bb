"""The writer of the chain, across segments.

Each segment starts with an entry that names the previous segment.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from hooklatch.core.messages import ChainHead
from hooklatch.record.storage.chain import WITNESS, format_timestamp, make_head, seal_entry
from hooklatch.record.storage.mark import MarkFile
from hooklatch.record.storage.recovery import Recovery
from hooklatch.record.storage.segments import Segment, SegmentFile, read_segment_start

__all__ = ["FORMAT", "ChainWriter"]

FORMAT = 1


class ChainWriter:
    """A chain that is open for writing.  `closing` are ended segments that have not been synced since."""

    def __init__(
        self, folder: str, recovery: Recovery, mark: MarkFile, *, clock: Callable[[], float], reserve: int
    ) -> None:
        """Continue the chain at the recovered end.

        Raises:
            OSError: the last segment cannot be written, or the first one cannot be created.
        """
        self.folder = folder
        self.seq, self.hash = recovery.seq, recovery.hash
        self.closing: list[Segment] = []
        self.is_folder_dirty = True
        self._mark = mark
        self._clock = clock
        self._reserve = reserve
        self.head = make_head(recovery.last.seq, recovery.last.hash) if recovery.last is not None else None
        if recovery.place is None:
            self._begin(None, skipped=recovery.skipped)
            return
        self.segment = Segment(recovery.place, reserve=reserve, is_new=False)
        self.began_at = read_segment_start(recovery.place) or clock()
        if recovery.skipped is not None:
            self._begin(self.segment, skipped=recovery.skipped)

    @property
    def is_fresh(self) -> bool:
        """Return whether the segment holds only its header, and perhaps the reason why it was begun."""
        return self.seq <= self.segment.place.first + 1

    def put(self, kind: str, body: bytes, *, from_reserve: bool = False) -> ChainHead:
        """Append a record.

        Raises:
            OSError: it is not in the file.
        """
        if not self.segment.is_whole:
            self.begin_segment(reason="the segment before it ends in a partial line that could not be removed")
        seq = self.seq + 1
        if seq > self._mark.mark.reserved_through:
            self._mark.reserve(self.seq)  # never use a number that is not reserved in the mark
        line, own = seal_entry(seq, self.hash, format_timestamp(self._clock()), kind, body)
        self.segment.append(line, from_reserve=from_reserve)
        self.seq, self.hash, self.head = seq, own, (head := ChainHead(seq, own[:WITNESS]))
        return head

    def begin_segment(self, *, reason: str | None = None, skipped: tuple[int, int] | None = None) -> None:
        """Begin the next segment, which the next sync brings to disk.  `skipped` are numbers that were never used.

        Raises:
            OSError: the segment could not be created; the current one stays open.
        """
        self._begin(self.segment, reason=reason, skipped=skipped)

    def _begin(
        self, before: Segment | None, *, reason: str | None = None, skipped: tuple[int, int] | None = None
    ) -> None:
        place = SegmentFile.of(self.folder, self.seq + 1)
        header: dict[str, Any] = {"format": FORMAT, "name": place.name, "previous": None}
        if before is not None and self.head is not None:
            header["previous"] = {"name": before.place.name, "seq": self.head.seq, "hash": self.hash}
            if not before.is_whole:
                header["previous"]["torn"] = True
        if reason is not None:
            header["reason"] = reason
        if skipped is not None:
            header["skipped"] = {"first": skipped[0], "last": skipped[1]}
        self.segment = Segment(place, reserve=self._reserve, is_new=True)
        try:
            self.put("segment", msgspec.json.encode(header))
        except OSError:
            self.segment.close()
            os.unlink(place.path)
            if before is not None:
                self.segment = before
            raise
        if before is not None:
            with suppress(OSError):
                before.free()
            self.closing.append(before)
        self.began_at = self._clock()
        self.is_folder_dirty = True

    def give_up_closing(self) -> None:
        """Close ended segments even if they were not synced."""
        for segment in self.closing:
            segment.close()
        self.closing = []

    def close(self) -> None:
        """Close all files without syncing."""
        with suppress(OSError):
            self.segment.free()
        self.segment.close()
        self.give_up_closing()
