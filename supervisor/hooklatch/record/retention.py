"""Which segments are too many or too old, and their end.  Knows files; writes no record.

A segment's removal is recorded before it happens, so that `verify` can tell it from a theft.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from hooklatch.record.segments import Place, places, read_tail, sync_folder
from hooklatch.record.settings import RecordSettings

__all__ = ["Retirement", "plan", "remove", "sizes"]


class Retirement(NamedTuple):
    """What is to be removed, and what the record says of it."""

    places: list[Place]
    record: dict[str, Any]


def sizes(folder: str) -> dict[Place, tuple[int, float]]:
    """Give each segment's bytes and the moment of its last record, oldest first.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[Place, tuple[int, float]] = {}
    for place in places(folder):
        status = os.stat(place.path)
        found[place] = (status.st_size, status.st_mtime)
    return found


def plan(folder: str, current: Place, settings: RecordSettings, now: float) -> Retirement | None:
    """Choose the oldest segments that are over a limit, never the current one; None if all may stay.

    Raises:
        OSError: the folder cannot be read.
    """
    found = {place: known for place, known in sizes(folder).items() if place.first < current.first}
    total = sum(size for size, _ in found.values()) + os.stat(current.path).st_size
    chosen: list[Place] = []
    for place, (size, written_at) in found.items():
        if total <= settings.keep_bytes and now - written_at <= settings.keep_age:
            break  # in the middle nothing is removed: a chain with a hole proves nothing
        chosen.append(place)
        total -= size
    if not chosen:
        return None
    tail = read_tail(chosen[-1])
    record = {
        "first_seq": chosen[0].first,
        "last_seq": tail.link.seq if tail is not None else None,
        "last_hash": tail.link.hash if tail is not None else None,
        "segments": [place.name for place in chosen],
        "bytes": sum(found[place][0] for place in chosen),
        "keep_bytes": settings.keep_bytes,
        "keep_seconds": settings.keep_age,
    }
    return Retirement(chosen, record)


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
