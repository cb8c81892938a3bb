"""Mounts, paths, the durability of files, and clocks on macOS.  It has the names of `linux_disks.py`."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import time
import unicodedata
from collections.abc import Mapping
from typing import Any

__all__ = [
    "allocate_blocks", "away_now", "is_plain", "read_boot_id", "read_boot_time", "read_mounts",
    "read_real_path", "sync_all", "sync_data",
]  # fmt: skip

F_GETPATH, F_FULLFSYNC = 50, 51  # sys/fcntl.h
UNSYNCED = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)  # of file systems that cannot tell their disk
# sys/mount.h: MNT_NOWAIT and MNT_LOCAL, the size of struct statfs (with 64-bit inodes), and where its parts begin
NOWAIT, LOCAL = 2, 0x1000
MOUNT_BYTES, DISK, FLAGS, PLACE = 2168, 48, 64, 88
PLACE_BYTES = 1024  # MAXPATHLEN
ROOM = 16  # mounts more than there were when the number was asked
LIBC: Any = ctypes.CDLL(None, use_errno=True)
UNKNOWN = {"/": "unknown"}  # without the list, no disk is known to answer


def allocate_blocks(fd: int, start: int, length: int) -> None:
    """Raise an OSError: blocks cannot be allocated beyond the end of a file here."""
    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))


def sync_data(fd: int) -> None:
    """Wait until a file's content, and its size, are on the disk itself: fsync(2) leaves them in the disk's cache."""
    try:
        fcntl.fcntl(fd, F_FULLFSYNC)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise
        os.fsync(fd)


def sync_all(fd: int) -> None:
    """Wait until a file or a folder, with all that is known of it, is on the disk itself."""
    sync_data(fd)


def read_boot_id() -> str | None:
    """Return a text that is another after each boot; None if there is none."""
    buffer, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    try:
        failed = LIBC.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    except AttributeError:
        return None
    return None if failed else buffer.value.decode("ascii", "replace").lower()


def read_boot_time() -> float:
    """Return the seconds since boot, including those in suspend, which CLOCK_MONOTONIC counts on this system."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def away_now() -> Mapping[str, str]:
    """Return the disks that are not local, by mount point."""
    # The name of the function with 64-bit inodes, which on machines with ARM is the only one.
    call = getattr(LIBC, "getfsstat$INODE64", None) or getattr(LIBC, "getfsstat", None)
    if call is None or (number := call(None, 0, NOWAIT)) < 0:
        return UNKNOWN
    buffer = ctypes.create_string_buffer((number + ROOM) * MOUNT_BYTES)
    number = call(buffer, len(buffer), NOWAIT)
    return read_mounts(buffer.raw[: number * MOUNT_BYTES]) if 0 < number < len(buffer) // MOUNT_BYTES else UNKNOWN


def read_mounts(data: bytes) -> dict[str, str]:
    """Return the disks that are not local, by mount point, from an array of struct statfs."""
    found: dict[str, str] = {}
    for at in range(0, len(data), MOUNT_BYTES):
        place = os.fsdecode(data[at + PLACE : at + PLACE + PLACE_BYTES].partition(b"\0")[0])
        if struct.unpack_from("=I", data, at + FLAGS)[0] & LOCAL:
            found.pop(place, None)  # it lies over what was mounted there before
        else:
            found[place] = data[at + DISK : at + DISK + 8].hex()
    return found


def is_plain(path: str, away: Mapping[str, str] | None = None, *, is_there: bool = True) -> bool:
    """Return whether an absolute path exists, is its own real path, and is on local disks alone.

    Without `is_there`, all of this need hold only of the part that exists.
    """
    at, places, names = "", {*map(fold_path, away_now() if away is None else away)}, path.split("/")[1:]
    if "/" in places or path[:1] != "/" or "\0" in path or not {"", ".", ".."}.isdisjoint(names):
        return False
    for name in names:
        at = f"{at}/{name}"
        if fold_path(at) in places:
            return False
        try:
            if stat.S_ISLNK(os.lstat(at).st_mode):
                return False
        except FileNotFoundError:
            return not is_there
        except OSError:
            return False
    try:
        return read_real_path(path) == path
    except OSError:  # it cannot be opened, as a folder that cannot be listed: not known
        return False


def fold_path(path: str) -> str:
    """Return a path without differences that file systems may not see, and without the prefix of the data volume."""
    return unicodedata.normalize("NFC", path).casefold().removeprefix("/system/volumes/data") or "/"


def read_real_path(path: str) -> str:
    """Return the one path of what exists, links followed, as the system spells it; raise an OSError if it cannot say.

    File systems take letters in capitals or not: in another spelling a trusted project would be another place.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.fsdecode(fcntl.fcntl(fd, F_GETPATH, bytes(PLACE_BYTES)).partition(b"\0")[0])
    finally:
        os.close(fd)
