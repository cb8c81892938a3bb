"""The Linux calls that the standard library lacks: prctl(2), and children by /proc.  Knows no hook and no policy."""

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
    "become_subreaper",
    "children",
    "descendants",
    "die_with_parent",
    "forbid_new_privileges",
    "freeze",
    "has_ended",
    "is_supported",
    "kill_children",
    "wake_when_orphaned",
]

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

FREEZE_TIMEOUT = 0.5  # seconds; what cannot be stopped must not hold us
LOOK_INTERVAL = 0.001  # seconds between two such looks, in which those that run come to their stop
AT_REST = b"TtZX"  # states of proc(5); not D, in which a fork may be, or a parent in vfork(2): then time runs out
PAGE = os.sysconf("SC_PAGE_SIZE")


def is_supported() -> bool:
    """Return whether this system has what the daemon stands on: Linux with pidfd and /proc."""
    own_children = f"/proc/self/task/{os.getpid()}/children"
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and os.path.exists(own_children)


def prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"prctl({option}, {value})")


def become_subreaper() -> None:
    """Adopt every orphaned descendant, so that it can be found and killed."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Make set-user-id programs gain nothing, here and in every child."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent(parent_pid: int) -> None:
    """Be killed when the parent's thread that forked us ends; leave at once if it has ended already.

    The signal belongs to the forking *thread* (prctl(2)), so only a child of a single-threaded process may arm it.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


def wake_when_orphaned() -> None:
    """Be continued when the parent ends, so that a stopped process also hears of it."""
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def has_ended(*pidfds: int) -> bool:
    """Return whether a process (any of these) is dead, without waiting; select(2) would stop at descriptor 1023."""
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def children(pid: int | None = None) -> list[int]:
    """List the direct children of a process (this one by default), zombies included; empty when it is gone."""
    found: list[int] = []
    base = f"/proc/{pid or 'self'}/task"
    try:
        threads = os.listdir(base)
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"{base}/{thread}/children", "rb") as file:
                found.extend(int(word) for word in file.read().split())
        except OSError:
            continue  # that thread has just ended; its children moved to another one
    return found


def descendants(pid: int) -> Iterator[int]:
    """Yield every descendant of a process, parents before their children."""
    seen = {pid}
    pending = [pid]
    while pending:
        for child in children(pending.pop()):
            if child not in seen:
                seen.add(child)
                pending.append(child)
                yield child


def freeze(roots: Iterable[int], *, timeout: float = FREEZE_TIMEOUT) -> set[int]:
    """Stop processes and all below them, so that none starts another one; give them all.

    Killing them as they are found would be a race with whatever forks without end.  Who was stopped while it forked
    still finishes that one, so this ends when everybody rests and a look after that finds nobody new.
    """
    roots = list(roots)
    frozen: set[int] = set()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        is_still = all(state_of(pid) in AT_REST for pid in frozen)
        found = set(roots).union(*(descendants(pid) for pid in roots))
        fresh = found - frozen
        if is_still and not fresh:
            break
        for pid in fresh:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        frozen |= fresh
        time.sleep(LOOK_INTERVAL)
    return frozen


def state_of(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2][1:2]
    except OSError:
        return b"X"  # it is gone


def kill_children(*, keep: frozenset[int] = frozenset()) -> int:
    """SIGKILL every child of this process but those to keep, with all below it; give how many children that were.

    What died is reaped, what lost its parent has become a child of ours: call it again until it gives 0.
    """
    condemned = [pid for pid in children() if pid not in keep]
    for pid in freeze(condemned) if condemned else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in condemned:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return len(condemned)
