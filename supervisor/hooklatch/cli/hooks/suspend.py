"""The commands `suspend` and `resume`: break-glass, for a limited time and with a reason."""

from __future__ import annotations

import argparse

from hooklatch.cli.hooks.status import format_suspension
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser, parse_duration
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.core.text import suggest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import ResumeAnswer, SuspendAnswer
    from hooklatch.core.status_answers import SuspensionStatus

__all__ = ["add_resume", "add_suspend"]

EXITS = (Exit.NO_INPUT, Exit.UNAVAILABLE)


def add_suspend(parser: Parser) -> None:
    example = 'hooklatch suspend guards:no_force_push --for 15m --reason "cleaning up the build host"'
    parser.runs(run_suspend, example=example, exits=EXITS)
    parser.prints("core.answers:SuspendAnswer")
    add_target(parser, "suspend")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", type=parse_duration, required=True, help="90s, 15m, 2h; at most 24h"
    )
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")


def add_resume(parser: Parser) -> None:
    parser.runs(run_resume, example="hooklatch resume --all", exits=EXITS)
    parser.prints("core.answers:ResumeAnswer")
    add_target(parser, "resume")


def add_target(parser: argparse.ArgumentParser, verb: str) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("id", metavar="ID", nargs="?", help=f"the hook or the plugin to {verb}, as for `hooks`")
    target.add_argument("--all", action="store_true", help=f"{verb} every hook of every layer")


def run_suspend(arguments: argparse.Namespace) -> int:
    with connect_administrator(arguments) as link:
        result: SuspendAnswer = link.ask(
            "suspend", id=arguments.id, all=arguments.all, seconds=arguments.seconds, reason=arguments.reason
        )
    if arguments.json:
        output.say_json(result)
    else:
        suspension: SuspensionStatus = {**result["suspended"], "seconds_left": arguments.seconds}
        output.print_line(f"suspended {format_suspension(suspension)}")
        for warning in result.get("warnings", []):  # such as hooks of a fleet, which fire on
            output.print_error(warning)
    return Exit.OK


def run_resume(arguments: argparse.Namespace) -> int:
    with connect_administrator(arguments) as link:
        result: ResumeAnswer = link.ask("resume", id=arguments.id, all=arguments.all)
    if not result["was_suspended"] and arguments.id is not None:
        names = [suspension["hook"] for suspension in result["suspended"] if suspension["hook"]]
        suggestion = suggest_name(arguments.id, names)
        raise CommandError(Exit.NO_INPUT, f"{arguments.id} was not suspended{suggestion}; see: hooklatch status")
    if arguments.json:
        output.say_json(result)
    elif result["was_suspended"]:
        output.print_line(f"active again: {arguments.id or 'every hook'}")
    else:
        output.print_line("no hook was suspended")
    return Exit.OK
