"""watch: decisions, changes and operations as they happen, one line each.  Read-only; a reader that lags is told so."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hooklatch.cli.hooks.hooks import check_event
from hooklatch.cli.live.feed import AGAIN, is_passing
from hooklatch.cli.live.watch_lines import KINDS, Layout, layout_for, lines_of, record_of, titles
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.look import short_revision, width_of
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.record_filters import add_choices, filters_of
from hooklatch.cli.terminal.requests import CommandLink, administrator
from hooklatch.core.text import did_you_mean
from hooklatch.errors import HooklatchError
from hooklatch.record.files.reading import Filters, matches

__all__ = ["add_watch"]

OF_WATCH = ("gone", "back")  # kinds of what no daemon announces
TOPICS = ["registry", "decisions", "operations"]


def add_watch(parser: Parser) -> None:
    parser.runs(watch, example="hooklatch watch --verdict deny", exits=(Exit.UNAVAILABLE,))
    add_choices(parser, KINDS)
    parser.add_argument("--count", metavar="N", type=at_least_one, help="end after N lines")


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines over 0")
    return int(text)


def watch(arguments: argparse.Namespace) -> int:
    """Print what happens and matches the filters until interrupted, or until the output is closed."""
    filters = filters_of(arguments)
    shown = 0
    try:
        for announcement in announcements(arguments, filters):
            if is_wanted(announcement, filters):
                show(announcement, is_json=arguments.json)
                shown += announcement.get("kind") not in OF_WATCH
            if shown == arguments.count or not output.has_reader():
                break
    except KeyboardInterrupt:
        return Exit.OK  # the normal way to stop watching
    return Exit.OK


def announcements(arguments: argparse.Namespace, filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield what is announced; for a person also by the next daemon, when one has ended.

    Raises:
        HooklatchError: no daemon is reachable; elsewhere than at a terminal, also where one has ended.
    """
    is_for_person = width_of(sys.stdout) is not None and not arguments.json
    is_first, is_gone = True, False
    while True:
        try:
            with administrator(arguments) as link:
                if is_first:
                    check_names(link, filters)
                revision = link.ask("subscribe", topics=TOPICS)["revision"]
                if is_first:
                    output.complain(f"watching {link.path} from revision {revision}; Ctrl-C ends")
                    if is_for_person:
                        output.say(*titles(layout()))
                else:
                    yield of_watch("back", f"a daemon listens, with revision {short_revision(revision)}")
                is_first = is_gone = False
                while True:
                    yield link.announcement()
        except HooklatchError as error:
            if is_first or not is_for_person or not is_passing(error):
                raise
            if not is_gone:
                yield of_watch(
                    "gone", "the daemon has ended; the next one is waited for (`hooklatch log` has what was decided)"
                )
            is_gone = True
        time.sleep(AGAIN)


def of_watch(kind: str, text: str) -> dict[str, Any]:
    """Return what `watch` itself has to say, as an announcement."""
    return {"topic": "operations", "kind": kind, "text": text}


def is_wanted(announcement: dict[str, Any], filters: Filters) -> bool:
    """Return whether an announcement matches; that something was left out always does: it may have matched."""
    is_gap = "missed" in announcement or "resync" in announcement or announcement.get("kind") in OF_WATCH
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
