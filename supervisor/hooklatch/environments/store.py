"""The directory of made environments, their locks, and the removal of unused ones.

An environment is whole once its `ready` file is there.  A process that makes, uses or removes one holds its lock, a
file beside it, and while it makes it a second one: several daemons of one user, and `hooklatch test`, share this
directory.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from contextlib import suppress
from typing import Literal

import trio

from hooklatch.errors import describe_error
from hooklatch.files import open_regular
from hooklatch.processes.environment_slot import EnvironmentFaultError
from hooklatch_worker.sandbox.safety import UnsafeFileError, check_folders

__all__ = [
    "KEPT_DAYS", "READY", "lock_environment", "lock_if_ready", "is_ready", "wait_for_environment_lock",
    "make_root", "remove_unused_environments", "note_environment_use",
]  # fmt: skip

logger = logging.getLogger("hooklatch.environments")
READY = "ready"  # the last file that is written into an environment
KEPT_DAYS = 14  # since its last use


def is_ready(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, READY))


def note_environment_use(folder: str) -> None:
    """Note that an environment is in use now."""
    os.utime(os.path.join(folder, READY))


def lock_environment(folder: str, how: int, what: Literal["lock", "making"] = "lock") -> int | None:
    """Lock an environment, so that no other daemon removes it; return None if another one holds a lock that forbids it.

    `how` is fcntl.LOCK_EX for removing, fcntl.LOCK_SH for using and making.  With `what="making"`, the lock keeps other
    processes from making it.
    """
    fd = open_regular(f"{folder}.{what}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


async def wait_for_environment_lock(folder: str, how: int, what: Literal["lock", "making"] = "lock") -> int:
    """Wait until an environment can be locked, and lock it as `lock_environment` does."""
    while (fd := lock_environment(folder, how, what)) is None:  # noqa: ASYNC110  (it is another process that gives it up)
        await trio.sleep(0.2)
    return fd


def make_root(folder: str) -> None:
    """Make the directory of all environments, which no other user can enter.

    Raises:
        UnsafeFileError: another user could write to it.
        OSError: it cannot be made.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    check_folders(folder)
    os.chmod(folder, 0o700)


def lock_if_ready(folder: str) -> int | None:
    """Lock an environment for use if it is there, and no other user could have made it; else return None."""
    if not is_ready(folder):
        return None
    try:
        make_root(os.path.dirname(folder))
        check_folders(folder)
        lock = lock_environment(folder, fcntl.LOCK_SH)
    except (UnsafeFileError, OSError) as error:
        raise EnvironmentFaultError(describe_error(error)) from None
    if lock is not None and not is_ready(folder):  # removed before it was locked
        os.close(lock)
        return None
    if lock is not None:
        with suppress(OSError):  # the disk is full or read only, which does not matter for its use
            note_environment_use(folder)
    return lock


def remove_unused_environments(root: str, kept_seconds: float = KEPT_DAYS * 86400.0) -> None:
    """Remove the environments that were not used for so long, and the remains of unfinished ones.

    An environment that a process uses or makes is locked, and stays.
    """
    try:
        names = [entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return  # no environment has been made yet
    for name in names:
        folder = os.path.join(root, name)
        try:
            age = time.time() - os.stat(os.path.join(folder, READY)).st_mtime
        except OSError:
            age = kept_seconds + 1
        if age <= kept_seconds or (lock := lock_environment(folder, fcntl.LOCK_EX)) is None:
            continue
        try:
            with suppress(OSError):
                os.unlink(os.path.join(folder, READY))  # first: a half removed environment must not count as whole
            shutil.rmtree(folder, ignore_errors=True)
            logger.info("unused environment removed", extra={"path": folder})
        finally:
            os.close(lock)  # the file of the lock stays: another process may be about to lock it
