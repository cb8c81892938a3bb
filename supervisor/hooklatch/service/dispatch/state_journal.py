"""The journal of shared state: one line for each change, before the change counts.  Knows bytes and one file.

    header       the first line; it comes with the file, which is renamed into place
    each change  a line `crc32 json`, which survives any kill of the daemon
    rewriting    when the file has grown far beyond its content, a new one is written beside it and renamed over it;
                 changes during that go into both

A last line without its end was never acknowledged, and is cut off.  Any other damage is a fault: an unreadable journal
is never treated as empty.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from zlib import crc32

import msgspec

from hooklatch.core.keyspace import StateScope, StoredValue
from hooklatch.directories import sync_folder
from hooklatch.errors import JournalError, explain_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.files import create_anew, open_regular
from hooklatch_worker.systems.disks import sync_all, sync_data

__all__ = ["StateChange", "StateJournal", "seal_change"]

MAX_FILE = 256 * 2**20  # bytes; it is rewritten long before
HEADER = b"hooklatch kept state 1\n"


class StateChange(msgspec.Struct, frozen=True, array_like=True):
    """The value of a key since the moment `changed_at` (seconds since 1970), for `ttl` seconds or without an end.

    `owner` is the plugin or the project of the source.  `value` is JSON; without it, the key is removed.  Without a
    key, every key of the scope is removed.
    """

    changed_at: float
    layer: str
    owner: str
    source: str
    scope: str
    key: str = ""
    value: str = ""
    ttl: float | None = None


CHANGES: msgspec.json.Decoder[StateChange] = msgspec.json.Decoder(StateChange)


def seal_change(change: StateChange) -> bytes:
    """Encode a change as a line."""
    try:
        body = msgspec.json.encode(change)
    except UnicodeEncodeError:  # a path that is not UTF-8
        raise JournalError(f"{change.source!r} cannot be written as UTF-8; rename it") from None
    return b"%08x %b\n" % (crc32(body), body)


class StateJournal:
    """The file, open for appending."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "kept-state")
        self.size, self._fd, self._is_torn = 0, -1, False
        self._appended: list[bytes] | None = None  # while a new file is written: the lines that must go into it too

    def open(self) -> Iterator[StateChange]:
        """Open or create the file; yield its changes, from the oldest on.

        Raises:
            JournalError: it cannot be read, or is damaged.
        """
        try:
            data = read_safely(self.path, maximum=MAX_FILE)
        except FileNotFoundError:
            data = HEADER
            self.replace_by(self.write_beside(b""))
            self.sync_folder()
        except (UnsafeFileError, OSError) as error:
            raise JournalError(f"{self.path}: {explain_error(error)}; fix it, then restart") from None
        changes = list(read_changes(self.path, data))
        whole = data.rfind(b"\n") + 1
        try:
            if self._fd < 0:
                self._fd = open_regular(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            if whole < len(data):
                os.ftruncate(self._fd, whole)
        except OSError as error:
            raise self._write_error(error) from None
        self.size = whole
        return iter(changes)

    def append(self, line: bytes) -> None:
        """Write a line; once this returns, the line survives this process.

        Raises:
            JournalError: it is not written, not even in part.
        """
        try:
            if self._is_torn:  # a part of an earlier line is there, and the disk may be well again
                os.ftruncate(self._fd, self.size)
            self._is_torn = True
            # A disk that is full takes a part; the rest could fail too, so the part is cut off below.
            if os.write(self._fd, line) < len(line):
                raise OSError(0, "only a part of a line could be written")
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
                self._is_torn = False
            raise self._write_error(error) from None
        self.size, self._is_torn = self.size + len(line), False
        if self._appended is not None:
            self._appended.append(line)

    def seal(self, scope: StateScope, key: str, entry: StoredValue | None, now: float) -> bytes:
        """Return the line of a value's change; `now` is in seconds since boot.

        Raises:
            JournalError: it cannot be written as UTF-8.
        """
        namespace = scope.namespace
        ttl = entry.ends_at - now if entry is not None and entry.ends_at < math.inf else None
        value = entry.value.decode() if entry is not None else ""
        owner = namespace.layer, namespace.within, namespace.source
        return seal_change(StateChange(time.time(), *owner, scope.scope, key, value, ttl))

    def sync(self) -> None:
        """Sync the file to the disk; runs in a thread.

        Raises:
            JournalError: what is on the disk is unknown.
        """
        try:
            sync_data(self._fd)
        except OSError as error:
            raise self._write_error(error) from None

    def is_in_place(self) -> bool:
        """Return whether the open file is still the one at its path."""
        try:
            there, here = os.stat(self.path, follow_symlinks=False), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def begin_rewriting(self) -> None:
        """Keep the lines that are appended from now on for the new file too."""
        self._appended = []

    def write_beside(self, lines: bytes) -> int:
        """Write a new file of these lines beside the present one, sync it, and return its descriptor; runs in a thread.

        Raises:
            JournalError: it could not be written.
        """
        fd = -1
        try:
            fd = create_anew(f"{self.path}.new", os.O_APPEND)
            write_all(fd, HEADER + lines)
            sync_all(fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise self._write_error(error) from None
        return fd

    def replace_by(self, fd: int) -> None:
        """Rename the new file over the present one, with the lines that were appended since `begin_rewriting`.

        Raises:
            JournalError: the present one stays.
        """
        try:
            write_all(fd, b"".join(self._appended or ()))
            size = os.fstat(fd).st_size
            os.rename(f"{self.path}.new", self.path)
        except OSError as error:
            os.close(fd)
            raise self._write_error(error) from None
        finally:
            self._appended = None
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.size, self._is_torn = fd, size, False

    def give_up_rewriting(self) -> None:
        self._appended = None

    def sync_folder(self) -> None:
        """Sync the file's name to the disk; runs in a thread."""
        sync_folder(os.path.dirname(self.path))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write_error(self, error: OSError) -> JournalError:
        return JournalError(f"{self.path} cannot be written: {error.strerror or error}")


def read_changes(path: str, data: bytes) -> Iterator[StateChange]:
    if not data.startswith(HEADER):
        raise describe_broken_line(path, 1)
    *lines, _ = data[len(HEADER) :].split(b"\n")
    for number, line in enumerate(lines, 2):
        try:
            if len(line) < 9 or int(line[:8], 16) != crc32(line[9:]):
                raise describe_broken_line(path, number)
            yield CHANGES.decode(line[9:])
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            raise describe_broken_line(path, number) from None


def describe_broken_line(path: str, number: int) -> JournalError:
    return JournalError(
        f"{path}:{number}: the line is damaged; restore the file from a copy, or delete it, which sets every count to"
        " zero; then restart"
    )


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
