"""The lines that a client is sent: at once as far as the kernel takes them, and the rest when it takes more.

Knows a socket and bytes, and which announcements were left out for a client that lags; does not know requests.
"""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

import trio

from hooklatch.core.protocol import encode_notification
from hooklatch.service.registry.budget import SMALL, BudgetShare

__all__ = ["LaggedTopics", "SendBuffer"]

GONE = (errno.EPIPE, errno.ECONNRESET)  # why nothing can be sent to a client that has left


class SendBuffer:
    """What one client has yet to be sent.  `pending` is for others to look at."""

    __slots__ = ("_changed", "_socket", "is_draining", "pending", "room")

    def __init__(self, stream: socket.socket, room: BudgetShare) -> None:
        self.room = room  # for what is pending, if that is much
        self.pending = bytearray()
        self.is_draining = False
        self._socket = stream
        self._changed: trio.Event | None = None  # made by the task that waits for it

    def __len__(self) -> int:
        return len(self.pending)

    def send(self, data: bytes) -> bool:
        """Send a line; return whether some of it is still to be sent, which is for `drain`."""
        sent = 0
        if not self.pending:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                pass
            except OSError as error:
                self._lost(error)
                return False
            if sent == len(data):
                return False
        self.pending += memoryview(data)[sent:]
        return True

    async def drain(self, timeout: float) -> bool:
        """Send what is pending; return False if the client takes none of it for `timeout` seconds."""
        while self.pending:
            with trio.move_on_after(timeout) as scope:
                await trio.lowlevel.wait_writable(self._socket)
            if scope.cancelled_caught:
                return False
            try:
                del self.pending[: self._socket.send(self.pending)]
            except BlockingIOError:
                continue
            except OSError as error:
                self._lost(error)
                self.pending.clear()
            self.room.shrink(len(self.pending))
        return True

    def take_room(self, size: int) -> bool:
        """Take room for so many bytes more than are pending, until they are sent; return whether there is any."""
        size += len(self.pending)
        return size <= max(self.room.size, SMALL) or self.room.take(size - self.room.size)

    def end(self) -> None:
        """Forget what is pending: nobody will read it."""
        self.pending.clear()
        self.room.shrink(0)

    def _lost(self, error: OSError) -> None:
        """Hang up where a line was lost and the client is not: nobody may take it for sent."""
        if error.errno not in GONE:  # no memory for it, say
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # the reader will notice, as it does if the client is gone

    async def wait(self) -> None:
        """Wait until somebody calls `wake`: all was sent, or something else happened that those who wait look at."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class LaggedTopics:
    """What was left out for one client that lags: how many lines of each topic; of hooks, that there were changes."""

    def __init__(self) -> None:
        self._left_out: Counter[str] = Counter()

    def leave_out(self, topic: str) -> None:
        """Note a line that is not sent."""
        self._left_out[topic] += 1

    def lines(self, topics: Collection[str], revision: Callable[[], int]) -> Iterator[tuple[str, bytes]]:
        """Yield what to tell the client, once it has caught up, of the topics that it still listens to."""
        for topic, count in self._left_out.items():
            if topic in topics:
                told = {"resync": revision()} if topic == "registry" else {"missed": count}
                yield topic, encode_notification("announce", {"topic": topic, **told})
