"""The reader of a record in order from any number on, while it grows and while retention removes its beginning.

It changes no file.  Nothing read is trusted: a line may be damaged, a segment may be gone or another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO

import msgspec

from hooklatch.files import open_regular, open_regular_file
from hooklatch.record.storage.chain import ChainLink, read_link, read_tail
from hooklatch.record.storage.reading import list_record_segments
from hooklatch.record.storage.segments import SegmentFile, list_segments

__all__ = ["RecordCursor", "RecordChangedError", "find_newest_link", "read_seq"]

SEQ = re.compile(rb'\{"seq":([1-9][0-9]{0,17}),')
NEAR = 64 * 1024  # bytes to read through instead of halving further
CHUNK = 256 * 1024
MAX_LINE = 16 * 2**20  # bytes; a record has at most some 2 MiB, so a longer line is damage


class RecordChangedError(Exception):
    """Entries that were read already were removed, replaced or shortened by something other than retention."""


class ReadPosition(msgspec.Struct):
    """The end of the last line that was taken: in which file, and where."""

    place: SegmentFile
    identity: tuple[int, int]
    offset: int


def read_seq(line: bytes) -> int | None:
    """Return the number of a record without checking it; None if the line does not begin like one."""
    match = SEQ.match(line)
    return int(match[1]) if match is not None else None


def find_newest_link(folder: str) -> ChainLink | None:
    """Return the last valid record, reading only the ends of files; None if there is none.

    Raises:
        OSError: it cannot be read.
    """
    for place in reversed(list_segments(folder)):
        with suppress(FileNotFoundError):
            if (tail := read_tail(place)) is not None:
                return tail.link
    return None


class RecordCursor:
    """A place between two records.  `seek` it before reading; `missed` counts segments that went unread."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.missed = 0
        self._at: ReadPosition | None = None
        self._last = b""  # the last line before the place, to recognize it

    @classmethod
    def at_end(cls, folder: str) -> RecordCursor:
        """Return a cursor behind the newest record.

        Raises:
            NoRecordError: there is no record.
            OSError: it cannot be read.
        """
        list_record_segments(folder)
        cursor, newest = cls(folder), find_newest_link(folder)
        cursor.seek(newest.seq if newest is not None else 0)
        return cursor

    def seek(self, after: int) -> ChainLink | None:
        """Go behind the record with this number, or where it would be; return it if it is there and valid.

        Raises:
            OSError: the record cannot be read.
        """
        self._at, self._last = None, b""
        segments = list_segments(self.folder)
        before = [place for place in segments if place.first <= after]
        for place in reversed(before or segments[:1]):
            with suppress(FileNotFoundError), open_regular_file(place.path) as file:
                status = os.fstat(file.fileno())
                offset, line = locate_entry(file.fileno(), status.st_size, after)
                self._at, self._last = ReadPosition(place, (status.st_dev, status.st_ino), offset), line
                link = read_link(line) if line else None
                return link if link is not None and link.seq == after else None
        return None

    def has_more(self) -> bool:
        """Return whether a look for more lines may find some: cheap, for asking often.

        Raises:
            OSError: the record cannot be read.
        """
        at = self._at
        if at is None:
            return bool(list_segments(self.folder))
        try:
            if os.stat(at.place.path).st_size != at.offset:
                return True
        except FileNotFoundError:
            return True
        return bool(self._later_segments())

    def read(self, maximum: int = CHUNK) -> list[bytes]:
        """Return the next complete lines, some `maximum` bytes of them and at least one if there is one.

        Raises:
            RecordChangedError: seek again.
            OSError: the record cannot be read.
        """
        if self._at is None and not self._enter(list_segments(self.folder)):
            return []
        while True:
            later = self._later_segments()  # looked up first: once there is one, nothing is appended to this one
            lines = self._read_lines(maximum)
            if lines or not self._enter(later):
                return lines

    def read_new(self) -> Iterator[bytes]:
        """Yield all complete lines that there are by now, with the exceptions of `read`."""
        while lines := self.read():
            yield from lines

    def check(self) -> None:
        """Look whether the last line before the place is still what was read.

        Raises:
            RecordChangedError: it is not.
            OSError: the record cannot be read.
        """
        at = self._at
        if at is None or not self._last:
            return
        with suppress(FileNotFoundError), open_regular_file(at.place.path) as file:
            data = os.pread(file.fileno(), len(self._last), at.offset - len(self._last))
            if data != self._last:
                raise RecordChangedError(f"{at.place.path} does not hold any more what was read from it")

    def _later_segments(self) -> list[SegmentFile]:
        assert self._at is not None
        first = self._at.place.first
        return [place for place in list_segments(self.folder) if place.first > first]

    def _enter(self, places: list[SegmentFile]) -> bool:
        """Go to the beginning of the first of these that is still there; return whether there is one."""
        for place in places:
            with suppress(FileNotFoundError):
                status = os.stat(place.path)
                self._at, self._last = ReadPosition(place, (status.st_dev, status.st_ino), 0), b""
                return True
        return False

    def _read_lines(self, maximum: int) -> list[bytes]:
        at = self._at
        assert at is not None
        try:
            fd = open_regular(at.place.path)
        except FileNotFoundError:
            if not self._later_segments():
                raise RecordChangedError(f"{at.place.path} was removed, and it is the newest segment") from None
            self.missed += 1  # retention; whether it held unread records is told by the chain
            return []
        try:
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != at.identity:
                raise RecordChangedError(f"{at.place.path} was replaced")
            if status.st_size < at.offset:
                raise RecordChangedError(f"{at.place.path} was shortened to {status.st_size} bytes")
            if os.pread(fd, len(self._last), at.offset - len(self._last)) != self._last:
                raise RecordChangedError(f"{at.place.path} does not hold any more what was read from it")
            data, skipped = read_lines_at(fd, at.offset, maximum)
        finally:
            os.close(fd)
        if not data:
            return []
        lines = list(BytesIO(data))
        at.offset += len(data) + skipped
        self._last = lines[-1] if not skipped else b""
        return lines


def read_lines_at(fd: int, offset: int, maximum: int) -> tuple[bytes, int]:
    """Return complete lines from an offset on, and how many more bytes belong to a line that is too long to be one."""
    size = maximum
    while True:
        data = os.pread(fd, size, offset)
        end = data.rfind(b"\n") + 1
        if end or len(data) < size:
            return data[:end], 0
        if size >= MAX_LINE:
            break
        size = min(MAX_LINE, size * 4)
    position = offset + len(data)
    while chunk := os.pread(fd, CHUNK, position):
        if (end := chunk.find(b"\n") + 1) > 0:
            return b"\n", position + end - offset - 1  # an empty line stands for it
        position += len(chunk)
    return b"", 0


def locate_entry(fd: int, size: int, after: int) -> tuple[int, bytes]:
    """Return the end of the record with this number, and its line; else where a later one begins, and nothing.

    Numbers ascend, so halving finds it; if it is not where it should be, all of the file is read through.
    """
    low, high = 0, size
    while high - low > NEAR:
        middle = (low + high) // 2
        begin = find_next_line(fd, middle, high)
        seq = read_seq(os.pread(fd, 64, begin)) if begin < high else None
        if seq is None and begin < high:
            return scan_entries(fd, 0, after)
        if seq is None or seq > after:
            high = middle
        else:
            low = begin
    place = scan_entries(fd, low, after)
    return place if place[1] or low == 0 else scan_entries(fd, 0, after)


def find_next_line(fd: int, offset: int, end: int) -> int:
    """Return where the first line that begins behind an offset begins; `end` if there is none."""
    while offset < end and (data := os.pread(fd, NEAR, offset)):
        if (newline_end := data.find(b"\n") + 1) > 0:
            return min(end, offset + newline_end)
        offset += len(data)
    return end


def scan_entries(fd: int, offset: int, after: int) -> tuple[int, bytes]:
    """Read lines from an offset on until one has this number or a higher one; return as `locate_entry` does."""
    while True:
        data, skipped = read_lines_at(fd, offset, CHUNK)
        if not data:
            return offset, b""
        for line in BytesIO(data):
            seq = read_seq(line)
            if seq is not None and seq > after:
                return offset, b""
            offset += len(line)
            if seq == after:
                return offset, line
        offset += skipped
