"""The command `watch`: decisions, changes and operations as they happen, a line each.

A reader that is too slow gets a line with the number of lines that it missed.  A decision has the line that `log` has.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hooklatch.cli.hooks.hooks import check_event
from hooklatch.cli.hooks.status import format_diagnostic_place
from hooklatch.cli.live.feed import RETRY_INTERVAL, is_transient
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.bell import AskBell, add_bell_option
from hooklatch.cli.terminal.look import format_moment, paint_text, shorten_revision, terminal_width
from hooklatch.cli.terminal.parser import Exit, Parser
from hooklatch.cli.terminal.records import add_choices, list_line_pieces, read_filters
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.text import suggest_name
from hooklatch.errors import HooklatchError
from hooklatch.record.storage.reading import Filters, matches_filters

if TYPE_CHECKING:
    from hooklatch.cli.terminal.look import Meaning

__all__ = ["KINDS", "list_announcement_lines", "add_watch"]

KINDS = (
    "decision", "registry", "suspended", "resumed", "quarantined", "released", "reloaded", "fault", "mended",
    "acknowledged",
)  # fmt: skip
OPERATIONS: Mapping[str, Meaning] = {
    "suspended": "warning", "resumed": "good", "quarantined": "bad", "released": "good", "fault": "bad",
    "mended": "good", "acknowledged": "good", "missed": "warning", "wrong": "bad", "gone": "bad", "back": "good",
}  # fmt: skip
KIND = 12  # columns of the kind, on a line that is not a decision's


def convert_to_record(announcement: Mapping[str, Any]) -> dict[str, Any]:
    """Return an announcement with the keys of the record, so that the same filters apply."""
    if announcement["topic"] == "decisions":
        envelope = {"at": announcement.get("at"), "session": announcement.get("session_id")}
        facts = {key: announcement[key] for key in ("tool", "subject", "host") if announcement.get(key) is not None}
        return {"kind": "decision", **announcement.get("decision", {}), **facts, **envelope}
    if announcement["topic"] == "registry":
        return {"kind": "registry", **announcement}
    return dict(announcement)


def list_announcement_lines(announcement: Mapping[str, Any], width: int | None) -> Iterator[list[str]]:
    """Yield the pieces of each line of an announcement; a decision is one line, and fits `width` columns if given."""
    if announcement["topic"] == "decisions" and "decision" in announcement:
        yield list_line_pieces(convert_to_record(announcement), width)
        return
    at = paint_text(format_moment(announcement.get("at"), is_brief=True), "quiet")
    kind, text = format_headline(announcement)
    wrong = [("wrong", format_diagnostic_place(diagnostic)) for diagnostic in announcement.get("diagnostics", ())]
    for word, words in ((kind, text), *wrong):
        meaning = OPERATIONS.get(word)
        yield [at, "  ", paint_text(f"{word:<{KIND}}", meaning) if meaning is not None else f"{word:<{KIND}}", words]


def format_headline(announcement: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of an announcement in a word, and its text."""
    topic = announcement["topic"]
    if "missed" in announcement:
        return "missed", f"{announcement['missed']} of {topic}: this reader was too slow (`hooklatch log` has them)"
    if "resync" in announcement:
        return (
            "missed",
            "changes of the hooks: this reader was too slow; now they are at "
            f"{shorten_revision(announcement['resync'])}",
        )
    if topic == "registry":
        return "hooks", f"revision {shorten_revision(announcement['revision'])}: {format_changes(announcement)}"
    kind = str(announcement.get("kind"))
    hook = announcement.get("hook")
    which = "every hook" if hook == "*" else str(hook)
    match kind:
        case "suspended":
            until = format_moment(announcement["until"], is_brief=True)
            return kind, f"{which} until {until}: {announcement['reason']}"
        case "resumed" | "quarantined" | "released":
            return kind, f"{which}: {announcement['why']}"
        case "reloaded":
            wrong = len(announcement["diagnostics"])
            result = f"{wrong} wrong" if wrong else "nothing is wrong"
            changes = format_changes(announcement) or "no change"
            return kind, f"revision {shorten_revision(announcement['revision'])}: {changes}; {result}"
        case "fault" | "mended" | "acknowledged" | "gone" | "back":
            return kind, str(announcement["text"])
        case _:  # an operation of a newer daemon
            fields = {name: value for name, value in announcement.items() if name not in ("topic", "at", "kind")}
            return kind, ", ".join(f"{name} {value}" for name, value in fields.items())


def format_changes(announcement: Mapping[str, Any]) -> str:
    kinds = ("added", "removed", "changed")
    return "; ".join(f"{kind} {', '.join(announcement[kind])}" for kind in kinds if announcement[kind])


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
    add_bell_option(parser)


def parse_positive_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines over 0")
    return int(text)


def run_watch(arguments: argparse.Namespace) -> int:
    filters = read_filters(arguments)
    shown = 0
    try:
        with AskBell(arguments) as bell:
            for announcement in read_announcements(arguments, filters, bell):
                if is_wanted(announcement, filters):
                    print_announcement(announcement, is_json=arguments.json)
                    shown += announcement.get("kind") not in OF_WATCH
                if shown == arguments.count or not output.has_reader():
                    break
    except KeyboardInterrupt:
        return Exit.OK  # the normal way to stop watching
    return Exit.OK


def read_announcements(arguments: argparse.Namespace, filters: Filters, bell: AskBell) -> Iterator[dict[str, Any]]:
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
                revision = link.ask("subscribe", topics=[*TOPICS, *bell.topics])["revision"]
                bell.follow(link)
                if is_first:
                    output.print_error(f"watching {link.path} from revision {revision}; Ctrl-C ends")
                else:
                    yield make_watch_line("back", f"a daemon listens, with revision {shorten_revision(revision)}")
                is_first = is_gone = False
                while True:
                    announcement = link.announcement()
                    if announcement["topic"] == "asks":
                        bell.take(link, announcement)
                    else:
                        yield announcement
        except HooklatchError as error:
            if is_first or not is_for_person or not is_transient(error):
                raise
            if not is_gone:
                yield make_watch_line(
                    "gone", "the daemon has ended; the next one is waited for (`hooklatch log` has what was decided)"
                )
            is_gone = True
            bell.show(0)
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
    moment = {"at": time.time()}  # a change and a gap are announced without a time
    for pieces in list_announcement_lines({**moment, **announcement}, terminal_width(sys.stdout)):
        output.print_line(*pieces)


def check_names(link: AdminConnection, filters: Filters) -> None:
    """Reject an unknown event, and warn of an unknown hook: silence would read as "nothing happens"."""
    if filters.event is not None:
        check_event(link, filters.event)
    hook_name = filters.hook or filters.by
    if hook_name is None:
        return
    known = {name for hook in link.ask("hooks")["hooks"] for name in (hook["id"], hook["name"])}
    if hook_name not in known:
        warning = f"there is no hook {hook_name!r} at the moment, unless a session or project has it"
        output.print_error(f"{warning}{suggest_name(hook_name, known)}")
