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
from hooklatch.core.hooks.names import quote_name
from hooklatch.core.light_json import is_list, quote_unicode, serialize_json
from hooklatch.core.outcome_texts import describe_call, has_failed, read_hook_name
from hooklatch.core.subject import read_subject, read_tool_name
from hooklatch.core.text import suggest_name
from hooklatch.errors import HooklatchError
from hooklatch.paths import state_dir
from hooklatch.record.storage.reading import KINDS, MOMENTS, Filters, read_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from hooklatch.record.findings import ChainWitness

__all__ = [
    "SUGGESTION_RECORDS", "add_filters", "clip_width", "add_moments", "list_asked_names", "read_filters",
    "parse_record_time", "record_folder", "make_unknown_name_error", "parse_witness", "LABELS",
    "format_record", "list_line_pieces", "print_record",
]  # fmt: skip

WITNESS = r"([1-9]\d*):([0-9a-f]{16,64})"
SHOWN = 20  # records to show by default
SUGGESTION_RECORDS = 20_000  # newest records to search for a name similar to an unknown one
FILTERS = (
    ("session", "ID", "only fires of this session"),
    ("hook", "ID", "only decisions for which this hook was called; `global/ID` names its layer too"),
    ("by", "HOOK", "only what this hook decided"),
    ("event", "NAME", "only this event"),
    ("tool", "NAME", "only calls of this tool, by the agent's name for it"),
    ("agent", "NAME", "only events of this agent's program, such as claude-code"),
    ("text", "TEXT", "only records with this text in them, such as a part of the command, in capitals or not"),
)
CHOICES = (
    ("verdict", "V", "pass, allow, deny, ask, halt or claim"),
    ("cause", "C", "policy, or the failure: crash, timeout, load, overload, payload, no_daemon ..."),
)
TIMED = ("decision_id", "project", "since", "until")  # options that a command without a past does not have
NAMES = (
    ("event", "event", "event", Exit.USAGE),
    ("hook", "hook", "hook", Exit.NO_INPUT),
    ("by", "hook", "hook", Exit.NO_INPUT),  # one that was called, and has decided nothing, is known
    ("tool", "tool", "tool", Exit.NO_INPUT),
    ("agent", "agent", "agent", Exit.NO_INPUT),
    ("session", "session", "session", Exit.NO_INPUT),
    ("decision_id", "decision_id", "decision", Exit.NO_INPUT),
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
    where = "only of agents in this folder, or below it"
    parser.add_argument("--project", metavar="DIR", type=os.path.abspath, help=where)
    add_moments(parser)
    parser.add_argument(
        "-n", metavar="N", dest="number", type=parse_filter_count, default=SHOWN, help="the newest N (20); 0: all"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="then show new records as they are written, until Ctrl-C"
    )


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
    if arguments.record:
        return str(arguments.record)
    folder = os.path.join(state_dir(os.environ), "record")
    if arguments.runtime_dir is None:
        return folder
    from hooklatch.cli.terminal.requests import ask_administrator  # imported here: most have no --runtime-dir

    try:
        return str(ask_administrator(arguments, "status")["record"]["folder"])
    except HooklatchError as error:  # the record of a daemon that has ended is still to be read
        print_error(f"this is the record in {folder}: {error}")
        return folder


def list_asked_names(filters: Filters) -> Iterator[AskedName]:
    """Yield the names that the filters give, which some record should have."""
    for option, field, label, code in NAMES:
        name: str | None = getattr(filters, option)
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
DECISIONS = ("decision", "abandoned")
USUAL = "pre_tool_use"  # the event that the line of a decision does not name
VERDICT = 5  # columns of a verdict
LEAST_DECIDED = 16  # columns for who decided and why; with less what was judged has all
FACTS = (
    ("instead", "instead"), ("decision", "decision_id"), ("entry", "seq"), ("event", "event"), ("by", "hook"),
    ("layer", "layer"), ("revision", "revision"), ("session", "session"), ("host", "host"), ("cwd", "cwd"),
    ("digest", "payload_digest"),
)  # fmt: skip
REVISIONS = ("revision", "previous")
BOOKKEEPING = ("segment", "started", "source", "registry", "settings")  # kinds of which a terminal has a line each
DIGEST = "[0-9a-f]{64}"
MAX_FACT, BEGINNING = 300, 60  # characters of a fact in a line, and of a longer one, such as the text of a guard
SHORT = 12  # digits of a digest at a terminal, as in `status`


def print_record(record: dict[str, Any], *, is_json: bool, is_whole: bool, of: str = "") -> None:
    """Print a record as a line, with its details if `is_whole`, or as JSON.  `of` names its host in a fleet."""
    if is_json:
        output.say_json(record)
        return
    width = look.terminal_width(sys.stdout)
    output.print_line(*list_line_pieces(record, None if is_whole else width, of=of))
    if is_whole:
        output.say_lines(*list_record_details(record), width=LABELS)


def list_line_pieces(record: Mapping[str, Any], width: int | None, *, of: str = "") -> list[str]:
    """Return the pieces of the line of a record, or of an announced decision, that fit `width` columns.

    That of a decision has what was judged right behind its verdict.  Without a `width` nothing is cut.
    """
    start = [look.paint_text(look.format_moment(record.get("at"), is_brief=True), "quiet"), f"  {of}"]
    if record.get("kind") not in DECISIONS and not (record.get("kind") == "ask" and "event" in record):
        facts = format_facts(record)
        if width is not None and record.get("kind") in BOOKKEEPING:
            facts = clip_width(facts, width - sum(map(measure_width, start)))
        return [*start, facts]
    word = str(record.get("verdict") or ("asks" if record["kind"] == "ask" else record["kind"]))
    padded = f"{word:<{VERDICT}}"
    start += [look.paint_text(padded, look.VERDICTS[word]) if word in look.VERDICTS else padded, "  "]
    subject, decided = read_subject(record), output.escape_invisible(format_decision_text(record))
    if width is None:
        return [*start, subject, "  " * bool(decided), decided, *list_extras(record, None)]
    room = width - sum(map(len, start))
    if measure_width(subject) + measure_width(decided) + 2 * bool(decided) > room:
        # What was judged has somewhat more than the rest.
        share = max(room * 11 // 20, room - measure_width(decided) - 2)
        subject = clip_width(subject, share if room - share >= LEAST_DECIDED else room)
        decided = clip_width(decided, room - measure_width(subject) - 2) if room - share >= LEAST_DECIDED else ""
    room -= measure_width(subject) + measure_width(decided) + 2 * bool(decided)
    return [*start, subject, "  " * bool(decided), decided, *list_extras(record, room)]


def list_extras(record: Mapping[str, Any], room: int | None) -> Iterator[str]:
    """Yield the facts at the end of the line of a decision: those that fit, or all."""
    tool, duration = read_tool_name(record), record.get("duration_ms")
    lasted = f"{duration:.1f} ms" if isinstance(duration, int | float) else None
    for text in (tool, lasted, record.get("decision_id"), record.get("session") or record.get("host")):
        if isinstance(text, str) and text:
            shown = f"  {output.escape_invisible(text)}"
            if room is not None and (room := room - measure_width(shown)) < 0:
                return
            yield look.paint_text(shown, "quiet")


def format_decision_text(record: Mapping[str, Any]) -> str:
    """Return who decided, why, and what to run instead; the event, where it is not the usual one."""
    event, cause, reason, instead = (record.get(key) for key in ("event", "cause", "reason", "instead"))
    hook = read_hook_name(record).removeprefix("global/")
    known = (event if event != USUAL else "", f"by {hook}" if hook else "")
    parts = [*filter(None, known), *([f"cause {cause}"] if cause not in (None, "policy", "abandoned") else [])]
    return ", ".join(map(str, parts)) + (f": {reason}" if reason else "") + (f"; instead: {instead}" if instead else "")


def measure_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # for terminals, as below

    return cell_len(text)


def clip_width(text: str, width: int) -> str:
    """Return a text in at most `width` columns; of a longer one the beginning, with an ellipsis."""
    if measure_width(text) <= width:
        return text
    if text.isascii():
        return f"{text[: max(width - 1, 0)].rstrip()}…"
    from hooklatch.cli.terminal.tables import clip_cell_text

    return clip_cell_text(text, width)


def list_record_details(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the details that a decision's line has no room for, or that few people look for."""
    for label, field in FACTS:
        if record.get(field) is not None:
            yield label, format_record_value(record[field])
    for outcome in record.get("outcomes", []):
        yield "asked", describe_call(outcome)
        if has_failed(outcome):
            yield "see", f"hooklatch hooks show {quote_name(read_hook_name(outcome))}"
    for warning in record.get("warnings", []):
        yield "warning", warning
    for label, field in (("payload", "excerpt"), ("payload", "excerpt_cut")):
        if record.get(field) is not None:
            yield label, format_record_value(record[field])


def format_record(record: Mapping[str, Any]) -> str:
    """Return the whole line of a record as text."""
    return "".join(list_line_pieces(record, None))


def format_facts(record: Mapping[str, Any]) -> str:
    facts = ((key, format_fact(key, value)) for key, value in record.items() if key not in PLACE)
    fields = ", ".join(f"{key} {text}" for key, text in facts if text)
    return f"{record.get('kind')}" + (f": {fields}" if fields else "")


def format_fact(key: str, value: object) -> str:
    """Return a fact for people: empty for None, short at a terminal, and a moment as a date."""
    if value is None:
        return ""
    if key in REVISIONS and isinstance(value, int):
        return look.shorten_revision(value)
    if key == "until" and isinstance(value, int | float):
        return look.format_moment(value)
    if is_list(value):
        names = [format_record_value(name) for name in value]
        value = " ".join(
            quote_name(name) if isinstance(each, str) else name for name, each in zip(names, value, strict=True)
        )
    if isinstance(value, str) and re.fullmatch(DIGEST, value) and look.is_terminal(sys.stdout):
        return value[:SHORT]
    text = look.shorten_path(format_record_value(value))
    if len(text) <= MAX_FACT:
        return text
    return f"{text.partition(chr(10))[0][:BEGINNING]}… ({len(text)} characters; --json has all)"


def format_record_value(value: object) -> str:
    return value if isinstance(value, str) else serialize_json(value, quote_unicode)
