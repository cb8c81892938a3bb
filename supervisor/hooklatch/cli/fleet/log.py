"""The commands `fleet log`, the decisions of all hosts, with the filters of `log`, and `fleet verify`: the log against
itself, the hosts' reports and the record on this machine.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, nullcontext, suppress
from datetime import datetime

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import (
    LABELS,
    SUGGESTION_RECORDS,
    add_filters,
    list_asked_names,
    make_unknown_name_error,
    parse_witness,
    print_record,
    read_filters,
)
from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.chains import DOES_NOT_PROVE, PROVES, FleetVerified, HostVerified, LocalReport
from hooklatch.fleet.logs.reading import FleetLogEntry, FleetReader, ReceivedBatch, find_leads, scan_fleet
from hooklatch.fleet.logs.verifying import verify_hosts
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.record.storage.reading import Filters, NoRecordError, list_entry_values, matches_filters

__all__ = ["add_log", "add_verify"]

PLAIN = re.compile(r"[A-Za-z0-9._:-]+").fullmatch  # JSON has such a name as it is, or with escapes that show


def add_log(parser: Parser) -> None:
    parser.runs(
        run_fleet_log, example="hooklatch fleet log --verdict deny --since 1h", exits=(*access.EXITS, Exit.FINDINGS)
    )
    parser.prints("fleet.logs.reading:FleetRecordLine")
    access.add_hosts(parser)
    add_filters(parser)
    access.add_access(parser)


def run_fleet_log(arguments: argparse.Namespace) -> int:
    """Show records of all hosts, oldest first."""
    filters = read_filters(arguments)
    fleet_access = access.read_engine_access(arguments)
    shown_log = ShownLog(fleet_access, filters, arguments)
    with suppress(KeyboardInterrupt) if arguments.follow else nullcontext():
        access.run_with_engine(fleet_access, shown_log.show)
    return Exit.FINDINGS if shown_log.findings else Exit.OK


def to_milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


class ShownLog:
    """One run of `fleet log`: its filters, and the number of findings in what it read."""

    def __init__(self, fleet_access: access.EngineAccess, filters: Filters, arguments: argparse.Namespace) -> None:
        self.findings = 0
        self._access = fleet_access
        self._filters = filters
        self._timeless = filters.but(since=None, until=None)
        # A record arrives after it was made, so what arrived before is older too: it need not be read.
        self._oldest = to_milliseconds(filters.since) if filters.since is not None else 0
        self._newest = to_milliseconds(filters.until) if filters.until is not None else None
        self._leads: dict[str, int] = {}  # of hosts' clocks, in ms
        self._number: int = arguments.number
        self._hosts: list[str] = arguments.host
        self._follows: bool = arguments.follow
        self._is_json: bool = arguments.json
        self._width = 0  # of the hosts' names
        self._printed = 0  # records

    async def show(self, engine: Engine) -> None:
        scan = await scan_fleet(engine, self._hosts, has_reports=self._newest is not None)
        self._width = max(map(len, scan.hosts), default=0)
        if self._newest is not None:
            self._leads = find_leads(scan.reports)
        needles = list_needles(self._filters)
        reader = FleetReader(engine, set(self._hosts) or None, leads=self._leads, needles=needles)
        if self._follows:
            await reader.mark_end()
        if self._number == 0:
            await self._print_matching(reader.forwards(self._oldest, self._newest))
        else:
            for entry in await self._read_newest(reader):
                self._print(entry)
            if self._printed == self._number and not self._follows:  # to know whether there are more takes a full scan
                output.print_error(f"these are the newest {self._number}, and there may be more; -n 0 shows all")
        if not self._printed and not self._follows:
            is_timed = self._newest is not None or self._oldest > 0
            if not is_timed:  # else that would read what is not of that time
                await self._check_names(engine)
            output.print_error(
                f"no record of the fleet {self._access.fleet!r} matches{' in that time' if is_timed else ''}"
            )
        if self._follows:
            await self._print_matching(access.follow_fleet_log(reader))

    async def _print_matching(self, batches: AsyncGenerator[ReceivedBatch]) -> None:
        async with aclosing(batches) as arrivals:
            async for arrival in arrivals:
                for entry in self._select(arrival):
                    self._print(entry)
                if not output.has_reader():
                    return

    async def _read_newest(self, reader: FleetReader) -> list[FleetLogEntry]:
        entries: list[FleetLogEntry] = []
        async with aclosing(reader.backwards(self._oldest, self._newest)) as arrivals:
            async for arrival in arrivals:
                entries += reversed(list(self._select(arrival)))
                if len(entries) >= self._number:
                    break
        return entries[: self._number][::-1]

    def _select(self, arrival: ReceivedBatch) -> Iterable[FleetLogEntry]:
        for finding in arrival.findings:
            self.findings += 1
            output.print_error(finding.text)
        return (entry for entry in arrival.entries if self._matches(entry))

    def _matches(self, entry: FleetLogEntry) -> bool:
        """Return whether an entry passes the filters, by the time of the record or of its arrival.

        So a host whose clock is wrong does not hide a record by it, nor one whose clock is ahead and that ships late.
        """
        if not matches_filters(entry.record.document, self._timeless):
            return False
        since, newest, at = self._filters.since, self._newest, entry.record.at
        if since is not None and max(at, format_timestamp(entry.at / 1000)) < since:
            return False
        lead = self._leads.get(entry.host, 0)
        return newest is None or entry.at <= newest or at <= format_timestamp((newest + lead) / 1000)

    def _print(self, entry: FleetLogEntry) -> None:
        self._printed += 1
        document = entry.document if self._is_json else entry.record.document
        print_record(
            document, is_json=self._is_json, is_whole=self._filters.decision_id is not None,
            of=f"{entry.host:<{self._width}} ",
        )  # fmt: skip

    async def _check_names(self, engine: Engine) -> None:
        """Reject a filter by a name that no record has."""
        known_by_name = {name: set[str]() for name in list_asked_names(self._filters)}
        present: set[object] = set()
        count = 0
        reader = FleetReader(engine, set(self._hosts) or None)
        async with aclosing(reader.backwards()) as arrivals:
            async for arrival in arrivals:
                if len(known_by_name) == 1 and count > SUGGESTION_RECORDS:
                    reader.needles = list_needles(self._filters)
                for entry in arrival.entries:
                    count += 1
                    for name, known in known_by_name.items():
                        if name not in present and matches_filters(entry.record.document, name.alone):
                            present.add(name)
                        if count <= SUGGESTION_RECORDS:
                            known.update(list_entry_values(entry.record.document, name.field))
                if len(present) == len(known_by_name):
                    return
        where = f"the fleet {self._access.fleet!r}" + (f" of {', '.join(self._hosts)}" if self._hosts else "")
        for name, known in known_by_name.items():
            error = make_unknown_name_error(name, known, where) if name not in present else None
            if error is not None:
                raise CommandError(
                    error.code, f"{error}; a field that hosts do not ship cannot be found ([fleet] fields)"
                )


def list_needles(filters: Filters) -> list[bytes]:
    """Return texts that each record has which the filters choose, of those filters that choose very few."""
    return [name.encode() for name in (filters.decision_id, filters.session, filters.run) if name and PLAIN(name)]


RANGES = 20  # unbroken ranges to print


def add_verify(parser: Parser) -> None:
    parser.runs(run_fleet_verify, example="hooklatch fleet verify", exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.logs.chains:FleetVerified")
    access.add_hosts(parser)
    parser.add_argument(
        "--record", metavar="DIR",
        help="this machine's record (default, if this machine is one of the hosts: $XDG_STATE_HOME/hooklatch/record)",
    )  # fmt: skip
    parser.add_argument(
        "--witness", metavar="SEQ:HASH", action="append", type=parse_witness, default=[],
        help="a head that a client of the one --host kept (a reply's `record`); may be repeated",
    )  # fmt: skip
    access.add_access(parser)


def run_fleet_verify(arguments: argparse.Namespace) -> int:
    """Verify the logs of all hosts, or of those that are named."""
    fleet_access = access.read_engine_access(arguments)
    if arguments.witness and len(arguments.host) != 1:
        raise CommandError(Exit.USAGE, "a witness is of one host: name that one with --host")
    local = find_local_record(arguments, fleet_access)

    async def work(engine: Engine) -> list[HostVerified]:
        return await verify_hosts(
            engine, arguments.host, fleet=fleet_access.fleet, local=local, witnesses=arguments.witness
        )

    try:
        results = access.run_with_engine(fleet_access, work)
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    if local is not None and arguments.record and all(result.host != local[0] for result in results):
        raise CommandError(Exit.NO_INPUT, f"the engine knows no host {local[0]!r}, which this machine is")
    print_verification(results, is_json=arguments.json)
    return Exit.OK if all(result.ok for result in results) else Exit.FINDINGS


def find_local_record(arguments: argparse.Namespace, fleet_access: access.EngineAccess) -> tuple[str, str] | None:
    """Return the name of this host and the folder of its record; None if it is not one of the hosts to verify."""
    settings = access.read_own_settings(arguments)
    # The machine's own [fleet] has its name, if it is about the fleet that is verified.
    host = settings.host if settings is not None and settings.name == fleet_access.fleet else None
    if arguments.record:
        if len(arguments.host) == 1:
            return arguments.host[0], arguments.record
        if host is None or arguments.host:
            raise CommandError(Exit.USAGE, "say whose record it is: name one --host")
        return host, arguments.record
    if host is None or (arguments.host and host not in arguments.host):
        return None
    folder = os.path.join(paths.state_dir(os.environ), "record")
    return (host, folder) if os.path.isdir(folder) else None


def print_verification(results: list[HostVerified], *, is_json: bool) -> None:
    is_sound = all(result.ok for result in results)
    if is_json:
        output.say_json(FleetVerified(is_sound, results, PROVES, DOES_NOT_PROVE))
        return
    for result in results:
        output.say_lines(*format_host_verification(result), width=LABELS)
        output.print_line()
    if not results:
        output.print_line("no host has reported or shipped anything")
    output.say_lines(("proves", PROVES if is_sound else f"{PROVES} (WRONG)"), width=LABELS)
    output.say_lines(*(("cannot", text) for text in DOES_NOT_PROVE), width=LABELS)


def format_host_verification(verified: HostVerified) -> Iterator[tuple[str, str]]:
    whole = f"; of {verified.whole} nothing was left out, and they match their hashes" if verified.whole else ""
    repeated = f"; {verified.repeated} more came again" if verified.repeated else ""
    yield "host", f"{verified.host}: {format_count(verified.records, 'record')}{whole}{repeated}"
    is_stranger = any(finding.what == "identity" for finding in verified.findings)
    for epoch, first, last in verified.ranges[:RANGES]:
        yield (
            "unproven" if is_stranger else "whole",
            f"{first} to {last}" + (f" (epoch {epoch})" if verified.epoch > 1 else ""),
        )
    if verified.head is not None:
        yield "head", f"{verified.head.seq}:{verified.head.hash}"
    for note in verified.notes:
        yield "note", note
    for finding in verified.findings:
        yield "WRONG", f"{finding.what}: {finding.text}"
    if verified.omitted:
        yield "WRONG", f"and {verified.omitted} more"
    if verified.local is not None:
        yield from format_local_verification(verified.local)


def format_local_verification(local: LocalReport) -> Iterator[tuple[str, str]]:
    absent = f"; {local.absent} are in the engine only" if local.absent else ""
    yield "local", f"{local.folder}: {format_count(local.compared, 'record')} compared with what was shipped{absent}"
    results = [witness["result"] for witness in local.record.witnesses]
    retired = f"; {results.count('retired')} are of records that retention has removed" if "retired" in results else ""
    yield "witness", f"{results.count('confirmed')} of {len(results)} heads that the engine has are confirmed{retired}"
    for finding in local.record.findings:
        yield "WRONG", f"local record: {finding.what}: {finding.text}"
    for text in local.differences:
        yield "WRONG", f"local record: {text}"
    if local.omitted + local.record.findings_omitted:
        yield "WRONG", f"local record: and {local.omitted + local.record.findings_omitted} more"
