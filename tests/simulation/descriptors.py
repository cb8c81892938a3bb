"""What descriptors of the simulated machine stand for: sockets, pipes, files in memory, processes, sets of them.

Bytes that are sent arrive at once, later, or in parts, but in their order.  `Socket`, `Epoll` and `Poll` have the
methods of the standard library's objects that the code under test calls; an unknown one is an AttributeError.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from simulation.kernel import File, Kernel, Process

__all__ = [
    "Epoll", "ListeningEnd", "MemoryFile", "Pipe", "Poll", "ProcessHandle", "Socket", "TextFile", "make_pair",
    "receive_files", "send_files",
]  # fmt: skip

ROOM = 2**17  # bytes that a socket holds for its reader
SHORT, LATE = 0.02, 0.05  # how often a send is short, or arrives later
DELAY = 0.003  # seconds that what arrives later takes at most
SO_PEERPIDFD = 77


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class SocketEnd(File):
    """One end of a connection. `peer` is the process at the other end, as it was when this connected."""

    is_packets = False

    def __init__(self, kernel: Kernel, owner: Process) -> None:
        super().__init__(kernel)
        self.other: SocketEnd | None = None
        self.owner = owner
        self.room = ROOM
        self.is_eof = self.is_shut = self.is_closed = self.is_reset = False
        self._last = 0.0  # when the last thing that was sent to this arrives
        self._pending = 0  # bytes that were sent to this and have not arrived

    def is_hung_up(self) -> bool:
        return self.is_eof and self.is_shut

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
        if self.holds_input and self.other is not None:
            self.other.is_reset = True
        self.is_closed = True
        self.shut_output()
        self.is_eof = True
        if self.other is not None:
            self.other.is_shut = True  # nobody reads it any more
            self.other.changed()

    @property
    def holds_input(self) -> bool:
        return False


class StreamEnd(SocketEnd):
    """One end of a stream of bytes."""

    def __init__(self, kernel: Kernel, owner: Process) -> None:
        super().__init__(kernel, owner)
        self.inbox = bytearray()

    @property
    def holds_input(self) -> bool:
        return bool(self.inbox)

    def is_readable(self) -> bool:
        return bool(self.inbox) or self.is_eof or self.is_reset

    def is_writable(self) -> bool:
        other = self.other
        return self.is_shut or other is None or other.is_closed or len(other.inbox) + other._pending < other.room

    def write(self, data: bytes) -> int:
        other = self.other
        if other is None:
            raise error(errno.ENOTCONN)
        if self.is_shut or other.is_closed:
            raise error(errno.EPIPE)
        taken = min(len(data), other.room - len(other.inbox) - other._pending)
        if taken <= 0:
            raise error(errno.EAGAIN)
        draw = self.kernel.random
        if taken > 1 and draw.random() < SHORT:
            taken = 1 + int((taken - 1) * draw.random())
        part = bytes(data[:taken])
        other._pending += taken

        def take() -> None:
            other._pending -= taken
            if not other.is_closed:
                other.inbox += part
                other.changed()

        other.arrive(take)
        return taken

    def read(self, size: int) -> bytes:
        if not self.inbox:
            if self.is_reset:
                self.is_reset = False
                raise error(errno.ECONNRESET)
            if self.is_eof:
                return b""
            raise error(errno.EAGAIN)
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

    is_packets = True

    def __init__(self, kernel: Kernel, owner: Process) -> None:
        super().__init__(kernel, owner)
        self.messages: deque[tuple[bytes, list[File]]] = deque()

    @property
    def holds_input(self) -> bool:
        return bool(self.messages)

    def is_readable(self) -> bool:
        return bool(self.messages) or self.is_eof

    def is_writable(self) -> bool:
        other = self.other
        return self.is_shut or other is None or other.is_closed or len(other.messages) + other._pending < 200

    def write(self, data: bytes, files: Sequence[File] = ()) -> int:
        other = self.other
        if self.is_shut or other is None or other.is_closed:
            raise error(errno.EPIPE)
        if not self.is_writable():
            raise error(errno.EAGAIN)
        message = bytes(data), list(files)
        for file in files:
            file.references += 1  # by the message on its way
        other._pending += 1

        def take() -> None:
            other._pending -= 1
            if other.is_closed:
                drop(message[1])
            else:
                other.messages.append(message)
                other.changed()

        other.arrive(take)
        return len(data)

    def read(self, size: int) -> bytes:
        data, files = self.take_message()
        drop(files)
        return data[:size]

    def take_message(self) -> tuple[bytes, list[File]]:
        if not self.messages:
            if self.is_eof:
                return b"", []
            raise error(errno.EAGAIN)
        message = self.messages.popleft()
        if self.other is not None:
            self.other.changed()
        return message

    def on_close(self) -> None:
        super().on_close()
        for _, files in self.messages:
            drop(files)
        self.messages.clear()


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


class Pipe(File):
    """Both ends of a pipe, which here is short."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.data = bytearray()

    def is_readable(self) -> bool:
        return bool(self.data)

    def is_writable(self) -> bool:
        return True

    def read(self, size: int) -> bytes:
        if not self.data:
            raise error(errno.EAGAIN)
        data = bytes(self.data[:size])
        del self.data[:size]
        return data

    def write(self, data: bytes) -> int:
        self.data += data
        self.changed()
        return len(data)


class MemoryFile(File):
    """A file of memfd_create(2)."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


class TextFile(File):
    """A file of /proc that is open: a text, and where it is read."""

    def __init__(self, kernel: Kernel, text: bytes) -> None:
        super().__init__(kernel)
        self.data, self.at = text, 0

    def read(self, size: int) -> bytes:
        data = self.data[self.at : self.at + size]
        self.at += len(data)
        return data

    def write(self, data: bytes) -> int:
        return len(data)


class ProcessHandle(File):
    """A pidfd."""

    def __init__(self, kernel: Kernel, process: Process) -> None:
        super().__init__(kernel)
        self.process = process
        process.endings.append(self.changed)

    def is_readable(self) -> bool:
        return self.process.is_dead


class Watched(File):
    """The files of an epoll object or a poll, with the events that are asked of each."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.files: dict[int, tuple[File, int]] = {}

    def is_readable(self) -> bool:
        return any(events_of(file, mask) for file, mask in self.files.values())

    def add(self, fd: int, file: File, mask: int) -> None:
        self.files[fd] = file, mask
        file.watchers[self] = None

    def remove(self, fd: int) -> None:
        file, _ = self.files.pop(fd)
        if all(other is not file for other, _ in self.files.values()):
            file.watchers.pop(self, None)

    def on_close(self) -> None:
        for fd in list(self.files):
            self.remove(fd)

    def ready(self) -> list[tuple[int, int]]:
        return [(fd, events) for fd, (file, mask) in self.files.items() if (events := events_of(file, mask))]


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


def fd_of(what: Any) -> int:
    return what if isinstance(what, int) else what.fileno()


def make_watchers(kernel: Kernel) -> tuple[type, type]:
    """Return the classes that stand for select.epoll and select.poll."""

    class BoundEpoll(Epoll):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(kernel)

    class BoundPoll(Poll):
        def __init__(self) -> None:
            super().__init__(kernel)

    return BoundEpoll, BoundPoll


class Epoll:
    """`select.epoll`."""

    def __init__(self, kernel: Kernel) -> None:
        self._process = kernel.process
        self._watched = Watched(kernel)
        self._fd = self._process.install(self._watched)

    def fileno(self) -> int:
        return self._fd

    def register(self, what: Any, mask: int = select.EPOLLIN | select.EPOLLPRI | select.EPOLLOUT) -> None:
        fd = fd_of(what)
        if fd in self._watched.files:
            raise error(errno.EEXIST)
        file = self._process.find(fd)
        self._watched.add(fd, file, mask)
        if events_of(file, mask):
            self._watched.changed()

    def unregister(self, what: Any) -> None:
        fd = fd_of(what)
        if fd not in self._watched.files:
            raise error(errno.ENOENT)
        self._watched.remove(fd)

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        assert timeout == 0
        return self._watched.ready()

    def close(self) -> None:
        if self._fd >= 0:
            self._process.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Epoll:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Poll:
    """`select.poll`: like it, it holds numbers, and looks for what they stand for when it polls."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._masks: dict[int, int] = {}

    def register(self, what: Any, mask: int = select.POLLIN | select.POLLPRI | select.POLLOUT) -> None:
        self._masks[fd_of(what)] = mask

    def unregister(self, what: Any) -> None:
        del self._masks[fd_of(what)]

    def _ready(self, process: Process) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for fd, mask in self._masks.items():
            file = process.fds.get(fd)
            events = select.POLLNVAL if file is None else events_of(file, mask)
            if events:
                found.append((fd, events))
        return found

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        kernel = self._kernel
        kernel.alive()
        process = kernel.process
        ready = self._ready(process)
        if ready or timeout == 0:
            return ready
        strand = kernel.current
        assert strand is not None, "the loop must not block in poll"
        files = [file for fd in self._masks if (file := process.fds.get(fd)) is not None]
        strand.wait_for(
            *files, is_ready=lambda: bool(self._ready(process)),
            timeout=timeout / 1000 if timeout is not None and timeout >= 0 else None,
        )  # fmt: skip
        return self._ready(process)


class Socket:
    """`socket.socket`: a descriptor of the process that made it."""

    kernel: Kernel
    listening: dict[str, ListeningEnd]
    timeout = None
    proto = 0

    def __init__(
        self, family: int = socket.AF_UNIX, type: int = socket.SOCK_STREAM, proto: int = 0, fileno: int | None = None
    ) -> None:
        kernel = self.kernel
        kernel.alive()
        self.process = kernel.process
        self._is_blocking = True
        self.family = socket.AF_UNIX
        if fileno is None:
            end: File = (PacketEnd if type & 0xF == socket.SOCK_SEQPACKET else StreamEnd)(kernel, self.process)
            fileno = self.process.install(end)
        self._fd = fileno
        self.type = socket.SOCK_SEQPACKET if isinstance(self.file, PacketEnd) else socket.SOCK_STREAM

    @property
    def file(self) -> Any:
        return self.process.find(self._fd)

    def fileno(self) -> int:
        return self._fd

    def setblocking(self, is_blocking: bool) -> None:
        self._is_blocking = is_blocking

    def settimeout(self, timeout: float | None) -> None:
        self._is_blocking = timeout != 0.0

    def gettimeout(self) -> float | None:
        return None if self._is_blocking else 0.0

    def setsockopt(self, *_: object) -> None:
        """Set nothing."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        end = self.file
        if option == socket.SO_PEERCRED and isinstance(end, SocketEnd) and end.other is not None:
            return struct.pack("=3i", end.other.owner.pid, os.geteuid(), 0)
        if option == SO_PEERPIDFD and isinstance(end, SocketEnd) and end.other is not None:
            if end.other.owner.is_reaped:
                raise error(errno.EINVAL)
            return self.process.install(ProcessHandle(self.kernel, end.other.owner))
        raise error(errno.ENOPROTOOPT)

    def _retry(self, act: Callable[[], Any], is_ready: Callable[[], bool], is_blocking: bool) -> Any:
        kernel = self.kernel
        kernel.alive()
        while True:
            try:
                return act()
            except BlockingIOError:
                if not is_blocking:
                    raise
                strand = kernel.current
                assert strand is not None, "the loop must not block in a socket"
                file = self.file
                others = [file.other] if isinstance(file, SocketEnd) and file.other is not None else []
                strand.wait_for(file, *others, is_ready=is_ready)

    def send(self, data: Any, flags: int = 0) -> int:
        file = self.file
        is_blocking = self._is_blocking and not flags & socket.MSG_DONTWAIT
        return self._retry(lambda: file.write(data), file.is_writable, is_blocking)

    def sendall(self, data: Any, flags: int = 0) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest) :]

    def recv(self, size: int, flags: int = 0) -> bytes:
        file = self.file
        is_blocking = self._is_blocking and not flags & socket.MSG_DONTWAIT
        return self._retry(lambda: file.read(size), file.is_readable, is_blocking)

    def shutdown(self, how: int) -> None:
        file = self.file
        if not isinstance(file, SocketEnd) or file.other is None:
            raise error(errno.ENOTCONN)
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            file.shut_output()
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            file.end_input()
            file.other.is_shut = True
            file.other.changed()

    def bind(self, path: str) -> None:
        if path in self.listening and not self.listening[path].is_closed:
            raise error(errno.EADDRINUSE)
        os.mknod(path, stat.S_IFSOCK | 0o600)
        self._path = path

    def listen(self, backlog: int = 128) -> None:
        end = ListeningEnd(self.kernel, self._path, self.process)
        self.process.install(end, self._fd)
        self.listening[self._path] = end

    def connect(self, path: Any) -> None:
        path = os.fsdecode(path)
        end = self.listening.get(path)
        if end is None or end.is_closed:
            raise error(errno.ENOENT if end is None else errno.ECONNREFUSED)
        if len(end.waiting) >= end.backlog:
            raise error(errno.EAGAIN)
        ours, theirs = self.file, StreamEnd(self.kernel, end.owner)
        ours.other, theirs.other = theirs, ours
        end.waiting.append(theirs)
        end.changed()

    def accept(self) -> tuple[Socket, str]:
        end = self.file
        if not end.waiting:
            raise error(errno.EAGAIN)
        return Socket(fileno=self.process.install(end.waiting.popleft())), ""

    def getpeername(self) -> str:
        if self.file.other is None:
            raise error(errno.ENOTCONN)
        return ""

    def getsockname(self) -> str:
        return getattr(self, "_path", "")

    def detach(self) -> int:
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            if not self.process.is_dead:
                self.process.close(fd)

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_pair(kernel: Kernel, kind: int = socket.SOCK_STREAM) -> tuple[Socket, Socket]:
    """Return what `socket.socketpair` does."""
    process = kernel.process
    make = PacketEnd if kind & 0xF == socket.SOCK_SEQPACKET else StreamEnd
    one, two = make(kernel, process), make(kernel, process)
    one.other, two.other = two, one
    return Socket(fileno=process.install(one)), Socket(fileno=process.install(two))


def send_files(stream: Socket, buffers: Sequence[bytes], fds: Sequence[int], flags: int = 0) -> int:
    """Do what `socket.send_fds` does."""
    end, process = stream.file, stream.process
    files = [process.find(fd) for fd in fds]
    is_blocking = stream._is_blocking and not flags & socket.MSG_DONTWAIT
    data = b"".join(bytes(part) for part in buffers)
    return stream._retry(lambda: end.write(data, files), end.is_writable, is_blocking)


def receive_files(stream: Socket, size: int, maximum: int, flags: int = 0) -> tuple[bytes, list[int], int, None]:
    """Do what `socket.recv_fds` does."""
    end, process = stream.file, stream.process
    data, files = stream._retry(end.take_message, end.is_readable, stream._is_blocking)
    fds = []
    for file in files:
        fds.append(process.install(file))
        file.references -= 1
    return data[:size], fds, 0, None
