"""The lines of segments, read backwards, and entries of one kind among them.  What a daemon needs to start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hooklatch.core.light_json import parse_own_object
from hooklatch.files import open_regular_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from hooklatch.record.storage.segments import SegmentFile

__all__ = ["read_entries_of_kind", "read_lines_backwards"]

BLOCK = 256 * 1024


def read_lines_backwards(file: BinaryIO, needles: Sequence[bytes] = (), letters: bytes = b"") -> Iterator[bytes]:
    """Yield complete lines, newest first; skip blocks without a needle, or without the small letters."""
    position = file.seek(0, os.SEEK_END)
    rest: bytes | None = None  # the end of a line whose start is not read yet; None until the last newline is found
    while position > 0:
        start = max(0, position - BLOCK)
        file.seek(start)
        block = file.read(position - start)
        position = start
        if rest is None:
            end = block.rfind(b"\n")
            if end < 0:
                continue
            block = block[:end]
            rest = b""
        text = block + rest
        if all(needle in text for needle in needles) and (not letters or letters in text.lower()):
            rest, *whole = text.split(b"\n")
            yield from reversed(whole)
        else:  # most blocks hold no match, and splitting them into lines is what costs time
            rest = text[:end] if (end := text.find(b"\n")) >= 0 else text
    if rest:
        yield rest


def read_entries_of_kind(segments: Sequence[SegmentFile], kind: str, *, since: int) -> Iterator[dict[str, Any]]:
    """Yield the valid records of one kind with numbers above `since`, newest first; skip older segments."""
    from hooklatch.record.storage.chain import read_link  # it hashes, which a reader of lines does without

    needle = b'"kind":"%b"' % kind.encode()
    for place in reversed(segments):
        with suppress(FileNotFoundError), open_regular_file(place.path) as file:
            for line in read_lines_backwards(file, [needle]):
                link = read_link(line) if needle in line else None
                if link is not None and link.kind == kind and link.seq > since and (entry := parse_own_object(line)):
                    yield entry
        if place.first <= since:
            return
