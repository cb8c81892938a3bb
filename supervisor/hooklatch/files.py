"""Opens files in folders where a hook, an agent or a mistake may have put something else.  Knows no path, no content.

Opening a pipe waits for its other end, so one with the name of a file would hold up whoever opens it, for as long as it
likes.  `tests/test_opens.py` holds that files are opened here, but those that a person has just named.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader

__all__ = ["create_anew", "open_regular", "open_regular_file"]


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file; one that O_CREAT makes is this user's alone.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return fd


def open_regular_file(path: str) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    return os.fdopen(open_regular(path), "rb")


def create_anew(path: str, flags: int = 0) -> int:
    """Make an empty file of this user's alone for writing, in place of whatever had its name.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
