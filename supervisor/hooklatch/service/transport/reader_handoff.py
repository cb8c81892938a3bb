"""The watch for fires that occupy a connection's reader for too long."""

from __future__ import annotations

from typing import Protocol

import trio

__all__ = ["ReadableConnection", "ReaderHandoff"]

TICK = 0.003  # seconds; after one to two of them under the same fire, another task takes over the reading


class ReadableConnection(Protocol):
    """The part of a connection whose reading can be handed to another task."""

    def hand_over_reading(self) -> None: ...


class ReaderHandoff:
    """The readers that a fire occupies, and the task that hands them over.  It sleeps while there are none.

    The code that puts a reader into `kept` takes it out again.
    """

    def __init__(self) -> None:
        self.kept: dict[ReadableConnection, int] = {}  # and the tick at which its fire began
        self._ticks = 0
        self._is_asleep = False
        self._wake = trio.Event()

    def keep(self, connection: ReadableConnection) -> None:
        self.kept[connection] = self._ticks
        if self._is_asleep:
            self._is_asleep = False
            self._wake.set()

    def hurry(self, connection: ReadableConnection) -> None:
        """Hand over a connection's reading now, if a fire occupies its reader."""
        if self.kept.pop(connection, None) is not None:
            connection.hand_over_reading()

    async def run(self) -> None:
        while True:
            while self.kept:
                await trio.sleep(TICK)
                self._tick()
            self._wake, self._is_asleep = trio.Event(), True
            await self._wake.wait()

    def _tick(self) -> None:
        self._ticks += 1
        for connection in [reader for reader, since in self.kept.items() if self._ticks - since > 1]:
            del self.kept[connection]
            connection.hand_over_reading()
