"""Which files may hold hooks: what another user could have written must not run.  Knows owners and modes only.

The rule is that of sshd's StrictModes: the file and each folder above it belong to the user or to root and are not
writable by others; a sticky folder (/tmp) is accepted above, but never as the file's own.  Of a symbolic link, both
ends are held to it.
"""

from __future__ import annotations

import os
import stat

__all__ = ["UnsafeFileError", "read_safely"]

MAX_FILE = 4 * 2**20  # bytes of a file that holds hooks


class UnsafeFileError(Exception):
    """A file that must not be run, with the command that mends it."""


def read_safely(path: str) -> bytes:
    """Read a file that nobody but the user and root could have written.

    Raises:
        UnsafeFileError: somebody else could have.
        OSError: it cannot be read.
    """
    if "\0" in path:
        raise UnsafeFileError(f"{path!r} is no path")
    real = os.path.realpath(path)
    fd = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFileError(f"{path} is no regular file")
        check(real, status)
        check_folders(os.path.dirname(real))
        check_folders(os.path.dirname(os.path.abspath(path)))
        with open(fd, "rb", closefd=False) as file:
            data = file.read(MAX_FILE + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_FILE:
        raise UnsafeFileError(f"{path} is over {MAX_FILE // 2**20} MiB")
    return data


def check_folders(folder: str) -> None:
    check(folder, os.stat(folder))
    while folder != "/":
        folder = os.path.dirname(folder)
        check(folder, os.stat(folder), is_above=True)


def check(path: str, status: os.stat_result, *, is_above: bool = False) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeFileError(f"{path} belongs to user {status.st_uid}; mend it with: chown {os.geteuid()} {path}")
    if is_above and status.st_mode & stat.S_ISVTX:
        return
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFileError(f"{path} is writable by others; mend it with: chmod go-w {path}")
