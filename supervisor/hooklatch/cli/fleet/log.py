"""The command `fleet log`: the decisions of all hosts, with the filters of `log`."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, nullcontext, suppress
from datetime import datetime

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import (
    SUGGESTION_RECORDS,
    add_filters,
    list_asked_names,
    make_unknown_name_error,
    print_record,
    read_filters,
)
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.logs import FleetLogEntry, ReceivedBatch
from hooklatch.fleet.logs.reading import FleetReader, find_leads, list_hosts
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.record.storage.reading import Filters, list_entry_values, matches_filters

__all__ = ["add_log"]


def add_log(parser: Parser) -> None:
    parser.runs(
        run_fleet_log, example="hooklatch fleet log --verdict deny --since 1h", exits=(*access.EXITS, Exit.FINDINGS)
    )
    parser.prints("fleet.logs.logs:FleetRecordLine")
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
        hosts = {*await list_hosts(engine, self._hosts), *self._hosts}
        self._width = max((len(host) for host in hosts), default=0)
        if self._newest is not None:
            self._leads = await find_leads(engine, self._hosts)
        reader = FleetReader(engine, set(self._hosts) or None, leads=self._leads)
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
            await self._check_names(engine)
            output.print_error(f"no record of the fleet {self._access.fleet!r} matches")
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
        async with aclosing(FleetReader(engine, set(self._hosts) or None).backwards()) as arrivals:
            async for arrival in arrivals:
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
