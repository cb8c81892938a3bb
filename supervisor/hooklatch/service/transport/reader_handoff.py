"""Notices fires that occupy a connection's reader for too long.  Knows readers and time, but no bytes, no request."""

from __future__ import annotations

from typing import Protocol

import trio

__all__ = ["ReadableConnection", "ReaderHandoff"]

TICK = 0.003  # seconds; after one to two of them under the same fire, another task takes over the reading


class ReadableConnection(Protocol):
    """The part of a connection whose reading can be handed to another task."""

    def read_on(self) -> None: ...


class ReaderHandoff:
    """Notices fires that occupy a reader for too long.  It sleeps while there are none.

    Whoever keeps a reader takes it out of `kept` again.
    """

    def __init__(self) -> None:
        self.kept: dict[ReadableConnection, int] = {}  # since which tick
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
            connection.read_on()

    async def run(self) -> None:
        while True:
            while self.kept:
                await trio.sleep(TICK)
                self._tick()
            self._wake, self._is_asleep = trio.Event(), True
            await self._wake.wait()

    def _tick(self) -> None:
        self._ticks += 1
        for connection in [one for one, since in self.kept.items() if self._ticks - since > 1]:
            del self.kept[connection]
            connection.read_on()
