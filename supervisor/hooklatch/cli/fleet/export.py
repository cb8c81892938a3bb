"""The commands `fleet export`: send the fleet log on to another system, from the position of a cursor on."""

from __future__ import annotations

import argparse
import os
from contextlib import aclosing, nullcontext, suppress
from typing import TypedDict

import trio

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.exporting import (
    CursorError,
    ExportCursor,
    ExportError,
    OtlpExporter,
    open_cursor,
    open_exporter,
)
from hooklatch.fleet.logs.logs import ReceivedBatch
from hooklatch.fleet.logs.reading import FleetReader
from hooklatch.threads import in_thread

__all__ = ["add_export", "add_otlp"]

OTLP = (("otlp", "fleet.export", "send them as OpenTelemetry logs over OTLP/HTTP; needs hooklatch[otel]"),)


def add_export(parser: Parser) -> None:
    parser.explain(example="hooklatch fleet export otlp --cursor ~/fleet.cursor")
    parser.add_commands(OTLP, required=True)


def add_otlp(parser: Parser) -> None:
    example = "hooklatch fleet export otlp --cursor ~/fleet.cursor --follow"
    parser.runs(run_fleet_export, example=example, exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("cli.fleet.export:ExportOutput")
    parser.add_argument(
        "--cursor", metavar="FILE", required=True, help="keeps what the receiver has; made if it is not there"
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="such as http://collector:4318/v1/logs (else OTEL_EXPORTER_OTLP_ENDPOINT)"
    )
    parser.add_argument("--follow", action="store_true", help="then send new records as they arrive, until Ctrl-C")
    access.add_hosts(parser)
    access.add_access(parser)


def run_fleet_export(arguments: argparse.Namespace) -> int:
    """Send records on, from the position of the cursor."""
    fleet_access = access.read_engine_access(arguments)
    path = os.path.abspath(os.path.expanduser(arguments.cursor))
    try:
        with (
            open_cursor(path, fleet_access.fleet) as cursor,
            open_exporter(arguments.endpoint, fleet_access.fleet) as exporter,
        ):
            if cursor.is_new:
                output.print_error(f"{path} is new: all that the engine has is exported")
            run = ExportRun(cursor, exporter, arguments)
            with suppress(KeyboardInterrupt) if arguments.follow else nullcontext():
                access.run_with_engine(fleet_access, run.send)
            run.report()
            return Exit.FINDINGS if run.findings or exporter.refused else Exit.OK
    except CursorError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None
    except ExportError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None


class ExportOutput(TypedDict):
    """`fleet export otlp`: the number of records that the receiver took, and of those that it threw away."""

    exported: int
    refused: int


class ExportRun:
    """One run of `fleet export`, and the number of its findings."""

    def __init__(self, cursor: ExportCursor, exporter: OtlpExporter, arguments: argparse.Namespace) -> None:
        self.findings = 0
        self._cursor = cursor
        self._exporter = exporter
        self._hosts: list[str] = arguments.host
        self._follows: bool = arguments.follow
        self._is_json: bool = arguments.json

    async def send(self, engine: Engine) -> None:

        await access.select_hosts(engine, self._hosts)
        reader = FleetReader(engine, set(self._hosts) or None)
        reader.resume(self._cursor.positions)
        async with aclosing(access.follow_fleet_log(reader) if self._follows else reader.new()) as arrivals:
            async for arrival in arrivals:
                await self._deliver(arrival)

    async def _deliver(self, arrival: ReceivedBatch) -> None:
        for finding in arrival.findings:
            self.findings += 1
            output.print_error(finding.text)
        attempt = 0
        while True:
            try:
                await in_thread(self._exporter.export, arrival)
                break
            except ExportError as error:
                if not self._follows:
                    raise
                output.print_error(str(error))
                await trio.sleep(access.PAUSES[min(attempt, len(access.PAUSES) - 1)])
                attempt += 1
        # Only now: after a crash a batch is sent twice, and none is left out.
        self._cursor.advance((arrival.host, arrival.epoch), arrival.batch.last)

    def report(self) -> None:
        if self._exporter.refused:
            output.print_error(
                f"the receiver took {format_count(self._exporter.refused, 'record')} and threw them away:"
                f" {self._exporter.why_refused or 'it does not say why'}"
            )
        if self._is_json:
            output.say_json(ExportOutput(exported=self._exporter.exported, refused=self._exporter.refused))
        else:
            output.print_line(f"exported {format_count(self._exporter.exported, 'record')}")
