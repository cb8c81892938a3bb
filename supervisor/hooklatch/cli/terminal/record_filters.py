"""The filters of commands that show records, as options and as errors."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, get_args

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.output import print_error
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.protocol.admin_exchange import encode_argument
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import Cause, DecisionVerdict
from hooklatch.core.text import suggest_name
from hooklatch.errors import HooklatchError
from hooklatch.paths import state_dir
from hooklatch.record.findings import ChainWitness
from hooklatch.record.storage.reading import KINDS, MOMENTS, Filters, read_moment

__all__ = [
    "SUGGESTION_RECORDS", "AskedName", "add_filters", "add_moments", "list_asked_names", "read_filters",
    "parse_record_time", "record_folder", "make_unknown_name_error", "parse_witness",
]  # fmt: skip

WITNESS = re.compile(r"([1-9]\d*):([0-9a-f]{16,64})")
SHOWN = 20  # records to show by default
SUGGESTION_RECORDS = 20_000  # newest records to search for a name similar to an unknown one
FILTERS = (
    ("session", "ID", "only fires of this session"),
    ("hook", "ID", "only decisions for which this hook was called; `global/ID` names its layer too"),
    ("event", "NAME", "only this event"),
)
CHOICES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("verdict", "V", get_args(DecisionVerdict), "pass, allow, deny, ask, halt or claim"),
    ("cause", "C", get_args(Cause), "policy, or the failure: crash, timeout, ... (see docs/reference/hooks.md)"),
)
TIMED = ("decision_id", "since", "until")  # options that a command without a past does not have
NAMES = (
    ("event", "event", Exit.USAGE),
    ("hook", "hook", Exit.NO_INPUT),
    ("session", "session", Exit.NO_INPUT),
    ("decision_id", "decision", Exit.NO_INPUT),
)


class AskedName(NamedTuple):
    """A name that a filter gives: the record's field, its label, and the exit code if no record has the name."""

    field: str
    label: str
    code: Exit
    name: str

    @property
    def alone(self) -> Filters:
        """Return a filter for this name and nothing else."""
        only_that: dict[str, Any] = {self.field: self.name}
        return Filters(**only_that)


def add_choices(parser: Parser, kinds: Sequence[str]) -> None:
    """Add the options that choose records by their content; `kinds` are those that may come."""
    for name, metavar, help_text in FILTERS:
        parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    for name, metavar, known, help_text in CHOICES:
        parser.add_argument(f"--{name}", metavar=metavar, type=make_choice_type(name, known), help=help_text)
    some = f"{', '.join(kinds[:3])}, ... (see docs/reference/record.md)"
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
    standard = set(Catalogue.standard()) if asked.field == "event" else set[str]()
    if asked.name in standard:
        return None
    suggestion = suggest_name(asked.name, known | standard)
    return CommandError(asked.code, f"no record in {where} has the {asked.label} {asked.name!r}{suggestion}")


def parse_record_time(text: str) -> str:
    """Parse a time, and return it as the record spells it."""
    try:
        return read_moment(text, datetime.now(UTC))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def make_choice_type(label: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return an argparse type that accepts one of these words."""

    def check_choice(text: str) -> str:
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
    match = WITNESS.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not SEQ:HASH, with 16 to 64 hexadecimal digits")
    return ChainWitness(int(match[1]), match[2])
