"""The writing of the chain, across segments: each line is written whole or not at all.

    Appender ─▶ ChainWriter ─▶ Segment         an entry that cannot be written begins a new segment, once

Each segment starts with an entry that names the previous segment.  A segment's blocks are allocated a little beyond its
end (fallocate(2), FALLOC_FL_KEEP_SIZE).  Ordinary records need that reserve to remain behind them, so a full disk shows
while there is still room to record it.  On filesystems without fallocate, a spare file of the same size is deleted
instead.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import trio

from hooklatch.core.messages import ChainHead
from hooklatch.files import open_regular
from hooklatch.record.storage.chain import WITNESS, format_timestamp, make_head, read_segment_start, seal_entry
from hooklatch.record.storage.disk_space import DiskSpace
from hooklatch.record.storage.mark import MarkFile
from hooklatch.record.storage.recovery import RecordError, Recovery
from hooklatch.record.storage.segments import SegmentFile
from hooklatch_worker.systems.disks import allocate_blocks, sync_all

__all__ = ["NO_SPACE", "Clock", "Segment", "FORMAT", "ChainWriter", "Appender"]

CHUNK = 2**20  # bytes per allocation, enough for some thousand records

Clock = Callable[[], float]  # seconds
FORMAT = 1
MEND = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)  # backoff in seconds before the next attempt with a new segment
RESERVE_NAME = "reserve"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})


class Segment:
    """A segment that is open for writing.  `end` is the offset of the next record."""

    def __init__(self, place: SegmentFile, *, reserve: int, is_new: bool) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
        self.place = place
        self.fd = open_regular(place.path, flags | (os.O_CREAT | os.O_EXCL if is_new else 0))
        status = os.fstat(self.fd)
        self.end = status.st_size
        self._identity = (status.st_dev, status.st_ino)
        self._reserve = reserve
        self._allocated = 0
        self._can_allocate = True
        self._spare = os.path.join(os.path.dirname(place.path), RESERVE_NAME)
        self.is_whole = True  # False: it ends in a partial line that could not be truncated
        self.is_lost = False  # True: a sync of it failed, so a loss of power may leave a partial line at its end

    @property
    def reserve(self) -> int:
        """The bytes reserved for when the disk is full."""
        if self._can_allocate:
            return max(0, self._allocated - self.end)
        try:
            return os.stat(self._spare).st_size
        except OSError:
            return 0

    def append(self, line: bytes, *, from_reserve: bool = False) -> None:
        """Write a line, whole or not at all.

        Raises:
            OSError: it was not written; no part of it remains unless `is_whole` has become false.
        """
        end = self.end + len(line)
        if not from_reserve and (end + self._reserve > self._allocated or not self._can_allocate):
            self._make_room(end)
        try:
            written = os.write(self.fd, line)
            if written < len(line):
                self._write_rest(line, written)
        except OSError as error:
            if not (from_reserve and not self._can_allocate and error.errno in NO_SPACE and self._give_up_spare()):
                raise
            self._write_rest(line, 0)
        self.end = end

    def _write_rest(self, line: bytes, written: int) -> None:
        """Write what a short write left out, or raise its reason."""
        while written < len(line):
            self.is_whole = False
            try:
                written += os.write(self.fd, line[written:])
            except OSError:
                self._allocated = 0  # truncating also frees the blocks beyond the end
                os.ftruncate(self.fd, self.end)
                self.is_whole = True
                raise
        self.is_whole = True

    def _make_room(self, end: int) -> None:
        """Keep the reserve allocated beyond the future end."""
        if not self._can_allocate:
            return self._keep_spare()
        if end + self._reserve <= self._allocated:
            return None
        try:
            self._allocate(end + self._reserve + CHUNK)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                self._can_allocate = False
                return self._keep_spare()
            if error.errno not in NO_SPACE:
                raise
            self._allocate(end + self._reserve)
        return None

    def _allocate(self, end: int) -> None:
        start = max(self.end, self._allocated)
        if end > start:
            allocate_blocks(self.fd, start, end - start)
            self._allocated = end

    def _keep_spare(self) -> None:
        if os.path.exists(self._spare):
            return
        fd = os.open(self._spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            data = os.urandom(self._reserve)  # incompressible, for filesystems that compress
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, "the reserve does not fit")
            sync_all(fd)
        except OSError:
            os.unlink(self._spare)
            raise
        finally:
            os.close(fd)

    def _give_up_spare(self) -> bool:
        try:
            os.unlink(self._spare)
        except OSError:
            return False
        return True

    def fault(self) -> str | None:
        """Return how another process has changed the file, or None."""
        try:
            own = os.fstat(self.fd)
            named = os.stat(self.place.path, follow_symlinks=False)
        except FileNotFoundError:
            return f"{self.place.path} was removed while it was being written"
        except OSError as error:
            return f"{self.place.path} cannot be examined: {error.strerror}"
        if (named.st_dev, named.st_ino) != self._identity:
            return f"{self.place.path} was replaced while it was being written"
        if own.st_size != self.end:
            return f"{self.place.path} has {own.st_size} bytes instead of the {self.end} that were written to it"
        return None

    def free(self) -> None:
        """Free the blocks beyond the end, allocated by this daemon or one that was killed."""
        if self.is_whole:
            os.ftruncate(self.fd, self.end)
            self._allocated = 0

    def close(self) -> None:
        with suppress(OSError):  # close(2): it is free even then, and a sync says what is on the disk
            os.close(self.fd)


class ChainWriter:
    """A chain that is open for writing.  `closing` are ended segments that have not been synced since."""

    def __init__(
        self, folder: str, recovery: Recovery, mark: MarkFile, *, clock: Clock, now: Clock, reserve: int
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
        self._clock, self.now = clock, now
        self._reserve = reserve
        self._unfinished: str = ""  # the path of a segment without its header, which may still be there
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

    def begin_segment(self, *, reason: str | None = None) -> None:
        """Begin the next segment, which the next sync brings to disk.

        Raises:
            OSError: the segment could not be created; the current one stays open.
        """
        self._begin(self.segment, reason=reason)

    def _begin(
        self, before: Segment | None, *, reason: str | None = None, skipped: tuple[int, int] | None = None
    ) -> None:
        place = SegmentFile.of(self.folder, self.seq + 1)
        header: dict[str, Any] = {"format": FORMAT, "name": place.name, "previous": None}
        if before is not None and self.head is not None:
            header["previous"] = {"name": before.place.name, "seq": self.head.seq, "hash": self.hash}
            if before.is_lost or not before.is_whole:
                header["previous"]["torn"] = True
        if reason is not None:
            header["reason"] = reason
        if skipped is not None:
            header["skipped"] = {"first": skipped[0], "last": skipped[1]}
        if place.path == self._unfinished:
            with suppress(FileNotFoundError):
                os.unlink(place.path)
        self.segment = Segment(place, reserve=self._reserve, is_new=True)
        try:
            self.put("segment", msgspec.json.encode(header))
        except OSError:
            self.segment.close()
            if before is not None:
                self.segment = before
            self._unfinished = place.path
            with suppress(OSError):
                os.unlink(place.path)
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


logger = logging.getLogger("hooklatch.record")


class Appender:
    """The appender of one chain, in a new segment where the old one fails.  `dirty`: there are entries to sync.

    `broken` says why nothing can be written, `unsynced` why what is written may not reach the disk; both are None when
    all is well, and neither is retried in the same file.  `note_mended` is called with an error that is over.
    """

    def __init__(self, journal: ChainWriter, space: DiskSpace, note_mended: Callable[[str], None]) -> None:
        self.broken: str | None = None
        self.unsynced: str | None = None
        self.is_closed = False
        self.dirty = trio.Event()
        self._journal = journal
        self._space = space
        self._note_mended = note_mended
        self._attempts = 0  # consecutive new segments that did not help
        self._mend_at = 0.0  # the moment of the next attempt

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
        now = self._journal.now()
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
        self._note_mended(self.broken)
        self.broken = None
        self.dirty.set()

    def synced(self) -> None:
        """Note that all that was written before is on disk."""
        self._attempts, self.unsynced = 0, None

    async def back_off(self) -> None:
        """Wait, each time longer, before another segment is tried."""
        await trio.sleep(MEND[min(self._attempts, len(MEND) - 1)])
        self._attempts += 1
