"""The chain: one record a line, each with the hash of the one before it.  Knows bytes and hashes; knows no file.

    {"seq":7,"prev":"<hash of 6>","at":"...","kind":"...", ... ,"hash":"<hash of 7>"}

A record's hash is the sha256 of its own line up to the last `,"hash":"`, so that it can be checked without reading the
JSON, by any tool: nothing has to be spelled anew.
"""

from __future__ import annotations

import re
import time
from hashlib import sha256

import msgspec

from hooklatch.core.messages import Head

__all__ = ["GENESIS", "TAIL", "Link", "Stamps", "head_of", "read_link", "seal"]

GENESIS = "0" * 64  # `prev` of the first record of all
MARK = b',"hash":"'
TAIL = len(MARK) + 64 + len(b'"}')  # bytes of a line that its own hash does not cover, its end not counted
WITNESS = 32  # hexadecimal digits of a hash that a reply carries: 128 bits, which nobody can aim at
BEGINNING = re.compile(
    rb'\{"seq":([1-9][0-9]{0,17}),"prev":"([0-9a-f]{64})","at":"([0-9TZ:.-]{1,40})","kind":"([a-z_]{1,40})"[,}]'
)
END = re.compile(rb'[0-9a-f]{64}"\}')
DOCUMENTS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Link(msgspec.Struct, frozen=True):
    """What ties a record to its neighbours, and what it is."""

    seq: int
    prev: str
    at: str
    kind: str
    hash: str


class Stamps:
    """Spells moments: UTC with milliseconds, `2026-01-31T23:59:59.123Z`; texts sort as their moments do."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def spell(self, moment: float) -> str:
        second = int(moment)
        if second != self._second:  # strftime costs more than all the rest of a line
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._text}.{int((moment - second) * 1000):03d}Z"


def seal(seq: int, prev: str, at: str, kind: str, body: bytes) -> tuple[bytes, str]:
    """Make a record's line, its end included, and its hash.  `body` is a JSON object on one line."""
    rest = b"," + body[1:-1] if len(body) > 2 else b""
    line = b'{"seq":%d,"prev":"%b","at":"%b","kind":"%b"%b' % (seq, prev.encode(), at.encode(), kind.encode(), rest)
    own = sha256(line).hexdigest()
    return b'%b,"hash":"%b"}\n' % (line, own.encode()), own


def read_link(line: bytes) -> Link | None:
    """Read a line, its end included or not; None where it is no record, or another one than its hash says."""
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
    return Link(int(seq), prev.decode(), at.decode(), kind.decode(), own)


def head_of(seq: int, own: str) -> Head:
    """Return what a reply carries of a record."""
    return Head(seq, own[:WITNESS])
