"""The command `sessions`: the agents that are connected."""

from __future__ import annotations

import argparse
import time

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.core.text import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import CallCounts, SessionsAnswer, SessionStatus

__all__ = ["add_sessions"]

DROP = ("REVISION", "CONNECTIONS", "OWN HOOKS", "CLIENT")
TITLES = ("ID", "CLIENT", "HOST", "CWD", "CONNECTIONS", "AGE", "FIRES", "OWN HOOKS", "REVISION", "CALLS")


def add_sessions(parser: Parser) -> None:
    parser.runs(run_sessions, example="hooklatch sessions --json", exits=(Exit.UNAVAILABLE,))
    parser.prints("core.answers:SessionsAnswer")


def run_sessions(arguments: argparse.Namespace) -> int:
    with connect_administrator(arguments) as link:
        result: SessionsAnswer = link.ask("sessions")
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    if result["sessions"]:
        output.say_table(TITLES, [session_row(session) for session in result["sessions"]], drop=DROP)
    if result["reported"]:
        rows = [(each["id"], each["host"], format_calls(each["calls"])) for each in result["reported"]]
        output.say_table(("ID", "HOST", "CALLS"), rows)
    if not result["sessions"] and not result["reported"]:
        output.print_line("no sessions (one-shots, such as `hooklatch fire` and the entries of hosts, open none)")
    return Exit.OK


def session_row(session: SessionStatus) -> tuple[object, ...]:
    return (
        session["id"], session["client"] or None, session["host"], session["cwd"], session["connections"],
        format_duration(time.time() - session["created_at"]), session["fires"], session["hooks"],
        look.shorten_revision(session["revision"]), format_calls(session["calls"]) if "calls" in session else None,
    )  # fmt: skip


def format_calls(calls: CallCounts) -> str:
    """Return how many calls that ran were asked about, and what did not run as it was judged."""
    words = [f"{count} {word}" for word in ("overruled", "unasked", "altered") if (count := calls.get(word))]
    judged = "as judged" if not words else f"{calls['as_judged']} as judged"
    return ", ".join((f"{calls['asked']} of {calls['ran']} asked", judged, *words))
