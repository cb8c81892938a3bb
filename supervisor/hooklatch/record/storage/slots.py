"""A small file with one line that is overwritten in place: metadata of the record.  Does not know what it means.

The line has a fixed length shorter than a disk sector, so no crash leaves it half written; the file is completed before
it is renamed into place, so no crash leaves it empty.  A concurrent reader may see a mixture of two lines: the digest
at the end reveals that.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from hashlib import sha256

from hooklatch.directories import replace_file
from hooklatch.files import open_regular

__all__ = ["SlotFile", "SlotError", "read_form", "read_slot", "encode_slot_line"]

DIGEST = 16  # hexadecimal digits
ATTEMPTS = 20


class SlotError(Exception):
    """The file exists, but cannot be read."""


def encode_slot_line(text: bytes) -> bytes:
    return b"%b %b\n" % (text, sha256(text).hexdigest()[:DIGEST].encode())


def read_slot(path: str) -> bytes | None:
    """Return the content of a slot; None if there is no file.

    Raises:
        SlotError: it cannot be read, or holds something else.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(0.001)
        try:
            fd = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                line = os.read(fd, 1024)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SlotError(f"{path} cannot be read: {error.strerror}") from None
        text = line[: -DIGEST - 2]
        if line == encode_slot_line(text):
            return text
    raise SlotError(f"{path} does not hold what was written to it; another program or the disk changed it")


def read_form(path: str, form: re.Pattern[bytes], what: str) -> re.Match[bytes] | None:
    """Return the content of a slot, which has this form; None if there is no file.

    Raises:
        SlotError: it cannot be read, or holds something else.
    """
    text = read_slot(path)
    if text is None:
        return None
    match = form.fullmatch(text)
    if match is None:
        raise SlotError(f"{path} does not hold {what}; something else wrote to it")
    return match


def write_slot(fd: int, text: bytes) -> None:
    """Write a line to its end: of what a disk takes only a part, the rest would be of the line before."""
    line, done = encode_slot_line(text), 0
    while done < len(line):
        done += os.pwrite(fd, line[done:], done)


class SlotFile:
    """A slot that is open for writing.  Its methods raise OSError where it cannot be created, opened or written."""

    def __init__(self, path: str, text: bytes) -> None:
        """Open or create the file, and set it to `text`."""
        self.path = path
        self._text = text
        self.fd = self._open()

    def write(self, text: bytes) -> None:
        """Overwrite the content; the next sync of `fd` brings it to disk."""
        write_slot(self.fd, text)
        self._text = text

    def is_in_place(self) -> bool:
        """Return whether the path still refers to the open file."""
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        own = os.fstat(self.fd)
        is_same_file = (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)
        return is_same_file and named.st_size == len(encode_slot_line(self._text))

    def reopen(self) -> None:
        """Create the file at the path again, with the same content."""
        self._create()
        fd, self.fd = self.fd, open_regular(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        os.close(fd)

    def _open(self) -> int:
        before = None
        with suppress(SlotError):
            before = read_slot(self.path)
        if before is None or len(before) != len(self._text):
            self._create()
        fd = open_regular(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        if before != self._text:
            write_slot(fd, self._text)  # in place, since that needs no space on a full disk
        return fd

    def _create(self) -> None:
        replace_file(self.path, encode_slot_line(self._text))

    def close(self) -> None:
        os.close(self.fd)
