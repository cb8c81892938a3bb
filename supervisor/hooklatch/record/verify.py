"""The check of a record against itself, its anchor, its mark and witnesses.  It changes no file.

Each entry is checked by its own hash, by its successor's `prev`, and by its number.  `findings` lists the kinds of
findings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec

from hooklatch.errors import locate_error
from hooklatch.files import open_regular_file
from hooklatch.record.findings import (
    MAX_FINDINGS,
    ChainWitness,
    FindingKind,
    RecordFinding,
    VerifyReport,
    format_seq_range,
)
from hooklatch.record.payload_files import PayloadCheck
from hooklatch.record.storage.chain import GENESIS, ChainLink, make_head, read_link
from hooklatch.record.storage.mark import HighWaterMark, read_anchor, read_mark
from hooklatch.record.storage.reading import NoRecordError, list_record_segments
from hooklatch.record.storage.retention import RetiredEntry, read_retired, read_skipped_range
from hooklatch.record.storage.segments import SegmentFile
from hooklatch.record.storage.slots import SlotError

__all__ = ["verify_record"]

REPORTED = frozenset({"recovered", "mended", "fault", "unrecorded", "acknowledged"})  # problems recorded by the daemon
LINE_TIMEOUT = 0.3  # seconds to wait for a line that is still being written
T = TypeVar("T")
DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def verify_record(
    folder: str,
    witnesses: Sequence[ChainWitness] = (),
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> VerifyReport:
    """Check a whole record.  `on_progress` receives the bytes read so far and in total.

    Raises:
        NoRecordError: there is no record, or it cannot be read.
    """
    anchored, anchor_fault = read_or_explain_fault(read_anchor, folder, f"there is no anchor in {folder}")
    marked, mark_fault = read_or_explain_fault(read_mark, folder, f"there is no mark beside {folder}")
    check = Check(anchored, marked, witnesses, PayloadCheck(folder))
    if anchor_fault is not None:
        check.add_finding("anchor", None, anchor_fault)
    if mark_fault is not None:
        check.add_finding("mark", None, mark_fault)
    segments = list_record_segments(folder)  # listed after reading these two, which must not be newer than the segments
    total, done = sum(measure_segment(place) for place in segments), 0
    try:
        for place in segments:
            for line in read_segment_lines(place, is_last=place is segments[-1]):
                check.take(place, line)
                done += len(line)
                on_progress(done, total)
    except OSError as error:
        raise NoRecordError(f"{error.filename} cannot be read: {error.strerror}") from None
    is_still = read_or_explain_fault(read_mark, folder, "")[0] == marked
    try:
        return check.end(len(segments), is_still=is_still)
    except OSError as error:
        raise NoRecordError(f"{error.filename} cannot be read: {error.strerror}") from None


def read_or_explain_fault(
    reader: Callable[[str], T | None], folder: str, otherwise: str
) -> tuple[T | None, str | None]:
    try:
        content = reader(folder)
    except SlotError as error:
        return None, str(error)
    return content, otherwise if content is None else None


def measure_segment(place: SegmentFile) -> int:
    try:
        return os.stat(place.path).st_size
    except OSError:
        return 0


def read_segment_lines(place: SegmentFile, *, is_last: bool) -> Iterator[bytes]:
    """Yield a segment's lines; wait a moment for the last line of all to be completed."""
    # Retention may have removed the segment in the meantime.
    with suppress(FileNotFoundError), open_regular_file(place.path) as file:
        deadline = time.monotonic() + LINE_TIMEOUT
        position = 0
        while line := file.readline():
            while is_last and not line.endswith(b"\n") and time.monotonic() < deadline:
                time.sleep(LINE_TIMEOUT / 30)
                file.seek(position)
                line = file.readline()
            position += len(line)
            yield line


class Check:
    """The state of a check: the entries that were read so far, and the findings."""

    def __init__(
        self,
        anchored: tuple[int, str] | None,
        marked: HighWaterMark | None,
        witnesses: Sequence[ChainWitness],
        payloads: PayloadCheck,
    ) -> None:
        self._report = VerifyReport()
        self._anchored = anchored
        self._marked = marked
        self._payloads = payloads
        self._witnesses = list(witnesses)
        self._wanted = {witness.seq for witness in witnesses}
        if anchored is not None:
            self._wanted.add(anchored[0])
        if marked is not None:
            self._wanted.add(marked.seq)
        self._hashes: dict[int, str] = {}  # of the wanted records
        self._first: ChainLink | None = None
        self._last: ChainLink | None = None
        self._unreadable = 0  # lines since the last valid record
        self._place: SegmentFile | None = None
        self._torn: list[RecordFinding] = []  # torn ends, which one of the next two segments may explain
        self._skipped: tuple[int, int] | None = None  # as declared by the current segment
        self._first_skipped: tuple[int, int] | None = None  # as declared by the first segment
        self._kept: RetiredEntry | None = None  # the last `retired` record
        self._faults: dict[int, str] = {}  # unacknowledged ones, by their record
        self._is_marked = False  # whether any entry is not acknowledged, so that the mark has to say so

    def add_finding(self, what: FindingKind, seq: int | None, text: str) -> None:
        self._keep_finding(RecordFinding(what, seq, self._segment_name, text))

    @property
    def _segment_name(self) -> str | None:
        return self._place.name if self._place is not None else None

    def _keep_finding(self, finding: RecordFinding) -> None:
        if len(self._report.findings) < MAX_FINDINGS:
            self._report.findings.append(finding)
        else:
            self._report.findings_omitted += 1

    def take(self, place: SegmentFile, line: bytes) -> None:
        before, self._place = self._place, place
        link = read_link(line) if line.endswith(b"\n") else None
        if place != before:
            self._begin(place, link, line, before.name if before is not None else None)
        if link is None:
            self._take_unreadable(line)
            return
        self._report.records += 1
        if link.seq in self._wanted:
            self._hashes.setdefault(link.seq, link.hash)
        self._compare(link)
        self._payloads.take(link, line)
        if link.kind in REPORTED or link.kind == "retired":
            self._take_report(link, line)

    def _begin(self, place: SegmentFile, link: ChainLink | None, line: bytes, before: str | None) -> None:
        torn, self._torn = self._torn, []
        previous = DOCUMENTS.decode(line).get("previous") if torn and link is not None else None
        for finding in torn:
            if isinstance(previous, dict) and cast("dict[str, object]", previous).get("torn") is True:
                self._report.notes.append(f"{finding.segment} ends in a partial line, as a segment after it records")
                self._unreadable = 0
            elif finding.segment == before:  # one that was only just ended is in the same sync as the next
                self._torn.append(finding)
            else:
                self._keep_finding(finding)
        self._skipped = None
        if link is not None and link.kind == "segment":
            self._skipped = read_skipped_range(DOCUMENTS.decode(line))
        if link is not None and (link.seq != place.first or link.kind != "segment"):
            self.add_finding("altered", link.seq, f"{place.name} begins with record {link.seq}, of kind {link.kind!r}")

    def _take_unreadable(self, line: bytes) -> None:
        after = f"after record {self._last.seq}" if self._last is not None else "before the first record"
        if not line.endswith(b"\n"):
            text = f"{len(line)} bytes {after} lack a newline: a crash left them, or the end was cut off"
            self._torn.append(RecordFinding("torn", None, self._segment_name, text))
            return
        self._unreadable += 1
        seq = self._last.seq + self._unreadable if self._last is not None else None
        self.add_finding("altered", seq, f"the line {after} does not match its hash")

    def _compare(self, link: ChainLink) -> None:
        last, unreadable = self._last, self._unreadable
        if last is None:
            self._first = link
            self._first_skipped = self._skipped
            self._report.ranges.append((link.seq, link.seq))
        elif link.seq <= last.seq:
            is_known = any(first <= link.seq <= end for first, end in self._report.ranges)
            what: FindingKind = "duplicated" if is_known else "reordered"
            self.add_finding(
                what, link.seq, f"record {link.seq} comes {'again ' if is_known else ''}after record {last.seq}"
            )
            return
        elif link.seq > last.seq + 1 + unreadable:
            first, end = last.seq + 1 + unreadable, self._end_of_gap(link)
            if end >= first:
                self.add_finding("missing", first, f"{format_seq_range(first, end)} missing")
            elif end + 1 < first:
                text = f"record {link.seq} says that {end + 1} was skipped, but it was not"
                self.add_finding("altered", link.seq, text)
            elif not unreadable:
                self._check_follows(link, last)
            self._report.ranges.append((link.seq, link.seq))
        elif unreadable or link.seq != last.seq + 1:
            self._report.ranges.append((link.seq, link.seq))
        elif self._check_follows(link, last):
            self._report.ranges[-1] = (self._report.ranges[-1][0], link.seq)
        else:
            self._report.ranges.append((link.seq, link.seq))
        self._last, self._unreadable = link, 0

    def _check_follows(self, link: ChainLink, last: ChainLink) -> bool:
        if link.prev != last.hash:
            self.add_finding("altered", last.seq, f"record {last.seq} is not the one that record {link.seq} follows")
        return link.prev == last.hash

    def _end_of_gap(self, link: ChainLink) -> int:
        """Return the last number before a record that counts as missing."""
        if self._skipped is None or link.kind != "segment":
            return link.seq - 1
        first, last = self._skipped
        if first <= last:
            self._report.notes.append(f"numbers {first} to {last} were never used: the previous daemon had crashed")
        return first - 1

    def _take_report(self, link: ChainLink, line: bytes) -> None:
        record = DOCUMENTS.decode(line)
        if link.kind == "retired":
            self._take_retired(link, read_retired(record))
            return
        if link.kind == "fault":
            self._is_marked = True
            if "cause" not in record:  # one with a cause is about a call, and the record is well
                self._faults[link.seq] = str(record.get("text"))
        elif link.kind == "acknowledged":
            self._is_marked = False
            self._faults.clear()
        reported = {key: value for key, value in record.items() if key not in ("prev", "hash")}
        self._report.told = [*self._report.told, reported][-MAX_FINDINGS:]

    def _take_retired(self, link: ChainLink, kept: RetiredEntry | None) -> None:
        before = self._kept
        if kept is None:
            self.add_finding("retired", link.seq, f"record {link.seq} reports a removal with impossible numbers")
            return
        self._kept = kept
        if before is not None:
            expected = before.kept_seq
        elif self._first is not None and self._first.prev == GENESIS:
            expected = 1 if self._first_skipped is None else min(self._first.seq, kept.first_seq)
        else:
            return  # the previous `retired` record was itself removed
        if kept.first_seq != expected:
            text = f"record {link.seq} reports a removal from {kept.first_seq} on, but the record began at {expected}"
            self.add_finding("retired", link.seq, text)

    def end(self, segments: int, *, is_still: bool) -> VerifyReport:
        report, last = self._report, self._last
        report.segments = segments
        for finding in self._torn:
            self._keep_finding(finding)
        if self._first is not None:
            self._check_beginning(self._first)
        if last is None:
            self.add_finding("missing", None, "there is no valid record at all")
        else:
            report.head = ChainWitness(last.seq, make_head(last.seq, last.hash).hash)
        self._check_end(last.seq if last is not None else 0)
        if self._marked is not None and is_still:
            self._check_mark(self._marked, last.seq if last is not None else 0)
        for seq, text in self._faults.items():
            text = f"record {seq} reports a fault that is not acknowledged: {text}"
            self._keep_finding(RecordFinding("fault", seq, None, text))
        try:
            report.payloads, lost = self._payloads.end()
            for seq in lost:
                text = f"the payload of record {seq} is missing or was changed"
                self._keep_finding(RecordFinding("payload", seq, None, text))
        except OSError as error:
            text = f"no payload can be checked: {locate_error(error)}"
            self._keep_finding(RecordFinding("payload", None, None, text))
        report.witnesses = [self._check_witness(witness) for witness in self._witnesses]
        report.ok = not report.findings
        return report

    def _check_beginning(self, first: ChainLink) -> None:
        kept = self._kept
        begin, prev = (kept.kept_seq, kept.kept_prev) if kept is not None else (1, GENESIS)
        if kept is not None and kept.lost:
            self.add_finding("missing", None, f"{kept.lost} records were already missing when retention reached them")
        end = self._first_skipped[0] - 1 if self._first_skipped is not None else first.seq - 1
        if first.seq < begin:
            self._report.notes.append(f"record {kept.seq if kept else 0} says that all before {begin} is removed")
        elif end >= begin:
            text = f"{format_seq_range(begin, end)} missing from the beginning, and no record explains that"
            self.add_finding("missing", begin, text)
        elif first.prev != prev:
            self.add_finding("altered", first.seq, f"record {first.seq} is not the one that the record began with")
        elif kept is not None:
            self._report.notes.append(f"records 1 to {begin - 1} were removed by retention, says record {kept.seq}")

    def _check_end(self, last: int) -> None:
        """Compare the end with the entries that were on disk according to the anchor and the mark."""
        witnesses = [("anchor", *self._anchored)] if self._anchored is not None else []
        if self._marked is not None:
            witnesses.append(("mark", self._marked.seq, self._marked.hash))
        through = max((seq for _, seq, _ in witnesses), default=0)
        if through > last:
            names = " and ".join(name for name, seq, _ in witnesses if seq > last)
            text = f"{format_seq_range(last + 1, through)} missing from the end"
            self.add_finding("missing", last + 1, f"{text}: they were on disk, according to the {names}")
        for name, seq, own in witnesses:
            if seq in self._hashes and self._hashes[seq] != own:
                self.add_finding("altered", seq, f"record {seq} is not the one that the {name} says was on disk")
            elif seq in self._hashes and name == "anchor":
                self._report.anchored_through = seq
            elif self._is_cut_out(seq) and not self._report.findings:
                self.add_finding("missing", seq, f"record {seq} is missing: the {name} says that it was on disk")

    def _is_cut_out(self, seq: int) -> bool:
        first, last = self._first, self._last
        is_within = first is not None and last is not None and first.seq <= seq <= last.seq
        return is_within and seq not in self._hashes

    def _check_mark(self, mark: HighWaterMark, last: int) -> None:
        if mark.is_closed and last > mark.seq:
            text = f"{format_seq_range(mark.seq + 1, last)} newer than the last shutdown, according to the mark"
            self.add_finding("altered", last, text)
        elif last > mark.reserved_through:
            self.add_finding("altered", last, f"record {last} is beyond the numbers that the mark has reserved")
        if mark.fault_seq and not self._is_marked:
            self.add_finding("fault", mark.fault_seq, "the mark reports a fault that is not acknowledged")

    def _check_witness(self, witness: ChainWitness) -> dict[str, Any]:
        first, last = self._first, self._last
        own = self._hashes.get(witness.seq)
        if own is not None:
            result = "confirmed" if own.startswith(witness.hash) else "contradicted"
        elif first is not None and witness.seq < first.seq:
            result = "retired"
        else:
            result = "missing"
        if result in ("contradicted", "missing"):
            is_after = last is None or witness.seq > last.seq
            text = "is missing" if is_after or result == "missing" else "is not the one that the witness saw"
            self.add_finding("witness", witness.seq, f"record {witness.seq} {text}")
        return {"seq": witness.seq, "hash": witness.hash, "result": result}
