"""The appending of entries, in a new segment where the old one fails.

`broken` says why nothing can be written, `unsynced` why what is written may not reach the disk; both are None when all
is well, and neither is retried in the same file.
"""

from __future__ import annotations

import logging
import time

import trio

from hooklatch.core.messages import ChainHead
from hooklatch.record.storage.disk_space import DiskSpace
from hooklatch.record.storage.faults import RecordFaults
from hooklatch.record.storage.journal import ChainWriter
from hooklatch.record.storage.recovery import RecordError
from hooklatch.record.storage.segments import NO_SPACE

__all__ = ["Appender"]

logger = logging.getLogger("hooklatch.record")
MEND = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)  # backoff in seconds before the next attempt with a new segment


class Appender:
    """The appender of one chain.  `dirty` is set when there are entries to sync."""

    def __init__(self, journal: ChainWriter, space: DiskSpace, faults: RecordFaults) -> None:
        self.broken: str | None = None
        self.unsynced: str | None = None
        self.is_closed = False
        self.dirty = trio.Event()
        self._journal = journal
        self._space = space
        self._faults = faults
        self._attempts = 0  # consecutive new segments that did not help
        self._mend_at = 0.0  # time.monotonic of the next attempt

    @property
    def is_sound(self) -> bool:
        """Return whether records can be written, and reach the disk where the settings require it."""
        return self.broken is None and self.unsynced is None

    def append(self, kind: str, body: bytes, *, from_reserve: bool = False) -> ChainHead:
        """Append a record.

        Raises:
            RecordError: it is not in the file.
        """
        if self.is_closed or self.unsynced is not None or self.broken is not None:
            self._check()
        try:
            head = self._journal.put(kind, body, from_reserve=from_reserve)
        except OSError as error:
            return self._append_anew(error, kind, body, from_reserve=from_reserve)
        self.dirty.set()
        return head

    def put(self, kind: str, body: bytes, *, from_reserve: bool = False) -> ChainHead:
        """Append a record even if those before it may not reach the disk, and to no other segment.

        Raises:
            OSError: it is not in the file.
        """
        head = self._journal.put(kind, body, from_reserve=from_reserve)
        self.dirty.set()
        return head

    def _check(self) -> None:
        """Begin a new segment if the last append failed.

        Raises:
            RecordError: nothing can be appended.
        """
        if self.is_closed:
            raise RecordError("the record is closed: the daemon is about to end")
        if self.unsynced is not None:
            raise RecordError(self.unsynced)
        self.mend()

    def _append_anew(self, error: OSError, kind: str, body: bytes, *, from_reserve: bool) -> ChainHead:
        """Append to a new file, which may work: the old one may have reached a size limit, or lost its blocks."""
        self._fail(error)
        self.mend()
        try:
            return self.put(kind, body, from_reserve=from_reserve)
        except OSError as again:
            self._fail(again)
        raise RecordError(self.broken)

    def _fail(self, error: OSError) -> None:
        """Handle a failed append; return only if a new segment may help."""
        if error.errno in NO_SPACE and self._journal.segment.is_whole:
            self._space.ran_out()
            raise RecordError(self._space.explain()) from None
        self.broken = (
            f"the record in {self._journal.folder} cannot be written: {error.strerror or error}; repair its disk, or"
            " start the daemon with another XDG_STATE_HOME"
        )

    def mend(self) -> None:
        """Begin a new segment in place of one that cannot be written, if there is one.

        Raises:
            RecordError: that failed too, or the backoff is not over.
        """
        if self.broken is None:
            return
        now = time.monotonic()
        if now < self._mend_at:
            raise RecordError(self.broken)
        was_fresh = self._journal.is_fresh
        try:
            self._journal.begin_segment(reason=self.broken)
        except OSError:
            was_fresh = True
            logger.error("%s", self.broken)
            raise RecordError(self.broken) from None
        finally:
            if was_fresh:  # a new segment does not help either: back off, or each gate would leave a segment behind
                self._attempts += 1
                self._mend_at = now + MEND[min(self._attempts, len(MEND) - 1)]
        self._faults.note_mended(self.broken)
        self.broken = None
        self.dirty.set()

    def synced(self) -> None:
        """Note that all that was written before is on disk."""
        self._attempts, self.unsynced = 0, None

    async def back_off(self) -> None:
        """Wait, each time longer, before another segment is tried."""
        await trio.sleep(MEND[min(self._attempts, len(MEND) - 1)])
        self._attempts += 1
