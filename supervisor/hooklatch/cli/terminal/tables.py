"""The layout of a table in the width of a terminal.

A table that fits is shown as it is.  Otherwise columns are left out, the least important first, until each of the
others can hold its longest word.  The spare width goes to the columns that need it, whose cells are wrapped at words.
This module imports `rich`, for the width of a character, so import it only where a terminal is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

__all__ = ["FittedColumns", "clip_cell_text", "fit_columns", "pad_text", "wrap_text"]

GAP = 2  # blanks between columns
LONGEST_WORD = 24  # columns that a word may ask for before it is broken
TEXT = 16  # columns that a longer text is given at least, so that it does not become a ribbon
BREAKS = re.compile(r"[^/:._\-]*[/:._\-]+|[^/:._\-]+")  # where a long name may be broken: after these


class FittedColumns(NamedTuple):
    """The columns to show, by number, and their widths; and the titles of those that are left out."""

    columns: list[int]
    widths: list[int]
    left_out: list[str]


def fit_columns(cells: Sequence[Sequence[str]], *, width: int, drop: Sequence[str] = ()) -> FittedColumns:
    """Choose columns and widths for rows of cells, of which the first has the titles.

    `drop` has titles in the order in which to leave them out.  Then the last columns go, and the first one stays.
    """
    titles = cells[0]
    natural = [max(cell_len(row[column]) for row in cells) for column in range(len(titles))]
    minimum = [min(natural[column], measure_minimum([row[column] for row in cells])) for column in range(len(titles))]
    columns, left_out = list(range(len(titles))), list[str]()
    if sum_widths(natural, columns) <= width:
        return FittedColumns(columns, natural, [])
    order = [titles.index(title) for title in drop if title in titles]
    order += [column for column in reversed(columns[1:]) if column not in order]
    for column in order:
        if sum_widths(minimum, columns) <= width or len(columns) == 1:
            break
        columns.remove(column)
        left_out.append(titles[column])
    widths = [minimum[column] for column in columns]
    spare = width - sum_widths(minimum, columns)
    while spare > 0 and (needy := [place for place, column in enumerate(columns) if widths[place] < natural[column]]):
        widths[min(needy, key=widths.__getitem__)] += 1  # the narrowest first, so that no column starves
        spare -= 1
    return FittedColumns(columns, [max(1, min(wanted, width)) for wanted in widths], left_out)


def measure_minimum(cells: Sequence[str]) -> int:
    word = max((cell_len(word) for cell in cells[1:] for word in cell.split()), default=0)
    text = TEXT if any(" " in cell for cell in cells[1:]) else 0
    return max(cell_len(cells[0]), min(word, LONGEST_WORD), text)


def sum_widths(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[column] for column in columns) + GAP * (len(columns) - 1)


def wrap_text(text: str, width: int) -> list[str]:
    """Return a text in lines of `width` columns: broken at blanks, else after `/ : . _ -`, else anywhere."""
    width = max(width, 1)
    lines = [""]
    for word in text.split(" "):
        candidate = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(candidate) <= width:
            lines[-1] = candidate
            continue
        if lines[-1]:
            lines.append("")
        for part in split_word(word, width):
            if cell_len(lines[-1] + part) <= width:
                lines[-1] += part
            else:
                lines.append(part)
    return [line for line in lines if line] or [""]


def split_word(word: str, width: int) -> Iterator[str]:
    for part in BREAKS.findall(word):
        yield from (part,) if cell_len(part) <= width else chop_cells(part, width)


def clip_cell_text(text: str, width: int) -> str:
    """Return a text in at most `width` columns; of a longer one the beginning, with an ellipsis."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0)).rstrip()}…"


def pad_text(text: str, width: int, *, is_number: bool = False) -> str:
    """Return a text with blanks up to `width` columns; before it if it is a number."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if is_number else text + blanks
