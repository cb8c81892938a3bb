"""Which segments are too many or too old, and their end.  Knows files; writes no record.

A segment's removal is recorded before it happens, and each such record says how far all was removed so far.  So
`verify` tells it from a theft.  What is gone already when retention comes to it is counted, and told.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from hooklatch.record.files.chain import GENESIS, Link, read_link
from hooklatch.record.files.mark import Mark
from hooklatch.record.files.segments import Place, places, read_tail, sync_folder
from hooklatch.record.settings import RecordSettings

__all__ = ["Retirement", "Kept", "header_of", "kept_by", "missing_before", "plan", "remove", "sizes", "skipped_by"]

DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class Retirement(NamedTuple):
    """What is to be removed, what the record says of it, and what was found to be gone already.

    `leftover` are segments whose removal was recorded before, and did not come to its end.
    """

    leftover: list[Place]
    places: list[Place]
    kept_seq: int
    kept_prev: str
    lost: int  # all in all, as the record says it
    holes: list[str]
    record: dict[str, Any]


class Kept(msgspec.Struct, frozen=True):
    """What a `retired` record says: it removed from `first_seq` on; the record begins with `kept_seq` now."""

    seq: int
    first_seq: int
    kept_seq: int
    kept_prev: str
    lost: int


def kept_by(record: dict[str, Any]) -> Kept | None:
    """Read a `retired` record; None where it says nothing of that kind."""
    try:
        kept = msgspec.convert(record, Kept)
    except msgspec.ValidationError:
        return None
    return kept if 0 < kept.first_seq < kept.kept_seq < kept.seq and kept.lost >= 0 else None


def header_of(place: Place) -> tuple[Link, dict[str, Any]] | None:
    """Read a segment's first record; None where it has none.

    Raises:
        OSError: it cannot be read.
    """
    with open(place.path, "rb") as file:
        line = file.readline()
    link = read_link(line)
    return (link, DOCUMENTS.decode(line)) if link is not None else None


def skipped_by(header: dict[str, Any]) -> tuple[int, int] | None:
    """Return the numbers that a segment says were never used: first and last, right before its own."""
    skipped = header.get("skipped")
    if not isinstance(skipped, dict):
        return None
    found = cast("dict[str, object]", skipped)
    first, last = found.get("first"), found.get("last")
    if not isinstance(first, int) or not isinstance(last, int) or last + 1 != header.get("seq"):
        return None
    return first, last


def missing_before(folder: str, mark: Mark) -> str | None:
    """Return what is gone from the beginning and was neither retired nor told; None if nothing is.

    Raises:
        OSError: the folder cannot be read.
    """
    segments = places(folder)
    expected = max(mark.kept_seq, mark.told_seq)
    if not segments or segments[0].first <= expected:
        return None
    return (
        f"records {expected} to {segments[0].first - 1} are missing from the beginning of the record in {folder}, and"
        " retention did not remove them"
    )


def sizes(folder: str) -> dict[Place, tuple[int, float]]:
    """Return each segment's bytes and the moment of its last record, oldest first.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[Place, tuple[int, float]] = {}
    for place in places(folder):
        status = os.stat(place.path)
        found[place] = (status.st_size, status.st_mtime)
    return found


def plan(folder: str, current: Place, settings: RecordSettings, now: float, mark: Mark) -> Retirement | None:
    """Choose the oldest segments that are over a limit, never the current one; None if all may stay.

    Raises:
        OSError: the folder cannot be read.
    """
    before = {place: known for place, known in sizes(folder).items() if place.first < current.first}
    leftover = [place for place in before if place.first < mark.kept_seq]
    found = {place: known for place, known in before.items() if place.first >= mark.kept_seq}
    total = sum(size for size, _ in found.values()) + os.stat(current.path).st_size
    chosen: list[Place] = []
    for place, (size, written_at) in found.items():
        if total <= settings.keep_bytes and now - written_at <= settings.keep_age:
            break  # in the middle nothing is removed: a chain with a hole proves nothing
        chosen.append(place)
        total -= size
    if not chosen:
        return Retirement(leftover, [], mark.kept_seq, mark.kept_prev, mark.lost, [], {}) if leftover else None
    kept = next((place for place in found if place.first > chosen[-1].first), current)
    lost, holes = gone(mark, [*chosen, kept])
    header = header_of(kept)
    kept_prev = header[0].prev if header is not None else GENESIS
    record = {
        "first_seq": mark.kept_seq,
        "kept_seq": kept.first,
        "kept_prev": kept_prev,
        "lost": mark.lost + lost,
        "segments": [place.name for place in chosen],
        "bytes": sum(found[place][0] for place in chosen),
        "keep_bytes": settings.keep_bytes,
        "keep_seconds": settings.keep_age,
    }
    return Retirement(leftover, chosen, kept.first, kept_prev, mark.lost + lost, holes, record)


def gone(mark: Mark, segments: Sequence[Place]) -> tuple[int, list[str]]:
    """Count the numbers that are gone between segments, and say where; of the beginning `missing_before` does.

    Raises:
        OSError: a segment cannot be read.
    """
    lost, holes = 0, list[str]()
    expected, prev = mark.kept_seq, mark.kept_prev
    for place in segments:
        header = header_of(place)
        skipped = skipped_by(header[1]) if header is not None else None
        end = skipped[0] - 1 if skipped is not None else place.first - 1
        missing = max(0, end + 1 - expected)
        if not missing and (header is None or header[0].prev != prev):
            missing = 1  # there is one too few, or another one
        if missing and expected > mark.kept_seq:
            holes.append(f"{place.path} does not go on where the segment before it ends; see: hooklatch log verify")
        lost += missing
        tail = read_tail(place)
        if tail is not None:
            expected, prev = tail.link.seq + 1, tail.link.hash
    return lost, holes


def remove(folder: str, chosen: Sequence[Place]) -> None:
    """Remove segments, the oldest first, and what was set aside of them.

    Raises:
        OSError: one could not be removed.
    """
    for place in chosen:
        for name in os.listdir(folder):
            if name.startswith(f"{place.name}.torn-"):
                os.unlink(os.path.join(folder, name))
        os.unlink(place.path)
    sync_folder(folder)
