"""The hash chain: one entry per line, each with the hash of its predecessor, and the segment files that hold it.

    {"seq":7,"prev":"<hash of 6>","at":"...","kind":"...", ... ,"hash":"<hash of 7>"}

An entry's hash is the sha256 of its line up to the last `,"hash":"`.  So any tool can check it without parsing the JSON
or serializing it again.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

import msgspec

from hooklatch.core.messages import ChainHead
from hooklatch.files import open_regular, open_regular_file
from hooklatch.record.storage.segments import SegmentFile

__all__ = [
    "GENESIS", "TAIL", "WITNESS", "ChainLink", "make_head", "read_link", "seal_entry", "format_timestamp",
    "SegmentEnd", "read_segment_start", "read_tail",
]  # fmt: skip

GENESIS = "0" * 64  # `prev` of the very first record
MARK = b',"hash":"'
TAIL = len(MARK) + 64 + len(b'"}')  # trailing bytes of a line that its hash does not cover, without the newline
WITNESS = 32  # hex digits of a hash in a reply: 128 bits, so forging a match is infeasible
BEGINNING = re.compile(
    rb'\{"seq":([1-9][0-9]{0,17}),"prev":"([0-9a-f]{64})","at":"([0-9TZ:.-]{1,40})","kind":"([a-z_]{1,40})"[,}]'
)
END = re.compile(rb'[0-9a-f]{64}"\}')
MILLISECONDS = tuple(f".{number:03d}Z" for number in range(1000))  # half the time of a format with leading zeros
DOCUMENTS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
WINDOW = 64 * 1024  # bytes to read first from the end of a file


class ChainLink(msgspec.Struct, frozen=True):
    """An entry's position in the chain, its time and its kind."""

    seq: int
    prev: str
    at: str
    kind: str
    hash: str


def format_timestamp(moment: float) -> str:
    """Return a time as UTC with milliseconds, `2026-01-31T23:59:59.123Z`; these texts sort in order of time."""
    second = int(moment)
    return format_second(second) + MILLISECONDS[int((moment - second) * 1000)]


@lru_cache(maxsize=1)  # strftime costs more than the rest of the line
def format_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def seal_entry(seq: int, prev: str, at: str, kind: str, body: bytes) -> tuple[bytes, str]:
    """Return a record's line with its newline, and its hash.  `body` is a JSON object on one line."""
    comma = "," if len(body) > 2 else ""
    line = f'{{"seq":{seq},"prev":"{prev}","at":"{at}","kind":"{kind}"{comma}'.encode() + body[1:-1]
    own = sha256(line).hexdigest()
    return line + f',"hash":"{own}"}}\n'.encode(), own


def read_link(line: bytes) -> ChainLink | None:
    """Parse a line, with or without newline; return None if it is not a record or does not match its hash."""
    line = line.removesuffix(b"\n")
    cut = len(line) - TAIL
    if cut < 0 or line[cut : cut + len(MARK)] != MARK or END.fullmatch(line, cut + len(MARK)) is None:
        return None
    beginning = BEGINNING.match(line)
    own = line[cut + len(MARK) : -2].decode()
    if beginning is None or sha256(memoryview(line)[:cut]).hexdigest() != own:
        return None
    try:
        DOCUMENTS.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    seq, prev, at, kind = beginning.groups()
    return ChainLink(int(seq), prev.decode(), at.decode(), kind.decode(), own)


def make_head(seq: int, own: str) -> ChainHead:
    """Return the number and the hash prefix that a reply carries."""
    return ChainHead(seq, own[:WITNESS])


class SegmentEnd(NamedTuple):
    """The last valid record of a segment, where it ends, and the file's size."""

    link: ChainLink
    end: int
    size: int
    fault: str | None  # a fault in the records before it, as far as they were read

    @property
    def torn(self) -> int:
        return self.size - self.end


def read_tail(place: SegmentFile, synced: float = math.inf) -> SegmentEnd | None:
    """Find the last valid record by reading only the end of the file; None if there is none.

    Records after `synced` may have reached the disk in any order before a loss of power: they end where one is missing.
    """
    fd = open_regular(place.path)
    try:
        size = os.fstat(fd).st_size
        window = WINDOW
        while True:
            start = max(0, size - window)
            tail = find_segment_end(os.pread(fd, size - start, start), start, size, place, synced)
            if tail is not None or start == 0:
                return tail
            window *= 8
    finally:
        os.close(fd)


def find_segment_end(data: bytes, start: int, size: int, place: SegmentFile, synced: float) -> SegmentEnd | None:
    bounds = find_line_bounds(data, is_beginning=start == 0)
    links = [(read_link(data[begin:end]), start + end) for begin, end in bounds]
    if place.first > synced and start == 0 and links and links[0][0] is None:
        return None
    for number, ((before, _), (after, _)) in enumerate(pairwise(links), 1):
        if before is not None and before.seq >= synced and is_break(before, after):
            del links[number:]
            break
    while links and links[-1][0] is None:
        links.pop()
    earliest = next((link for link, _ in links if link is not None), None)
    if earliest is None or (start and earliest.seq > synced + 1):
        return None  # what was synced begins further up
    link, end = links[-1]
    assert link is not None
    return SegmentEnd(link, end, size, find_link_fault([link_read for link_read, _ in links], place))


def find_line_bounds(data: bytes, *, is_beginning: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each complete line; skip the first if `data` may start within it."""
    begin = 0 if is_beginning else data.find(b"\n") + 1
    while (end := data.find(b"\n", begin) + 1) > 0:
        yield begin, end
        begin = end


def find_link_fault(links: list[ChainLink | None], place: SegmentFile) -> str | None:
    for before, after in pairwise(links):
        if before is None or is_break(before, after):
            seq = after.seq if after is not None else before.seq + 1 if before is not None else "?"
            return f"{place.path}: the chain is broken near record {seq}; see: hooklatch log verify"
    return None


def is_break(before: ChainLink, after: ChainLink | None) -> bool:
    return after is None or after.seq <= before.seq or after.prev != before.hash


def read_segment_start(place: SegmentFile) -> float | None:
    """Return when a segment was begun, according to its first record; None if that cannot be read."""
    try:
        with open_regular_file(place.path) as file:
            link = read_link(file.readline(WINDOW))
    except OSError:
        return None
    return datetime.fromisoformat(link.at).timestamp() if link is not None else None
