"""fleet trim: removes old records from the engine, and keeps a note of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hooklatch.cli.fleet.access import EXITS, access, add_access, publisher_name, run
from hooklatch.cli.sink.hosts import add_hosts, chosen_hosts, described
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.core.text import shown

if TYPE_CHECKING:
    from hooklatch.fleet.engine.engine import Engine
    from hooklatch.fleet.sink.trimming import Trimmed

__all__ = ["add_trim"]


def add_trim(parser: Parser) -> None:
    example = 'hooklatch fleet trim --older 30d --reason "kept by the archive"'
    parser.runs(trim, example=example, exits=(*EXITS, Exit.FINDINGS))
    parser.add_argument("--older", metavar="TIME", type=span, required=True, help="what arrived longer ago: 30d")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is kept, and fleet verify shows it")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    add_hosts(parser)
    add_access(parser)


def trim(arguments: argparse.Namespace) -> int:
    """Remove old records from the engine, and keep a note."""
    from hooklatch.fleet.sink.trimming import trim_hosts

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
