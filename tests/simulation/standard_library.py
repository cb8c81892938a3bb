"""What the standard library has of descriptors, for the simulated machine: `socket`, `select.poll`, `select.epoll`.

An object has the methods that the code under test calls; an unknown one is an AttributeError.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from typing import Any

from simulation.descriptors import ListeningEnd, PacketEnd, ProcessHandle, SocketEnd, StreamEnd, events_of
from simulation.kernel import File, Kernel, Process, make_error

__all__ = ["Epoll", "Poll", "Socket", "make_pair", "receive_files", "send_files"]

SO_PEERPIDFD = 77  # asm-generic/socket.h


def fd_of(what: Any) -> int:
    return what if isinstance(what, int) else what.fileno()


class Epoll(File):
    """`select.epoll`: the files that it watches, with the events that are asked of each."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._files: dict[int, tuple[File, int]] = {}
        self._process = kernel.process
        self._fd = self._process.install(self)

    def is_readable(self) -> bool:
        return any(events_of(file, mask) for file, mask in self._files.values())

    def on_close(self) -> None:
        for fd in list(self._files):
            self.unregister(fd)

    def fileno(self) -> int:
        return self._fd

    def register(self, what: Any, mask: int = select.EPOLLIN | select.EPOLLPRI | select.EPOLLOUT) -> None:
        fd = fd_of(what)
        file = self._process.find(fd)
        self._files[fd] = file, mask
        file.watchers[self] = None
        if events_of(file, mask):
            self.changed()

    def unregister(self, what: Any) -> None:
        file, _ = self._files.pop(fd_of(what))
        if all(other is not file for other, _ in self._files.values()):
            file.watchers.pop(self, None)

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        assert timeout == 0
        return [(fd, events) for fd, (file, mask) in self._files.items() if (events := events_of(file, mask))]

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._process.close(fd)

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
        if strand is None:
            assert timeout, "the loop must not wait in poll without an end"
            kernel.settle()
            kernel.run(timeout / 1000, lambda: bool(self._ready(process)))
            return self._ready(process)
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
        self,
        family: int = socket.AF_UNIX,
        type: int = socket.SOCK_STREAM,  # noqa: A002  (its name in the standard library)
        proto: int = 0,
        fileno: int | None = None,
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
                raise make_error(errno.EINVAL)
            return self.process.install(ProcessHandle(self.kernel, end.other.owner))
        raise make_error(errno.ENOPROTOOPT)

    def retry(self, act: Callable[..., Any], *arguments: object, is_ready: Callable[[], bool], flags: int = 0) -> Any:
        """Do something with what this stands for; wait until that can be done, if this is a socket that blocks."""
        kernel = self.kernel
        kernel.alive()
        while True:
            try:
                return act(*arguments)
            except BlockingIOError:
                if not self._is_blocking or flags & socket.MSG_DONTWAIT:
                    raise
                strand = kernel.current
                assert strand is not None, "the loop must not block in a socket"
                file = self.file
                others = [file.other] if isinstance(file, SocketEnd) and file.other is not None else []
                strand.wait_for(file, *others, is_ready=is_ready)

    def send(self, data: Any, flags: int = 0) -> int:
        file = self.file
        return self.retry(file.write, data, is_ready=file.is_writable, flags=flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest) :]

    def recv(self, size: int, flags: int = 0) -> bytes:
        file = self.file
        return self.retry(file.read, size, is_ready=file.is_readable, flags=flags)

    def shutdown(self, how: int) -> None:
        file = self.file
        if not isinstance(file, SocketEnd) or file.other is None:
            raise make_error(errno.ENOTCONN)
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            file.shut_output()
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            file.end_input()
            file.other.is_shut = True
            file.other.changed()

    def bind(self, path: str) -> None:
        if path in self.listening and not self.listening[path].is_closed:
            raise make_error(errno.EADDRINUSE)
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
            raise make_error(errno.ENOENT if end is None else errno.ECONNREFUSED)
        if len(end.waiting) >= end.backlog:
            raise make_error(errno.EAGAIN)
        ours, theirs = self.file, StreamEnd(self.kernel, end.owner)
        ours.other, theirs.other = theirs, ours
        end.waiting.append(theirs)
        end.changed()

    def accept(self) -> tuple[Socket, str]:
        end = self.file
        if not end.waiting:
            raise make_error(errno.EAGAIN)
        return Socket(fileno=self.process.install(end.waiting.popleft())), ""

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
    data = b"".join(bytes(part) for part in buffers)
    return stream.retry(end.write, data, files, is_ready=end.is_writable, flags=flags)


def receive_files(stream: Socket, size: int, maximum: int, flags: int = 0) -> tuple[bytes, list[int], int, None]:
    """Do what `socket.recv_fds` does."""
    end, process = stream.file, stream.process
    data, files = stream.retry(end.take_message, is_ready=end.is_readable)
    fds = []
    for file in files:
        fds.append(process.install(file))
        file.references -= 1
    return data[:size], fds, 0, None
