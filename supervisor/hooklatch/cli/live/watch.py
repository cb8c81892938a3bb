"""watch: decisions, changes and operations as they happen, one line each.  Read-only; a reader that lags is told so."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from hooklatch.cli.hooks.hooks import check_event
from hooklatch.cli.live.watch_lines import KINDS, Layout, layout_for, lines_of, record_of, titles
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.look import width_of
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.record_filters import add_choices, filters_of
from hooklatch.cli.terminal.requests import CommandLink, administrator
from hooklatch.core.text import did_you_mean
from hooklatch.record.files.reading import Filters, matches

__all__ = ["add_watch"]

TOPICS = ["registry", "decisions", "operations"]


def add_watch(parser: Parser) -> None:
    parser.runs(watch, example="hooklatch watch --verdict deny", exits=(Exit.UNAVAILABLE,))
    add_choices(parser, KINDS)
    parser.add_argument("--count", metavar="N", type=int, help="end after N lines")


def watch(arguments: argparse.Namespace) -> int:
    """Print what happens and matches the filters until interrupted, or until the output is closed."""
    filters = filters_of(arguments)
    try:
        with administrator(arguments) as link:
            check_names(link, filters)
            revision = link.ask("subscribe", topics=TOPICS)["revision"]
            output.complain(f"watching {link.path} from revision {revision}; Ctrl-C ends")
            if width_of(sys.stdout) is not None and not arguments.json:
                output.say(*titles(layout()))
            shown = 0
            while output.has_reader() and (arguments.count is None or shown < arguments.count):
                announcement = link.announcement()
                if is_wanted(announcement, filters):
                    show(announcement, is_json=arguments.json)
                    shown += 1
    except KeyboardInterrupt:
        return Exit.OK  # the normal way to stop watching
    return Exit.OK


def is_wanted(announcement: dict[str, Any], filters: Filters) -> bool:
    """Return whether an announcement matches; that lines were left out always does: they may have matched."""
    is_gap = "missed" in announcement or "resync" in announcement
    return is_gap or matches(record_of(announcement), filters)


def show(announcement: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        output.say_json(announcement)
        return
    now = datetime.now(UTC).isoformat()  # of what is announced without a time: a change, lines that were left out
    for pieces in lines_of({"at": now, **announcement}, layout()):
        output.say(*pieces)


def layout() -> Layout:
    """Return the columns for the terminal as wide as it is now, or for what is none."""
    return layout_for(width_of(sys.stdout))


def check_names(link: CommandLink, filters: Filters) -> None:
    """Reject an unknown event, and warn of a hook that is not there: no line would read as "nothing happens".

    Raises:
        CommandError: there is no such event.
    """
    if filters.event is not None:
        check_event(link, filters.event)
    if filters.hook is None:
        return
    known = {name for hook in link.ask("hooks")["hooks"] for name in (hook["id"], hook["name"])}
    if filters.hook not in known:
        near = did_you_mean(filters.hook, known)
        output.complain(f"there is no hook {filters.hook!r} at the moment, unless a session or project has it{near}")
