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
from hooklatch.fleet.logs.reading import FleetReader, scan_fleet
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


class ShownLog:
    """One run of `fleet log`: its filters, and the number of findings in what it read."""

    def __init__(self, fleet_access: access.EngineAccess, filters: Filters, arguments: argparse.Namespace) -> None:
        self.findings = 0
        self._access = fleet_access
        self._filters = filters
        self._timeless = filters.but(since=None, until=None)
        # A record arrives after it was made, so what arrived before is older too: it need not be read.
        self._oldest = int(datetime.fromisoformat(filters.since).timestamp() * 1000) if filters.since is not None else 0
        self._number: int = arguments.number
        self._hosts: list[str] = arguments.host
        self._follows: bool = arguments.follow
        self._is_json: bool = arguments.json
        self._width = 0  # of the hosts' names
        self._printed = 0  # records

    async def show(self, engine: Engine) -> None:
        hosts = {*(await scan_fleet(engine, self._hosts)).hosts, *self._hosts}
        self._width = max((len(host) for host in hosts), default=0)
        reader = FleetReader(engine, set(self._hosts) or None)
        if self._follows:
            await reader.mark_end()
        if self._number == 0:
            await self._print_matching(reader.forwards(self._oldest))
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
        async with aclosing(reader.backwards(self._oldest)) as arrivals:
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

        So a host whose clock is wrong does not hide a record by it.
        """
        if not matches_filters(entry.record.document, self._timeless):
            return False
        moments = (entry.record.at, format_timestamp(entry.at / 1000))
        since, until = self._filters.since, self._filters.until
        return (since is None or max(moments) >= since) and (until is None or min(moments) <= until)

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
