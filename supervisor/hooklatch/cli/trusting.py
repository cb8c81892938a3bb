"""trust: let a project's own hooks run, pinned as they are now, or stop that.  Asks the daemon; runs nothing itself."""

from __future__ import annotations

import argparse
import os
from typing import Any

from hooklatch.cli import terminal
from hooklatch.cli.exits import CommandError, Exit
from hooklatch.cli.parser import Commands
from hooklatch.cli.reporting import place_and_text
from hooklatch.cli.requests import administrator

__all__ = ["add_commands"]

TITLES = ("FOLDER", "STATE", "FILES", "HOOKS", "SESSIONS")


def add_commands(commands: Commands) -> None:
    parser = commands.add(
        "trust",
        trust,
        help="let the hooks in a project's .hooklatch folder run, exactly as they are now",
        example="hooklatch trust --list",
        exits=(Exit.FINDINGS, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED),
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the project (default: this folder)")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--revoke", action="store_true", help="ignore its hooks again")
    one.add_argument("--list", action="store_true", help="show what is trusted")


def trust(arguments: argparse.Namespace) -> int:
    """Trust a project, revoke that, or list what is trusted."""
    if arguments.list:
        return show_list(arguments)
    folder = folder_of(arguments.folder)
    with administrator(arguments) as link:
        result = link.ask("untrust" if arguments.revoke else "trust", folder=folder)
    if arguments.json:
        terminal.say_json(result)
    elif arguments.revoke:
        text = "is not trusted any more" if result["was_trusted"] else "was not trusted"
        terminal.say(terminal.plain(f"{result['folder']} {text} (revision {result['revision']})"))
    else:
        show(result)
    return Exit.FINDINGS if result.get("diagnostics") else Exit.OK


def folder_of(named: str | None) -> str:
    try:
        return os.path.abspath(os.path.expanduser(named or "."))
    except OSError:  # this folder was removed
        raise CommandError(Exit.NO_INPUT, "this folder is gone; name another one") from None


def show(result: dict[str, Any]) -> None:
    terminal.say(terminal.plain(f"trusted {result['folder']}, with these files and no others:"))
    for name, digest in result["files"].items():
        terminal.say(terminal.plain(f"  {digest[:12]}  {name}"))
    terminal.say("and these hooks:" if result["hooks"] else "and no hooks")
    for hook in result["hooks"]:
        inactive = f" is inactive: {hook['problem']}" if hook["problem"] else ""
        terminal.say(terminal.plain(f"  {hook['id']} on {hook['event']}{inactive}"))
    for diagnostic in result["diagnostics"]:
        terminal.say(terminal.plain(f"wrong: {place_and_text(diagnostic)}"))
    terminal.say(f"revision {result['revision']}")


def show_list(arguments: argparse.Namespace) -> int:
    with administrator(arguments) as link:
        projects: list[dict[str, Any]] = link.ask("status")["projects"]
    if arguments.json:
        terminal.say_json({"projects": projects})
    elif projects:
        terminal.say_table(TITLES, [row_of(project) for project in projects])
    else:
        terminal.say("no project is trusted")
    return Exit.OK


def row_of(project: dict[str, Any]) -> tuple[object, ...]:
    hooks = ", ".join(project["hooks"]) or None
    return (project["folder"], project["state"], project["files"], hooks, project["sessions"])
