"""The reader of all hosts' logs in the engine: from the beginning, from the end, or new batches only.

Across hosts the order is that in which batches arrived at the engine, within a host that of the record.  A follower
cannot miss a batch: each look asks every log for the batches after the number that was read last.

    batch ─▶ unpack_batch ─▶ each entry: known already? ─▶ new entries, in the order of their numbers

A batch that cannot be read is a finding, since its entries are then missing from the log.  A log may hold an entry
twice: a reply was lost and the batch was made anew, or two links ran.  So every number is taken once, in any order of
the batches, and two hashes of one number are noticed.  That takes some 42 bytes an entry, and some 600 where a host
ships numbers far apart from each other.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import trio

from hooklatch.core.status_answers import RecordLine
from hooklatch.core.text import suggest_name
from hooklatch.fleet.batches import (
    MAX_DATA,
    BatchError,
    ShippedRecord,
    find_newest_place,
    find_oldest_place,
    read_batch_lines,
    split_batch_lines,
)
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, RecordBatch, StoredReport
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.reports import read_report
from hooklatch.record.storage.chain import format_timestamp

__all__ = [
    "MAX_BYTES", "FleetReader", "FleetScan", "LogKey", "NoHostError", "describe_rest", "find_leads", "limit_epochs",
    "scan_fleet", "RecordMatch", "ChainPosition", "SeenRecords", "ReceivedBatch", "FleetLogEntry",
    "FleetRecordLine", "LogFinding", "HostLog",
]  # fmt: skip

PAGE = 16  # records in a page
HALF = 16  # bytes kept of each hash: 128 bits, as a witness has
WIDTH = 2 * HALF
NOTHING = bytes(WIDTH)


class RecordMatch(Enum):
    """The relation of a new entry to those that are known."""

    NEW = "new"
    SAME = "same"
    OTHER = "other"  # that number has another hash


class ChainPosition(msgspec.Struct, frozen=True):
    """An entry's number, and the beginnings of its hash and of the hash before it, in hexadecimal."""

    seq: int
    hash: str
    prev: str


class SeenRecords:
    """The entries of one epoch that were seen."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.count = 0

    def take(self, seq: int, own: str, prev: str) -> RecordMatch:
        """Take an entry, unless its number is taken; return how it relates to the known ones."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = encode_position(own, prev)
        if page is None:
            page = self._pages[seq // PAGE] = bytearray(PAGE * WIDTH)
        stored = bytes(page[at : at + WIDTH])
        if stored == NOTHING:
            page[at : at + WIDTH] = entry
            self.count += 1
            return RecordMatch.NEW
        return RecordMatch.SAME if stored[:HALF] == entry[:HALF] else RecordMatch.OTHER

    def hash_of(self, seq: int) -> str | None:
        """Return the beginning of an entry's hash, None if it was not seen."""
        page, at = self._pages.get(seq // PAGE), seq % PAGE * WIDTH
        entry = bytes(page[at : at + WIDTH]) if page is not None else NOTHING
        return entry[:HALF].hex() if entry != NOTHING else None

    def __iter__(self) -> Iterator[ChainPosition]:
        """Yield the entries in order of their numbers."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in range(0, PAGE * WIDTH, WIDTH):
                entry = bytes(page[at : at + WIDTH])
                if entry != NOTHING:
                    yield ChainPosition(number * PAGE + at // WIDTH, entry[:HALF].hex(), entry[HALF:].hex())


def encode_position(own: str, prev: str) -> bytes:
    entry = bytes.fromhex(own[: 2 * HALF] + prev[: 2 * HALF])
    # A host may claim any hash for an entry of which it left something out, but zeros mean an empty slot here.
    return entry if entry[:HALF].strip(b"\0") else b"\0" * (HALF - 1) + b"\1" + entry[HALF:]


LATEST = 2**42  # ms since the epoch, in 2109: a host may claim any number as a time of arrival


class LogFinding(msgspec.Struct, frozen=True):
    """Something wrong with a host's log.

    unreadable  a batch cannot be read; conflict: one number has two records
    missing     numbers are missing; altered: a record is not the one that its neighbour follows
    lost        the host removed records before they were shipped, and says so
    anew        the host's record began anew: it was truncated, rewritten or removed
    engine      the engine has less than the host was told that it has
    much        the log has more than is read of one host beside others
    name        another host has shipped the same record
    signature   the host's key has not signed it
    identity    the host was never enrolled, or was retired
    time        a batch, or the report, cannot have arrived when it says
    report      the host's report cannot be read, or contradicts its log
    told        the host itself reports something wrong
    local       the record on this machine is not the one that was shipped
    """

    host: str
    what: str
    text: str
    epoch: int | None = None
    seq: int | None = None


class FleetLogEntry(msgspec.Struct, frozen=True):
    """An entry of a host, and when the engine took it, in ms since the epoch by its clock."""

    host: str
    epoch: int
    at: int
    record: ShippedRecord

    @property
    def document(self) -> dict[str, Any]:
        """Return the entry with its host, epoch and time, under three names that no entry may use."""
        return {
            "fleet_host": self.host,
            "fleet_epoch": self.epoch,
            "fleet_at": self.at,
            **{name: value for name, value in self.record.document.items() if not name.startswith("fleet_")},
        }


class FleetRecordLine(RecordLine):
    """`fleet log`: a record, and its host."""

    host: str


class ReceivedBatch(msgspec.Struct, frozen=True):
    """A batch as it was read: its host, its numbers, and those of its entries that were not known yet, in order."""

    host: str
    epoch: int
    batch: RecordBatch
    entries: tuple[FleetLogEntry, ...]
    findings: tuple[LogFinding, ...] = ()


class HostLog:
    """The part of one host's log that was read so far: `read_bytes`, unpacked.

    `seen_records` has the entries of each epoch.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.seen_records: dict[int, SeenRecords] = {}
        self.repeated = 0  # records that came again
        self.read_bytes = 0
        self._conflicts: set[tuple[int, int, str]] = set()

    def take(self, epoch: int, batch: RecordBatch, needles: Collection[bytes] = ()) -> ReceivedBatch:
        """Return a batch with those of its entries that were not known yet; none if no line of it has all `needles`."""
        batch = msgspec.structs.replace(batch, at=min(batch.at, LATEST))
        try:
            lines = split_batch_lines(batch.data)
            self.read_bytes += sum(map(len, lines))
            if not any(may_contain(line, needles) for line in lines):  # decoding costs ten times as much
                return self._make_received(epoch, batch, [], [])
            records = read_batch_lines(lines, host=self.host, epoch=epoch, first=batch.first, last=batch.last)
        except BatchError as error:
            self.read_bytes += min(MAX_DATA, len(batch.data))
            text = (
                f"the batch of records {batch.first} to {batch.last} of {self.host} (epoch {epoch}) cannot be read:"
                f" {error}; they are still in the record on {self.host}, unless retention has removed them"
            )
            return self._make_received(
                epoch, batch, [], [LogFinding(self.host, "unreadable", text, epoch, batch.first)]
            )
        seen_records = self.seen_records.setdefault(epoch, SeenRecords())
        new: list[ShippedRecord] = []
        findings: list[LogFinding] = []
        for record in records:
            match = self._take(epoch, seen_records, record)
            if match is RecordMatch.SAME:
                self.repeated += 1
                continue
            new.append(record)
            if match is RecordMatch.OTHER:  # both are shown: a reader cannot know which is the host's own
                text = f"record {record.seq} of {self.host} (epoch {epoch}) was shipped twice, with different hashes"
                findings.append(LogFinding(self.host, "conflict", text, epoch, record.seq))
        return self._make_received(epoch, batch, new, findings)

    def _make_received(
        self, epoch: int, batch: RecordBatch, records: Iterable[ShippedRecord], findings: Iterable[LogFinding]
    ) -> ReceivedBatch:
        entries = tuple(FleetLogEntry(self.host, epoch, batch.at, record) for record in records)
        return ReceivedBatch(self.host, epoch, batch, entries, tuple(findings))

    def _take(self, epoch: int, seen_records: SeenRecords, record: ShippedRecord) -> RecordMatch:
        match = seen_records.take(record.seq, record.hash, record.prev)
        if match is RecordMatch.NEW and self._is_in_another_epoch(epoch, record):
            return RecordMatch.SAME
        if match is RecordMatch.OTHER:
            conflict = (epoch, record.seq, record.hash)
            if conflict in self._conflicts:
                return RecordMatch.SAME
            self._conflicts.add(conflict)
        return match

    def _is_in_another_epoch(self, epoch: int, record: ShippedRecord) -> bool:
        """Return whether another epoch has this entry: a record that began anew is shipped from its beginning."""
        own = record.hash[:32]
        return any(seen.hash_of(record.seq) == own for number, seen in self.seen_records.items() if number != epoch)


def may_contain(line: bytes, needles: Collection[bytes]) -> bool:
    """Return whether the JSON of a line may have these texts; a host may have written them with escapes."""
    return all(needle in line for needle in needles) or b"\\u" in line or b"\\/" in line


AT_ONCE = 64  # batches in memory, of all hosts together where there are fewer hosts; each may have megabytes
LISTED = 2.0  # seconds between looks for logs that are new
AFTER_ALL = 2**64  # above each number that a host can append
LogKey = tuple[str, int]  # a host and an epoch
# Of each host, where it was not named: one host must not cost the readers of all hosts more than this.
MAX_EPOCHS = 64
MAX_BYTES = 4 * 2**30  # unpacked: some weeks of a busy host


class NoHostError(FleetError):
    """A host that was named has no log and no report."""


async def list_logs(engine: Engine, hosts: Collection[str] | None = None) -> list[LogKey]:
    """Return the logs that the engine has, by host and epoch; all hosts', or only those of some.

    A host may not see which logs there are, and sees its own by the list of epochs that it keeps itself.
    """
    try:
        return sorted([key async for key in engine.logs() if hosts is None or key[0] in hosts])
    except EngineRefusedError:
        if hosts is None:
            raise
        return sorted([(host, epoch) for host in hosts for epoch in await engine.epochs(host)])


LEAD = 60_000  # ms by which a host's clock must be ahead for that to matter, and of the delay of a report


def find_leads(reports: Iterable[StoredReport]) -> dict[str, int]:
    """Return by how many ms the clocks of hosts are ahead of the engine's, of those that are, by their reports.

    Without that, the records of such a host would be found at times that are yet to come, however late they arrive.
    """
    leads: dict[str, int] = {}
    for stored in reports:
        with suppress(FleetError):
            lead = read_report(stored.data, stored.host).clock - stored.at
            leads |= {stored.host: lead + LEAD} if lead > LEAD else {}
    return leads


class FleetScan(msgspec.Struct, frozen=True):
    """The last reports and the logs of all hosts, or of those that were named.

    Of hosts that were not named only so many logs: one with very many must not hold up the others, and is in `excess`.
    """

    reports: list[StoredReport]
    logs: list[LogKey]
    excess: list[LogFinding] = []

    @property
    def hosts(self) -> set[str]:
        """Return the hosts that have a log or a report."""
        return {report.host for report in self.reports} | {host for host, _ in self.logs}


async def scan_fleet(engine: Engine, names: Collection[str] = (), *, has_reports: bool = True) -> FleetScan:
    """Return what the engine has of all hosts, or of those with these names; of no other host anything is read.

    Without `has_reports` those of all hosts are not needed.  Reports come first: a host reports a batch only after the
    engine took it, so a log that is listed later has it.

    Raises:
        NoHostError: a name is of no host.
    """
    own = [await engine.newest_report(name) for name in names]
    reports = [report for report in own if report is not None]
    if has_reports and not names:
        reports = [report async for report in engine.reports()]
    logs = await list_logs(engine, names or None)
    scan = FleetScan(reports, logs) if names else FleetScan(reports, *limit_epochs(logs))
    for name in names:
        if name not in scan.hosts:
            known = scan.hosts
            with suppress(EngineRefusedError):  # a host may not list the others
                known = (await scan_fleet(engine)).hosts
            raise NoHostError(f"no host {name!r} has reported or shipped anything{suggest_name(name, known)}")
    return scan


def limit_epochs(logs: Iterable[LogKey]) -> tuple[list[LogKey], list[LogFinding]]:
    """Return as many logs of each host as are read beside those of others, and a finding for each host with more."""
    kept: list[LogKey] = []
    findings: list[LogFinding] = []
    for host, keys in groupby(logs, itemgetter(0)):
        own = list(keys)
        if len(own) > MAX_EPOCHS:
            what = f"the log of {host} has {len(own)} epochs, of which {MAX_EPOCHS} are read"
            findings.append(LogFinding(host, "much", f"{what}; {describe_rest(host)}"))
            own = own[: MAX_EPOCHS // 2] + own[-MAX_EPOCHS // 2 :]
        kept += own
    return kept, findings


def describe_rest(host: str) -> str:
    """Return how to read all of a host's log, and who may have written so much."""
    return f"to read all, name it: --host {host}. Every process with its credentials can write that much"


class FleetReader:
    """A reader of the chosen hosts' logs.  Each entry comes once, over all of its methods.

    `leads` says by how many ms the clocks of some hosts are ahead of the engine's.  What cannot have all `needles`,
    texts that JSON needs no escape for, comes without its entries.
    """

    def __init__(
        self, engine: Engine, hosts: Collection[str] | None = None, *, leads: Mapping[str, int] = {},
        needles: Collection[bytes] = (),
    ) -> None:  # fmt: skip
        self.needles = needles
        self._engine = engine
        self._hosts = hosts
        self._leads = leads
        self._logs: dict[str, HostLog] = {}
        self._positions: dict[LogKey, int] = {}
        self._listed: list[LogKey] = []
        self._listed_until = 0.0
        self._excess: set[LogFinding] = set()  # that was told

    async def mark_end(self) -> None:
        """Have `new` begin with batches that arrive from now on."""
        for host, epoch in await list_logs(self._engine, self._hosts):
            for batch in await self._engine.batches_before(host, epoch, AFTER_ALL, limit=1):
                self._positions[host, epoch] = batch.last

    def resume(self, positions: Mapping[LogKey, int]) -> None:
        """Have `new` begin after these numbers."""
        self._positions.update(positions)

    async def new(self) -> AsyncGenerator[ReceivedBatch]:
        """Yield the batches that arrived since the last look, oldest first; at the first look all."""
        if trio.current_time() >= self._listed_until:
            self._listed = await list_logs(self._engine, self._hosts)
            self._listed_until = trio.current_time() + LISTED
            for key in self._listed:
                if (finding := await self._restart_shortened_log(*key)) is not None:
                    yield finding
        async with aclosing(self._merge(self._listed, self._positions, Period(), is_backward=False)) as arrivals:
            async for arrival in arrivals:
                yield arrival

    async def _restart_shortened_log(self, host: str, epoch: int) -> ReceivedBatch | None:
        """Begin anew with a log that has less than was read of it, and return a finding.

        It was emptied, or restored from an older copy: the entries below the old number may be other ones.
        """
        position = self._positions.get((host, epoch), 0)
        facts = await self._engine.log_facts(host, epoch) if position else None
        if facts is None or facts.last >= position:
            return None
        self._positions[host, epoch] = 0
        text = (
            f"the log of {host} (epoch {epoch}) was read through {position}, and the engine has no more than"
            f" {facts.last}: it was emptied or restored from an older copy, and is read anew"
        )
        return await self._make_finding(LogFinding(host, "engine", text, epoch, position))

    async def _make_finding(self, finding: LogFinding) -> ReceivedBatch:
        """Return a finding as a batch without entries that has arrived now."""
        now = int((await self._engine.facts())["clock"])
        return ReceivedBatch(finding.host, finding.epoch or 0, RecordBatch(0, 0, b"", now), (), (finding,))

    def forwards(self, oldest: int = 0, newest: int | None = None) -> AsyncGenerator[ReceivedBatch]:
        """Yield the batches of a time, in ms by the engine's clock, oldest first.

        What is older or newer is not read, but for one batch at each step of a search.  No time is believed alone: a
        batch is older if it arrived before, and its last record was made before; it is newer if it arrived after, and
        its first record was made after, by a clock that is ahead by the host's lead.
        """
        return self._merge(None, {}, Period(oldest, newest), is_backward=False)

    def backwards(self, oldest: int = 0, newest: int | None = None) -> AsyncGenerator[ReceivedBatch]:
        """Yield the same batches, newest first, and a few more; the records in each are in order."""
        return self._merge(None, {}, Period(oldest, newest), is_backward=True)

    async def _merge(
        self, keys: list[LogKey] | None, positions: Mapping[LogKey, int], period: Period, *, is_backward: bool
    ) -> AsyncGenerator[ReceivedBatch]:
        """Yield the batches of some logs, or of all, each from its position on."""
        keys = await list_logs(self._engine, self._hosts) if keys is None else keys
        if self._hosts is None:
            keys, findings = limit_epochs(keys)
            for finding in findings:
                if finding not in self._excess:
                    self._excess.add(finding)
                    yield await self._make_finding(finding)
        keys = keys[::-1] if is_backward else keys
        logs_by_host = {host: list(logs) for host, logs in groupby(keys, itemgetter(0))}
        heap: list[tuple[int, int, LogCursor]] = []
        for number, (host, logs) in enumerate(logs_by_host.items()):
            starts = [(epoch, AFTER_ALL if is_backward else positions.get((host, epoch), 0)) for _, epoch in logs]
            limit = max(1, AT_ONCE // len(logs_by_host))
            of_host = msgspec.structs.replace(period, lead=self._leads.get(host, 0))
            cursor = LogCursor(self._engine, host, starts, of_host, limit=limit, is_backward=is_backward)
            if await cursor.advance():
                heap.append((cursor.rank, number, cursor))
        heapq.heapify(heap)
        sizes = {host: log.read_bytes for host, log in self._logs.items()}
        while heap:
            _, number, cursor = heap[0]
            log = self._logs.setdefault(cursor.host, HostLog(cursor.host))
            if self._hosts is None and log.read_bytes - sizes.get(cursor.host, 0) > MAX_BYTES:
                what = f"the log of {cursor.host} has more than {MAX_BYTES >> 30} GiB, and the rest is not read now"
                yield await self._make_finding(LogFinding(cursor.host, "much", f"{what}; {describe_rest(cursor.host)}"))
                heapq.heappop(heap)
                continue
            arrival = log.take(cursor.epoch, cursor.batch, self.needles)
            key = (cursor.host, cursor.epoch)
            self._positions[key] = max(self._positions.get(key, 0), cursor.batch.last)
            yield arrival
            if await cursor.advance():
                heapq.heapreplace(heap, (cursor.rank, number, cursor))
            else:
                heapq.heappop(heap)


class Period(msgspec.Struct, frozen=True):
    """A time of which batches are looked for, in ms by the engine's clock; `lead` is that of a host's own clock."""

    oldest: int = 0
    newest: int | None = None
    lead: int = 0

    def is_before(self, batch: RecordBatch) -> bool:
        """Return whether a batch is older than what is looked for; one that cannot be read is not."""
        if batch.at >= self.oldest:
            return False
        try:
            return find_newest_place(batch.data, batch.last).at < format_timestamp(self.oldest / 1000)
        except BatchError:
            return False

    def is_after(self, batch: RecordBatch) -> bool:
        """Return whether a batch is newer; one that cannot be read is not."""
        if self.newest is None or batch.at <= self.newest:
            return False
        try:
            return find_oldest_place(batch.data).at > format_timestamp((self.newest + self.lead) / 1000)
        except BatchError:
            return False


class LogCursor:
    """A cursor in one host's log; its `batch`, of `epoch`, is the next to take, in the order of `rank`.

    Batches of another time than `period` are passed over as far as that costs less than to read them.
    """

    def __init__(
        self, engine: Engine, host: str, starts: list[tuple[int, int]], period: Period, *, limit: int,
        is_backward: bool,
    ) -> None:  # fmt: skip
        self.host = host
        self.epoch = 0
        self.batch: RecordBatch = RecordBatch(0, 0, b"")
        self.rank = -(2**63)
        self._engine = engine
        self._starts = starts[::-1]  # epochs to come, each with where to begin
        self._limit = limit  # batches to read at once
        self._is_backward = is_backward
        self._period = period
        self._ready: list[RecordBatch] = []
        self._position = 0
        self._is_open = False

    async def advance(self) -> bool:
        """Go to the next batch; return whether there is one."""
        while not self._ready:
            if self._is_open:
                self._ready = (await self._read())[::-1]
                self._is_open = bool(self._ready)
            elif self._starts:
                self.epoch, self._position = self._starts.pop()
                self._is_open = True
                if not self._is_backward and self._period.oldest:
                    self._position = await self._find_border(self._period.is_before)
                elif self._is_backward and self._period.newest is not None:
                    self._position = 1 + await self._find_border(lambda batch: not self._period.is_after(batch))
            else:
                return False
        self.batch = self._ready.pop()
        self._position = self.batch.last
        # The host's own time of a batch may be false: it never moves the batch before or behind its neighbours.
        self.rank = max(self.rank, -self.batch.at if self._is_backward else self.batch.at)
        return True

    async def _read(self) -> list[RecordBatch]:
        read = self._engine.batches_before if self._is_backward else self._engine.batches
        batches = list(await read(self.host, self.epoch, self._position, limit=self._limit))
        if self._is_backward:
            latest = 0
            for number in range(len(batches) - 1, -1, -1):  # no batch arrived before the one that it follows
                latest = max(latest, batches[number].at)
                batches[number] = msgspec.structs.replace(batches[number], at=latest)
        is_over = self._period.is_before if self._is_backward else self._period.is_after
        return [] if all(map(is_over, batches)) else batches

    async def _find_border(self, is_first: Callable[[RecordBatch], bool]) -> int:
        """Return the last number of the batches of the epoch that come first, by halving."""
        facts = await self._engine.log_facts(self.host, self.epoch)
        start, end = 0 if self._is_backward else self._position, facts.last if facts is not None else 0
        while start < end:
            middle = (start + end) // 2
            following = await self._engine.batches(self.host, self.epoch, middle, limit=1)
            if following and is_first(following[0]):
                start = following[0].last
            else:
                end = middle
        return start
