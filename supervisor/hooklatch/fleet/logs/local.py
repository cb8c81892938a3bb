"""The comparison of a host's log in the engine with the record on that host.

Shipped entries cannot be taken back.  So the engine's hashes are witnesses for the record on the machine, and the
record is a witness for the fields that the engine shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hooklatch.fleet.logs.logs import FleetLogEntry
from hooklatch.record.findings import ChainWitness, VerifyReport
from hooklatch.record.storage.chain import ChainLink, read_link
from hooklatch.record.storage.reading import read_forwards
from hooklatch.record.verify import verify_record

__all__ = ["LocalComparison", "LocalReport", "verify_local"]

MAX_DIFFERENCES = 100  # differences to name
DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class LocalReport(msgspec.Struct):
    """The result of the comparison.  `compared` entries are in both, `absent` ones only in the engine.

    `record` is the check of the files, with the engine's heads as witnesses.
    """

    folder: str
    compared: int = 0
    absent: int = 0
    differences: list[str] = []
    omitted: int = 0
    record: VerifyReport = msgspec.field(default_factory=VerifyReport)

    @property
    def ok(self) -> bool:
        return self.record.ok and not self.differences


class LocalComparison:
    """The comparison of shipped entries, in the order of their numbers, with the lines of the local record."""

    def __init__(self, folder: str) -> None:
        self.report = LocalReport(folder)
        self._folder = folder
        self._epoch = 0
        self._lines: Iterator[bytes] = iter(())
        self._last = 0  # the newest number that was looked for
        self._current: tuple[ChainLink, bytes] | None = None

    def take(self, entries: Sequence[FleetLogEntry], *, is_current: bool) -> None:
        """Compare the records of a batch.

        Raises:
            NoRecordError: there is no local record.
        """
        for entry in entries:
            if entry.epoch != self._epoch or entry.record.seq < self._last:
                self._epoch, self._lines, self._current = entry.epoch, read_forwards(self._folder), None
            self._last = entry.record.seq
            local = self._find(entry.record.seq)
            if local is None:
                self.report.absent += 1
                continue
            self._compare(entry, *local, is_current=is_current)

    def _find(self, seq: int) -> tuple[ChainLink, bytes] | None:
        while self._current is None or self._current[0].seq < seq:
            line = next(self._lines, None)
            if line is None:
                return None
            link = read_link(line)
            if link is not None:  # `verify_record` reports lines that are not entries
                self._current = link, line
        return self._current if self._current[0].seq == seq else None

    def _compare(self, entry: FleetLogEntry, link: ChainLink, line: bytes, *, is_current: bool) -> None:
        record = entry.record
        if link.hash != record.hash:
            if is_current:  # entries of another epoch are of another record
                self._add_difference(f"record {record.seq} here is not the one that was shipped")
            return
        self.report.compared += 1
        try:
            own = DOCUMENTS.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._add_difference(f"record {record.seq} cannot be read here: {error}")
            return
        for name, value in record.document.items():
            if name not in own or own[name] != value:
                self._add_difference(
                    f"record {record.seq}: {name} was shipped as {format_local_value(value)}, and is "
                    f"{format_local_value(own.get(name))}"
                )

    def _add_difference(self, text: str) -> None:
        if len(self.report.differences) < MAX_DIFFERENCES:
            self.report.differences.append(text)
        else:
            self.report.omitted += 1


def verify_local(comparison: LocalComparison, heads: Sequence[ChainWitness]) -> LocalReport:
    """Check the local files, with the heads that the engine has as witnesses; call it when all batches are read.

    Raises:
        NoRecordError: there is no local record.
    """
    comparison.report.record = verify_record(comparison.report.folder, heads)
    return comparison.report


def format_local_value(value: object) -> str:
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= 80 else f"{text[:80]}…"
