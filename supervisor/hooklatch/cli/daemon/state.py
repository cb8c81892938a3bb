"""The commands `state accept` and `fleet reset`: let the daemon use a state, or fleet's versions, that it refuses."""

from __future__ import annotations

import argparse

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.status_answers import AcceptedState, FleetReportAnswer

__all__ = ["add_accept", "add_state", "add_reset"]

BELOW = (("accept", "daemon.state", "believe what is there; this is recorded, and what it replaces is moved aside"),)


def add_state(parser: Parser) -> None:
    parser.explain(example="hooklatch state accept")
    parser.add_commands(BELOW, required=True)


def add_accept(parser: Parser) -> None:
    parser.runs(run_state_accept, example="hooklatch state accept", exits=(Exit.UNAVAILABLE,))
    parser.prints("core.status_answers:AcceptedState")


def run_state_accept(arguments: argparse.Namespace) -> int:
    with connect_administrator(arguments) as link, look.Spinner("the daemon loads what is there"):
        result: AcceptedState = link.ask("accept_state")
    if arguments.json:
        output.say_json(result)
    elif result["fault"] is None:
        output.print_line("the state is the one that was written last; there is nothing to accept")
    else:
        copy = f"; a copy is in {result['moved_to']}" if result["moved_to"] is not None else ""
        output.print_line(
            f"the state is accepted as it is{copy} (revision {look.shorten_revision(result['revision'])})"
        )
    for warning in result.get("warnings", []):
        output.print_error(warning)
    return Exit.OK


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
