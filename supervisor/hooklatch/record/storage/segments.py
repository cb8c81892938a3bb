"""The segment files that hold the chain.  Knows their names; a command that shows records imports little more."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Place(NamedTuple):
        first: int
        path: str
else:
    from collections import namedtuple

    Place = namedtuple("Place", ("first", "path"))  # a person would wait for the import of typing

__all__ = ["SegmentFile", "list_segments"]

NAME = re.compile(r"(\d{16})\.jsonl")


class SegmentFile(Place):
    """The path of a segment, which is named after the number of its first record."""

    __slots__ = ()

    @classmethod
    def of(cls, folder: str, first: int) -> SegmentFile:
        return cls(first, os.path.join(folder, f"{first:016d}.jsonl"))

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def list_segments(folder: str) -> list[SegmentFile]:
    """List the segments of a directory, oldest first.

    Raises:
        OSError: the directory cannot be read.
    """
    matches = [match for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    return sorted(SegmentFile(int(match[1]), os.path.join(folder, match[0])) for match in matches)
