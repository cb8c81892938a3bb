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

from simulation.descriptors import ListeningEnd, ProcessHandle, SocketEnd
from simulation.kernel import File, Kernel, make_error

__all__ = ["Epoll", "Poll", "Socket", "make_pair", "receive_files", "send_files"]

SO_PEERPIDFD = 77  # asm-generic/socket.h


class Poll:
    """`select.poll`: like it, it holds numbers, and looks for what they stand for when it polls."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._masks: dict[int, int] = {}

    def register(self, fd: int, mask: int) -> None:
        self._masks[fd] = mask

    def _ready(self) -> list[tuple[int, int]]:
        found, fds = list[tuple[int, int]](), self._kernel.process.fds
        for fd, mask in self._masks.items():
            if (file := fds.get(fd)) is None:
                found.append((fd, select.POLLNVAL))
            elif events := events_of(file, mask):
                found.append((fd, events))
        return found

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        kernel = self._kernel
        kernel.alive()
        ready = self._ready()
        if ready or timeout == 0:
            return ready
        seconds = None if timeout is None else timeout / 1000
        if kernel.current is None:
            assert seconds, "the loop must not wait in poll without an end"
            kernel.run(seconds, lambda: bool(self._ready()))
        else:
            files = [file for fd in self._masks if (file := kernel.process.fds.get(fd)) is not None]
            kernel.current.wait(*files, is_over=lambda: bool(self._ready()), timeout=seconds)
        return self._ready()


class Epoll(File):
    """`select.epoll`: the files that it watches, with the events that are asked of each."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._files: dict[int, tuple[File, int]] = {}
        self._process = kernel.process
        self._fd = self._process.install(self)
        self.fileno = lambda: self._fd

    def is_readable(self) -> bool:
        return bool(self.poll(0))

    def register(self, fd: int, mask: int) -> None:
        file = self._process.find(fd)
        self._files[fd] = file, mask
        file.waiting[self] = self.changed
        self.changed()

    def unregister(self, fd: int) -> None:
        file, _ = self._files.pop(fd)
        file.waiting.pop(self, None)

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        assert timeout == 0
        return [(fd, events) for fd, (file, mask) in self._files.items() if (events := events_of(file, mask))]

    def close(self) -> None:
        for fd in list(self._files):
            self.unregister(fd)
        if self._fd in self._process.fds:
            self._process.close(self._fd)

    def __enter__(self) -> Epoll:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def events_of(file: File, mask: int) -> int:
    events = select.POLLIN if mask & select.POLLIN and file.is_readable() else 0
    return events | select.POLLHUP if file.is_hung_up() else events


class Socket:
    """`socket.socket`: a descriptor of the process that made it."""

    kernel: Kernel
    listening: dict[str, ListeningEnd]
    family = socket.AF_UNIX
    timeout = None
    proto = 0

    def __init__(
        self,
        family: int = socket.AF_UNIX,
        type: int = socket.SOCK_STREAM,  # noqa: A002  (its name in the standard library)
        proto: int = 0,
        fileno: int | None = None,
    ) -> None:
        self.kernel.alive()
        self.process = self.kernel.process
        self._is_blocking = True
        if fileno is None:
            fileno = self.process.install(SocketEnd(self.kernel, self.process))
        self._fd, self.type = fileno, type

    @property
    def file(self) -> Any:
        return self.process.find(self._fd)

    def fileno(self) -> int:
        return self._fd

    def setblocking(self, is_blocking: bool) -> None:
        self._is_blocking = is_blocking

    def setsockopt(self, *_: object) -> None:
        """Set nothing."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        owner = self.file.other.owner
        if option == socket.SO_PEERCRED:
            return struct.pack("=3i", owner.pid, os.geteuid(), 0)
        if option != SO_PEERPIDFD:
            raise make_error(errno.ENOPROTOOPT)
        if owner.is_reaped:
            raise make_error(errno.EINVAL)
        return self.process.install(ProcessHandle(self.kernel, owner))

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
                assert kernel.current is not None, "the loop must not block in a socket"
                kernel.current.wait(self.file, is_over=is_ready)

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
        if how != socket.SHUT_RD:
            file.shut_output()
        if how != socket.SHUT_WR:
            file.refuse_input()
            file.changed()

    def bind(self, path: str) -> None:
        if path in self.listening and not self.listening[path].is_closed:
            raise make_error(errno.EADDRINUSE)
        os.mknod(path, stat.S_IFSOCK | 0o600)
        self._path = path

    def listen(self, backlog: int = 128) -> None:
        end = self.listening[self._path] = ListeningEnd(self.kernel, self.process)
        self.process.install(end, self._fd)

    def connect(self, path: Any) -> None:
        end = self.listening.get(os.fsdecode(path))
        if end is None or end.is_closed:
            raise make_error(errno.ENOENT if end is None else errno.ECONNREFUSED)
        if len(end.queue) >= end.backlog:
            raise make_error(errno.EAGAIN)
        theirs = SocketEnd(self.kernel, end.owner)
        self.file.join(theirs)
        end.queue.append(theirs)
        end.changed()

    def accept(self) -> tuple[Socket, str]:
        end = self.file
        if not end.queue:
            raise make_error(errno.EAGAIN)
        return Socket(fileno=self.process.install(end.queue.popleft())), ""

    def detach(self) -> int:
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        if (fd := self.detach()) >= 0 and not self.process.is_dead:
            self.process.close(fd)

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_pair(kernel: Kernel, kind: int = socket.SOCK_STREAM) -> tuple[Socket, Socket]:
    """Return what `socket.socketpair` does."""
    process, has_messages = kernel.process, kind & 0xF == socket.SOCK_SEQPACKET
    one, two = (SocketEnd(kernel, process, has_messages=has_messages) for _ in range(2))
    one.join(two)
    return Socket(type=kind, fileno=process.install(one)), Socket(type=kind, fileno=process.install(two))


def send_files(stream: Socket, buffers: Sequence[bytes], fds: Sequence[int], flags: int = 0) -> int:
    """Do what `socket.send_fds` does."""
    end, files = stream.file, [stream.process.find(fd) for fd in fds]
    return stream.retry(end.write, b"".join(buffers), files, is_ready=end.is_writable, flags=flags)


def receive_files(stream: Socket, size: int, maximum: int, flags: int = 0) -> tuple[bytes, list[int], int, None]:
    """Do what `socket.recv_fds` does."""
    end = stream.file
    data, files = stream.retry(end.receive, size, is_ready=end.is_readable)
    fds = [stream.process.install(file) for file in files]
    for file in files:
        file.drop()  # the message referred to it too
    return data, fds, 0, None
