"""watch: decisions and changes as they happen, one line each.  Read-only; a reader that lags is told so."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator

__all__ = ["add_watch"]


def add_watch(parser: Parser) -> None:
    parser.runs(watch, example="hooklatch watch --json --count 10", exits=(Exit.UNAVAILABLE,))
    parser.add_argument("--count", metavar="N", type=int, help="end after N lines")


def watch(arguments: argparse.Namespace) -> int:
    """Print announcements until interrupted, or until the output is closed."""
    try:
        with administrator(arguments) as link:
            revision = link.ask("subscribe", topics=["registry", "decisions"])["revision"]
            output.complain(f"watching {link.path} from revision {revision}; Ctrl-C ends")
            shown = 0
            while output.has_reader() and (arguments.count is None or shown < arguments.count):
                announcement = link.announcement()
                output.say_json(announcement) if arguments.json else output.say(line_of(announcement))
                shown += 1
    except KeyboardInterrupt:
        return Exit.OK  # the normal way to stop watching
    return Exit.OK


def line_of(message: dict[str, Any]) -> str:
    text = decision_text(message) if message["topic"] == "decisions" else change_text(message)
    return f"{time.strftime('%H:%M:%S')} {text}"


def decision_text(message: dict[str, Any]) -> str:
    decision = message["decision"]
    parts = [f"{decision['verdict']:<7}{decision['event']}"]
    if decision["hook"]:
        name = decision.get("name") or f"{decision['layer']}/{decision['hook']}"
        parts.append(f"by {name}")
    if decision["cause"] not in (None, "policy"):
        parts.append(f"cause {decision['cause']}")
    if message["session_id"]:
        parts.append(f"session {message['session_id']}")
    parts.append(f"{decision['duration_ms']:.1f} ms")
    return ", ".join(parts) + (f": {decision['reason']}" if decision["reason"] else "")


def change_text(message: dict[str, Any]) -> str:
    if "resync" in message:
        return f"missed  some; the hooks are now at revision {message['resync']}"
    kinds = ("added", "removed", "changed")
    changes = [f"{kind} {', '.join(message[kind])}" for kind in kinds if message[kind]]
    return f"hooks  revision {message['revision']}: {'; '.join(changes)}"
