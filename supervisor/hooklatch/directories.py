"""Locks and syncs for the directories of the record and the state: one process at a time, and entries on the disk."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from hooklatch.files import open_regular

__all__ = ["LockedError", "lock_directory", "sync_folder"]


class LockedError(Exception):
    """Another process holds a directory; `holder` is its pid, as far as that can be read."""

    def __init__(self, folder: str, holder: str) -> None:
        super().__init__(f"another hooklatch daemon (pid {holder}) already uses {folder}")
        self.holder = holder


def lock_directory(folder: str, name: str) -> int:
    """Lock a directory for the life of this process; return the descriptor to keep open.

    Raises:
        LockedError: another process holds it.
        OSError: it cannot be locked.
    """
    path = os.path.join(folder, name)
    fd = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise LockedError(folder, holder) from None
    except OSError as error:
        os.close(fd)
        raise OSError(error.errno, f"{error.strerror}; a lock needs a local filesystem", path) from None
    with suppress(OSError):  # fails on a full disk; the pid is only informational
        os.pwrite(fd, b"%-10d\n" % os.getpid(), 0)
    return fd


def sync_folder(folder: str) -> None:
    """Bring a directory's entries to the disk.

    Raises:
        OSError: they may not be there.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
