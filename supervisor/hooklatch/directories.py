"""Locks and syncs for the directories of the record and the state: one process at a time, and entries on the disk."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from hooklatch.files import create_anew, open_regular
from hooklatch_worker.systems.disks import sync_all

__all__ = ["LockedError", "lock_directory", "replace_file", "sync_folder"]


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


def replace_file(path: str, data: bytes, *, temporary: str | None = None) -> None:
    """Write a file that only this user can read.  After a crash at any moment there is the old one or this one, whole.

    Several processes that may write it at once name a `temporary` file each.

    Raises:
        OSError: it may not be on the disk.
    """
    new = temporary or f"{path}.new"
    fd = create_anew(new)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)  # also where an odd umask took rights from the owner
            file.write(data)
            file.flush()
            sync_all(fd)
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise
    sync_folder(os.path.dirname(path) or ".")


def sync_folder(folder: str) -> None:
    """Bring a directory's entries to the disk.

    Raises:
        OSError: they may not be there.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_all(fd)
    finally:
        os.close(fd)
