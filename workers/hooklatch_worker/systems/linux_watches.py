"""The kernel's reports on files and directories (inotify(7)), as `darwin_watches` has them.  No worker loads it."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from collections.abc import Mapping
from contextlib import ExitStack

from hooklatch_worker.systems.libc import LIBC, raise_errno

__all__ = ["FileWatches"]

# inotify(7)
IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF, IN_Q_OVERFLOW = 0x400, 0x800, 0x4000
OF_ITSELF = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
OF_ENTRIES = OF_ITSELF | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
OF_CONTENT = OF_ENTRIES | IN_MODIFY | IN_CLOSE_WRITE
EVENT = struct.Struct("iIII")


class FileWatches:
    """The places that the kernel watches.  Each has a number, by which it is reported.

    A place is watched for changes of itself (its rights, its end, a move), of its entries too, or of its content too.
    `shortage` is why some are not watched, if the kernel allows no more.

    Raises:
        OSError: there are no more inotify objects for this user.
    """

    ITSELF, ENTRIES, CONTENT = 1, 2, 3
    IS_COMPLETE = True  # whether each change of a watched place is reported
    MASKS = (0, OF_ITSELF, OF_ENTRIES, OF_CONTENT)

    def __init__(self) -> None:
        with ExitStack() as opened:
            self._fd = raise_errno(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
            opened.callback(os.close, self._fd)
            mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, mounts)
            epoll = opened.enter_context(select.epoll())
            epoll.register(self._fd, select.EPOLLIN)
            epoll.register(mounts, select.EPOLLPRI)  # proc(5): a mount may hide what is watched
            self.fileno, self.close = epoll.fileno, opened.pop_all().close
        self._numbers = set[int]()
        self.shortage: OSError | None = None

    def replace(self, places: Mapping[str, int]) -> dict[str, int]:
        """Watch these places and no others; return the numbers of those that can be watched."""
        numbers, wanted, self.shortage = dict[str, int](), dict[int, int](), None
        for place, level in places.items():
            try:
                number = numbers[place] = self._add(place, level)
                if level < wanted.get(number, 0):  # the same directory by another mount
                    self._add(place, wanted[number])
                wanted[number] = max(level, wanted.get(number, 0))
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.ENOMEM):
                    self.shortage = error
        gone, self._numbers = self._numbers - wanted.keys(), set(wanted)
        for number in gone:
            LIBC.inotify_rm_watch(self._fd, number)  # fails for one that went with its directory
        return numbers

    def _add(self, place: str, level: int) -> int:
        mask = ctypes.c_uint32(self.MASKS[level])
        return raise_errno(LIBC.inotify_add_watch(self._fd, os.fsencode(place), mask), place)

    def take(self) -> list[tuple[int, str]] | None:
        """Return the places reported and the names of their entries, or None: reports were lost, a disk was mounted."""
        try:
            data = os.read(self._fd, 2**16)
        except BlockingIOError:
            return None  # it was a mount
        at, found = 0, list[tuple[int, str]]()
        while at < len(data):
            number, mask, _, size = EVENT.unpack_from(data, at)
            if mask & IN_Q_OVERFLOW:
                return None
            found.append((number, os.fsdecode(data[at + EVENT.size : at + EVENT.size + size].rstrip(b"\0"))))
            at += EVENT.size + size
        return found
