"""The hints of the kernel that a file has changed (inotify(7)), and the paths that they cover.

A path is covered if every change of its stamp is reported: it is watched itself, and so is each directory on its way,
links followed.  A directory is watched for the next name too, unless that is a directory in which something is watched:
it goes only after that has gone, or moves, which it reports itself.  So files of strangers in /tmp and at home cause no
wake-up.  Paths on a network disk are not covered: the kernel here does not report what another machine does there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, suppress

import trio

from hooklatch.disks import ResolvedPath, away_now, resolve_path
from hooklatch.errors import explain_error, locate_error
from hooklatch.service.loading.watch import COVERED_INTERVAL, FileWatch
from hooklatch_worker.systems.libc import LIBC, raise_errno

__all__ = ["InotifyHints", "give_hints"]

PAUSE = 0.02  # seconds between two reads of reports: a save is several changes
# inotify(7)
IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF, IN_Q_OVERFLOW = 0x400, 0x800, 0x4000
ITSELF = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
ON_THE_WAY = ITSELF | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
AT_ITS_END = ON_THE_WAY | IN_MODIFY | IN_CLOSE_WRITE
EVENT = struct.Struct("iIII")
ANY, LOST = "", -2  # no file has this name, and no watch this number
SHORTAGES = {errno.ENOSPC, errno.ENOMEM}  # of watches for this user, of memory


class InotifyHints:
    """The paths that the kernel watches, and the names that matter in its reports. `fault` says why it lacks some.

    Raises:
        OSError: there are no more inotify objects for this user.
    """

    def __init__(self) -> None:
        with ExitStack() as opened:
            self._fd = raise_errno(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
            opened.callback(os.close, self._fd)
            mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, mounts)
            self._epoll = opened.enter_context(select.epoll())
            self._epoll.register(self._fd, select.EPOLLIN)
            self._epoll.register(mounts, select.EPOLLPRI)  # proc(5): a mount may hide what is watched
            self._opened = opened.pop_all()
        self._names: dict[int, set[str]] = {}  # by watch: the names that matter there, ANY for all
        self._turn = threading.Lock()
        self.fault: str | None = None

    def close(self) -> None:
        """Give the descriptors back."""
        self._opened.close()

    def cover(self, paths: Iterable[str]) -> set[str]:
        """Watch these paths and no others, in a thread. Return those whose every change is reported from now on."""
        with self._turn:
            return self._cover(paths)

    def _cover(self, paths: Iterable[str]) -> set[str]:
        away, ways = away_now(), dict[str, ResolvedPath]()
        for path in paths:
            with suppress(OSError, ValueError):  # what cannot be looked up is checked more often
                ways[path] = resolve_path(path, away)
        steps = {step: os.path.join(*step) for way in ways.values() for step in way.steps}
        remote = {way.end for way in ways.values() if way.disk is not None}  # which may not answer
        there = {step: place for step, place in steps.items() if place in remote or os.path.lexists(place)}
        held, masks = {folder for folder, _ in there}, defaultdict[str, int](int)
        for (folder, _), place in steps.items():
            masks[folder] |= ITSELF if place in held else ON_THE_WAY
        for end in {way.end for way in ways.values() if way.disk is None} & {"/", *there.values()}:
            masks[end] |= AT_ITS_END
        watches, names = self._watch(masks), defaultdict[int, set[str]](set)
        for folder, name in steps:
            names[watches.get(folder, LOST)].add(name)
        for place, mask in masks.items():
            names[watches.get(place, LOST)].update([ANY] if mask & IN_MODIFY else [])
        gone, self._names = self._names.keys() - names.keys(), names
        for watch in gone:
            LIBC.inotify_rm_watch(self._fd, watch)  # fails for one that went with its directory
        unwatched = masks.keys() - watches.keys()
        return {
            path
            for path, way in ways.items()
            if way.disk is None and unwatched.isdisjoint([way.end, *(folder for folder, _ in way.steps)])
        }

    def _watch(self, masks: Mapping[str, int]) -> dict[str, int]:
        """Watch each place for what its mask says. Return the watches, without those that could not be had."""
        watches, wanted, fault = dict[str, int](), dict[int, int](), None
        for place, mask in masks.items():
            try:
                watch = watches[place] = self._add(place, mask)
                if watch in wanted:  # the same directory by another mount
                    self._add(place, mask | wanted[watch])
                wanted[watch] = mask | wanted.get(watch, 0)
            except OSError as error:  # it is checked more often
                if error.errno in SHORTAGES:
                    fault = f"the kernel watches no more files for this user ({explain_error(error)})"
        self.fault = fault
        return watches

    def _add(self, place: str, mask: int) -> int:
        return raise_errno(LIBC.inotify_add_watch(self._fd, os.fsencode(place), ctypes.c_uint32(mask)), place)

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


async def give_hints(file_watch: FileWatch) -> None:
    """Pass the kernel's hints on to the watch until cancelled."""
    while True:
        try:
            hints = InotifyHints()
        except OSError as error:
            file_watch.uncover(f"the kernel watches no files for this daemon ({locate_error(error)})")
            await trio.sleep(COVERED_INTERVAL)
            continue
        with closing(hints):
            try:
                await file_watch.cover_by(hints)
                await hints.listen(lambda: file_watch.hint.set())
            finally:
                file_watch.uncover()
