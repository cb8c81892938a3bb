"""Output of commands.  Knows two streams that may be closed, full or ASCII; does not know commands.

Output that nobody reads does not change the exit code: `hooklatch fire ... | head -0` still exits with that of the
decision.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["complain", "finish", "has_reader", "plain", "prepare", "say", "say_json", "say_lines", "say_table"]


class StdoutState:
    """Whether standard output still works."""

    has_reader = True
    fault: str | None = None


OUTPUT = StdoutState()


def prepare() -> None:
    """Make the standard streams safe to use, whatever they are."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which otherwise a socket would get
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def has_reader() -> bool:
    """Return whether the output may still have a reader."""
    return OUTPUT.has_reader


def say(text: str = "") -> None:
    """Print a line and flush."""
    write(text.encode(sys.stdout.encoding if sys.stdout else "utf-8", "backslashreplace") + b"\n")


def say_json(value: object) -> None:
    """Print JSON on one line, in UTF-8 regardless of the locale (RFC 8259, section 8.1)."""
    import msgspec

    write(msgspec.json.encode(value) + b"\n")


def say_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table with titles."""
    cells = [list(titles), *([plain("-" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    for row in cells:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say_lines(*lines: tuple[str, object]) -> None:
    """Print labelled values, without those that are empty."""
    for label, value in lines:
        if value not in (None, ""):
            say(f"{label:<12}{plain(str(value))}")


def write(data: bytes) -> None:
    if sys.stdout is None or not OUTPUT.has_reader:  # pyright: ignore[reportUnnecessaryComparison]  # None: closed fd
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        give_up()
    except OSError as error:
        give_up()
        OUTPUT.fault = f"standard output cannot be written: {error.strerror}"


def give_up() -> None:
    # The interpreter flushes again at exit and would report the error (Python library, signal, "Note on SIGPIPE").
    OUTPUT.has_reader = False
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def complain(text: str) -> None:
    """Print a message to standard error; ignore failures."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]  # its descriptor was closed
        return
    try:
        print(f"hooklatch: {plain(text)}", file=sys.stderr, flush=True)
    except OSError:
        return


def finish() -> str | None:
    """Return what went wrong with standard output, except for a closed pipe."""
    return OUTPUT.fault


def plain(text: str) -> str:
    """Escape control characters, since a text from a hook or an agent may contain terminal escape sequences."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
