"""hooks: lists, explains and changes registered hooks.  Queries the daemon; does not decide anything itself."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from hooklatch.cli.hooks import show
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Commands, Parser
from hooklatch.cli.terminal.requests import CommandLink, administrator
from hooklatch.cli.testing.fire import piped_payload, read_payload
from hooklatch.core.hooks.names import quoted
from hooklatch.core.text import did_you_mean

__all__ = ["add_commands"]

TITLES = (
    "LAYER", "ID", "EVENT", "MATCH", "STATE", "PRIORITY", "CALLS", "P50 MS", "P99 MS", "FAILURES", "ORIGIN", "RUNS",
    "DESCRIPTION",
)  # fmt: skip
MAX_CELL = 60  # characters of a command or description in the table; --json shows all of it


def add_commands(commands: Commands) -> None:
    parser = commands.add(
        "hooks",
        list_hooks,
        help="list hooks in firing order, or change them",
        example="hooklatch hooks --event pre_tool_use",
        exits=(Exit.NO_INPUT, Exit.UNAVAILABLE),
    )
    add_filters(parser)
    below = Commands(parser)
    listing = below.add(
        "list",
        list_hooks,
        help="list hooks in firing order, with their timings since the daemon's start",
        example="hooklatch hooks list --event pre_tool_use",
        exits=(Exit.NO_INPUT, Exit.UNAVAILABLE),
    )
    add_filters(listing)
    add_adding(below)
    show.add_showing(below)
    for name, run, help_text in (
        ("remove", remove, "remove a hook that was added; a hook that a file declares is removed in that file"),
        ("enable", enable, "enable a global hook, and lift its quarantine; kept across restarts"),
        ("disable", disable, "disable a global hook; kept across restarts"),
    ):
        one = below.add(
            name,
            run,
            help=help_text,
            example=f"hooklatch hooks {name} guards:no_force_push",
            exits=(Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED),
        )
        one.add_argument(
            "id", metavar="ID", help="its id if that is unambiguous; else its full name, such as global/ID"
        )
    explaining = below.add(
        "explain",
        explain,
        help="say which hooks would fire for a payload, in which order, and why the others would not",
        example="hooklatch hooks explain pre_tool_use < payload.json",
        exits=(Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE),
    )
    explaining.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    explaining.add_argument(
        "--payload", metavar="FILE", help="a file with a JSON object, or - (default: what is piped in, else {})"
    )
    add_session(explaining)


def add_filters(parser: Parser) -> None:
    parser.add_argument("--event", metavar="NAME", default=argparse.SUPPRESS, help="only hooks of this event")
    add_session(parser)


def add_session(parser: Parser) -> None:
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees them")


def add_adding(below: Commands) -> None:
    adding = below.add(
        "add",
        add,
        help="add a global hook, or replace one that was added; kept across restarts",
        example="hooklatch hooks add pre_tool_use --run guards.py:no_force_push --match Bash",
        exits=(Exit.BAD_DATA, Exit.UNAVAILABLE, Exit.NOT_PERMITTED),
    )
    adding.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    adding.add_argument("--run", dest="target", metavar="FILE.py:FUNCTION", required=True, help="or MODULE:FUNCTION")
    adding.add_argument("--id", help="default: FILE:FUNCTION without folder and .py")
    match = adding.add_mutually_exclusive_group()
    match.add_argument("--match", metavar="NAME", action="append", help="exactly this; may be repeated")
    match.add_argument("--match-glob", metavar="GLOB", help="such as 'mcp__*'")
    match.add_argument("--match-regex", metavar="REGEX", help="of RE2, matched in full, such as 'Edit|Write'")
    adding.add_argument(
        "--priority", metavar="N", type=int, help="0 to 1000; higher ones are asked first (default: 100)"
    )
    adding.add_argument("--timeout", metavar="TIME", type=span, help="such as 2, 90s, 2m (default: the event's)")
    adding.add_argument("--description", metavar="TEXT")
    adding.add_argument("--observe", action="store_true", help="run it and record its verdict, but do not enforce it")
    adding.add_argument("--amends", action="store_true", help="it runs first, and guards judge what it made")
    adding.add_argument("--optional", action="store_true", help="skip it if it fails, even on a gate")


def list_hooks(arguments: argparse.Namespace) -> int:
    """Show the hooks of all layers."""
    event: str | None = getattr(arguments, "event", None)
    session: str | None = getattr(arguments, "session", None)
    with administrator(arguments) as link:
        result = link.ask("hooks", event=event, session=session)
        if event is not None and not result["hooks"]:
            check_event(link, event)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    if result["hooks"]:
        output.say_table(TITLES, [row_of(hook) for hook in result["hooks"]])
    else:
        output.say("no hooks" + (f" for {event}" if event else "; `hooklatch init` writes a first one"))
    for hook in result["hooks"]:
        if hook["problem"]:
            output.say(output.plain(f"{hook['name']} is inactive: {hook['problem']}"))
        elif hook["state"] == "quarantined":
            output.say(
                output.plain(
                    f"{hook['name']} is quarantined, its worker died too often; "
                    f"fix it, then: hooklatch hooks enable {quoted(hook['name'])}"
                )
            )
    output.say(f"revision {result['revision']}")
    return Exit.OK


def row_of(hook: dict[str, Any]) -> Sequence[object]:
    marks = [mark for mark in ("amends", "observe", "optional") if hook[mark]]
    timings = hook["timings"]
    failures = ", ".join(f"{cause} {count}" for cause, count in timings["failures"].items())
    return (
        layer_of(hook), hook["id"], hook["event"], hook["match"], " ".join([hook["state"], *marks]), hook["priority"],
        timings["count"], timings["p50_ms"], timings["p99_ms"], failures or None, hook["origin"],
        shortened(hook["target"]), shortened(hook["description"]) or None,
    )  # fmt: skip


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CELL else f"{line[: MAX_CELL - 1]}…"


def layer_of(hook: dict[str, Any]) -> str:
    """Return the layer in a hook's name; with the project of a gate inherited from another session."""
    return str(hook["layer"]) + (f" {hook['project']}" if hook["project"] else "")


def check_event(link: CommandLink, event: str) -> None:
    """Reject an unknown event: an empty list would read as "no guards needed here"."""
    names = [spec["name"] for spec in link.ask("events")["events"]]
    if event not in names:
        raise CommandError(Exit.USAGE, unknown_event(event, names))


def unknown_event(event: str, names: Sequence[str]) -> str:
    return f"unknown event {event!r}{did_you_mean(event, names)} (see: hooklatch events)"


def add(arguments: argparse.Namespace) -> int:
    """Register a global hook."""
    run = absolute(arguments.target)
    definition: dict[str, object] = {
        "id": arguments.id or default_id(run),
        "event": arguments.event,
        "match": match_of(arguments),
        "run": run,
        "priority": arguments.priority,
        "timeout": arguments.timeout,
        "description": arguments.description,
        "observe": arguments.observe or None,
        "optional": arguments.optional or None,
        "amends": arguments.amends or None,
    }
    definition = {key: value for key, value in definition.items() if value is not None}
    with administrator(arguments) as link:
        result = link.ask("register", hooks=[definition], scope="global")
    report(arguments, result, f"added {' '.join(result['ids'])}")
    return Exit.OK


def absolute(run: str) -> str:
    """Return the target with an absolute path, since the daemon has another working directory."""
    place, colon, function = run.rpartition(":")
    if not place.endswith(".py") and "/" not in place:
        return run
    return os.path.abspath(os.path.expanduser(place)) + colon + function


def default_id(run: str) -> str:
    place, _, function = run.rpartition(":")
    return f"{os.path.basename(place).removesuffix('.py')}:{function}"


def match_of(arguments: argparse.Namespace) -> object:
    names: list[str] | None = arguments.match
    if names is not None:
        return names[0] if len(names) == 1 else names
    if arguments.match_glob is not None:
        return {"glob": arguments.match_glob}
    if arguments.match_regex is not None:
        return {"regex": arguments.match_regex}
    return None


def remove(arguments: argparse.Namespace) -> int:
    """Unregister a global hook; report, but do not fail, if there is none."""
    hook_id: str = arguments.id
    with administrator(arguments) as link:
        hooks = [hook for hook in link.ask("hooks")["hooks"] if hook["layer"] == "global"]
        result = link.ask("unregister", id=hook_id, scope="global")
    ids = [hook["id"] for hook in hooks]
    if hook_id in (*ids, *(hook["name"] for hook in hooks)):
        report(arguments, result, f"removed {hook_id}")
        return Exit.OK
    output.complain(f"there was no hook {hook_id!r}{did_you_mean(hook_id, ids)}")
    report(arguments, result, "nothing to remove")
    return Exit.OK


def enable(arguments: argparse.Namespace) -> int:
    """Enable a global hook."""
    return switch(arguments, "enable")


def disable(arguments: argparse.Namespace) -> int:
    """Disable a global hook."""
    return switch(arguments, "disable")


def switch(arguments: argparse.Namespace, method: str) -> int:
    with administrator(arguments) as link:
        result = link.ask(method, id=arguments.id, scope="global")
    report(arguments, result, f"{method}d {arguments.id}")
    return Exit.OK


def report(arguments: argparse.Namespace, result: dict[str, Any], text: str) -> None:
    if arguments.json:
        output.say_json(result)
    else:
        output.say(output.plain(f"{text} (revision {result['revision']})"))
    for warning in result.get("warnings", []):
        output.complain(warning)


def explain(arguments: argparse.Namespace) -> int:
    """Print which hooks would fire, and why the others would not."""
    payload = msgspec.Raw(piped_payload() if arguments.payload is None else read_payload(arguments.payload))
    with administrator(arguments) as link:
        session: str | None = getattr(arguments, "session", None)
        result = link.ask("explain", event=arguments.event, payload=payload, session=session)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    if result["refusal"]:
        output.say(output.plain(result["refusal"]))
    elif not result["fires"]:
        output.say(f"no hook would be asked about this {result['event']}")
    for place, hook in enumerate(result["fires"], 1):
        output.say(output.plain(f"{place}. {title_of(hook)}, priority {hook['priority']}, {hook['state']}"))
    for hook in result["others"]:
        output.say(output.plain(f"not {title_of(hook)}: {hook['why']}"))
    output.say(f"time for all: {result['budget']:g} s; revision {result['revision']}")
    return Exit.OK


def title_of(hook: dict[str, Any]) -> str:
    return f"{hook['name']} (match {hook['match']})"
