"""The files of kept payloads: their names, their lines, which of them are too many.  Knows files; writes none.

    payloads/0000000000004711.jsonl     payloads of records from number 4711 on, until the next file's

Each start begins a new file, so a line that a crash has cut is the last of its file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from hooklatch.files import open_regular_file
from hooklatch.record.payload_lines import digest_payload_line

__all__ = [
    "PayloadSpan",
    "PayloadFile",
    "payload_folder",
    "list_files",
    "find_payload_places",
    "read_payload_line",
    "select_excess_files",
]

NAME = re.compile(r"(\d{16})\.jsonl")


class PayloadFile(NamedTuple):
    """A file, and the lowest number that a record of its payloads has."""

    path: str
    first: int

    @classmethod
    def of(cls, folder: str, first: int) -> PayloadFile:
        return cls(os.path.join(folder, f"{first:016d}.jsonl"), first)


class PayloadSpan(NamedTuple):
    """The place of a line."""

    path: str
    start: int
    length: int


def payload_folder(record: str) -> str:
    """Return the folder of payloads in a record's."""
    return os.path.join(record, "payloads")


def list_files(folder: str) -> list[PayloadFile]:
    """Return the files of a folder of payloads, oldest first; none if there is no such folder.

    Raises:
        OSError: it cannot be read.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    matches = ((name, match) for name in names if (match := NAME.fullmatch(name)) is not None)
    return sorted(
        (PayloadFile(os.path.join(folder, name), int(match[1])) for name, match in matches), key=lambda file: file.first
    )


def find_payload_places(folder: str, digests: Collection[str], *, since: int = 0) -> dict[str, PayloadSpan]:
    """Find lines by their digests; `since` is the lowest number of an entry whose line may be among them.

    Raises:
        OSError: a file cannot be read.
    """
    places: dict[str, PayloadSpan] = {}
    files = list_files(folder)
    for number, file in enumerate(files):
        if number + 1 < len(files) and files[number + 1].first <= since:
            continue
        for start, line in read_payload_lines(file.path):
            if (digest := digest_payload_line(line)) in digests:
                places[digest] = PayloadSpan(file.path, start, len(line))
    return places


def read_payload_lines(path: str) -> Iterator[tuple[int, bytes]]:
    start = 0
    with suppress(FileNotFoundError), open_regular_file(path) as file:  # retention may have removed it meanwhile
        for line in file:
            if line.endswith(b"\n"):
                yield start, line
            start += len(line)


def read_payload_line(place: PayloadSpan) -> bytes:
    """Return a line, with its newline.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular_file(place.path) as file:
        file.seek(place.start)
        return file.read(place.length)


def select_excess_files(
    files: Sequence[PayloadFile], keep_bytes: int, keep_age: float, now: float, *, is_written: bool
) -> tuple[list[PayloadFile], int]:
    """Return the oldest files that exceed a limit, not the newest if it `is_written`, and the bytes that they take.

    Raises:
        OSError: one cannot be looked at.
    """
    known = [(file, os.stat(file.path)) for file in files]
    total, chosen, size = sum(status.st_size for _, status in known), list[PayloadFile](), 0
    for file, status in known[:-1] if is_written else known:
        if total - size <= keep_bytes and now - status.st_mtime <= keep_age:
            break
        chosen.append(file)
        size += status.st_size
    return chosen, size
