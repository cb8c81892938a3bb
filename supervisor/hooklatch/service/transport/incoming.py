"""What one client sends: bytes in, lines out.  A long line takes room.  Knows a socket and bytes, but no request."""

from __future__ import annotations

import socket

from hooklatch.core.protocol import MAX_FRAME, LineBuffer, read_ends
from hooklatch.service.registry.budget import SMALL, Budget, BudgetShare

__all__ = ["ReceiveBuffer"]

RECEIVED = 2**16  # bytes to receive at once


class ReceiveBuffer:
    """What has arrived of one client, and whether more is expected; `holder` is whose room it takes."""

    __slots__ = ("_budget", "_holder", "_socket", "is_dropped", "is_ended", "lines", "room")

    def __init__(self, stream: socket.socket, budget: Budget, holder: object) -> None:
        self.lines = LineBuffer()
        self.room: BudgetShare | None = None  # of the line that has begun, if it is long
        self.is_ended = False
        self.is_dropped = False  # whatever arrives is read and forgotten
        self._socket = stream
        self._budget = budget
        self._holder = holder

    def receive(self) -> bool:
        """Take what has arrived, be it the end of input; return whether anything has."""
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
        """Whether the line that has begun is one that needs room."""
        return len(self.lines) > SMALL

    @property
    def needs_room(self) -> bool:
        """Whether no more of the line that has begun may be read before there is room for it."""
        return self.is_long and self.room is None and not self.lines.is_skipping

    async def make_room(self, timeout: float) -> None:
        """Wait so many seconds for room for the rest of a line; without it, only the line's ends will be kept."""
        room = BudgetShare(self._budget, self._holder)
        if await room.wait(MAX_FRAME, timeout):
            self.room = room
        else:
            self.lines.skip()

    def drop(self) -> tuple[int | str | None, bool]:
        """Keep nothing of what comes from now on; return what the line that has begun is, as `read_ends` does."""
        self.is_dropped = True
        room, self.room = self.room, None
        if room is not None:
            room.shrink(0)
        return read_ends(self.lines.clear())
