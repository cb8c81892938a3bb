"""Processes, sockets and files on Linux: pidfds, prctl(2), packet sockets, files in memory, and what /proc shows.

`PortableSystem` in `portable.py` has the same names for other systems; its docstrings say what each promises.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress

from hooklatch_worker.systems.libc import LIBC, raise_errno

__all__ = [
    "ADOPTS_ORPHANS", "CONFINES", "LOOKS", "NEEDS", "OTHER_SIGNALS", "SHARES_HANDLES", "EventSet", "become_subreaper",
    "close_from", "count_cores", "count_threads", "die_with_parent", "expose_file", "forbid_new_privileges",
    "freeze_processes", "has_ended", "is_same_process", "is_supported", "kill_children", "list_children",
    "list_descendants", "look_at", "make_anonymous_file", "make_bounded_file", "make_message_pair", "make_unreadable",
    "make_wakeup_pipe", "open_looked", "open_message_socket", "open_peer", "read_name", "read_parent_and_start",
    "read_process_state", "reap_child", "receive_message", "receive_process", "send_message", "send_process",
    "signal_process", "wake_when_orphaned", "watch_process",
]  # fmt: skip

ADOPTS_ORPHANS = CONFINES = SHARES_HANDLES = True
OTHER_SIGNALS = (signal.SIGPWR, signal.SIGSTKFLT, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
NEEDS = "Linux with pidfd (5.3 or later) and /proc"
LOOKS = os.O_PATH
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38  # linux/prctl.h
SO_PEERPIDFD = 77  # asm-generic/socket.h, Linux 6.5; Python 3.11 has no name for it
PARENT, STARTED = 1, 19  # of the words after the name in /proc/PID/stat (proc(5): fields 4 and 22)
FREEZE_TIMEOUT = 0.5  # seconds; an unstoppable process must not block us
LOOK_INTERVAL = 0.001  # seconds between two scans, for stopping processes to come to rest
AT_REST = b"TtZX"  # states in proc(5); not D, which may be a fork or a parent in vfork(2): that runs into the timeout


def is_supported() -> bool:
    return hasattr(os, "pidfd_open") and os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def call_prctl(option: int, value: int) -> None:
    raise_errno(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl({option}, {value})")


def become_subreaper() -> None:
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def make_unreadable() -> None:
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def forbid_new_privileges() -> None:
    call_prctl(PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent(parent_pid: int) -> None:
    """Have this process killed when the parent *thread* that forked it ends (prctl(2)); exit if it already has."""
    call_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


def wake_when_orphaned() -> None:
    call_prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def watch_process(pid: int) -> int:
    return os.pidfd_open(pid)


def signal_process(handle: int, pid: int, number: int) -> None:
    signal.pidfd_send_signal(handle, number)


def has_ended(*handles: int) -> bool:
    """Return whether any of these processes is dead, without blocking; select(2) is limited to descriptor 1023."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def send_process(pid: int) -> list[int]:
    return [os.pidfd_open(pid)]


def receive_process(pid: int, fds: list[int]) -> list[int]:
    return fds


def open_peer(stream: socket.socket, pid: int) -> int:
    try:
        return stream.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return os.pidfd_open(pid)  # an older kernel, where the pid may be reused before this call


def is_same_process(handle: int, pid: int) -> bool:
    if not has_ended(handle):
        return True
    try:
        with open(f"/proc/self/fdinfo/{handle}", "rb") as file:
            return b"\nPid:\t%d\n" % pid in file.read()
    except OSError:
        return False


def read_parent_and_start(pid: int) -> tuple[int, int]:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        words = file.read().rpartition(b")")[2].split()
    return int(words[PARENT]), int(words[STARTED])


def read_name(pid: int) -> bytes:
    with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
        return file.read(64).rstrip(b"\n")


def count_cores() -> int:
    return len(os.sched_getaffinity(0))


def count_threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def list_children(pid: int | None = None) -> list[int]:
    pids: list[int] = []
    base = f"/proc/{pid or 'self'}/task"
    try:
        threads = os.listdir(base)
    except OSError:
        return pids
    for thread in threads:
        try:
            with open(f"{base}/{thread}/children", "rb") as file:
                pids.extend(int(word) for word in file.read().split())
        except OSError:
            continue  # the thread has just ended; its children moved to another thread
    return pids


def list_descendants(pid: int) -> Iterator[int]:
    found_pids = {pid}
    pending = [pid]
    while pending:
        for child in list_children(pending.pop()):
            if child not in found_pids:
                found_pids.add(child)
                pending.append(child)
                yield child


def freeze_processes(roots: Iterable[int], *, timeout: float = FREEZE_TIMEOUT) -> set[int]:
    """Stop processes and all their descendants, so that none starts another; return all of them.

    Killing them as they are found would race with processes that keep forking.  A process stopped during a fork still
    completes it, so this ends once all are at rest and a later scan finds no new process.
    """
    roots = list(roots)
    frozen: set[int] = set()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        is_still = all(read_process_state(pid) in AT_REST for pid in frozen)
        present = set(roots).union(*(list_descendants(pid) for pid in roots))
        new_pids = present - frozen
        if is_still and not new_pids:
            break
        for pid in new_pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        frozen |= new_pids
        time.sleep(LOOK_INTERVAL)
    return frozen


def read_process_state(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2][1:2]
    except OSError:
        return b"X"


def kill_children(*, keep: frozenset[int] = frozenset()) -> int:
    """SIGKILL children and their descendants.  Orphans become our children: call it again until it returns 0."""
    condemned = [pid for pid in list_children() if pid not in keep]
    for pid in freeze_processes(condemned) if condemned else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in condemned:
        reap_child(pid)
    return len(condemned)


def reap_child(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


class EventSet:
    """Descriptors that are waited for as one."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.fileno, self.close, self.remove = self._epoll.fileno, self._epoll.close, self._epoll.unregister

    def add(self, fd: int) -> None:
        self._epoll.register(fd, select.EPOLLIN)

    def add_hangup(self, fd: int) -> None:
        self._epoll.register(fd, 0)

    def take(self) -> list[int]:
        return [fd for fd, _ in self._epoll.poll(0)]


def make_message_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def open_message_socket(fd: int) -> socket.socket:
    return socket.socket(fileno=fd)


def send_message(end: socket.socket, data: bytes, fds: list[int] | None = None, *, wait: bool = True) -> None:
    if fds:
        socket.send_fds(end, [data], fds)
    else:  # `send_fds` ignores flags before Python 3.13
        end.send(data, 0 if wait else socket.MSG_DONTWAIT)


def receive_message(end: socket.socket, most_fds: int = 0) -> tuple[bytes, list[int]]:
    return socket.recv_fds(end, 2**16, most_fds, socket.MSG_CMSG_CLOEXEC)[:2]


def make_wakeup_pipe() -> tuple[int, int]:
    return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


def close_from(low: int) -> None:
    os.closerange(low, 2**20)


def make_anonymous_file(name: str) -> int:
    return os.memfd_create(name, os.MFD_CLOEXEC)


def make_bounded_file(name: str, size: int) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


@contextmanager
def expose_file(fd: int) -> Generator[str]:
    yield f"/proc/self/fd/{fd}"


def look_at(name: str, folder: int | None = None) -> tuple[int, os.stat_result, str]:
    fd = os.open(name, LOOK, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if not stat.S_ISLNK(status.st_mode):
            return fd, status, ""
        target = os.readlink("", dir_fd=fd)
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return -1, status, target


def open_looked(fd: int) -> io.FileIO:
    return open(f"/proc/self/fd/{fd}", "rb", buffering=0)
