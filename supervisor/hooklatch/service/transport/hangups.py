"""Reports when the peer of a half-closed socket is gone.  Knows descriptors, but no bytes.

Such a socket stays readable, so only the hangup shows that the peer is gone (EPOLLHUP, which is always reported).  One
epoll object watches all of them: one each would double the descriptors that a flood of half-closed connections takes.
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
            for fd in self._watched:  # registered before a failure of this task
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
            epoll.unregister(fd)  # otherwise it would be reported again and again
            gone = self._watched.pop(fd, None)
            if gone is not None:
                gone()

    @contextmanager
    def watching(self, fd: int, gone: Callable[[], None]) -> Generator[None]:
        """Call `gone`, once, if the peer goes while the block lasts."""
        self._watched[fd] = gone
        if self._epoll is not None:
            self._epoll.register(fd, 0)
        try:
            yield
        finally:
            if self._watched.pop(fd, None) is not None and self._epoll is not None:
                with suppress(OSError):  # closed descriptors are not watched any more
                    self._epoll.unregister(fd)
