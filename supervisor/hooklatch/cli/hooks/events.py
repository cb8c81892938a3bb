"""The command `events`: the events that can be fired, from the daemon or else from the standard catalogue."""

from __future__ import annotations

import argparse

from hooklatch.cli.hooks.hooks import describe_unknown_event
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.text import format_duration
from hooklatch.errors import DaemonUnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.cli.schema import EventsOutput
    from hooklatch.core.answers import EventStatus

__all__ = ["add_events"]

DROP = ("PATCH", "OUTPUTS", "TIMEOUT", "MATCH")
TITLES = ("EVENT", "MODEL", "FAILS", "VERDICTS", "OUTPUTS", "PATCH", "MATCH", "TIMEOUT", "HOOKS", "FIRED")


def add_events(parser: Parser) -> None:
    parser.runs(run_events, example="hooklatch events pre_tool_use", exits=(Exit.PROTOCOL,))
    parser.prints("cli.schema:EventsOutput")
    parser.add_argument("name", metavar="EVENT", nargs="?", help="show this one, with its fields")


def run_events(arguments: argparse.Namespace) -> int:
    try:
        with connect_administrator(arguments) as link:
            known: list[EventStatus] = link.ask("events")["events"]
        is_live = True
    except DaemonUnreachableError:
        known = [describe_event(spec) for spec in Catalogue.standard().values()]
        is_live = False
        output.print_error("no daemon is reachable: this is the standard catalogue, without events of your own")
    if arguments.name is not None:
        named = [event for event in known if event["name"] == arguments.name]
        if not named:
            raise CommandError(Exit.USAGE, describe_unknown_event(arguments.name, [event["name"] for event in known]))
        known = named
    if arguments.json:
        shown: EventsOutput = {"events": known, "live": is_live}
        output.say_json(shown)
    elif arguments.name is not None:
        show_event(known[0])
    else:
        output.say_table(TITLES, [event_row(event) for event in known], drop=DROP)
    return Exit.OK


def describe_event(spec: EventSpec) -> EventStatus:
    """Describe a standard event in the daemon's format; hooks and counts are unknown."""
    return {
        "name": spec.name, "model": spec.model, "flow": spec.flow, "view": spec.view, "combine": spec.combine,
        "verdicts": sorted(spec.verdicts), "outputs": sorted(spec.outputs), "patch": sorted(spec.patch),
        "on_refusal": spec.on_refusal, "match": spec.match, "timeout": spec.timeout, "budget": spec.timeout,
        "fails": "closed" if spec.fails_closed else "open", "when": spec.when,
        "fields": [{"name": field.name, "type": field.type} for field in spec.fields],
        "hooks": None, "fired": None, "last_fired": None, "timings": None,
    }  # fmt: skip


def event_row(event: EventStatus) -> tuple[object, ...]:
    words = (" ".join(event[key]) or None for key in ("verdicts", "outputs", "patch"))
    return (
        event["name"], event["model"], event["fails"], *words, event["match"], format_duration(event["timeout"]),
        event["hooks"], event["fired"],
    )  # fmt: skip


def show_event(event: EventStatus) -> None:
    output.print_line(f"{event['name']}: {event['when']}")
    hooks_run = "one after another" if event["flow"] == "sequential" else "all at once"
    output.say_lines(
        ("model", f"{event['model']}, hooks run {hooks_run}, fails {event['fails']}"),
        ("verdicts", " ".join(event["verdicts"])),
        ("outputs", " ".join(event["outputs"])),
        ("patch", " ".join(event["patch"])),
        ("combine", event["combine"]),
        ("match", event["match"]),
        ("timeout", f"{format_duration(event['timeout'])} a hook, {format_duration(event['budget'])} for all"),
        ("refusal", event["on_refusal"] and f"fires {event['on_refusal']}"),
        ("fired", event["fired"]),
    )
    output.print_line("fields")
    for field in event["fields"]:
        output.print_line(f"  {field['name']}: {field['type']}")
