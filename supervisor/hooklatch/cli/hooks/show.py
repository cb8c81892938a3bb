"""The command `hooks show`: one hook, and why its last calls failed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.core.text import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import HookFailure, ShownHook, ShownHooks
    from hooklatch.core.status_answers import HookTimings

__all__ = ["add_show"]


def add_show(parser: Parser) -> None:
    parser.runs(show_hook, example="hooklatch hooks show guards:no_force_push", exits=(Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.answers:ShownHooks")
    parser.add_argument("id", metavar="ID", help="its id, or layer/id, as `hooklatch hooks` shows it")
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees it")


def show_hook(arguments: argparse.Namespace) -> int:
    """Print every hook with this id."""
    with connect_administrator(arguments) as link:
        result: ShownHooks = link.ask("hook", id=arguments.id, session=arguments.session)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
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
    return Exit.OK


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
    at = datetime.fromtimestamp(failure["at"], UTC)
    output.print_line()
    output.print_line(
        look.paint_text(f"{at:%Y-%m-%dT%H:%M:%SZ} {failure['cause']}", "bad"),
        f", {failure['event']}, {failure['duration_ms']:.1f} ms, decision {failure['decision_id']}"
        + (f", session {failure['session']}" if failure["session"] else ""),
    )
    output.print_line(f"  {failure['message']}")
    for line in printed.splitlines():
        output.say_exact(look.paint_text(f"    {line}", "quiet"))
    output.print_line(f"  what was decided: hooklatch log --decision {failure['decision_id']}")
