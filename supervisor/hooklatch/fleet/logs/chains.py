"""The check of one host's log against itself, against the host's report, and against the record on that host.

An entry's hash covers its whole line, and most fields of it never leave the machine.  So the chain is checked here:
each entry names the hash of the entry before it, and numbers have no holes but those that the record declares.  Only
for entries from which nothing was left out the content is checked as well.  `DOES_NOT_PROVE` names the limits.

Shipped entries cannot be taken back.  So the engine's hashes are witnesses for the record on the machine, and the
record is a witness for the fields that the engine shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec

from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import LogFacts, RecordBatch, StoredReport
from hooklatch.fleet.enrolment import NOBODY, Enrolments, describe_retirement, is_batch_signed
from hooklatch.fleet.logs.reading import ChainPosition, FleetLogEntry, HostLog, LogFinding, ReceivedBatch, SeenRecords
from hooklatch.fleet.logs.trimming import TrimNote
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.reports import HostReport, read_report
from hooklatch.fleet.signing import KeyFormatError, read_public
from hooklatch.record.findings import ChainWitness, VerifyReport, format_seq_range
from hooklatch.record.storage.chain import GENESIS, ChainLink, read_link
from hooklatch.record.storage.reading import read_forwards
from hooklatch.record.storage.retention import RetiredEntry, read_retired, read_skipped_range
from hooklatch.record.verify import verify_record

__all__ = [
    "LocalComparison", "LocalReport", "DOES_NOT_PROVE", "PROVES", "FleetVerified", "HostCheck", "HostVerified",
    "ShippedByHost",
]  # fmt: skip

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
    """The comparison of shipped entries, in the order of their numbers, with the lines of the local record.

    Without such a record `take` and `end` raise NoRecordError.
    """

    def __init__(self, folder: str) -> None:
        self.report = LocalReport(folder)
        self._folder = folder
        self._epoch = 0
        self._lines: Iterator[bytes] = iter(())
        self._last = 0  # the newest number that was looked for
        self._current: tuple[ChainLink, bytes] | None = None

    def take(self, entries: Sequence[FleetLogEntry], *, is_current: bool) -> None:
        """Compare the records of a batch."""
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
                shipped, here = format_local_value(value), format_local_value(own.get(name))
                self._add_difference(f"record {record.seq}: {name} was shipped as {shipped}, and is {here}")

    def end(self, heads: Sequence[ChainWitness]) -> LocalReport:
        """Check the local files, with the heads that the engine has as witnesses, when all batches were taken."""
        self.report.record = verify_record(self._folder, heads)
        return self.report

    def _add_difference(self, text: str) -> None:
        if len(self.report.differences) < MAX_DIFFERENCES:
            self.report.differences.append(text)
        else:
            self.report.omitted += 1


def format_local_value(value: object) -> str:
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= 80 else f"{text[:80]}…"


SAMPLED = 256  # one entry of so many is kept, to know a record again under another name
MAX_FINDINGS = 1000  # findings of a host; the rest is counted
SETTLED = 60_000  # ms between a batch and a report after which the report must include the batch
PROVES = (
    "that the records which the engine has of these hosts are whole chains: none was left out, moved, exchanged or"
    " inserted after a later one was shipped, but for those that are named"
)
DOES_NOT_PROVE = (
    "that a record is true: where fields were left out, what a record says is the host's word.  On the host itself,"
    " fleet verify compares each shipped record with the local one",
    "that all was shipped: a host that is silent, or whose link was stopped, ships nothing.  fleet status names it",
    "what a host decided without recording it: its hooks and its daemon are the host's own",
    "that it was that host which shipped them, unless it was enrolled: every process with its credentials can",
)


class HostVerified(msgspec.Struct):
    """The result of the check of one host; `ok`: nothing is wrong with its record.

    `ranges` are unbroken runs of each epoch.  `whole` records had nothing left out.  `proven`: the host was enrolled,
    and its key has signed all of it.
    """

    host: str
    records: int = 0
    whole: int = 0
    repeated: int = 0
    ranges: list[tuple[int, int, int]] = []  # epoch, first, last
    head: ChainWitness | None = None
    epoch: int = 0
    findings: list[LogFinding] = []
    omitted: int = 0
    notes: list[str] = []
    local: LocalReport | None = None
    ok: bool = False
    proven: bool = False


class FleetVerified(msgspec.Struct, frozen=True):
    """`fleet verify`."""

    ok: bool
    hosts: list[HostVerified]
    proves: str
    does_not_prove: tuple[str, ...]


class ShippedByHost:
    """Some entries of the hosts that were checked before, by number and hash: enough to know a record again.

    `ends` are the first and the last one of each epoch.
    """

    def __init__(self) -> None:
        self.samples: dict[tuple[int, str], str] = {}
        self.ends: list[tuple[int, str, str]] = []  # number, hash and host


class HostCheck:
    """The check of one host: it takes all of its batches, then the report, and returns the findings."""

    def __init__(self, host: str, fleet: str = "", enrolments: Enrolments = NOBODY) -> None:
        self.host = host
        self._fleet = fleet
        self._enrolments = enrolments
        self._key = enrolments.find_key(host)  # that it was enrolled with, or else the one that its report names
        self._is_enrolled = self._key is not None
        self._who: list[str] = []  # notes on who it is
        self._log = HostLog(host)
        self._trimmed: Mapping[int, TrimNote] = {}
        self._skipped: dict[tuple[int, int], tuple[int, int]] = {}  # by epoch and number of the segment's record
        self._retired: dict[int, list[RetiredEntry]] = {}
        self._arrivals: list[tuple[int, int, int]] = []  # at, epoch and last number of each batch
        self._verified = HostVerified(host)
        self._unsigned: dict[int, int] = {}  # the first number for which no later signature vouches, by epoch

    def add_finding(self, what: str, text: str, epoch: int | None = None, seq: int | None = None) -> None:
        self._keep_finding(LogFinding(self.host, what, text, epoch, seq))

    def _keep_finding(self, finding: LogFinding) -> None:
        if len(self._verified.findings) < MAX_FINDINGS:
            self._verified.findings.append(finding)
        else:
            self._verified.omitted += 1

    def is_within(self, max_bytes: int | None) -> bool:
        """Return whether the host's log has not cost more than its share yet."""
        return max_bytes is None or self._log.read_bytes <= max_bytes

    def take_report(self, report: StoredReport | None) -> HostReport | None:
        """Return the host's report as it was read, None if it cannot be; check who has signed it."""
        host_report: HostReport | None = None
        retired, faults = self._enrolments.find_retirement(self.host), self._enrolments.list_strangers(self.host)
        if report is not None:
            try:
                host_report = read_report(report.data, self.host)
            except FleetError as error:
                self.add_finding("report", str(error))
            faults = self._enrolments.list_faults(self._fleet, report)
        for fault in faults:
            self.add_finding("identity", fault)
        if retired is not None:
            self._who.append(describe_retirement(retired))
        elif not faults and not self._is_enrolled:
            unreadable = "whether it is enrolled cannot be read with the rights of a host"
            never = "nobody has proven who it is: it was never enrolled (hooklatch fleet enroll)"
            self._who.append(never if self._enrolments.is_readable else unreadable)
        if self._key is None and host_report is not None and host_report.key:
            with suppress(KeyFormatError):  # which is a fault of the report
                self._key = read_public(host_report.key)
        return host_report

    def check_name(self, shipped: ShippedByHost) -> None:
        """Find the hosts that have shipped this host's record too, of those before, and add this one."""
        others: dict[str, int] = {}
        seen_records = self._log.seen_records.values()
        for seq, hash_, host in shipped.ends:
            if any(seen.hash_of(seq) == hash_ for seen in seen_records):
                others[host] = max(seq, others.get(host, 0))
        for seen in seen_records:
            first: ChainPosition | None = None
            last: ChainPosition | None = None
            for place in seen:
                first, last = first or place, place
                if place.seq % SAMPLED == 0:
                    owner = shipped.samples.setdefault((place.seq, place.hash), self.host)
                    if owner != self.host:
                        others[owner] = max(place.seq, others.get(owner, 0))
            shipped.ends += [(place.seq, place.hash, self.host) for place in (first, last) if place is not None]
        for host, seq in sorted(others.items()):
            if self._is_renamed(self.host, host) or self._is_renamed(host, self.host):
                self._verified.notes.append(f"through record {seq} it is the record of {host} too: it was renamed")
                continue
            text = f"its record is that of {host}, as far as record {seq} shows: the host was renamed, or its record"
            self.add_finding("name", f"{text} was copied, and what both have shipped counts twice", None, seq)

    def _is_renamed(self, before: str, now: str) -> bool:
        """Return whether it is on record that a host was renamed so."""
        retired = self._enrolments.find_retirement(before)
        return retired is not None and retired.to == now

    def _check_signature(self, epoch: int, batch: RecordBatch) -> None:
        """Check who has signed a batch.  A good signature vouches for all entries of its epoch before it.

        A batch without one is a finding only if its host has a key that signs, and no later batch vouches for it.
        """
        if self._key is not None and is_batch_signed(self._fleet, self.host, epoch, batch, self._key):
            self._unsigned.pop(epoch, None)
        elif batch.signature:
            text = (
                f"the batch up to record {batch.last} (epoch {epoch}) is signed by another key than that of this host"
            )
            self.add_finding("signature", text, epoch, batch.last)
        elif self._is_enrolled:
            self._unsigned.setdefault(epoch, batch.first)

    def check_vouched(self) -> None:
        """Find the entries for which no signature vouches, once all batches are taken."""
        for epoch, first in self._unsigned.items():
            text = f"the records from {first} on (epoch {epoch}) are not signed by the key of this host"
            self.add_finding("signature", text, epoch, first)

    def take(self, epoch: int, batch: RecordBatch) -> ReceivedBatch:
        """Take a batch, and return it as it was read."""
        arrival = self._log.take(epoch, batch)
        for finding in arrival.findings:
            self._keep_finding(finding)
        self._verified.records += len(arrival.entries)
        self._arrivals.append((batch.at, epoch, batch.last))
        self._check_signature(epoch, batch)
        for entry in arrival.entries:
            record = entry.record
            self._verified.whole += record.is_whole
            if record.kind == "segment" and (skipped := read_skipped_range(record.document)) is not None:
                self._skipped[epoch, record.seq] = skipped
            elif record.kind == "retired" and (retired := read_retired(record.document)) is not None:
                self._retired.setdefault(epoch, []).append(retired)
        return arrival

    def take_trim_notes(self, notes: Mapping[int, TrimNote]) -> None:
        """Take the notes on trimmed batches, as they are when all batches are read."""
        self._trimmed = notes

    def heads(self, epoch: int) -> list[ChainWitness]:
        """Return the newest entry of each batch of an epoch: the record on the host must still have it."""
        places = self._log.seen_records.get(epoch, SeenRecords())
        lasts = [last for _, arrived, last in self._arrivals if arrived == epoch]
        return [ChainWitness(last, own) for last in lasts if (own := places.hash_of(last)) is not None]

    def check_times(self, now: int) -> None:
        """Find batches with impossible times; `now` is the engine's time after the batches were read.

        The host appends the time itself, and could pass a new batch off as an old one: shown last, removed first.
        """
        newest: dict[int, int] = {}
        for at, epoch, last in self._arrivals:
            before = newest.get(epoch, 0)
            newest[epoch] = max(before, at)
            batch = f"the batch up to record {last} (epoch {epoch}) says that it"
            if at + SETTLED < before:
                self.add_finding("time", f"{batch} arrived well before the one before it", epoch, last)
            elif at > now + SETTLED:
                self.add_finding("time", f"{batch} arrives in the future", epoch, last)

    def check_engine(self, epoch: int, facts: LogFacts) -> None:
        """Find batches that were removed without a note; `facts` are from before the batches were read."""
        noted = self._trimmed[epoch].batches if epoch in self._trimmed else 0
        read = sum(1 for _, arrived, _ in self._arrivals if arrived == epoch)
        removed = facts.added - facts.batches - noted
        if removed > 0:
            which = f"{removed} of the batches of epoch {epoch}"
            text = f"{which} were removed from the engine, and no operator's note says so"
            self.add_finding("engine", f"{text}: every process with the credentials of {self.host} can do that", epoch)
        if facts.batches > read:
            text = f"the engine has {facts.batches} batches of epoch {epoch}, of which only {read} can be reached"
            self.add_finding("engine", f"{text}: another process than a link wrote to the log", epoch)

    def end(self, report: HostReport | None, witnesses: Sequence[ChainWitness] = ()) -> HostVerified:
        """Finish the check."""
        verified = self._verified
        verified.repeated = self._log.repeated
        epochs = sorted({*self._log.seen_records, *self._trimmed})
        for epoch in epochs:
            self._check_epoch(epoch, self._log.seen_records.get(epoch, SeenRecords()))
        for before, epoch in pairwise(epochs):
            self._compare_epochs(before, epoch)
        if report is not None:
            self._check_report(report)
        for witness in witnesses:
            self._check_witness(witness)
        verified.notes += self._who
        verified.ok = not verified.findings
        verified.proven = verified.ok and self._is_enrolled
        return verified

    # -- one epoch -----------------------------------------------------------------------------------------------------

    def _check_epoch(self, epoch: int, seen: SeenRecords) -> None:
        last: ChainPosition | None = None
        for position in seen:
            if last is None:
                self._check_beginning(epoch, position)
                self._verified.ranges.append((epoch, position.seq, position.seq))
            elif self._follows(epoch, last, position):
                first = self._verified.ranges[-1][1]
                self._verified.ranges[-1] = (epoch, first, position.seq)
            else:
                self._verified.ranges.append((epoch, position.seq, position.seq))
            last = position
        if last is not None:
            self._verified.epoch, self._verified.head = epoch, ChainWitness(last.seq, last.hash)
        elif epoch in self._trimmed:
            self._verified.notes.append(self._trimmed[epoch].text)

    def _check_beginning(self, epoch: int, first: ChainPosition) -> None:
        trimmed = self._trimmed.get(epoch)
        if trimmed is not None:
            self._verified.notes.append(trimmed.text)
            if first.seq <= trimmed.seq:
                return  # the note comes first: these batches are about to be removed
            self._follows(epoch, ChainPosition(trimmed.seq, trimmed.hash[:32], ""), first)
            return
        skipped = self._skipped.get((epoch, first.seq))
        if first.prev == GENESIS[:32] and (first.seq == 1 or skipped == (1, first.seq - 1)):
            return
        for retired in self._retired.get(epoch, []):
            if (retired.kept_seq, retired.kept_prev[:32]) == (first.seq, first.prev):
                who = f"the host's retention, says its record {retired.seq}"
                note = f"epoch {epoch} begins with record {first.seq}: those before it were removed by {who}"
                self._verified.notes.append(note)
                return
        text = f"epoch {epoch} begins with record {first.seq}, and no record explains where those before it are"
        self.add_finding("missing", text, epoch, 1)

    def _follows(self, epoch: int, last: ChainPosition, place: ChainPosition) -> bool:
        """Return whether one record directly follows another; a gap that is not declared is a finding."""
        first, end = last.seq + 1, place.seq - 1
        if first > end:
            if place.prev == last.hash:
                return True
            text = f"record {place.seq} (epoch {epoch}) does not follow the record {last.seq} that was shipped"
            self.add_finding("altered", text, epoch, last.seq)
            return False
        if place.prev == last.hash and self._skipped.get((epoch, place.seq)) == (first, end):
            self._verified.notes.append(f"numbers {first} to {end} were never used: the daemon had crashed")
            return True
        for retired in self._retired.get(epoch, []):
            if (retired.kept_seq, retired.kept_prev[:32]) == (place.seq, place.prev) and retired.first_seq <= first:
                text = f"{format_seq_range(first, end)} removed by retention before they were shipped"
                self.add_finding("lost", f"{text}, says record {retired.seq} (epoch {epoch})", epoch, first)
                return False
        trimmed = self._trimmed.get(epoch)
        if trimmed is not None and end <= trimmed.seq:
            if end == trimmed.seq and place.prev != trimmed.hash[:32]:
                text = f"record {place.seq} (epoch {epoch}) does not follow the record {end} that was trimmed"
                self.add_finding("altered", text, epoch, end)
            return False  # the range was removed while the log was read
        if trimmed is not None and last.seq < trimmed.seq:
            return self._follows(epoch, ChainPosition(trimmed.seq, trimmed.hash[:32], ""), place)
        self.add_finding("missing", f"{format_seq_range(first, end)} missing (epoch {epoch})", epoch, first)
        return False

    # -- epochs, the report, witnesses ---------------------------------------------------------------------------------

    def _compare_epochs(self, before: int, epoch: int) -> None:
        """Find the entries that a record that began anew no longer has."""
        old, new = self._log.seen_records.get(before, SeenRecords()), self._log.seen_records.get(epoch, SeenRecords())
        if not old.count and before in self._trimmed:
            return  # the operator removed all that it had, and the note says so
        kept = max((place.seq for place in old if new.hash_of(place.seq) == place.hash), default=0)
        unknown = self._trimmed[epoch].seq if epoch in self._trimmed else 0
        removed = [place.seq for place in old if place.seq > max(kept, unknown)]
        common = f"the same through {kept}" if kept else "nothing in common"
        text = f"the record began anew: epochs {before} and {epoch} have {common}"
        if removed:
            which = f"{format_count(len(removed), 'record')} from {removed[0]} on"
            text += (
                f"; {which} were shipped once and are not in the new one: the record on {self.host} was truncated,"
                " rewritten or removed.  This log still has them"
            )
        self.add_finding("anew", text, epoch, removed[0] if removed else None)

    def _check_report(self, report: HostReport) -> None:
        for text in report.findings:
            self.add_finding("told", f"{self.host} says: {text}")
        if report.lost:
            self.add_finding(
                "lost", f"{self.host} says that {report.lost} records were removed before they were shipped"
            )
        epoch, head = self._verified.epoch, self._verified.head
        if report.epoch > epoch or (head is None and report.shipped):
            text = f"{self.host} was told that records through {report.shipped} of epoch {report.epoch} are here"
            self.add_finding(
                "engine", f"{text}; the engine has none of that epoch: it lost what it had taken", report.epoch
            )
        elif report.epoch == epoch and head is not None and report.shipped > head.seq:
            text = f"{self.host} was told that records through {report.shipped} are here, and the last is {head.seq}"
            self.add_finding("engine", f"{text}: the engine lost what it had taken", epoch, head.seq + 1)
        if report.record is None:
            return
        if report.record.seq < report.shipped:
            text = f"the record of {self.host} ends at {report.record.seq}, and {report.shipped} were shipped"
            self.add_finding("report", f"{text}: it went back", epoch, report.record.seq)
        known_hash = self._log.seen_records.get(report.epoch, SeenRecords()).hash_of(report.record.seq)
        if known_hash is not None and not agree_on_hash(known_hash, report.record.hash):
            text = f"{self.host} says that its record {report.record.seq} is not the one that it shipped"
            self.add_finding("report", text, report.epoch, report.record.seq)

    def check_arrivals(self, report: HostReport, at: int) -> None:
        """Find batches that arrived well before a report, at `at`, that does not include them."""
        if report.record is None:
            return
        for arrived, epoch, last in self._arrivals:
            if epoch == report.epoch and arrived + SETTLED < at and last > report.record.seq:
                text = f"{self.host} says that its record ends at {report.record.seq}, and it had shipped {last}"
                self.add_finding("report", f"{text}: it went back", epoch, report.record.seq)
                return

    def _check_witness(self, witness: ChainWitness) -> None:
        seen = (places.hash_of(witness.seq) for places in self._log.seen_records.values())
        hashes = [hash_ for hash_ in seen if hash_ is not None]
        head = self._verified.head
        if any(agree_on_hash(hash_, witness.hash) for hash_ in hashes):
            self._verified.notes.append(f"the witness {witness.seq}:{witness.hash[:16]} is confirmed")
        elif hashes:
            self.add_finding("altered", f"record {witness.seq} is not the one that the witness saw", None, witness.seq)
        elif head is not None and witness.seq > head.seq:
            self._verified.notes.append(f"the witness's record {witness.seq} was not shipped yet")
        elif any(witness.seq <= note.seq for note in self._trimmed.values()):
            self._verified.notes.append(f"the witness's record {witness.seq} was trimmed, and cannot be compared")
        else:
            self.add_finding("missing", f"record {witness.seq}, which the witness saw, is not here", None, witness.seq)


def agree_on_hash(text: str, other: str) -> bool:
    """Return whether two beginnings of a hash may be of one hash; too short ones never agree."""
    length = min(len(text), len(other))
    return length >= 16 and text[:length] == other[:length]
