"""Where a record's numbers go on, and what its end, its anchor and its mark say of each other.  Pure: knows no file.

    ended by its daemon        the mark says which record is the last one: the next number follows it
    ended by a crash           what was written after the last sync is known to nobody, so the numbers go on behind
                               all that were reserved, and the next segment says which were skipped
    a witness gone or broken   the same, and a fault

A number is never used twice: of a record that was cut off, some reply names the number and the hash.
"""

from __future__ import annotations

import msgspec

from hooklatch.record.files.mark import BLOCK, Mark

__all__ = ["End", "Resumption", "resume"]


class End(msgspec.Struct, frozen=True):
    """What the folder and the mark were found to say.  Where something cannot be read, a text says why."""

    folder: str
    seq: int
    hash: str
    anchored: tuple[int, str] | str | None
    marked: Mark | str | None


class Resumption(msgspec.Struct, frozen=True):
    """`seq` counts as used.  `skipped` are numbers below it that nobody has missed: first and last."""

    seq: int
    skipped: tuple[int, int] | None
    faults: list[str]


def resume(end: End) -> Resumption:
    faults = [*faults_of_anchor(end), *faults_of_mark(end)]
    known = [("anchor", *end.anchored)] if isinstance(end.anchored, tuple) else []
    if isinstance(end.marked, Mark):
        known.append(("mark", end.marked.seq, end.marked.hash))
    used = max(end.seq, *(seq for _, seq, _ in known), 0)
    if used > end.seq:
        faults.append(
            f"records {end.seq + 1} to {used} are missing from the end of the record in {end.folder}: it was cut, or"
            " its disk lost what it had promised to keep; replies of that time name their hashes"
        )
    faults += [
        f"record {seq} in {end.folder} is another one than its {name} says"
        for name, seq, own in known
        if seq == end.seq and own != end.hash
    ]
    through = last_of_reserved(end, used)
    return Resumption(through, (used + 1, through) if through > used else None, faults)


def faults_of_anchor(end: End) -> list[str]:
    if isinstance(end.anchored, str):
        return [end.anchored]
    has_begun = end.seq > 0 or (isinstance(end.marked, Mark) and end.marked.seq > 0)
    if end.anchored is None and has_begun:
        return [f"the anchor in {end.folder} is gone, which says what is on the disk"]
    return []


def faults_of_mark(end: End) -> list[str]:
    mark = end.marked
    if isinstance(mark, str):
        return [mark]
    if mark is None:
        if end.seq > 0 or end.anchored is not None:
            return [f"the mark {end.folder}.mark is gone, which says how far the record in {end.folder} has come"]
        return []
    if mark.is_shut and end.seq > mark.seq:
        return [
            f"records {mark.seq + 1} to {end.seq} in {end.folder} were written after its last daemon had ended, or"
            f" {end.folder}.mark is an old copy"
        ]
    if end.seq > mark.through:
        return [f"record {end.seq} in {end.folder} is beyond what {end.folder}.mark has reserved; that is an old copy"]
    return []


def last_of_reserved(end: End, used: int) -> int:
    if isinstance(end.marked, Mark):
        return used if end.marked.is_shut else max(used, end.marked.through)
    is_new = end.marked is None and end.anchored is None and used == 0
    return 0 if is_new else used + BLOCK
