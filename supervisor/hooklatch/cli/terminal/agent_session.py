"""The session of the agent in which a command runs: which guards judge it, and what they decided.

For /why, /guards and the status line of agents, which show the output of a command, and an error in place of it. So
nothing here is an error: what cannot be known is one line of text.
"""

from __future__ import annotations

import os

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.requests import NobodyListensError, connect_administrator
from hooklatch.errors import HooklatchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from hooklatch.cli.terminal.parser import Parser
    from hooklatch.client.admin import AdminConnection
    from hooklatch.core.answers import HookStatus
    from hooklatch.core.status_answers import ProjectStatus, StatusAnswer

__all__ = [
    "AWAY", "SessionInfo", "add_session", "format_status_line", "look_at_session", "read_refusals",
    "read_session",
]  # fmt: skip

AWAY = "hooklatch: no daemon; gates are refused"
UNKNOWN = "hooklatch: the daemon cannot be asked; see: hooklatch status"
VARIABLE = "CLAUDE_CODE_SESSION_ID"  # of all that Claude Code starts, its status line and the commands of /why included
GEMINI = "GEMINI_CLI"  # of all that Gemini CLI starts, which names no session
CANARY = "hooklatch-doctor"  # the session of doctor's calls
REFUSALS = ("deny", "halt")
DECISIONS = ("decision", "abandoned")


class SessionInfo:
    """A session as a daemon knows it: its id, None if nothing was decided here yet, and the names of its guards."""

    def __init__(self, session: str | None, guards: list[str], status: StatusAnswer) -> None:
        self.session, self.guards = session, guards
        self.folder: str = status["record"]["folder"]
        self.is_red = status["health"] != "green" or status["draining"]


def add_session(parser: Parser) -> None:
    parser.add_argument(
        "--session", metavar="ID", nargs="?", const="", default=None,
        help="of this session; without an ID that of the agent that runs this command, else the newest in this folder",
    )  # fmt: skip


def look_at_session(arguments: argparse.Namespace) -> SessionInfo | None:
    """Return the session that the options name; without a daemon, print that in a line.

    From here on an @ is printed as an escape where no terminal is: Claude Code reads the file whose name follows one.

    Raises:
        HooklatchError: there is no daemon, and JSON is wanted.
    """
    output.escape_mentions()
    try:
        with connect_administrator(arguments) as link:
            status: StatusAnswer = link.ask("status")
            guards = list_guards(link, status["projects"])
        named: str | None = arguments.session or os.environ.get(VARIABLE)
        return SessionInfo(named or find_newest_session(status["record"]["folder"]), guards, status)
    except (HooklatchError, OSError) as error:  # the current folder may be gone
        if arguments.json:
            raise
        output.print_line(AWAY if isinstance(error, NobodyListensError) else UNKNOWN)
        return None


def list_guards(link: AdminConnection, projects: Iterable[ProjectStatus]) -> list[str]:
    """Return the names of the hooks that can refuse something in this folder, in firing order."""
    hooks: list[HookStatus] = link.ask("hooks")["hooks"]
    gates = {spec["name"] for spec in link.ask("events")["events"] if spec["model"] == "gate"}
    here = f"{os.getcwd()}/"
    above = [project for project in projects if here.startswith(f"{project['folder'].rstrip('/')}/")]
    project = max(above, key=lambda project: len(project["folder"]), default=None)
    for name in project["hooks"] if project is not None else ():
        hooks += link.ask("hook", id=name)["hooks"]
    return list(dict.fromkeys(hook["name"] for hook in hooks if hook["enabled"] and hook["event"] in gates))


def find_newest_session(folder: str) -> str | None:
    """Return the session in which the last decision about an agent in this folder was made."""
    from hooklatch.record.storage.reading import Filters, NoRecordError, read_newest  # `status` alone reads no record

    filters = Filters(project=os.getcwd(), agent="gemini" if os.environ.get(GEMINI) else None)
    try:
        sessions = (record.get("session") for record in read_newest(folder, filters))
        return next((name for name in sessions if isinstance(name, str) and name != CANARY), None)
    except (NoRecordError, OSError):
        return None


def read_refusals(known: SessionInfo) -> Iterator[dict[str, Any]]:
    """Yield what was refused in the session, the newest first."""
    for _, record in read_session(known, [f'"verdict":"{word}"'.encode() for word in REFUSALS]):
        if record.get("kind") in DECISIONS and record.get("verdict") in REFUSALS:
            yield record


def read_session(known: SessionInfo, words: Sequence[bytes] = (b"",)) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the entries of the record about the session with one of these words, as lines and read, newest first."""
    from hooklatch.core.light_json import parse_own_object, quote_unicode  # as above
    from hooklatch.record.storage.reading import NoRecordError, read_backwards

    if known.session is None:
        return
    needle = f'"session":{quote_unicode(known.session)}'.encode(errors="replace")
    try:
        for line in read_backwards(known.folder, [needle]):
            if needle in line and any(word in line for word in words):
                record = parse_own_object(line)
                if record is not None and record.get("session") == known.session:  # a payload may have such a key too
                    yield line, record
    except (NoRecordError, OSError):
        return


def format_status_line(known: SessionInfo) -> str:
    """Return the session in one line."""
    from hooklatch.core.text import format_count

    refused = sum(1 for _ in read_refusals(known))
    red = "; it is red: hooklatch status" if known.is_red else ""
    return f"hooklatch: {format_count(len(known.guards), 'guard')}, {refused} refused{red}"
