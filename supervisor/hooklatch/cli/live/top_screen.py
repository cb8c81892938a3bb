"""The screen of `top`: lines that fit a terminal of any size.  `rich` measures the width of characters.

header    health, and the faults with their remedies
table     as many columns as fit; or the page of one hook, or the keys
footer    the keys, and the numbers of the rows that are shown
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rich.cells import cell_len, chop_cells

from hooklatch.cli.hooks.status import find_red_hooks
from hooklatch.cli.live.feed import TopBoard, TopDisplay
from hooklatch.cli.terminal.look import StyledText, format_moment, paint_text, shorten_path
from hooklatch.cli.terminal.output import escape_invisible
from hooklatch.cli.terminal.tables import clip_cell_text, pad_text, wrap_text
from hooklatch.core.text import format_count, format_duration

if TYPE_CHECKING:
    from hooklatch.cli.schema import TopHook
    from hooklatch.cli.terminal.look import Meaning
    from hooklatch.core.status_answers import StatusAnswer

__all__ = ["measure_page", "draw_screen", "clamp_scroll"]

Line: TypeAlias = list[str]  # pieces in a row, some of them painted
STATES: Mapping[str, Meaning] = {
    "active": "good", "quarantined": "bad", "inactive": "bad", "suspended": "warning", "disabled": "quiet",
}  # fmt: skip
HEALTH: Mapping[str, Meaning] = {"green": "good", "red": "bad"}
HELP = (
    ("up, down, k, j", "select a hook; page up, page down, home and end too"),
    ("enter", "its last failures, with their tracebacks; again: back"),
    ("s, S", "sort by the next column, or by the one before"),
    ("r", "the other way round"),
    ("p, space", "hold the table, and let it go"),
    ("?", "these keys"),
    ("q, Ctrl-C", "end"),
)


class TopColumn(NamedTuple):
    """A column: its title, the order that it sorts by, its least width, and whether it takes spare width."""

    title: str
    sort: str
    width: int
    grows: bool = False
    is_number: bool = True


COLUMNS = (
    TopColumn("HOOK", "hook", 12, grows=True, is_number=False),
    TopColumn("EVENT", "", 18, is_number=False),
    TopColumn("CALLS/S", "calls/s", 8),
    TopColumn("P50", "p50", 6),
    TopColumn("P99", "p99", 6),
    TopColumn("FAILURES", "failures", 10, grows=True, is_number=False),
    TopColumn("BUSY", "", 5),
    TopColumn("MEM", "memory", 5),
    TopColumn("QUEUE", "queue", 6),
    TopColumn("STATE", "state", 11, is_number=False),
)
DROPPED = ("EVENT", "MEM", "QUEUE", "BUSY", "P50", "FAILURES", "P99", "CALLS/S", "STATE")
MARK = 1  # columns before the first one, for the mark of the selected row


def draw_screen(board: TopBoard, view: TopDisplay, width: int, height: int) -> list[Line]:
    """Return at most `height` lines of at most `width` columns."""
    header = [*draw_header(board, view, width, height)][: max(1, height - 3)]
    room = max(0, height - len(header) - 1)
    body = draw_page(board, view, width) if view.page != "table" else draw_table(board, view, width, room)
    if view.page != "table":
        body = body[clamp_scroll(view, board, width, height).top :]
    lines = [*header, *body[:room]]
    lines += [[]] * (height - 1 - len(lines))
    return [fit_line(line, width) for line in [*lines[: height - 1], draw_footer(board, view, room)]][:height]


def measure_page(board: TopBoard, view: TopDisplay, width: int, height: int) -> int:
    """Return the number of rows that are shown at once."""
    return max(1, height - len([*draw_header(board, view, width, height)]) - (2 if view.page == "table" else 1))


def draw_page(board: TopBoard, view: TopDisplay, width: int) -> list[Line]:
    if view.page == "help":
        return [[f"  {key:<16}", text] for key, text in HELP]
    return draw_hook_page(board, view, width)


def clamp_scroll(view: TopDisplay, board: TopBoard, width: int, height: int) -> TopDisplay:
    """Return a view that does not begin further down than its page has lines for."""
    if view.page == "table":
        return view
    longest = len(draw_page(board, view, width)) - measure_page(board, view, width, height)
    return view._replace(top=max(0, min(view.top, longest)))


def draw_header(board: TopBoard, view: TopDisplay, width: int, height: int) -> Iterator[Line]:
    status = board.report.status
    health = str(status["health"]) + (", draining" if status["draining"] else "")
    yield [
        paint_text("hooklatch top", "title"), "  ",
        paint_text(health, HEALTH.get(status["health"], "bad")) if board.fault is None else paint_text("gone", "bad"),
        *(["  ", paint_text("HELD", "warning")] if view.is_paused else []),
        f"  {format_moment(board.report.at, is_brief=True)}",
        f"  {format_number(board.fires_per_s)} fires/s  {format_count(len(board.rows), 'hook')}"
        f"  {format_count(status['sessions'], 'session')}  up {format_duration(status['uptime_s'])}",
    ]  # fmt: skip
    if board.fault is not None:
        for line in wrap_text(escape_invisible(f"no daemon: {board.fault}"), width)[:2]:
            yield [paint_text(line, "bad")]
        yield [paint_text("it is asked again every second; below is its last report", "quiet")]
    else:
        yield from draw_findings(status, width, max(2, height // 3))


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
        text = f"{hook['hook']} failed in each of its last {hook['count']} calls (cause {hook['cause']})"
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


def draw_table(board: TopBoard, view: TopDisplay, width: int, room: int) -> list[Line]:
    """Return the titles, and as many rows as fit, with the selected one among them."""
    widths = fit_column_widths(width, board.rows)
    names = [row["name"] for row in board.rows]
    first = find_first_row(names.index(view.selected) if view.selected in names else 0, room - 1, len(names))
    titles: Line = [" " * MARK]
    for column, wide in widths:
        mark = ("^" if view.is_reversed else "v") if column.sort == view.sort else ""
        titles += [paint_text(align_text(f"{column.title}{mark}", wide, is_number=column.is_number), "title"), " "]
    lines = [titles]
    for row in board.rows[first : first + max(0, room - 1)]:
        is_selected = row["name"] == view.selected
        line: Line = [paint_text(">", "title") if is_selected else " "]
        for column, wide in widths:
            text, meaning = format_cell(row, column.title)
            text = align_text(text, wide, is_number=column.is_number)
            meaning = "title" if is_selected and meaning is None else meaning
            line += [paint_text(text, meaning) if meaning is not None else text, " "]
        lines.append(line)
    if not board.rows:
        lines.append([" no hooks; `hooklatch init` writes a first one"])
    return lines


def find_first_row(selected: int, room: int, count: int) -> int:
    return max(0, min(selected - room // 2, count - room))


def fit_column_widths(width: int, rows: Sequence[TopHook]) -> list[tuple[TopColumn, int]]:
    """Return the columns that fit, with their widths: those of texts are as wide as their longest cell.

    Those of numbers have a fixed width, since numbers change with each report and the columns must not jump.
    """
    longest = {
        column.title: max(
            [len(column.title) + 1, *(cell_len(escape_invisible(format_cell(row, column.title)[0])) for row in rows)]
        )
        for column in COLUMNS
    }
    widths = {
        column.title: column.width if column.is_number else min(column.width, longest[column.title])
        for column in COLUMNS
    }
    columns = list(COLUMNS)
    for title in DROPPED:
        # An event is shown beside whole names, and not in their place.
        needed = longest if title == "EVENT" else widths
        if sum((needed if column.grows else widths)[column.title] + 1 for column in columns) + MARK - 1 <= width:
            break
        columns = [column for column in columns if column.title != title]
    spare = max(0, width - MARK + 1 - sum(widths[column.title] + 1 for column in columns))
    growing = [column.title for column in columns if column.grows]
    missing = {title: longest[title] - widths[title] for title in growing}
    for number, title in enumerate(growing, 1):
        # An equal share, or all that the columns after this one do not need.
        others = sum(missing[other] for other in growing[number:])
        more = min(missing[title], max(spare // (len(growing) - number + 1), spare - others))
        widths[title] += more
        spare -= more
    return [(column, widths[column.title]) for column in columns]


def format_cell(row: TopHook, title: str) -> tuple[str, Meaning | None]:
    load = row["load"]
    match title:
        case "HOOK":
            return row["name"].removeprefix("global/"), None
        case "EVENT":
            return row["event"], None
        case "CALLS/S":
            return format_number(row["calls_per_s"]), None
        case "P50":
            return format_number(row["p50_ms"]), None
        case "P99":
            return format_number(row["p99_ms"]), None
        case "FAILURES":
            return format_failures(row) or "-", "bad" if row["failures"] else None
        case "BUSY":
            return "-" if load is None else f"{load['busy']}/{load['workers']}", None
        case "MEM":
            return format_size(load and load["memory_bytes"]), None
        case "QUEUE":
            return "-" if load is None else str(load["waiting"]), "warning" if load and load["waiting"] else None
        case _:
            return row["state"], STATES.get(row["state"], "bad")


def format_failures(row: TopHook) -> str:
    """Return the number of failed calls for each cause, the most frequent one first."""
    ordered = sorted(row["failures"].items(), key=lambda item: -item[1])
    return ", ".join(f"{cause} {count}" for cause, count in ordered)


def draw_hook_page(board: TopBoard, view: TopDisplay, width: int) -> list[Line]:
    """Return the lines about one hook and its last failures."""
    name = str(view.selected)
    row = next((row for row in board.rows if row["name"] == name), None)
    lines: list[Line] = [[paint_text(name, "title")]]
    if row is None:
        return [*lines, ["this hook was removed; escape goes back"]]
    lines.append(
        [
            paint_text(row["state"], STATES.get(row["state"], "bad")),
            f"  {row['event']}  {format_count(row['calls'], 'call')}  p50 {format_number(row['p50_ms'])} ms  p99 "
            f"{format_number(row['p99_ms'])} ms",
        ]
    )
    if row["failures"]:
        lines.append(["failures ", paint_text(format_failures(row), "bad")])  # fmt: skip
    detail = board.report.detail
    if detail is None or detail["name"] != name:
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
        for text in (failure["traceback"] or failure["stderr"]).splitlines():
            lines += [[f"    {line}"] for line in break_lines(text, width - 4)]
        lines.append([paint_text(f"  what was decided: hooklatch log --decision {failure['decision_id']}", "quiet")])
    return lines


def draw_footer(board: TopBoard, view: TopDisplay, room: int) -> Line:
    keys = "enter back" if view.page != "table" else "enter failures  s sort  r reverse  p hold"
    place = ""
    if view.page == "table" and len(board.rows) > room - 1:
        names = [row["name"] for row in board.rows]
        first = find_first_row(names.index(view.selected) if view.selected in names else 0, room - 1, len(names))
        place = f"{first + 1}-{min(first + room - 1, len(names))} of {len(names)}  "
    return [paint_text(f"{place}up/down  {keys}  ? help  q quit", "quiet")]


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


def align_text(text: str, width: int, *, is_number: bool) -> str:
    return pad_text(clip_cell_text(escape_invisible(text), width), width, is_number=is_number)


def break_lines(text: str, width: int) -> list[str]:
    """Return a text in lines of `width` columns, broken anywhere: a traceback's indentation must stay."""
    return chop_cells(escape_invisible(text), max(width, 1)) or [""]


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
