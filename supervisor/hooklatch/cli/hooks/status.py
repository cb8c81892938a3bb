"""The commands `status` and `sessions`: the daemon's health, the remedy of each fault, and the connected agents."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from itertools import groupby
from shlex import quote

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.agent_session import add_session, format_status_line, look_at_session
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.requests import NobodyListensError, ask_administrator, connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.text import format_count, format_duration
from hooklatch.errors import RequestFailedError
from hooklatch.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hooklatch.cli.schema import DaemonTree
    from hooklatch.core.answers import CallCounts, HookFailure, SessionsAnswer, SessionStatus, ShownHooks
    from hooklatch.core.status_answers import (
        ChildStatus,
        EnvironmentStatus,
        FailingHook,
        FleetStatus,
        HealthFinding,
        HealthWarning,
        IsolationStatus,
        PluginStatus,
        PolicyStatus,
        PoolStatus,
        RecordStatus,
        ReportedDiagnostic,
        SharedStateStatus,
        ShippingStatus,
        StatusAnswer,
        SuspensionStatus,
    )

__all__ = [
    "add_status", "find_red_hooks", "format_streak", "list_warnings", "name_health", "shorten_status",
    "format_failing_hook", "format_diagnostic_place", "format_suspension", "add_sessions",
]  # fmt: skip

DRAINING = "it ends once what it decides is decided; then: hooklatch serve --detach"
SHOWN = 3  # failing hooks whose last failure is shown
LAST_LINES = 2  # of a traceback, or of what a program wrote; `hooks show` has all of it


def add_status(parser: Parser) -> None:
    parser.runs(run_status, example="hooklatch status", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.prints(
        "core.status_answers:StatusAnswer", "cli.schema:DaemonTree", "cli.schema:AbsentDaemon", "cli.schema:StatusLine"
    )
    parser.add_argument(
        "--tree", action="store_true", help="show the daemon's own parts: their supervisors and restarts"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show all of it, not the first six lines")
    parser.add_argument("--line", action="store_true", help="one line for an agent's status line; never an error")
    add_session(parser)


def run_status(arguments: argparse.Namespace) -> int:
    if arguments.line:
        if (session := look_at_session(arguments)) is not None:
            line = format_status_line(session)
            output.say_result({"line": line}, line, is_json=arguments.json)
        return Exit.OK
    if arguments.session is not None:
        raise CommandError(Exit.USAGE, "--session is for --line")
    try:
        with connect_administrator(arguments) as link:
            result: StatusAnswer = link.ask("status")
            names: list[str] = [hook["hook"] for hook in result["failing"][:SHOWN]]
            is_for_people = arguments.verbose and not (arguments.json or arguments.tree)
            failures = {name: find_last_failure(link, name) for name in (names if is_for_people else ())}
    except NobodyListensError as error:
        return print_absent_daemon(arguments, error)
    loaded = result["places"]["config"]
    if arguments.config is not None and os.path.realpath(arguments.config) != os.path.realpath(loaded):
        output.print_error(f"this daemon reads {loaded}, not {arguments.config}; name its folder with --runtime-dir")
    code = Exit.OK if result["health"] == "green" else Exit.FINDINGS
    if arguments.tree:
        tree: DaemonTree = {"health": result["health"], "tree": result["tree"]}
        return output.say_result(tree, is_json=arguments.json, show=lambda: show_tree(tree["tree"]), code=code)
    fired = ("fired", f"{result['fired']} {format_counts(result['verdicts'])}".rstrip())
    short = partial(output.say_lines, *shorten_status(result), fired)
    show: Callable[[], object] = partial(show_status, result, failures) if arguments.verbose else short
    return output.say_result(result, is_json=arguments.json, show=show, code=code)


def print_absent_daemon(arguments: argparse.Namespace, error: NobodyListensError) -> int:
    if arguments.json:
        output.say_json({"health": error.how, "since": error.since, "pid": error.pid, "message": str(error)})
    elif error.how == "stopped":
        output.say_lines(("health", "stopped"), ("since", error.since), ("do", "to start it: hooklatch serve --detach"))
    else:
        raise error
    return Exit.UNAVAILABLE


def format_diagnostic_place(diagnostic: ReportedDiagnostic) -> str:
    if not diagnostic["line"] and diagnostic["message"].startswith(diagnostic["file"]):
        return str(diagnostic["message"])  # it already starts with its file
    line = f":{diagnostic['line']}" if diagnostic["line"] else ""
    return f"{diagnostic['file']}{line}: {diagnostic['message']}"


def find_last_failure(link: AdminConnection, name: str) -> HookFailure | None:
    """Return the last failure of a hook, if the daemon still has it."""
    try:
        answer: ShownHooks = link.ask("hook", id=name)
    except RequestFailedError:  # the hook was removed in the meantime
        return None
    return next((failure for hook in answer["hooks"] for failure in hook["last_failures"] or ()), None)


def format_hook_failure(failure: HookFailure) -> list[str]:
    """Return the time and the message of a failure, and the last lines that the hook printed."""
    printed = (failure["traceback"] or failure["stderr"]).rstrip().splitlines()
    if printed and failure["message"].startswith(printed[-1]):
        del printed[-1]  # a traceback ends with the message
    printed = [line for line in printed if line.strip(" ^~")]  # Python 3.11 marks the place in a line with ^ and ~
    return [
        f"{look.format_moment(failure['at'])} {failure['message']}",
        *(f"  {line}" for line in printed[-LAST_LINES:]),
    ]


def name_health(result: StatusAnswer) -> str:
    """Return the daemon's health for people: yellow too, where something deserves a look."""
    word: str = result["health"]
    if word == "green" and (result["failing"] or any(found["reason"] != "notes" for found in list_warnings(result))):
        word = "yellow"
    meaning: look.Meaning = "bad" if not is_well(result) else "warning" if word == "yellow" else "good"
    return look.paint_text(word + (", draining" if result["draining"] else ""), meaning)


def list_trouble(
    result: StatusAnswer, failures: Mapping[str, HookFailure | None] | None = None
) -> list[list[tuple[str, str]]]:
    """Return what is wrong, and what deserves a look, the worst first: each as lines with their labels."""
    in_fleet = result["fleet"] is not None
    trouble = [[("SUSPENDED", format_suspension(each, in_fleet=in_fleet))] for each in result["suspended"]]
    # Suspensions are there already, with how to end them, and failing hooks are below, with their failures.
    found = [fault for fault in result["wrong"] if fault["reason"] not in ("suspended", "failing")]
    trouble += group_findings("wrong", found)
    red = find_red_hooks(result)
    for hook in result["failing"]:
        failure = (failures or {}).get(hook["hook"])
        last: list[str] = format_hook_failure(failure) if failure is not None else []
        shown = [("" if index else "last", look.paint_text(line, "quiet")) for index, line in enumerate(last)]
        do = f"see why: hooklatch hooks show {quote(hook['hook'])}"
        label = "wrong" if hook["hook"] in red else "warning"
        trouble.append([(label, format_failing_hook(hook)), *shown, ("do", do)])
    return trouble + group_findings("warning", list_warnings(result))


def find_red_hooks(result: StatusAnswer) -> set[str]:
    """Return the failing hooks that are among what is wrong: the others are only to be looked at."""
    return {fault["what"].partition(" failed in ")[0] for fault in result["wrong"] if fault["reason"] == "failing"}


def shorten_status(result: StatusAnswer) -> list[tuple[str, str]]:
    """Return the health, the worst of what is wrong, and the daemon, in at most five lines."""
    trouble = list_trouble(result)
    first = [line for line in (trouble[0] if trouble else []) if line[0] != "do"]
    remedies = [line for line in (trouble[0] if trouble else []) if line[0] == "do"]
    more = len(first) - 1 + sum(label != "do" for group in trouble[1:] for label, _ in group)
    sessions, asks = format_count(result["sessions"], "session"), format_ask_count(result["asks"])
    counts = f"{format_count(result['hooks'], 'hook')}, {sessions}{f', {asks}' if asks else ''}"
    return [
        ("health", name_health(result)),
        *([("do", DRAINING)] if result["draining"] else [*first[:1], *remedies[:1]]),
        ("", f"and {more} more: hooklatch status -v" if more > 0 else ""),
        ("daemon", f"{format_daemon(result)}; {counts}"),
    ]


def format_daemon(result: StatusAnswer) -> str:
    return f"{result['version']}, pid {result['pid']}, up {format_duration(result['uptime_s'])}"


def show_status(result: StatusAnswer, failures: Mapping[str, HookFailure | None]) -> None:
    output.say_lines(("health", name_health(result)), ("do", DRAINING if result["draining"] else None))
    output.say_lines(*(line for group in list_trouble(result, failures) for line in group))
    output.say_lines(
        ("daemon", format_daemon(result)),
        ("revision", f"{look.shorten_revision(result['revision'])}, digest {result['digest'][:12]}"),
        ("hooks", result["hooks"]),
        ("sessions", f"{result['sessions']}, connections {result['connections']}"),
        ("asks", format_ask_count(result["asks"])),
        ("fired", f"{result['fired']} {format_counts(result['verdicts'])}".rstrip()),
        ("skipped", format_counts(result["skipped"]).strip("()")),
        ("failures", format_counts(result["failures"]).strip("()")),
        ("dropped", format_counts(result["dropped"]).strip("()")),
        ("record", record_text(result["record"])),
        ("fleet", format_fleet(result["fleet"])),
        ("shipped", format_shipping(result["record"]["shipping"])),
        ("state", format_shared_state(result["state"])),
    )
    output.say_lines(*((mark["mark"], mark["hook"]) for mark in result["marks"]))
    output.say_lines(*(("plugin", format_plugin(plugin)) for plugin in result["plugins"]))
    projects = output.order_failures_first(result["projects"], lambda project: project["state"] == "changed")
    output.say_lines(
        *(("project", f"{look.shorten_path(project['folder'])}, {project['state']}, trusted") for project in projects)
    )
    sources = output.order_failures_first(
        result["sources"], lambda source: source["isolation"]["missing"] or source["lost"]
    )
    output.say_lines(*(("source", format_source(source)) for source in sources))
    environments = output.order_failures_first(result["environments"], lambda table: table["state"] == "failed")
    output.say_lines(*(("environment", format_environment(table)) for table in environments))
    restarts = result["zygote"]["restarts"]
    output.say_lines(
        ("zygote", f"pid {result['zygote']['pid']}, restarted {format_count(restarts, 'time')}")
        if restarts
        else ("zygote", None)
    )
    output.say_lines(*((name, look.shorten_path(path)) for name, path in result["places"].items()))


def group_findings(label: str, findings: Iterable[HealthFinding | HealthWarning]) -> list[list[tuple[str, str]]]:
    """Return findings as lines; those in a row that have the same remedy share its line."""
    groups = groupby(findings, key=lambda finding: finding["do"])
    return [[*((label, finding["what"]) for finding in group), ("do", do)] for do, group in groups]


def list_warnings(result: StatusAnswer) -> list[HealthWarning]:
    """Return the warnings of a daemon, and that it is not of the version of this command, unless it says so itself."""
    warnings = result["warned"]
    if result["version"] == VERSION or any(warning["reason"] == "version" for warning in warnings):
        return warnings
    what = f"{result['version']} runs, of another installation, and this command is {VERSION}"
    return [{"reason": "version", "what": what, "do": "to run this one: hooklatch restart"}, *warnings]


def is_well(result: StatusAnswer) -> bool:
    return result["health"] == "green" and not result["draining"]


def format_ask_count(count: int) -> str:
    """Return how many asks wait for a person; empty if none does."""
    if not count:
        return ""
    return f"{format_count(count, 'ask')} {'waits' if count == 1 else 'wait'} for a person; see: hooklatch asks"


def format_streak(count: int) -> str:
    """Return how many of the last calls failed, all of them."""
    return "in its last call" if count == 1 else f"in each of its last {count} calls"


def format_failing_hook(table: FailingHook) -> str:
    place = f"; it is declared in {look.shorten_path(table['origin'])}" if table["origin"] else ""
    return f"{table['hook']} failed {format_streak(table['count'])} (cause {table['cause']}){place}"


def show_tree(nodes: list[ChildStatus], indent: str = "") -> None:
    """Print parts with their children; the strategy is one_for_one, each restarted on its own."""
    for number, node in enumerate(nodes, 1):
        is_last = number == len(nodes)
        output.print_line(f"{indent}{'└─ ' if is_last else '├─ '}{node['name']}: {format_child(node)}")
        show_tree(node["children"], indent + ("   " if is_last else "│  "))


def format_child(node: ChildStatus) -> str:
    kind = f"{node['restart']}, significant" if node["is_significant"] else node["restart"]
    words = [f"{kind}, {node['state']}"]
    if node["restarts"]:
        words.append(f"restarted {format_count(node['restarts'], 'time')}")
    if node["running"] or node["failed"]:
        words.append(f"{format_count(node['running'], 'temporary one')}, {node['failed']} failed")
    if node["fault"]:
        words.append(f"last fault: {node['fault']}")
    return "; ".join(words)


def format_suspension(table: SuspensionStatus, *, in_fleet: bool = False) -> str:
    guarded = "only what the fleet keeps" if in_fleet else "nothing"
    name = table["hook"] or f"ALL HOOKS: {guarded} is guarded"
    resume = f"hooklatch resume {quote(table['hook'])}" if table["hook"] else "hooklatch resume --all"
    return f"{name}, for {format_duration(table['seconds_left'])} more: {table['reason']} (to end it: {resume})"


def record_text(record: RecordStatus) -> str:
    newest = record["head"]["seq"] if record["head"] is not None else 0
    missing = f", not recorded: {format_counts(record['unrecorded'])}" if record["unrecorded"] else ""
    folder = look.shorten_path(record["folder"])
    return f"{record['durability']}, newest record {newest}, disk {record['stage']}{missing}; {folder}"


def format_fleet(fleet: FleetStatus | None) -> str:
    """Return the state of this host in its fleet; empty if it is in none."""
    if fleet is None:
        return ""
    labels = f" ({', '.join(fleet['labels'])})" if fleet["labels"] else ""
    name = f"{fleet['name']}, host {fleet['host']}{labels}" if fleet["name"] is not None else "none any more"
    version = ", ".join(format_policy(name, policy) for name, policy in fleet["policies"].items())
    contact = (
        f"in contact {format_duration(fleet['stale_s'])} ago" if fleet["stale_s"] is not None else "never in contact"
    )
    stale = ", STALE" * fleet["is_stale"] + ": every gate is denied" * (fleet["denies"] is not None)
    link = "" if fleet["links"] else ", no link is connected"
    return f"{name}; {version or 'no version active'}, read up to {fleet['head']['version']}; {contact}{stale}{link}"


def format_policy(name: str, policy: PolicyStatus) -> str:
    """Return the versions of one of the fleet's policies; the default one needs no name."""
    applied, target = policy["applied"], policy["wanted"]
    version = f"version {applied['version']} active" if applied is not None else "no version active"
    wanted = f", {target['version']} wanted" if target is not None and target != applied else ""
    return f"{f'{name}: ' if name != 'default' else ''}{version}{wanted}"


def format_shipping(shipping: ShippingStatus | None) -> str:
    if shipping is None:
        return ""
    seq, waiting = shipping["shipped_seq"], shipping["waiting_records"]
    shipped = f"up to record {seq}" if seq is not None else "nothing, as far as it is known"
    waits = f", {waiting} wait" if waiting is not None else ""
    lost = f", LOST {shipping['lost_records']}" if shipping["lost_records"] else ""
    return f"{shipped}{waits}{lost}"


def format_shared_state(state: SharedStateStatus) -> str:
    """Return the size and place of the hooks' shared state; empty if there is none."""
    if not state["keys"] and state["kept_in"] is None:
        return ""
    place = f"kept in {state['kept_in']}" if state["kept_in"] else "until the daemon ends"
    return f"{state['keys']} keys, {state['bytes']} bytes, {place}"


def format_plugin(plugin: PluginStatus) -> str:
    package = f" ({plugin['package']})" if plugin["package"] else ""
    return f"{plugin['name']}{package}: {', '.join(plugin['hooks']) or 'no hooks'}"


def format_source(source: PoolStatus) -> str:
    lost = f", {source['lost']} lost" if source["lost"] else ""
    place = look.shorten_path(source["source"])
    return (
        f"{place}: workers {source['idle']} idle, {source['busy']} busy{lost}; {source['waiting']} waiting"
        f"; {format_isolation(source['isolation'])}"
    )


def format_environment(table: EnvironmentStatus) -> str:
    """Return the state of a source's own environment: in use, being made, or the failure."""
    packages = f" with {', '.join(table['requires'])}" if table["requires"] else ""
    what = f"{table['python']}, Python {table['version']}{packages}"
    if table["state"] == "in use":
        return f"{what}: in use by {format_count(table['users'], 'build')}"
    since = f" for {format_duration(table['seconds'])}" if table["seconds"] else ""
    return f"{what}: {table['state']}{since}" + (f": {table['said']}" if table["said"] else "")


def format_isolation(isolation: IsolationStatus) -> str:
    """Return the isolation of a source's workers; in capitals if it is less than configured."""
    if isolation["missing"]:
        return f"WEAKER than {isolation['configured']}: no {'; no '.join(isolation['missing'])}"
    return str(isolation["in_force"])


def format_counts(numbers: dict[str, int]) -> str:
    text = ", ".join(f"{count} {name}" for name, count in numbers.items())
    return f"({text})" if text else ""


DROP = ("REVISION", "CONNECTIONS", "OWN HOOKS", "CLIENT")
TITLES = ("ID", "CLIENT", "HOST", "CWD", "CONNECTIONS", "AGE", "FIRES", "OWN HOOKS", "REVISION", "CALLS")


def add_sessions(parser: Parser) -> None:
    parser.runs(run_sessions, example="hooklatch sessions --json", exits=(Exit.UNAVAILABLE,))
    parser.prints("core.answers:SessionsAnswer")


def run_sessions(arguments: argparse.Namespace) -> int:
    """List live sessions."""
    result: SessionsAnswer = ask_administrator(arguments, "sessions")
    return output.say_result(result, is_json=arguments.json, show=lambda: print_sessions(result))


def print_sessions(result: SessionsAnswer) -> None:
    if result["sessions"]:
        output.say_table(TITLES, [session_row(session) for session in result["sessions"]], drop=DROP)
    if result["reported"]:
        rows = [(each["id"], each["host"], format_calls(each["calls"])) for each in result["reported"]]
        output.say_table(("ID", "HOST", "CALLS"), rows)
    if not result["sessions"] and not result["reported"]:
        output.print_line("no sessions (one-shots, such as `hooklatch fire` and the entries of hosts, open none)")


def session_row(session: SessionStatus) -> tuple[object, ...]:
    return (
        session["id"], session["client"] or None, session["host"], session["cwd"], session["connections"],
        format_duration(time.time() - session["created_at"]), session["fires"], session["hooks"],
        look.shorten_revision(session["revision"]), format_calls(session["calls"]) if "calls" in session else None,
    )  # fmt: skip


def format_calls(calls: CallCounts) -> str:
    """Return how many calls that ran were asked about, and what did not run as it was judged."""
    words = [f"{count} {word}" for word in ("overruled", "unasked", "altered") if (count := calls.get(word))]
    judged = "as judged" if not words else f"{calls['as_judged']} as judged"
    return ", ".join((f"{calls['asked']} of {calls['ran']} asked", judged, *words))
