"""The list of hooks on a page: chosen by text, file and state, in an order, and by file where they are many.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from hooklatch.core.answers import HookStatus
from hooklatch.dashboard.counts import GuardSums

__all__ = ["ORDERS", "FileRow", "HookRow", "Part", "cut_page", "find_file", "group_files", "list_rows"]

T = TypeVar("T")
PAGE = 100  # rows
MANY = 60  # hooks that are shown by file


class HookRow(msgspec.Struct, frozen=True):
    """A hook as the daemon describes it, and its counts of the last days."""

    hook: HookStatus
    counts: GuardSums

    @property
    def failures(self) -> int:
        """Return the failed calls since the daemon started."""
        return sum(self.hook["timings"]["failures"].values())


class FileRow(msgspec.Struct, frozen=True):
    """A file of hooks, and the sums of these."""

    file: str
    hooks: int
    calls: int
    failures: int
    counts: GuardSums
    inactive: int


class Part(msgspec.Struct, Generic[T], frozen=True):
    """A page of rows: its number, and how many there are."""

    rows: Sequence[T]
    number: int
    pages: int
    total: int


# The orders: of what, by which value, and whether the highest value comes first.
ORDERS: Mapping[str, tuple[str, Callable[[HookRow], Any], bool]] = {
    "": ("firing order", lambda row: 0, False),
    "name": ("name", lambda row: row.hook["name"], False),
    "calls": ("calls", lambda row: row.hook["timings"]["count"], True),
    "quiet": ("fewest calls", lambda row: row.hook["timings"]["count"], False),
    "denies": ("refusals in 7 days", lambda row: (row.counts.denies, row.counts.asks), True),
    "last": ("last refusal", lambda row: row.counts.last, True),
    "failed": ("failures", lambda row: row.failures, True),
    "p99": ("p99", lambda row: row.hook["timings"]["p99_ms"] or 0, True),
}


def find_file(hook: HookStatus) -> str:
    """Return the file that declares a hook, or what does without a file."""
    place, _, line = (hook["origin"] or "").rpartition(":")
    return place if line.isdecimal() else hook["origin"] or hook["target"]


def list_rows(hooks: Sequence[HookStatus], counts: Mapping[str, GuardSums], given: Mapping[str, str]) -> list[HookRow]:
    """Return the rows of the hooks that `q`, `file` and `state` choose, in the order `sort`."""
    words = given.get("q", "").casefold().split()
    rows = [
        HookRow(hook, counts.get(hook["name"], GuardSums()))
        for hook in hooks
        if given.get("state", hook["state"]) == hook["state"]
        and given.get("file", find_file(hook)) == find_file(hook)
        and all(word in describe_for_search(hook) for word in words)
    ]
    _, key, is_descending = ORDERS.get(given.get("sort", ""), ORDERS[""])
    return sorted(rows, key=key, reverse=is_descending)


def describe_for_search(hook: HookStatus) -> str:
    parts = (hook["name"], hook["origin"], hook["target"], hook["event"], hook["match"], hook["description"])
    return " ".join(filter(None, parts)).casefold()


def group_files(rows: Sequence[HookRow], given: Mapping[str, str]) -> list[FileRow]:
    """Return the files of many hooks; none where the hooks themselves are to be shown."""
    if given or len(rows) <= MANY:
        return []
    files: dict[str, list[HookRow]] = {}
    for row in rows:
        files.setdefault(find_file(row.hook), []).append(row)
    return [sum_file(file, held) for file, held in files.items()]


def sum_file(file: str, rows: Sequence[HookRow]) -> FileRow:
    counts = GuardSums()
    for row in rows:
        counts.add(row.counts)
    return FileRow(
        file, len(rows), sum(row.hook["timings"]["count"] for row in rows), sum(row.failures for row in rows), counts,
        sum(row.hook["state"] != "active" for row in rows),
    )  # fmt: skip


def cut_page(rows: Sequence[T], number: int | None) -> Part[T]:
    """Return a page of rows, from 1 on."""
    pages = max(1, -(-len(rows) // PAGE))
    chosen = min(max(number or 1, 1), pages)
    return Part(rows[(chosen - 1) * PAGE : chosen * PAGE], chosen, pages, len(rows))
