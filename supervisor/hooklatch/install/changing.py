"""Installs into a file of settings and takes it out again: which bytes a file gets, its backup, and its record.

Knows files and their texts by way of the modules beside it; asks nobody and prints nothing.  What a change would be is
worked out first (`Change`), and made by `apply`, so that a dry run shows exactly what would be done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, cast

from hooklatch.install import files, record
from hooklatch.install.entries import Shape, find_entries, is_nothing, with_entries, without_entries
from hooklatch.install.files import FileError
from hooklatch.install.jsonc import JsoncError, parse
from hooklatch.install.plugin import is_plugin

__all__ = [
    "Change",
    "apply",
    "diff_of",
    "editing",
    "installing",
    "installing_plugin",
    "uninstalling",
    "uninstalling_plugin",
]

MARK = "\ufeff"  # a byte order mark


@dataclass(frozen=True, slots=True)
class Change:
    """What a file holds, what it gets, and what it would be without hooklatch; None: no file."""

    path: str
    before: bytes | None
    after: bytes | None
    without: bytes | None
    backup: str | None = None  # one that is there already, of `without`
    edited: bytes | None = None  # what would be lost with the file, so that it is backed up

    @property
    def is_none(self) -> bool:
        return self.before == self.after


def installing(
    path: str, shape: Shape, handlers: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]
) -> Change:
    """Return the change that gives each event its handler.

    Raises:
        FileError: the file cannot be read or understood; the text says where, and what to do.
    """
    before = files.read(path)
    mark, text = text_of(path, before)
    with understood(path):
        found = list(find_entries(text))
        there = {one.event: one.handler for one in found if one.matcher is None}
        if there == handlers and len(found) == len(handlers):
            return Change(path, before, before, before)
        without, backup = without_ours(path, before, shape, environ)
        rest = text_of(path, without)[1]
        after = with_entries(rest, shape, handlers)
        check(path, after, rest, handlers)
    return Change(path, before, (mark + after).encode(), without, backup)


def installing_plugin(path: str, text: str, environ: Mapping[str, str]) -> Change:
    """Return the change that makes a file of our own.

    Raises:
        FileError: there is one of that name that is not ours, or it cannot be read.
    """
    before = files.read(path)
    if before is not None and not is_plugin(before):
        raise FileError(f"{path} is not hooklatch's; move it away, then install again")
    return Change(path, before, text.encode(), None)


def uninstalling(path: str, shape: Shape, environ: Mapping[str, str]) -> Change:
    """Return the change that takes everything of ours out of a file.

    Raises:
        FileError: the file cannot be read or understood.
    """
    before = files.read(path)
    with understood(path):
        without, backup = without_ours(path, before, shape, environ)
    return Change(path, before, without, without, backup)


def uninstalling_plugin(path: str, environ: Mapping[str, str]) -> Change:
    """Return the change that takes a file of our own away; one that was edited is kept as a backup.

    Raises:
        FileError: it cannot be read.
    """
    before = files.read(path)
    if before is None or not is_plugin(before):
        return Change(path, before, before, before)
    known = record.installed(environ).get(path)
    is_edited = known is None or record.digest(before) != known.digest
    return Change(path, before, None, None, edited=before if is_edited else None)


def editing(
    path: str, put: Callable[[str], str] | None, strip: Callable[[str], str], environ: Mapping[str, str]
) -> Change:
    """Return the change that puts something into a text (None: that takes it out), where `strip` takes it out.

    Raises:
        FileError: the file cannot be read.
    """
    before = files.read(path)
    history = History(path, before, environ)
    without = history.original if history.is_untouched else stripped(path, before, strip)
    if put is None:
        return Change(path, before, without, without, history.backup_of(without))
    mark, text = text_of(path, without)
    return Change(path, before, (mark + put(text)).encode(), without, history.backup_of(without))


def stripped(path: str, data: bytes | None, strip: Callable[[str], str]) -> bytes | None:
    if data is None:
        return None
    mark, text = text_of(path, data)
    return (mark + strip(text)).encode()


class History:
    """What is known of a file from its record: its bytes before us, and whether it is as we left it."""

    def __init__(self, path: str, now: bytes | None, environ: Mapping[str, str]) -> None:
        self.known = record.installed(environ).get(path)
        self.original: bytes | None = None
        self.is_untouched = False
        if self.known is None:
            return
        backup = self.known.backup
        kept = files.read(backup) if backup is not None else None
        if kept is not None and record.digest(kept) == self.known.backup_digest:
            self.original = kept
        has_original = backup is None or self.original is not None
        self.is_untouched = has_original and now is not None and record.digest(now) == self.known.digest

    def backup_of(self, without: bytes | None) -> str | None:
        return (
            self.known.backup if self.known is not None and without is not None and without == self.original else None
        )


def without_ours(
    path: str, before: bytes | None, shape: Shape, environ: Mapping[str, str]
) -> tuple[bytes | None, str | None]:
    """Return a file's bytes without our entries, and the backup that holds exactly these, if one does."""
    if before is None:
        return None, None
    history = History(path, before, environ)
    if history.is_untouched:
        return history.original, history.backup_of(history.original)
    mark, text = text_of(path, before)
    if not any(True for _ in find_entries(text)):
        return before, history.backup_of(before)
    root = parse(text_of(path, history.original)[1]) if history.original is not None else None
    rest = without_entries(text, None if root is None else root.value)
    if history.original is None and is_nothing(rest, shape):
        return None, None
    without = (mark + rest).encode()
    return without, history.backup_of(without)


def apply(change: Change, host: str, environ: Mapping[str, str]) -> str | None:
    """Make a change, and return the path of the backup that is now beside the file.

    Raises:
        FileError: it cannot be made; the file is as it was.
    """
    path, before, after = change.path, change.before, change.after
    known = record.installed(environ).get(path)
    if after is None:
        kept = files.back_up(path, change.edited) if change.edited is not None else None
        if before is not None:
            files.delete(path, before)
        record.forget(environ, path)
        files.remove_folders(known.folders if known is not None else [])
        return kept
    is_uninstall = after == change.without
    if is_uninstall:
        if before != after:
            files.replace(path, before, after)
        record.forget(environ, path)
        if change.backup is not None:
            files.delete(change.backup, after)  # it says what the file says again
            return None
        return known.backup if known is not None else None
    folders = [*(known.folders if known is not None else []), *files.make_folders(path)]
    backup = change.backup
    try:
        if change.without is not None and backup is None:
            backup = files.back_up(path, change.without)
        without = change.without or b""
        files.replace(path, before, after)
    except FileError:
        if known is None:
            files.remove_folders(folders)
        if backup is not None and backup != change.backup and change.without is not None:
            files.delete(backup, change.without)
        raise
    noted = record.Installed(host, record.digest(after), backup, record.digest(without) if backup else "", folders)
    record.remember(environ, path, noted)
    return backup


def diff_of(change: Change) -> str:
    """Return what a change does to a file, as `diff -u` shows it."""
    before, after = (
        (data or b"").decode(errors="replace").splitlines(keepends=True) for data in (change.before, change.after)
    )
    old, new = (change.path if data is not None else os.devnull for data in (change.before, change.after))
    lines = unified_diff(before, after, old, new)
    return "".join(
        line.replace("\r\n", "\n") if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )


def text_of(path: str, data: bytes | None) -> tuple[str, str]:
    """Return a file's byte order mark, "" if it has none, and the rest of it."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError as error:
        line = (data or b"").count(b"\n", 0, error.start) + 1
        raise FileError(f"{path} is not UTF-8 (line {line}); convert it, then try again") from None
    return (MARK, text[1:]) if text.startswith(MARK) else ("", text)


class understood:
    """Turns what is wrong with a text into an error that names its file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, JsoncError):
            place = f"{self.path}:{error.line}:{error.column}"
            raise FileError(f"{place}: {error.what}; nothing was changed: mend the file, then try again") from None


def check(path: str, after: str, rest: str, handlers: Mapping[str, Mapping[str, Any]]) -> None:
    """Make sure that a text to be written holds the rest and our handlers, and nothing else."""
    there = {one.event: one.handler for one in find_entries(after)}
    root, old = parse(without_entries(after, None if (old := parse(rest)) is None else old.value)), parse(rest)
    values = [node.value if node is not None else None for node in (root, old)]
    is_alike = values[0] == values[1] or values[1] is None or without_version(values[0]) == values[1]
    if there != handlers or not is_alike:
        raise FileError(f"{path} would not hold what it should; nothing was changed; please report this as a bug")


def without_version(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: one for key, one in cast("dict[str, object]", value).items() if key != "version"}
