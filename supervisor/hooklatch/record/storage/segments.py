"""The segment files of the record: each line is written whole or not at all, and space is reserved for final entries.

A segment's blocks are allocated a little beyond its end (fallocate(2), FALLOC_FL_KEEP_SIZE).  Ordinary records need
that reserve to remain behind them, so a full disk shows while there is still room to record it.  On filesystems without
fallocate, a spare file of the same size is deleted instead.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from hooklatch.directories import sync_folder
from hooklatch.files import open_regular, open_regular_file
from hooklatch.record.storage.chain import ChainLink, read_link

__all__ = [
    "NO_SPACE",
    "SegmentFile",
    "Segment",
    "SegmentEnd",
    "read_segment_start",
    "list_segments",
    "read_tail",
    "set_aside",
]

NAME = re.compile(r"(\d{16})\.jsonl")
KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE from linux/falloc.h
CHUNK = 2**20  # bytes per allocation, enough for some thousand records
RESERVE_NAME = "reserve"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})
WINDOW = 64 * 1024  # bytes to read first from the end of a file


LIBC = ctypes.CDLL(None, use_errno=True)
FALLOCATE = getattr(LIBC, "fallocate64", None) or LIBC.fallocate  # with 64-bit offsets on every machine


def allocate_blocks(fd: int, start: int, length: int) -> None:
    """Allocate blocks for a file without changing its size.

    Raises:
        OSError: there is no space, or the filesystem does not support it.
    """
    if FALLOCATE(fd, KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class SegmentFile(NamedTuple):
    """The path of a segment, which is named after the number of its first record."""

    first: int
    path: str

    @classmethod
    def of(cls, folder: str, first: int) -> SegmentFile:
        return cls(first, os.path.join(folder, f"{first:016d}.jsonl"))

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def list_segments(folder: str) -> list[SegmentFile]:
    """List the segments of a directory, oldest first.

    Raises:
        OSError: the directory cannot be read.
    """
    matches = [match for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    return sorted(SegmentFile(int(match[1]), os.path.join(folder, match[0])) for match in matches)


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
            os.fsync(fd)
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
        os.close(self.fd)


class SegmentEnd(NamedTuple):
    """The last valid record of a segment, where it ends, and the file's size."""

    link: ChainLink
    end: int
    size: int
    fault: str | None  # a fault in the records before it, as far as they were read

    @property
    def torn(self) -> int:
        return self.size - self.end


def read_tail(place: SegmentFile) -> SegmentEnd | None:
    """Find the last valid record by reading only the end of the file; None if there is none.

    Raises:
        OSError: it cannot be read.
    """
    fd = open_regular(place.path)
    try:
        size = os.fstat(fd).st_size
        window = WINDOW
        while True:
            start = max(0, size - window)
            tail = find_segment_end(os.pread(fd, size - start, start), start, size, place)
            if tail is not None or start == 0:
                return tail
            window *= 8
    finally:
        os.close(fd)


def find_segment_end(data: bytes, start: int, size: int, place: SegmentFile) -> SegmentEnd | None:
    links: list[tuple[ChainLink | None, int]] = []
    for begin, end in find_line_bounds(data, is_beginning=start == 0):
        links.append((read_link(data[begin:end]), start + end))
    while links and links[-1][0] is None:
        links.pop()
    if not links:
        return None
    link, end = links[-1]
    assert link is not None
    return SegmentEnd(link, end, size, find_link_fault([link_read for link_read, _ in links], place))


def find_line_bounds(data: bytes, *, is_beginning: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each complete line; skip the first if `data` may start within it."""
    begin = 0 if is_beginning else data.find(b"\n") + 1
    while (end := data.find(b"\n", begin) + 1) > 0:
        yield begin, end
        begin = end


def find_link_fault(links: list[ChainLink | None], place: SegmentFile) -> str | None:
    for before, after in pairwise(links):
        if before is None or after is None or after.seq <= before.seq or after.prev != before.hash:
            seq = after.seq if after is not None else before.seq + 1 if before is not None else "?"
            return f"{place.path}: the chain is broken near record {seq}; see: hooklatch log verify"
    return None


def read_segment_start(place: SegmentFile) -> float | None:
    """Return when a segment was begun, according to its first record; None if that cannot be read."""
    try:
        with open_regular_file(place.path) as file:
            link = read_link(file.readline(WINDOW))
    except OSError:
        return None
    return datetime.fromisoformat(link.at).timestamp() if link is not None else None


def set_aside(place: SegmentFile, end: int) -> str:
    """Move everything after `end` to a file beside the segment and truncate there; return that file's name.

    Raises:
        OSError: it failed.
    """
    fd = open_regular(place.path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        size = os.fstat(fd).st_size
        aside, path = open_aside(place)
        try:
            position = end
            while position < size:
                position += os.write(aside, os.pread(fd, CHUNK, position))
            os.fsync(aside)
        finally:
            os.close(aside)
        os.ftruncate(fd, end)
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(os.path.dirname(place.path))
    return os.path.basename(path)


def open_aside(place: SegmentFile) -> tuple[int, str]:
    for number in range(1, 10_000):
        path = f"{place.path}.torn-{number}"
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path
        except FileExistsError:
            continue
    raise OSError(errno.EEXIST, "there are too many torn files", place.path)
