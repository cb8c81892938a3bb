"""A system that `PortableSystem` is for, on Linux: its own calls are answered by a kernel that is named to it.

`LinuxKernel` answers from /proc and by pidfds.  `RemoteKernel` asks one over a socket, for a process that has neither.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from hooklatch_worker.systems import linux
from hooklatch_worker.systems.portable import PortableSystem, ProcessEntry

__all__ = ["Kernel", "KernelServer", "LinuxKernel", "RemoteKernel", "StandInSystem"]

STATE, PARENT, GROUP, SESSION, THREADS, STARTED = 0, 1, 2, 3, 17, 19  # of the words after the name in /proc/PID/stat
ANSWER_BYTES = 2**22


class Kernel(Protocol):
    """What a system has to tell."""

    def list_processes(self) -> list[ProcessEntry]: ...

    def watch_process(self, pid: int) -> int: ...

    def count_threads(self, pid: int) -> int: ...


class LinuxKernel:
    """The kernel here."""

    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes."""
        found: list[ProcessEntry] = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):  # it has just ended
                found.append(read_entry(int(name)))
        return found

    def watch_process(self, pid: int) -> int:
        """Return a descriptor that shows its end."""
        return os.pidfd_open(pid)

    def count_threads(self, pid: int) -> int:
        """Return how many threads it has."""
        return linux.count_threads(pid)


def read_entry(pid: int) -> ProcessEntry:
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)  # all processes are read, often
    try:
        left, _, right = os.read(fd, 2**12).rpartition(b")")
    finally:
        os.close(fd)
    words = right.split()
    parent, group, session, started = (int(words[at]) for at in (PARENT, GROUP, SESSION, STARTED))
    state = {b"Z": b"Z", b"X": b"Z", b"T": b"T", b"t": b"T"}.get(words[STATE], b"R")
    return ProcessEntry(pid, parent, group, session, started, state, left.partition(b"(")[2])


class Question(msgspec.Struct):
    """What is asked of a kernel: the processes, or with a pid its end or its threads."""

    what: str
    pid: int = 0


class KernelServer:
    """A process that answers for the kernel here on a socket, until it is closed or its parent has ended."""

    def __init__(self, path: str) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(256)
            command = [sys.executable, "-m", "systems.stand_in", str(listener.fileno())]
            folder = Path(__file__).parents[1]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[listener.fileno()], cwd=folder
            )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def serve_kernel(listener: socket.socket) -> None:
    """Answer until the parent of this process has ended."""
    kernel, parent = LinuxKernel(), os.pidfd_open(os.getppid())
    while parent not in select.select([listener, parent], [], [])[0]:
        stream, _ = listener.accept()
        with stream, suppress(OSError, msgspec.DecodeError):  # its asker may have been killed
            answer(kernel, stream, msgspec.json.decode(stream.recv(2**12), type=Question))


def answer(kernel: Kernel, stream: socket.socket, question: Question) -> None:
    try:
        if question.what == "list":
            stream.sendall(msgspec.msgpack.encode(kernel.list_processes()))
        elif question.what == "threads":
            stream.sendall(msgspec.msgpack.encode(kernel.count_threads(question.pid)))
        else:
            handle = kernel.watch_process(question.pid)
            try:
                socket.send_fds(stream, [msgspec.msgpack.encode(0)], [handle])
            finally:
                os.close(handle)
    except OSError as error:
        stream.sendall(msgspec.msgpack.encode(f"{error.errno}"))


class RemoteKernel:
    """The kernel behind a `KernelServer`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes."""
        return msgspec.msgpack.decode(self._ask(Question("list"))[0], type=list[ProcessEntry])

    def watch_process(self, pid: int) -> int:
        """Return a descriptor that shows its end."""
        return self._ask(Question("watch", pid))[1][0]

    def count_threads(self, pid: int) -> int:
        """Return how many threads it has."""
        return msgspec.msgpack.decode(self._ask(Question("threads", pid))[0], type=int)

    def _ask(self, question: Question) -> tuple[bytes, list[int]]:
        try:
            return self._exchange(question)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a question takes no descriptor on macOS
        try:
            data, fds = self._exchange(question)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if fds and fds[0] >= soft:  # a handle does
            os.close(fds[0])
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return data, fds

    def _exchange(self, question: Question) -> tuple[bytes, list[int]]:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(self._path)
            stream.sendall(msgspec.json.encode(question))
            data, fds, _, _ = socket.recv_fds(stream, ANSWER_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            while more := stream.recv(ANSWER_BYTES):
                data += more
        failed = msgspec.msgpack.decode(data)
        if isinstance(failed, str):
            raise OSError(int(failed), os.strerror(int(failed)))
        return data, fds


class StandInSystem(PortableSystem):
    """A portable system whose own calls a kernel of Linux answers."""

    OTHER_SIGNALS = (signal.SIGPWR,)
    EventSet = linux.EventSet

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def is_supported(self) -> bool:
        """Return that it is."""
        return True

    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes."""
        return self._kernel.list_processes()

    def watch_process(self, pid: int) -> int:
        """Return a descriptor that shows its end."""
        return self._kernel.watch_process(pid)

    def count_threads(self, pid: int) -> int:
        """Return how many threads it has."""
        return self._kernel.count_threads(pid)


if __name__ == "__main__":
    serve_kernel(socket.socket(fileno=int(sys.argv[1])))
