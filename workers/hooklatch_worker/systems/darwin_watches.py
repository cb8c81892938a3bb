"""The kernel's reports on files and directories on macOS (kqueue(2), EVFILT_VNODE), as `linux_watches` gives them.

Each place takes a descriptor.  Not by FSEvents: `watchfiles`, which calls it, wakes a thread many times a second.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from hooklatch_worker.systems.darwin import EV_ADD, EV_CLEAR, MOST_EVENTS

__all__ = ["DarwinWatches"]

O_EVTONLY = 0x8000  # sys/fcntl.h: it reads nothing, and does not keep a disk mounted
# sys/event.h
EVFILT_VNODE = -4
NOTE_DELETE, NOTE_WRITE, NOTE_EXTEND, NOTE_ATTRIB = 0x1, 0x2, 0x4, 0x8
NOTE_LINK, NOTE_RENAME, NOTE_REVOKE = 0x10, 0x20, 0x40
OF_ITSELF = NOTE_DELETE | NOTE_ATTRIB | NOTE_RENAME | NOTE_REVOKE
OF_ENTRIES = OF_ITSELF | NOTE_WRITE | NOTE_LINK
MOST_PLACES = 512  # of the descriptors that a daemon may have; what is beyond is looked at


class DarwinWatches:
    """The places that the kernel watches, as on Linux.  A report names no entry: each counts for the place itself."""

    ITSELF, ENTRIES, CONTENT = 1, 2, 3
    IS_COMPLETE = False  # until a Mac has shown it: they report early, and all is looked at as often as without
    NOTES = (0, OF_ITSELF, OF_ENTRIES, OF_ENTRIES | NOTE_EXTEND)

    def __init__(self, select: Any = select) -> None:
        self._select = select
        self._queue = select.kqueue()
        self.fileno = self._queue.fileno
        self._fds: list[int] = []
        self.shortage: OSError | None = None  # for what is not watched is looked at

    def close(self) -> None:
        """Give the descriptors back."""
        self.replace({})
        self._queue.close()

    def replace(self, places: Mapping[str, int]) -> dict[str, int]:
        """Watch these places, each for what its number says, and no others.

        Return their numbers in reports, without those that cannot be watched.  Each is opened anew: by now its path may
        lead to something else.
        """
        numbers = dict[str, int]()
        for place, level in islice(places.items(), MOST_PLACES):
            with suppress(OSError):
                fd = os.open(place, O_EVTONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    event = self._select.kevent(fd, EVFILT_VNODE, EV_ADD | EV_CLEAR, self.NOTES[level])
                    self._queue.control([event], 0, 0)
                except OSError:  # a file system that reports nothing
                    os.close(fd)
                    continue
                numbers[place] = fd
        gone, self._fds = self._fds, list(numbers.values())
        for fd in gone:
            os.close(fd)  # which takes it out of the queue
        return numbers

    def take(self) -> list[tuple[int, str]] | None:
        """Return what was reported: the number of a place, and "" for the place itself."""
        return [(event.ident, "") for event in self._queue.control(None, MOST_EVENTS, 0)]
