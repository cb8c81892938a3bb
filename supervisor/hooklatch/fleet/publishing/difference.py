"""The differences of two bundles: files as a unified diff, hooks by their declarations."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

__all__ = ["BundleDifference", "FileChange", "HookChange", "list_file_changes", "list_hook_changes"]

ChangeKind: TypeAlias = Literal["added", "removed", "changed"]
MAX_LINES = 20_000  # of a file that is shown as a diff: the time of a comparison grows with their square


class FileChange(msgspec.Struct, frozen=True):
    """A file that differs; `diff` are the lines of a unified diff, none if it is not text."""

    name: str
    what: ChangeKind
    diff: tuple[str, ...] = ()


class HookChange(msgspec.Struct, frozen=True):
    """A hook that differs; `details` are texts such as "timeout: 2.0, was 1.0"."""

    id: str
    what: ChangeKind
    details: tuple[str, ...] = ()


class BundleDifference(msgspec.Struct, frozen=True, kw_only=True):
    """`fleet diff`; `suspendable` is null where it did not change."""

    before: str
    after: str
    files: list[FileChange]
    hooks: list[HookChange]
    notes: list[str]
    suspendable: bool | None


def list_file_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[FileChange]:
    """Yield the files that differ, by name."""
    for name, what in list_changed_keys(before, after):
        yield FileChange(name, what, tuple(diff_file(name, before.get(name), after.get(name))))


def list_hook_changes(
    before: Mapping[str, Mapping[str, object]], after: Mapping[str, Mapping[str, object]]
) -> Iterator[HookChange]:
    """Yield the hooks whose declaration differs, by id; the files show a difference of their code."""
    for name, what in list_changed_keys(before, after):
        old, new = before.get(name, {}), after.get(name, {})
        details = [f"{key}: {new[key]}, was {old[key]}" for key in new if key in old and new[key] != old[key]]
        if what != "changed":
            details = [
                f"{key}: {value}" for key, value in (new or old).items() if key in ("event", "match", "where") and value
            ]
        yield HookChange(name, what, tuple(details))


def list_changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[tuple[str, ChangeKind]]:
    for name in sorted({*before, *after}):
        if name not in before:
            yield name, "added"
        elif name not in after:
            yield name, "removed"
        elif before[name] != after[name]:
            yield name, "changed"


def diff_file(name: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    try:
        old, new = ((data or b"").decode().splitlines() for data in (before, after))
    except UnicodeDecodeError:
        return
    if len(old) + len(new) > MAX_LINES:
        return
    names = "/dev/null" if before is None else f"a/{name}", "/dev/null" if after is None else f"b/{name}"
    yield from difflib.unified_diff(old, new, *names, lineterm="")
