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
    from typing import Any

__all__ = [
    "complain",
    "finish",
    "has_reader",
    "json_text",
    "prepare",
    "say",
    "say_json",
    "say_lines",
    "say_table",
    "say_text",
]


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


def say(line: str = "") -> None:
    """Print a line and flush; nothing in it can command the terminal."""
    say_text(plain(line))


def say_text(text: str) -> None:
    """Print lines as they are."""
    write(text.encode(sys.stdout.encoding if sys.stdout else "utf-8", "backslashreplace") + b"\n")


def say_json(value: object) -> None:
    """Print JSON on one line, in UTF-8 regardless of the locale (RFC 8259, section 8.1)."""
    write(json_text(value).encode(errors="backslashreplace") + b"\n")


def json_text(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain_value)


def plain_value(value: object) -> Any:
    import msgspec  # only for those commands that print structs, which have it

    return msgspec.to_builtins(value)


def say_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table with titles."""
    cells = [list(titles), *([plain("-" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    for row in cells:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say_lines(*lines: tuple[str, object], width: int = 12) -> None:
    """Print values beside their labels, without those that are empty."""
    for label, value in lines:
        if value not in (None, ""):
            say(f"{label:<{width}}{value}")


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
    return (
        text
        if text.isprintable()
        else "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    )
