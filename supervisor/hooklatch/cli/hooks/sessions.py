"""sessions: the agents that are connected.  Only queries the daemon."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.text import shown

__all__ = ["add_sessions"]

DROP = ("REVISION", "CONNECTIONS", "OWN HOOKS", "CLIENT")
TITLES = ("ID", "CLIENT", "HOST", "CWD", "CONNECTIONS", "AGE", "FIRES", "OWN HOOKS", "REVISION")


def add_sessions(parser: Parser) -> None:
    parser.runs(sessions, example="hooklatch sessions --json", exits=(Exit.UNAVAILABLE,))


def sessions(arguments: argparse.Namespace) -> int:
    """List live sessions."""
    with administrator(arguments) as link:
        result = link.ask("sessions")
    if arguments.json:
        output.say_json(result)
    elif result["sessions"]:
        output.say_table(TITLES, [row_of(session) for session in result["sessions"]], drop=DROP)
    else:
        output.say("no sessions (one-shots, such as `hooklatch fire` and the entries of hosts, open none)")
    return Exit.OK


def row_of(session: dict[str, Any]) -> tuple[object, ...]:
    return (
        session["id"], session["client"] or None, session["host"], session["cwd"], session["connections"],
        shown(time.time() - session["created_at"]), session["fires"], session["hooks"],
        look.short_revision(session["revision"]),
    )  # fmt: skip
