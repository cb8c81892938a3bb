"""The lines of one client: received and sent.

A line that has begun to be long takes room of the budget.  A line is sent at once as far as the kernel takes it, and
the rest when it takes more.  The announcements that are left out for a client that lags are counted.
"""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

import trio

from hooklatch.core.protocol import MAX_FRAME, LineBuffer, encode_notification, read_ends
from hooklatch.service.registry.budget import SMALL, Budget, BudgetShare

__all__ = ["ReceiveBuffer", "LaggedTopics", "SendBuffer"]

RECEIVED = 2**16  # bytes to receive at once
GONE = (errno.EPIPE, errno.ECONNRESET)  # why nothing can be sent to a client that has left


class ReceiveBuffer:
    """The input of one client, and whether more is expected. `holder` is the key of its room in the budget."""

    __slots__ = ("_budget", "_holder", "_socket", "is_dropped", "is_ended", "lines", "room")

    def __init__(self, stream: socket.socket, budget: Budget, holder: object) -> None:
        self.lines = LineBuffer()
        self.room: BudgetShare | None = None  # of the line that has begun, if it is long
        self.is_ended = False
        self.is_dropped = False  # input is read and forgotten
        self._socket = stream
        self._budget = budget
        self._holder = holder

    def receive(self) -> bool:
        """Receive the bytes, or the end of input, that have arrived. Return whether there were any."""
        try:
            data = self._socket.recv(RECEIVED)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.is_ended = self.lines.is_empty
            data = b"\n"  # the end of input also ends the last line
        if not self.is_ended and not self.is_dropped:
            self.lines.feed(data)
        return True

    @property
    def is_long(self) -> bool:
        """Return whether the line that has begun needs room."""
        return len(self.lines) > SMALL

    @property
    def needs_room(self) -> bool:
        """Return whether the line that has begun must get room before more of it is read."""
        return self.is_long and self.room is None and not self.lines.is_skipping

    async def make_room(self, timeout: float) -> None:
        """Wait `timeout` seconds for room for the rest of a line. Without room, only the line's ends are kept."""
        room = BudgetShare(self._budget, self._holder)
        if await room.wait(MAX_FRAME, timeout):
            self.room = room
        else:
            self.lines.skip()

    def drop(self) -> tuple[int | str | None, bool]:
        """Drop all input from now on. Return the id and kind of the line that has begun, as `read_ends` does."""
        self.is_dropped = True
        room, self.room = self.room, None
        if room is not None:
            room.shrink(0)
        return read_ends(self.lines.clear())


class SendBuffer:
    """The output that one client has not taken yet.  `pending` is for other code to look at."""

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
        """Send a line. Return whether a part of it is still pending, which is for `drain`."""
        sent = 0
        if not self.pending:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                pass
            except OSError as error:
                self._hang_up(error)
                return False
            if sent == len(data):
                return False
        self.pending += memoryview(data)[sent:]
        return True

    async def drain(self, timeout: float) -> bool:
        """Send the pending output. Return False if the client takes none of it for `timeout` seconds."""
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
                self._hang_up(error)
                self.pending.clear()
            self.room.shrink(len(self.pending))
        return True

    def take_room(self, size: int) -> bool:
        """Take room for `size` bytes more than are pending, until they are sent. Return whether there is any."""
        size += len(self.pending)
        return size <= max(self.room.size, SMALL) or self.room.take(size - self.room.size)

    def end(self) -> None:
        """Forget the pending output, which the client will never read."""
        self.pending.clear()
        self.room.shrink(0)

    def _hang_up(self, error: OSError) -> None:
        """Hang up when a line was lost and the client was not, since the line must not count as sent."""
        if error.errno not in GONE:  # no memory for it, say
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # the reader will notice, as it does if the client is gone

    async def wait(self) -> None:
        """Wait until `wake` is called: all was sent, or another condition of the waiting task may have changed."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class LaggedTopics:
    """The announcements that were left out for one client that lags, by topic."""

    def __init__(self) -> None:
        self._left_out: Counter[str] = Counter()

    def leave_out(self, topic: str) -> None:
        """Count a line that is not sent."""
        self._left_out[topic] += 1

    def lines(self, topics: Collection[str], revision: Callable[[], int]) -> Iterator[tuple[str, bytes]]:
        """Yield the notice for each topic that a client has missed and still listens to, once it has caught up."""
        for topic, count in self._left_out.items():
            if topic in topics:
                notice = {"resync": revision()} if topic == "registry" else {"missed": count}
                yield topic, encode_notification("announce", {"topic": topic, **notice})
