"""Installs into a file of settings and takes it out again: which bytes a file gets, its backup, and its record.

Knows files and their texts by way of the modules beside it; asks nobody and prints nothing.  What a change would be is
worked out first (`FileEdit`), and made by `apply_edit`, so that a dry run shows exactly what would be done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, cast

from hooklatch.install import files, record
from hooklatch.install.entries import SettingsShape, add_entries, find_entries, is_nothing, remove_entries
from hooklatch.install.files import FileError
from hooklatch.install.jsonc import JsoncError, parse_jsonc
from hooklatch.install.plugin import is_plugin

__all__ = [
    "FileEdit",
    "apply_edit",
    "diff_edit",
    "plan_edit",
    "plan_install",
    "plan_plugin_install",
    "plan_settings_uninstall",
    "plan_plugin_uninstall",
]

MARK = "\ufeff"  # a byte order mark


@dataclass(frozen=True, slots=True)
class FileEdit:
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


def plan_install(
    path: str, shape: SettingsShape, handlers: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]
) -> FileEdit:
    """Return the change that gives each event its handler.

    Raises:
        FileError: the file cannot be read or understood; the text says where, and what to do.
    """
    before = files.read_if_present(path)
    mark, text = split_bom(path, before)
    with understood(path):
        found = list(find_entries(text))
        there = {one.event: one.handler for one in found if one.matcher is None}
        if there == handlers and len(found) == len(handlers):
            return FileEdit(path, before, before, before)
        without, backup = remove_own_entries(path, before, shape, environ)
        rest = split_bom(path, without)[1]
        after = add_entries(rest, shape, handlers)
        validate_edit(path, after, rest, handlers)
    return FileEdit(path, before, (mark + after).encode(), without, backup)


def plan_plugin_install(path: str, text: str, environ: Mapping[str, str]) -> FileEdit:
    """Return the change that makes a file of our own.

    Raises:
        FileError: there is one of that name that is not ours, or it cannot be read.
    """
    before = files.read_if_present(path)
    if before is not None and not is_plugin(before):
        raise FileError(f"{path} is not hooklatch's; move it away, then install again")
    return FileEdit(path, before, text.encode(), None)


def plan_settings_uninstall(path: str, shape: SettingsShape, environ: Mapping[str, str]) -> FileEdit:
    """Return the change that takes everything of ours out of a file.

    Raises:
        FileError: the file cannot be read or understood.
    """
    before = files.read_if_present(path)
    with understood(path):
        without, backup = remove_own_entries(path, before, shape, environ)
    return FileEdit(path, before, without, without, backup)


def plan_plugin_uninstall(path: str, environ: Mapping[str, str]) -> FileEdit:
    """Return the change that takes a file of our own away; one that was edited is kept as a backup.

    Raises:
        FileError: it cannot be read.
    """
    before = files.read_if_present(path)
    if before is None or not is_plugin(before):
        return FileEdit(path, before, before, before)
    known = record.list_installed(environ).get(path)
    is_edited = known is None or record.digest_bytes(before) != known.digest
    return FileEdit(path, before, None, None, edited=before if is_edited else None)


def plan_edit(
    path: str, put: Callable[[str], str] | None, strip: Callable[[str], str], environ: Mapping[str, str]
) -> FileEdit:
    """Return the change that puts something into a text (None: that takes it out), where `strip` takes it out.

    Raises:
        FileError: the file cannot be read.
    """
    before = files.read_if_present(path)
    history = FileHistory(path, before, environ)
    without = history.original if history.is_untouched else strip_bytes(path, before, strip)
    if put is None:
        return FileEdit(path, before, without, without, history.backup_of(without))
    mark, text = split_bom(path, without)
    return FileEdit(path, before, (mark + put(text)).encode(), without, history.backup_of(without))


def strip_bytes(path: str, data: bytes | None, strip: Callable[[str], str]) -> bytes | None:
    if data is None:
        return None
    mark, text = split_bom(path, data)
    return (mark + strip(text)).encode()


class FileHistory:
    """What is known of a file from its record: its bytes before us, and whether it is as we left it."""

    def __init__(self, path: str, now: bytes | None, environ: Mapping[str, str]) -> None:
        self.known = record.list_installed(environ).get(path)
        self.original: bytes | None = None
        self.is_untouched = False
        if self.known is None:
            return
        backup = self.known.backup
        kept = files.read_if_present(backup) if backup is not None else None
        if kept is not None and record.digest_bytes(kept) == self.known.backup_digest:
            self.original = kept
        has_original = backup is None or self.original is not None
        self.is_untouched = has_original and now is not None and record.digest_bytes(now) == self.known.digest

    def backup_of(self, without: bytes | None) -> str | None:
        return (
            self.known.backup if self.known is not None and without is not None and without == self.original else None
        )


def remove_own_entries(
    path: str, before: bytes | None, shape: SettingsShape, environ: Mapping[str, str]
) -> tuple[bytes | None, str | None]:
    """Return a file's bytes without our entries, and the backup that holds exactly these, if one does."""
    if before is None:
        return None, None
    history = FileHistory(path, before, environ)
    if history.is_untouched:
        return history.original, history.backup_of(history.original)
    mark, text = split_bom(path, before)
    if not any(True for _ in find_entries(text)):
        return before, history.backup_of(before)
    root = parse_jsonc(split_bom(path, history.original)[1]) if history.original is not None else None
    rest = remove_entries(text, None if root is None else root.value)
    if history.original is None and is_nothing(rest, shape):
        return None, None
    without = (mark + rest).encode()
    return without, history.backup_of(without)


def apply_edit(change: FileEdit, host: str, environ: Mapping[str, str]) -> str | None:
    """Make a change, and return the path of the backup that is now beside the file.

    Raises:
        FileError: it cannot be made; the file is as it was.
    """
    path, before, after = change.path, change.before, change.after
    known = record.list_installed(environ).get(path)
    if after is None:
        kept = files.back_up_file(path, change.edited) if change.edited is not None else None
        if before is not None:
            files.delete_file(path, before)
        record.forget_file(environ, path)
        files.remove_folders(known.folders if known is not None else [])
        return kept
    is_uninstall = after == change.without
    if is_uninstall:
        if before != after:
            files.replace_file(path, before, after)
        record.forget_file(environ, path)
        if change.backup is not None:
            files.delete_file(change.backup, after)  # it says what the file says again
            return None
        return known.backup if known is not None else None
    folders = [*(known.folders if known is not None else []), *files.make_folders(path)]
    backup = change.backup
    try:
        if change.without is not None and backup is None:
            backup = files.back_up_file(path, change.without)
        without = change.without or b""
        files.replace_file(path, before, after)
    except FileError:
        if known is None:
            files.remove_folders(folders)
        if backup is not None and backup != change.backup and change.without is not None:
            files.delete_file(backup, change.without)
        raise
    noted = record.InstalledFile(
        host, record.digest_bytes(after), backup, record.digest_bytes(without) if backup else "", folders
    )
    record.remember_file(environ, path, noted)
    return backup


def diff_edit(change: FileEdit) -> str:
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


def split_bom(path: str, data: bytes | None) -> tuple[str, str]:
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


def validate_edit(path: str, after: str, rest: str, handlers: Mapping[str, Mapping[str, Any]]) -> None:
    """Make sure that a text to be written holds the rest and our handlers, and nothing else."""
    there = {entry.event: entry.handler for entry in find_entries(after)}
    root, old = (
        parse_jsonc(remove_entries(after, None if (old := parse_jsonc(rest)) is None else old.value)),
        parse_jsonc(rest),
    )
    values = [node.value if node is not None else None for node in (root, old)]
    is_alike = values[0] == values[1] or values[1] is None or drop_version(values[0]) == values[1]
    if there != handlers or not is_alike:
        raise FileError(f"{path} would not hold what it should; nothing was changed; please report this as a bug")


def drop_version(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: one for key, one in cast("dict[str, object]", value).items() if key != "version"}
