"""fleet log, fleet export and fleet trim: what hosts decided, as the engine has it: shown, sent on, and removed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from hooklatch.cli.fleet.access import EXITS, Access, access, add_access, publisher_name, run
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.record_filters import LOOKED_AT, add_filters, asked_names, filters_of, unknown
from hooklatch.cli.terminal.record_lines import show
from hooklatch.core.text import counted, did_you_mean, shown
from hooklatch.record.files.reading import Filters, matches, names_in

if TYPE_CHECKING:
    from hooklatch.fleet.engine.engine import Engine
    from hooklatch.fleet.sink.cursors import Cursor
    from hooklatch.fleet.sink.exporting import OtlpExporter
    from hooklatch.fleet.sink.logs import Arrival, Entry
    from hooklatch.fleet.sink.reading import FleetReader

__all__ = ["add_export", "add_hosts", "add_log", "add_otlp", "add_trim", "chosen_hosts"]

POLL = 0.5  # seconds between looks for new records
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before a batch is sent again that the receiver did not take
OTLP = (("otlp", "fleet.log", "send them as OpenTelemetry logs over OTLP/HTTP; needs hooklatch[otel]"),)


def add_hosts(parser: Parser) -> None:
    parser.add_argument("--host", metavar="NAME", action="append", default=[], help="only this host; may be repeated")


def add_log(parser: Parser) -> None:
    parser.runs(log, example="hooklatch fleet log --verdict deny --since 1h", exits=(*EXITS, Exit.FINDINGS))
    add_hosts(parser)
    add_filters(parser)
    add_access(parser)


def add_export(parser: Parser) -> None:
    parser.explain(example="hooklatch fleet export otlp --cursor ~/fleet.cursor")
    parser.add_commands(OTLP, required=True)


def add_otlp(parser: Parser) -> None:
    example = "hooklatch fleet export otlp --cursor ~/fleet.cursor --follow"
    parser.runs(export, example=example, exits=(*EXITS, Exit.FINDINGS))
    parser.add_argument(
        "--cursor", metavar="FILE", required=True, help="keeps what the receiver has; made if it is not there"
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="such as http://collector:4318/v1/logs (else OTEL_EXPORTER_OTLP_ENDPOINT)"
    )
    parser.add_argument("--follow", action="store_true", help="then send new records as they arrive, until Ctrl-C")
    add_hosts(parser)
    add_access(parser)


def add_trim(parser: Parser) -> None:
    example = 'hooklatch fleet trim --older 30d --reason "kept by the archive"'
    parser.runs(trim, example=example, exits=(*EXITS, Exit.FINDINGS))
    parser.add_argument("--older", metavar="TIME", type=span, required=True, help="what arrived longer ago: 30d")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is kept, and fleet verify shows it")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    add_hosts(parser)
    add_access(parser)


# -- log ---------------------------------------------------------------------------------------------------------------


def log(arguments: argparse.Namespace) -> int:
    """Show records of all hosts, oldest first."""
    filters = filters_of(arguments)
    reached = access(arguments)
    shown_log = ShownLog(reached, filters, arguments)
    try:
        run(reached, shown_log.show)
    except KeyboardInterrupt:
        if not arguments.follow:
            raise
    return Exit.FINDINGS if shown_log.findings else Exit.OK


class ShownLog:
    """One run of `fleet log`: what is chosen, what was shown, and what could not be read."""

    def __init__(self, reached: Access, filters: Filters, arguments: argparse.Namespace) -> None:
        self.findings = 0
        self._reached = reached
        self._filters = filters
        self._timeless = msgspec.structs.replace(filters, since=None, until=None)
        self._number: int = arguments.number
        self._hosts: list[str] = arguments.host
        self._follows: bool = arguments.follow
        self._is_json: bool = arguments.json
        self._width = 0  # of the hosts' names

    async def show(self, engine: Engine) -> None:
        from hooklatch.fleet.sink.reading import FleetReader

        hosts = await chosen_hosts(engine, self._hosts)
        self._width = max((len(host) for host in hosts), default=0)
        reader = FleetReader(engine, set(self._hosts) or None)
        if self._follows:
            await reader.mark_end()
        is_empty = True
        if self._number == 0:
            async with aclosing(reader.forwards()) as arrivals:
                async for arrival in arrivals:
                    for entry in self._matching(arrival):
                        self._show(entry)
                        is_empty = False
        else:
            for entry in await self._newest(reader):
                self._show(entry)
                is_empty = False
        if is_empty and not self._follows:
            await self._check_names(engine)
            output.complain(f"no record of the fleet {self._reached.fleet!r} matches")
        if self._follows:
            await self._follow(reader)

    async def _newest(self, reader: FleetReader) -> list[Entry]:
        found: list[Entry] = []
        async with aclosing(reader.backwards()) as arrivals:
            async for arrival in arrivals:
                found += reversed(list(self._matching(arrival)))
                if len(found) >= self._number:
                    break
        return found[: self._number][::-1]

    async def _follow(self, reader: FleetReader) -> None:
        import trio

        while output.has_reader():
            began = trio.current_time()
            async with aclosing(reader.new()) as arrivals:
                async for arrival in arrivals:
                    for entry in self._matching(arrival):
                        self._show(entry)
            await trio.sleep(max(POLL, trio.current_time() - began))  # many hosts: half of the time is theirs

    def _matching(self, arrival: Arrival) -> Iterable[Entry]:
        for finding in arrival.findings:
            self.findings += 1
            output.complain(finding.text)
        return (entry for entry in arrival.entries if self._chooses(entry))

    def _chooses(self, entry: Entry) -> bool:
        """Return whether an entry is one of those to show: a moment may be that of the record or of its arrival.

        So a host whose clock is wrong hides nothing by it.
        """
        from hooklatch.record.files.chain import timestamp

        if not matches(entry.record.document, self._timeless):
            return False
        moments = (entry.record.at, timestamp(entry.at / 1000))
        since, until = self._filters.since, self._filters.until
        return (since is None or max(moments) >= since) and (until is None or min(moments) <= until)

    def _show(self, entry: Entry) -> None:
        document = entry.document if self._is_json else entry.record.document
        show(
            document, is_json=self._is_json, is_whole=self._filters.decision_id is not None,
            of=f"{entry.host:<{self._width}} ",
        )  # fmt: skip

    async def _check_names(self, engine: Engine) -> None:
        """Reject a filter that names something no record has.

        Raises:
            CommandError: a filter does.
        """
        from hooklatch.fleet.sink.reading import FleetReader

        asked = {one: set[str]() for one in asked_names(self._filters)}
        found: set[object] = set()
        looked_at = 0
        async with aclosing(FleetReader(engine, set(self._hosts) or None).backwards()) as arrivals:
            async for arrival in arrivals:
                for entry in arrival.entries:
                    looked_at += 1
                    for one, known in asked.items():
                        if one not in found and matches(entry.record.document, one.alone):
                            found.add(one)
                        if looked_at <= LOOKED_AT:
                            known.update(names_in(entry.record.document, one.field))
        where = f"the fleet {self._reached.fleet!r}" + (f" of {', '.join(self._hosts)}" if self._hosts else "")
        for one, known in asked.items():
            error = unknown(one, known, where) if one not in found else None
            if error is not None:
                raise CommandError(
                    error.code, f"{error}; a field that hosts do not ship cannot be found ([fleet] fields)"
                )


async def chosen_hosts(engine: Engine, names: Collection[str]) -> list[str]:
    """Return the hosts that were named, or all that have a log or a report.

    Raises:
        CommandError: one that was named has neither.
    """
    known = {host async for host, _ in engine.logs()} | {report.host async for report in engine.reports()}
    for name in names:
        if name not in known:
            raise CommandError(
                Exit.NO_INPUT, f"no host {name!r} has reported or shipped anything{did_you_mean(name, known)}"
            )
    return sorted(names or known)


# -- export ------------------------------------------------------------------------------------------------------------


def export(arguments: argparse.Namespace) -> int:
    """Send records on, from where the cursor stands."""
    from hooklatch.fleet.sink.cursors import CursorError, opened_cursor
    from hooklatch.fleet.sink.exporting import ExportError, NoSdkError, opened_exporter

    reached = access(arguments)
    path = os.path.abspath(os.path.expanduser(arguments.cursor))
    try:
        with opened_cursor(path, reached.fleet) as cursor, opened_exporter(arguments.endpoint, reached.fleet) as sender:
            if cursor.is_new:
                output.complain(f"{path} is new: all that the engine has is exported")
            sent = Sending(cursor, sender, arguments)
            try:
                run(reached, sent.send)
            except KeyboardInterrupt:
                if not arguments.follow:
                    raise
            sent.report()
            return Exit.FINDINGS if sent.findings or sender.refused else Exit.OK
    except CursorError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None
    except (ExportError, NoSdkError) as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None


class Sending:
    """One run of `fleet export`."""

    def __init__(self, cursor: Cursor, exporter: OtlpExporter, arguments: argparse.Namespace) -> None:
        self.findings = 0
        self._cursor = cursor
        self._exporter = exporter
        self._hosts: list[str] = arguments.host
        self._follows: bool = arguments.follow
        self._is_json: bool = arguments.json

    async def send(self, engine: Engine) -> None:
        import trio

        from hooklatch.fleet.sink.reading import FleetReader

        await chosen_hosts(engine, self._hosts)
        reader = FleetReader(engine, set(self._hosts) or None)
        reader.resume(self._cursor.positions)
        while True:
            began = trio.current_time()
            async with aclosing(reader.new()) as arrivals:
                async for arrival in arrivals:
                    await self._deliver(arrival)
            if not self._follows:
                return
            await trio.sleep(max(POLL, trio.current_time() - began))

    async def _deliver(self, arrival: Arrival) -> None:
        import trio

        from hooklatch.fleet.sink.exporting import ExportError

        for finding in arrival.findings:
            self.findings += 1
            output.complain(finding.text)
        attempt = 0
        while True:
            try:
                await trio.to_thread.run_sync(self._exporter.export, arrival)
                break
            except ExportError as error:
                if not self._follows:
                    raise
                output.complain(str(error))
                await trio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
        self._cursor.advance((arrival.host, arrival.epoch), arrival.batch.last)

    def report(self) -> None:
        if self._exporter.refused:
            output.complain(
                f"the receiver took {counted(self._exporter.refused, 'record')} and threw them away:"
                f" {self._exporter.why_refused or 'it does not say why'}"
            )
        if self._is_json:
            output.say_json({"exported": self._exporter.exported, "refused": self._exporter.refused})
        else:
            output.say(f"exported {counted(self._exporter.exported, 'record')}")


# -- trim --------------------------------------------------------------------------------------------------------------


def trim(arguments: argparse.Namespace) -> int:
    """Remove old records from the engine, and keep a note."""
    from hooklatch.fleet.sink.trimming import Trimmed, trim_hosts

    reached = access(arguments)

    async def work(engine: Engine) -> tuple[list[tuple[str, Trimmed]], list[str]]:
        hosts = await chosen_hosts(engine, arguments.host)
        return await trim_hosts(
            engine, hosts, older=arguments.older, by=publisher_name(), reason=arguments.reason,
            is_dry=arguments.dry_run,
        )  # fmt: skip

    removed, kept = run(reached, work)
    for text in kept:
        output.complain(text)
    code = Exit.FINDINGS if kept else Exit.OK
    if arguments.json:
        output.say_json([{"host": host, **described(note)} for host, note in removed])
        return code
    would = "would be removed" if arguments.dry_run else "are removed"
    for host, note in removed:
        output.say(f"{host}: records through {note.seq} of epoch {note.epoch} {would}")
    if not removed:
        output.say(f"nothing arrived longer than {shown(arguments.older)} ago, but the newest batches, which stay")
    return code


def described(value: object) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found
