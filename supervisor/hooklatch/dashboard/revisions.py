"""The revisions of the hooks, from the record, and the difference of two.  Pure, and bounded: texts may be huge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, cast

import msgspec

from hooklatch.dashboard.rendering import format_page_json

__all__ = [
    "FieldChange", "list_field_changes", "RevisionDiff", "Revision", "compare_revisions", "list_revisions",
    "list_text_changes",
]  # fmt: skip

MAX_LINES = 300  # of each side; the comparison takes quadratic time
MAX_SIDE = 20_000  # characters of each side
CONTEXT = 3  # unchanged lines around a change


class DiffLine(msgspec.Struct, frozen=True):
    """A line of a difference: `-` is old, `+` is new, a space is both, `@` stands for lines that are left out."""

    mark: str
    text: str


class FieldChange(msgspec.Struct, frozen=True):
    """The change of one field. `note` says what the difference does not show."""

    field: str
    lines: list[DiffLine]
    note: str = ""


def list_field_changes(payload: object, patch: object) -> list[FieldChange]:
    """Return the changes of a patch to a payload, by field, as far as the record has both."""
    if not isinstance(patch, Mapping):
        return []
    before = cast("Mapping[str, object]", payload) if isinstance(payload, Mapping) else None
    return [make_field_change(field, value, before) for field, value in cast("Mapping[str, object]", patch).items()]


def make_field_change(field: str, value: object, before: Mapping[str, object] | None) -> FieldChange:
    after = format_field_value(value)
    if before is None:
        note = "the old value is not in the record, which keeps only the beginning of a long payload"
        return FieldChange(field, [DiffLine("+", line) for line in clip_lines(after)[0]], note)
    return compare_beginnings(field, format_field_value(before[field]) if field in before else "", after)


def compare_beginnings(field: str, before: str, after: str) -> FieldChange:
    (old, is_old_cut), (new, is_new_cut) = clip_lines(before), clip_lines(after)
    note = "only the beginning of it is compared" if is_old_cut or is_new_cut else ""
    return FieldChange(field, list(compare_texts(old, new)), note)


def format_field_value(value: object) -> str:
    return value if isinstance(value, str) else format_page_json(value)


def clip_lines(text: str) -> tuple[list[str], bool]:
    """Return the first lines of a text, and whether there are more."""
    lines = text[:MAX_SIDE].split("\n") if text else []
    return lines[:MAX_LINES], len(lines) > MAX_LINES or len(text) > MAX_SIDE


def compare_texts(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    """Yield the difference of two texts, with some unchanged lines around what changed."""
    position = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if group[0][1] > position:
            yield DiffLine("@", f"{group[0][1] - position} unchanged lines")
        for kind, first, last, new_first, new_last in group:
            if kind == "equal":
                yield from (DiffLine(" ", line) for line in old[first:last])
            else:
                yield from (DiffLine("-", line) for line in old[first:last])
                yield from (DiffLine("+", line) for line in new[new_first:new_last])
            position = last
    if position < len(old) and position:
        yield DiffLine("@", f"{len(old) - position} unchanged lines")


class Revision(msgspec.Struct, frozen=True):
    """A revision, and its changes from the one before."""

    number: int
    previous: int | None
    at: Any
    digest: str
    added: list[str]
    removed: list[str]
    changed: list[str]
    seq: int = 0  # of its record, before which are those of its sources


class RevisionDiff(msgspec.Struct, frozen=True):
    """The changes from one revision to another. A `fault` says why they are not known."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    fault: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed or self.fault)


def list_revisions(records: Sequence[Mapping[str, Any]]) -> list[Revision]:
    """Return the revisions in the records of kind `registry`, newest first. Other records are left out."""
    revisions: list[Revision] = []
    for record in records:
        if record.get("kind") != "registry":
            continue
        try:
            revisions.append(msgspec.convert({**record, "number": record.get("revision")}, Revision))
        except msgspec.ValidationError:
            continue
    return sorted(revisions, key=lambda revision: revision.number, reverse=True)


def compare_revisions(known: Sequence[Revision], first: int, last: int) -> RevisionDiff:
    """Return the changes from revision `first` to revision `last`, which may be given in either order."""
    if first > last:
        back = compare_revisions(known, last, first)
        return RevisionDiff(back.removed, back.added, back.changed, back.fault)
    steps = [revision for revision in reversed(known) if first < revision.number <= last]
    place = first
    before: dict[str, bool] = {}  # of each hook that a step names: whether it was there at first
    after: dict[str, bool] = {}
    touched: set[str] = set()
    for step in steps:
        if step.previous != place:
            return RevisionDiff(fault=f"the records on this page have a gap after revision {place}")
        place = step.number
        for names, was_there, is_there in (
            (step.added, False, True),
            (step.removed, True, False),
            (step.changed, True, True),
        ):
            for name in names:
                before.setdefault(name, was_there)
                after[name] = is_there
        touched.update(step.removed, step.changed)
    if place != last:
        return RevisionDiff(fault=f"the records on this page do not reach revision {last}")
    return RevisionDiff(
        sorted(name for name in after if after[name] and not before[name]),
        sorted(name for name in after if before[name] and not after[name]),
        sorted(name for name in touched if before[name] and after[name]),
    )


MAX_SOURCES = 20


def list_text_changes(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[FieldChange]:
    """Return the changes of the sources between two moments, each given by the records of kind `source` before it."""
    before, after = (
        {str(record.get("location")): record for record in side if "build" in record} for side in (old, new)
    )
    changed = [
        place for place, record in after.items() if record.get("sha256") != before.get(place, {}).get("sha256")
    ]  # fmt: skip
    return [make_text_change(place, before.get(place), after[place]) for place in sorted(changed)[:MAX_SOURCES]]


def make_text_change(place: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> FieldChange:
    texts = [str(record.get("text") or "") if record is not None else "" for record in (before, after)]
    if not texts[1] or (before is not None and not texts[0]):
        return FieldChange(place, [], "the record does not have both texts: a long record, or a module's, is not kept")
    return compare_beginnings(place, *texts)
