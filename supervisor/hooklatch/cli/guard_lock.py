"""The file shared-guards.lock beside a file of hooks: the sources of shared guards, and the digests of what was taken.

The paths of a guard follow from its name alone, and a name holds no slash and no dot: a lock that others wrote, such as
that of a project, leads to no other file.  Knows no network and runs nothing.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import NamedTuple

import msgspec

from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.errors import locate_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.git_sources import LOCK, GuardLock, guard_paths

__all__ = [
    "LockDifference", "encode_lock", "list_differences", "lock_path", "read_lock", "read_present",
]  # fmt: skip


class LockDifference(NamedTuple):
    """A file that is not as the lock says: its guard, its path, and what is different.

    An edit is allowed.  A file that is not there, or cannot be read, guards nothing.
    """

    name: str
    path: str
    what: str
    is_edit: bool = False


def lock_path(config: str) -> str:
    """Return the path of the lock beside a file of hooks."""
    return os.path.join(os.path.dirname(os.path.abspath(config)), LOCK)


def read_lock(path: str) -> tuple[GuardLock, bytes | None]:
    """Return a lock and its bytes; one without guards, and None, if there is no such file.

    Raises:
        CommandError: it is there and cannot be read, or is not a lock.
    """
    try:
        data = read_present(path)
        return GuardLock(1, {}) if data is None else msgspec.json.decode(data, type=GuardLock), data
    except (OSError, UnsafeFileError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CommandError(
            Exit.BAD_DATA,
            f"{path} cannot be read, so the sources of shared guards are unknown: {locate_error(error)}; "
            "restore it, or move it away and add them again: hooklatch guards add SOURCE@REV",
        ) from None


def read_present(path: str) -> bytes | None:
    """Return the content of a file; None if nothing of its name is there, not even a link.

    Raises:
        OSError, UnsafeFileError: it is there and cannot be read.
    """
    try:
        return read_safely(path)
    except FileNotFoundError:
        if os.path.lexists(path):
            raise
        return None


def encode_lock(lock: GuardLock) -> bytes:
    return msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=2) + b"\n"


def list_differences(folder: str, lock: GuardLock) -> list[LockDifference]:
    """Return the files of shared guards that are not as they were taken."""
    found: list[LockDifference] = []
    for name, locked in lock.guards.items():
        for path, digest in zip(guard_paths(folder, name), locked.digests, strict=True):
            try:
                data = read_present(path)
            except (OSError, UnsafeFileError) as error:
                found.append(LockDifference(name, path, f"cannot be read: {locate_error(error)}"))
                continue
            if data is None:
                found.append(LockDifference(name, path, f"was taken from {locked.origin} and is not there"))
            elif sha256(data).hexdigest() != digest:
                what = (
                    f"was edited since it was taken from {locked.origin}: its digest is not that of shared-guards.lock"
                )
                found.append(LockDifference(name, path, what, is_edit=True))
    return found
