"""Finds out how a daemon that does not answer ended, from the end of its record and its lock.  Read-only."""

from __future__ import annotations

import os

from hooklatch.errors import DaemonUnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    How: TypeAlias = Literal["stopped", "failed", "killed", "elsewhere", "unknown"]

__all__ = ["Absence", "NobodyListensError", "look"]

LOCKS = "/proc/locks"
START = "start one with: hooklatch serve --detach"


class Absence:
    """How the last daemon ended, and when; `elsewhere`: one is running, on other sockets than those tried.

    `failed`: it ended by itself because of a `failure`.  `unknown`: there was none, or its record cannot be read.
    """

    def __init__(self, how: How, at: str | None = None, *, pid: int | None = None, failure: str | None = None) -> None:
        self.how: How = how
        self.at = at
        self.pid = pid
        self.failure = failure

    @property
    def text(self) -> str:
        match self.how:
            case "stopped":
                return f"the last one was stopped at {self.at}; {START}"
            case "failed":
                return f"the last one failed at {self.at}: {self.failure}; {START}"
            case "killed":
                return f"the last one was killed or crashed (its last record is from {self.at}); {START}"
            case "elsewhere":
                return f"one with the same state (pid {self.pid}) listens elsewhere; name its folder with --runtime-dir"
            case "unknown":
                return START


class NobodyListensError(DaemonUnreachableError):
    """No daemon listens on any of the sockets, as opposed to one that listens but does not answer."""

    def __init__(self, tried: str, absence: Absence) -> None:
        super().__init__(f"no daemon is reachable at {tried}: {absence.text}")
        self.absence = absence


def look(state_dir: str) -> Absence:
    """Find out what happened to the daemon that used this directory."""
    from hooklatch.record.files.reading import Filters, NoRecordError, newest

    lock = os.path.join(state_dir, "daemon.lock")
    if is_locked(lock):
        return Absence("elsewhere", pid=pid_in(lock))
    try:
        last = next(newest(os.path.join(state_dir, "record"), Filters()), None)
    except (NoRecordError, OSError):
        return Absence("unknown")
    if last is None:
        return Absence("unknown")
    at = str(last.get("at"))
    if last.get("kind") != "stopped":
        return Absence("killed", at)
    failure = last.get("failure")
    return Absence("stopped", at) if failure is None else Absence("failed", at, failure=str(failure))


def is_locked(path: str) -> bool:
    """Return whether a lock is held, without taking it, which could make a daemon that is starting fail."""
    try:
        inode = str(os.stat(path).st_ino)
        with open(LOCKS, encoding="ascii") as file:
            return any(words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode for words in map(str.split, file))
    except (OSError, IndexError):
        return False


def pid_in(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None
