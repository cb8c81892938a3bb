"""The commands `hooks add`, `remove`, `enable` and `disable`: changes of the global hooks."""

from __future__ import annotations

import argparse
import os

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser, parse_duration
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.core.text import suggest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import ChangeAnswer

__all__ = ["add_add", "add_disable", "add_enable", "add_remove"]

EXITS = (Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)


def add_add(parser: Parser) -> None:
    example = "hooklatch hooks add pre_tool_use --run guards.py:no_force_push --match Bash"
    parser.runs(run_hooks_add, example=example, exits=(Exit.BAD_DATA, Exit.UNAVAILABLE, Exit.NOT_PERMITTED))
    parser.prints("core.answers:ChangeAnswer")
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument("--run", dest="target", metavar="FILE.py:FUNCTION", required=True, help="or MODULE:FUNCTION")
    parser.add_argument("--id", help="default: FILE:FUNCTION without folder and .py")
    match = parser.add_mutually_exclusive_group()
    match.add_argument("--match", metavar="NAME", action="append", help="exactly this; may be repeated")
    match.add_argument("--match-glob", metavar="GLOB", help="such as 'mcp__*'")
    match.add_argument("--match-regex", metavar="REGEX", help="of RE2, matched in full, such as 'Edit|Write'")
    parser.add_argument(
        "--priority", metavar="N", type=int, help="0 to 1000; higher ones are asked first (default: 100)"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", type=parse_duration, help="such as 2, 90s, 2m (default: the event's)"
    )
    parser.add_argument("--description", metavar="TEXT")
    parser.add_argument("--observe", action="store_true", help="run it and record its verdict, but do not enforce it")
    parser.add_argument("--amends", action="store_true", help="it runs first, and guards judge what it made")
    parser.add_argument(
        "--only-judges", action="store_true", help="it changes nothing: such guards run at the same time"
    )
    parser.add_argument("--optional", action="store_true", help="skip it if it fails, even on a gate")


def add_remove(parser: Parser) -> None:
    parser.runs(run_hooks_remove, example="hooklatch hooks remove guards:no_force_push", exits=EXITS)
    parser.prints("core.answers:ChangeAnswer")
    add_id(parser)


def add_enable(parser: Parser) -> None:
    parser.runs(run_hooks_switch, example="hooklatch hooks enable guards:no_force_push", exits=EXITS)
    parser.prints("core.answers:ChangeAnswer")
    add_id(parser)


def add_disable(parser: Parser) -> None:
    parser.runs(run_hooks_switch, example="hooklatch hooks disable guards:no_force_push", exits=EXITS)
    parser.prints("core.answers:ChangeAnswer")
    add_id(parser)


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="its id if that is unambiguous; else its full name, such as global/ID")


def run_hooks_add(arguments: argparse.Namespace) -> int:
    """Register a global hook."""
    run = make_target_absolute(arguments.target)
    definition: dict[str, object] = {
        "id": arguments.id or derive_target_id(run),
        "event": arguments.event,
        "match": read_match(arguments),
        "run": run,
        "priority": arguments.priority,
        "timeout": arguments.timeout,
        "description": arguments.description,
        "observe": arguments.observe or None,
        "optional": arguments.optional or None,
        "amends": arguments.amends or None,
        "only_judges": arguments.only_judges or None,
    }
    definition = {key: value for key, value in definition.items() if value is not None}
    with connect_administrator(arguments) as link:
        result: ChangeAnswer = link.ask("register", hooks=[definition], scope="global")
    print_change(arguments, result, f"added {' '.join(filter(None, result.get('ids', [])))}")
    return Exit.OK


def make_target_absolute(run: str) -> str:
    """Return the target with an absolute path, since the daemon has another working directory."""
    source, colon, function = run.rpartition(":")
    if not source.endswith(".py") and "/" not in source:
        return run  # a module
    return os.path.abspath(os.path.expanduser(source)) + colon + function


def derive_target_id(run: str) -> str:
    source, _, function = run.rpartition(":")
    return f"{os.path.basename(source).removesuffix('.py')}:{function}"


def read_match(arguments: argparse.Namespace) -> object:
    names: list[str] | None = arguments.match
    if names is not None:
        return names[0] if len(names) == 1 else names
    if arguments.match_glob is not None:
        return {"glob": arguments.match_glob}
    if arguments.match_regex is not None:
        return {"regex": arguments.match_regex}
    return None


def run_hooks_remove(arguments: argparse.Namespace) -> int:
    """Remove a global hook, or all hooks of a file or plugin that has vanished.

    If there is none, report that and succeed, so that a script may run twice.
    """
    hook_id: str = arguments.id
    with connect_administrator(arguments) as link:
        result: ChangeAnswer = link.ask("unregister", id=hook_id, scope="global")
        removed, accepted = result.get("removed", []), result.get("accepted", [])
        if removed or accepted:
            gone = "".join(f"; {origin} is gone" for origin in accepted)
            print_change(arguments, result, f"removed {', '.join(removed)}{gone}")
            return Exit.OK
        ids = [hook["id"] for hook in link.ask("hooks")["hooks"] if hook["layer"] == "global"]
    output.print_error(f"there was no hook {hook_id!r}{suggest_name(hook_id, ids)}")
    print_change(arguments, result, "nothing to remove")
    return Exit.OK


def run_hooks_switch(arguments: argparse.Namespace) -> int:
    """Enable or disable a global hook."""
    method: str = arguments.command
    with connect_administrator(arguments) as link:
        result: ChangeAnswer = link.ask(method, id=arguments.id, scope="global")
    print_change(arguments, result, f"{method}d {arguments.id}")
    return Exit.OK


def print_change(arguments: argparse.Namespace, result: ChangeAnswer, text: str) -> None:
    if arguments.json:
        output.say_json(result)
    else:
        output.print_line(f"{text} (revision {look.shorten_revision(result['revision'])})")
    for warning in result.get("warnings", []):
        output.print_error(warning)
