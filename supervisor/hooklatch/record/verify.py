"""Checks a record against itself, its anchor and witnesses.  Knows chains and files; changes nothing.

Each record is checked by its own hash, by the hash that the next one holds of it, and by its number.  What is told:

altered      a record is not what its hash says, or not what the next one saw
missing      numbers are left out, in the middle, at the beginning without a `retired` record, or after the end
duplicated   a number comes again; reordered: a record comes after one that follows it
torn         bytes that are no record
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import msgspec

from hooklatch.record.anchor import AnchorError, read_anchor
from hooklatch.record.chain import GENESIS, Link, head_of, read_link
from hooklatch.record.reading import NoRecordError, segments_of
from hooklatch.record.segments import Place

__all__ = ["Finding", "Report", "Witness", "verify"]

What = Literal["altered", "missing", "duplicated", "reordered", "torn", "anchor", "witness"]
TOLD = frozenset({"recovered", "fault", "unrecorded"})  # what the record itself says went wrong
PATIENCE = 0.3  # seconds that a line which is being written has to come to its end
MAX_FINDINGS = 1000
DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
PROVES = (
    "no record of this chain was changed, left out, moved or doubled after its hash was taken, unless all records after"
    " it were made anew too"
)
NOT_PROVED = (
    "prevent anything: it is tamper-evident, not tamper-proof.  Who can write to this folder can make the whole chain"
    " and the anchor anew.  A head that somebody else kept shows that (every reply carries one, as `record`):"
    " --witness SEQ:HASH",
    "show that records after the anchor were cut off, or that others were put there",
    "show that a record is true: it says what the daemon decided, no more",
)


class Witness(msgspec.Struct, frozen=True):
    """A record's number and the beginning of its hash, as somebody outside of the folder kept them."""

    seq: int
    hash: str


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    what: What
    seq: int | None
    segment: str | None
    text: str


class Report(msgspec.Struct):
    """What was found.  `ranges` are the unbroken runs of records; `told` is what the record itself says went wrong."""

    ok: bool = True
    records: int = 0
    segments: int = 0
    ranges: list[tuple[int, int]] = []
    head: Witness | None = None
    anchored_through: int | None = None
    findings: list[Finding] = []
    findings_omitted: int = 0
    witnesses: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    notes: list[str] = []
    proves: str = PROVES
    does_not_prove: Sequence[str] = NOT_PROVED


def verify(
    folder: str,
    witnesses: Sequence[Witness] = (),
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Check a whole record.  `on_progress` is told the bytes read, and all there are.

    Raises:
        NoRecordError: there is none, or it cannot be read.
    """
    try:
        anchored = read_anchor(folder)
        anchor_fault = None if anchored is not None else f"there is no anchor in {folder}"
    except AnchorError as error:
        anchored, anchor_fault = None, str(error)
    check = Check(anchored, witnesses)
    if anchor_fault is not None:
        check.find("anchor", None, f"{anchor_fault}: what was cut off the end cannot be known")
    segments = segments_of(folder)  # after the anchor, which must not be newer than what is read
    total, done = sum(size_of(place) for place in segments), 0
    try:
        for place in segments:
            for line in lines_of(place, is_last=place is segments[-1]):
                check.take(place, line)
                done += len(line)
                on_progress(done, total)
    except OSError as error:
        raise NoRecordError(f"{error.filename} cannot be read: {error.strerror}") from None
    return check.end(len(segments))


def size_of(place: Place) -> int:
    try:
        return os.stat(place.path).st_size
    except OSError:
        return 0


def lines_of(place: Place, *, is_last: bool) -> Iterator[bytes]:
    """Give a segment's lines; the last of all gets a moment to come to its end."""
    try:
        file = open(place.path, "rb")  # noqa: SIM115  (closed below; a segment that was retired meanwhile has no lines)
    except FileNotFoundError:
        return
    with file:
        deadline = time.monotonic() + PATIENCE
        position = 0
        while line := file.readline():
            while is_last and not line.endswith(b"\n") and time.monotonic() < deadline:
                time.sleep(PATIENCE / 30)
                file.seek(position)
                line = file.readline()
            position += len(line)
            yield line


class Check:
    """What has been read so far, and what was wrong with it."""

    def __init__(self, anchored: tuple[int, str] | None, witnesses: Sequence[Witness]) -> None:
        self._report = Report()
        self._anchored = anchored
        self._witnesses = list(witnesses)
        self._wanted = {witness.seq for witness in witnesses}
        if anchored is not None:
            self._wanted.add(anchored[0])
        self._hashes: dict[int, str] = {}  # of the records that are wanted
        self._first: Link | None = None
        self._last: Link | None = None
        self._unreadable = 0  # lines since the last record
        self._place: Place | None = None
        self._torn: Finding | None = None  # at the end of a segment: the next one may explain it
        self._retired: list[dict[str, Any]] = []

    def find(self, what: What, seq: int | None, text: str) -> None:
        self._add(Finding(what, seq, self._place.name if self._place is not None else None, text))

    def _add(self, finding: Finding) -> None:
        if len(self._report.findings) < MAX_FINDINGS:
            self._report.findings.append(finding)
        else:
            self._report.findings_omitted += 1

    def take(self, place: Place, line: bytes) -> None:
        """Take the next line."""
        is_first = place != self._place
        self._place = place
        link = read_link(line) if line.endswith(b"\n") else None
        if is_first:
            self._begin(place, link, line)
        if link is None:
            self._take_unreadable(line)
            return
        self._report.records += 1
        if link.seq in self._wanted:
            self._hashes.setdefault(link.seq, link.hash)
        self._compare(link)
        if link.kind in TOLD or link.kind == "retired":
            self._keep(link, line)

    def _begin(self, place: Place, link: Link | None, line: bytes) -> None:
        torn, self._torn = self._torn, None
        if torn is not None:
            previous = DOCUMENTS.decode(line).get("previous") if link is not None else None
            if isinstance(previous, dict) and cast("dict[str, object]", previous).get("torn") is True:
                self._report.notes.append(f"{torn.segment}: a part of a line at its end, which the next segment tells")
                self._unreadable = 0
            else:
                self._add(torn)
        if link is not None and (link.seq != place.first or link.kind != "segment"):
            self.find("altered", link.seq, f"{place.name} begins with record {link.seq}, of the kind {link.kind!r}")

    def _take_unreadable(self, line: bytes) -> None:
        after = f"after record {self._last.seq}" if self._last is not None else "before the first record"
        if not line.endswith(b"\n"):
            text = f"{len(line)} bytes {after} have no end: a crash left them, or the end was cut off"
            name = self._place.name if self._place is not None else None
            self._torn = Finding("torn", None, name, text)
            return
        self._unreadable += 1
        seq = self._last.seq + self._unreadable if self._last is not None else None
        self.find("altered", seq, f"the line {after} is not what its hash says")

    def _compare(self, link: Link) -> None:
        last, unreadable = self._last, self._unreadable
        if last is None:
            self._first = link
            self._report.ranges.append((link.seq, link.seq))
        elif link.seq <= last.seq:
            is_known = any(first <= link.seq <= end for first, end in self._report.ranges)
            what: What = "duplicated" if is_known else "reordered"
            self.find(what, link.seq, f"record {link.seq} comes {'again ' if is_known else ''}after record {last.seq}")
            return
        elif link.seq > last.seq + 1 + unreadable:
            first, end = last.seq + 1 + unreadable, link.seq - 1
            self.find("missing", first, f"{spelled(first, end)} missing")
            self._report.ranges.append((link.seq, link.seq))
        elif unreadable or link.seq != last.seq + 1:
            self._report.ranges.append((link.seq, link.seq))
        elif link.prev != last.hash:
            self.find("altered", last.seq, f"record {last.seq} is not the one that record {link.seq} saw before it")
            self._report.ranges.append((link.seq, link.seq))
        else:
            self._report.ranges[-1] = (self._report.ranges[-1][0], link.seq)
        self._last, self._unreadable = link, 0

    def _keep(self, link: Link, line: bytes) -> None:
        record = DOCUMENTS.decode(line)
        if link.kind == "retired":
            self._retired.append(record)
        else:
            told = {key: value for key, value in record.items() if key not in ("prev", "hash")}
            self._report.told = [*self._report.told, told][-MAX_FINDINGS:]

    def end(self, segments: int) -> Report:
        """Give the report."""
        report, last = self._report, self._last
        report.segments = segments
        if self._torn is not None:
            self._add(self._torn)
        if self._first is not None:
            self._check_beginning(self._first)
        if last is None:
            self.find("missing", None, "there is no sound record at all")
        else:
            report.head = Witness(last.seq, head_of(last.seq, last.hash).hash)
        self._check_anchor(last.seq if last is not None else 0)
        report.witnesses = [self._checked(witness) for witness in self._witnesses]
        report.ok = not report.findings
        return report

    def _check_beginning(self, first: Link) -> None:
        if first.seq == 1:
            if first.prev != GENESIS:
                self.find("altered", 1, "record 1 is not the first of a chain")
            return
        before = first.seq - 1
        for retired in self._retired:
            begun, ended = retired.get("first_seq"), retired.get("last_seq")
            if not isinstance(begun, int) or not isinstance(ended, int) or not begun <= before <= ended:
                continue
            if before < ended or retired.get("last_hash") == first.prev:
                self._report.notes.append(
                    f"records 1 to {before} were removed by retention, as record {retired['seq']} tells"
                )
                return
        self.find(
            "missing", 1, f"{spelled(1, before)} missing from the beginning, and no record tells of their removal"
        )

    def _check_anchor(self, last: int) -> None:
        if self._anchored is None:
            return
        seq, own = self._anchored
        if seq > last:
            self.find(
                "missing",
                last + 1,
                f"{spelled(last + 1, seq)} missing from the end: they were on the disk, says the anchor",
            )
        elif seq in self._hashes and self._hashes[seq] != own:
            self.find("altered", seq, f"record {seq} is not the one that the anchor says was on the disk")
        elif seq in self._hashes:
            self._report.anchored_through = seq

    def _checked(self, witness: Witness) -> dict[str, Any]:
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
            text = "is missing" if is_after or result == "missing" else "is another one than the witness saw"
            self.find("witness", witness.seq, f"record {witness.seq} {text}")
        return {"seq": witness.seq, "hash": witness.hash, "result": result}


def spelled(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"
