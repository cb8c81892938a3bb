"""The manual page hooklatch(1), made from the parser.  `python packaging/manual.py` writes it.

The wheel and the Debian package bring it.  tests/test_packages.py holds the file to the parser, and has groff
read it.  It has no date, so that the same commands give the same bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "supervisor"), str(ROOT / "workers")]

from hooklatch.cli.commands import COMMANDS, build_command_line  # noqa: E402 - of this tree
from hooklatch.cli.terminal.parser import Exit, Parser  # noqa: E402
from hooklatch.version import VERSION  # noqa: E402

__all__ = ["PAGE", "make_manual"]

PAGE = ROOT / "packaging" / "man" / "man1" / "hooklatch.1"
GENERAL = "options of every command"
HEAD = r""".SH NAME
hooklatch \- run the hooks of an agent in supervised workers, and fail closed
.SH SYNOPSIS
.B hooklatch
.RI [ options ]
.RI [ COMMAND ]
\&...
.SH DESCRIPTION
Agents ask a daemon before each tool call.
The daemon has your guards decide it, in warm worker processes.
If a guard crashes, hangs, returns garbage or is missing, the answer is deny.
Without a command, the state and the next step are printed.
.PP
To begin:
.B hooklatch setup
"""
FILES = (
    ("~/.config/hooklatch/hooks.toml", "the hooks of every agent on this machine"),
    ("~/.config/hooklatch/hooks.d", "guards, a file each, taken as soon as they are saved"),
    ("~/.local/state/hooklatch", "the record of decisions, and the daemon's state and log"),
)
VARIABLES = (
    ("HOOKLATCH_CONFIG", "the file of hooks"),
    ("HOOKLATCH_RUNTIME_DIR", "the folder of the sockets"),
    ("NO_COLOR, FORCE_COLOR", "no colours, or always"),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR", "where the files above are"),
)


def make_manual() -> str:
    """Return the page."""
    root = build_command_line().declared()
    parts = [
        f'.TH HOOKLATCH 1 "" "hooklatch {VERSION}" "User Commands"\n{HEAD}.SH OPTIONS\n',
        *list_options(root, True),
    ]
    parts.append(".SH COMMANDS\n")
    for title, rows in COMMANDS.items():
        parts.append(f".SS {escape(title.capitalize())}\n")
        for name, _, _ in rows:
            parts += list_command(root.commands[name].declared())
    parts.append(".SH EXIT STATUS\n")
    parts += [item(str(code.value), code.meaning) for code in Exit]
    for section, rows in (("FILES", FILES), ("ENVIRONMENT", VARIABLES)):
        parts.append(f".SH {section}\n")
        parts += [item(name, text) for name, text in rows]
    return "".join(parts)


def list_command(parser: Parser) -> Iterator[str]:
    """Yield what a command does, its usage, its options and its example; then the same of each below it."""
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    yield f".PP\n.B {escape(usage)}\n.PP\n.RS\n{escape(parser.description or '')}\n"
    yield from list_options(parser, False)
    if parser._example:
        yield f".PP\nExample:\n.B {escape(parser._example)}\n"
    yield ".RE\n"
    for below in parser.commands.values():
        yield from list_command(below.declared())


def list_options(parser: Parser, is_root: bool) -> Iterator[str]:
    for group in parser._action_groups:
        for action in group._group_actions:
            is_own = (group.title != GENERAL or is_root) and action.dest != "help"
            if is_own and action.help and action.help != argparse.SUPPRESS:
                yield item(parser._get_formatter()._format_action_invocation(action), action.help)


def item(name: str, text: str) -> str:
    return f".TP\n.B {escape(name)}\n{escape(text)}\n"


def escape(text: str) -> str:
    """Return a text as roff reads it: no line of it is a request."""
    plain = re.sub(r"[\x00-\x1f]+", " ", text).strip().replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return re.sub(r"^([.'])", r"\\&\1", plain)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(make_manual(), encoding="utf-8")
