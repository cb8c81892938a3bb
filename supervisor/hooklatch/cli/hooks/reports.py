"""events, reload, sessions and status: the daemon's reports, formatted for people.  Only reload changes anything."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from hooklatch.cli.hooks.hooks import unknown_event
from hooklatch.cli.terminal import durations, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.last_signs import NobodyListensError
from hooklatch.cli.terminal.parser import Commands
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.hooks.names import quoted
from hooklatch.core.text import counted
from hooklatch.errors import DaemonUnreachableError

__all__ = ["add_commands", "failing_text", "place_and_text", "suspension_text"]

EVENT_TITLES = ("EVENT", "MODEL", "FAILS", "VERDICTS", "OUTPUTS", "PATCH", "MATCH", "TIMEOUT", "HOOKS", "FIRED")
SESSION_TITLES = ("ID", "CLIENT", "HOST", "CWD", "CONNECTIONS", "AGE", "FIRES", "OWN HOOKS", "REVISION")


def add_commands(commands: Commands) -> None:
    listing = commands.add(
        "events",
        events,
        help="list the events that can be fired; without a daemon, the standard ones",
        example="hooklatch events pre_tool_use",
        exits=(Exit.PROTOCOL,),
    )
    listing.add_argument("name", metavar="NAME", nargs="?", help="show this one, with its fields")
    commands.add(
        "reload",
        reload,
        help="have the daemon load every change of its files now, including files that are gone or empty",
        example="hooklatch reload",
        exits=(Exit.FINDINGS, Exit.UNAVAILABLE),
    )
    commands.add(
        "sessions",
        sessions,
        help="list the agents that are connected",
        example="hooklatch sessions --json",
        exits=(Exit.UNAVAILABLE,),
    )
    status_parser = commands.add(
        "status",
        status,
        help="say whether all is well, and what to do if it is not",
        example="hooklatch status",
        exits=(Exit.FINDINGS, Exit.UNAVAILABLE),
    )
    status_parser.add_argument(
        "--tree", action="store_true", help="show the daemon's own parts: their supervisors and restarts"
    )


def events(arguments: argparse.Namespace) -> int:
    """Show the catalogue, or one event."""
    try:
        with administrator(arguments) as link:
            known: list[dict[str, Any]] = link.ask("events")["events"]
        is_live = True
    except DaemonUnreachableError:
        known = [described(spec) for spec in Catalogue.standard().values()]
        is_live = False
        output.complain("no daemon is reachable: this is the standard catalogue, without events of your own")
    if arguments.name is not None:
        named = [event for event in known if event["name"] == arguments.name]
        if not named:
            raise CommandError(Exit.USAGE, unknown_event(arguments.name, [event["name"] for event in known]))
        known = named
    if arguments.json:
        output.say_json({"events": known, "live": is_live})
    elif arguments.name is not None:
        show_event(known[0])
    else:
        output.say_table(EVENT_TITLES, [row_of(event) for event in known])
    return Exit.OK


def described(spec: EventSpec) -> dict[str, Any]:
    """Describe a standard event in the daemon's format; hooks and counts are unknown."""
    return {
        "name": spec.name, "model": spec.model, "flow": spec.flow, "view": spec.view, "combine": spec.combine,
        "verdicts": sorted(spec.verdicts), "outputs": sorted(spec.outputs), "patch": sorted(spec.patch),
        "on_refusal": spec.on_refusal, "match": spec.match, "timeout": spec.timeout, "budget": spec.timeout,
        "fails": "closed" if spec.fails_closed else "open", "when": spec.when,
        "fields": [{"name": field.name, "type": field.type} for field in spec.fields],
        "hooks": None, "fired": None, "last_fired": None, "timings": None,
    }  # fmt: skip


def row_of(event: dict[str, Any]) -> tuple[object, ...]:
    words = (" ".join(event[key]) or None for key in ("verdicts", "outputs", "patch"))
    return (
        event["name"], event["model"], event["fails"], *words, event["match"], f"{event['timeout']:g} s",
        event["hooks"], event["fired"],
    )  # fmt: skip


def show_event(event: dict[str, Any]) -> None:
    output.say(output.plain(f"{event['name']}: {event['when']}"))
    hooks_run = "one after another" if event["flow"] == "sequential" else "all at once"
    show(
        ("model", f"{event['model']}, hooks run {hooks_run}, fails {event['fails']}"),
        ("verdicts", " ".join(event["verdicts"])),
        ("outputs", " ".join(event["outputs"])),
        ("patch", " ".join(event["patch"])),
        ("combine", event["combine"]),
        ("match", event["match"]),
        ("timeout", f"{event['timeout']:g} s a hook, {event['budget']:g} s for all"),
        ("refusal", event["on_refusal"] and f"fires {event['on_refusal']}"),
        ("fired", event["fired"]),
    )
    output.say("fields")
    for field in event["fields"]:
        output.say(output.plain(f"  {field['name']}: {field['type']}"))


def show(*lines: tuple[str, object]) -> None:
    for label, value in lines:
        if value not in (None, ""):
            output.say(f"{label:<12}{output.plain(str(value))}")


def reload(arguments: argparse.Namespace) -> int:
    """Reload, and print what changed."""
    with administrator(arguments) as link:
        result = link.ask("reload")
    diagnostics = result["diagnostics"]
    if arguments.json:
        output.say_json(result)
    else:
        same = result["previous"] == result["revision"]
        output.say(f"revision {result['revision']}" + (", nothing changed" if same else f", was {result['previous']}"))
        show(*((key, ", ".join(result[key])) for key in ("added", "removed", "changed")))
        show(*(("wrong", place_and_text(diagnostic)) for diagnostic in diagnostics))
    return Exit.FINDINGS if diagnostics else Exit.OK


def place_and_text(diagnostic: dict[str, Any]) -> str:
    if not diagnostic["line"] and diagnostic["message"].startswith(diagnostic["file"]):
        return str(diagnostic["message"])  # it already starts with its file
    line = f":{diagnostic['line']}" if diagnostic["line"] else ""
    return f"{diagnostic['file']}{line}: {diagnostic['message']}"


def sessions(arguments: argparse.Namespace) -> int:
    """List live sessions."""
    with administrator(arguments) as link:
        result = link.ask("sessions")
    if arguments.json:
        output.say_json(result)
    elif result["sessions"]:
        output.say_table(SESSION_TITLES, [session_row(session) for session in result["sessions"]])
    else:
        output.say("no sessions (one-shots, such as `hooklatch fire` and `hooklatch hook`, open none)")
    return Exit.OK


def session_row(session: dict[str, Any]) -> tuple[object, ...]:
    return (
        session["id"], session["client"] or None, session["host"], session["cwd"], session["connections"],
        durations.shown(time.time() - session["created_at"]), session["fires"], session["hooks"], session["revision"],
    )  # fmt: skip


def status(arguments: argparse.Namespace) -> int:
    """Print the daemon's status, or how the last one ended."""
    try:
        with administrator(arguments) as link:
            result = link.ask("status")
    except NobodyListensError as error:
        return status_of_none(arguments, error)
    loaded = result["places"]["config"]
    if arguments.config is not None and os.path.realpath(arguments.config) != os.path.realpath(loaded):
        output.complain(f"this daemon reads {loaded}, not {arguments.config}; name its folder with --runtime-dir")
    if arguments.tree:
        if arguments.json:
            output.say_json({"health": result["health"], "tree": result["tree"]})
        else:
            show_tree(result["tree"])
    elif arguments.json:
        output.say_json(result)
    else:
        show_status(result)
    return Exit.OK if result["health"] == "green" else Exit.FINDINGS


def status_of_none(arguments: argparse.Namespace, error: NobodyListensError) -> int:
    absence = error.absence
    if arguments.json:
        output.say_json({"health": absence.how, "since": absence.at, "pid": absence.pid, "message": str(error)})
    elif absence.how == "stopped":
        show(("health", "stopped"), ("since", absence.at), ("do", "to start it: hooklatch serve --detach"))
    else:
        raise error
    return Exit.UNAVAILABLE


def show_status(result: dict[str, Any]) -> None:
    draining = ", draining" if result["draining"] else ""
    show(("health", result["health"] + draining))
    show(*(("SUSPENDED", suspension_text(one)) for one in result["suspended"]))
    show(*(("wrong", place_and_text(problem)) for problem in result["problems"]))
    if result["problems"]:
        show(("do", "fix what is named; a saved file is loaded at once (`hooklatch reload` says what came of it)"))
    show(*(("wrong", fault) for fault in result["faults"]))
    for name in result["quarantined"]:
        show(("wrong", f"{name} is quarantined: its worker died too often"))
        show(("do", f"fix it, then: hooklatch hooks enable {quoted(name)}"))
    for one in result["failing"]:
        show(("warning", failing_text(one)), ("do", f"see why: hooklatch hooks show {quoted(one['hook'])}"))
    show(*(("warning", warning) for warning in result["warnings"]))
    show(
        ("daemon", f"{result['version']}, pid {result['pid']}, up {durations.shown(result['uptime_s'])}"),
        ("revision", f"{result['revision']}, digest {result['digest'][:12]}"),
        ("hooks", result["hooks"]),
        ("sessions", f"{result['sessions']}, connections {result['connections']}"),
        ("fired", f"{result['fired']} {counts(result['verdicts'])}"),
        ("failures", counts(result["failures"]).strip("()")),
        ("dropped", counts(result["dropped"]).strip("()")),
        ("record", record_text(result["record"])),
        ("state", state_text(result["state"])),
    )
    show(*((mark["mark"], mark["hook"]) for mark in result["marks"]))
    show(*(("plugin", plugin_text(plugin)) for plugin in result["plugins"]))
    show(*(("project", f"{one['folder']}, {one['state']}, trusted") for one in result["projects"]))
    show(*(("source", source_text(source)) for source in result["sources"]))
    restarts = result["zygote"]["restarts"]
    show(
        ("zygote", f"pid {result['zygote']['pid']}, restarted {counted(restarts, 'time')}")
        if restarts
        else ("zygote", None)
    )
    show(*((name, path) for name, path in result["places"].items()))


def failing_text(one: dict[str, Any]) -> str:
    place = f"; it is declared in {one['origin']}" if one["origin"] else ""
    return f"{one['hook']} failed in each of its last {one['count']} calls (cause {one['cause']}){place}"


def show_tree(nodes: list[dict[str, Any]], indent: str = "") -> None:
    """Print parts with their children; the strategy is one_for_one, each restarted on its own."""
    for number, node in enumerate(nodes, 1):
        is_last = number == len(nodes)
        output.say(output.plain(f"{indent}{'└─ ' if is_last else '├─ '}{node['name']}: {node_text(node)}"))
        show_tree(node["children"], indent + ("   " if is_last else "│  "))


def node_text(node: dict[str, Any]) -> str:
    kind = f"{node['restart']}, significant" if node["is_significant"] else node["restart"]
    words = [f"{kind}, {node['state']}"]
    if node["restarts"]:
        words.append(f"restarted {counted(node['restarts'], 'time')}")
    if node["running"] or node["failed"]:
        words.append(f"{counted(node['running'], 'temporary one')}, {node['failed']} failed")
    if node["fault"]:
        words.append(f"last fault: {node['fault']}")
    return "; ".join(words)


def suspension_text(one: dict[str, Any]) -> str:
    what = one["hook"] or "ALL HOOKS: nothing is guarded"
    resume = f"hooklatch resume {quoted(one['hook'])}" if one["hook"] else "hooklatch resume --all"
    return f"{what}, for {durations.shown(one['seconds_left'])} more: {one['reason']} (to end it: {resume})"


def record_text(record: dict[str, Any]) -> str:
    head = record["head"]
    missing = f", not recorded: {counts(record['unrecorded'])}" if record["unrecorded"] else ""
    return f"{record['durability']}, newest record {head['seq']}, disk {record['stage']}{missing}; {record['folder']}"


def state_text(state: dict[str, Any]) -> str:
    """Return what hooks have stored, if anything."""
    if not state["keys"] and state["kept_in"] is None:
        return ""
    kept = f"kept in {state['kept_in']}" if state["kept_in"] else "until the daemon ends"
    return f"{state['keys']} keys, {state['bytes']} bytes, {kept}"


def plugin_text(plugin: dict[str, Any]) -> str:
    package = f" ({plugin['package']})" if plugin["package"] else ""
    return f"{plugin['name']}{package}: {', '.join(plugin['hooks']) or 'no hooks'}"


def source_text(source: dict[str, Any]) -> str:
    lost = f", {source['lost']} lost" if source["lost"] else ""
    return (
        f"{source['source']}: workers {source['idle']} idle, {source['busy']} busy{lost}; {source['waiting']} waiting"
        f"; {isolation_text(source['isolation'])}"
    )


def isolation_text(isolation: dict[str, Any]) -> str:
    """Return how a source's workers are isolated, in capitals if that is less than configured."""
    if isolation["missing"]:
        return f"WEAKER than {isolation['configured']}: no {'; no '.join(isolation['missing'])}"
    return str(isolation["in_force"])


def counts(numbers: dict[str, int]) -> str:
    text = ", ".join(f"{count} {name}" for name, count in numbers.items())
    return f"({text})" if text else ""
