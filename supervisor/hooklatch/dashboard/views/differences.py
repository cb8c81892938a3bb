"""What changed from one text or value to another, line by line.  Pure, and bounded: texts of others may be huge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import cast

import msgspec

from hooklatch.dashboard.views.text import pretty

__all__ = ["Change", "Line", "changes_of", "compared"]

MOST_LINES = 300  # of each side; comparing takes the square of that
MOST_TEXT = 20_000  # characters of each side
CONTEXT = 3  # unchanged lines around a change


class Line(msgspec.Struct, frozen=True):
    """A line of a difference: `-` was, `+` is, a space both, `@` leaves some out."""

    mark: str
    text: str


class Change(msgspec.Struct, frozen=True):
    """What a field was replaced with; `note` says what the difference does not show."""

    field: str
    lines: list[Line]
    note: str = ""


def changes_of(payload: object, patch: object) -> list[Change]:
    """Return what a patch changed in a payload, by field; both as far as the record has them."""
    if not isinstance(patch, Mapping):
        return []
    before = cast("Mapping[str, object]", payload) if isinstance(payload, Mapping) else None
    return [change_of(field, value, before) for field, value in cast("Mapping[str, object]", patch).items()]


def change_of(field: str, value: object, before: Mapping[str, object] | None) -> Change:
    after = text_of(value)
    if before is None:
        note = "what was there before is not in the record, which keeps the beginning of a long payload alone"
        return Change(field, [Line("+", line) for line in bounded(after)[0]], note)
    old, is_old_cut = bounded(text_of(before[field]) if field in before else "")
    new, is_new_cut = bounded(after)
    note = "only the beginning of it is compared" if is_old_cut or is_new_cut else ""
    return Change(field, list(compared(old, new)), note)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else pretty(value)


def bounded(text: str) -> tuple[list[str], bool]:
    """Return the first lines of a text, and whether there are more."""
    lines = text[:MOST_TEXT].split("\n") if text else []
    return lines[:MOST_LINES], len(lines) > MOST_LINES or len(text) > MOST_TEXT


def compared(old: list[str], new: list[str]) -> Iterator[Line]:
    """Yield the difference of two texts, with some unchanged lines around what changed."""
    position = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if group[0][1] > position:
            yield Line("@", f"{group[0][1] - position} unchanged lines")
        for kind, first, last, new_first, new_last in group:
            if kind == "equal":
                yield from (Line(" ", line) for line in old[first:last])
            else:
                yield from (Line("-", line) for line in old[first:last])
                yield from (Line("+", line) for line in new[new_first:new_last])
            position = last
    if position < len(old) and position:
        yield Line("@", f"{len(old) - position} unchanged lines")
