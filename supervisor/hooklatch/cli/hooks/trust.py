"""The command `trust`: let a project's own hooks run, pinned to their current content, or revoke that."""

from __future__ import annotations

import argparse
import os

from hooklatch.cli.hooks.status import format_diagnostic_place
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import TrustAnswer
    from hooklatch.core.status_answers import ProjectStatus

__all__ = ["add_trust"]

TITLES = ("FOLDER", "STATE", "FILES", "HOOKS", "SESSIONS")


def add_trust(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)
    parser.runs(run_trust, example="hooklatch trust --list", exits=exits)
    parser.prints("core.answers:TrustAnswer", "core.answers:UntrustAnswer", "cli.schema:TrustedProjects")
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the project (default: this folder)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--revoke", action="store_true", help="ignore its hooks again")
    action.add_argument("--list", action="store_true", help="show what is trusted")


def run_trust(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return show_list(arguments)
    folder = find_project_folder(arguments.folder)
    with connect_administrator(arguments) as link, look.Spinner("the daemon loads the project's files"):
        result = link.ask("untrust" if arguments.revoke else "trust", folder=folder)
    if arguments.json:
        output.say_json(result)
    elif arguments.revoke:
        text = "is not trusted any more" if result["was_trusted"] else "was not trusted"
        output.print_line(f"{result['folder']} {text} (revision {result['revision']})")
    else:
        print_trust(result)
    return Exit.FINDINGS if result.get("diagnostics") else Exit.OK


def find_project_folder(named: str | None) -> str:
    try:
        return os.path.abspath(os.path.expanduser(named or "."))
    except OSError:  # the working directory was removed
        raise CommandError(Exit.NO_INPUT, "the current directory is gone; name a project") from None


def print_trust(result: TrustAnswer) -> None:
    output.print_line(f"trusted {result['folder']}, with these files and no others:")
    for name, digest in result["files"].items():
        output.print_line(f"  {digest[:12]}  {name}")
    output.print_line("and these hooks:" if result["hooks"] else "and no hooks")
    for hook in result["hooks"]:
        inactive = f" is inactive: {hook['problem']}" if hook["problem"] else ""
        output.print_line(f"  {hook['id']} on {hook['event']}{inactive}")
    for diagnostic in result["diagnostics"]:
        output.print_line(look.paint_text("wrong", "bad"), f": {format_diagnostic_place(diagnostic)}")
    output.print_line(f"revision {look.shorten_revision(result['revision'])}")


def show_list(arguments: argparse.Namespace) -> int:
    with connect_administrator(arguments) as link:
        projects: list[ProjectStatus] = link.ask("status")["projects"]
    if arguments.json:
        output.say_json({"projects": projects})
    elif projects:
        ordered = output.order_failures_first(projects, lambda project: project["state"] == "changed")
        output.say_table(TITLES, [project_row(project) for project in ordered], drop=("FILES", "SESSIONS"))
    else:
        output.print_line("no project is trusted")
    return Exit.OK


def project_row(project: ProjectStatus) -> tuple[object, ...]:
    hooks = ", ".join(project["hooks"]) or None
    state = project["state"]
    # "changed": a file is no longer as it was when it was trusted, so its hooks do not run.
    painted = look.paint_text(state, "warning") if state == "changed" else state
    return (project["folder"], painted, project["files"], hooks, project["sessions"])
