"""The command `watch`: decisions, changes and operations as they happen, a line each.

A reader that is too slow gets a line with the number of lines that it missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hooklatch.cli.hooks.hooks import check_event
from hooklatch.cli.live.feed import RETRY_INTERVAL, is_transient
from hooklatch.cli.live.watch_lines import (
    KINDS,
    WatchLayout,
    convert_to_record,
    format_announcement,
    layout_for_width,
    list_titles,
)
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.look import shorten_revision, terminal_width
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.record_filters import add_choices, read_filters
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.text import suggest_name
from hooklatch.errors import HooklatchError
from hooklatch.record.storage.reading import Filters, matches_filters

__all__ = ["add_watch"]

OF_WATCH = ("gone", "back")  # kinds of lines that this command adds to the daemon's
TOPICS = ["registry", "decisions", "operations"]


def add_watch(parser: Parser) -> None:
    parser.runs(run_watch, example="hooklatch watch --verdict deny", exits=(Exit.UNAVAILABLE,))
    parser.prints(
        "client.protocol.decisions:AnnouncedDecision",
        "core.answers:AnnouncedChange",
        "core.answers:AnnouncedOperation",
        "core.answers:MissedLines",
        "core.answers:ResyncLine",
    )
    add_choices(parser, KINDS)
    parser.add_argument("--count", metavar="N", type=parse_positive_count, help="end after N lines")


def parse_positive_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines over 0")
    return int(text)


def run_watch(arguments: argparse.Namespace) -> int:
    """Print each announcement that matches the filters, until interrupted or until the output is closed."""
    filters = read_filters(arguments)
    shown = 0
    try:
        for announcement in read_announcements(arguments, filters):
            if is_wanted(announcement, filters):
                print_announcement(announcement, is_json=arguments.json)
                shown += announcement.get("kind") not in OF_WATCH
            if shown == arguments.count or not output.has_reader():
                break
    except KeyboardInterrupt:
        return Exit.OK  # the normal way to stop watching
    return Exit.OK


def read_announcements(arguments: argparse.Namespace, filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield announcements; at a terminal also those of the next daemon after one has ended.

    Raises:
        HooklatchError: no daemon is reachable, or, without a terminal, the daemon has ended.
    """
    is_for_person = terminal_width(sys.stdout) is not None and not arguments.json
    is_first, is_gone = True, False
    while True:
        try:
            with connect_administrator(arguments) as link:
                if is_first:
                    check_names(link, filters)
                revision = link.ask("subscribe", topics=TOPICS)["revision"]
                if is_first:
                    output.print_error(f"watching {link.path} from revision {revision}; Ctrl-C ends")
                    if is_for_person:
                        output.print_line(*list_titles(choose_layout()))
                else:
                    yield make_watch_line("back", f"a daemon listens, with revision {shorten_revision(revision)}")
                is_first = is_gone = False
                while True:
                    yield link.announcement()
        except HooklatchError as error:
            if is_first or not is_for_person or not is_transient(error):
                raise
            if not is_gone:
                yield make_watch_line(
                    "gone", "the daemon has ended; the next one is waited for (`hooklatch log` has what was decided)"
                )
            is_gone = True
        time.sleep(RETRY_INTERVAL)


def make_watch_line(kind: str, text: str) -> dict[str, Any]:
    """Return a line of this command itself, in the form of an announcement."""
    return {"topic": "operations", "kind": kind, "text": text}


def is_wanted(announcement: dict[str, Any], filters: Filters) -> bool:
    """Return whether an announcement matches; a gap always does, since the missed lines may have matched."""
    is_gap = "missed" in announcement or "resync" in announcement or announcement.get("kind") in OF_WATCH
    return is_gap or matches_filters(convert_to_record(announcement), filters)


def print_announcement(announcement: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        output.say_json(announcement)
        return
    now = datetime.now(UTC).isoformat()  # a change and a gap are announced without a time
    for pieces in format_announcement({"at": now, **announcement}, choose_layout()):
        output.print_line(*pieces)


def choose_layout() -> WatchLayout:
    """Return the columns for the terminal at its width now, or for a pipe."""
    return layout_for_width(terminal_width(sys.stdout))


def check_names(link: AdminConnection, filters: Filters) -> None:
    """Reject an unknown event, and warn of an unknown hook: silence would read as "nothing happens".

    Raises:
        CommandError: the event does not exist.
    """
    if filters.event is not None:
        check_event(link, filters.event)
    if filters.hook is None:
        return
    known = {name for hook in link.ask("hooks")["hooks"] for name in (hook["id"], hook["name"])}
    if filters.hook not in known:
        warning = f"there is no hook {filters.hook!r} at the moment, unless a session or project has it"
        output.print_error(f"{warning}{suggest_name(filters.hook, known)}")
