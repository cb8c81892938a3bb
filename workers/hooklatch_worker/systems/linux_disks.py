"""Mounts, paths, the durability of files, and clocks on Linux.  For the daemon: no worker loads it.

`darwin_disks` has the same names for macOS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import select
import threading
import time
from collections.abc import Mapping

__all__ = [
    "allocate_blocks", "away_now", "is_plain", "read_boot_id", "read_boot_time", "read_real_path",
    "sync_all", "sync_data",
]  # fmt: skip

# Served by this kernel alone, and reported by inotify.  Not proc: its links lead into other mount namespaces.
LOCAL = frozenset({
    "bcachefs", "binfmt_misc", "bpf", "btrfs", "cgroup", "cgroup2", "configfs", "cramfs", "debugfs", "devpts",
    "devtmpfs", "efivarfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "hugetlbfs", "iso9660", "jfs",
    "mqueue", "nilfs2", "nsfs", "ntfs3", "overlay", "pstore", "ramfs", "reiserfs", "rootfs", "securityfs", "selinuxfs",
    "squashfs", "sysfs", "tmpfs", "tracefs", "udf", "vfat", "xfs", "zfs",
})  # fmt: skip
KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE from linux/falloc.h
LIBC = ctypes.CDLL(None, use_errno=True)
FALLOCATE = getattr(LIBC, "fallocate64", None) or LIBC.fallocate  # with 64-bit offsets on every machine


def allocate_blocks(fd: int, start: int, length: int) -> None:
    """Allocate blocks for a file without changing its size, or raise an OSError if that cannot be done."""
    if FALLOCATE(fd, KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_data(fd: int) -> None:
    """Wait until a file's content, and its size, are on the disk itself."""
    os.fdatasync(fd)


def sync_all(fd: int) -> None:
    """Wait until a file or a folder, with all that is known of it, is on the disk itself."""
    os.fsync(fd)


def read_real_path(path: str) -> str:
    """Return the one path of what exists, links followed; raise an OSError if it does not."""
    return os.path.realpath(path, strict=True)


def read_boot_id() -> str | None:
    """Return a text that is another after each boot; None if there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def read_boot_time() -> float:
    """Return the seconds since boot, including those in suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def list_remote_mounts(mountinfo: str) -> dict[str, str]:
    """Return the disks that are not local, by mount point, from the text of /proc/self/mountinfo (proc(5))."""
    found: dict[str, str] = {}
    for line in filter(None, mountinfo.split("\n")):  # no other character ends a line here
        left, _, right = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split(" ")[4])
        if right.split(" ")[0] in LOCAL:
            found.pop(place, None)  # it lies over what was mounted there before
        else:
            found[place] = left.split(" ")[2]
    return found


class RemoteMounts:
    """The disks that are not local, as the kernel lists them now."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._away: Mapping[str, str] = {"/": "unknown"}  # without the list, no disk is known to answer
        self._poll = select.poll()
        try:
            self._fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        self._poll.register(self._fd, select.POLLPRI)  # proc(5): it is reported when anything is mounted or unmounted
        self._read()

    def now(self) -> Mapping[str, str]:
        with self._turn:
            if self._poll.poll(0):
                self._read()
            return self._away

    def _read(self) -> None:
        text, at = b"", 0
        while more := os.pread(self._fd, 2**16, at):
            text, at = text + more, at + len(more)
        self._away = list_remote_mounts(os.fsdecode(text))


MOUNTS = RemoteMounts()
away_now = MOUNTS.now


class OpenHow(ctypes.Structure):
    """The struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


OPENAT2, AT_FDCWD, RESOLVE_NO_SYMLINKS = 437, -100, 4
SYSCALL = ctypes.CDLL(None, use_errno=True).syscall
SYSCALL.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
WITHOUT_LINKS = OpenHow(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS)


def is_plain(path: str, away: Mapping[str, str] | None = None, *, is_there: bool = True) -> bool:
    """Return whether an absolute path exists, is its own real path, and is on local disks alone.

    Without `is_there`, all of this need hold only of the part that exists.  One system call instead of two for each
    step: a fire in a project asks this more than once.
    """
    at, away = "", MOUNTS.now() if away is None else away
    for name in path.split("/")[1:]:
        at = f"{at}/{name}"
        if at in away or name in ("", ".", ".."):
            return False
    if "/" in away or path[:1] != "/" or "\0" in path:
        return False
    fd: int = SYSCALL(OPENAT2, AT_FDCWD, os.fsencode(path), ctypes.byref(WITHOUT_LINKS), ctypes.sizeof(OpenHow))
    if fd < 0:
        return not is_there and ctypes.get_errno() == errno.ENOENT  # not: links, or a kernel older than 5.6
    os.close(fd)
    return True
