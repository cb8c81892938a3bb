"""The check that the payloads that a record names are there, as they were kept.  It changes no file.

A payload is missing if no line has the digest that its entry names, and no later `payloads` entry says that files of
that time were removed.  A line that no entry names proves nothing and is not a finding: a crash leaves one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from hooklatch.record.payload_files import find_payload_places, payload_folder
from hooklatch.record.storage.chain import ChainLink
from hooklatch.record.storage.reading import NoRecordError, list_record_segments, read_entries_of_kind

__all__ = ["PayloadCheck"]

NEEDLE = b'"payload_kept":"'
DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class PayloadCheck:
    """The check of one record: it collects the digests in entries, and compares them with the files."""

    def __init__(self, record: str) -> None:
        self._record = record
        self._wanted: dict[str, list[int]] = {}  # the numbers of records, by the digest that they name
        self._kept_seq = 0  # before this number, files were removed
        self._last = 0

    def take(self, link: ChainLink, line: bytes) -> None:
        """Take the next record, as its line."""
        self._last = link.seq
        if link.kind == "decision" and NEEDLE in line:
            digest = DOCUMENTS.decode(line).get("payload_kept")
            if isinstance(digest, str):  # an excerpt may have a key of this name
                self._wanted.setdefault(digest, []).append(link.seq)
        elif link.kind == "payloads":
            self._removed(DOCUMENTS.decode(line))

    def _removed(self, record: dict[str, Any]) -> None:
        kept_seq = record.get("kept_seq")
        if isinstance(kept_seq, int):
            self._kept_seq = max(self._kept_seq, kept_seq)

    def end(self) -> tuple[int, list[int]]:
        """Return how many payloads were found, and the numbers of the records whose payload is missing or changed.

        Raises:
            OSError: a file cannot be read.
        """
        if not self._wanted:
            return 0, []
        found = find_payload_places(payload_folder(self._record), self._wanted)
        with suppress(NoRecordError, OSError):  # files may have been removed while we were reading
            for record in read_entries_of_kind(list_record_segments(self._record), "payloads", since=self._last):
                self._removed(record)
        return len(found), sorted(self._missing(found))

    def _missing(self, found: dict[str, Any]) -> Iterator[int]:
        for digest, numbers in self._wanted.items():
            if digest not in found:
                yield from (seq for seq in numbers if seq >= self._kept_seq)
