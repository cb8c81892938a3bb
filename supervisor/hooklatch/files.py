"""Functions that open files in folders where a hook, an agent or a mistake may have put something else.

They raise OSError where a file cannot be opened or made, or is something else.

Opening a pipe waits for its other end, so a pipe with the name of a file would block the daemon for any time.
`tests/test_opens.py` checks that all files are opened here, except for those that a person has just named.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader

__all__ = ["create_anew", "open_regular", "open_regular_file"]


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file; with O_CREAT, a new file is private to this user."""
    # O_NONBLOCK: a pipe opens at once, and is then refused; for a regular file the flag means nothing.
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return fd


def open_regular_file(path: str) -> BufferedReader:
    """Open a regular file for reading."""
    return os.fdopen(open_regular(path), "rb")


def create_anew(path: str, flags: int = 0) -> int:
    """Make an empty private file for writing, in place of an earlier file or link of its name."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
