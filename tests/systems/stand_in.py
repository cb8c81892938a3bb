"""A system that `PortableSystem` is for, on Linux: its own calls are answered by a kernel that is named to it.

`LinuxKernel` answers from /proc and by pidfds.  `RemoteKernel` is for a process that has neither: it reads another
folder in which proc is mounted, and has its pidfds from a `KernelServer`.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from hooklatch_worker.systems import linux
from hooklatch_worker.systems.libc import LIBC, raise_errno
from hooklatch_worker.systems.portable import PortableSystem, ProcessEntry
from systems.fake_darwin import Event

__all__ = ["FileQueue", "Kernel", "KernelServer", "LinuxKernel", "RemoteKernel", "StandInSystem"]

STATE, PARENT, GROUP, SESSION, THREADS, STARTED = 0, 1, 2, 3, 17, 19  # of the words after the name in /proc/PID/stat
ANSWER_BYTES = 2**22


class Kernel(Protocol):
    """What a system has to tell."""

    def list_processes(self) -> list[ProcessEntry]: ...

    def watch_process(self, pid: int) -> int: ...

    def count_threads(self, pid: int) -> int: ...


class LinuxKernel:
    """The kernel here, which shows its processes in the folder `proc`."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc

    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes."""
        found: list[ProcessEntry] = []
        for name in filter(str.isdigit, os.listdir(self._proc)):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                found.append(read_entry(self._proc, int(name)))
        return found

    def watch_process(self, pid: int) -> int:
        """Return a descriptor that shows its end."""
        return os.pidfd_open(pid)

    def count_threads(self, pid: int) -> int:
        """Return how many threads it has."""
        return len(os.listdir(f"{self._proc}/{pid}/task"))


def read_entry(proc: str, pid: int) -> ProcessEntry:
    fd = os.open(f"{proc}/{pid}/stat", os.O_RDONLY)  # all processes are read, often
    try:
        left, _, right = os.read(fd, 2**12).rpartition(b")")
    finally:
        os.close(fd)
    words = right.split()
    parent, group, session, started = (int(words[at]) for at in (PARENT, GROUP, SESSION, STARTED))
    state = {b"Z": b"Z", b"X": b"Z", b"T": b"T", b"t": b"T"}.get(words[STATE], b"R")
    return ProcessEntry(pid, parent, group, session, started, state, left.partition(b"(")[2])


class KernelServer:
    """A process that answers with pidfds on a socket, until it is closed or its parent has ended."""

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
    """Answer until the parent of this process has ended, before those that wait for the answers where that may be."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -5)
    parent = os.pidfd_open(os.getppid())
    while parent not in select.select([listener, parent], [], [])[0]:
        stream, _ = listener.accept()
        with stream, suppress(OSError, ValueError):  # its asker may have been killed
            answer(stream, int(stream.recv(64)))


def answer(stream: socket.socket, pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        stream.sendall(b"%d" % (error.errno or errno.EIO))
        return
    try:
        socket.send_fds(stream, [b"0"], [handle])
    finally:
        os.close(handle)


class RemoteKernel(LinuxKernel):
    """The kernel in the folder `proc` and behind the `KernelServer` at `path`."""

    def __init__(self, path: str, proc: str) -> None:
        super().__init__(proc)
        self._path = path

    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes: that takes no descriptor on macOS."""
        try:
            return super().list_processes()
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
        with descriptors_left():
            return super().list_processes()

    def watch_process(self, pid: int) -> int:
        """Return a descriptor that shows its end."""
        try:
            return self._ask(pid)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
        with descriptors_left() as most:
            handle = self._ask(pid)
        if handle >= most:
            os.close(handle)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return handle

    def _ask(self, pid: int) -> int:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(self._path)
            stream.sendall(b"%d" % pid)
            data, fds, _, _ = socket.recv_fds(stream, 64, 1, socket.MSG_CMSG_CLOEXEC)
        if fds:
            return fds[0]
        number = int(data or errno.EMFILE)  # where no descriptor is left, there is none in the answer
        raise OSError(number or errno.EMFILE, os.strerror(number or errno.EMFILE))


@contextmanager
def descriptors_left() -> Generator[int]:
    """Have descriptors for what takes none on macOS; yield how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class FileQueue:
    """The module `select` of macOS as far as it tells of files (kqueue(2), EVFILT_VNODE), by Linux's inotify(7)."""

    # NOTE_DELETE, NOTE_WRITE, NOTE_EXTEND, NOTE_ATTRIB, NOTE_LINK, NOTE_RENAME, NOTE_REVOKE of sys/event.h
    NOTES = ((0x1, 0x400 | 0x4), (0x2, 0x3C2), (0x4, 0x2), (0x8, 0x4), (0x10, 0x4), (0x20, 0x800), (0x40, 0x2000))

    def __init__(self) -> None:
        self._fd = raise_errno(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
        self._fds: dict[int, set[int]] = {}

    def kqueue(self) -> FileQueue:
        """Return the queue."""
        return self

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is a report."""
        return self._fd

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def kevent(self, ident: int, kind: int, flags: int, fflags: int) -> Event:
        """Make a struct kevent."""
        return Event(ident, kind, flags, fflags)

    def control(self, changes: list[Event] | None, most: int, timeout: float) -> list[Event]:
        """Take changes, and tell what has been reported."""
        for fd, kind, flags, notes in changes or []:
            assert (kind, flags) == (-4, 0x1 | 0x20)  # EVFILT_VNODE; EV_ADD, EV_CLEAR
            mask = 0x20000000  # IN_MASK_ADD
            for note, bits in self.NOTES:
                mask |= bits if notes & note else 0
            place = f"/proc/self/fd/{fd}".encode()
            self._fds.setdefault(raise_errno(LIBC.inotify_add_watch(self._fd, place, mask), "add"), set()).add(fd)
        data = b""
        if most:
            with suppress(BlockingIOError):
                data = os.read(self._fd, 2**16)
        found, at = list[Event](), 0
        while at < len(data):
            watch, _, _, size = struct.unpack_from("iIII", data, at)
            at += 16 + size
            found += [Event(fd, -4, 0) for fd in self._fds.get(watch, ())]
        return found


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
