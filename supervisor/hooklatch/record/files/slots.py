"""A small file of one line that is written over in place: what is known of the record beside it.  Knows no meaning.

The line is of one length always and shorter than a sector, so no crash leaves a part of it; the file is made whole and
then given its name, so no crash leaves it empty.  Who reads while it is written may see a mixture: the digest at its
end shows that.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256

__all__ = ["Slot", "SlotError", "read_slot", "slot_line"]

DIGEST = 16  # hexadecimal digits
ATTEMPTS = 20


class SlotError(Exception):
    """There is such a file, and it cannot be read."""


def slot_line(text: bytes) -> bytes:
    return b"%b %b\n" % (text, sha256(text).hexdigest()[:DIGEST].encode())


def read_slot(path: str) -> bytes | None:
    """Return what a file holds; None where there is none.

    Raises:
        SlotError: it holds something that was not written here.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(0.001)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                line = os.read(fd, 1024)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SlotError(f"{path} cannot be read: {error.strerror}") from None
        text = line[: -DIGEST - 2]
        if line == slot_line(text):
            return text
    raise SlotError(f"{path} does not hold what was written to it; somebody changed it, or the disk did")


class Slot:
    """Such a file, written to."""

    def __init__(self, path: str, text: bytes) -> None:
        """Open a file that holds `text`, or make it hold that.

        Raises:
            OSError: it cannot be made or opened.
        """
        self._path = path
        self._text = text
        self.fd = self._opened()

    def write(self, text: bytes) -> None:
        """Set it; it is on the disk after the next sync of `fd`.

        Raises:
            OSError: it could not be written.
        """
        os.pwrite(self.fd, slot_line(text), 0)
        self._text = text

    def is_in_place(self) -> bool:
        """Return whether the file is still the one that is written to."""
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False
        own = os.fstat(self.fd)
        return (named.st_dev, named.st_ino, named.st_size) == (own.st_dev, own.st_ino, len(slot_line(self._text)))

    def reopen(self) -> None:
        """Give the name a file again that holds what this one does.

        Raises:
            OSError: it cannot be made.
        """
        self._make()
        fd, self.fd = self.fd, os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        os.close(fd)

    def _opened(self) -> int:
        before = None
        with suppress(SlotError):
            before = read_slot(self._path)
        if before is None or len(before) != len(self._text):
            self._make()
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if before != self._text:
            os.pwrite(fd, slot_line(self._text), 0)  # in place: that needs no room on a full disk
        return fd

    def _make(self) -> None:
        fresh = f"{self._path}.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, slot_line(self._text))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, self._path)
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        os.close(self.fd)
