"""The hints of the kernel that a file has changed (inotify(7)), and the paths that they cover.

A path is covered if every change of its stamp is reported: it is watched itself, and so is each directory on its way,
links followed, for changes of that directory and of the next name.  Paths on a network disk are not covered, since the
kernel here does not report a change that another machine makes there.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import struct
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import closing, contextmanager, suppress

import trio

from hooklatch.disks import away_now, resolve_path
from hooklatch.service.loading.watch import STAT_INTERVAL, FileWatch
from hooklatch_worker.sandbox.linux import LIBC, raise_errno

__all__ = ["InotifyHints", "give_hints", "watch_paths"]

logger = logging.getLogger("hooklatch.hints")
PAUSE = 0.02  # seconds between two reads of reports: a save is several changes
# inotify(7)
IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF, IN_Q_OVERFLOW, IN_MASK_ADD = 0x400, 0x800, 0x4000, 0x20000000
ON_THE_WAY = (
    IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_MASK_ADD
)
AT_ITS_END = ON_THE_WAY | IN_MODIFY | IN_CLOSE_WRITE
EVENT = struct.Struct("iIII")
ANY = ""  # no file has this name


class InotifyHints:
    """The paths that the kernel watches, and the names that matter in its reports.

    Raises:
        OSError: there are no more inotify objects for this user.
    """

    def __init__(self) -> None:
        self._fd = raise_errno(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
        self._names: dict[int, set[str]] = {}  # by watch: the names that matter there, ANY for all
        self._turn = threading.Lock()
        self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._fd, select.EPOLLIN)
        self._epoll.register(self._mounts, select.EPOLLPRI)  # proc(5): a mount may hide what is watched

    def close(self) -> None:
        """Give the descriptors back."""
        self._epoll.close()
        os.close(self._mounts)
        os.close(self._fd)

    def cover(self, paths: Iterable[str]) -> set[str]:
        """Watch these paths and no others, in a thread. Return those whose every change is reported from now on."""
        with self._turn:
            return self._cover(paths)

    def _cover(self, paths: Iterable[str]) -> set[str]:
        away, names, covered = away_now(), dict[int, set[str]](), set[str]()
        known: dict[tuple[str, int], int] = {}

        def add(path: str, mask: int, name: str) -> None:
            watch = known.get((path, mask))
            if watch is None:
                watch = known[path, mask] = raise_errno(
                    LIBC.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask)), path
                )
            names.setdefault(watch, set()).add(name)

        for path in paths:
            try:
                way = resolve_path(path, away)
                for folder, name in way.steps:
                    add(folder, ON_THE_WAY, name)
                if way.disk is None:
                    with suppress(FileNotFoundError, NotADirectoryError):  # then the nearest directory reports it
                        add(way.end, AT_ITS_END, ANY)
                    covered.add(path)
            except (OSError, ValueError):  # no permission, or too many watches (ENOSPC): it is checked more often
                continue
        gone, self._names = self._names.keys() - names.keys(), names
        for watch in gone:
            LIBC.inotify_rm_watch(self._fd, watch)  # fails for one that went with its directory
        return covered

    async def listen(self, notify: Callable[[], object]) -> None:
        """Call `notify` at each report that matters."""
        while True:
            await self.hint()
            notify()
            await trio.sleep(PAUSE)

    async def hint(self) -> None:
        """Wait for a report that matters."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            if self._is_hint():
                return
            await trio.sleep(PAUSE)

    def _is_hint(self) -> bool:
        try:
            data = os.read(self._fd, 2**16)
        except BlockingIOError:
            return True  # it was a mount
        at, is_relevant = 0, False
        while at < len(data):
            watch, mask, _, size = EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + EVENT.size : at + EVENT.size + size].rstrip(b"\0"))
            at += EVENT.size + size
            names = self._names.get(watch, ())
            # A report without a name is about the watched path itself. One of no watch says that reports were lost.
            is_named = bool(names and (not name or ANY in names or name in names))
            is_relevant = is_relevant or mask & IN_Q_OVERFLOW != 0 or is_named
        return is_relevant


@contextmanager
def watch_paths(paths: Iterable[str]) -> Generator[Callable[[], Awaitable[None]]]:
    """Provide a function that waits until one of these paths may have changed, or endlessly if there is no inotify.

    It has no task of its own, since Ctrl-C could come between the creation of one and its start.
    """
    try:
        hints = InotifyHints()
    except OSError:
        yield trio.sleep_forever
        return
    with closing(hints):
        hints.cover(paths)
        yield hints.hint


async def give_hints(file_watch: FileWatch) -> None:
    """Pass the kernel's hints on to the watch until cancelled."""
    try:
        hints = InotifyHints()
    except OSError as error:
        logger.info("no file hints (%s); files are looked at every %.0f s", error, STAT_INTERVAL)
        await trio.sleep_forever()
        return
    try:
        await file_watch.cover_by(hints.cover)
        await hints.listen(lambda: file_watch.hint.set())
    finally:
        file_watch.uncover()
        hints.close()
