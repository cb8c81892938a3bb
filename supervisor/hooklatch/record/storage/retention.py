"""The choice of segments over the retention limits, and their removal.  It writes no entry.

A removal is recorded before it happens, and each such entry states everything removed so far.  So `verify` can
distinguish it from tampering.  Entries that are already missing when retention reaches them are counted and reported.

In a fleet, entries that its engine has not acknowledged are kept in spite of the limits, up to a limit of their own.
Those that are removed nevertheless are counted.

Functions raise OSError where the directory or a segment in it cannot be read or removed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from hooklatch.directories import sync_folder
from hooklatch.files import open_regular_file
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.chain import GENESIS, ChainLink, read_link, read_tail
from hooklatch.record.storage.mark import HighWaterMark
from hooklatch.record.storage.segments import SegmentFile, list_segments

if TYPE_CHECKING:
    from hooklatch.core.status_answers import LostRecords

__all__ = [
    "RetiredEntry", "SegmentRetirement", "UnshippedRecords", "read_segment_header", "find_missing_beginning",
    "plan_retirement", "read_retired", "remove_segments", "measure_segments", "read_skipped_range",
    "count_unshipped",
]  # fmt: skip

DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class UnshippedRecords(msgspec.Struct, frozen=True):
    """Records that the fleet's engine has not acknowledged, and the bytes that they take."""

    first_seq: int
    last_seq: int
    records: int
    bytes: int

    def describe(self) -> LostRecords:
        """Return them as `status` reports them."""
        return {
            "first_seq": self.first_seq, "last_seq": self.last_seq, "records": self.records, "bytes": self.bytes,
        }  # fmt: skip


class SegmentRetirement(NamedTuple):
    """The segments to remove, the entry for the record, and the gaps that were found.

    `leftover` are segments whose removal was recorded earlier but not completed.
    """

    leftover: list[SegmentFile]
    places: list[SegmentFile]
    kept_seq: int
    kept_prev: str
    lost: int  # in total, as recorded
    holes: list[str]
    record: dict[str, Any]
    unshipped: UnshippedRecords | None = None  # of those that are to be removed


class RetiredEntry(msgspec.Struct, frozen=True):
    """A `retired` record: it removed records from `first_seq` on; the record now begins with `kept_seq`."""

    seq: int
    first_seq: int
    kept_seq: int
    kept_prev: str
    lost: int


def read_retired(record: dict[str, Any]) -> RetiredEntry | None:
    """Parse a `retired` record; return None if its numbers are impossible."""
    try:
        kept = msgspec.convert(record, RetiredEntry)
    except msgspec.ValidationError:
        return None
    return kept if 0 < kept.first_seq < kept.kept_seq < kept.seq and kept.lost >= 0 else None


def read_segment_header(place: SegmentFile) -> tuple[ChainLink, dict[str, Any]] | None:
    """Return a segment's first record; None if it has none."""
    with open_regular_file(place.path) as file:
        line = file.readline()
    link = read_link(line)
    return (link, DOCUMENTS.decode(line)) if link is not None else None


def read_skipped_range(header: dict[str, Any]) -> tuple[int, int] | None:
    """Return the numbers that a segment declares unused: first and last, directly before its own."""
    skipped = header.get("skipped")
    if not isinstance(skipped, dict):
        return None
    fields = cast("dict[str, object]", skipped)
    first, last = fields.get("first"), fields.get("last")
    if not isinstance(first, int) or not isinstance(last, int) or last + 1 != header.get("seq"):
        return None
    return first, last


def find_missing_beginning(folder: str, mark: HighWaterMark) -> str | None:
    """Return which records are missing at the beginning, if neither retired nor reported; None if none are."""
    segments = list_segments(folder)
    expected = max(mark.kept_seq, mark.reported_seq)
    if not segments or segments[0].first <= expected:
        return None
    return (
        f"records {expected} to {segments[0].first - 1} are missing from the beginning of the record in {folder}, and"
        " retention did not remove them"
    )


def measure_segments(folder: str) -> dict[SegmentFile, tuple[int, float]]:
    """Return the size and modification time of each segment, oldest first."""
    known = ((place, os.stat(place.path)) for place in list_segments(folder))
    return {place: (status.st_size, status.st_mtime) for place, status in known}


def plan_retirement(
    folder: str, current: SegmentFile, settings: RecordSettings, now: float, mark: HighWaterMark,
    shipped: int | None = None,
) -> SegmentRetirement | None:  # fmt: skip
    """Choose the oldest segments that exceed a limit, never the current one; None if all may stay.

    `shipped` is the last entry that the fleet's engine has acknowledged.  Until a link reports it (None), far less may
    wait than it seems: then the record may take the space of shipped and waiting entries together.
    """
    known = [(place, facts) for place, facts in measure_segments(folder).items() if place.first < current.first]
    leftover = [place for place, _ in known if place.first < mark.kept_seq]
    sizes = {place: facts for place, facts in known if place.first >= mark.kept_seq}
    size_of_current = os.stat(current.path).st_size
    total = sum(size for size, _ in sizes.values()) + size_of_current
    chosen: list[SegmentFile] = []
    held, limit = set[SegmentFile](), settings.keep_unshipped_bytes
    if limit is not None:
        held = {place for place, after in pairwise([*sizes, current]) if after.first - 1 > (shipped or 0)}
        limit += settings.keep_bytes if shipped is None else 0
    waiting_bytes = sum(sizes[place][0] for place in held) + size_of_current
    for place, (size, written_at) in sizes.items():
        if total <= settings.keep_bytes and now - written_at <= settings.keep_age:
            break  # never remove from the middle: a chain with a gap proves nothing
        if place in held:
            if limit is None or waiting_bytes <= limit:
                break
            waiting_bytes -= size
        chosen.append(place)
        total -= size
    if not chosen:
        return SegmentRetirement(leftover, [], mark.kept_seq, mark.kept_prev, mark.lost, [], {}) if leftover else None
    kept = next((place for place in sizes if place.first > chosen[-1].first), current)
    lost, holes = count_missing(mark, [*chosen, kept])
    header = read_segment_header(kept)
    kept_prev = header[0].prev if header is not None else GENESIS
    record: dict[str, Any] = {
        "first_seq": mark.kept_seq,
        "kept_seq": kept.first,
        "kept_prev": kept_prev,
        "lost": mark.lost + lost,
        "segments": [place.name for place in chosen],
        "bytes": sum(sizes[place][0] for place in chosen),
        "keep_bytes": settings.keep_bytes,
        "keep_seconds": settings.keep_age,
    }
    unshipped = find_unshipped([place for place in chosen if place in held], shipped or 0)
    if unshipped is not None:
        record["unshipped"] = msgspec.structs.asdict(unshipped)
    return SegmentRetirement(leftover, chosen, kept.first, kept_prev, mark.lost + lost, holes, record, unshipped)


def find_unshipped(segments: Sequence[SegmentFile], shipped: int) -> UnshippedRecords | None:
    """Count the records of some segments after the acknowledged one; None if there are none."""
    seqs, size = list[int](), 0
    for place in segments:
        with open_regular_file(place.path) as file:
            for line in file:
                link = read_link(line)
                if link is not None and link.seq > shipped:
                    seqs.append(link.seq)
                    size += len(line)
    return UnshippedRecords(min(seqs), max(seqs), len(seqs), size) if seqs else None


def count_unshipped(known: Mapping[SegmentFile, tuple[int, float]], shipped: int, newest: int) -> UnshippedRecords:
    """Count the records after the acknowledged one, and the bytes of the segments that hold them."""
    first = max(shipped + 1, min((place.first for place in known), default=1))
    records = newest + 1 - first - sum(count_skipped_before(place) for place in known if place.first > first)
    ends = [*[place.first - 1 for place in known][1:], newest]
    size = sum(size for (size, _), end in zip(known.values(), ends, strict=True) if end >= first)
    return UnshippedRecords(first, newest, max(records, 0), size)


@lru_cache(maxsize=1024)
def count_skipped_before(place: SegmentFile) -> int:
    """Return how many numbers before a segment were never used; what it declares does not change."""
    header = read_segment_header(place)
    skipped = read_skipped_range(header[1]) if header is not None else None
    return skipped[1] - skipped[0] + 1 if skipped is not None else 0


def count_missing(mark: HighWaterMark, segments: Sequence[SegmentFile]) -> tuple[int, list[str]]:
    """Count the records that are missing between segments, and say where; `find_missing_beginning` covers the
    beginning.
    """
    lost, holes = 0, list[str]()
    expected, prev = mark.kept_seq, mark.kept_prev
    for place in segments:
        header = read_segment_header(place)
        skipped = read_skipped_range(header[1]) if header is not None else None
        end = skipped[0] - 1 if skipped is not None else place.first - 1
        missing = max(0, end + 1 - expected)
        if not missing and (header is None or header[0].prev != prev):
            missing = 1  # one is missing, or another one is in its place
        if missing and expected > mark.kept_seq:
            holes.append(f"{place.path} does not continue where the segment before it ends; see: hooklatch log verify")
        lost += missing
        tail = read_tail(place)
        if tail is not None:
            expected, prev = tail.link.seq + 1, tail.link.hash
    return lost, holes


def remove_segments(folder: str, chosen: Sequence[SegmentFile]) -> None:
    """Remove segments and the torn ends moved out of them, oldest first."""
    for place in chosen:
        for name in os.listdir(folder):
            if name.startswith(f"{place.name}.torn-"):
                os.unlink(os.path.join(folder, name))
        os.unlink(place.path)
    sync_folder(folder)
