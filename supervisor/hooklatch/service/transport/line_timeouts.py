"""The deadlines of lines that were begun: a connection whose line does not end in time is closed.

One task serves all of them, since a cancel scope for each piece that is read would cost every large request.
"""

from __future__ import annotations

from typing import Protocol

import trio

__all__ = ["LineTimeouts", "Sender"]


class Sender(Protocol):
    """The part of a connection that can run out of time."""

    def expire_line(self) -> None: ...


class LineTimeouts:
    """The deadline of each unfinished line, and the task that watches them.  It sleeps while there are none."""

    def __init__(self) -> None:
        self._deadlines: dict[Sender, float] = {}  # in order of their deadlines, since all lines have the same time
        self._wake = trio.Event()

    def begin(self, sender: Sender, deadline: float) -> None:
        self._deadlines[sender] = deadline
        self._wake.set()

    def end(self, sender: Sender) -> None:
        self._deadlines.pop(sender, None)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._deadlines:
                await trio.sleep_until(next(iter(self._deadlines.values())))
                self._end_late()
            self._wake = trio.Event()

    def _end_late(self) -> None:
        now = trio.current_time()
        for sender in [sender for sender, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[sender]
            sender.expire_line()
