"""The command `fleet archive`: keep what the engine has in files, which `--to file:///DIR` reads without an engine."""

from __future__ import annotations

import argparse
import os

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.errors import explain_error
from hooklatch.fleet.engine.archive import ArchiveWriter
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.archiving import ArchivedHost, archive_fleet

__all__ = ["add_archive"]


def add_archive(parser: Parser) -> None:
    example = "hooklatch fleet archive /var/lib/fleet-archive"
    parser.runs(run_fleet_archive, example=example, exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.logs.archiving:ArchivedHosts")
    parser.add_argument("folder", metavar="DIR", help="what is new is added there; no file in it is ever changed")
    access.add_hosts(parser)
    access.add_access(parser)


def run_fleet_archive(arguments: argparse.Namespace) -> int:
    """Copy versions, bundles, decisions and reports that are new into an archive."""
    fleet_access = access.read_engine_access(arguments)
    archive = ArchiveWriter(os.path.abspath(os.path.expanduser(arguments.folder)), fleet_access.fleet)

    async def work(engine: Engine) -> tuple[list[ArchivedHost], list[str]]:
        return await archive_fleet(engine, archive, await access.select_hosts(engine, arguments.host))

    try:
        archived, findings = access.run_with_engine(fleet_access, work)
    except OSError as error:
        raise CommandError(Exit.NOT_PERMITTED, f"{archive.folder} cannot be written: {explain_error(error)}") from None
    for text in findings:
        output.print_error(text)
    if arguments.json:
        output.say_json(archived)
    else:
        for log in archived:
            head = f"; keep its head elsewhere: {log.head}" if log.head is not None else ""
            output.print_line(f"{log.host} (epoch {log.epoch}): {log.added} new batches{head}")
        where = f"--to file://{os.path.dirname(archive.folder)} --fleet {fleet_access.fleet}"
        output.print_line(f"to read it: hooklatch fleet verify {where}")
    return Exit.FINDINGS if findings else Exit.OK
