"""log: shows and verifies the decision record, from its files.  Works without a daemon."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from hooklatch import paths
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import Cause, DecisionVerdict
from hooklatch.core.text import counted, did_you_mean
from hooklatch.record.files.reading import KINDS, Filters, NoRecordError, Tailer, forwards, matching, names, newest
from hooklatch.record.verify import VerifyReport, Witness, verify

__all__ = ["add_acknowledge", "add_log", "add_verify"]

WIDTH = 10  # of the labels
SHOWN = 20  # records to show by default
POLL = 0.2  # seconds between checks for new records
WITNESS = re.compile(r"([1-9]\d*):([0-9a-f]{16,64})")
FILTERS = (
    ("session", "ID", "only fires of this session"),
    ("hook", "ID", "only decisions for which this hook was called; `global/ID` names its layer too"),
    ("event", "NAME", "only this event"),
    ("decision", "ID", "only this decision, with what each hook said"),
)
CHOICES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("verdict", "V", get_args(DecisionVerdict), "pass, allow, deny, ask, halt or claim"),
    ("cause", "C", get_args(Cause), "policy, or the failure: crash, timeout, overload, ... (see docs/hooks.md)"),
    ("kind", "K", KINDS, "decision, abandoned, started, registry, suspended, ... (see docs/record.md)"),
)
LOOKED_AT = 20_000  # newest records to search for a name similar to an unknown one
FIELDS = {"decision": "decision_id"}  # record fields whose option has another name
NAMES = (
    ("event", "event", Exit.USAGE),
    ("hook", "hook", Exit.NO_INPUT),
    ("session", "session", Exit.NO_INPUT),
    ("decision_id", "decision", Exit.NO_INPUT),
)
BELOW = (
    (
        "verify", "daemon.log",
        "find records that were changed, left out, moved, duplicated or cut off, as far as that is possible",
    ),
    (
        "acknowledge", "daemon.log",
        "acknowledge the record's faults that the status shows; this is recorded, and they are no longer shown",
    ),
)  # fmt: skip
PLACE = ("seq", "at", "kind", "prev", "hash")


def add_log(parser: Parser) -> None:
    parser.runs(log, example="hooklatch log --verdict deny --since 1h", exits=(Exit.FINDINGS, Exit.NO_INPUT))
    for name, metavar, help_text in FILTERS:
        parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    for name, metavar, known, help_text in CHOICES:
        parser.add_argument(f"--{name}", metavar=metavar, type=one_of(name, known), help=help_text)
    moments = "a moment such as 2026-01-31 or 2026-01-31T12:00:00Z, or how long ago: 90s, 15m, 2h, 7d"
    parser.add_argument("--since", metavar="WHEN", type=moment, help=moments)
    parser.add_argument("--until", metavar="WHEN", type=moment, help="likewise")
    parser.add_argument("-n", metavar="N", dest="number", type=count, default=SHOWN, help="the newest N (20); 0: all")
    parser.add_argument("--follow", action="store_true", help="then show new records as they are written, until Ctrl-C")
    add_place(parser)
    parser.set_defaults(record=None)
    parser.add_commands(BELOW)


def add_verify(parser: Parser) -> None:
    example = "hooklatch log verify --witness 4711:5b2e0c4f9a6d1e07"
    parser.runs(check, example=example, exits=(Exit.FINDINGS, Exit.NO_INPUT))
    parser.add_argument(
        "--witness", metavar="SEQ:HASH", action="append", type=witness, default=[],
        help="a head that a reply of the daemon carried (its `record`); may be repeated",
    )  # fmt: skip
    add_place(parser)


def add_acknowledge(parser: Parser) -> None:
    example = 'hooklatch log acknowledge --reason "the disk was replaced on Monday"'
    parser.runs(acknowledge, example=example, exits=(Exit.UNAVAILABLE,))
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")


def add_place(parser: Parser) -> None:
    parser.add_argument(
        "--record", metavar="DIR", default=argparse.SUPPRESS,
        help="the record's folder (default: $XDG_STATE_HOME/hooklatch/record)",
    )  # fmt: skip


def moment(text: str) -> str:
    """Parse a time, and return it as the record spells it."""
    try:
        if text[-1:].isdigit() or text.endswith("Z"):
            parsed = datetime.fromisoformat(text).astimezone(UTC)
        else:
            parsed = datetime.now(UTC) - timedelta(seconds=span(text))
    except (argparse.ArgumentTypeError, ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write 2026-01-31T12:00:00Z, or how long ago: 90s, 15m, 2h, 7d"
        ) from None
    return f"{parsed:%Y-%m-%dT%H:%M:%S}.{parsed.microsecond // 1000:03d}Z"


def one_of(what: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return an argparse type that accepts one of these words."""

    def read(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(
                f"unknown {what} {text!r}{did_you_mean(text, known)}; there are {', '.join(known)}"
            )
        return text

    return read


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return int(text)


def witness(text: str) -> Witness:
    match = WITNESS.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not SEQ:HASH, with 16 to 64 hexadecimal digits")
    return Witness(int(match[1]), match[2])


def folder_of(arguments: argparse.Namespace) -> str:
    return arguments.record or os.path.join(paths.state_dir(os.environ), "record")


def log(arguments: argparse.Namespace) -> int:
    """Show records, oldest first."""
    given: dict[str, Any] = {
        FIELDS.get(name, name): getattr(arguments, name)
        for name in (*(one[0] for one in FILTERS), *(one[0] for one in CHOICES), "since", "until")
    }
    filters = Filters(**given)
    folder = folder_of(arguments)
    is_empty = True
    try:
        tailer = Tailer(folder) if arguments.follow else None
        for record in chosen(folder, filters, arguments.number):
            if not output.has_reader():
                return Exit.OK
            is_empty = False
            show(record, is_json=arguments.json, is_whole=filters.decision_id is not None)
        if is_empty and tailer is None:
            check_names(folder, filters)
            output.complain(f"no record in {folder} matches")
        while tailer is not None and output.has_reader():
            for record in matching(tailer.new(), filters):
                show(record, is_json=arguments.json, is_whole=filters.decision_id is not None)
            time.sleep(POLL)
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except KeyboardInterrupt:
        if not arguments.follow:
            raise
    return Exit.OK


def chosen(folder: str, filters: Filters, number: int) -> Iterator[dict[str, Any]]:
    if number == 0:
        yield from matching(forwards(folder), filters)
        return
    records: list[dict[str, Any]] = []
    for record in newest(folder, filters):
        records.append(record)
        if len(records) == number:
            break
    yield from reversed(records)


def check_names(folder: str, filters: Filters) -> None:
    """Reject a filter that names something no record has: an empty result would read as "that never happened".

    Raises:
        CommandError: a filter does.
    """
    standard = set(Catalogue.standard())
    for field, label, code in NAMES:
        name: str | None = getattr(filters, field)
        if name is None:
            continue
        only_that: dict[str, Any] = {field: name}
        if next(newest(folder, Filters(**only_that)), None) is not None:
            continue
        known = names(folder, field, LOOKED_AT)
        if field == "event":
            if name in standard:
                continue
            known |= standard
        raise CommandError(code, f"no record in {folder} has the {label} {name!r}{did_you_mean(name, known)}")


def show(record: dict[str, Any], *, is_json: bool, is_whole: bool) -> None:
    if is_json:
        output.say_json(record)
        return
    output.say(line_of(record))
    if is_whole:
        output.say_lines(*details_of(record), width=WIDTH)


def details_of(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the details that a decision's line has no room for."""
    for one in record.get("outcomes", []):
        failure = f" ({one['cause']}: {one.get('message', '')})" if one.get("cause") not in (None, "policy") else ""
        again = " again" * one.get("reinvoked", False) + " unneeded" * one.get("unneeded", False)
        took = f", {one.get('duration_ms', 0.0):.1f} ms"
        yield "asked", f"{one['layer']}/{one['hook']} {one.get('verdict') or one['outcome']}{failure}{again}{took}"
        if failure:
            yield "see", f"hooklatch hooks show {one['layer']}/{one['hook']}"
    for warning in record.get("warnings", []):
        yield "warning", warning
    for label, field in (("payload", "excerpt"), ("payload", "excerpt_cut"), ("cwd", "cwd"), ("host", "host")):
        if record.get(field) is not None:
            yield label, shown(record[field])


def line_of(record: dict[str, Any]) -> str:
    """Format a record as one line for people."""
    start = f"{record.get('at')}  {record.get('seq'):>8}  "
    if record.get("kind") in ("decision", "abandoned"):
        return start + text_of_decision(record)
    fields = ", ".join(f"{key} {shown(value)}" for key, value in record.items() if key not in PLACE)
    return f"{start}{record.get('kind')}" + (f": {fields}" if fields else "")


def text_of_decision(record: dict[str, Any]) -> str:
    parts = [f"{record.get('verdict', 'abandoned'):<6}  {record.get('event')}"]
    excerpt: dict[str, Any] = record.get("excerpt") or {}
    if isinstance(excerpt.get("tool_name"), str):
        parts[0] += f" {excerpt['tool_name']}"
    if record.get("hook"):
        parts.append(f"by {record.get('layer')}/{record['hook']}")
    if record.get("cause") not in (None, "policy", "abandoned"):
        parts.append(f"cause {record['cause']}")
    if record.get("session"):
        parts.append(f"session {record['session']}")
    reason = record.get("reason")
    return ", ".join(parts) + (f": {reason}" if reason else "")


def shown(value: object) -> str:
    return value if isinstance(value, str) else output.json_text(value)


def check(arguments: argparse.Namespace) -> int:
    """Verify the record."""
    folder = folder_of(arguments)
    try:
        report = verify(folder, arguments.witness, on_progress=shows_progress())
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    if arguments.json:
        output.say_json(report)
    else:
        output.say_lines(*lines_of_report(folder, report), width=WIDTH)
    return Exit.OK if report.ok else Exit.FINDINGS


def acknowledge(arguments: argparse.Namespace) -> int:
    """Acknowledge the record's faults."""
    with administrator(arguments) as link:
        result: dict[str, Any] = link.ask("acknowledge", reason=arguments.reason)
    if arguments.json:
        output.say_json(result)
        return Exit.OK
    output.say_lines(*(("known", fault) for fault in result["acknowledged"]), width=WIDTH)
    if not result["acknowledged"]:
        output.say("the record has no unacknowledged fault")
    return Exit.OK


def shows_progress() -> Callable[[int, int], None]:
    """Return a function that prints how far a check has come, once a second."""
    last = time.monotonic()

    def show_progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() >= last + 1 and sys.stderr.isatty():
            last = time.monotonic()
            output.complain(f"{done * 100 // max(total, 1)} % of {total // 2**20} MiB")

    return show_progress


def lines_of_report(folder: str, report: VerifyReport) -> Iterator[tuple[str, str]]:
    yield "record", f"{folder}: {counted(report.records, 'record')} in {counted(report.segments, 'file')}"
    for first, last in report.ranges[:SHOWN]:
        yield "whole", f"{first} to {last}"
    if report.head is not None:
        yield "head", f"{report.head.seq}:{report.head.hash}"
        anchored = report.anchored_through
        if anchored is not None:
            rest = f"; {anchored + 1} to {report.head.seq} are newer than that" if anchored < report.head.seq else ""
            yield "anchored", f"through {anchored}{rest}"
    for one in report.witnesses:
        yield "witness", f"{one['seq']}:{one['hash']} {one['result']}"
    for finding in report.findings:
        yield "WRONG", f"{finding.what}: {finding.text}" + (f" ({finding.segment})" if finding.segment else "")
    if report.findings_omitted:
        yield "WRONG", f"and {report.findings_omitted} more"
    for told in report.told:
        yield "told", line_of(told)
    for note in report.notes:
        yield "note", note
    yield "proves", report.proves if report.ok else "that the parts named WRONG are not as they were written"
    for text in report.does_not_prove:
        yield "cannot", text
