"""The commands that take records out of the engine: `fleet export`, `fleet archive` and `fleet trim`.

`export` sends the fleet log on to another system, from the position of a cursor on.  `archive` keeps what the engine
has in files, which `--to file:///DIR` reads without an engine.  `trim` removes old records, and keeps a note of it.
"""

from __future__ import annotations

import argparse
import os
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from itertools import chain, repeat
from typing import TypedDict

import trio

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.core.text import format_count, format_duration
from hooklatch.errors import explain_error
from hooklatch.fleet.engine.archive import ArchiveWriter
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.exporting import (
    ExportCursor,
    ExportError,
    OtlpExporter,
    open_cursor,
    open_exporter,
)
from hooklatch.fleet.logs.reading import FleetReader, scan_fleet
from hooklatch.fleet.logs.trimming import ArchivedHost, TrimmedHost, archive_fleet, trim_hosts
from hooklatch.fleet.manifests import FleetError
from hooklatch.threads import in_thread

__all__ = ["add_archive", "add_export", "add_otlp", "add_trim"]

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
            with suppress(KeyboardInterrupt) if arguments.follow else nullcontext():
                access.run_with_engine(fleet_access, partial(send_records, cursor, exporter, arguments))
            if exporter.refused:
                why = exporter.why_refused or "it does not say why"
                taken = format_count(exporter.refused, "record")
                output.print_error(f"the receiver took {taken} and threw them away: {why}")
            result = ExportOutput(exported=exporter.exported, refused=exporter.refused)
            line = f"exported {format_count(exporter.exported, 'record')}"
            output.say_result(result, line, is_json=arguments.json)
            return Exit.FINDINGS if exporter.findings or exporter.refused else Exit.OK
    except FleetError as error:
        raise access.make_command_error(error) from None


class ExportOutput(TypedDict):
    """`fleet export otlp`: the number of records that the receiver took, and of those that it threw away."""

    exported: int
    refused: int


async def send_records(
    cursor: ExportCursor, exporter: OtlpExporter, arguments: argparse.Namespace, engine: Engine
) -> None:
    """Send what follows the cursor, and with --follow what arrives then."""
    await scan_fleet(engine, arguments.host, has_reports=False)
    reader = FleetReader(engine, set(arguments.host) or None)
    reader.resume(cursor.positions)
    async with aclosing(access.follow_fleet_log(reader) if arguments.follow else reader.new()) as arrivals:
        async for arrival in arrivals:
            for finding in arrival.findings:
                output.print_error(finding.text)
            for pause in chain(access.PAUSES, repeat(access.PAUSES[-1])):
                try:
                    await in_thread(exporter.export, arrival)
                    break
                except ExportError as error:
                    if not arguments.follow:
                        raise
                    output.print_error(str(error))
                    await trio.sleep(pause)
            # Only now: after a crash a batch is sent twice, and none is left out.
            cursor.advance((arrival.host, arrival.epoch), arrival.batch.last)


def add_archive(parser: Parser) -> None:
    example = "hooklatch fleet archive /var/lib/fleet-archive"
    parser.runs(run_fleet_archive, example=example, exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.logs.trimming:ArchivedHosts")
    parser.add_argument("folder", metavar="DIR", help="what is new is added there; no file in it is ever changed")
    access.add_hosts(parser)
    access.add_access(parser)


def run_fleet_archive(arguments: argparse.Namespace) -> int:
    """Copy versions, bundles, decisions and reports that are new into an archive."""
    fleet_access = access.read_engine_access(arguments)
    archive = ArchiveWriter(os.path.abspath(os.path.expanduser(arguments.folder)), fleet_access.fleet)

    async def work(engine: Engine) -> tuple[list[ArchivedHost], list[str]]:
        return await archive_fleet(engine, archive, await scan_fleet(engine, arguments.host))

    try:
        archived, findings = access.run_with_engine(fleet_access, work)
    except OSError as error:
        raise CommandError(Exit.NOT_PERMITTED, f"{archive.folder} cannot be written: {explain_error(error)}") from None
    for text in findings:
        output.print_error(text)
    lines: list[str] = []
    for log in archived:
        head = f"; keep its head elsewhere: {log.head}" if log.head is not None else ""
        lines.append(f"{log.host} (epoch {log.epoch}): {log.added} new batches{head}")
    where = f"--to file://{os.path.dirname(archive.folder)} --fleet {fleet_access.fleet}"
    output.say_result(archived, *lines, f"to read it: hooklatch fleet verify {where}", is_json=arguments.json)
    return Exit.FINDINGS if findings else Exit.OK


def add_trim(parser: Parser) -> None:
    example = 'hooklatch fleet trim --older 30d --reason "kept by the archive"'
    parser.runs(run_fleet_trim, example=example, exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.logs.trimming:TrimmedHosts")
    parser.add_argument(
        "--older", metavar="TIME", type=parse_duration, required=True, help="what arrived longer ago: 30d"
    )
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is kept, and fleet verify shows it")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    access.add_hosts(parser)
    access.add_access(parser)


def run_fleet_trim(arguments: argparse.Namespace) -> int:
    """Remove old records from the engine, and keep a note."""
    fleet_access = access.read_engine_access(arguments)

    async def work(engine: Engine) -> tuple[list[TrimmedHost], list[str]]:
        return await trim_hosts(
            engine, await scan_fleet(engine, arguments.host), older=arguments.older, by=access.find_publisher_name(),
            reason=arguments.reason, is_dry=arguments.dry_run,
        )  # fmt: skip

    removed, reasons = access.run_with_engine(fleet_access, work)  # and why the records of other hosts stay
    for text in reasons:
        output.print_error(text)
    would = "would be removed" if arguments.dry_run else "are removed"
    lines = [f"{note.host}: records through {note.seq} of epoch {note.epoch} {would}" for note in removed]
    nothing = f"nothing arrived longer than {format_duration(arguments.older)} ago, but the newest batches, which stay"
    output.say_result(removed, *(lines or [nothing]), is_json=arguments.json)
    return Exit.FINDINGS if reasons else Exit.OK
