"""trust: lets a project's own hooks run, pinned to their current content, or revokes that.  Only queries the daemon."""

from __future__ import annotations

import argparse
import os
from typing import Any

from hooklatch.cli.hooks.status import place_and_text
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator

__all__ = ["add_trust"]

TITLES = ("FOLDER", "STATE", "FILES", "HOOKS", "SESSIONS")


def add_trust(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)
    parser.runs(trust, example="hooklatch trust --list", exits=exits)
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the project (default: this folder)")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--revoke", action="store_true", help="ignore its hooks again")
    one.add_argument("--list", action="store_true", help="show what is trusted")


def trust(arguments: argparse.Namespace) -> int:
    """Trust a project, revoke that, or list what is trusted."""
    if arguments.list:
        return show_list(arguments)
    folder = folder_of(arguments.folder)
    with administrator(arguments) as link, look.Working("the daemon loads the project's files"):
        result = link.ask("untrust" if arguments.revoke else "trust", folder=folder)
    if arguments.json:
        output.say_json(result)
    elif arguments.revoke:
        text = "is not trusted any more" if result["was_trusted"] else "was not trusted"
        output.say(f"{result['folder']} {text} (revision {result['revision']})")
    else:
        show(result)
    return Exit.FINDINGS if result.get("diagnostics") else Exit.OK


def folder_of(named: str | None) -> str:
    try:
        return os.path.abspath(os.path.expanduser(named or "."))
    except OSError:  # the working directory was removed
        raise CommandError(Exit.NO_INPUT, "the current directory is gone; name a project") from None


def show(result: dict[str, Any]) -> None:
    output.say(f"trusted {result['folder']}, with these files and no others:")
    for name, digest in result["files"].items():
        output.say(f"  {digest[:12]}  {name}")
    output.say("and these hooks:" if result["hooks"] else "and no hooks")
    for hook in result["hooks"]:
        inactive = f" is inactive: {hook['problem']}" if hook["problem"] else ""
        output.say(f"  {hook['id']} on {hook['event']}{inactive}")
    for diagnostic in result["diagnostics"]:
        output.say(look.paint("wrong", "bad"), f": {place_and_text(diagnostic)}")
    output.say(f"revision {look.short_revision(result['revision'])}")


def show_list(arguments: argparse.Namespace) -> int:
    with administrator(arguments) as link:
        projects: list[dict[str, Any]] = link.ask("status")["projects"]
    if arguments.json:
        output.say_json({"projects": projects})
    elif projects:
        rows = [row_of(one) for one in output.failures_first(projects, lambda one: one["state"] == "changed")]
        output.say_table(TITLES, rows, drop=("FILES", "SESSIONS"))
    else:
        output.say("no project is trusted")
    return Exit.OK


def row_of(project: dict[str, Any]) -> tuple[object, ...]:
    hooks = ", ".join(project["hooks"]) or None
    state = project["state"]
    shown = look.paint(state, "warning") if state == "changed" else state  # pinned files that are not so any more
    return (project["folder"], shown, project["files"], hooks, project["sessions"])
