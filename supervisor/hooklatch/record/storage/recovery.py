"""The recovery of a record from its last writer: lock it, repair a torn end, find its head, and choose the next number.

Only what a crash can leave behind is repaired: bytes after the last valid record, and segments after a gap behind the
newest record that was on disk.  They are moved to a file beside the segment, never discarded.  Any other damage is left
as it is and reported.

The next number follows from a comparison of the record's end with its anchor and its mark, which is pure:

    shut down cleanly          the mark names the last record: the next number follows it
    ended by a crash           records written after the last sync may have been lost, so continue after all reserved
                               numbers; the next segment states which were skipped
    anchor or mark unusable    the same, and a fault

A number is never used twice: replies may already name the number and the hash of a record that was lost.
"""

from __future__ import annotations

import math
import os
import platform
import stat
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from hooklatch import directories
from hooklatch.record.storage.chain import GENESIS, ChainLink, read_tail
from hooklatch.record.storage.mark import BLOCK, HighWaterMark, read_anchor, read_mark
from hooklatch.record.storage.retention import find_missing_beginning, read_retired, read_segment_header
from hooklatch.record.storage.segments import SegmentFile, list_segments
from hooklatch.record.storage.slots import SlotError
from hooklatch.version import VERSION
from hooklatch_worker.systems.disks import read_boot_id

__all__ = [
    "Recovery", "RecordError", "collect_host_facts", "lock_record", "recover_record", "RecordEnd", "Resumption",
    "resume_numbers",
]  # fmt: skip

T = TypeVar("T")


class RecordError(Exception):
    """Something cannot be recorded; the text says what happened, where, and what to do."""


class Recovery(msgspec.Struct):
    """The place where the chain continues, the entries about its end, and the new contents of anchor and mark.

    `unacknowledged` are faults of earlier daemons.
    """

    seq: int = 0
    hash: str = GENESIS
    place: SegmentFile | None = None
    last: ChainLink | None = None
    skipped: tuple[int, int] | None = None
    anchored: tuple[int, str] = (0, GENESIS)
    mark: HighWaterMark = HighWaterMark()
    faults: list[str] = []
    unacknowledged: list[dict[str, Any]] = []
    recovered: list[dict[str, Any]] = []


def lock_record(folder: str) -> int:
    """Make the directory private and lock it for this process; return the descriptor to keep open.

    Raises:
        RecordError: it belongs to another user, or another process writes there.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise RecordError(f"{folder} belongs to another user (uid {status.st_uid}); move it away")
        if status.st_mode & 0o077:
            os.chmod(folder, 0o700)
        return directories.lock_directory(folder, "lock")
    except directories.LockedError as error:
        raise RecordError(
            f"another process (pid {error.holder}) writes the record in {folder}; stop it first"
        ) from None
    except OSError as error:
        raise RecordError(f"the record cannot be opened in {folder}: {error.strerror}") from None


def recover_record(folder: str) -> Recovery:
    """Find the end of the chain, repair what a crash left behind it, and determine how it continues.

    Raises:
        OSError: it cannot be read or repaired.
    """
    anchored, marked = read_or_explain(read_anchor, folder), read_or_explain(read_mark, folder)
    recovery = Recovery()
    segments = list_segments(folder)
    synced = through = math.inf  # unknown
    if isinstance(anchored, tuple) and isinstance(marked, HighWaterMark):
        through = max(anchored[0], marked.seq)
        # Within one boot a killed daemon loses nothing that it wrote, so a gap there was made by somebody else.
        synced = through if marked.boot not in ("-", read_boot_id()) else synced
    gap = find_gap(segments, through, synced)
    while segments:
        place = segments.pop()
        tail = read_tail(place, synced)
        if tail is None or place.first >= gap:
            from hooklatch.record.storage.mending import move_away

            recovery.recovered += move_away(place)
            continue
        if tail.torn:
            from hooklatch.record.storage.mending import set_aside

            moved = set_aside(place, tail.end)
            facts = {"segment": place.name, "bytes": tail.torn, "after_seq": tail.link.seq, "to": moved}
            recovery.recovered.append(facts)
        if tail.fault is not None:
            recovery.faults.append(tail.fault)
        recovery.seq, recovery.hash, recovery.place, recovery.last = tail.link.seq, tail.link.hash, place, tail.link
        if place.first > (synced_through := 0 if through == math.inf else through) + 1 and segments:
            from hooklatch.record.storage.mending import sync_ended

            recovery.faults += sync_ended([*segments, place], synced_through)
        break
    resumption = resume_numbers(RecordEnd(folder, recovery.seq, recovery.hash, anchored, marked))
    recovery.faults += resumption.faults
    recovery.anchored = anchored if isinstance(anchored, tuple) else (recovery.seq, recovery.hash)
    recovery.seq, recovery.skipped = resumption.seq, resumption.skipped
    recovery.mark = make_recovered_mark(folder, recovery, marked)
    return recovery


def find_gap(segments: list[SegmentFile], through: float, synced: float) -> float:
    """Return where a segment begins that a loss of power cut off from the one before it; infinity if none does.

    It may have reached the disk, and the end of the one before it not.  What was synced is never behind it.
    """
    begun = [place for place in segments if place.first <= through + 1]
    last = next((tail.link.hash for place in reversed(begun) if (tail := read_tail(place, synced))), None)
    for place in segments[len(begun) :]:  # one with neither could not be begun, or is lost, as the next one shows
        header, tail = read_segment_header(place), read_tail(place, synced)
        if begun and (header or tail) and (header is None or header[0].prev != last):
            return place.first
        begun, last = ([place], tail.link.hash) if tail else (begun, last)
    return math.inf


def read_or_explain(reader: Callable[[str], T], folder: str) -> T | str:
    try:
        return reader(folder)
    except SlotError as error:
        return str(error)


def make_recovered_mark(folder: str, recovery: Recovery, marked: HighWaterMark | str | None) -> HighWaterMark:
    """Return the new contents of the mark, which must be on disk before the next record is written."""
    mark = marked if isinstance(marked, HighWaterMark) else HighWaterMark()
    segments = list_segments(folder)
    if recovery.last is not None and recovery.last.seq > mark.seq:
        from hooklatch.record.storage.lines import read_entries_of_kind  # most starts read none

        for retired in read_entries_of_kind(segments, "retired", since=mark.seq):
            kept = read_retired(retired)
            if kept is None:
                recovery.faults.append(f"record {retired['seq']} in {folder} reports a removal with impossible numbers")
                continue
            mark = msgspec.structs.replace(mark, kept_seq=kept.kept_seq, kept_prev=kept.kept_prev, lost=kept.lost)
            break
    if mark.fault_seq:
        from hooklatch.record.storage.lines import read_entries_of_kind

        recovery.unacknowledged = [*read_entries_of_kind(segments, "fault", since=mark.fault_seq - 1)][::-1]
        if not recovery.unacknowledged:
            text = f"a fault was found near record {mark.fault_seq}, but its text is not in the record"
            recovery.unacknowledged = [{"text": text}]
    reported_seq, kept_seq, kept_prev, lost = mark.reported_seq, mark.kept_seq, mark.kept_prev, mark.lost
    if recovery.place is None:
        used = recovery.skipped[0] - 1 if recovery.skipped is not None else recovery.seq
        lost += max(0, used + 1 - kept_seq)
        kept_seq, kept_prev = recovery.seq + 1, recovery.hash
    elif (missing := find_missing_beginning(folder, mark)) is not None:
        recovery.faults.append(missing)
        reported_seq = segments[0].first
    return HighWaterMark(
        is_closed=False, reserved_through=max(mark.reserved_through, recovery.seq + BLOCK), seq=mark.seq,
        hash=mark.hash, kept_seq=kept_seq, kept_prev=kept_prev, reported_seq=reported_seq, lost=lost,
        fault_seq=mark.fault_seq or (recovery.seq + 1 if recovery.faults else 0), boot=read_boot_id() or "-",
    )  # fmt: skip


def collect_host_facts() -> dict[str, Any]:
    """Return facts about the process and the host that write the record."""
    system = os.uname()
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "uid": os.getuid(),
        "host": system.nodename,
        "system": f"{system.sysname} {system.release} {system.machine}",
        "python": platform.python_version(),
        "boot_id": read_boot_id(),
    }


class RecordEnd(msgspec.Struct, frozen=True):
    """The ends by the folder, the anchor and the mark.  A text in place of a value says why it is unreadable."""

    folder: str
    seq: int
    hash: str
    anchored: tuple[int, str] | str | None
    marked: HighWaterMark | str | None


class Resumption(msgspec.Struct, frozen=True):
    """The decision: `seq` is the last used number; `skipped` the first and last number below it that stay unused."""

    seq: int
    skipped: tuple[int, int] | None
    faults: list[str]


def resume_numbers(end: RecordEnd) -> Resumption:
    """Return where the numbers continue, and the faults found."""
    faults = [*find_anchor_faults(end), *find_mark_faults(end)]
    known = [("anchor", *end.anchored)] if isinstance(end.anchored, tuple) else []
    if isinstance(end.marked, HighWaterMark):
        known.append(("mark", end.marked.seq, end.marked.hash))
    used = max(end.seq, *(seq for _, seq, _ in known), 0)
    if used > end.seq:
        faults.append(
            f"records {end.seq + 1} to {used} are missing from the end of the record in {end.folder}: it was truncated,"
            " or its disk lost data that was synced; replies from that time name their hashes"
        )
    faults += [
        f"record {seq} in {end.folder} differs from the one that its {name} names"
        for name, seq, own in known
        if seq == end.seq and own != end.hash
    ]
    through = find_last_reserved(end, used)
    return Resumption(through, (used + 1, through) if through > used else None, faults)


def find_anchor_faults(end: RecordEnd) -> list[str]:
    if isinstance(end.anchored, str):
        return [end.anchored]
    has_begun = end.seq > 0 or (isinstance(end.marked, HighWaterMark) and end.marked.seq > 0)
    if end.anchored is None and has_begun:
        return [f"the anchor in {end.folder} is gone, which names the newest record on disk"]
    return []


def find_mark_faults(end: RecordEnd) -> list[str]:
    mark = end.marked
    if isinstance(mark, str):
        return [mark]
    if mark is None:
        if end.seq > 0 or end.anchored is not None:
            return [f"the mark {end.folder}.mark is gone, which tells how far the record in {end.folder} has come"]
        return []
    if mark.is_closed and end.seq > mark.seq:
        return [
            f"records {mark.seq + 1} to {end.seq} in {end.folder} were written after its last daemon had ended, or"
            f" {end.folder}.mark is an old copy"
        ]
    if end.seq > mark.reserved_through:
        return [
            f"record {end.seq} in {end.folder} is beyond the numbers that {end.folder}.mark has reserved; the mark is"
            " an old copy"
        ]
    return []


def find_last_reserved(end: RecordEnd, used: int) -> int:
    if isinstance(end.marked, HighWaterMark):
        return used if end.marked.is_closed else max(used, end.marked.reserved_through)
    is_new = end.marked is None and end.anchored is None and used == 0
    return 0 if is_new else used + BLOCK
