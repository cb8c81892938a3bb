"""The set of the known entries of one host's log, by number, each with its hash and the hash before it.  Pure.

A log may hold an entry twice: a reply was lost and the batch was made anew, or two links ran.  So every number is taken
once, in any order of the batches, and two hashes of one number are noticed.  That takes some 42 bytes an entry, and
some 600 where a host ships numbers far apart from each other.
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
    """The relation of a new entry to those that are known."""

    NEW = "new"
    SAME = "same"
    OTHER = "other"  # that number has another hash


class ChainPosition(msgspec.Struct, frozen=True):
    """An entry's number, and the beginnings of its hash and of the hash before it, in hexadecimal."""

    seq: int
    hash: str
    prev: str


class SeenRecords:
    """The entries of one epoch that were seen."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.count = 0

    def take(self, seq: int, own: str, prev: str) -> RecordMatch:
        """Take an entry, unless its number is taken; return how it relates to the known ones."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = encode_position(own, prev)
        if page is None:
            page = self._pages[seq // PAGE] = bytearray(PAGE * WIDTH)
        stored = bytes(page[at : at + WIDTH])
        if stored == NOTHING:
            page[at : at + WIDTH] = entry
            self.count += 1
            return RecordMatch.NEW
        return RecordMatch.SAME if stored[:HALF] == entry[:HALF] else RecordMatch.OTHER

    def hash_of(self, seq: int) -> str | None:
        """Return the beginning of an entry's hash, None if it was not seen."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = bytes(page[at : at + WIDTH]) if page is not None else NOTHING
        return entry[:HALF].hex() if entry != NOTHING else None

    def __iter__(self) -> Iterator[ChainPosition]:
        """Yield the entries in order of their numbers."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in range(0, PAGE * WIDTH, WIDTH):
                entry = bytes(page[at : at + WIDTH])
                if entry != NOTHING:
                    yield ChainPosition(number * PAGE + at // WIDTH, entry[:HALF].hex(), entry[HALF:].hex())


def encode_position(own: str, prev: str) -> bytes:
    entry = bytes.fromhex(own[: 2 * HALF] + prev[: 2 * HALF])
    # A host may claim any hash for an entry of which it left something out, but zeros mean an empty slot here.
    return entry if entry[:HALF].strip(b"\0") else b"\0" * (HALF - 1) + b"\1" + entry[HALF:]
