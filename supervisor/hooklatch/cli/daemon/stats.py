"""The command `stats`: how often each hook refused, and who was refused what, from the record and without a daemon.

A daemon that is reachable adds the hooks that were never called.
"""

from __future__ import annotations

import argparse
import sys

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.agent_session import add_session, look_at_session, read_session
from hooklatch.cli.terminal.look import format_moment, paint_text, terminal_width
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import clip_width, parse_record_time, record_folder
from hooklatch.cli.terminal.requests import ask_administrator
from hooklatch.core.text import format_count
from hooklatch.errors import HooklatchError
from hooklatch.record.storage.reading import MOMENTS, NoRecordError, read_forwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hooklatch.core.answers import CountedName, CountsAnswer, GuardCounts, InsteadCounts

__all__ = ["add_stats", "count_refusals"]

BY = ("guard", "tool", "agent", "project", "reason")
GUARD_TITLES = (
    "GUARD", "CALLS", "DENIES", "ASKS", "ALLOWS", "WARNINGS", "WOULD", "FAILURES", "INSTEAD", "LAST REFUSAL",
)  # fmt: skip
GUARD_DROP = ("ALLOWS", "WARNINGS", "WOULD", "CALLS", "FAILURES", "INSTEAD")
NAME_DROP = ("PASSES", "ALLOWS")
MAX_NAME = 60  # columns of a reason, which may be as long as its author likes
MAX_LAST = 48


def add_stats(parser: Parser) -> None:
    parser.runs(run_stats, example="hooklatch stats --since 7d --by tool", exits=(Exit.NO_INPUT,))
    parser.prints("core.answers:CountsAnswer")
    parser.add_argument(
        "--since", metavar="WHEN", type=parse_record_time,
        help=f"a moment such as {MOMENTS} (default: all that the record has)",
    )  # fmt: skip
    parser.add_argument("--by", choices=BY, default="guard", help="what to count by (default: guard)")
    parser.add_argument("--record", metavar="DIR", help="the record's directory (default: the daemon's)")
    add_session(parser)


def run_stats(arguments: argparse.Namespace) -> int:
    from hooklatch.record.storage.counting import Hours, count_lines, summarize_counts  # they need msgspec
    from hooklatch.record.storage.suggestions import SuggestionCounter

    hours, since, suggestions = Hours(), arguments.since or "", SuggestionCounter()
    known: list[str] | None
    if arguments.session is not None:
        if (session := look_at_session(arguments)) is None:
            return Exit.OK
        count_lines([line for line, _ in read_session(session)][::-1], hours, since=since, suggestions=suggestions)
        known, name = session.guards, session.session or "(none yet)"
        title = f"{format_count(len(known), 'guard')} in session {name}"
    else:
        try:
            count_lines(read_forwards(record_folder(arguments)), hours, since=since, suggestions=suggestions)
        except NoRecordError as error:
            raise CommandError(Exit.NO_INPUT, str(error)) from None
        known, title = None if arguments.record else list_known_hooks(arguments), ""
    counts = summarize_counts(hours, since=since, known=known, suggestions=suggestions)
    lines = (title,) if title else ()
    return output.say_result(counts, *lines, is_json=arguments.json, show=lambda: print_counts(counts, arguments.by))


def list_known_hooks(arguments: argparse.Namespace) -> list[str] | None:
    """Return the hooks that the daemon has; None if none is reachable."""
    try:
        return [hook["name"] for hook in ask_administrator(arguments, "hooks")["hooks"] if hook["enabled"]]
    except HooklatchError as error:
        output.print_error(f"which hooks were never called is not known: {error}")
        return None


def print_counts(counts: CountsAnswer, by: str) -> None:
    verdicts = ", ".join(f"{word} {count}" for word, count in sorted(counts["verdicts"].items()))
    since = format_moment(counts["since"] or counts["first"]) if counts["first"] else ""
    output.print_line(format_count(counts["decisions"], "decision"), f" since {since}: {verdicts}" if since else "")
    if by == "guard":
        rows = [list_guard_cells(guard) for guard in counts["guards"]]
        if rows:
            output.say_table(GUARD_TITLES, rows, drop=GUARD_DROP)
    else:
        named: Mapping[str, Sequence[CountedName]] = {
            "tool": counts["tools"], "agent": counts["agents"], "project": counts["projects"],
            "reason": counts["reasons"],
        }  # fmt: skip
        rows = [list_name_cells(row) for row in named[by]]
        if rows:
            output.say_table((by.upper(), "DECISIONS", "DENIES", "ASKS", "ALLOWS", "PASSES"), rows, drop=NAME_DROP)
    if counts["never"]:
        output.print_line(f"never called: {', '.join(counts['never'])}")
    if counts["unread"]:
        text = f"{format_count(counts['unread'], 'line')} of the record could not be read: hooklatch log verify"
        output.print_line(paint_text(text, "bad"))


def shorten(text: str, width: int) -> str:
    return clip_width(text, width) if terminal_width(sys.stdout) is not None else text


def count_refusals(verdicts: Mapping[str, int]) -> int:
    return verdicts.get("deny", 0) + verdicts.get("halt", 0)


def list_guard_cells(guard: GuardCounts) -> tuple[object, ...]:
    verdicts, last = guard["verdicts"], guard["last_refusal"]
    denies = count_refusals(verdicts)
    would = ", ".join(f"{word} {count}" for word, count in sorted(guard["would"].items()))
    shown = f"{format_moment(last['at'], is_brief=True)}  {shorten(last['subject'], MAX_LAST)}" if last else None
    return (
        guard["name"].removeprefix("global/"), guard["calls"], paint_text(denies, "bad") if denies else 0,
        verdicts.get("ask", 0), verdicts.get("allow", 0), guard["warnings"], would or None,
        paint_text(guard["failures"], "bad") if guard["failures"] else 0, format_instead(guard["instead"]), shown,
    )  # fmt: skip


def format_instead(counts: InsteadCounts | None) -> str | None:
    """Return how many of the commands that a guard named were run; None if it named none."""
    if counts is None or not counts["offered"]:
        return None
    unknown = f", {counts['unknown']} unknown" if counts["unknown"] else ""
    return f"{counts['taken']} of {counts['offered']} taken{unknown}"


def list_name_cells(row: CountedName) -> tuple[object, ...]:
    verdicts = row["verdicts"]
    return (
        shorten(output.escape_invisible(row["name"]), MAX_NAME), row["decisions"], count_refusals(verdicts),
        verdicts.get("ask", 0), verdicts.get("allow", 0), verdicts.get("pass", 0),
    )  # fmt: skip
