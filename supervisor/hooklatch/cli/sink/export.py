"""fleet export: what all hosts decided, sent on to another system from where a cursor stands."""

from __future__ import annotations

import argparse
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from hooklatch.cli.fleet.access import EXITS, access, add_access, run
from hooklatch.cli.sink.following import PAUSES, followed
from hooklatch.cli.sink.hosts import add_hosts, chosen_hosts
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.core.text import counted

if TYPE_CHECKING:
    from hooklatch.fleet.engine.engine import Engine
    from hooklatch.fleet.sink.cursors import Cursor
    from hooklatch.fleet.sink.exporting import OtlpExporter
    from hooklatch.fleet.sink.logs import Arrival

__all__ = ["add_export", "add_otlp"]

OTLP = (("otlp", "sink.export", "send them as OpenTelemetry logs over OTLP/HTTP; needs hooklatch[otel]"),)


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

        from hooklatch.fleet.sink.reading import FleetReader

        await chosen_hosts(engine, self._hosts)
        reader = FleetReader(engine, set(self._hosts) or None)
        reader.resume(self._cursor.positions)
        async with aclosing(followed(reader) if self._follows else reader.new()) as arrivals:
            async for arrival in arrivals:
                await self._deliver(arrival)

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
