"""The command `health`: the daemon's health as one word and an exit code, for health checks and scripts."""

from __future__ import annotations

import argparse
import time

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser, parse_duration
from hooklatch.cli.terminal.requests import connect_agent_once
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.status_answers import HealthAnswer

__all__ = ["add_health"]

PAUSE = 0.1  # seconds between two requests
CODES = {"ready": Exit.OK, "red": Exit.FINDINGS, "draining": Exit.UNAVAILABLE}


def add_health(parser: Parser) -> None:
    parser.runs(run_health, example="hooklatch health --wait 10", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.prints("core.status_answers:HealthAnswer")
    parser.add_argument(
        "--wait", metavar="TIME", type=parse_duration, default=0.0, help="keep asking for this long until it is"
    )


def run_health(arguments: argparse.Namespace) -> int:
    """Print the health of the daemon; return the matching exit code."""
    deadline = time.monotonic() + arguments.wait
    while True:
        try:
            with connect_agent_once(arguments) as link:
                report: HealthAnswer = link.ask("health")
            code = CODES.get(report["health"], Exit.PROTOCOL)
        except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError):
            if time.monotonic() >= deadline:
                raise
        else:
            if code is Exit.OK or time.monotonic() >= deadline:
                print_health(arguments, report)
                return code
        time.sleep(min(PAUSE, max(0.0, deadline - time.monotonic())))


def print_health(arguments: argparse.Namespace, report: HealthAnswer) -> None:
    if arguments.json:
        output.say_json(report)
        return
    reasons = f": {', '.join(report['reasons'])} (see: hooklatch status)" if report["reasons"] else ""
    output.print_line(look.paint_text(report["health"], "good" if report["health"] == "ready" else "bad"), reasons)
