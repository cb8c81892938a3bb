"""The command `hooks explain`: the hooks that would be called for a payload, and why the others would not."""

from __future__ import annotations

import argparse
import os

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.cli.testing.fire import add_payload, read_payload, read_piped_payload
from hooklatch.core.text import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import BriefHook

__all__ = ["add_explain"]


def add_explain(parser: Parser) -> None:
    example = "hooklatch hooks explain pre_tool_use < payload.json"
    parser.runs(run_hooks_explain, example=example, exits=(Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.answers:ExplainAnswer")
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument(
        "--payload", metavar="FILE", help="a file with a JSON object, or - (default: what is piped in, else {})"
    )
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees them")


def run_hooks_explain(arguments: argparse.Namespace) -> int:
    """Print which hooks would be called, and why the others would not."""
    payload = read_piped_payload() or b"{}" if arguments.payload is None else read_payload(arguments.payload)
    params = add_payload({"event": arguments.event, "session": arguments.session, "cwd": os.getcwd()}, payload)
    with connect_administrator(arguments) as link:
        result = link.ask_encoded("explain", params)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    if result["refusal"]:
        output.print_line(look.paint_text(result["refusal"], "bad"))
    elif not result["fires"]:
        output.print_line(f"no hook would be asked about this {result['event']}")
    for number, hook in enumerate(result["fires"], 1):
        output.print_line(f"{number}. {format_hook_title(hook)}, priority {hook['priority']}, {hook['state']}")
    for hook in result["others"]:
        output.print_line(f"not {format_hook_title(hook)}: {hook['why']}")
    if result["tool_kind"] is not None:
        output.print_line(f"the tool is of the kind {result['tool_kind']}, which names are compared with too")
    output.print_line(
        f"time for all: {format_duration(result['budget'])}; revision {look.shorten_revision(result['revision'])}"
    )
    return Exit.OK


def format_hook_title(hook: BriefHook) -> str:
    where = f", where {hook['where']}" if hook["where"] else ""
    return f"{hook['name']} (match {hook['match']}{where})"
