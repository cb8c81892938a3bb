"""The Linux calls that the standard library lacks: prctl(2), and children by /proc.  Knows no hook and no policy."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator

__all__ = [
    "become_subreaper",
    "children",
    "descendants",
    "die_with_parent",
    "forbid_new_privileges",
    "has_ended",
    "is_supported",
    "kill_children",
    "wake_when_orphaned",
]

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def is_supported() -> bool:
    """Say whether this system has what the daemon stands on: Linux with pidfd and /proc."""
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
    """Say whether a process (any of these) is dead, without waiting; select(2) would stop at descriptor 1023."""
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
    """Give every descendant of a process, parents before their children."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def kill_children(*, keep: frozenset[int] = frozenset()) -> int:
    """SIGKILL and reap every child of this process but those to keep, adopted orphans too; give how many were left.

    Killing a child hands its own children to us, so call it again until it gives 0.
    """
    left = 0
    for pid in children():
        if pid in keep:
            continue
        left += 1
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        except (ProcessLookupError, ChildProcessError):
            continue
    return left
