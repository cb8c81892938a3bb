"""health: whether the daemon is ready, as one word and an exit code, for health checks and scripts."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.durations import parse_duration
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_agent_once
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError

__all__ = ["add_health"]

PAUSE = 0.1  # seconds between two requests
CODES = {"ready": Exit.OK, "red": Exit.FINDINGS, "draining": Exit.UNAVAILABLE}


def add_health(parser: Parser) -> None:
    parser.runs(run_health, example="hooklatch health --wait 10", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.add_argument(
        "--wait", metavar="TIME", type=parse_duration, default=0.0, help="keep asking for this long until it is"
    )


def run_health(arguments: argparse.Namespace) -> int:
    """Print the health of the daemon; return the matching exit code."""
    deadline = time.monotonic() + arguments.wait
    while True:
        try:
            with connect_agent_once(arguments) as link:
                found = link.ask("health")
            code = CODES.get(found["health"], Exit.PROTOCOL)
        except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError):
            if time.monotonic() >= deadline:
                raise
        else:
            if code is Exit.OK or time.monotonic() >= deadline:
                print_health(arguments, found)
                return code
        time.sleep(min(PAUSE, max(0.0, deadline - time.monotonic())))


def print_health(arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    if arguments.json:
        output.say_json(found)
        return
    why = f": {', '.join(found['reasons'])} (see: hooklatch status)" if found["reasons"] else ""
    output.print_line(look.paint_text(found["health"], "good" if found["health"] == "ready" else "bad"), why)
