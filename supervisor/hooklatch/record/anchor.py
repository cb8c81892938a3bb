"""The anchor: the newest record that is on the disk, told beside the record itself.  Knows one small file.

What is cut off the end of a chain leaves a chain that is whole.  The anchor shows it, up to the last sync.
"""

from __future__ import annotations

import os
import re

__all__ = ["Anchor", "AnchorError", "read_anchor"]

NAME = "anchor"
FORM = re.compile(rb"(\d{18}) ([0-9a-f]{64})\n")  # of one length always, so that writing it over leaves nothing


class AnchorError(Exception):
    """There is an anchor and it cannot be read."""


def read_anchor(folder: str) -> tuple[int, str] | None:
    """Give the number and the hash that it holds; None where there is none.

    Raises:
        AnchorError: it holds something else.
    """
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            match = FORM.fullmatch(file.read(1024))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AnchorError(f"{path} cannot be read: {error.strerror}") from None
    if match is None:
        raise AnchorError(f"{path} holds no anchor; somebody wrote to it")
    return int(match[1]), match[2].decode()


class Anchor:
    """The anchor of a record that is written to."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NAME)
        self.fd = self._opened()

    def write(self, seq: int, own: str) -> None:
        """Set it; it is on the disk after the next sync of `fd`.

        Raises:
            OSError: it could not be written.
        """
        os.pwrite(self.fd, b"%018d %b\n" % (seq, own.encode()), 0)

    def is_in_place(self) -> bool:
        """Say whether the file is still the one that is written to."""
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False
        own = os.fstat(self.fd)
        return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)

    def reopen(self) -> None:
        """Write to the file that has the name now.

        Raises:
            OSError: it cannot be opened.
        """
        fd, self.fd = self.fd, self._opened()
        os.close(fd)

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def close(self) -> None:
        os.close(self.fd)
