"""The choice of a record's next number, by comparing its end with its anchor and its mark.  Pure.

    shut down cleanly          the mark names the last record: the next number follows it
    ended by a crash           records written after the last sync may have been lost, so continue after all reserved
                               numbers; the next segment states which were skipped
    anchor or mark unusable    the same, and a fault

A number is never used twice: replies may already name the number and the hash of a record that was lost.
"""

from __future__ import annotations

import msgspec

from hooklatch.record.storage.mark import BLOCK, HighWaterMark

__all__ = ["RecordEnd", "Resumption", "resume_numbers"]


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
