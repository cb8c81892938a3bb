"""Linux calls missing from the standard library: prctl(2), and children through /proc."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

__all__ = [
    "LIBC", "become_subreaper", "raise_errno", "list_children", "list_descendants", "make_unreadable",
    "die_with_parent", "forbid_new_privileges", "freeze_processes", "has_ended", "is_supported", "kill_children",
    "reap_child", "wake_when_orphaned",
]  # fmt: skip

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

FREEZE_TIMEOUT = 0.5  # seconds; an unstoppable process must not block us
LOOK_INTERVAL = 0.001  # seconds between two scans, for stopping processes to come to rest
AT_REST = b"TtZX"  # states in proc(5); not D, which may be a fork or a parent in vfork(2): that runs into the timeout
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def is_supported() -> bool:
    """Return whether this system meets the daemon's needs: Linux with pidfd and /proc."""
    own_children = f"/proc/self/task/{os.getpid()}/children"
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and os.path.exists(own_children)


def raise_errno(result: int, what: str) -> int:
    """Return the result of a call of LIBC.

    Raises:
        OSError: it failed; the error names `what`.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def call_prctl(option: int, value: int) -> None:
    raise_errno(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl({option}, {value})")


def become_subreaper() -> None:
    """Become the parent of all orphaned descendants, so that they can be found and killed."""
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def make_unreadable() -> None:
    """Keep other processes of the user from reading this one's memory, environment and descriptors (prctl(2)).

    For the daemon: it lasts until the next execve, so programs that it starts are not affected.
    """
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def forbid_new_privileges() -> None:
    """Disable privileges from set-user-id programs, for this process and its children."""
    call_prctl(PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent(parent_pid: int) -> None:
    """Have this process killed when the parent thread that forked it ends; exit at once if it already has.

    The signal is tied to the forking *thread* (prctl(2)), so this is only for children of single-threaded processes.
    """
    call_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


def wake_when_orphaned() -> None:
    """Get SIGCONT when the parent ends, so that a stopped process notices it too."""
    call_prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def has_ended(*pidfds: int) -> bool:
    """Return whether any of these processes is dead, without blocking; select(2) is limited to descriptor 1023."""
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def list_children(pid: int | None = None) -> list[int]:
    """Return the direct children of a process (default: this one), including zombies; empty if it is gone."""
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
    """Yield every descendant of a process, parents before their children."""
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
        return b"X"  # it is gone


def kill_children(*, keep: frozenset[int] = frozenset()) -> int:
    """SIGKILL every child of this process except those in `keep`, with its descendants; return how many children.

    Dead children are reaped, and orphans become our children: call it again until it returns 0.
    """
    condemned = [pid for pid in list_children() if pid not in keep]
    for pid in freeze_processes(condemned) if condemned else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in condemned:
        reap_child(pid)
    return len(condemned)


def reap_child(pid: int) -> bool:
    """Reap a child if it is dead; return whether it is gone, also if it was reaped before."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
