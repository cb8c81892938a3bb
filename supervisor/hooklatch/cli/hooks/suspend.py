"""The commands `suspend`, `resume`, `trust` and `reload`: the operator's own word on what is active.

Break-glass is for a limited time and with a reason.  A project's hooks are trusted as they are now: their content is
pinned.  A reload builds the sources afresh, and prints what changed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from hooklatch.cli.hooks.status import format_diagnostic_place, format_suspension
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.cli.terminal.requests import ask_administrator, connect_administrator
from hooklatch.core.text import suggest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import ResumeAnswer, SuspendAnswer, TrustAnswer
    from hooklatch.core.status_answers import ProjectStatus, ReloadAnswer, SuspensionStatus

__all__ = ["add_resume", "add_suspend", "add_trust", "add_reload"]

EXITS = (Exit.NO_INPUT, Exit.UNAVAILABLE)


def add_suspend(parser: Parser) -> None:
    example = 'hooklatch suspend no_force_push --for 15m --reason "cleaning up the build host"'
    parser.runs(run_suspend, example=example, exits=EXITS)
    parser.prints("core.answers:SuspendAnswer")
    add_target(parser, "suspend")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", type=parse_duration, default=600.0,
        help="90s, 15m, 2h; at most 24h (default: 10m)",
    )  # fmt: skip
    parser.add_argument("--reason", metavar="TEXT", help="why; it stays in the record (default: asked for)")


def add_resume(parser: Parser) -> None:
    parser.runs(run_resume, example="hooklatch resume --all", exits=EXITS)
    parser.prints("core.answers:ResumeAnswer")
    add_target(parser, "resume")


def add_target(parser: argparse.ArgumentParser, verb: str) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    about = f"the hook or the plugin to {verb}, as for `hooks`"
    target.add_argument("id", metavar="ID", nargs="?", type=parse_target, help=about)
    target.add_argument("--all", action="store_true", help=f"{verb} every hook of every layer")


def parse_target(text: str) -> str:
    if text in ("all", "*"):  # a hook of that name has another one, with its layer
        raise argparse.ArgumentTypeError(f"{text!r} is no hook; every hook is --all")
    return text


def run_suspend(arguments: argparse.Namespace) -> int:
    reason = arguments.reason if arguments.reason is not None else ask_reason(arguments)
    result: SuspendAnswer = ask_administrator(
        arguments, "suspend", id=arguments.id, all=arguments.all, seconds=arguments.seconds, reason=reason
    )
    suspension: SuspensionStatus = {**result["suspended"], "seconds_left": arguments.seconds}
    return output.say_change(result, f"suspended {format_suspension(suspension)}", is_json=arguments.json)


def ask_reason(arguments: argparse.Namespace) -> str:
    """Return the reason that a person types, for a hook that there is; without a terminal, say what to type instead."""
    hook_id: str | None = arguments.id
    if hook_id is not None:
        ask_administrator(arguments, "hook", id=hook_id)
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        what = "--all" if hook_id is None else shlex.quote(hook_id)
        text = f'give a reason, which stays in the record: hooklatch suspend {what} --reason "…"'
        raise CommandError(Exit.USAGE, text)
    output.print_error("why is it suspended? (the answer stays in the record)")
    return sys.stdin.readline().strip()


def run_resume(arguments: argparse.Namespace) -> int:
    result: ResumeAnswer = ask_administrator(arguments, "resume", id=arguments.id, all=arguments.all)
    if not result["was_suspended"] and arguments.id is not None:
        names = [suspension["hook"] for suspension in result["suspended"] if suspension["hook"]]
        suggestion = suggest_name(arguments.id, names)
        raise CommandError(Exit.NO_INPUT, f"{arguments.id} was not suspended{suggestion}; see: hooklatch status")
    line = f"active again: {arguments.id or 'every hook'}" if result["was_suspended"] else "no hook was suspended"
    return output.say_change(result, line, is_json=arguments.json)


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
    code = Exit.FINDINGS if result.get("diagnostics") else Exit.OK
    if not arguments.revoke:
        return output.say_change(result, is_json=arguments.json, show=lambda: print_trust(result), code=code)
    text = "is not trusted any more" if result["was_trusted"] else "was not trusted"
    line = f"{result['folder']} {text} (revision {result['revision']})"
    return output.say_change(result, line, is_json=arguments.json, code=code)


def find_project_folder(named: str | None) -> str:
    try:
        folder = os.path.abspath(os.path.expanduser(named or "."))
        # Who names the folder of a project's hooks means the project.
        return os.path.dirname(folder) if os.path.basename(folder) == ".hooklatch" else folder
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
    projects: list[ProjectStatus] = ask_administrator(arguments, "status")["projects"]
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
    code = Exit.FINDINGS if result["diagnostics"] else Exit.OK
    return output.say_result(result, is_json=arguments.json, show=lambda: print_reload(result), code=code)


def print_reload(result: ReloadAnswer) -> None:
    same = result["previous"] == result["revision"]
    previous = ", nothing changed" if same else f", was {look.shorten_revision(result['previous'])}"
    output.print_line(f"revision {look.shorten_revision(result['revision'])}{previous}")
    output.say_lines(
        *((key, ", ".join(result[key])) for key in ("added", "removed", "changed")),
        *(("accepted", f"{origin} is gone") for origin in result["accepted"]),
        *(("wrong", format_diagnostic_place(diagnostic)) for diagnostic in result["diagnostics"]),
    )


def make_path_absolute(name: str | None) -> str | None:
    """Return a file's path for the daemon, which has another working directory; any other name as it is."""
    return os.path.abspath(os.path.expanduser(name)) if name is not None and name.endswith(".py") else name
