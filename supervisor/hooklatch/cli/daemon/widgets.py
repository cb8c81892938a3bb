"""The parts of the screen of `ui`: lines that fit, pages that scroll, and prompts with fields.  Knows no daemon.

Everything that is shown goes through `fit_line`, and textual's markup is used nowhere: texts of hooks and agents are
data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from hooklatch.cli.daemon.drawing import Line, fit_line
from hooklatch.cli.terminal.look import StyledText, paint_text
from hooklatch.core.text import format_count

__all__ = ["LEAST_HEIGHT", "LEAST_WIDTH", "Canvas", "MainScreen", "LinePage", "FieldPage", "TooSmall"]

# The terminal's own colours, as in `cli.terminal.look`.
STYLES = {
    "good": Style(color="green"), "bad": Style(color="red", bold=True), "warning": Style(color="yellow"),
    "quiet": Style(dim=True), "title": Style(bold=True),
}  # fmt: skip
LEAST_WIDTH, LEAST_HEIGHT = 60, 15


class Canvas(Widget, can_focus=True):
    """A widget that shows the lines which `draw` returns for its width and height."""

    def __init__(self, draw: Callable[[int, int], Sequence[Line]]) -> None:
        super().__init__()
        self._draw = draw
        self._lines: Sequence[Line] = []

    def render_lines(self, crop: Region) -> list[Strip]:
        self._lines = self._draw(*self.size)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = fit_line(self._lines[y], self.size.width) if y < len(self._lines) else []
        pieces = [Segment(piece, STYLES[piece.meaning] if isinstance(piece, StyledText) else None) for piece in line]
        return Strip(pieces).adjust_cell_length(self.size.width)


class MainScreen(Screen[None]):
    """The lines of the lists, and a field for the filter, whose text goes to `set_filter`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "app.switch")]

    def __init__(self, draw: Callable[[int, int], Sequence[Line]], set_filter: Callable[[str], object]) -> None:
        super().__init__()
        self._draw = draw
        self._set_filter = set_filter

    def compose(self) -> ComposeResult:
        yield Canvas(self._draw)
        field = Input(compact=True, placeholder="a text that the rows have; enter: to the rows, escape: all rows")
        field.display = False
        yield field

    def on_screen_resume(self) -> None:
        self.query_one(Canvas).refresh()  # more may have come while a page covered it

    def open_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        self.set_focus(field)

    def clear_filter(self) -> bool:
        """Return whether there was a filter, or a field for it; now there is none."""
        field = self.query_one(Input)
        was_there = field.display or bool(field.value)
        field.value = ""
        self.leave_filter()
        return was_there

    @on(Input.Changed)
    def change_filter(self, event: Input.Changed) -> None:
        self._set_filter(event.value)

    @on(Input.Submitted)
    def leave_filter(self) -> None:
        self.set_focus(self.query_one(Canvas))
        self.query_one(Input).display = False


class LinePage(Screen[None]):
    """Lines that may be longer than the screen, above the fields of a prompt, if it has some.

    `load` asks for more to show: at first, and if the page `is_live` with each report of the daemon.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)"), Binding("down,j", "scroll(1)"), Binding("pageup", "turn(-1)"),
        Binding("pagedown,space", "turn(1)"), Binding("home", "scroll(-999999)"), Binding("end", "scroll(999999)"),
        Binding("escape,enter,left,backspace,question_mark", "back"),
    ]  # fmt: skip
    keys = "up, down scroll  enter back  q quit"

    def __init__(
        self,
        lines: Callable[[int], Sequence[Line]],
        load: Callable[[], object] = lambda: None,
        *,
        is_live: bool = False,
    ) -> None:
        super().__init__()
        self.load = load
        self.is_live = is_live
        self.note = ""
        self.has_shown_all = False
        self._make_lines = lines
        self._top = 0
        self._room = 1

    def compose(self) -> ComposeResult:
        yield Canvas(self._draw)

    def on_mount(self) -> None:
        self.load()

    def redraw(self) -> None:
        self.query_one(Canvas).refresh()

    def action_scroll(self, step: int) -> None:
        self._top = max(0, self._top + step)
        self.redraw()

    def action_turn(self, step: int) -> None:
        self.action_scroll(step * self._room)

    def action_back(self) -> None:
        self.dismiss()

    def _draw(self, width: int, height: int) -> Sequence[Line]:
        lines, self._room = self._make_lines(width), max(1, height - 1)
        self._top = max(0, min(self._top, len(lines) - self._room))
        below = len(lines) - self._top - self._room
        self.has_shown_all = self.has_shown_all or below <= 0
        shown = [*lines[self._top :][: self._room]]
        shown += [[] for _ in range(self._room - len(shown))]
        more = f"{format_count(below, 'line')} more below (page down)  " if below > 0 else ""
        return [*shown, [paint_text(more, "warning"), paint_text(self.note, "bad"), paint_text(self.keys, "quiet")]]


class FieldPage(LinePage):
    """A page with fields; `submit` gets their values, and returns what is wrong with them, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back"), Binding("pageup", "turn(-1)")]
    keys = "  enter does it, tab next field, escape goes back"

    def __init__(
        self,
        lines: Callable[[int], Sequence[Line]],
        fields: Mapping[str, str],
        submit: Callable[[list[str]], str],
    ) -> None:
        super().__init__(lines)
        self._fields = fields
        self._submit = submit

    def compose(self) -> ComposeResult:
        yield Canvas(self._draw)
        for name, value in self._fields.items():
            yield Canvas(make_label(name))
            yield Input(value, compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        for canvas in self.query(Canvas):
            canvas.can_focus = False  # tab goes from field to field
        self.set_focus(self.query_one(Input))

    @on(Input.Submitted)
    def go_on(self) -> None:
        values = [field.value.strip() for field in self.query(Input)]
        if not self.has_shown_all:
            self.note = "read all of it first"
        elif not (fault := self._submit(values)):
            self.dismiss()
            return
        else:
            self.note = fault
        self.query(Canvas).first().refresh()


def make_label(text: str) -> Callable[[int, int], Sequence[Line]]:
    return lambda width, height: [[paint_text(f"{text}:", "title")]]


class TooSmall(Screen[None]):
    """The one line for a terminal that is too small."""

    def compose(self) -> ComposeResult:
        yield Canvas(
            lambda width, height: [[f"this terminal has {width}x{height}; it needs {LEAST_WIDTH}x{LEAST_HEIGHT}"]]
        )
