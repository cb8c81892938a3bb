"""The file that keeps what hooks remember: a line for each change, before the change counts.  Knows bytes and one file.

    header       the first line; it comes with the file, which is renamed into place
    each change  a line `crc32 json`, which survives any kill of the daemon
    rewriting    when the file has grown far beyond what it holds, a new one is written beside it and renamed over it;
                 changes meanwhile go into both

A last line without its end was never told of, and is cut off.  Anything else that is not as it was written is a fault:
what cannot be read is never taken for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from zlib import crc32

import msgspec

from hooklatch.service.config.file_safety import UnsafeFileError, read_safely

__all__ = ["Change", "Journal", "JournalError", "seal"]

MAX_FILE = 256 * 2**20  # bytes; it is rewritten long before
HEADER = b"hooklatch kept state 1\n"


class JournalError(Exception):
    """The file cannot be read or written: why, and what to do."""


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What one place holds under one key from the moment `at` on (seconds since 1970), for `left` seconds or for ever.

    `value` is JSON; none: nothing.  No key: nothing under any key of the place.
    """

    at: float
    layer: str
    within: str
    source: str
    scope: str
    key: str = ""
    value: str = ""
    left: float | None = None


CHANGES: msgspec.json.Decoder[Change] = msgspec.json.Decoder(Change)


def seal(change: Change) -> bytes:
    """Return a change as its line."""
    try:
        body = msgspec.json.encode(change)
    except UnicodeEncodeError:  # of a path that is not UTF-8
        raise JournalError(f"{change.source!r} cannot be written as UTF-8; rename it") from None
    return b"%08x %b\n" % (crc32(body), body)


class Journal:
    """The file, open for appending."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "kept-state")
        self.size = 0
        self._fd = -1
        self._is_torn = False
        self._meanwhile: list[bytes] | None = None  # what was appended while a new file is written

    def open(self) -> Iterator[Change]:
        """Open it, or create it; yield what it holds, from the oldest change on.

        Raises:
            JournalError: it cannot be read, or is not as it was written.
        """
        try:
            data = read_safely(self.path, most=MAX_FILE)
        except FileNotFoundError:
            data = HEADER
            self.replace_by(self.write_beside(b""))
            self.sync_folder()
        except (UnsafeFileError, OSError) as error:
            raise JournalError(f"{self.path}: {error}; mend it, then restart") from None
        changes = list(read(self.path, data))
        whole = data.rfind(b"\n") + 1
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
            if whole < len(data):
                os.ftruncate(self._fd, whole)
        except OSError as error:
            raise self._unwritable(error) from None
        self.size = whole
        return iter(changes)

    def append(self, line: bytes) -> None:
        """Write a line; from here on it survives this process.

        Raises:
            JournalError: it is not written, and nothing of it is left.
        """
        if self._is_torn:
            raise JournalError(f"{self.path}: half a line could not be taken back; restart the daemon")
        try:
            written = os.write(self._fd, line)
            if written < len(line):
                raise OSError(0, "only a part of a line could be written")
        except OSError as error:
            try:
                os.ftruncate(self._fd, self.size)
            except OSError:
                self._is_torn = True
            raise self._unwritable(error) from None
        self.size += len(line)
        if self._meanwhile is not None:
            self._meanwhile.append(line)

    def sync(self) -> None:
        """Bring what is written to the disk; in a thread.

        Raises:
            JournalError: its content is unknown.
        """
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._unwritable(error) from None

    def is_in_place(self) -> bool:
        """Return whether the file that is written is still the one that would be read."""
        try:
            there, here = os.stat(self.path, follow_symlinks=False), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def begin_rewriting(self) -> None:
        """From here on keep what is appended for the new file too."""
        self._meanwhile = []

    def write_beside(self, lines: bytes) -> int:
        """Write a new file of these lines beside the present one, on the disk; in a thread.  Gives its descriptor.

        Raises:
            JournalError: it could not be written.
        """
        fd = -1
        try:
            fd = os.open(f"{self.path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
            write_all(fd, HEADER + lines)
            os.fsync(fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise self._unwritable(error) from None
        return fd

    def replace_by(self, fd: int) -> None:
        """Put the new file in the place of the present one, with what was appended meanwhile.

        Raises:
            JournalError: the present one stays.
        """
        try:
            write_all(fd, b"".join(self._meanwhile or ()))
            size = os.fstat(fd).st_size
            os.rename(f"{self.path}.new", self.path)
        except OSError as error:
            os.close(fd)
            raise self._unwritable(error) from None
        finally:
            self._meanwhile = None
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.size, self._is_torn = fd, size, False

    def give_up_rewriting(self) -> None:
        self._meanwhile = None

    def sync_folder(self) -> None:
        """Bring the file's name to the disk; in a thread."""
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _unwritable(self, error: OSError) -> JournalError:
        return JournalError(f"{self.path} cannot be written: {error.strerror or error}")


def read(path: str, data: bytes) -> Iterator[Change]:
    if not data.startswith(HEADER):
        raise broken(path, 1)
    *lines, _ = data[len(HEADER) :].split(b"\n")
    for number, line in enumerate(lines, 2):
        try:
            if len(line) < 9 or int(line[:8], 16) != crc32(line[9:]):
                raise broken(path, number)
            yield CHANGES.decode(line[9:])
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            raise broken(path, number) from None


def broken(path: str, number: int) -> JournalError:
    return JournalError(
        f"{path}:{number}: it is not as it was written; put a copy in its place, or delete it"
        " and every count begins again; then restart"
    )


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
