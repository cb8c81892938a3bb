"""The command `top`: the load of each hook as a live table, or once for pipes.

At a terminal `raw_terminal` has the screen and the keys, `feed` the reports and rows, `top_screen` the content.
`rich` only measures characters: the drawing needs three control sequences, and keys that `rich` does not read.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from hooklatch.cli.live.feed import (
    SORTS,
    HookDetail,
    PollFailure,
    TopBoard,
    TopDisplay,
    TopPoller,
    TopReport,
    apply_key,
    build_board,
    fetch_top_report,
)
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.bell import AskBell, add_bell_option
from hooklatch.cli.terminal.look import terminal_width
from hooklatch.cli.terminal.parser import Exit, Parser, parse_duration
from hooklatch.cli.terminal.requests import connect_administrator

if TYPE_CHECKING:
    from hooklatch.cli.live.raw_terminal import RawTerminal
    from hooklatch.cli.schema import TopHook, TopOutput

__all__ = ["add_top"]

SECOND = 1.0
TITLES = (
    "HOOK",
    "EVENT",
    "CALLS",
    "CALLS/S",
    "P50 MS",
    "P99 MS",
    "FAILURES",
    "WORKERS",
    "BUSY",
    "MIB",
    "QUEUE",
    "STATE",
)
DROP = ("CALLS", "MIB", "EVENT", "QUEUE", "WORKERS", "BUSY", "P50 MS", "P99 MS", "CALLS/S")


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


def run_top(arguments: argparse.Namespace) -> int:
    view = TopDisplay(sort=arguments.sort)
    with connect_administrator(arguments) as link:
        first = fetch_top_report(link, arguments.session)
        if arguments.once or arguments.json or not is_terminal():
            time.sleep(arguments.interval)  # rates need two reports
            return print_once(fetch_top_report(link, arguments.session), first, view, is_json=arguments.json)
    return LiveTable(arguments, view, first).run()


def is_terminal() -> bool:
    """Return whether there is a screen to draw on, and keys to read."""
    return terminal_width(sys.stdout) is not None and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def print_once(now: TopReport, before: TopReport, view: TopDisplay, *, is_json: bool) -> int:
    board = build_board(now, before, view)
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


class LiveTable:
    """The live table: the last two reports, and the display of them."""

    def __init__(self, arguments: argparse.Namespace, view: TopDisplay, first: TopReport) -> None:
        self._arguments = arguments
        self._view = view
        self._now, self._before = first, first
        self._fault: str | None = None

    def run(self) -> int:
        """Run until a key or a signal ends it."""
        from hooklatch.cli.live.raw_terminal import ENDING, RawTerminal  # termios, which pipes need not have

        while True:
            with RawTerminal() as terminal, AskBell(self._arguments) as bell:
                poller = TopPoller(self._arguments, self._arguments.interval, terminal.poke)
                if self._view.page == "hook":  # shown before Ctrl-Z, and again after it
                    poller.select(self._view.selected)
                poller.start()
                try:
                    key = self._run_screen(terminal, poller, bell)
                finally:
                    poller.end()
            # After the block, so that the shell gets the terminal as it was.
            if key == "suspend":
                signal.raise_signal(signal.SIGTSTP)  # the shell takes over; with SIGCONT we go on here
                continue
            if key in ENDING:
                signal.raise_signal(ENDING[key])
            return Exit.OK

    def _run_screen(self, terminal: RawTerminal, poller: TopPoller, bell: AskBell) -> str:
        """Draw and take keys; return the key that ends or suspends the table."""
        from hooklatch.cli.live.raw_terminal import ENDING
        from hooklatch.cli.live.top_screen import clamp_scroll, draw_screen, measure_page

        while True:
            self._take_reports(poller, bell)
            board = self._make_board()
            width, height = terminal.size()
            terminal.draw(draw_screen(board, self._view, width, height))
            for key in terminal.wait(SECOND):
                if key == "suspend" or key in ENDING:
                    return key
                page = measure_page(board, self._view, width, height)
                view = apply_key(self._view, key, [row["name"] for row in board.rows], page)
                if view is None:
                    return key
                self._set_view(clamp_scroll(view, board, width, height), poller)
                board = self._make_board()

    def _set_view(self, view: TopDisplay, poller: TopPoller) -> None:
        if view.page == "hook" and (self._view.page, self._view.selected) != (view.page, view.selected):
            poller.select(view.selected)
        elif view.page != "hook":
            poller.select(None)
        self._view = view

    def _take_reports(self, poller: TopPoller, bell: AskBell) -> None:
        """Take the reports that have come since the last call.

        Raises:
            Exception: the poller has ended with it, and there will be no more reports.
        """
        while not poller.reports.empty():
            match poller.reports.get():
                case PollFailure(error, is_final):
                    if is_final:
                        raise error
                    self._fault = str(error)
                    bell.show(0)
                case HookDetail(hook):
                    self._now = self._now._replace(detail=hook)
                case TopReport() as report:
                    self._fault = None
                    bell.show(report.status["asks"], is_new=report.has_new_ask)
                    if self._view.is_paused:
                        self._now = self._now._replace(detail=report.detail)
                    else:
                        self._before, self._now = self._now, report

    def _make_board(self) -> TopBoard:
        return build_board(self._now, self._before, self._view)._replace(fault=self._fault)
