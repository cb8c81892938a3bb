"""Which records of one host's log are known, by number, each with the hashes that place it in the chain.  Pure.

A log may hold a record twice: a reply was lost and the batch was made anew, or two links ran.  So every number is taken
once, whatever the order in which batches come, and one number with two hashes is told apart.  That takes some 42 bytes
a record, and some 600 where a host ships numbers far apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec

__all__ = ["RecordMatch", "ChainPosition", "SeenRecords"]

PAGE = 16  # records in a page
HALF = 16  # bytes kept of each hash: 128 bits, as a witness has
WIDTH = 2 * HALF
NOTHING = bytes(WIDTH)


class RecordMatch(Enum):
    """What was known of a record that comes."""

    NEW = "new"
    SAME = "same"
    OTHER = "other"  # that number has another hash


class ChainPosition(msgspec.Struct, frozen=True):
    """A record's number, and the beginnings of its hash and of that of the record before it, in hexadecimal."""

    seq: int
    hash: str
    prev: str


class SeenRecords:
    """The records of one epoch that were seen."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.count = 0

    def take(self, seq: int, own: str, prev: str) -> RecordMatch:
        """Take a record, unless its number is taken."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = encode_position(own, prev)
        if page is None:
            page = self._pages[seq // PAGE] = bytearray(PAGE * WIDTH)
        found = bytes(page[at : at + WIDTH])
        if found == NOTHING:
            page[at : at + WIDTH] = entry
            self.count += 1
            return RecordMatch.NEW
        return RecordMatch.SAME if found[:HALF] == entry[:HALF] else RecordMatch.OTHER

    def hash_of(self, seq: int) -> str | None:
        """Return the beginning of a record's hash, None if it was not seen."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = bytes(page[at : at + WIDTH]) if page is not None else NOTHING
        return entry[:HALF].hex() if entry != NOTHING else None

    def __iter__(self) -> Iterator[ChainPosition]:
        """Yield what was seen, in order of the numbers."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in range(0, PAGE * WIDTH, WIDTH):
                entry = bytes(page[at : at + WIDTH])
                if entry != NOTHING:
                    yield ChainPosition(number * PAGE + at // WIDTH, entry[:HALF].hex(), entry[HALF:].hex())


def encode_position(own: str, prev: str) -> bytes:
    entry = bytes.fromhex(own[: 2 * HALF] + prev[: 2 * HALF])
    # A host may claim any hash for a record of which it left something out; nothing but zeros would not be seen again.
    return entry if entry[:HALF].strip(b"\0") else b"\0" * (HALF - 1) + b"\1" + entry[HALF:]
