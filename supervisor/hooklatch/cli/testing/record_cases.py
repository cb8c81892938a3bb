"""The command `record cases`: write decisions whose payload was kept as cases for `hooklatch test`.

It overwrites nothing.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

import msgspec

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.testing.payloads import KeptFire, add_choice, read_kept_fires, select_fires
from hooklatch.core.text import format_count
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = ["CasesWritten", "add_cases", "add_record"]

NUMBERS = re.compile(r"([1-9]\d*)(?:-([1-9]\d*))?")
BELOW = (("cases", "testing.record_cases", "write decisions as cases for `hooklatch test`"),)


class CasesWritten(msgspec.Struct, frozen=True):
    """`record cases`: the number of cases in the file, and of those with a redacted payload."""

    cases: int
    file: str
    redacted: int


def add_record(parser: Parser) -> None:
    parser.explain(example="hooklatch record cases --seq 4711 --to policy-tests.jsonl")
    parser.add_commands(BELOW, required=True)


def add_cases(parser: Parser) -> None:
    exits = (Exit.BAD_DATA, Exit.NO_INPUT, Exit.IO_ERROR)
    parser.runs(run_record_cases, example="hooklatch record cases --seq 4711 --to policy-tests.jsonl", exits=exits)
    parser.prints("cli.testing.record_cases:CasesWritten")
    parser.add_argument("--to", metavar="FILE", required=True, help="a new file of JSON lines, such as cases.jsonl")
    parser.add_argument(
        "--seq", metavar="N[-M]", action="append", type=parse_seq_range, default=[],
        help="only this record, or those from N to M; may be repeated",
    )  # fmt: skip
    add_choice(parser)


def parse_seq_range(text: str) -> range:
    """Parse a number of a record, or the first and the last of several."""
    match = NUMBERS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
    if last < first:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of a record; write 4711 or 4711-4720")
    return range(first, last + 1)


def run_record_cases(arguments: argparse.Namespace) -> int:
    if not arguments.to.endswith(".jsonl"):
        raise CommandError(
            Exit.USAGE, f"{arguments.to}: cases are written as JSON lines; name a file that ends with .jsonl"
        )
    fires: list[KeptFire] = []
    for fire in read_kept_fires(select_fires(arguments, arguments.seq)):
        if find_ambiguity(bytes(fire.kept.payload)) is None:
            fires.append(fire)
        else:
            output.print_error(
                f"record {fire.seq} is left out: its payload can be read in two ways, and a case in one alone"
            )
    if not fires:
        raise CommandError(Exit.NO_INPUT, "no decision that matches can be written as a case, so no file was written")
    data = b"".join(msgspec.json.encode(make_case(fire)) + b"\n" for fire in fires)
    try:
        fd = os.open(arguments.to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
        except OSError:
            os.unlink(arguments.to)  # half of the cases would be taken for all of them
            raise
    except FileExistsError:
        raise CommandError(Exit.IO_ERROR, f"{arguments.to} exists and is not overwritten; name another file") from None
    except OSError as error:
        raise CommandError(Exit.IO_ERROR, f"{arguments.to} cannot be written: {error.strerror}") from None
    for fire in fires:
        if fire.redacted:
            output.print_error(
                f"record {fire.seq}: {', '.join(fire.redacted[:5])} is redacted; write what the guard needs"
            )
    if arguments.json:
        output.say_json(CasesWritten(len(fires), arguments.to, sum(bool(fire.redacted) for fire in fires)))
    else:
        output.print_line(
            f"wrote {format_count(len(fires), 'case')} to {arguments.to}; run them: hooklatch test {arguments.to}"
        )
    return Exit.OK


def make_case(fire: KeptFire) -> dict[str, Any]:
    """Return a case that expects the recorded decision."""
    record, kept = fire.record, fire.kept
    expect: dict[str, Any] = {"verdict": record["verdict"]}
    if record.get("hook"):
        expect["hook"] = record["hook"]
    if record["verdict"] in ("deny", "halt") and record.get("cause") not in (None, "policy"):
        expect["cause"] = record["cause"]
    case: dict[str, Any] = {
        "name": f"record {fire.seq}, {record.get('at')}: {fire.tool or kept.event}",
        "event": kept.event,
        "payload": kept.payload,
    }
    if kept.envelope.cwd is not None:
        case["cwd"] = kept.envelope.cwd
    return {**case, "expect": expect}
