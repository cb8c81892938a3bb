"""The style of text at a terminal: colours by meaning, short paths, and the width to fit.

It obeys NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org).  It imports next to nothing: a coloured line needs a
few bytes, and `rich` would double the time of a command, so only `tables` and `Spinner` use it, where a terminal is.

A painted text stays a text: in an f-string, in JSON and at a pipe it is as plain as before.  Control characters in it
are escaped when it is printed.

    output.print_line(look.paint_text("red", "bad"), ": the record cannot be written")
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import Literal, TextIO

    Meaning = Literal["good", "bad", "warning", "quiet", "title"]

__all__ = [
    "VERDICTS", "StyledText", "Spinner", "colour_text", "format_moment", "has_colour", "paint_text", "shorten_path",
    "shorten_revision", "terminal_width",
]  # fmt: skip

# The terminal's own colours, which people have chosen to be readable: ECMA-48, 8.3.117 (SGR).
CODES = {"good": "32", "bad": "1;31", "warning": "33", "quiet": "2", "title": "1"}
# The meaning of a verdict among many; those that change nothing are not painted there.
VERDICTS: dict[str, Meaning] = {"deny": "bad", "halt": "bad", "ask": "warning", "allow": "good"}
DEFAULT_WIDTH = 80  # columns of a terminal that does not report them, such as one over a serial line
SPINNER_DELAY = 1.0  # seconds before a wait is shown, and between two updates of its line
REVISION_DIGITS = 6  # those that change; all of them are in --json


class StyledText(str):
    """A text with its meaning; printed in colour where colours are wanted, and else as it is."""

    meaning: Meaning
    __slots__ = ("meaning",)

    def __new__(cls, text: object, meaning: Meaning) -> StyledText:
        painted = super().__new__(cls, text)
        painted.meaning = meaning
        return painted


def paint_text(text: object, meaning: Meaning) -> StyledText:
    """Return a text with a meaning; give it to `output` as a piece of its own, since an f-string drops the meaning."""
    return StyledText(text, meaning)


def colour_text(text: str, meaning: Meaning) -> str:
    """Return a text, whose control characters are escaped already, with the terminal's codes."""
    return f"\x1b[{CODES[meaning]}m{text}\x1b[0m" if text else text


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: TextIO | None) -> bool:
    """Return whether colours are wanted there: not with NO_COLOR, always with FORCE_COLOR, and else at a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal(stream) and os.environ.get("TERM") != "dumb")


def terminal_width(stream: TextIO | None) -> int | None:
    """Return the columns of a terminal; None for another stream, where nothing is cut, wrapped or left out."""
    if stream is None or not is_terminal(stream):
        return None
    columns = os.environ.get("COLUMNS", "")  # set by a person or a test; the terminal's own size comes second
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


class Spinner:
    """A line on standard error that names what is being waited for, from the second second on; only at a terminal.

    The line is removed when the block ends, also by an exception.  A thread draws it, since the wait may be any
    blocking call.
    """

    def __init__(self, text: str) -> None:
        self.text = text  # may be changed while it is shown, such as for a count
        self.is_shown = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._thread: Thread | None = None

    def __enter__(self) -> Spinner:
        if self.is_shown:
            from threading import Event, Thread

            self._is_over = Event()
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()

    def _show(self) -> None:
        if self._is_over.wait(SPINNER_DELAY):
            return
        from rich.console import Console
        from rich.text import Text

        begun = time.monotonic() - SPINNER_DELAY
        with Console(stderr=True).status(Text(self.text)) as status:
            while not self._is_over.wait(SPINNER_DELAY):
                status.update(Text(f"{self.text} ({time.monotonic() - begun:.0f} s)"))


def shorten_path(path: str) -> str:
    """Return a path with `~` for the home directory, at a terminal.

    It is not for a command to copy, since a quoted `~` is not expanded.
    """
    home = os.environ.get("HOME", "").rstrip("/")
    if not home or not is_terminal(sys.stdout):
        return path
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def shorten_revision(revision: object) -> str:
    """Return the last digits of a revision at a terminal, which are enough to tell two apart."""
    text = str(revision)
    return f"…{text[-REVISION_DIGITS:]}" if is_terminal(sys.stdout) and len(text) > REVISION_DIGITS + 1 else text


def format_moment(at: object, *, is_brief: bool = False) -> str:
    """Return a moment, given in seconds since 1970 or as the record spells it: the only form in which people read one.

    At a terminal that is local time with its zone, and with `is_brief` without the date, if that is today's.  Elsewhere
    it is UTC, as in the record.  What is not a moment stays as it is.
    """
    from datetime import UTC, datetime

    try:
        moment = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else datetime.fromisoformat(str(at))
        if moment.tzinfo is None or not is_terminal(sys.stdout):
            return at if isinstance(at, str) else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        local = moment.astimezone()
    except (ValueError, OverflowError, OSError):
        return str(at)
    if not is_brief:
        return f"{local:%Y-%m-%d %H:%M:%S %Z}"
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M:%S %Z}" if is_today else f"{local:%m-%d %H:%M %Z}"
