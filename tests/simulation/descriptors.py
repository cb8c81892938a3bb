"""What descriptors of the simulated machine stand for: sockets, pipes, files in memory, processes.

Bytes that are sent arrive at once, later, or in parts, but in their order.
"""

from __future__ import annotations

import errno
import select
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from simulation.kernel import File, Kernel, Process, make_error

__all__ = ["ListeningEnd", "MemoryFile", "PacketEnd", "Pipe", "ProcessHandle", "SocketEnd", "StreamEnd", "events_of"]

ROOM = 2**17  # bytes that a socket holds for its reader
SHORT, LATE = 0.02, 0.05  # how often a send is short, or arrives later
DELAY = 0.003  # seconds that what arrives later takes at most


class SocketEnd(File):
    """One end of a connection. `owner` is the process that made it, or the one that listened for it."""

    room = ROOM

    def __init__(self, kernel: Kernel, owner: Process) -> None:
        super().__init__(kernel)
        self.other: SocketEnd | None = None
        self.owner = owner
        self.inbox: Any = bytearray()
        self.is_eof = self.is_shut = self.is_closed = self.is_reset = False
        self._last = 0.0  # when the last thing that was sent to this arrives
        self._pending = 0  # how much was sent to this and has not arrived

    def is_readable(self) -> bool:
        return bool(self.inbox) or self.is_eof

    def is_writable(self) -> bool:
        other = self.other
        return self.is_shut or other is None or other.is_closed or other.free > 0

    def is_hung_up(self) -> bool:
        return self.is_eof and self.is_shut

    @property
    def free(self) -> int:
        """How much more can be sent to this."""
        return self.room - len(self.inbox) - self._pending

    def find_other(self) -> SocketEnd:
        """Return the other end, if it takes something now.

        Raises:
            OSError: it never will, or not yet.
        """
        other = self.other
        if other is None:
            raise make_error(errno.ENOTCONN)
        if self.is_shut or other.is_closed:
            raise make_error(errno.EPIPE)
        if other.free <= 0:
            raise make_error(errno.EAGAIN)
        return other

    def deliver(self, item: Any, size: int) -> None:
        """Have something of some size arrive at this end."""
        self._pending += size

        def take() -> None:
            self._pending -= size
            if self.is_closed:
                self.discard(item)
            else:
                self.put(item)
                self.changed()

        self.arrive(take)

    def put(self, item: Any) -> None:
        self.inbox += item

    def discard(self, item: Any) -> None:
        """Take note that nobody reads this."""

    def arrive(self, action: Callable[[], None]) -> None:
        """Have something arrive at this end after all that was sent before."""
        kernel, when = self.kernel, self.kernel.now
        if kernel.random.random() < LATE:
            when += kernel.random.random() ** 2 * DELAY
        if when <= kernel.now and self._last <= kernel.now:
            action()
        else:
            self._last = max(when, self._last)
            kernel.at(self._last - kernel.now, action)

    def shut_output(self) -> None:
        if not self.is_shut:
            self.is_shut = True
            other = self.other
            self.changed()
            if other is not None:
                other.arrive(other.end_input)

    def end_input(self) -> None:
        self.is_eof = True
        self.changed()

    def on_close(self) -> None:
        if self.inbox and self.other is not None:
            self.other.is_reset = True
        self.is_closed = True
        self.shut_output()
        self.is_eof = True
        if self.other is not None:
            self.other.is_shut = True  # nobody reads it any more
            self.other.changed()


class StreamEnd(SocketEnd):
    """One end of a stream of bytes."""

    def is_readable(self) -> bool:
        return bool(self.inbox) or self.is_eof or self.is_reset

    def write(self, data: bytes) -> int:
        other, draw = self.find_other(), self.kernel.random
        taken = min(len(data), other.free)
        if taken > 1 and draw.random() < SHORT:
            taken = 1 + int((taken - 1) * draw.random())
        other.deliver(bytes(data[:taken]), taken)
        return taken

    def read(self, size: int) -> bytes:
        if not self.inbox:
            if self.is_reset:
                self.is_reset = False
                raise make_error(errno.ECONNRESET)
            if self.is_eof:
                return b""
            raise make_error(errno.EAGAIN)
        draw = self.kernel.random
        if draw.random() < SHORT:
            size = min(size, 1 + int(len(self.inbox) * draw.random()))
        data = bytes(self.inbox[:size])
        del self.inbox[:size]
        if self.other is not None:
            self.other.changed()
        return data


class PacketEnd(SocketEnd):
    """One end of a line of messages, each with the files that it hands over."""

    room = 200

    def __init__(self, kernel: Kernel, owner: Process) -> None:
        super().__init__(kernel, owner)
        self.inbox = deque[tuple[bytes, list[File]]]()

    def write(self, data: bytes, files: Sequence[File] = ()) -> int:
        other = self.find_other()
        for file in files:
            file.references += 1  # by the message on its way
        other.deliver((bytes(data), list(files)), 1)
        return len(data)

    def put(self, item: Any) -> None:
        self.inbox.append(item)

    def discard(self, item: Any) -> None:
        drop(item[1])

    def read(self, size: int) -> bytes:
        data, files = self.take_message()
        drop(files)
        return data[:size]

    def take_message(self) -> tuple[bytes, list[File]]:
        if not self.inbox:
            if self.is_eof:
                return b"", []
            raise make_error(errno.EAGAIN)
        message: tuple[bytes, list[File]] = self.inbox.popleft()
        if self.other is not None:
            self.other.changed()
        return message

    def on_close(self) -> None:
        super().on_close()
        for _, files in self.inbox:
            drop(files)
        self.inbox.clear()


def drop(files: Sequence[File]) -> None:
    for file in files:
        file.references -= 1
        if not file.references:
            file.on_close()


class ListeningEnd(File):
    """A listening socket, and who waits to be accepted."""

    def __init__(self, kernel: Kernel, path: str, owner: Process) -> None:
        super().__init__(kernel)
        self.path, self.owner, self.backlog = path, owner, 128
        self.waiting: deque[StreamEnd] = deque()
        self.is_closed = False

    def is_readable(self) -> bool:
        return bool(self.waiting)

    def on_close(self) -> None:
        self.is_closed = True
        for end in self.waiting:
            end.on_close()


class MemoryFile(File):
    """A file of memfd_create(2)."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        self.changed()
        return len(data)


class Pipe(MemoryFile):
    """Both ends of a pipe, which here is short."""

    def is_readable(self) -> bool:
        return bool(self.data)

    def is_writable(self) -> bool:
        return True

    def read(self, size: int) -> bytes:
        if not self.data:
            raise make_error(errno.EAGAIN)
        data = bytes(self.data[:size])
        del self.data[:size]
        return data


class ProcessHandle(File):
    """A pidfd."""

    def __init__(self, kernel: Kernel, process: Process) -> None:
        super().__init__(kernel)
        self.process = process
        process.endings.append(self.changed)

    def is_readable(self) -> bool:
        return self.process.is_dead


def events_of(file: File, mask: int) -> int:
    events = 0
    if mask & select.POLLIN and file.is_readable():
        events |= select.POLLIN
    if mask & select.POLLOUT and file.is_writable():
        events |= select.POLLOUT
    if mask & select.POLLPRI and file.is_urgent():
        events |= select.POLLPRI
    if file.is_hung_up():
        events |= select.POLLHUP
    return events
