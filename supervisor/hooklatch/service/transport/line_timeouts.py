"""Closes connections whose line was started and does not end in time.  Knows deadlines, but no bytes.

One task serves all of them: a cancel scope for each piece that is read would cost every large request.
"""

from __future__ import annotations

from typing import Protocol

import trio

__all__ = ["LineTimeouts", "Sender"]


class Sender(Protocol):
    """The part of a connection that can run out of time."""

    def out_of_time(self) -> None: ...


class LineTimeouts:
    """Keeps the deadline of each unfinished line.  It sleeps while there are none."""

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
        for sender in [one for one, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[sender]
            sender.out_of_time()
