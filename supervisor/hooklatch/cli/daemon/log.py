"""The commands `log`: show and verify the decision record, from its files and without a daemon."""

from __future__ import annotations

import argparse
import time
from functools import partial

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import (
    LABELS,
    SUGGESTION_RECORDS,
    add_filters,
    format_record,
    list_asked_names,
    make_unknown_name_error,
    parse_witness,
    print_record,
    read_filters,
    record_folder,
)  # fmt: skip
from hooklatch.core.text import format_count
from hooklatch.record.storage.reading import (
    Filters,
    NoRecordError,
    filter_entries,
    list_field_values,
    read_forwards,
    read_newest,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hooklatch.core.status_answers import AcknowledgeAnswer
    from hooklatch.record.findings import ChainWitness, VerifyReport
    from hooklatch.record.storage.seeking import RecordCursor

__all__ = ["add_acknowledge", "add_log", "add_verify", "check_record", "format_verify_report"]

RANGES = 20  # unbroken ranges to print
POLL = 0.2  # seconds between checks for new records
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


def add_log(parser: Parser) -> None:
    parser.runs(run_log, example="hooklatch log --verdict deny --since 1h", exits=(Exit.FINDINGS, Exit.NO_INPUT))
    parser.prints("core.status_answers:RecordLine")
    add_filters(parser)
    add_place(parser)
    parser.set_defaults(record=None)
    parser.add_commands(BELOW)
    parser.means({"--grep": "--text", "--search": "--text", "--tail": "-n", "--limit": "-n"})


def add_verify(parser: Parser) -> None:
    example = "hooklatch log verify --witness 4711:5b2e0c4f9a6d1e07"
    parser.runs(verify_log, example=example, exits=(Exit.FINDINGS, Exit.NO_INPUT))
    parser.prints("record.findings:VerifyReport")
    parser.add_argument(
        "--witness", metavar="SEQ:HASH", action="append", type=parse_witness, default=[],
        help="a head that a reply of the daemon carried (its `record`); may be repeated",
    )  # fmt: skip
    add_place(parser)


def add_acknowledge(parser: Parser) -> None:
    example = 'hooklatch log acknowledge --reason "the disk was replaced on Monday"'
    parser.runs(run_acknowledge, example=example, exits=(Exit.UNAVAILABLE,))
    parser.prints("core.status_answers:AcknowledgeAnswer")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")


def add_place(parser: Parser) -> None:
    parser.add_argument(
        "--record", metavar="DIR", default=argparse.SUPPRESS,
        help="the record's folder (default: $XDG_STATE_HOME/hooklatch/record)",
    )  # fmt: skip


def run_log(arguments: argparse.Namespace) -> int:
    filters = read_filters(arguments)
    folder = record_folder(arguments)
    try:
        if not arguments.follow:
            return show_records(folder, filters, arguments, None)
        return follow_records(folder, filters, arguments)
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None


def follow_records(folder: str, filters: Filters, arguments: argparse.Namespace) -> int:
    from hooklatch.record.storage.seeking import RecordChangedError, RecordCursor  # only this needs what hashes

    try:
        # Opened before the entries are read, so that none falls between the two; `read_new` returns what came since.
        return show_records(folder, filters, arguments, RecordCursor.at_end(folder))
    except RecordChangedError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except KeyboardInterrupt:
        return Exit.OK


def show_records(folder: str, filters: Filters, arguments: argparse.Namespace, follower: RecordCursor | None) -> int:
    """Print the newest entries, and with a follower those that come then, for as long as they are read."""
    is_empty = True
    for record in select_records(folder, filters, arguments.number):
        if not output.has_reader():
            return Exit.OK
        is_empty = False
        print_record(record, is_json=arguments.json, is_whole=filters.decision_id is not None)
    if is_empty and follower is None:
        check_names(folder, filters)
        output.print_error(f"no record in {folder} matches")
    while follower is not None and output.has_reader():
        for record in filter_entries(follower.read_new(), filters):
            print_record(record, is_json=arguments.json, is_whole=filters.decision_id is not None)
        time.sleep(POLL)
    return Exit.OK


def select_records(folder: str, filters: Filters, number: int) -> Iterator[dict[str, Any]]:
    """Yield the newest entries that match, the oldest of them first; 0 is all."""
    if number == 0:
        yield from filter_entries(read_forwards(folder), filters)
        return
    records: list[dict[str, Any]] = []
    for record in read_newest(folder, filters):
        records.append(record)
        if len(records) == number:
            break
    yield from reversed(records)


def check_names(folder: str, filters: Filters) -> None:
    """Reject a filter by a name that no record has: an empty result would read as "that never happened"."""
    for asked_name in list_asked_names(filters):
        if next(read_newest(folder, asked_name.alone), None) is None:
            known = list_field_values(folder, asked_name.field, SUGGESTION_RECORDS)
            error = make_unknown_name_error(asked_name, known, folder)
            if error is not None:
                raise error


def verify_log(arguments: argparse.Namespace) -> int:
    """Verify the record."""
    folder = record_folder(arguments)
    report = check_record(folder, arguments.witness)
    return output.say_result(
        report, is_json=arguments.json, code=Exit.OK if report.ok else Exit.FINDINGS,
        show=lambda: output.say_lines(*format_verify_report(folder, report), width=LABELS),
    )  # fmt: skip


def run_acknowledge(arguments: argparse.Namespace) -> int:
    from hooklatch.cli.terminal.requests import ask_administrator

    result: AcknowledgeAnswer = ask_administrator(arguments, "acknowledge", reason=arguments.reason)
    known = [("known", fault) for fault in result["acknowledged"]]
    lines = () if known else ("the record has no unacknowledged fault",)
    show = partial(output.say_lines, *known, width=LABELS)
    return output.say_result(result, *lines, is_json=arguments.json, show=show)


def check_record(folder: str, witnesses: Sequence[ChainWitness] = ()) -> VerifyReport:
    """Verify a record, and show how far that has come."""
    from hooklatch.record.verify import verify_record  # imported here, and above: `log` itself needs neither

    def show_progress(done: int, total: int) -> None:
        spinner.text = f"reading the record: {done * 100 // max(total, 1)} % of {total // 2**20} MiB"

    try:
        with look.Spinner("reading the record") as spinner:
            return verify_record(folder, witnesses, on_progress=show_progress)
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None


def format_verify_report(folder: str, report: VerifyReport) -> Iterator[tuple[str, str]]:
    yield "record", f"{folder}: {format_count(report.records, 'record')} in {format_count(report.segments, 'file')}"
    for first, last in report.ranges[:RANGES]:
        yield "whole", f"{first} to {last}"
    if report.payloads:
        yield "payloads", f"{format_count(report.payloads, 'payload')} kept whole, as they were written"
    if report.head is not None:
        yield "head", f"{report.head.seq}:{report.head.hash}"
        anchored = report.anchored_through
        if anchored is not None:
            newer = f"; {anchored + 1} to {report.head.seq} are newer than that" if anchored < report.head.seq else ""
            yield "anchored", f"through {anchored}{newer}"
    for witness in report.witnesses:
        yield "witness", f"{witness['seq']}:{witness['hash']} {witness['result']}"
    for finding in report.findings:
        yield "WRONG", f"{finding.what}: {finding.text}" + (f" ({finding.segment})" if finding.segment else "")
    if report.findings_omitted:
        yield "WRONG", f"and {report.findings_omitted} more"
    for entry in report.told:
        yield "told", format_record(entry)
    for note in report.notes:
        yield "note", note
    yield "proves", report.proves if report.ok else "that the parts named WRONG are not as they were written"
    for text in report.does_not_prove:
        yield "cannot", text
