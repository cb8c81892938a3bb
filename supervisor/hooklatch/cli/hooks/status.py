"""status: whether all is well, and what to do if it is not.  Queries the daemon; does not decide anything itself."""

from __future__ import annotations

import argparse
import os
from shlex import quote

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.last_signs import NobodyListensError
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.text import counted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["add_status", "failing_text", "place_and_text", "suspension_text"]


def add_status(parser: Parser) -> None:
    parser.runs(status, example="hooklatch status", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.add_argument(
        "--tree", action="store_true", help="show the daemon's own parts: their supervisors and restarts"
    )


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
    if arguments.json:
        output.say_json({"health": error.how, "since": error.since, "pid": error.pid, "message": str(error)})
    elif error.how == "stopped":
        output.say_lines(("health", "stopped"), ("since", error.since), ("do", "to start it: hooklatch serve --detach"))
    else:
        raise error
    return Exit.UNAVAILABLE


def place_and_text(diagnostic: dict[str, Any]) -> str:
    if not diagnostic["line"] and diagnostic["message"].startswith(diagnostic["file"]):
        return str(diagnostic["message"])  # it already starts with its file
    line = f":{diagnostic['line']}" if diagnostic["line"] else ""
    return f"{diagnostic['file']}{line}: {diagnostic['message']}"


def show_status(result: dict[str, Any]) -> None:
    draining = ", draining" if result["draining"] else ""
    output.say_lines(("health", result["health"] + draining))
    in_fleet = result["fleet"] is not None
    output.say_lines(*(("SUSPENDED", suspension_text(one, in_fleet=in_fleet)) for one in result["suspended"]))
    output.say_lines(*(("wrong", place_and_text(problem)) for problem in result["problems"]))
    if result["problems"]:
        output.say_lines(
            ("do", "fix what is named; a saved file is loaded at once (`hooklatch reload` says what came of it)")
        )
    output.say_lines(*(("wrong", fault) for fault in result["faults"]))
    for name in result["quarantined"]:
        output.say_lines(("wrong", f"{name} is quarantined: its worker died too often"))
        output.say_lines(("do", f"fix it, then: hooklatch hooks enable {quote(name)}"))
    for one in result["failing"]:
        output.say_lines(("warning", failing_text(one)), ("do", f"see why: hooklatch hooks show {quote(one['hook'])}"))
    output.say_lines(*(("warning", warning) for warning in result["warnings"]))
    output.say_lines(
        ("daemon", f"{result['version']}, pid {result['pid']}, up {shown(result['uptime_s'])}"),
        ("revision", f"{result['revision']}, digest {result['digest'][:12]}"),
        ("hooks", result["hooks"]),
        ("sessions", f"{result['sessions']}, connections {result['connections']}"),
        ("fired", f"{result['fired']} {counts(result['verdicts'])}"),
        ("skipped", counts(result["skipped"]).strip("()")),
        ("failures", counts(result["failures"]).strip("()")),
        ("dropped", counts(result["dropped"]).strip("()")),
        ("record", record_text(result["record"])),
        ("fleet", fleet_text(result["fleet"])),
        ("shipped", shipping_text(result["record"]["shipping"])),
        ("state", state_text(result["state"])),
    )
    output.say_lines(*((mark["mark"], mark["hook"]) for mark in result["marks"]))
    output.say_lines(*(("plugin", plugin_text(plugin)) for plugin in result["plugins"]))
    output.say_lines(*(("project", f"{one['folder']}, {one['state']}, trusted") for one in result["projects"]))
    output.say_lines(*(("source", source_text(source)) for source in result["sources"]))
    restarts = result["zygote"]["restarts"]
    output.say_lines(
        ("zygote", f"pid {result['zygote']['pid']}, restarted {counted(restarts, 'time')}")
        if restarts
        else ("zygote", None)
    )
    output.say_lines(*((name, path) for name, path in result["places"].items()))


def failing_text(one: dict[str, Any]) -> str:
    place = f"; it is declared in {one['origin']}" if one["origin"] else ""
    return f"{one['hook']} failed in each of its last {one['count']} calls (cause {one['cause']}){place}"


def show_tree(nodes: list[dict[str, Any]], indent: str = "") -> None:
    """Print parts with their children; the strategy is one_for_one, each restarted on its own."""
    for number, node in enumerate(nodes, 1):
        is_last = number == len(nodes)
        output.say(f"{indent}{'└─ ' if is_last else '├─ '}{node['name']}: {node_text(node)}")
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


def suspension_text(one: dict[str, Any], *, in_fleet: bool = False) -> str:
    rest = "only what the fleet keeps" if in_fleet else "nothing"
    what = one["hook"] or f"ALL HOOKS: {rest} is guarded"
    resume = f"hooklatch resume {quote(one['hook'])}" if one["hook"] else "hooklatch resume --all"
    return f"{what}, for {shown(one['seconds_left'])} more: {one['reason']} (to end it: {resume})"


def record_text(record: dict[str, Any]) -> str:
    head = record["head"]
    missing = f", not recorded: {counts(record['unrecorded'])}" if record["unrecorded"] else ""
    return f"{record['durability']}, newest record {head['seq']}, disk {record['stage']}{missing}; {record['folder']}"


def fleet_text(fleet: dict[str, Any] | None) -> str:
    """Return how this host stands in its fleet, if it is in one."""
    if fleet is None:
        return ""
    labels = f" ({', '.join(fleet['labels'])})" if fleet["labels"] else ""
    name = f"{fleet['name']}, host {fleet['host']}{labels}" if fleet["name"] is not None else "none any more"
    applied, wanted = fleet["applied"], fleet["wanted"]
    version = f"version {applied['version']} in force" if applied is not None else "no version in force"
    if wanted is not None and wanted != applied:
        version += f", {wanted['version']} wanted"
    contact = f"in contact {shown(fleet['stale_s'])} ago" if fleet["stale_s"] is not None else "never in contact"
    stale = ", STALE" + (": every gate is denied" if fleet["denies"] else "") if fleet["is_stale"] else ""
    link = "" if fleet["links"] else ", no link is connected"
    return f"{name}; {version}, read up to {fleet['head']['version']}; {contact}{stale}{link}"


def shipping_text(shipping: dict[str, Any] | None) -> str:
    if shipping is None:
        return ""
    seq, waiting = shipping["shipped_seq"], shipping["waiting_records"]
    upto = f"up to record {seq}" if seq is not None else "nothing, as far as it is known"
    waits = f", {waiting} wait" if waiting is not None else ""
    lost = f", LOST {shipping['lost_records']}" if shipping["lost_records"] else ""
    return f"{upto}{waits}{lost}"


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
