"""reload: has the daemon load every change of its files, and says what came of it."""

from __future__ import annotations

import argparse

from hooklatch.cli.hooks.status import place_and_text
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator

__all__ = ["add_reload"]


def add_reload(parser: Parser) -> None:
    parser.runs(reload, example="hooklatch reload", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))


def reload(arguments: argparse.Namespace) -> int:
    """Reload, and print what changed."""
    with administrator(arguments) as link, look.Working("the daemon loads its files"):
        result = link.ask("reload")
    diagnostics = result["diagnostics"]
    if arguments.json:
        output.say_json(result)
    else:
        same = result["previous"] == result["revision"]
        was = ", nothing changed" if same else f", was {look.short_revision(result['previous'])}"
        output.say(f"revision {look.short_revision(result['revision'])}{was}")
        output.say_lines(*((key, ", ".join(result[key])) for key in ("added", "removed", "changed")))
        output.say_lines(*(("wrong", place_and_text(diagnostic)) for diagnostic in diagnostics))
    return Exit.FINDINGS if diagnostics else Exit.OK
