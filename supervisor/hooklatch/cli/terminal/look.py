"""What a person at a terminal gets beside plain text: colours by meaning, short paths, and the width to fit.

Knows streams and the variables NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org); knows no command.  Imports
next to nothing: a coloured line needs a few bytes, and `rich` would double what a command takes.  It is for `tables`
and `Spinner`, where a terminal is.

What is painted stays text: in an f-string, in JSON and at a pipe it is as plain as before, and control characters of a
hook's own words are escaped when it is printed.
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
    "VERDICTS",
    "StyledText",
    "Spinner",
    "colour_text",
    "has_colour",
    "paint_text",
    "shorten_path",
    "shorten_revision",
    "terminal_width",
]

# The terminal's own colours, which people have chosen to be readable: ECMA-48, 8.3.117 (SGR).
CODES = {"good": "32", "bad": "1;31", "warning": "33", "quiet": "2", "title": "1"}
# What a verdict means, where it is one among many; those that change nothing are not painted there.
VERDICTS: dict[str, Meaning] = {"deny": "bad", "halt": "bad", "ask": "warning", "allow": "good"}
DEFAULT_WIDTH = 80  # columns of a terminal that does not tell, as one over a serial line
PATIENCE = 1.0  # seconds before something is said to take long, and between two words about it
REVISION_DIGITS = 6  # those that change; all of them are in --json


class StyledText(str):
    """A text with what it means; printed in colour where colours are wanted, and else as it is."""

    meaning: Meaning
    __slots__ = ("meaning",)

    def __new__(cls, text: object, meaning: Meaning) -> StyledText:
        painted = super().__new__(cls, text)
        painted.meaning = meaning
        return painted


def paint_text(text: object, meaning: Meaning) -> StyledText:
    """Return a text to be shown as what it means; give it to `output` as a piece of its own, not in an f-string."""
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
    """Return the columns of a terminal; None for what is none, where nothing is cut, wrapped or left out."""
    if stream is None or not is_terminal(stream):
        return None
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


class Spinner:
    """Shows on standard error what is being waited for, from the second second on; only at a terminal.

    The line is gone when the block ends, however it does.  It is drawn by a thread, since the wait may be for anything.
    """

    def __init__(self, text: str) -> None:
        self.text = text  # may be changed meanwhile, as for a count
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
        if self._is_over.wait(PATIENCE):
            return
        from rich.console import Console
        from rich.text import Text

        begun = time.monotonic() - PATIENCE
        with Console(stderr=True).status(Text(self.text)) as status:
            while not self._is_over.wait(PATIENCE):
                status.update(Text(f"{self.text} ({time.monotonic() - begun:.0f} s)"))


def shorten_path(path: str) -> str:
    """Return a path with `~` for the home directory, at a terminal; not for a command to copy, which may quote it."""
    home = os.environ.get("HOME", "").rstrip("/")
    if not home or not is_terminal(sys.stdout):
        return path
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def shorten_revision(revision: object) -> str:
    """Return the last digits of a revision at a terminal, where they tell one from another."""
    text = str(revision)
    return f"…{text[-REVISION_DIGITS:]}" if is_terminal(sys.stdout) and len(text) > REVISION_DIGITS + 1 else text
