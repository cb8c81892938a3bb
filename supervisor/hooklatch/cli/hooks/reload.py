"""The command `reload`: let the daemon load its files and build its sources afresh, and print what changed."""

from __future__ import annotations

import argparse
import os

from hooklatch.cli.hooks.status import format_diagnostic_place
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReloadAnswer

__all__ = ["add_reload"]


def add_reload(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.NO_INPUT, Exit.UNAVAILABLE)
    parser.runs(run_reload, example="hooklatch reload", exits=exits)
    parser.prints("core.status_answers:ReloadAnswer")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="build this source alone afresh: a hook's id, or a file's path (default: all)",
    )
    choice.add_argument("--accept-removed", action="store_true", help="remove the hooks of what has vanished")


def run_reload(arguments: argparse.Namespace) -> int:
    params = {"accept_removed": True} if arguments.accept_removed else {}
    with connect_administrator(arguments) as link, look.Spinner("the daemon loads its files"):
        result: ReloadAnswer = link.ask("reload", id=make_path_absolute(arguments.id), **params)
    diagnostics = result["diagnostics"]
    if arguments.json:
        output.say_json(result)
    else:
        same = result["previous"] == result["revision"]
        previous = ", nothing changed" if same else f", was {look.shorten_revision(result['previous'])}"
        output.print_line(f"revision {look.shorten_revision(result['revision'])}{previous}")
        output.say_lines(*((key, ", ".join(result[key])) for key in ("added", "removed", "changed")))
        output.say_lines(*(("accepted", f"{origin} is gone") for origin in result["accepted"]))
        output.say_lines(*(("wrong", format_diagnostic_place(diagnostic)) for diagnostic in diagnostics))
    return Exit.FINDINGS if diagnostics else Exit.OK


def make_path_absolute(name: str | None) -> str | None:
    """Return a file's path for the daemon, which has another working directory; any other name as it is."""
    return os.path.abspath(os.path.expanduser(name)) if name is not None and name.endswith(".py") else name
