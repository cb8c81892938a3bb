"""The lines of `ui` and `top`: for a screen of any size, from decisions and reports.  Knows no terminal.

header    health, and the faults with their remedies
table     decisions, or hooks with as many columns as fit
page      one decision with its calls, one hook with its failures, or one ask

A line is pieces, some of them painted.  The screen fits it by `fit_line`, which also escapes what is invisible: texts
of hooks and agents are data.  `rich` measures the width of characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len, chop_cells

from hooklatch.cli.daemon.feed import DecisionRow, TopBoard
from hooklatch.cli.hooks.asks import format_ask_times, list_ask_details
from hooklatch.cli.hooks.status import find_red_hooks, format_streak
from hooklatch.cli.terminal.look import VERDICTS, StyledText, format_moment, paint_text, shorten_path
from hooklatch.cli.terminal.output import LABELS, escape_invisible
from hooklatch.cli.terminal.tables import clip_cell_text, fit_columns, pad_text, wrap_text
from hooklatch.core.outcome_texts import has_failed, name_result, read_hook_name
from hooklatch.core.subject import read_subject, read_tool_name
from hooklatch.core.text import format_count, format_duration

if TYPE_CHECKING:
    from hooklatch.cli.schema import TopHook
    from hooklatch.cli.terminal.look import Meaning
    from hooklatch.core.answers import Ask, HookFailure, ShownHook
    from hooklatch.core.status_answers import StatusAnswer

__all__ = [
    "DECISION_TITLES", "HOOK_TITLES", "Line", "RowCursor", "draw_ask", "draw_decision", "draw_header", "draw_hook",
    "draw_table", "fit_decision_columns", "fit_hook_columns", "fit_line", "list_decision_cells",
    "list_hook_cells", "paint_lines",
]  # fmt: skip

Line: TypeAlias = list[str]
STATES: Mapping[str, Meaning] = {
    "active": "good", "quarantined": "bad", "inactive": "bad", "suspended": "warning", "disabled": "quiet",
}  # fmt: skip
HEALTH: Mapping[str, Meaning] = {"green": "good", "red": "bad"}
MARK = 1  # columns before the first one, for the mark of the selected row
GAP = 2  # blanks between columns
LABEL = 12  # columns of a label beside a value
DECISION_TITLES = ("TIME", "VERDICT", "WHAT", "GUARD", "REASON", "MS")
TIME, VERDICT, DURATION = 13, 7, 6  # columns of these
WIDE = 110  # columns from which on a decision has its reason and its milliseconds
HOOK_TITLES = ("HOOK", "EVENT", "CALLS/S", "P50", "P99", "FAILURES", "BUSY", "MEM", "QUEUE", "STATE")
HOOK_DROP = ("EVENT", "MEM", "QUEUE", "BUSY", "P50", "FAILURES", "P99", "CALLS/S", "STATE")
USUAL = "pre_tool_use"  # the event that the row of a decision does not name
LENGTH = "duration_ms"
BAR = 5  # the part of a page's width that the bar of a call has


# -- header ------------------------------------------------------------------------------------------------------------


def draw_header(board: TopBoard, width: int, height: int, *, is_held: bool) -> list[Line]:
    """Return the daemon's health, and its faults in at most a third of the height."""
    status = board.report.status
    health = str(status["health"]) + (", draining" if status["draining"] else "")
    first: Line = [
        paint_text("hooklatch", "title"), "  ",
        paint_text(health, HEALTH.get(status["health"], "bad")) if board.fault is None else paint_text("gone", "bad"),
        *(["  ", paint_text("HELD", "warning")] if is_held else []),
        f"  {format_moment(board.report.at, is_brief=True)}",
        f"  {format_number(board.fires_per_s)} fires/s  {format_count(len(board.rows), 'hook')}"
        f"  {format_count(status['sessions'], 'session')}  up {format_duration(status['uptime_s'])}",
    ]  # fmt: skip
    if board.fault is None:
        return [first, *draw_findings(status, width, max(2, height // 3))]
    lines = paint_lines(wrap_text(f"no daemon: {board.fault}", width)[:2], "bad")
    return [first, *lines, [paint_text("it is asked again every second; below is what was known last", "quiet")]]


def draw_findings(status: StatusAnswer, width: int, maximum: int) -> Iterator[Line]:
    """Yield the findings with their remedies, in at most `maximum` lines."""
    findings = [
        [*draw_labelled("wrong", fault["what"], "bad", width), *draw_labelled("do", fault["do"], "good", width)]
        for fault in status["wrong"]
    ]
    red = find_red_hooks(status)
    for hook in status["failing"]:
        if hook["hook"] in red:
            continue
        text = f"{hook['hook']} failed {format_streak(hook['count'])} (cause {hook['cause']})"
        findings.append(draw_labelled("warning", text, "warning", width))
    count = 0
    for index, lines in enumerate(findings):
        is_last = index == len(findings) - 1
        if count and count + len(lines) + (not is_last) > maximum:
            yield [paint_text(f"and {len(findings) - index} more: hooklatch status", "warning")]
            return
        count += len(lines)
        yield from lines


def draw_labelled(label: str, text: str, meaning: Meaning, width: int) -> list[Line]:
    first, *others = wrap_text(escape_invisible(text), width - 9)
    return [[paint_text(f"{label:<9}", meaning), first], *([" " * 9, line] for line in others[:1])]


# -- tables ------------------------------------------------------------------------------------------------------------


class RowCursor:
    """The keys of a list's rows, which row is selected, and which is shown first.

    A row is selected by its key, so it stays selected while others come and go.  Without a selected row a list that
    `follows` shows its last rows, and any other one its first.
    """

    def __init__(self, *, follows: bool) -> None:
        self.keys: list[str] = []
        self.selected: str | None = None
        self._follows = follows
        self._first = 0

    @property
    def chosen(self) -> str | None:
        """Return the key of the row that a command is about: the selected one, or the one that the list begins at."""
        if not self.keys:
            return None
        return self.selected if self.selected in self.keys else self.keys[-1 if self._follows else 0]

    def move(self, step: int) -> None:
        """Select another row; without a selected one, a step of one row selects the one that the list begins at."""
        if (chosen := self.chosen) is not None:
            first = 0 if chosen != self.selected and abs(step) == 1 else step
            index = self.keys.index(chosen) + first
            self.selected = self.keys[max(0, min(index, len(self.keys) - 1))]

    def fit(self, room: int) -> range:
        """Return the indices of the rows that `room` lines show."""
        count = len(self.keys)
        if self.selected in self.keys:
            index = self.keys.index(self.selected)
            self._first = min(max(self._first, index - room + 1), index)
        else:
            self._first = count if self._follows else 0
        self._first = max(0, min(self._first, count - room))
        return range(self._first, min(self._first + room, count))


def draw_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[tuple[int, int]], selected: int | None
) -> list[Line]:
    """Return the titles and the rows; `columns` are numbers and widths, `selected` is the index of the marked row."""
    lines: list[Line] = []
    for index, row in enumerate([[paint_text(title, "title") for title in titles], *rows], -1):
        is_selected = index == selected
        line: Line = [paint_text(">", "title") if is_selected else " " * MARK]
        for place, (column, width) in enumerate(columns, 1):
            cell = row[column]
            gap = GAP if place < len(columns) else 0
            text = pad_text(clip_cell_text(escape_invisible(cell), width), width + gap)
            meaning = cell.meaning if isinstance(cell, StyledText) else "title" if is_selected else None
            line.append(paint_text(text, meaning) if meaning is not None else text)
        lines.append(line)
    return lines


def fit_decision_columns(width: int) -> list[tuple[int, int]]:
    """Return the columns of decisions with their widths, which do not depend on the decisions: they come and go."""
    room = width - MARK - TIME - VERDICT - 3 * GAP
    if width < WIDE:
        guard = min(30, room * 2 // 5)
        return [(0, TIME), (1, VERDICT), (2, room - guard), (3, guard)]
    room -= DURATION + 2 * GAP
    guard, reason = min(40, room // 4), room * 3 // 10
    return [(0, TIME), (1, VERDICT), (2, room - guard - reason), (3, guard), (4, reason), (5, DURATION)]


def list_decision_cells(row: DecisionRow) -> list[str]:
    """Return the cells below DECISION_TITLES; one that failed has its cause behind the guard."""
    record, duration = row.record, row.record.get("duration_ms")
    word = "ASKS" if row.ask is not None else str(record.get("verdict"))
    event, tool, subject = record.get("event"), read_tool_name(record), read_subject(record)
    named = "" if f"{subject} (".startswith(f"{tool} (") else tool  # the subject of a large input is its tool and size
    what = " ".join(str(part) for part in (event if event not in (USUAL, subject) else "", named, subject) if part)
    guard = read_hook_name(record).removeprefix("global/") or "-"
    meaning = "warning" if row.ask is not None else VERDICTS.get(word)
    return [
        paint_text(format_moment(record.get("at"), is_brief=True), "quiet"),
        paint_text(word, meaning) if meaning is not None else word,
        what,
        paint_text(f"{guard} ({record.get('cause')})", "bad") if has_failed(record) else guard,
        str(record.get("reason") or ""),
        paint_text(format_number(duration), "quiet") if isinstance(duration, int | float) else "",
    ]


def fit_hook_columns(titles: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[tuple[int, int]]:
    """Return the columns of hooks that fit, with their widths; `titles` are HOOK_TITLES, one of them with a mark."""
    shown = [titles, *([escape_invisible(cell) for cell in row] for row in cells)]
    drop = [titles[HOOK_TITLES.index(title)] for title in HOOK_DROP]
    fitted = fit_columns(shown, width=width - MARK, drop=drop)
    return [*zip(fitted.columns, fitted.widths, strict=True)]


def list_hook_cells(row: TopHook) -> list[str]:
    """Return the cells below HOOK_TITLES; those of numbers have one width, so that columns do not jump."""
    load, failures = row["load"], format_failures(row)
    waiting = "-" if load is None else str(load["waiting"])
    return [
        row["name"].removeprefix("global/"),
        row["event"],
        f"{format_number(row['calls_per_s']):>7}",
        f"{format_number(row['p50_ms']):>6}",
        f"{format_number(row['p99_ms']):>6}",
        paint_text(failures, "bad") if failures else "-",
        "   -" if load is None else f"{load['busy']}/{load['workers']}".rjust(4),
        f"{format_size(load and load['memory_bytes']):>4}",
        paint_text(f"{waiting:>5}", "warning") if load and load["waiting"] else f"{waiting:>5}",
        paint_text(row["state"], STATES.get(row["state"], "bad")),
    ]


def format_failures(row: TopHook) -> str:
    """Return the number of failed calls for each cause, the most frequent one first."""
    ordered = sorted(row["failures"].items(), key=lambda item: -item[1])
    return ", ".join(f"{cause} {count}" for cause, count in ordered)


# -- pages -------------------------------------------------------------------------------------------------------------


def draw_decision(record: Mapping[str, Any], failures: Mapping[str, HookFailure], width: int) -> list[Line]:
    """Return a decision and its calls in order, each with a bar for when it ran; `failures` are by guard."""
    verdict, guard = str(record.get("verdict")), read_hook_name(record)
    by = f"  by {guard}" if guard else "  by no guard"
    lines = paint_lines(break_lines(read_subject(record), width), "title")
    lines.append([paint_text(verdict, VERDICTS.get(verdict, "title")), by, *format_cause(record)])
    reason = escape_invisible(str(record.get("reason") or ""))
    lines += [[f"  {line}"] for line in wrap_text(reason, width - 2) if line]
    facts = (record.get("event"), read_tool_name(record), format_moment(record.get("at")), record.get("session"))
    lines += [["  ".join(str(fact) for fact in facts if fact)], []]
    calls: list[Mapping[str, Any]] = sorted(record.get("outcomes") or [], key=read_ms)
    whole = max([record.get("duration_ms") or 0.0, *(read_ms(call) + read_ms(call, LENGTH) for call in calls)])
    for call in calls:
        lines += draw_call(call, whole, failures, width)
    if not calls:
        lines.append([paint_text("no hook was called", "quiet")])
    warnings: list[str] = record.get("warnings") or []
    lines += paint_lines([f"warning: {warning}" for warning in warnings], "warning")
    return [*lines, [], *paint_lines([f"all of it: hooklatch log --decision {record.get('decision_id')}"], "quiet")]


def draw_call(call: Mapping[str, Any], whole: float, failures: Mapping[str, HookFailure], width: int) -> Iterator[Line]:
    """Yield the lines of one call; `whole` milliseconds are as long as the bar can be."""
    name, size = read_hook_name(call), max(width // BAR, 1)
    begin = min(int(read_ms(call) / (whole or 1.0) * size), size - 1)
    length = max(min(round(read_ms(call, LENGTH) / (whole or 1.0) * size), size - begin), 1)
    result = name_result(call)
    marks = "".join(f", {mark}" for mark in ("observed", "reinvoked", "unneeded") if call.get(mark) is True)
    times = f"  from {format_number(read_ms(call))}, {format_number(read_ms(call, LENGTH))} ms{marks}"
    meaning: Meaning = "bad" if has_failed(call) else VERDICTS.get(result, "quiet")
    bar = paint_text("=" * length, meaning)
    yield ["|", " " * begin, bar, " " * (size - begin - length), "|  ", name, "  ", paint_text(result, meaning),
           *format_cause(call), times]  # fmt: skip
    for text in str(call.get("message") or "").splitlines():
        yield from ([f"    {line}"] for line in break_lines(text, width - 4))
    if has_failed(call) and name in failures:
        yield from draw_output(failures[name], width)


def draw_output(failure: HookFailure, width: int) -> Iterator[Line]:
    for text in (failure["traceback"] or failure["stderr"]).splitlines():
        yield from ([f"    {line}"] for line in break_lines(text, width - 4))


def format_cause(call: Mapping[str, Any]) -> Line:
    return [paint_text(f" ({call.get('cause')})", "bad")] if has_failed(call) else []


def read_ms(call: Mapping[str, Any], key: str = "began_ms") -> float:
    return max(call.get(key) or 0.0, 0.0)


def draw_hook(row: TopHook | None, detail: ShownHook | None, width: int) -> list[Line]:
    """Return one hook and its last failures; the `detail` is the daemon's, once it has come."""
    if row is None:
        return [["this hook was removed; escape goes back"]]
    lines: list[Line] = [
        [paint_text(row["name"], "title")],
        [
            paint_text(row["state"], STATES.get(row["state"], "bad")),
            f"  {row['event']}  {format_count(row['calls'], 'call')}  p50 {format_number(row['p50_ms'])} ms  p99 "
            f"{format_number(row['p99_ms'])} ms",
        ],
    ]
    if row["failures"]:
        lines.append(["failures ", paint_text(format_failures(row), "bad")])
    if detail is None:
        return [*lines, [paint_text("asking the daemon for its failures", "quiet")]]
    for label, text in (
        ("problem", detail["problem"]),
        ("declared", shorten_path(detail["origin"] or "")),
        ("runs", shorten_path(detail["target"])),
    ):
        lines += [[f"{label:<9}", line] for line in break_lines(str(text), width - 9)] if text else []
    if not detail["last_failures"]:
        return [*lines, [], ["no failure is known"]]
    for failure in detail["last_failures"]:
        at = format_moment(failure["at"], is_brief=True)
        session = f"  session {failure['session']}" if failure["session"] else ""
        head = f"{failure['event']}  {format_number(failure['duration_ms'])} ms{session}"
        subject = clip_cell_text(failure["subject"], max(width - len(at) - len(failure["cause"]) - 4, 0))
        lines += [[], [f"{at}  ", subject, "  ", paint_text(failure["cause"], "bad")], [f"  {head}"]]
        lines += [[f"  {line}"] for text in failure["message"].splitlines() for line in break_lines(text, width - 2)]
        lines += draw_output(failure, width)
        lines.append([paint_text(f"  what was decided: hooklatch log --decision {failure['decision_id']}", "quiet")])
    return lines


def draw_ask(ask: Ask, width: int) -> list[Line]:
    """Return all of an ask, as `hooklatch asks` shows it: what is answered is what was seen."""
    lines = paint_lines(break_lines(ask["subject"], width), "title")
    lines.append([" ".join(filter(None, (ask["event"], ask["tool"]))), "; ", format_ask_times(ask)])
    indent = " " * (LABEL + GAP)  # no part of a value stands in the place of a label
    for label, value in list_ask_details(ask):
        meaning = LABELS.get(label)
        *above, last = break_lines(label, width)
        values = break_lines(str(value), width - len(indent))
        if cell_len(last) > LABEL or above:
            lines += [[line] for line in (*above, last)]
        else:
            shown = pad_text(last, len(indent))
            lines.append([paint_text(shown, meaning) if meaning is not None else shown, values.pop(0)])
        lines += [[indent, line] for line in values]
    return lines


# -- texts -------------------------------------------------------------------------------------------------------------


def format_number(value: float | None) -> str:
    """Return a number in at most six characters, with three significant digits."""
    if value is None:
        return "-"
    if value >= 100_000:
        return f"{value / 1000:.0f}k"
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def format_size(value: int | None) -> str:
    if value is None:
        return "-"
    mebibytes = value / 2**20
    return f"{mebibytes / 1024:.1f}G" if mebibytes >= 1000 else f"{mebibytes:.0f}M"


def break_lines(text: str, width: int) -> list[str]:
    """Return a text in lines of `width` columns, broken anywhere: a traceback's indentation must stay."""
    return chop_cells(escape_invisible(text), max(width, 1)) or [""]


def paint_lines(texts: Sequence[str], meaning: Meaning) -> list[Line]:
    return [[paint_text(text, meaning)] for text in texts]


def fit_line(line: Line, width: int) -> Line:
    """Return a line's pieces as far as they fit."""
    pieces: Line = []
    remaining = width
    for piece in line:
        text = escape_invisible(piece)
        if (wide := cell_len(text)) > remaining:
            text = clip_cell_text(text, remaining) if remaining > 0 else ""
        if text:
            pieces.append(paint_text(text, piece.meaning) if isinstance(piece, StyledText) else text)
        remaining -= min(wide, max(remaining, 0))
    return pieces
