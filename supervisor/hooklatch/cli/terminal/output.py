"""The output of commands, on two streams that may be closed, full or ASCII.

At a terminal lines are wrapped at words, tables fit the width, and painted text (`look.paint_text`) has its colour.
Anywhere else everything is plain and whole.  A reader that has gone does not change the exit code:
`hooklatch fire ... | head -0` still exits with that of the decision.
"""

from __future__ import annotations

import os
import sys

from hooklatch.cli.terminal.look import StyledText, colour_text, has_colour, paint_text, shorten_path, terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TextIO, TypeVar

    from hooklatch.cli.terminal.look import Meaning

    T = TypeVar("T")

__all__ = [
    "print_error", "escape_mentions", "order_failures_first", "finish_output", "has_reader", "format_json",
    "escape_invisible", "prepare_streams", "print_line", "say_diff", "say_exact", "say_json", "say_lines",
    "say_change", "say_result", "say_table", "say_text",
]  # fmt: skip


NARROWEST = 20  # columns for words beside an indent; with less, the terminal wraps by itself
HANG = 4  # columns by which a line goes on to the right of its beginning
WIDEST = 2  # columns that a character takes at most


class StdoutState:
    """The state of standard output: whether it has a reader, the error that broke it, and how an @ is printed."""

    has_reader = True
    fault: str | None = None
    escapes_mentions = False


OUTPUT = StdoutState()


def prepare_streams() -> None:
    """Make the standard streams safe to use, also those that are closed or cannot encode every character."""
    OUTPUT.escapes_mentions = False
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which otherwise a socket would get
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def escape_mentions() -> None:
    """From here on print an @ as `\\x40`, unless a person at a terminal reads it."""
    OUTPUT.escapes_mentions = terminal_width(sys.stdout) is None


def has_reader() -> bool:
    """Return whether the output may still have a reader."""
    return OUTPUT.has_reader


def print_line(*pieces: str, is_tight: bool = False) -> None:
    """Print a line and flush: pieces in a row, in colour where painted; nothing in them can command the terminal.

    At a terminal a long line is wrapped at words, and its further rows are indented.  With `is_tight` that holds for
    words without blanks too, which otherwise the terminal breaks at its edge.
    """
    shown = [paint_like(escape_invisible(piece), piece) for piece in pieces]
    say_text("\n".join(lay_out_pieces(shown, sys.stdout, hang=HANG, is_tight=is_tight)))


def say_exact(line: str) -> None:
    """Print a line that people copy or compare, such as one of a traceback: like `print_line`, but never wrapped."""
    shown = paint_like(escape_invisible(line), line)
    say_text(paint_pieces([shown], 0, len(shown)) if has_colour(sys.stdout) else shown)


def say_diff(lines: Iterable[str]) -> None:
    """Print the lines of a unified diff: the added ones green, the removed ones red."""
    meanings: dict[str, Meaning] = {"+": "good", "-": "bad", "@": "quiet"}
    for line in lines:
        say_exact(paint_text(line, meanings[line[0]]) if line[:1] in meanings else line)


def lay_out_pieces(pieces: Sequence[str], stream: TextIO | None, *, hang: int, is_tight: bool = False) -> list[str]:
    """Return lines for a stream: wrapped if it is a terminal, and painted if it has colours."""
    width, has_colours = terminal_width(stream), has_colour(stream)
    text = "".join(pieces)
    if width is None or len(text) * (1 if text.isascii() or not is_tight else WIDEST) <= width:
        return [paint_pieces(pieces, 0, len(text)) if has_colours else text]
    indent = " " * (len(text) - len(text.lstrip()) + hang)
    if is_tight:
        indent = indent[: width // 2]
    spans = find_row_spans(text, width, width - len(indent)) if is_tight else find_line_spans(text, width, indent)
    lines = [paint_pieces(pieces, start, end) if has_colours else text[start:end] for start, end in spans]
    return [lines[0], *(indent + line for line in lines[1:])]


def paint_pieces(pieces: Sequence[str], start: int, end: int) -> str:
    """Return the text of pieces from `start` to `end`, with the terminal's codes."""
    parts: list[str] = []
    at = 0
    for piece in pieces:
        part = piece[max(start - at, 0) : max(end - at, 0)]
        parts.append(colour_text(part, piece.meaning) if isinstance(piece, StyledText) else part)
        at += len(piece)
    return "".join(parts)


def find_line_spans(text: str, width: int, indent: str) -> list[tuple[int, int]]:
    """Return the spans of a text's lines.  A command to copy is not broken if it fits on a line at all."""
    import re
    from bisect import bisect_right

    room = width - len(indent)
    if room < NARROWEST:
        return [(0, len(text))]
    commands = [match.span() for match in re.finditer(r"`[^`]+`|\bhooklatch [a-z][^();,`]*[^\s();,`]", text)]
    blanks = find_breaks(text, [(start, end) for start, end in commands if end - start <= room])
    spans: list[tuple[int, int]] = []
    start, end = 0, width
    while len(text) > end:
        place = bisect_right(blanks, end)
        if place and blanks[place - 1] > start and text[start : blanks[place - 1]].strip():
            cut = blanks[place - 1]
        else:
            cut = blanks[place] if place < len(blanks) else len(text)
        stop = cut
        while stop > start and text[stop - 1] == " ":
            stop -= 1
        spans.append((start, stop))
        start = cut
        while start < len(text) and text[start] == " ":
            start += 1
        end = start + room
    return [*spans, (start, len(text))] if start < len(text) else spans


def find_row_spans(text: str, width: int, room: int) -> list[tuple[int, int]]:
    """Return the spans of a text's rows: each certainly fits, and nothing between them is left out."""
    spans: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = start + 1
        used = WIDEST  # a character beyond ASCII counts as two columns: the terminal's own widths are not known
        while end < len(text) and (used := used + (1 if text[end].isascii() else WIDEST)) <= width:
            end += 1
        if end < len(text) and (blank := text.rfind(" ", (start + end) // 2, end)) >= 0:
            end = blank + 1
        spans.append((start, end))
        start, width = end, room
    return spans


def find_breaks(text: str, unbroken: Sequence[tuple[int, int]]) -> list[int]:
    """Return the blanks at which a line may be broken.  In one pass, since a hook's reason may have a million words."""
    blanks: list[int] = []
    passed, at = 0, text.find(" ")
    while at >= 0:
        while passed < len(unbroken) and unbroken[passed][1] <= at:
            passed += 1
        if passed == len(unbroken) or at < unbroken[passed][0]:
            blanks.append(at)
        at = text.find(" ", at + 1)
    return blanks


def say_text(text: str) -> None:
    """Print lines as they are."""
    text = text.replace("@", "\\x40") if OUTPUT.escapes_mentions else text
    write_bytes(text.encode(sys.stdout.encoding if sys.stdout else "utf-8", "backslashreplace") + b"\n")


def say_json(value: object) -> None:
    """Print JSON on one line, in UTF-8 regardless of the locale (RFC 8259, section 8.1)."""
    write_bytes(format_json(value).encode(errors="backslashreplace") + b"\n")


def say_result(
    value: object, *lines: str | Sequence[str], is_json: bool, show: Callable[[], object] = lambda: None, code: int = 0
) -> int:
    """Print what a command came to, as JSON for programs, and for people in lines, or by `show`; return the code.

    A line may be the pieces of one.
    """
    if is_json:
        say_json(value)
        return code
    for line in lines:
        print_line(*((line,) if isinstance(line, str) else line))
    show()
    return code


def say_change(
    answer: Mapping[str, Any], *lines: str, is_json: bool, show: Callable[[], object] = lambda: None, code: int = 0
) -> int:
    """Print what a change came to, and to standard error the warnings in it: it may be lost at the next start."""
    say_result(answer, *lines, is_json=is_json, show=show)
    for warning in answer.get("warnings", ()) if not is_json else ():
        print_error(warning)
    return code


def format_json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=make_plain_value)


def make_plain_value(value: object) -> Any:
    import msgspec  # only for those commands that print structs, which have it

    return msgspec.to_builtins(value, enc_hook=lambda part: msgspec.json.decode(part))  # a part of a patch is JSON


def order_failures_first(things: Iterable[T], is_wrong: Callable[[T], object]) -> list[T]:
    """Return things in their order, with those before the others that are wrong."""
    return sorted(things, key=lambda thing: not is_wrong(thing))


def say_table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, drop: Sequence[str] = ()) -> None:
    """Print rows as a table with titles; at a terminal it fits.

    `drop` has the titles of columns that may be left out there, the least important one first.
    """
    cells: list[list[str]] = [[paint_text(title, "title") for title in titles]]
    cells += [[format_table_cell(cell) for cell in row] for row in rows]
    columns = terminal_width(sys.stdout)
    if columns is not None:
        say_fitting(cells, columns, drop)
        return
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    for row in cells:
        print_line(*format_columns([(cell, cell.ljust(width)) for cell, width in zip(row, widths, strict=True)]))


def paint_like(text: str, other: object) -> str:
    """Return a text with the meaning of another one, if that has one."""
    return paint_text(text, other.meaning) if isinstance(other, StyledText) else text


def format_table_cell(value: object) -> str:
    if value is None:
        return "-"
    return paint_like(escape_invisible(str(value)), value)


def format_columns(cells: Sequence[tuple[str, str]]) -> list[str]:
    """Return the pieces of a row, without blanks at its end.  A cell is its value, and a text as wide as its column."""
    last = max((place for place, (_, text) in enumerate(cells) if text.strip()), default=-1)
    pieces: list[str] = []
    for place, (value, text) in enumerate(cells[: last + 1]):
        shown = text.rstrip() if place == last else text
        pieces += [paint_like(shown, value), "" if place == last else "  "]
    return pieces


def say_fitting(cells: Sequence[Sequence[str]], width: int, drop: Sequence[str]) -> None:
    from hooklatch.cli.terminal import tables  # it imports rich, which is for terminals

    cells = [[paint_like(shorten_path(cell), cell) for cell in row] for row in cells]
    columns, widths, left_out = tables.fit_columns(cells, width=width, drop=drop)
    numeric = [all(is_number(row[column]) for row in cells[1:]) for column in columns]
    for row in cells:
        blocks = [tables.wrap_text(row[column], wide) for column, wide in zip(columns, widths, strict=True)]
        for line in range(max(map(len, blocks))):
            texts = [block[line] if line < len(block) else "" for block in blocks]
            layout = zip(columns, texts, widths, numeric, strict=True)
            print_line(
                *format_columns(
                    [(row[at], tables.pad_text(text, wide, is_number=right)) for at, text, wide, right in layout]
                )
            )
    if left_out:
        print_line(paint_text(f"no room for {', '.join(left_out)}; a wider terminal or --json has them", "quiet"))


def is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(".", "", 1).isdecimal()


# The meaning of a label for the value beside it; other labels are not painted.
LABELS: Mapping[str, Meaning] = {
    "wrong": "bad", "WRONG": "bad", "SUSPENDED": "bad", "problem": "bad", "warning": "warning", "hint": "warning",
    "do": "good",
}  # fmt: skip


def say_lines(*lines: tuple[str, object], width: int = 12, is_tight: bool = False) -> int:
    """Print values beside their labels, without those that are empty; return the number of lines.

    At a terminal long values are wrapped as by `print_line`: with `is_tight` no part of a value is in the place of a
    label.
    """
    count = 0
    for label, value in lines:
        if value in (None, ""):
            continue
        text = value if isinstance(value, str) else str(value)
        meaning = LABELS.get(label)
        name = f"{escape_invisible(label):<{width - 1}} "  # a key of an agent's payload may be a label
        shown = (
            paint_text(escape_invisible(text), text.meaning) if isinstance(text, StyledText) else escape_invisible(text)
        )
        pieces = [paint_text(name, meaning) if meaning is not None else name, shown]
        rows = lay_out_pieces(pieces, sys.stdout, hang=width, is_tight=is_tight)
        count += len(rows)
        say_text("\n".join(rows))
    return count


def write_bytes(data: bytes) -> None:
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


def print_error(text: str) -> None:
    """Print a message to standard error; ignore failures."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]  # its descriptor was closed
        return
    try:
        pieces = [paint_text("hooklatch:", "title"), f" {escape_invisible(text)}"]
        print("\n".join(lay_out_pieces(pieces, sys.stderr, hang=HANG)), file=sys.stderr, flush=True)
    except OSError:
        return


def finish_output() -> str | None:
    """Return the error of standard output; a closed pipe is not one."""
    return OUTPUT.fault


def escape_invisible(text: str) -> str:
    """Escape invisible characters: a text from a hook or an agent may contain terminal escape sequences."""
    if text.isascii() and text.isprintable():
        return text
    from hooklatch.core.text import escape_text  # few texts need it

    return escape_text(text)
