"""The commands `hooks` and `hooks list`: the hooks with their places in the firing order, faulty ones first."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Container, Sequence
from shlex import quote

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.text import suggest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import HooksAnswer, HookStatus

__all__ = ["add_hooks", "add_list", "describe_unknown_event"]

BELOW = (
    ("list", "hooks.hooks", "list hooks, what is wrong first, with their timings since the daemon's start"),
    ("add", "hooks.changes", "add a global hook, or replace one that was added; kept across restarts"),
    (
        "show", "hooks.show",
        "show one hook: where it is declared, its state, and its last failures with their tracebacks",
    ),
    (
        "remove", "hooks.changes",
        "remove a hook that was added, or all of a file that has vanished; others are removed in their file",
    ),
    ("enable", "hooks.changes", "enable a global hook, and lift its quarantine; kept across restarts"),
    ("disable", "hooks.changes", "disable a global hook; kept across restarts"),
    (
        "explain", "hooks.explain",
        "say which hooks would fire for a payload, in which order, and why the others would not",
    ),
)  # fmt: skip
TITLES = (
    "LAYER", "ID", "EVENT", "#", "MATCH", "STATE", "PRIORITY", "CALLS", "P50 MS", "P99 MS", "FAILURES", "ORIGIN",
    "RUNS", "DESCRIPTION",
)  # fmt: skip
DROP = (
    "DESCRIPTION",
    "RUNS",
    "ORIGIN",
    "PRIORITY",
    "LAYER",
    "MATCH",
    "P50 MS",
    "P99 MS",
    "CALLS",
    "#",
    "EVENT",
    "FAILURES",
)
STATES: dict[str, look.Meaning] = {"active": "good", "disabled": "quiet"}  # any other state is a fault, shown first
MAX_CELL = 60  # characters of a command or description in the table; --json shows all of it


def add_hooks(parser: Parser) -> None:
    add_listing(parser, example="hooklatch hooks --event pre_tool_use")
    parser.set_defaults(event=None, session=None)
    parser.add_commands(BELOW)


def add_list(parser: Parser) -> None:
    add_listing(parser, example="hooklatch hooks list --event pre_tool_use")


def add_listing(parser: Parser, *, example: str) -> None:
    parser.runs(list_hooks, example=example, exits=(Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.answers:HooksAnswer")
    parser.add_argument("--event", metavar="EVENT", default=argparse.SUPPRESS, help="only hooks of this event")
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees them")


def list_hooks(arguments: argparse.Namespace) -> int:
    """Show the hooks of all layers."""
    event: str | None = arguments.event
    with connect_administrator(arguments) as link:
        result: HooksAnswer = link.ask("hooks", event=event, session=arguments.session)
        gates = {spec["name"] for spec in link.ask("events")["events"] if spec["model"] == "gate"}
        if event is not None and not result["hooks"]:
            check_event(link, event)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    for hook in result["hooks"]:
        if hook["problem"]:
            output.print_line(look.paint_text(f"{hook['name']} is inactive", "bad"), f": {hook['problem']}")
        elif hook["state"] == "quarantined":
            output.print_line(
                look.paint_text(f"{hook['name']} is quarantined", "bad"),
                f", its worker died too often; fix it, then: hooklatch hooks enable {quote(hook['name'])}",
            )
    if result["hooks"]:
        numbers = number_turns(result["hooks"], gates)
        rows = [
            hook_row(hook, numbers[hook["name"]]) for hook in output.order_failures_first(result["hooks"], is_wrong)
        ]
        output.say_table(TITLES, rows, drop=DROP)
    else:
        output.print_line("no hooks" + (f" for {event}" if event else "; `hooklatch init` writes a first one"))
    output.print_line(f"revision {look.shorten_revision(result['revision'])}")
    return Exit.OK


def is_wrong(hook: HookStatus) -> bool:
    """Return whether a hook needs its operator: it is not called, or each of its last calls failed."""
    return hook["state"] not in STATES or bool(hook.get("failing"))


def number_turns(hooks: Sequence[HookStatus], gates: Container[str]) -> dict[str, int]:
    """Number the hooks of each event, from a list in firing order, in the order of their calls.

    At a gate those that amend come first, the least trusted layer's before the others': the most trusted one has the
    last word on a payload.
    """
    hooks_by_event: defaultdict[str, list[HookStatus]] = defaultdict(list)
    for hook in hooks:
        hooks_by_event[hook["event"]].append(hook)
    numbers: dict[str, int] = {}
    for event, event_hooks in hooks_by_event.items():
        layers = list(dict.fromkeys(hook["layer"] for hook in event_hooks))
        amending = [hook for hook in event_hooks if hook["amends"] and event in gates]
        amending.sort(key=lambda hook: -layers.index(hook["layer"]))
        order = [*amending, *(hook for hook in event_hooks if hook not in amending)]
        numbers |= {hook["name"]: number for number, hook in enumerate(order, 1)}
    return numbers


def hook_row(hook: HookStatus, number: int) -> Sequence[object]:
    marks = [mark for mark in ("amends", "only_judges", "observe", "optional") if hook[mark]]
    timings = hook["timings"]
    failures = ", ".join(f"{cause} {count}" for cause, count in timings["failures"].items())
    state = " ".join([hook["state"], *(["failing"] if hook.get("failing") else []), *marks])
    meaning = "bad" if is_wrong(hook) else STATES[hook["state"]]
    return (
        find_layer(hook), hook["id"], hook["event"], number, hook["match"],
        state if meaning == "good" else look.paint_text(state, meaning), hook["priority"],
        timings["count"], timings["p50_ms"], timings["p99_ms"],
        look.paint_text(failures, "bad") if failures else None, hook["origin"],
        clip_cell(hook["target"]), clip_cell(hook["description"]) or None,
    )  # fmt: skip


def clip_cell(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CELL else f"{line[: MAX_CELL - 1]}…"


def find_layer(hook: HookStatus) -> str:
    """Return the layer of a hook; with the project if it is a gate's hook that came from another session."""
    return str(hook["layer"]) + (f" {hook['project']}" if hook["project"] else "")


def check_event(link: AdminConnection, event: str) -> None:
    """Reject an unknown event: an empty list would read as "no guards needed here"."""
    names = [spec["name"] for spec in link.ask("events")["events"]]
    if event not in names:
        raise CommandError(Exit.USAGE, describe_unknown_event(event, names))


def describe_unknown_event(event: str, names: Sequence[str]) -> str:
    return f"unknown event {event!r}{suggest_name(event, names)} (see: hooklatch events)"
