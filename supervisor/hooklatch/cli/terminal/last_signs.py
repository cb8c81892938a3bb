"""The last signs of a daemon that does not answer: how it ended, from the end of its record and its locks."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hooklatch.errors import DaemonUnreachableError

__all__ = ["NobodyListensError", "find_last_signs", "suggest_waiting"]

LOCKS = "/proc/locks"
START = "start one with: hooklatch serve --detach"


class NobodyListensError(DaemonUnreachableError):
    """No daemon listens on any of the sockets, as opposed to one that listens but does not answer.

    `how` says how the last daemon ended: "stopped", "killed", or "failed" by itself.  It is "unknown" if there was none
    or its record cannot be read.  With "elsewhere" a daemon runs, on none of the sockets that were tried.  With
    "silent" it holds one of their folders, and does not listen there.
    """

    def __init__(self, text: str, how: str, *, since: str | None = None, pid: int | None = None) -> None:
        super().__init__(text)
        self.how = how
        self.since = since
        self.pid = pid


def find_last_signs(state_dir: str, tried: str, folders: Iterable[str] = ()) -> NobodyListensError:
    """Return the error for a daemon that used this directory and does not listen.

    `tried` names the sockets that were tried, and `folders` are those that hold them.
    """
    from hooklatch.record.storage.reading import Filters, NoRecordError, read_newest

    fault = f"no daemon is reachable at {tried}"
    for folder in folders:
        if is_locked(own := os.path.join(folder, "daemon.lock")):
            pid = read_pid(own)
            holder = "a daemon" if pid is None else f"a daemon (pid {pid})"
            state = (
                f"{holder} holds {folder} and does not listen there: it starts, it drains, or its socket was removed"
            )
            return NobodyListensError(f"{fault}: {state}; {suggest_waiting(pid)}", "silent", pid=pid)
    lock = os.path.join(state_dir, "daemon.lock")
    if is_locked(lock):
        pid = read_pid(lock)
        where = f"one with the same state (pid {pid}) listens elsewhere; name its folder with --runtime-dir"
        return NobodyListensError(f"{fault}: {where}", "elsewhere", pid=pid)
    try:
        last = next(read_newest(os.path.join(state_dir, "record"), Filters()), None)
    except (NoRecordError, OSError):
        last = None
    if last is None:
        return NobodyListensError(f"{fault}: {START}", "unknown")
    at, failure = str(last.get("at")), last.get("failure")
    if last.get("kind") != "stopped":  # the last entry of every daemon that ends by itself
        how, end = "killed", f"was killed or crashed (its last record is from {at})"
    elif failure is None:
        how, end = "stopped", f"was stopped at {at}"
    else:
        how, end = "failed", f"failed at {at}: {failure}"
    return NobodyListensError(f"{fault}: the last one {end}; {START}", how, since=at)


def suggest_waiting(pid: int | None) -> str:
    """Return the remedy for a daemon that holds its folder and does not listen there."""
    return "wait a moment" if pid is None else f"wait a moment, or end it with `kill {pid}`, then {START}"


def is_locked(path: str) -> bool:
    """Return whether a lock is held.  It is not taken, since that could make a daemon that is starting fail."""
    try:
        inode = str(os.stat(path).st_ino)
        with open(LOCKS, encoding="ascii") as file:
            return any(words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode for words in map(str.split, file))
    except (OSError, IndexError):
        return False


def read_pid(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None
