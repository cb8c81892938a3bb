"""The commands `ui` and `top`: decisions and the load of each hook, live.  For pipes `top` prints it once.

The screen is in `app`, which is an extra: without it `top` prints once, and `ui` says what to install.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from hooklatch.cli.daemon.feed import SORTS, TopReport, build_board, fetch_top_report
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.bell import add_bell_option
from hooklatch.cli.terminal.look import terminal_width
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, make_missing_error, parse_duration
from hooklatch.cli.terminal.requests import connect_administrator

if TYPE_CHECKING:
    from hooklatch.cli.daemon.app import LiveApp
    from hooklatch.cli.schema import TopHook, TopOutput

__all__ = ["add_top", "add_ui"]

SECOND = 1.0
TITLES = (
    "HOOK", "EVENT", "CALLS", "CALLS/S", "P50 MS", "P99 MS", "FAILURES", "WORKERS", "BUSY", "MIB", "QUEUE", "STATE",
)  # fmt: skip
DROP = ("CALLS", "MIB", "EVENT", "QUEUE", "WORKERS", "BUSY", "P50 MS", "P99 MS", "CALLS/S")


def add_ui(parser: Parser) -> None:
    parser.runs(run_ui, example="hooklatch ui", exits=(Exit.UNAVAILABLE,))
    add_bell_option(parser)
    parser.set_defaults(interval=SECOND, session=None)


def add_top(parser: Parser) -> None:
    parser.runs(run_top, example="hooklatch top --once", exits=(Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("cli.schema:TopOutput")
    parser.add_argument("--once", action="store_true", help="print one table, and end; so it is without a terminal")
    parser.add_argument(
        "--interval", metavar="TIME", type=parse_duration, default=SECOND, help="between two looks at the daemon (1s)"
    )
    parser.add_argument("--sort", metavar="COLUMN", choices=list(SORTS), default="state", help=", ".join(SORTS))
    parser.add_argument("--session", metavar="ID", help="the hooks that this live session sees")
    add_bell_option(parser)


def run_ui(arguments: argparse.Namespace) -> int:
    if not is_terminal():
        raise CommandError(Exit.USAGE, "ui needs a terminal; elsewhere there are: hooklatch watch, and hooklatch top")
    app = import_app()
    with connect_administrator(arguments) as link:
        first = fetch_top_report(link, None)
    return run_app(app(arguments, first, "decisions", "state"))


def run_top(arguments: argparse.Namespace) -> int:
    app, missing = None, None
    if not (arguments.once or arguments.json) and is_terminal():
        try:
            app = import_app()
        except CommandError as error:
            missing = error
    with connect_administrator(arguments) as link:
        first = now = fetch_top_report(link, arguments.session)
        if app is None:
            time.sleep(arguments.interval)  # rates need two reports
            now = fetch_top_report(link, arguments.session)
    if app is not None:
        return run_app(app(arguments, first, "hooks", arguments.sort))
    code = print_once(now, first, arguments.sort, is_json=arguments.json)
    if missing is not None:
        output.print_error(f"this was printed once; to see it live: {missing}")
    return code


def import_app() -> type[LiveApp]:
    try:
        from hooklatch.cli.daemon.app import LiveApp
    except ImportError as error:
        raise make_missing_error(error.name or error, "ui") from None
    return LiveApp


def run_app(app: LiveApp) -> int:
    """Run the screen to its end.

    Raises:
        Exception: what ended it, which the daemon or a bug did.
    """
    with app.bell_of_asks:
        error = app.run(mouse=False)  # texts on the screen stay for the terminal to select
    if error is not None:
        raise error
    if app.ended_by not in (None, signal.SIGINT):
        signal.raise_signal(app.ended_by)  # the terminal is as it was
    return Exit.SOFTWARE if app.return_code else Exit.OK


def is_terminal() -> bool:
    """Return whether there is a screen to draw on, and keys to read; textual draws on standard error."""
    is_seen = terminal_width(sys.stdout) is not None and terminal_width(sys.stderr) is not None
    return is_seen and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def print_once(now: TopReport, before: TopReport, sort: str, *, is_json: bool) -> int:
    board = build_board(now, before, sort)
    status = now.status
    if is_json:
        table: TopOutput = {
            "health": status["health"], "wrong": status["wrong"], "fires_per_s": round_value(board.fires_per_s),
            "hooks": [{**row, "calls_per_s": round_value(row["calls_per_s"])} for row in board.rows],
        }  # fmt: skip
        output.say_json(table)
    else:
        output.say_lines(("health", status["health"]))
        for fault in status["wrong"]:
            output.say_lines(("wrong", fault["what"]), ("do", fault["do"]))
        output.say_table(TITLES, [list_row_cells(row) for row in board.rows], drop=DROP)
    return Exit.OK


def list_row_cells(row: TopHook) -> tuple[object, ...]:
    failures = ", ".join(f"{cause} {count}" for cause, count in row["failures"].items())
    load = row["load"]
    memory = load and load["memory_bytes"]
    return (
        row["name"], row["event"], row["calls"], round_value(row["calls_per_s"]), row["p50_ms"], row["p99_ms"],
        failures or None, load and load["workers"], load and load["busy"],
        memory if memory is None else memory // 2**20, load and load["waiting"], row["state"],
    )  # fmt: skip


def round_value(value: float | None) -> float | None:
    return round(value, 2) if value is not None else None
