"""Lets requests of busy sessions in one at a time.  Knows sessions and turns of the loop; knows no bytes, no request.

A request takes a piece of the one thread that all share.  Where a client has more requests here already, or its
session has some under way, the next one waits for admission, which is given once each time that the event loop goes
round, for another session each time (`core/fair_queue.py`).
So what a flood adds to anybody's wait is one request a round
and not all that there are; and who has nothing under way passes by.  Meanwhile nothing is read from those who wait:
what they offer beyond it stays with them.
"""

from __future__ import annotations

import trio

from hooklatch.core.fair_queue import FairQueue

__all__ = ["MAX_OF_SESSION", "UNHINDERED", "Flow", "Admission"]

UNHINDERED = 4  # requests of a session, or of all strangers, that may be under way before the next one has to queue
MAX_OF_SESSION = 256  # requests that all connections of one session may have unanswered
PLACES = 2**14  # connections that may wait: more than there can be


class Flow:
    """What the connections of one session have under way, or all that have none; and whose turn a turn is."""

    __slots__ = ("in_flight",)

    def __init__(self) -> None:
        self.in_flight = 0


class Admission:
    """Opens once a round of the event loop.  It sleeps while nobody waits."""

    def __init__(self) -> None:
        self._waiting: FairQueue[Flow, trio.Event] = FairQueue(PLACES)
        self._wake = trio.Event()
        self.strangers = Flow()  # connections without a session: they are counted together, and take turns apart

    def __len__(self) -> int:
        return len(self._waiting)

    async def turn(self, flow: Flow) -> None:
        """Wait for a turn of this flow."""
        passed = trio.Event()
        self._waiting.put(flow, passed)
        self._wake.set()
        try:
            await passed.wait()
        except trio.Cancelled:
            self._waiting.remove(flow, passed)
            raise

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._let_one_in():
                await trio.lowlevel.checkpoint()
            self._wake = trio.Event()

    def _let_one_in(self) -> bool:
        passed = self._waiting.take()
        if passed is None:
            return False
        passed.set()
        return True
