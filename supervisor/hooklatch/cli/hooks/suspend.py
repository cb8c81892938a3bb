"""suspend and resume: break-glass, for a limited time and with a reason.  Only queries the daemon."""

from __future__ import annotations

import argparse
from typing import Any

from hooklatch.cli.hooks.status import suspension_text
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.text import did_you_mean

__all__ = ["add_resume", "add_suspend"]

EXITS = (Exit.NO_INPUT, Exit.UNAVAILABLE)


def add_suspend(parser: Parser) -> None:
    example = 'hooklatch suspend guards:no_force_push --for 15m --reason "cleaning up the build host"'
    parser.runs(suspend, example=example, exits=EXITS)
    add_target(parser, "suspend")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", type=span, required=True, help="90s, 15m, 2h; at most 24h"
    )
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")


def add_resume(parser: Parser) -> None:
    parser.runs(resume, example="hooklatch resume --all", exits=EXITS)
    add_target(parser, "resume")


def add_target(parser: argparse.ArgumentParser, verb: str) -> None:
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("id", metavar="ID", nargs="?", help=f"the hook or the plugin to {verb}, as for `hooks`")
    one.add_argument("--all", action="store_true", help=f"{verb} every hook of every layer")


def suspend(arguments: argparse.Namespace) -> int:
    """Suspend a hook, a plugin or all hooks."""
    with administrator(arguments) as link:
        result: dict[str, Any] = link.ask(
            "suspend", id=arguments.id, all=arguments.all, seconds=arguments.seconds, reason=arguments.reason
        )
    if arguments.json:
        output.say_json(result)
    else:
        one = {**result["suspended"], "seconds_left": arguments.seconds}
        output.say(f"suspended {suspension_text(one)}")
        for warning in result.get("warnings", []):  # such as hooks of a fleet, which fire on
            output.complain(warning)
    return Exit.OK


def resume(arguments: argparse.Namespace) -> int:
    """End the suspension of a hook or a plugin, or all suspensions."""
    with administrator(arguments) as link:
        result = link.ask("resume", id=arguments.id, all=arguments.all)
    if not result["was_suspended"] and arguments.id is not None:
        near = did_you_mean(arguments.id, [one["hook"] for one in result["suspended"] if one["hook"]])
        raise CommandError(Exit.NO_INPUT, f"{arguments.id} was not suspended{near}; see: hooklatch status")
    if arguments.json:
        output.say_json(result)
    elif result["was_suspended"]:
        output.say(f"active again: {arguments.id or 'every hook'}")
    else:
        output.say("no hook was suspended")
    return Exit.OK
