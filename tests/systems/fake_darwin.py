"""The calls of macOS, with answers in the form that its manual pages and headers describe."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Any, NamedTuple

__all__ = ["Event", "FakeLibrary", "FakeSelect", "entry", "mount"]


class Event(NamedTuple):
    """A struct kevent, of kqueue(2)."""

    ident: int
    filter: int
    flags: int
    fflags: int = 0


class FakeQueue:
    """A kqueue: what was changed in it, and what it is to report."""

    def __init__(self, dead: set[int]) -> None:
        self.dead, self.changed, self.reports, self.is_closed = dead, list[Event](), list[Event](), False
        self._ends = os.pipe()

    def fileno(self) -> int:
        """Return a descriptor."""
        return self._ends[0]

    def close(self) -> None:
        """Close it."""
        self.is_closed = True
        for end in self._ends:
            os.close(end)

    def control(self, changes: list[Event] | None, most: int, timeout: float = 0) -> list[Event]:
        """Take changes, and report what is ready."""
        for change in changes or []:
            if change.ident in self.dead:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            self.changed.append(change)
        return [self.reports.pop(0) for _ in self.reports[:most]]


class FakeSelect:
    """The module `select` of macOS."""

    def __init__(self, *dead: int) -> None:
        self.dead, self.queues = set(dead), list[FakeQueue]()

    def kqueue(self) -> FakeQueue:
        """Make a kqueue."""
        self.queues.append(FakeQueue(self.dead))
        return self.queues[-1]

    def kevent(self, ident: int, kind: int, flags: int, fflags: int = 0) -> Event:
        """Make a struct kevent; as CPython does, from a descriptor or pid that is not negative."""
        if ident < 0:
            raise OverflowError("can't convert negative value to size_t")
        return Event(ident, kind, flags, fflags)


class FakeLibrary:
    """The C library: the list of processes that it tells, and how it fails."""

    def __init__(self, *processes: bytes, shortages: int = 0, number: int = 0) -> None:
        self.data, self.shortages, self.number = b"".join(processes), shortages, number
        self.asked: list[list[int]] = []
        self.starts: dict[int, int] = {}  # of processes that this user may ask for

    def proc_pid_rusage(self, pid: int, flavor: int, buffer: Any) -> int:
        """Answer proc_pid_rusage(3) with a struct rusage_info_v0."""
        if flavor != 0 or pid not in self.starts:
            ctypes.set_errno(errno.EPERM)
            return -1
        buffer[80:88] = struct.pack("=Q", self.starts[pid])
        return 0

    def sysctl(self, path: Any, length: int, buffer: Any, size: Any, new: None, new_size: Any) -> int:
        """Answer sysctl(3): the size alone without a buffer, ENOMEM where it is too small."""
        self.asked.append(list(path)[:length])
        size = size._obj
        if buffer is None:
            size.value = len(self.data)
            return 0
        if self.shortages:
            self.shortages -= 1
            ctypes.set_errno(errno.ENOMEM)
            return -1
        if self.number:
            ctypes.set_errno(self.number)
            return -1
        assert size.value >= len(self.data)
        ctypes.memmove(buffer, self.data, len(self.data))
        size.value = len(self.data)
        return 0

    def proc_pidinfo(self, pid: int, flavor: int, argument: Any, buffer: Any, size: int) -> int:
        """Answer proc_pidinfo: the bytes written, or none and ESRCH."""
        assert (flavor, size) == (4, 96)
        if pid != os.getpid():
            ctypes.set_errno(errno.ESRCH)
            return 0
        struct.pack_into("=6Q12i", buffer, 0, *range(6), 1, 2, 3, 4, 5, 6, 7, 8, 9, 33, 2, 31)
        return 96


def entry(pid: int, parent: int, *, group: int = 0, state: int = 2, started: tuple[int, int] = (5, 7)) -> bytes:
    """Return a struct kinfo_proc of 64-bit macOS (sys/sysctl.h, sys/proc.h)."""
    data = bytearray(648)
    struct.pack_into("=qi", data, 0, *started)  # extern_proc.p_un.p_starttime
    struct.pack_into("=i", data, 32, 0x4004)  # extern_proc.p_flag
    data[36] = state  # extern_proc.p_stat
    struct.pack_into("=i", data, 40, pid)  # extern_proc.p_pid
    data[243:260] = b"python3.11".ljust(17, b"\0")  # extern_proc.p_comm
    struct.pack_into("=I", data, 296 + 124, 501)  # eproc.e_ucred.cr_uid
    struct.pack_into("=i", data, 296 + 264, parent)  # eproc.e_ppid
    struct.pack_into("=i", data, 296 + 268, group or pid)  # eproc.e_pgid
    return bytes(data)


def mount(place: str, *, is_local: bool, disk: tuple[int, int] = (1, 2)) -> bytes:
    """Return a struct statfs with 64-bit inodes (sys/mount.h)."""
    return struct.pack(
        "=Ii5Q2i4I16s1024s1024sI7I", 4096, 2**20, 1, 1, 1, 1, 1, *disk, 501, 26, 0x1000 if is_local else 0, 0, b"apfs",
        os.fsencode(place), b"/dev/disk1", 0, *[0] * 7,
    )  # fmt: skip
