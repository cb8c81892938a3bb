"""The hash chain: one entry per line, each with the hash of its predecessor.  Knows bytes and hashes, not files.

    {"seq":7,"prev":"<hash of 6>","at":"...","kind":"...", ... ,"hash":"<hash of 7>"}

An entry's hash is the sha256 of its line up to the last `,"hash":"`.  So any tool can check it without parsing the JSON
or serializing it again.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from hashlib import sha256

import msgspec

from hooklatch.core.messages import ChainHead

__all__ = ["GENESIS", "TAIL", "WITNESS", "ChainLink", "make_head", "read_link", "seal_entry", "format_timestamp"]

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
