"""What is known of a daemon that does not answer, from its record's end and its lock.  Changes nothing."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from hooklatch.errors import DaemonUnreachableError

__all__ = ["Absence", "NobodyListensError", "look"]

LOCKS = "/proc/locks"
START = "start one with: hooklatch serve --detach"


class Absence(msgspec.Struct, frozen=True):
    """How the last daemon ended, and when; `elsewhere` is one that runs, on other sockets than were looked for.

    `failed` is one that ended by itself, of a `failure`.  `unknown`: there was none, or its record cannot be read.
    """

    how: Literal["stopped", "failed", "killed", "elsewhere", "unknown"]
    at: str | None = None
    pid: int | None = None
    failure: str | None = None

    @property
    def text(self) -> str:
        match self.how:
            case "stopped":
                return f"the last one was stopped at {self.at}; {START}"
            case "failed":
                return f"the last one failed at {self.at}: {self.failure}; {START}"
            case "killed":
                return f"the last one was killed or crashed (its last record is of {self.at}); {START}"
            case "elsewhere":
                return f"one with the same state (pid {self.pid}) listens elsewhere; name its folder with --runtime-dir"
            case "unknown":
                return START


class NobodyListensError(DaemonUnreachableError):
    """There is no daemon at any of the sockets; a daemon that is there and does not answer is another error."""

    def __init__(self, tried: str, absence: Absence) -> None:
        super().__init__(f"no daemon is reachable at {tried}: {absence.text}")
        self.absence = absence


def look(state_dir: str) -> Absence:
    """Find out what became of the daemon that used this folder."""
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
    """Return whether somebody holds a lock, without taking it: a daemon that starts just now would find it taken."""
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
