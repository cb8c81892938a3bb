"""Takes a record over from whoever wrote it last: locks it, mends its torn end, finds its head.  Knows files only.

Only what a crash can leave is mended: bytes after the last sound record.  They are moved beside the segment, never
thrown away.  Anything else that is wrong stays as it is and is told.  Where the numbers go on, resuming.py says.
"""

from __future__ import annotations

import fcntl
import os
import platform
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from hooklatch.record.files.anchor import read_anchor
from hooklatch.record.files.chain import GENESIS, Link
from hooklatch.record.files.mark import BLOCK, Mark, read_mark
from hooklatch.record.files.reading import of_kind
from hooklatch.record.files.segments import Place, places, read_tail, set_aside, sync_folder
from hooklatch.record.files.slots import SlotError
from hooklatch.record.storage.resuming import End, resume
from hooklatch.record.storage.retention import kept_by, missing_before
from hooklatch.version import VERSION

__all__ = ["Found", "RecordError", "facts_of_host", "lock", "take_over"]

LOCK_NAME = "lock"
Held = TypeVar("Held")


class RecordError(Exception):
    """Something cannot be recorded: what happened, where, and what to do."""


class Found(msgspec.Struct):
    """Where the chain goes on, what has to be recorded about its end, and what its anchor and its mark are to say.

    `unacknowledged` are faults of earlier: nobody has acknowledged them.
    """

    seq: int = 0
    hash: str = GENESIS
    place: Place | None = None
    last: Link | None = None
    skipped: tuple[int, int] | None = None
    anchored: tuple[int, str] = (0, GENESIS)
    mark: Mark = Mark()
    faults: list[str] = []
    unacknowledged: list[str] = []
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
    """Find the end of the chain, mend what a crash left behind it, and say how it goes on.

    Raises:
        OSError: it cannot be read or mended.
    """
    anchored, marked = read(read_anchor, folder), read(read_mark, folder)
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
    resumption = resume(End(folder, found.seq, found.hash, anchored, marked))
    found.faults += resumption.faults
    found.anchored = anchored if isinstance(anchored, tuple) else (found.seq, found.hash)
    found.seq, found.skipped = resumption.seq, resumption.skipped
    found.mark = mark_of(folder, found, marked)
    return found


def read(reader: Callable[[str], Held], folder: str) -> Held | str:
    try:
        return reader(folder)
    except SlotError as error:
        return str(error)


def mark_of(folder: str, found: Found, marked: Mark | str | None) -> Mark:
    """Return what the mark is to say from now on; it must be on the disk before the next record is written."""
    mark = marked if isinstance(marked, Mark) else Mark()
    segments = places(folder)
    if found.last is not None and found.last.seq > mark.seq:
        for retired in of_kind(segments, "retired", since=mark.seq):
            kept = kept_by(retired)
            if kept is None:
                found.faults.append(f"record {retired['seq']} in {folder} tells of a removal that was none")
                continue
            mark = msgspec.structs.replace(mark, kept_seq=kept.kept_seq, kept_prev=kept.kept_prev, lost=kept.lost)
            break
    if mark.fault_seq:
        told = of_kind(segments, "fault", since=mark.fault_seq - 1)
        found.unacknowledged = [str(record.get("text")) for record in told][::-1]
        if not found.unacknowledged:
            found.unacknowledged = [
                f"a fault was found near record {mark.fault_seq}, and its text is not in the record"
            ]
    told_seq, kept_seq, kept_prev, lost = mark.told_seq, mark.kept_seq, mark.kept_prev, mark.lost
    if found.place is None:
        used = found.skipped[0] - 1 if found.skipped is not None else found.seq
        lost += max(0, used + 1 - kept_seq)
        kept_seq, kept_prev = found.seq + 1, found.hash
    elif (missing := missing_before(folder, mark)) is not None:
        found.faults.append(missing)
        told_seq = segments[0].first
    return Mark(
        is_shut=False, through=max(mark.through, found.seq + BLOCK), seq=mark.seq, hash=mark.hash, kept_seq=kept_seq,
        kept_prev=kept_prev, told_seq=told_seq, lost=lost,
        fault_seq=mark.fault_seq or (found.seq + 1 if found.faults else 0),
    )  # fmt: skip


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
