"""The command `state accept`: let the daemon use the state file that is there, or go on without one."""

from __future__ import annotations

import argparse

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.status_answers import AcceptedState

__all__ = ["add_accept", "add_state"]

BELOW = (("accept", "daemon.state", "believe what is there; this is recorded, and what it replaces is moved aside"),)


def add_state(parser: Parser) -> None:
    parser.explain(example="hooklatch state accept")
    parser.add_commands(BELOW, required=True)


def add_accept(parser: Parser) -> None:
    parser.runs(run_state_accept, example="hooklatch state accept", exits=(Exit.UNAVAILABLE,))
    parser.prints("core.status_answers:AcceptedState")


def run_state_accept(arguments: argparse.Namespace) -> int:
    """Accept the state file."""
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
