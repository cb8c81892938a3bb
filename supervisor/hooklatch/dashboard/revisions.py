"""The revisions of the hooks, from the record, and the difference of two of them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

__all__ = ["RevisionDiff", "Revision", "compare_revisions", "list_revisions"]


class Revision(msgspec.Struct, frozen=True):
    """A revision, and its changes from the one before."""

    number: int
    previous: int | None
    at: Any
    digest: str
    added: list[str]
    removed: list[str]
    changed: list[str]


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
    changed: set[str] = set()
    for step in steps:
        if step.previous != place:
            return RevisionDiff(fault=f"the records on this page have a gap after revision {place}")
        place = step.number
        for name in step.added:
            before.setdefault(name, False)
            after[name] = True
        for name in step.removed:
            before.setdefault(name, True)
            after[name] = False
        for name in step.changed:
            before.setdefault(name, True)
            after[name] = True
            changed.add(name)
    if place != last:
        return RevisionDiff(fault=f"the records on this page do not reach revision {last}")
    stayed = {name for name in after if before[name] and after[name]}
    returned = {name for name in stayed for step in steps if name in step.removed}
    return RevisionDiff(
        sorted(name for name in after if after[name] and not before[name]),
        sorted(name for name in after if before[name] and not after[name]),
        sorted(stayed & (changed | returned)),
    )
