"""The watch for peers of half-closed sockets that are gone.

Such a socket stays readable, so only the hangup shows that the peer is gone (EPOLLHUP, which is always reported).  One
epoll object watches all of them, since one for each would double the descriptors of a flood of such connections.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import trio

__all__ = ["Hangups"]


class Hangups:
    """The half-closed sockets that are watched, and the callback of each."""

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
                    self._call_back(epoll)
            finally:
                self._epoll = None

    def _call_back(self, epoll: select.epoll) -> None:
        for fd, _ in epoll.poll(0):
            epoll.unregister(fd)  # otherwise it would be reported again and again
            on_gone = self._watched.pop(fd, None)
            if on_gone is not None:
                on_gone()

    @contextmanager
    def watching(self, fd: int, on_gone: Callable[[], None]) -> Generator[None]:
        """Call `on_gone`, once, if the peer leaves during the block."""
        self._watched[fd] = on_gone
        if self._epoll is not None:
            self._epoll.register(fd, 0)
        try:
            yield
        finally:
            if self._watched.pop(fd, None) is not None and self._epoll is not None:
                with suppress(OSError):  # closed descriptors are not watched any more
                    self._epoll.unregister(fd)
