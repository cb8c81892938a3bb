"""The command `watch`: decisions, changes and operations as they happen, a line each.

A reader that is too slow gets a line with the number of lines that it missed.  At a terminal the columns of a decision
share its width, and a reason that does not fit its column is below them.  Elsewhere nothing is cut.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from hooklatch.cli.hooks.hooks import check_event
from hooklatch.cli.hooks.status import format_diagnostic_place
from hooklatch.cli.live.feed import RETRY_INTERVAL, is_transient
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.look import VERDICTS, paint_text, shorten_revision, terminal_width
from hooklatch.cli.terminal.output import escape_invisible
from hooklatch.cli.terminal.parser import Exit, Parser
from hooklatch.cli.terminal.records import add_choices, read_filters
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.text import suggest_name
from hooklatch.errors import HooklatchError
from hooklatch.record.storage.reading import Filters, matches_filters

if TYPE_CHECKING:
    from hooklatch.cli.terminal.look import Meaning

__all__ = ["KINDS", "layout_for_width", "format_announcement", "list_titles", "add_watch"]

KINDS = (
    "decision", "registry", "suspended", "resumed", "quarantined", "released", "reloaded", "fault", "mended",
    "acknowledged",
)  # fmt: skip
OPERATIONS: Mapping[str, Meaning] = {
    "suspended": "warning", "resumed": "good", "quarantined": "bad", "released": "good", "fault": "bad",
    "mended": "good", "acknowledged": "good", "missed": "warning", "wrong": "bad", "gone": "bad", "back": "good",
}  # fmt: skip
KIND = 12  # columns of the kind, on a line that is not a decision's
LEAST_REASON = 12  # columns; with less the reason is left out
REASON = 24  # columns that are kept for it before others get more than they need, where there is room for both
BELOW = " " * 9  # as wide as the time, before a reason below
MAX_BELOW = 3  # lines of a reason below; `hooklatch log` has all of it
WIDE = 120  # columns of a terminal from which on two blanks part the columns


class WatchColumn(NamedTuple):
    """A fact of a decision: its title, and the minimum and the ideal width of its column."""

    title: str
    minimum: int
    ideal: int
    is_number: bool = False


# In the order of the line.  In a narrow terminal those of `DROPPED` are left out, the first one first.
COLUMNS = (
    WatchColumn("TIME", 8, 8),
    WatchColumn("SESSION", 8, 14),
    WatchColumn("EVENT", 12, 18),
    WatchColumn("TOOL", 6, 12),
    WatchColumn("VERDICT", 7, 7),
    WatchColumn("HOOK", 12, 32),
    WatchColumn("CAUSE", 7, 11),
    WatchColumn("MS", 7, 8, is_number=True),
)
DROPPED = ("SESSION", "TOOL", "CAUSE", "MS", "HOOK", "EVENT")
ORDER = ("HOOK", "EVENT", "TOOL", "SESSION", "CAUSE", "MS")  # in which columns get spare width


class WatchLayout(NamedTuple):
    """The columns with their widths, the blanks between them, and the width of the reason.

    Without a `width` nothing is cut: longer values make their column wider.
    """

    width: int | None
    columns: Sequence[tuple[WatchColumn, int]]
    gap: int
    reason: int


def layout_for_width(width: int | None) -> WatchLayout:
    """Return the layout for a terminal of `width` columns, or for a pipe."""
    if width is None:
        return WatchLayout(None, [(column, column.ideal) for column in COLUMNS], 2, 0)
    gap = 2 if width >= WIDE else 1
    columns = list(COLUMNS)
    for title in DROPPED:
        if measure_columns(columns, gap) <= width:
            break
        columns = [column for column in columns if column.title != title]
    widths = {column.title: column.minimum for column in columns}
    spare = width - measure_columns(columns, gap)
    reserved = REASON + gap if spare >= REASON + gap else 0
    spare -= reserved
    for title in ORDER:
        ideal = next((column.ideal for column in columns if column.title == title), 0)
        more = max(0, min(spare, ideal - widths.get(title, ideal)))
        spare -= more
        if more:
            widths[title] += more
    spare += reserved
    reason = spare - gap if spare - gap >= LEAST_REASON else 0
    return WatchLayout(width, [(column, widths[column.title]) for column in columns], gap, reason)


def measure_columns(columns: Sequence[WatchColumn], gap: int) -> int:
    return sum(column.minimum for column in columns) + gap * (len(columns) - 1)


def convert_to_record(announcement: Mapping[str, Any]) -> dict[str, Any]:
    """Return an announcement with the keys of the record, so that the same filters apply."""
    if announcement["topic"] == "decisions":
        envelope = {"at": announcement.get("at"), "session": announcement.get("session_id")}
        return {"kind": "decision", **announcement.get("decision", {}), **envelope}
    if announcement["topic"] == "registry":
        return {"kind": "registry", **announcement}
    return dict(announcement)


def list_titles(layout: WatchLayout) -> list[str]:
    """Return the pieces of the line of titles."""
    values = {column.title: column.title for column, _ in layout.columns} | {"REASON": "REASON"}
    return format_pieces(values, dict.fromkeys(values, "title"), layout)


def format_announcement(announcement: Mapping[str, Any], layout: WatchLayout) -> Iterator[list[str]]:
    """Yield the pieces of each line of an announcement."""
    if announcement["topic"] == "decisions" and "decision" in announcement:
        yield format_decision_pieces(announcement, layout)
        yield from ([BELOW, line] for line in format_reason_below(announcement["decision"], layout))
        return
    time = format_time_of_day(announcement.get("at"))
    texts = [
        format_headline(announcement),
        *(("wrong", format_diagnostic_place(diagnostic)) for diagnostic in announcement.get("diagnostics", ())),
    ]
    for kind, text in texts:
        meaning = OPERATIONS.get(kind)
        head, indent = f"{kind:<{KIND}}", " " * (len(time) + 1 + KIND)
        first, *others = (
            [text] if layout.width is None else wrap_reason(escape_invisible(text), layout.width - len(indent))
        )
        yield [paint_text(f"{time} ", "quiet"), paint_text(head, meaning) if meaning is not None else head, first]
        yield from ([indent, line] for line in others)


def format_decision_pieces(announcement: Mapping[str, Any], layout: WatchLayout) -> list[str]:
    decision: Mapping[str, Any] = announcement["decision"]
    verdict, cause = str(decision.get("verdict")), decision.get("cause")
    by = read_full_name(decision.get("layer"), decision.get("hook"), decision.get("name"))
    values: dict[str, object] = {
        "TIME": format_time_of_day(announcement.get("at")),
        "SESSION": announcement.get("session_id") or announcement.get("host"),
        "EVENT": decision.get("event"),
        "TOOL": announcement.get("tool"),
        "VERDICT": verdict,
        "HOOK": by,
        "CAUSE": cause,
        "MS": f"{decision.get('duration_ms', 0.0):.1f}",
        "REASON": decision.get("reason"),
    }
    meanings: dict[str, Meaning] = {"TIME": "quiet", "MS": "quiet"}
    if verdict in VERDICTS:
        meanings["VERDICT"] = VERDICTS[verdict]
    meanings["CAUSE"] = "quiet" if cause in (None, "policy") else "bad"
    return format_pieces(values, meanings, layout)


def format_pieces(values: Mapping[str, object], meanings: Mapping[str, Meaning], layout: WatchLayout) -> list[str]:
    """Return the pieces of a line with these values, each as wide as its column."""
    cells: list[tuple[str, str]] = []
    for column, width in layout.columns:
        text = escape_invisible(str(values[column.title] or "-"))
        if layout.width is not None:
            text = fit_column(text.removeprefix("global/"), width, is_number=column.is_number)
        else:
            text = text.rjust(width) if column.is_number else text.ljust(width)
        cells.append((column.title, text))
    reason = escape_invisible(str(values["REASON"] or ""))
    if reason and not is_below(reason, layout):
        cells.append(("REASON", reason))
    pieces: list[str] = []
    for index, (title, text) in enumerate(cells):
        shown = text.rstrip() if index == len(cells) - 1 else text
        pieces += [paint_text(shown, meanings[title]) if title in meanings else shown, " " * layout.gap]
    return pieces[:-1]


def is_below(reason: str, layout: WatchLayout) -> bool:
    """Return whether a reason is longer than its column, if there is one."""
    return layout.width is not None and fit_column(reason, layout.reason).rstrip() != reason.rstrip()


def format_reason_below(decision: Mapping[str, Any], layout: WatchLayout) -> list[str]:
    """Return the lines of a reason that does not fit its column."""
    reason = escape_invisible(str(decision.get("reason") or ""))
    if layout.width is None or not is_below(reason, layout):
        return []
    room = max(1, layout.width - len(BELOW))
    lines = wrap_reason(reason[: room * (MAX_BELOW + 1)], room)  # cut first: a reason may be as long as a hook likes
    first, remainder = lines[: MAX_BELOW - 1], " ".join(lines[MAX_BELOW - 1 :])
    return [*first, fit_column(remainder, room).rstrip()] if remainder else first


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
            until = datetime.fromtimestamp(announcement["until"])
            return kind, f"{which} until {until:%H:%M:%S}: {announcement['reason']}"
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


def format_time_of_day(at: str | None) -> str:
    """Return the local time of day of a moment that is spelt as in the record."""
    return f"{datetime.fromisoformat(at).astimezone():%H:%M:%S}" if at else "--:--:--"


def wrap_reason(text: str, width: int) -> list[str]:
    from hooklatch.cli.terminal import tables  # it imports rich, which is for terminals

    return tables.wrap_text(text, width)


def fit_column(text: str, width: int, *, is_number: bool = False) -> str:
    from hooklatch.cli.terminal import tables

    return tables.pad_text(tables.clip_cell_text(text, width), width, is_number=is_number)


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
    """Reject an unknown event, and warn of an unknown hook: silence would read as "nothing happens"."""
    if filters.event is not None:
        check_event(link, filters.event)
    if filters.hook is None:
        return
    known = {name for hook in link.ask("hooks")["hooks"] for name in (hook["id"], hook["name"])}
    if filters.hook not in known:
        warning = f"there is no hook {filters.hook!r} at the moment, unless a session or project has it"
        output.print_error(f"{warning}{suggest_name(filters.hook, known)}")
