"""hooks explain: which hooks would fire for a payload.  Queries the daemon; does not decide anything itself."""

from __future__ import annotations

import argparse
import os
from typing import Any

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator
from hooklatch.cli.testing.fire import piped_payload, read_payload, with_payload
from hooklatch.core.text import shown

__all__ = ["add_explain"]


def add_explain(parser: Parser) -> None:
    example = "hooklatch hooks explain pre_tool_use < payload.json"
    parser.runs(explain, example=example, exits=(Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument(
        "--payload", metavar="FILE", help="a file with a JSON object, or - (default: what is piped in, else {})"
    )
    parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="as this live session sees them")


def explain(arguments: argparse.Namespace) -> int:
    """Print which hooks would fire, and why the others would not."""
    payload = piped_payload() or b"{}" if arguments.payload is None else read_payload(arguments.payload)
    params = with_payload({"event": arguments.event, "session": arguments.session, "cwd": os.getcwd()}, payload)
    with administrator(arguments) as link:
        result = link.request("explain", params)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    if result["refusal"]:
        output.say(look.paint(result["refusal"], "bad"))
    elif not result["fires"]:
        output.say(f"no hook would be asked about this {result['event']}")
    for place, hook in enumerate(result["fires"], 1):
        output.say(f"{place}. {title_of(hook)}, priority {hook['priority']}, {hook['state']}")
    for hook in result["others"]:
        output.say(f"not {title_of(hook)}: {hook['why']}")
    if result["tool_kind"] is not None:
        output.say(f"the tool is of the kind {result['tool_kind']}, which names are compared with too")
    output.say(f"time for all: {shown(result['budget'])}; revision {look.short_revision(result['revision'])}")
    return Exit.OK


def title_of(hook: dict[str, Any]) -> str:
    where = f", where {hook['where']}" if hook["where"] else ""
    return f"{hook['name']} (match {hook['match']}{where})"
