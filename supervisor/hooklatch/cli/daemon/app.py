"""The full-screen program behind `ui` and `top`: textual has the terminal, the keys and the fields to type into.

    LiveApp ── main screen ── Canvas: draws lines of `drawing` for its size
       ▲            └─ pages and prompts above it
    LiveFeed: a thread with the blocking client, which hands over batches by `call_later`

What takes time is done in a thread, whose result comes back by `call_later`: keys work beside a silent daemon.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from hooklatch.cli.daemon import acts
from hooklatch.cli.daemon.drawing import (
    DECISION_TITLES,
    HOOK_TITLES,
    Line,
    RowCursor,
    draw_ask,
    draw_decision,
    draw_header,
    draw_hook,
    draw_table,
    fit_decision_columns,
    fit_hook_columns,
    list_decision_cells,
    list_hook_cells,
    paint_lines,
)
from hooklatch.cli.daemon.feed import (
    SORTS,
    DecisionRow,
    DecisionRows,
    FeedItem,
    KnownDecisions,
    LiveFeed,
    PollFailure,
    TopReport,
    build_board,
)
from hooklatch.cli.daemon.widgets import LEAST_HEIGHT, LEAST_WIDTH, Canvas, FieldPage, LinePage, MainScreen, TooSmall
from hooklatch.cli.terminal.bell import AskBell, write_out
from hooklatch.cli.terminal.look import paint_text
from hooklatch.cli.terminal.output import escape_invisible
from hooklatch.cli.terminal.parser import CommandError
from hooklatch.cli.terminal.tables import wrap_text
from hooklatch.core.outcome_texts import has_failed, read_hook_name
from hooklatch.core.text import format_count, read_duration
from hooklatch.errors import HooklatchError, describe_error

if TYPE_CHECKING:
    from hooklatch.core.answers import HookFailure, ShownHook

__all__ = ["LiveApp"]

T = TypeVar("T")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
DECISIONS, HOOKS = "decisions", "hooks"
KEY = 18  # columns of the names of keys in the help
MOST_SAID = 3  # lines of what was done last, or why it was not
HELP = (
    ("1, 2, tab", "decisions as they are made; what each hook does"),
    ("up, down, k, j", "select a row; page up, page down, home and end too; escape: none"),
    ("enter", "the calls of the decision, or the last failures of the hook; again: back"),
    ("/", "show only rows with a text in them; escape: all rows again"),
    ("s", "suspend the guard of the row for a time"),
    ("e", "open the source of the guard in $EDITOR"),
    ("t", "write the decision as a case for `hooklatch test`"),
    ("a, d", "allow or deny the ask of the row"),
    ("o, r", "hooks: sort by the next column; the other way round"),
    ("p, space", "hold the rows, and let them go"),
    ("?", "these keys"),
    ("q, Ctrl-C", "end"),
)
KEYS = {
    DECISIONS: "enter calls  / filter  s suspend  t case  a d answer  2 hooks  ? help  q quit",
    HOOKS: "enter failures  / filter  s suspend  o sort  1 decisions  ? help  q quit",
}


class LiveApp(App[Exception]):
    """The program: what is known of the daemon, and what each key does.  It returns an error that ended it."""

    CSS = """
    Screen { background: ansi_default; }
    Canvas { height: 1fr; }
    FieldPage > Canvas { height: 1; }
    FieldPage > Canvas:first-child { height: 1fr; }
    Input, Input:focus { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", priority=True), Binding("q", "quit"), Binding("ctrl+z", "suspend_process"),
        Binding("1", "show('decisions')"), Binding("2", "show('hooks')"),
        Binding("up,k", "move(-1)"), Binding("down,j", "move(1)"), Binding("pageup", "turn(-1)"),
        Binding("pagedown", "turn(1)"), Binding("home", "move(-999999)"), Binding("end", "move(999999)"),
        Binding("enter", "open"), Binding("slash", "filter"), Binding("escape", "unselect"),
        Binding("s", "suspend_guard"), Binding("e", "edit"), Binding("t", "make_case"),
        Binding("a", "answer('allow')"), Binding("d", "answer('deny')"), Binding("o", "sort"),
        Binding("r", "reverse"), Binding("p,space", "hold"), Binding("question_mark", "help"),
    ]  # fmt: skip

    def __init__(self, arguments: argparse.Namespace, first: TopReport, view: str, sort: str) -> None:
        super().__init__(ansi_color=True)
        self.ended_by: signal.Signals | None = None
        self._arguments = arguments
        self._main = MainScreen(self.draw_main, self.set_filter)
        self._now, self._before = first, first
        self._fault: str | None = None
        self._view = view
        self._sort, self._is_reversed, self._is_held = sort, False, False
        self._filter = ""
        self._looked_at: dict[str, tuple[DecisionRow, bool]] = {}
        self._said = paint_text("", "good")
        self._decisions = DecisionRows()
        self._rows: dict[str, DecisionRow] = {}
        self._cursors = {DECISIONS: RowCursor(follows=True), HOOKS: RowCursor(follows=False)}
        self._board = build_board(first, None, sort)
        self._page_rows = 1
        self._handlers: dict[signal.Signals, Any] = {}
        self.feed = LiveFeed(arguments, arguments.interval, partial(self.call_later, self._take_batch))
        self.bell_of_asks = AskBell(arguments, self._write_sequences)
        self._take_rows()

    # -- the beginning and the end -------------------------------------------------------------------------------------

    def on_load(self) -> None:
        self.theme = "ansi-dark"
        loop = asyncio.get_running_loop()

        def end(number: int, frame: FrameType | None) -> None:
            self.ended_by = signal.Signals(number)
            if number == signal.SIGHUP and not has_terminal():
                signal.signal(number, signal.SIG_DFL)  # there is nothing to restore, and nowhere to draw
                signal.raise_signal(number)
            loop.call_soon_threadsafe(self.exit)

        for number in ENDING:  # before the terminal is changed: none of them may end us in between
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, end)

    def get_default_screen(self) -> Screen[None]:
        return self._main

    def on_mount(self) -> None:
        self.feed.start()

    def on_unmount(self) -> None:
        self.feed.end()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def on_resize(self, event: events.Resize) -> None:
        is_small = event.size.width < LEAST_WIDTH or event.size.height < LEAST_HEIGHT
        if is_small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not is_small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # -- what comes in -------------------------------------------------------------------------------------------------

    def _take_batch(self, batch: Sequence[FeedItem]) -> None:
        waiting, has_new_ask = None, any(isinstance(item, Mapping) and "opened" in item for item in batch)
        for item in batch:
            match item:
                case TopReport():
                    if self._fault is not None:
                        self._say("a daemon answers again", "good")
                    self._before, self._now, self._fault = self._now, item, None
                    waiting = item.status["asks"]
                case PollFailure(error, is_final):
                    if is_final:
                        self.exit(error)
                    self._fault, waiting = str(error), 0
                case KnownDecisions(records, asks):
                    self._decisions.take_known(records, asks)
                case _:
                    self._decisions.take(item)
        self._update()
        if has_new_ask or waiting is not None:
            self.bell_of_asks.show(self._decisions.waiting if waiting is None else waiting, is_new=has_new_ask)
        screen, is_report = self.screen, any(isinstance(item, TopReport) for item in batch)
        if is_report and isinstance(screen, LinePage) and screen.is_live:
            screen.load()
        self.feed.acknowledge()

    def _write_sequences(self, text: str) -> None:
        """Write to the terminal by way of textual while it draws, which would else write in between."""
        if self.is_running and self._driver is not None:
            self._driver.write(text)
        else:
            write_out(text)

    def _work(self, work: Callable[[], T], show: Callable[[T], object]) -> None:
        """Do what takes time in a thread, and then show its result."""

        def run() -> None:
            try:
                result = work()
            except (HooklatchError, CommandError, OSError) as error:
                self.call_later(self._say, describe_error(error), "bad")
            except Exception as error:  # a bug: raised where the terminal is as it was
                self.call_later(self.exit, error)
            else:
                self.call_later(lambda: show(result))
                self.call_later(self._redraw)

        threading.Thread(target=run, daemon=True).start()

    def _do(self, work: Callable[[], str]) -> None:
        """Do what a key asks for in a thread, and say what was done."""
        self._work(work, lambda done: self._say(done, "good"))

    def _update(self) -> None:
        self._take_rows()
        self._redraw()

    def _take_rows(self) -> None:
        """Take what is known into the rows, unless they are held."""
        if not self._is_held:
            board = build_board(self._now, self._before, self._sort, is_reversed=self._is_reversed)
            self._rows = self._decisions.rows
            self._cursors[DECISIONS].keys = [key for key, row in self._rows.items() if self._matches(key, row)]
            self._cursors[HOOKS].keys = [row["name"] for row in board.rows if self._has_words(list_hook_cells(row))]
            self._board = board
        self._board = self._board._replace(fault=self._fault)

    def _matches(self, key: str, row: DecisionRow) -> bool:
        """Return whether the filter shows a decision; each is looked at once, since there may be many."""
        if not self._filter:
            return True
        known = self._looked_at.get(key)
        if known is None or known[0] is not row:
            known = self._looked_at[key] = (row, self._has_words(list_decision_cells(row)))
        return known[1]

    def _has_words(self, cells: Iterable[str]) -> bool:
        return not self._filter or self._filter.casefold() in " ".join(cells).casefold()

    def _redraw(self) -> None:
        for canvas in self.screen.query(Canvas):
            canvas.refresh()

    def _say(self, text: str, meaning: Any) -> None:
        self._said = paint_text(text, meaning)
        self._redraw()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def draw_main(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines of the main screen."""
        cursor = self._cursors[self._view]
        header = draw_header(self._board, width, height, is_held=self._is_held)
        message = wrap_text(escape_invisible(self._said), width)[:MOST_SAID] if self._said else []
        footer: list[Line] = [*paint_lines(message, self._said.meaning), [paint_text(KEYS[self._view], "quiet")]]
        room = max(0, height - len(header) - 2 - len(footer))
        self._page_rows = max(1, room)
        shown = cursor.fit(room)
        keys = [cursor.keys[index] for index in shown]
        selected = keys.index(cursor.selected) if cursor.selected in keys else None
        if self._view == DECISIONS:
            cells = [list_decision_cells(self._rows[key]) for key in keys]
            table = draw_table(DECISION_TITLES, cells, fit_decision_columns(width), selected)
        else:
            rows = {row["name"]: row for row in self._board.rows}
            cells = [list_hook_cells(rows[key]) for key in cursor.keys]
            titles = [f"{title}{self._sort_mark(title)}" for title in HOOK_TITLES]
            columns = fit_hook_columns(titles, cells, width)
            table = draw_table(titles, cells[shown.start : shown.stop], columns, selected)
        if not keys:
            table.append([paint_text(f" {self._describe_nothing()}", "quiet")])
        lines = [*header, self._draw_tabs(shown, len(cursor.keys)), *table]
        return [*lines, *([[]] * (height - len(lines) - len(footer))), *footer]

    def _draw_tabs(self, shown: range, count: int) -> Line:
        line: Line = []
        for number, view in enumerate((DECISIONS, HOOKS), 1):
            text = f"{number} {view}"
            line += [paint_text(f"[{text}]", "title") if view == self._view else f" {text} ", " "]
        if len(shown) < count:
            line.append(f" {shown.start + 1}-{shown.stop} of {count}")
        if self._filter:
            line.append(paint_text(f"  filter: {self._filter}", "warning"))
        if waiting := self._decisions.waiting:
            line.append(paint_text(f"  {format_count(waiting, 'ask')} open", "warning"))
        if self._decisions.left_out:
            text = f"  {format_count(self._decisions.left_out, 'decision')} left out (hooklatch log has them)"
            line.append(paint_text(text, "warning"))
        return line

    def _sort_mark(self, title: str) -> str:
        column = {"mem": "memory"}.get(title.lower(), title.lower())
        return ("^" if self._is_reversed else "v") if column == self._sort else ""

    def _describe_nothing(self) -> str:
        if self._filter:
            return "nothing matches the filter; escape shows all"
        if self._view == HOOKS:
            return "no hooks; `hooklatch init` writes a first one"
        return "no decision is on record; each is shown here as it is made"

    # -- keys ----------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow the keys of the list only where the list is shown."""
        return self.screen is self._main or action in ("quit", "suspend_process", "focus_next", "focus_previous")

    def action_show(self, view: str) -> None:
        self._view = view
        self._clear_said()

    def action_switch(self) -> None:
        self.action_show(HOOKS if self._view == DECISIONS else DECISIONS)

    def action_move(self, step: int) -> None:
        self._cursors[self._view].move(step)
        self._clear_said()

    def action_turn(self, step: int) -> None:
        self.action_move(step * self._page_rows)

    def action_unselect(self) -> None:
        if not self._main.clear_filter():
            self._cursors[self._view].selected = None
        self._clear_said()

    def action_filter(self) -> None:
        self._main.open_filter()

    def set_filter(self, text: str) -> None:
        """Show only rows that have a text, in capitals or not."""
        self._filter = text
        self._looked_at = {}
        self._update()

    def action_sort(self) -> None:
        sorts = list(SORTS)
        self._sort, self._is_reversed = sorts[(sorts.index(self._sort) + 1) % len(sorts)], False
        self._update()

    def action_reverse(self) -> None:
        self._is_reversed = not self._is_reversed
        self._update()

    def action_hold(self) -> None:
        self._is_held = not self._is_held
        self._update()

    def action_help(self) -> None:
        self.push_screen(LinePage(draw_help))

    def _clear_said(self) -> None:
        self._said = paint_text("", "good")
        self._redraw()

    def _find_row(self) -> DecisionRow | None:
        """Return the chosen decision."""
        key = self._cursors[DECISIONS].chosen if self._view == DECISIONS else None
        row = self._rows.get(key) if key is not None else None
        if row is None:
            self._say("select a decision first (1)", "warning")
        return row

    def _find_guard(self) -> str | None:
        """Return the hook of the chosen row."""
        if self._view == HOOKS:
            guard = self._cursors[HOOKS].chosen
        else:
            row = self._find_row()
            if row is None:
                return None
            guard = read_hook_name(row.record)
        if not guard:
            self._say("there is no guard here; select another row, or a hook (2)", "warning")
        return guard or None

    # -- pages ---------------------------------------------------------------------------------------------------------

    def action_open(self) -> None:
        if self._view == HOOKS:
            if (name := self._find_guard()) is not None:
                self._open_hook(name)
        elif (row := self._find_row()) is not None:
            ask = row.ask
            self.push_screen(LinePage(lambda width: draw_ask(ask, width)) if ask is not None else self._make_calls(row))

    def _make_calls(self, row: DecisionRow) -> LinePage:
        failures: dict[str, HookFailure] = {}
        name = row.record.get("decision_id")
        failed = {read_hook_name(call) for call in row.record.get("outcomes", []) if has_failed(call)}

        def load() -> None:
            if failed:
                self._work(lambda: acts.fetch_failures(self._arguments, failed, name), failures.update)

        return LinePage(lambda width: draw_decision(row.record, failures, width), load)

    def _open_hook(self, name: str) -> None:
        details: list[ShownHook | None] = [None]

        def draw(width: int) -> list[Line]:
            row = next((row for row in self._board.rows if row["name"] == name), None)
            return draw_hook(row, details[-1], width)

        def load() -> None:
            self._work(lambda: acts.fetch_hook(self._arguments, name), details.append)

        self.push_screen(LinePage(draw, load, is_live=True))

    # -- acts ----------------------------------------------------------------------------------------------------------

    def action_suspend_guard(self) -> None:
        if (guard := self._find_guard()) is None:
            return

        def submit(values: list[str]) -> str:
            reason, lasting = values
            try:
                seconds = read_duration(lasting)
            except ValueError as error:
                return str(error)
            if not reason:
                return "it needs a reason, which stays in the record"
            self._do(lambda: acts.suspend_guard(self._arguments, guard, seconds, reason))
            return ""

        lines: list[Line] = [
            [paint_text("suspend ", "title"), paint_text(guard, "title")],
            ["No fire asks it for that time: what it guards is unguarded."],
        ]
        self.push_screen(FieldPage(lambda width: lines, {"reason": "", "for": "10m"}, submit))

    def action_answer(self, verdict: str) -> None:
        if (row := self._find_row()) is None:
            return
        if (ask := row.ask) is None:
            self._say("this is not an ask that waits; open asks are the last rows", "warning")
            return

        def submit(values: list[str]) -> str:
            (reason,) = values
            if not reason:
                return "it needs a reason, which the agent is told"
            self._do(lambda: acts.answer_ask(self._arguments, ask, verdict, reason))
            return ""

        self.push_screen(FieldPage(lambda width: draw_ask(ask, width), {f"{verdict}, because": ""}, submit))

    def action_make_case(self) -> None:
        if (row := self._find_row()) is None:
            return
        name = str(row.record.get("decision_id"))
        if row.ask is not None:
            self._say("this is not decided yet", "warning")
            return

        def submit(values: list[str]) -> str:
            self._do(lambda: acts.write_case(self._arguments, name, values[0]))
            return ""

        lines: list[Line] = [
            [paint_text("write this decision as a case for `hooklatch test`", "title")],
            ["The file must not be there yet, and its name ends with .jsonl."],
        ]
        self.push_screen(FieldPage(lambda width: lines, {"file": f"case-{name}.jsonl"}, submit))

    def action_edit(self) -> None:
        if (guard := self._find_guard()) is not None:
            self._work(lambda: acts.find_source(self._arguments, guard), self._edit)

    def _edit(self, source: tuple[str, str]) -> None:
        with self.suspend():  # an error that left this block would leave the terminal suspended
            try:
                done = paint_text(acts.run_editor(*source), "good")
            except CommandError as error:
                done = paint_text(error, "bad")
        self._said = done


def draw_help(width: int) -> list[Line]:
    rows = [(key, wrap_text(text, width - KEY)) for key, text in HELP]
    return [[f"  {key if line is lines[0] else '':<{KEY - 2}}", line] for key, lines in rows for line in lines]


def has_terminal() -> bool:
    try:
        termios.tcgetattr(sys.__stdin__ or 0)
    except termios.error:
        return False
    return True
