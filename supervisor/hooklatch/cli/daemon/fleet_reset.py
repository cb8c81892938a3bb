"""The command `fleet reset`: let this host follow its fleet's versions from the first one again.

It asks the daemon and not the engine.
"""

from __future__ import annotations

import argparse

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.status_answers import FleetReportAnswer

__all__ = ["add_reset"]


def add_reset(parser: Parser) -> None:
    example = 'hooklatch fleet reset --reason "the engine was set up anew on Monday"'
    parser.runs(run_fleet_reset, example=example, exits=(Exit.UNAVAILABLE, Exit.NOT_PERMITTED))
    parser.prints("core.status_answers:FleetReportAnswer")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")


def run_fleet_reset(arguments: argparse.Namespace) -> int:
    """Have the daemon forget which versions it has read; the active one stays."""
    with connect_administrator(arguments) as link:
        result: FleetReportAnswer = link.ask("fleet_reset", reason=arguments.reason)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    applied = result["applied"]
    active = f"version {applied['version']} stays active" if applied is not None else "no version is active"
    output.print_line(f"this host follows from version 1 again; {active} until the link brings the one that is wanted")
    if result["problem"] is not None:
        output.print_error(result["problem"])
    return Exit.OK
