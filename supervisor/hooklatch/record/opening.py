"""Takes a record over from whoever wrote it last: locks it, mends its torn end, finds its head.  Knows files only.

Only what a crash can leave is mended: bytes after the last sound record.  They are moved beside the segment, never
thrown away.  Anything else that is wrong stays as it is and is told.
"""

from __future__ import annotations

import fcntl
import os
import platform
import stat
from contextlib import suppress
from typing import Any

import msgspec

from hooklatch.record.anchor import AnchorError, read_anchor
from hooklatch.record.chain import GENESIS, Link
from hooklatch.record.segments import Place, places, read_tail, set_aside, sync_folder
from hooklatch.version import VERSION

__all__ = ["Found", "RecordError", "facts_of_host", "lock", "take_over"]

LOCK_NAME = "lock"


class RecordError(Exception):
    """Something cannot be recorded: what happened, where, and what to do."""


class Found(msgspec.Struct):
    """Where the chain goes on, and what has to be recorded about its end."""

    seq: int = 0
    hash: str = GENESIS
    place: Place | None = None
    last: Link | None = None
    faults: list[str] = []
    recovered: list[dict[str, Any]] = []


def lock(folder: str) -> int:
    """Make the folder private, and take it for this process; gives the descriptor to keep open.

    Raises:
        RecordError: it is somebody else's, or another process writes there.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise RecordError(f"{folder} belongs to another user (uid {status.st_uid}); move it away")
        if status.st_mode & 0o077:
            os.chmod(folder, 0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(os.path.join(folder, LOCK_NAME), flags, 0o600)
    except OSError as error:
        raise RecordError(f"the record cannot be opened in {folder}: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise RecordError(f"another process (pid {holder}) writes the record in {folder}; stop it first") from None
    except OSError as error:
        os.close(fd)
        raise RecordError(f"{folder} cannot be locked: {error.strerror}; a record needs a local filesystem") from None
    with suppress(OSError):  # a full disk: the pid is only there to be shown
        os.pwrite(fd, b"%-10d\n" % os.getpid(), 0)
    return fd


def take_over(folder: str) -> Found:
    """Find the end of the chain, and mend what a crash left behind it.

    Raises:
        OSError: it cannot be read or mended.
    """
    found = Found()
    segments = places(folder)
    while segments:
        place = segments.pop()
        tail = read_tail(place)
        if tail is None:
            move_away(place, found)
            continue
        if tail.torn:
            moved = set_aside(place, tail.end)
            found.recovered.append({"segment": place.name, "bytes": tail.torn, "after_seq": tail.link.seq, "to": moved})
        if tail.fault is not None:
            found.faults.append(tail.fault)
        found.seq, found.hash, found.place, found.last = tail.link.seq, tail.link.hash, place, tail.link
        break
    compare_with_anchor(folder, found)
    return found


def move_away(place: Place, found: Found) -> None:
    """Take a segment without one sound record out of the way: a crash left it, or somebody wrote over it."""
    size = os.stat(place.path).st_size
    moved = None
    if size:
        moved = set_aside(place, 0)
    os.unlink(place.path)
    sync_folder(os.path.dirname(place.path))
    if moved is not None:
        found.recovered.append({"segment": place.name, "bytes": size, "after_seq": place.first - 1, "to": moved})


def compare_with_anchor(folder: str, found: Found) -> None:
    try:
        anchored = read_anchor(folder)
    except AnchorError as error:
        found.faults.append(str(error))
        return
    if anchored is None:
        if found.last is not None:
            found.faults.append(f"the anchor in {folder} is gone: what was cut off the record's end cannot be known")
        return
    seq, own = anchored
    if seq > found.seq:
        found.faults.append(
            f"records {found.seq + 1} to {seq} are missing from the end of the record in {folder}: it was cut, or its"
            " disk lost what it had promised to keep; replies of that time name their hashes"
        )
        found.seq = seq  # no number is used twice: what is missing stays visible
    elif seq == found.seq and own != found.hash:
        found.faults.append(f"record {seq} is another one than the anchor in {folder} says")


def facts_of_host() -> dict[str, Any]:
    """Say who writes, and where."""
    system = os.uname()
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "uid": os.getuid(),
        "host": system.nodename,
        "system": f"{system.sysname} {system.release} {system.machine}",
        "python": platform.python_version(),
        "boot_id": boot_id(),
    }


def boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None
