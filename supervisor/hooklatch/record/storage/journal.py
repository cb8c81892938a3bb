"""The chain over its segments: puts one record behind the other.  Knows files; knows no policy and no disk.

A segment begins with a record of its own, which names the segment before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from hooklatch.core.messages import Head
from hooklatch.record.files.chain import Stamps, head_of, seal
from hooklatch.record.files.mark import MarkFile
from hooklatch.record.files.segments import Place, Segment, moment_of
from hooklatch.record.storage.recovery import Found

__all__ = ["FORMAT", "Journal"]

FORMAT = 1


class Journal:
    """A record that is written to.  `closing` are segments that ended and have not been synced since."""

    def __init__(self, folder: str, found: Found, mark: MarkFile, *, clock: Callable[[], float], reserve: int) -> None:
        """Go on where the chain was found to end.

        Raises:
            OSError: the last segment cannot be written, or the first one not be made.
        """
        self.folder = folder
        self.seq, self.hash = found.seq, found.hash
        self.closing: list[Segment] = []
        self.is_folder_dirty = True
        self._mark = mark
        self._clock = clock
        self._reserve = reserve
        self._stamps = Stamps()
        self._last = (found.last.seq, found.last.hash) if found.last is not None else None
        self._segment: Segment | None = None
        if found.place is not None:
            self._segment = Segment(found.place, reserve=reserve, is_new=False)
            self.began_at = moment_of(found.place) or clock()
        if found.place is None or found.skipped is not None:
            self.begin_segment(skipped=found.skipped)

    @property
    def segment(self) -> Segment:
        assert self._segment is not None  # from the end of __init__ on
        return self._segment

    @property
    def head(self) -> Head | None:
        return head_of(self.seq, self.hash) if self._last is not None else None

    @property
    def is_fresh(self) -> bool:
        """Return whether the segment holds nothing but its own first record, and perhaps why it was begun."""
        return self.seq <= self.segment.place.first + 1

    def put(self, kind: str, body: bytes, *, from_reserve: bool = False) -> Head:
        """Append a record.

        Raises:
            OSError: it does not stand in the file.
        """
        if not self.segment.is_whole:
            self.begin_segment(reason="a part of a line stands at the end of the one before, and cannot be taken back")
        line, own = self._sealed(kind, body)
        self.segment.append(line, from_reserve=from_reserve)
        return self._moved_on(own)

    def begin_segment(self, *, reason: str | None = None, skipped: tuple[int, int] | None = None) -> None:
        """Begin the next segment; it is on the disk after the next sync.  `skipped` are numbers that were never used.

        Raises:
            OSError: it could not be made, and the one before goes on.
        """
        place = Place.of(self.folder, self.seq + 1)
        before = self._segment
        header: dict[str, Any] = {"format": FORMAT, "name": place.name, "previous": None}
        if before is not None and self._last is not None:
            header["previous"] = {"name": before.place.name, "seq": self._last[0], "hash": self._last[1]}
            if not before.is_whole:
                header["previous"]["torn"] = True
        if reason is not None:
            header["reason"] = reason
        if skipped is not None:
            header["skipped"] = {"first": skipped[0], "last": skipped[1]}
        line, own = self._sealed("segment", msgspec.json.encode(header))
        segment = Segment(place, reserve=self._reserve, is_new=True)
        try:
            segment.append(line)
        except OSError:
            segment.close()
            os.unlink(place.path)
            raise
        if before is not None:
            with suppress(OSError):
                before.free()
            self.closing.append(before)
        self._segment = segment
        self.began_at = self._clock()
        self.is_folder_dirty = True
        self._moved_on(own)

    def give_up_closing(self) -> None:
        """Close the segments that ended, synced or not."""
        for segment in self.closing:
            segment.close()
        self.closing = []

    def close(self) -> None:
        """Close the files; nothing is synced."""
        if self._segment is not None:
            with suppress(OSError):
                self._segment.free()
            self._segment.close()
        self.give_up_closing()

    def _sealed(self, kind: str, body: bytes) -> tuple[bytes, str]:
        if self.seq >= self._mark.mark.through:
            self._mark.reserve(self.seq)  # no number is used that the mark does not know of
        return seal(self.seq + 1, self.hash, self._stamps.spell(self._clock()), kind, body)

    def _moved_on(self, own: str) -> Head:
        self.seq += 1
        self.hash = own
        self._last = (self.seq, own)
        return head_of(self.seq, own)
