"""Tells of sockets whose peer is gone, of those whose input has ended already.  Knows descriptors; knows no bytes.

Such a socket is readable for ever, so what shows that nobody is there is the hangup alone (EPOLLHUP, reported without
being asked for).  One epoll object watches all of them: one each would cost a flood of half-closed connections twice.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import trio

__all__ = ["Hangups"]


class Hangups:
    """Calls back for each watched socket whose peer is gone."""

    def __init__(self) -> None:
        self._watched: dict[int, Callable[[], None]] = {}
        self._epoll: select.epoll | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        with select.epoll() as epoll:
            for fd in self._watched:  # after a failure
                epoll.register(fd, 0)
            self._epoll = epoll
            task_status.started()
            try:
                while True:
                    await trio.lowlevel.wait_readable(epoll.fileno())
                    self._tell(epoll)
            finally:
                self._epoll = None

    def _tell(self, epoll: select.epoll) -> None:
        for fd, _ in epoll.poll(0):
            epoll.unregister(fd)  # else it would be told again and again
            gone = self._watched.pop(fd, None)
            if gone is not None:
                gone()

    @contextmanager
    def watching(self, fd: int, gone: Callable[[], None]) -> Generator[None]:
        """Have `gone` called, once, if the peer goes while the block lasts."""
        self._watched[fd] = gone
        if self._epoll is not None:
            self._epoll.register(fd, 0)
        try:
            yield
        finally:
            if self._watched.pop(fd, None) is not None and self._epoll is not None:
                with suppress(OSError):  # it is closed, and so it is watched no longer
                    self._epoll.unregister(fd)
