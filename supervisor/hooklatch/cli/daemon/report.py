"""The command `report`: what was decided in the last days, as one HTML file, from the record's files.

The dashboard makes the same one.  Its library is imported only when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime, timedelta

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, make_missing_error
from hooklatch.cli.terminal.records import record_folder
from hooklatch.cli.terminal.requests import ask_administrator
from hooklatch.core.text import read_duration
from hooklatch.errors import HooklatchError
from hooklatch.record.storage.reading import NoRecordError

__all__ = ["add_report"]

LONGEST = timedelta(days=366)


def add_report(parser: Parser) -> None:
    parser.runs(
        run_report, example="hooklatch report --since 7d > report.html",
        exits=(Exit.UNAVAILABLE, Exit.NO_INPUT, Exit.IO_ERROR),
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="TIME", type=parse_span, default=timedelta(days=7), help="how long ago it begins (7d)"
    )
    parser.means(dict.fromkeys(("-o", "--out", "--output", "--to", "--html"), "hooklatch report > report.html"))
    parser.add_argument("--record", metavar="DIR", help="the record's folder (default: the daemon's)")


def parse_span(text: str) -> timedelta:
    """Parse how long ago a report begins, such as 24h or 7d."""
    try:
        span = timedelta(seconds=read_duration(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write such as 24h or 7d") from None
    if not timedelta(0) < span <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not between a moment and a year; write such as 24h or 7d")
    return span


def run_report(arguments: argparse.Namespace) -> int:
    try:
        from hooklatch.dashboard.counts import Tally, count_record
        from hooklatch.dashboard.report import render_report
    except ImportError as error:
        raise make_missing_error(error.name or error, "dashboard") from None
    if sys.stdout.isatty():
        raise CommandError(Exit.USAGE, "a report is one HTML file; name it: hooklatch report > report.html")
    now, tally, folder = datetime.now(UTC), Tally(arguments.since), record_folder(arguments)
    try:
        count_record(folder, tally, now)
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.IO_ERROR, f"the record in {folder} cannot be read: {error.strerror}") from None
    summary = tally.summarize(arguments.since, now, list_hook_names(arguments))
    page = render_report(summary, now, os.environ.get("HOME", ""))
    output.write_bytes(page.encode())
    return Exit.OK


def list_hook_names(arguments: argparse.Namespace) -> list[str] | None:
    """Return the names of all hooks that there are now, or None if no daemon says that."""
    try:
        return [hook["name"] for hook in ask_administrator(arguments, "hooks")["hooks"]]
    except HooklatchError:
        return None
