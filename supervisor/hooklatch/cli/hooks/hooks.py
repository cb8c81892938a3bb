"""The commands `hooks` and `events`: what can be fired, the hooks in firing order, why one failed, what is called."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from shlex import quote

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.cli.terminal.requests import ask_administrator, connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.hooks.names import make_hook_id
from hooklatch.core.text import format_count, format_duration, suggest_name
from hooklatch.errors import DaemonUnreachableError, RequestFailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from hooklatch.cli.schema import EventsOutput
    from hooklatch.core.answers import (
        BriefHook,
        ChangeAnswer,
        CountsAnswer,
        EventStatus,
        ExplainAnswer,
        GuardCounts,
        HookFailure,
        HooksAnswer,
        HookStatus,
        ShownHook,
        ShownHooks,
    )
    from hooklatch.core.status_answers import HookTimings

__all__ = [
    "add_add", "add_disable", "add_enable", "add_explain", "add_hooks", "add_list", "add_remove", "add_show",
    "add_events",
]  # fmt: skip

BELOW = (
    ("list", "hooks.hooks", "list hooks, what is wrong first, with their timings since the daemon's start"),
    ("add", "hooks.hooks", "add a global hook, or replace one that was added; kept across restarts"),
    (
        "show", "hooks.hooks",
        "show one hook: where it is declared, its state, and its last failures with their tracebacks",
    ),
    (
        "remove", "hooks.hooks",
        "remove a hook that was added, or all of a file that has vanished; others are removed in their file",
    ),
    ("enable", "hooks.hooks", "enable a global hook, and lift its quarantine; kept across restarts"),
    ("disable", "hooks.hooks", "disable a global hook; kept across restarts"),
    (
        "explain", "hooks.hooks",
        "say which hooks would fire for a payload, in which order, and why the others would not",
    ),
)  # fmt: skip
TITLES = (
    "LAYER", "ID", "EVENT", "#", "MATCH", "STATE", "PRIORITY", "CALLS", "DENIES", "ASKS", "LAST", "P50 MS", "P99 MS",
    "FAILURES", "ORIGIN", "RUNS", "DESCRIPTION",
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
    "LAST",
    "CALLS",
    "#",
    "EVENT",
    "ASKS",
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
        add_counts(link, result["hooks"])
        if event is not None and not result["hooks"]:
            check_event(link, event)
    return output.say_result(result, is_json=arguments.json, show=lambda: print_hooks(result, event, gates))


def print_hooks(result: HooksAnswer, event: str | None, gates: Container[str]) -> None:
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


def add_counts(link: AdminConnection, hooks: Sequence[HookStatus]) -> None:
    """Add to each hook what it decided, as far as the record reaches; null if it has never been called."""
    try:
        counts: CountsAnswer = link.ask("counts")
    except RequestFailedError as error:  # the hooks are to be seen all the same
        output.print_error(f"what they decided is not known: {error.message}")
        return
    by_name = {guard["name"]: guard for guard in counts["guards"]}
    for hook in hooks:
        hook["counts"] = by_name.get(hook["name"])


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
    denies, asks, last = list_verdict_cells(hook.get("counts"))
    return (
        find_layer(hook), hook["id"], hook["event"], number, hook["match"],
        state if meaning == "good" else look.paint_text(state, meaning), hook["priority"],
        timings["count"], denies, asks, last, timings["p50_ms"], timings["p99_ms"],
        look.paint_text(failures, "bad") if failures else None, hook["origin"],
        clip_cell(hook["target"]), clip_cell(hook["description"]) or None,
    )  # fmt: skip


def list_verdict_cells(counts: GuardCounts | None) -> tuple[object, object, object]:
    """Return how often a hook refused and asked, and when it last refused; of one that observes what it would have."""
    if counts is None:
        return 0, 0, None
    verdicts, would, last = counts["verdicts"], counts["would"], counts["last_refusal"]
    cells = [
        (f"would {unreal}" if (unreal := sum(would.get(word, 0) for word in words)) else 0)
        if would
        else sum(verdicts.get(word, 0) for word in words)
        for words in (("deny", "halt"), ("ask",))
    ]
    return cells[0], cells[1], look.format_moment(last["at"], is_brief=True) if last else None


def format_verdicts(counts: GuardCounts | None) -> str | None:
    """Return what a hook decided, or would have, as far as the record reaches."""
    if counts is None:
        return None
    words = [f"{word} {count}" for word, count in sorted(counts["verdicts"].items())]
    words += [f"would {word} {count}" for word, count in sorted(counts["would"].items())]
    if counts["warnings"]:
        words.append(f"warnings {counts['warnings']}")
    return f"{', '.join(words) or 'nothing'}, in {format_count(counts['calls'], 'call')} on record"


def format_last_refusal(counts: GuardCounts | None) -> str | None:
    if counts is None or (last := counts["last_refusal"]) is None:
        return None
    return f"{last['subject']}: {last['reason']} ({look.format_moment(last['at'])}, decision {last['decision_id']})"


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


def add_show(parser: Parser) -> None:
    parser.runs(show_hook, example="hooklatch hooks show guards:no_force_push", exits=(Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.answers:ShownHooks")
    parser.add_argument("id", metavar="ID", help="its name, or a part that only it has: its file or its function")
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees it")


def show_hook(arguments: argparse.Namespace) -> int:
    """Print every hook with this id."""
    with connect_administrator(arguments) as link:
        result: ShownHooks = link.ask("hook", id=arguments.id, session=arguments.session)
        add_counts(link, result["hooks"])
    return output.say_result(result, is_json=arguments.json, show=lambda: print_shown_hooks(result))


def print_shown_hooks(result: ShownHooks) -> None:
    for index, hook in enumerate(result["hooks"]):
        if index:
            output.print_line()
        output.say_lines(*list_hook_details(hook))
        previous = ""
        for failure in hook["last_failures"] or ():
            # The traceback of an exception is the end of its standard error, unless the hook had closed that.
            printed = failure["stdout"] + (failure["stderr"] or failure["traceback"])
            show_failure(failure, "as above" if printed and printed == previous else printed)
            previous = printed


def list_hook_details(hook: ShownHook) -> Iterator[tuple[str, object]]:
    marks = [mark for mark in ("observe", "optional") if hook[mark]]
    timings = hook["timings"]
    yield "hook", hook["name"]
    yield "session", hook["owner"]
    yield "plugin", hook["plugin"]
    yield "description", hook["description"]
    yield "event", hook["event"]
    yield "match", hook["match"]
    yield "where", hook["where"]
    yield "state", look.paint_text(" ".join([hook["state"], *marks]), "good" if hook["state"] == "active" else "bad")
    yield "problem", hook["problem"]
    yield "declared in", look.shorten_path(hook["origin"] or "")
    yield "command" if hook["command"] else "runs", hook["command"] or look.shorten_path(hook["target"])
    yield "priority", hook["priority"]
    yield "timeout", format_duration(hook["timeout"]) if hook["timeout"] is not None else "the event's default"
    yield "calls", format_calls(timings)
    yield "decided", format_verdicts(hook.get("counts"))
    yield "last refusal", format_last_refusal(hook.get("counts"))
    digests: dict[str, str] = hook["digests"] or {}
    for path, digest in digests.items():
        yield "file", f"{look.shorten_path(path)}, sha256 {digest}"


def format_calls(timings: HookTimings) -> str:
    if not timings["count"]:
        return "none since the daemon started"
    failures = ", ".join(f"{cause} {count}" for cause, count in timings["failures"].items())
    return (
        f"{timings['count']} since the daemon started, p50 {timings['p50_ms']} ms, p99 {timings['p99_ms']} ms; "
        f"failures: {failures or 'none'}"
    )


def show_failure(failure: HookFailure, printed: str) -> None:
    output.print_line()
    output.print_line(
        f"{failure['subject']}  ",
        look.paint_text(f"{look.format_moment(failure['at'])} {failure['cause']}", "bad"),
        f", {failure['event']}, {failure['duration_ms']:.1f} ms, decision {failure['decision_id']}"
        + (f", session {failure['session']}" if failure["session"] else ""),
    )
    output.print_line(f"  {failure['message']}")
    for line in printed.splitlines():
        output.say_exact(look.paint_text(f"    {line}", "quiet"))
    output.print_line(f"  what was decided: hooklatch log --decision {failure['decision_id']}")


def add_explain(parser: Parser) -> None:
    example = "hooklatch hooks explain pre_tool_use < payload.json"
    parser.runs(run_hooks_explain, example=example, exits=(Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.answers:ExplainAnswer")
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument(
        "--payload", metavar="JSON|FILE", help="a JSON object, a file with one, or - (default: what is piped in)"
    )
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees them")


def run_hooks_explain(arguments: argparse.Namespace) -> int:
    from hooklatch.cli.testing.fire import add_payload, read_payload, read_piped_payload

    if len(arguments.event.split()) > 1:
        what = f"{arguments.event!r} is not the name of an event (see: hooklatch events)"
        asked = f"hooklatch try {quote(arguments.event)}"
        raise CommandError(Exit.USAGE, f"{what}; for what the guards say of a command: {asked}")
    payload = read_piped_payload() or b"{}" if arguments.payload is None else read_payload(arguments.payload)
    params = add_payload({"event": arguments.event, "session": arguments.session, "cwd": os.getcwd()}, payload)
    with connect_administrator(arguments) as link:
        result = link.ask_encoded("explain", params)
    return output.say_result(result, is_json=arguments.json, show=lambda: print_explanation(result))


def print_explanation(result: ExplainAnswer) -> None:
    if result["refusal"]:
        output.print_line(look.paint_text(result["refusal"], "bad"))
    elif not result["fires"]:
        output.print_line(f"no hook would be asked about this {result['event']}")
    for number, hook in enumerate(result["fires"], 1):
        output.print_line(f"{number}. {format_hook_title(hook)}, priority {hook['priority']}, {hook['state']}")
    for hook in result["others"]:
        output.print_line(f"not {format_hook_title(hook)}: {hook.get('why')}")
    if result["tool_kind"] is not None:
        output.print_line(f"the tool is of the kind {result['tool_kind']}, which names are compared with too")
    output.print_line(
        f"time for all: {format_duration(result['budget'])}; revision {look.shorten_revision(result['revision'])}"
    )


def format_hook_title(hook: BriefHook) -> str:
    where = f", where {hook['where']}" if hook["where"] else ""
    return f"{hook['name']} (match {hook['match']}{where})"


EXITS = (Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)


def add_add(parser: Parser) -> None:
    example = "hooklatch hooks add pre_tool_use --run guards.py:no_force_push --match Bash"
    parser.runs(run_hooks_add, example=example, exits=(Exit.BAD_DATA, Exit.UNAVAILABLE, Exit.NOT_PERMITTED))
    parser.prints("core.answers:ChangeAnswer")
    parser.means({"--command": "command = … of a [[hook]] in hooks.toml"})
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
    parser.add_argument("id", metavar="ID", help="its name, or a part that only it has: its file or its function")


def run_hooks_add(arguments: argparse.Namespace) -> int:
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
    result: ChangeAnswer = ask_administrator(arguments, "register", hooks=[definition], scope="global")
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
    return make_hook_id(os.path.basename(source).removesuffix(".py"), function)


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
    method: str = arguments.command
    result: ChangeAnswer = ask_administrator(arguments, method, id=arguments.id, scope="global")
    print_change(arguments, result, f"{method}d {arguments.id}")
    return Exit.OK


def print_change(arguments: argparse.Namespace, result: ChangeAnswer, text: str) -> None:
    line = f"{text} (revision {look.shorten_revision(result['revision'])})"
    output.say_change(result, line, is_json=arguments.json)


EVENT_DROP = ("PATCH", "OUTPUTS", "TIMEOUT", "MATCH", "VERDICTS", "MODEL", "FIRED", "HOOKS", "FAILS")
EVENT_TITLES = ("EVENT", "WHEN", "MODEL", "FAILS", "VERDICTS", "OUTPUTS", "PATCH", "MATCH", "TIMEOUT", "HOOKS", "FIRED")


def add_events(parser: Parser) -> None:
    parser.runs(run_events, example="hooklatch events pre_tool_use", exits=(Exit.PROTOCOL,))
    parser.prints("cli.schema:EventsOutput")
    parser.add_argument("name", metavar="EVENT", nargs="?", help="show this one, with its fields")


def run_events(arguments: argparse.Namespace) -> int:
    try:
        known: list[EventStatus] = ask_administrator(arguments, "events")["events"]
        is_live = True
    except DaemonUnreachableError:
        from hooklatch.core.answers import describe_event
        from hooklatch.core.hooks.catalogue import Catalogue  # which needs more than the standard library

        known = [describe_event(spec) for spec in Catalogue.standard().values()]
        is_live = False
        output.print_error("no daemon is reachable: this is the standard catalogue, without events of your own")
    if arguments.name is not None:
        named = [event for event in known if event["name"] == arguments.name]
        if not named:
            raise CommandError(Exit.USAGE, describe_unknown_event(arguments.name, [event["name"] for event in known]))
        known = named
    shown: EventsOutput = {"events": known, "live": is_live}
    return output.say_result(shown, is_json=arguments.json, show=lambda: print_events(known, arguments.name))


def print_events(events: Sequence[EventStatus], name: str | None) -> None:
    if name is not None:
        show_event(events[0])
    else:
        output.say_table(EVENT_TITLES, [event_row(event) for event in events], drop=EVENT_DROP)


def event_row(event: EventStatus) -> tuple[object, ...]:
    words = (" ".join(event[key]) or None for key in ("verdicts", "outputs", "patch"))
    return (
        event["name"], clip_cell(event["when"]), event["model"], event["fails"], *words, event["match"],
        format_duration(event["timeout"]), event["hooks"], event["fired"],
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
    example = quote(output.format_json(make_example(event)))
    output.print_line("example")
    output.print_line(f"  hooklatch fire {event['name']} --payload {example}")


def make_example(event: EventStatus) -> dict[str, object]:
    """Return a payload with the fields that hosts always send, or with all fields of an event of one's own."""
    from hooklatch.testing.events import STANDARD
    from hooklatch.testing.events import event as make_event

    if event["name"] in STANDARD:
        return dict(make_event(event["name"]).payload)
    return {field["name"]: "x" for field in event["fields"]}
