"""The command `fleet trim`: remove old records from the engine, and keep a note of it."""

from __future__ import annotations

import argparse

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import Exit, Parser, parse_duration
from hooklatch.core.text import format_duration
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.trimming import TrimmedHost, trim_hosts

__all__ = ["add_trim"]


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
        hosts = await access.select_hosts(engine, arguments.host)
        return await trim_hosts(
            engine, hosts, older=arguments.older, by=access.find_publisher_name(), reason=arguments.reason,
            is_dry=arguments.dry_run, are_named=bool(arguments.host),
        )  # fmt: skip

    removed, reasons = access.run_with_engine(fleet_access, work)  # and why the records of other hosts stay
    for text in reasons:
        output.print_error(text)
    code = Exit.FINDINGS if reasons else Exit.OK
    if arguments.json:
        output.say_json(removed)
        return code
    would = "would be removed" if arguments.dry_run else "are removed"
    for note in removed:
        output.print_line(f"{note.host}: records through {note.seq} of epoch {note.epoch} {would}")
    if not removed:
        output.print_line(
            f"nothing arrived longer than {format_duration(arguments.older)} ago, but the newest batches, which stay"
        )
    return code
