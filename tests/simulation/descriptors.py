"""What descriptors of the simulated machine stand for, but for those of its disk: sockets and processes.

What is sent arrives at once, later, or in parts, but in its order.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from simulation.kernel import File, Kernel, Process, make_error

__all__ = ["ListeningEnd", "ProcessHandle", "SocketEnd"]

ROOM, MESSAGES = 2**17, 200  # bytes, or messages, that a socket holds for its reader
SHORT, LATE = 0.02, 0.05  # how often a send is short, or arrives later
DELAY = 0.003  # seconds that what arrives later takes at most


class SocketEnd(File):
    """One end of a stream of bytes, or of a line of messages, each with the files that it hands over.

    `owner` is the process that made it, or the one that listened for it.
    """

    def __init__(self, kernel: Kernel, owner: Process, *, has_messages: bool = False) -> None:
        super().__init__(kernel)
        self.owner, self.has_messages, self._number = owner, has_messages, next(kernel.numbers)
        self.other: SocketEnd | None = None
        self.inbox = deque[tuple[bytes, Sequence[File]]]()
        self.free = MESSAGES if has_messages else ROOM  # how much more can be sent to this
        self.is_eof = self.is_shut = self.is_closed = self.is_reset = False
        self._last = 0.0  # when the last thing that was sent to this arrives

    def join(self, other: SocketEnd) -> None:
        """Connect this with another end."""
        self.other, other.other = other, self

    def is_readable(self) -> bool:
        return bool(self.inbox) or self.is_eof or self.is_reset

    def is_writable(self) -> bool:
        other = self.other
        return self.is_shut or other is None or other.is_closed or other.free > 0

    def is_hung_up(self) -> bool:
        return self.is_eof and self.is_shut

    def fstat(self) -> os.stat_result:
        return os.stat_result((stat.S_IFSOCK | 0o777, self._number, 9, 1, 0, 0, 0, 0, 0, 0))

    def write(self, data: bytes | memoryview, files: Sequence[File] = ()) -> int:
        other, draw, size = self.other, self.kernel.random.random, 1
        if other is None:
            raise make_error(errno.ENOTCONN)
        if self.is_shut or other.is_closed:
            raise make_error(errno.EPIPE)
        if other.free <= 0:
            raise make_error(errno.EAGAIN)
        if not self.has_messages:
            size = min(len(data), other.free)
            if size > 1 and draw() < SHORT:
                size = 1 + int((size - 1) * draw())
            data = data[:size]
        for file in files:
            file.references += 1  # by the message on its way
        other.free -= size
        other.arrive(partial(other.take, bytes(data), files))
        return len(data)

    def take(self, data: bytes, files: Sequence[File]) -> None:
        """Get what was sent to this."""
        if self.is_closed:
            drop(files)
        else:
            self.inbox.append((data, files))
            self.changed()

    def read(self, size: int) -> bytes:
        data, files = self.receive(size)
        drop(files)
        return data

    def receive(self, size: int) -> tuple[bytes, Sequence[File]]:
        """Return bytes, and the files that came with them."""
        inbox, draw = self.inbox, self.kernel.random.random
        if not inbox:
            if self.is_reset:
                self.is_reset = False
                raise make_error(errno.ECONNRESET)
            if self.is_eof:
                return b"", ()
            raise make_error(errno.EAGAIN)
        data, files = inbox.popleft()
        if self.has_messages:
            self.free += 1
        else:
            while inbox and len(data) < size:
                data += inbox.popleft()[0]
            if draw() < SHORT:
                size = min(size, 1 + int(len(data) * draw()))
            if len(data) > size:
                inbox.appendleft((data[size:], ()))
                data = data[:size]
            self.free += len(data)
        if self.other is not None:
            self.other.changed()
        return data, files

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
            self.changed()
            if self.other is not None:
                self.other.arrive(self.other.end_input)

    def end_input(self) -> None:
        self.is_eof = True
        self.changed()

    def refuse_input(self) -> None:
        """Have the other end know that nobody reads this any more."""
        self.is_eof = True
        if self.other is not None:
            self.other.is_shut = True
            self.other.changed()

    def on_close(self) -> None:
        self.is_closed = True
        if self.inbox and self.other is not None and not self.has_messages:
            self.other.is_reset = True
        self.shut_output()
        self.refuse_input()
        for _, files in self.inbox:
            drop(files)
        self.inbox.clear()


def drop(files: Sequence[File]) -> None:
    for file in files:
        file.drop()


class ListeningEnd(File):
    """A listening socket, and who waits to be accepted."""

    backlog = 128

    def __init__(self, kernel: Kernel, owner: Process) -> None:
        super().__init__(kernel)
        self.owner, self.is_closed = owner, False
        self.queue: deque[SocketEnd] = deque()

    def is_readable(self) -> bool:
        return bool(self.queue)

    def on_close(self) -> None:
        self.is_closed = True
        for end in self.queue:
            end.on_close()


class ProcessHandle(File):
    """A pidfd."""

    def __init__(self, kernel: Kernel, process: Process) -> None:
        super().__init__(kernel)
        self.process = process
        process.endings.append(self.changed)

    def is_readable(self) -> bool:
        return self.process.is_dead
