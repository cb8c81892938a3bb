"""Finds out how a daemon that does not answer ended, from the end of its record and its lock.  Read-only."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hooklatch.errors import DaemonUnreachableError

__all__ = ["NobodyListensError", "find_last_signs", "suggest_waiting"]

LOCKS = "/proc/locks"
START = "start one with: hooklatch serve --detach"


class NobodyListensError(DaemonUnreachableError):
    """No daemon listens on any of the sockets, as opposed to one that listens but does not answer.

    `how` the last one ended, and when: stopped, killed, or failed by itself; unknown if there was none or its record
    cannot be read.  "elsewhere": it runs, and on none of the sockets that were tried; "silent": it holds one of their
    folders, and does not listen there.
    """

    def __init__(self, text: str, how: str, *, since: str | None = None, pid: int | None = None) -> None:
        super().__init__(text)
        self.how = how
        self.since = since
        self.pid = pid


def find_last_signs(state_dir: str, tried: str, folders: Iterable[str] = ()) -> NobodyListensError:
    """Find out what happened to the daemon that used this directory; `tried` says where nobody listens.

    `folders` are where its sockets would be.
    """
    from hooklatch.record.files.reading import Filters, NoRecordError, read_newest

    nobody = f"no daemon is reachable at {tried}"
    for folder in folders:
        if is_locked(own := os.path.join(folder, "daemon.lock")):
            pid = read_pid(own)
            who = "one" if pid is None else f"one (pid {pid})"
            what = f"{who} holds {folder} and does not listen there: it starts, it drains, or its socket was removed"
            return NobodyListensError(f"{nobody}: {what}; {suggest_waiting(pid)}", "silent", pid=pid)
    lock = os.path.join(state_dir, "daemon.lock")
    if is_locked(lock):
        pid = read_pid(lock)
        where = f"one with the same state (pid {pid}) listens elsewhere; name its folder with --runtime-dir"
        return NobodyListensError(f"{nobody}: {where}", "elsewhere", pid=pid)
    try:
        last = next(read_newest(os.path.join(state_dir, "record"), Filters()), None)
    except (NoRecordError, OSError):
        last = None
    if last is None:
        return NobodyListensError(f"{nobody}: {START}", "unknown")
    at, failure = str(last.get("at")), last.get("failure")
    if last.get("kind") != "stopped":
        how, what = "killed", f"was killed or crashed (its last record is from {at})"
    elif failure is None:
        how, what = "stopped", f"was stopped at {at}"
    else:
        how, what = "failed", f"failed at {at}: {failure}"
    return NobodyListensError(f"{nobody}: the last one {what}; {START}", how, since=at)


def suggest_waiting(pid: int | None) -> str:
    """Return what to do about a daemon that holds its folder and does not listen there."""
    return "wait a moment" if pid is None else f"wait a moment, or end it with `kill {pid}`, then {START}"


def is_locked(path: str) -> bool:
    """Return whether a lock is held, without taking it, which could make a daemon that is starting fail."""
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
