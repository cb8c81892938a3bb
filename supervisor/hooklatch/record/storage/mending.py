"""Mends of segments at a start: torn ends, which are moved into files beside them, and ends that were not synced.

Few starts find one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hooklatch.directories import sync_folder
from hooklatch.files import open_regular
from hooklatch.record.storage.segments import SegmentFile
from hooklatch_worker.systems.disks import sync_all, sync_data

__all__ = ["move_away", "set_aside", "sync_ended"]

CHUNK = 2**20  # bytes to move at once


def set_aside(place: SegmentFile, end: int) -> str:
    """Move everything after `end` to a file beside the segment and truncate there; return that file's name."""
    fd = open_regular(place.path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        size = os.fstat(fd).st_size
        aside, path = open_aside(place)
        try:
            position = end
            while position < size:
                position += os.write(aside, os.pread(fd, CHUNK, position))
            sync_all(aside)
        finally:
            os.close(aside)
        os.ftruncate(fd, end)
        sync_all(fd)
    finally:
        os.close(fd)
    sync_folder(os.path.dirname(place.path))
    return os.path.basename(path)


def open_aside(place: SegmentFile) -> tuple[int, str]:
    for number in range(1, 10_000):
        path = f"{place.path}.torn-{number}"
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path
        except FileExistsError:
            continue
    raise OSError(errno.EEXIST, "there are too many torn files", place.path)


def move_away(place: SegmentFile) -> list[dict[str, Any]]:
    """Move a segment without any valid record out of the way: a crash left it, or something overwrote it.

    Return the facts for the record, if it held anything.
    """
    size = os.stat(place.path).st_size
    moved = set_aside(place, 0) if size else None
    os.unlink(place.path)
    sync_folder(os.path.dirname(place.path))
    return [{"segment": place.name, "bytes": size, "after_seq": place.first - 1, "to": moved}] if moved else []


def sync_ended(segments: Sequence[SegmentFile], through: float) -> Iterator[str]:
    """Sync the segments before the last one that a killed daemon has left unsynced: later syncs begin with the last.

    Yield a text for each that cannot be synced.
    """
    for ended, following in pairwise(segments):
        if following.first > through + 1:
            try:
                fd = open_regular(ended.path)
                try:
                    sync_data(fd)
                finally:
                    os.close(fd)
            except OSError as error:
                yield f"{ended.path} may not be on the disk: it cannot be synced: {error.strerror}"
