"""Reaps processes that nothing else waits for.  Knows children; kills none.

The daemon adopts orphans: as a subreaper those that a dead zygote left, and as process 1 of a container those of
everything else there, such as what a health check or `docker exec` left behind.  Without this they stay as zombies.
"""

from __future__ import annotations

import multiprocessing
import os

from hooklatch.processes.zygote import resource_tracker_pids
from hooklatch_worker.sandbox import linux

__all__ = ["reap_strangers"]


def reap_strangers() -> int:
    """Reap each dead child except multiprocessing's own, whose exit code is needed there; return how many."""
    keep = {process.pid for process in multiprocessing.active_children()} | resource_tracker_pids()
    return sum(has_reaped(pid) for pid in linux.children() if pid not in keep)


def has_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False  # something else reaped it first
