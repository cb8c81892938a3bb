"""Reaps processes that nothing else waits for.  Knows children; kills none.

The daemon adopts orphans: as a subreaper those that a dead zygote left, and as process 1 of a container those of
everything else there, such as what a health check or `docker exec` left behind.  Without this they stay as zombies.
"""

from __future__ import annotations

import os

from hooklatch_worker.sandbox import linux

__all__ = ["reap_strangers"]


def reap_strangers() -> int:
    """Reap each dead child; return how many."""
    return sum(map(has_reaped, linux.children()))


def has_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False  # something else reaped it first
