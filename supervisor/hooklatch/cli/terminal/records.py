"""The records that commands show: their filters as options, their lines for people, and their JSON.

No field of a record is trusted to be there.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.output import print_error
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.client.protocol.admin_exchange import encode_argument
from hooklatch.core.hooks.names import quote_name, read_full_name
from hooklatch.core.light_json import is_list, quote_unicode, serialize_json
from hooklatch.core.text import suggest_name
from hooklatch.errors import HooklatchError
from hooklatch.paths import state_dir
from hooklatch.record.storage.reading import KINDS, MOMENTS, Filters, read_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from hooklatch.record.findings import ChainWitness

__all__ = [
    "SUGGESTION_RECORDS", "add_filters", "add_moments", "list_asked_names", "read_filters", "parse_record_time",
    "record_folder", "make_unknown_name_error", "parse_witness", "LABELS", "format_record", "print_record",
]  # fmt: skip

WITNESS = r"([1-9]\d*):([0-9a-f]{16,64})"
SHOWN = 20  # records to show by default
SUGGESTION_RECORDS = 20_000  # newest records to search for a name similar to an unknown one
FILTERS = (
    ("session", "ID", "only fires of this session"),
    ("hook", "ID", "only decisions for which this hook was called; `global/ID` names its layer too"),
    ("event", "NAME", "only this event"),
)
CHOICES = (
    ("verdict", "V", "pass, allow, deny, ask, halt or claim"),
    ("cause", "C", "policy, or the failure: crash, timeout, load, overload, payload, no_daemon ..."),
)
TIMED = ("decision_id", "since", "until")  # options that a command without a past does not have
NAMES = (
    ("event", "event", Exit.USAGE),
    ("hook", "hook", Exit.NO_INPUT),
    ("session", "session", Exit.NO_INPUT),
    ("decision_id", "decision", Exit.NO_INPUT),
)


class AskedName:
    """A name that a filter gives: the record's field, its label, and the exit code if no record has the name."""

    def __init__(self, field: str, label: str, code: Exit, name: str) -> None:
        self.field, self.label, self.code, self.name = field, label, code, name

    @property
    def alone(self) -> Filters:
        """Return a filter for this name and nothing else."""
        return Filters().but(**{self.field: self.name})


def add_choices(parser: Parser, kinds: Sequence[str]) -> None:
    """Add the options that choose records by their content; `kinds` are those that may come."""
    for name, metavar, help_text in FILTERS:
        parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    for name, metavar, help_text in CHOICES:
        parser.add_argument(f"--{name}", metavar=metavar, type=make_choice_type(name), help=help_text)
    some = f"{', '.join(kinds[:3])} ...; a wrong one lists all"
    parser.add_argument("--kind", metavar="K", type=make_choice_type("kind", kinds), help=some)


def add_filters(parser: Parser) -> None:
    """Add the options that choose records, by their content and their time."""
    add_choices(parser, KINDS)
    text = "only this decision, with what each hook said"
    parser.add_argument("--decision", metavar="ID", dest="decision_id", help=text)
    add_moments(parser)
    parser.add_argument(
        "-n", metavar="N", dest="number", type=parse_filter_count, default=SHOWN, help="the newest N (20); 0: all"
    )
    parser.add_argument("--follow", action="store_true", help="then show new records as they are written, until Ctrl-C")


def add_moments(parser: Parser) -> None:
    """Add the options that choose records by their time."""
    parser.add_argument("--since", metavar="WHEN", type=parse_record_time, help=f"a moment such as {MOMENTS}")
    parser.add_argument("--until", metavar="WHEN", type=parse_record_time, help="likewise")


def read_filters(arguments: argparse.Namespace) -> Filters:
    """Return the filters that the options give.

    Raises:
        InvalidPayloadError: a name is not UTF-8, so no record has it.
    """
    values: dict[str, Any] = {
        name: encode_argument(getattr(arguments, name))
        for name in (*(row[0] for row in FILTERS), *(row[0] for row in CHOICES), "kind", *TIMED)
        if hasattr(arguments, name)
    }
    return Filters(**values)


def record_folder(arguments: argparse.Namespace) -> str:
    """Return the folder of the record: the one of --record, of the daemon at --runtime-dir, or the user's own."""
    from hooklatch.cli.terminal.requests import connect_administrator  # imported here: most have no --runtime-dir

    if arguments.record:
        return str(arguments.record)
    folder = os.path.join(state_dir(os.environ), "record")
    if arguments.runtime_dir is None:
        return folder
    try:
        with connect_administrator(arguments) as link:
            return str(link.ask("status")["record"]["folder"])
    except HooklatchError as error:  # the record of a daemon that has ended is still to be read
        print_error(f"this is the record in {folder}: {error}")
        return folder


def list_asked_names(filters: Filters) -> Iterator[AskedName]:
    """Yield the names that the filters give, which some record should have."""
    for field, label, code in NAMES:
        name: str | None = getattr(filters, field)
        if name is not None:
            yield AskedName(field, label, code, name)


def make_unknown_name_error(asked: AskedName, known: set[str], where: str) -> CommandError | None:
    """Return the error for a name that no record has: an empty result would read as "that never happened".

    Return None if the name may be right all the same: a standard event that was never fired.  `known` are names that
    records do have.
    """
    from hooklatch.core.hooks.catalogue import Catalogue  # imported here: most names are right

    standard = set(Catalogue.standard()) if asked.field == "event" else set[str]()
    if asked.name in standard:
        return None
    suggestion = suggest_name(asked.name, known | standard)
    return CommandError(asked.code, f"no record in {where} has the {asked.label} {asked.name!r}{suggestion}")


def parse_record_time(text: str) -> str:
    """Parse a time, and return it as the record spells it."""
    from datetime import UTC, datetime  # imported here, and below: few commands name a moment

    try:
        return read_moment(text, datetime.now(UTC))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def list_choices(label: str) -> tuple[str, ...]:
    """Return the words of one of CHOICES."""
    from typing import get_args  # imported here, as what decides: few commands choose by them

    from hooklatch.core.messages import Cause, DecisionVerdict, Mismatch

    return get_args(DecisionVerdict) if label == "verdict" else (*get_args(Cause), *get_args(Mismatch))


def make_choice_type(label: str, kinds: Sequence[str] = ()) -> Callable[[str], str]:
    """Return an argparse type that accepts one of these words, or of CHOICES."""

    def check_choice(text: str) -> str:
        known = kinds or list_choices(label)
        if text not in known:
            raise argparse.ArgumentTypeError(
                f"unknown {label} {text!r}{suggest_name(text, known)}; there are {', '.join(known)}"
            )
        return text

    return check_choice


def parse_filter_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records; write such as 20, or 0 for all")
    return int(text)


def parse_witness(text: str) -> ChainWitness:
    """Parse a record's number and the beginning of its hash."""
    from hooklatch.record.findings import ChainWitness

    match = re.fullmatch(WITNESS, text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not SEQ:HASH, with 16 to 64 hexadecimal digits")
    return ChainWitness(int(match[1]), match[2])


LABELS = 10  # characters of a label beside a value
PLACE = ("seq", "at", "kind", "prev", "hash")
REVISIONS = ("revision", "previous")
DIGEST = "[0-9a-f]{64}"
SHORT = 12  # digits of a digest at a terminal, as in `status`


def print_record(record: dict[str, Any], *, is_json: bool, is_whole: bool, of: str = "") -> None:
    """Print a record as a line, with its details if `is_whole`, or as JSON.  `of` names its host in a fleet."""
    if is_json:
        output.say_json(record)
        return
    output.print_line(*paint_record_line(record, format_record(record, of=of)))
    if is_whole:
        output.say_lines(*list_record_details(record), width=LABELS)


def paint_record_line(record: dict[str, Any], line: str) -> list[str]:
    """Return the line of a record in pieces, with its verdict painted by its meaning."""
    verdict = record.get("verdict")
    if not isinstance(verdict, str) or verdict not in look.VERDICTS:
        return [line]
    before, _, after = line.partition(f"  {verdict}")
    return [f"{before}  ", look.paint_text(verdict, look.VERDICTS[verdict]), after]


def list_record_details(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the details that a decision's line has no room for."""
    for outcome in record.get("outcomes", []):
        hook, duration = find_hook_name(outcome), outcome.get("duration_ms", 0.0)
        cause = outcome.get("cause")
        failure = f" ({cause}: {outcome.get('message', '')})" if cause not in (None, "policy") else ""
        again = " again" * (outcome.get("reinvoked") is True) + " unneeded" * (outcome.get("unneeded") is True)
        lasted = f", {duration:.1f} ms" if isinstance(duration, float | int) else ""
        yield "asked", f"{hook} {outcome.get('verdict') or outcome.get('outcome')}{failure}{again}{lasted}"
        if failure:
            yield "see", f"hooklatch hooks show {quote_name(hook)}"
    for warning in record.get("warnings", []):
        yield "warning", warning
    for label, field in (("payload", "excerpt"), ("payload", "excerpt_cut"), ("cwd", "cwd"), ("host", "host")):
        if record.get(field) is not None:
            yield label, format_record_value(record[field])


def format_record(record: dict[str, Any], *, of: str = "") -> str:
    """Format a record as one line for people; `of` names its host where there are several."""
    start = f"{record.get('at')}  {of}{record.get('seq'):>8}  "
    if record.get("kind") in ("decision", "abandoned"):
        return start + format_decision_text(record)
    facts = ((key, format_fact(key, value)) for key, value in record.items() if key not in PLACE)
    fields = ", ".join(f"{key} {text}" for key, text in facts if text)
    return f"{start}{record.get('kind')}" + (f": {fields}" if fields else "")


def format_fact(key: str, value: object) -> str:
    """Return a fact for people: empty for None, short at a terminal, and a moment as a date."""
    if value is None:
        return ""
    if key in REVISIONS and isinstance(value, int):
        return look.shorten_revision(value)
    if key == "until" and isinstance(value, int | float):
        from datetime import UTC, datetime

        return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if is_list(value):
        return " ".join(
            quote_name(format_record_value(name)) if isinstance(name, str) else format_record_value(name)
            for name in value
        )
    if isinstance(value, str) and re.fullmatch(DIGEST, value) and look.is_terminal(sys.stdout):
        return value[:SHORT]
    return look.shorten_path(format_record_value(value))


def format_decision_text(record: dict[str, Any]) -> str:
    parts = [f"{record.get('verdict', 'abandoned'):<6}  {record.get('event')}"]
    excerpt: dict[str, Any] = record.get("excerpt") or {}
    if isinstance(excerpt.get("tool_name"), str):
        parts[0] += f" {excerpt['tool_name']}"
    if record.get("hook"):
        parts.append(f"by {find_hook_name(record)}")
    if record.get("cause") not in (None, "policy", "abandoned"):
        parts.append(f"cause {record['cause']}")
    if record.get("session"):
        parts.append(f"session {record['session']}")
    reason = record.get("reason")
    return ", ".join(parts) + (f": {reason}" if reason else "")


def find_hook_name(table: dict[str, Any]) -> str:
    """Return the full name of the hook of a decision or an outcome; empty if it has none."""
    return read_full_name(
        *(text if isinstance(text := table.get(key), str) else None for key in ("layer", "hook", "name"))
    )


def format_record_value(value: object) -> str:
    return value if isinstance(value, str) else serialize_json(value, quote_unicode)
