"""The receive buffer of one client: bytes in, lines out.  A long line takes room of the budget."""

from __future__ import annotations

import socket

from hooklatch.core.protocol import MAX_FRAME, LineBuffer, read_ends
from hooklatch.service.registry.budget import SMALL, Budget, BudgetShare

__all__ = ["ReceiveBuffer"]

RECEIVED = 2**16  # bytes to receive at once


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
