"""The watches over all connections: one task for each kind, since one for each connection would cost every request.

ReaderHandoff   fires that occupy a connection's reader for too long: another task then takes over the reading
LineTimeouts    lines that were begun: a connection whose line does not end in time is closed
Hangups         peers of half-closed sockets that are gone.  Such a socket stays readable, so only the hangup shows it
                it. One set watches all of them, since one for each would double the descriptors of a flood of these
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import Protocol

import trio

from hooklatch_worker.systems import system

__all__ = ["ReadableConnection", "ReaderHandoff", "LineTimeouts", "Sender", "Hangups"]

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
        self._alarm = trio.CancelScope()  # at the next tick; an event and a sleep took 30 us more of a single fire

    def keep(self, connection: ReadableConnection) -> None:
        self.kept[connection] = self._ticks
        if self._alarm.deadline == math.inf:
            self._alarm.deadline = trio.current_time() + TICK

    def hurry(self, connection: ReadableConnection) -> None:
        """Hand over a connection's reading now, if a fire occupies its reader."""
        if self.kept.pop(connection, None) is not None:
            connection.hand_over_reading()

    async def run(self) -> None:
        while True:
            self._alarm = trio.CancelScope(deadline=trio.current_time() + TICK if self.kept else math.inf)
            with self._alarm:
                await trio.sleep_forever()
            self._ticks += 1
            self._hand_over_late()

    def _hand_over_late(self) -> None:  # apart from `run`, which would keep the last connection while it sleeps
        for connection in [reader for reader, since in self.kept.items() if self._ticks - since > 1]:
            del self.kept[connection]
            connection.hand_over_reading()


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


class Hangups:
    """The half-closed sockets that are watched, and the callback of each."""

    def __init__(self) -> None:
        self._watched: dict[int, Callable[[], None]] = {}
        self._events: system.EventSet | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        with closing(system.EventSet()) as events:
            for fd in self._watched:  # registered before a failure of this task
                events.add_hangup(fd)
            self._events = events
            task_status.started()
            try:
                while True:
                    await trio.lowlevel.wait_readable(events.fileno())
                    self._call_back(events)
            finally:
                self._events = None

    def _call_back(self, events: system.EventSet) -> None:
        for fd in events.take():
            events.remove(fd)  # otherwise it would be reported again and again
            on_gone = self._watched.pop(fd, None)
            if on_gone is not None:
                on_gone()

    @contextmanager
    def watching(self, fd: int, on_gone: Callable[[], None]) -> Generator[None]:
        """Call `on_gone`, once, if the peer leaves during the block."""
        self._watched[fd] = on_gone
        if self._events is not None:
            self._events.add_hangup(fd)
        try:
            yield
        finally:
            if self._watched.pop(fd, None) is not None and self._events is not None:
                with suppress(OSError):  # closed descriptors are not watched any more
                    self._events.remove(fd)
