"""Installation into a file of settings, and its removal: the new bytes of the file, its backup, and its record.

    edit = plan_install(path, shape, handlers, os.environ)
    print(diff_edit(edit))
    backup = apply_edit(edit, "codex", os.environ)

A change is planned first, as a `FileEdit`, and made by `apply_edit`, so that a dry run shows exactly the change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, cast

from hooklatch.cli.hosts import install_record, settings_files
from hooklatch.cli.hosts.editing import MARK, JsoncError, parse_jsonc
from hooklatch.cli.hosts.entries import (
    SettingsShape,
    add_entries,
    find_entries,
    has_status_line,
    is_nothing,
    remove_entries,
    remove_handlers,
    restore_handler,
)
from hooklatch.cli.hosts.install_record import AdoptedHandler
from hooklatch.cli.hosts.plugin import is_plugin
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.hosts.text_forms import is_script

__all__ = [
    "FileEdit", "apply_edit", "diff_edit", "plan_edit", "plan_install", "plan_plugin_install",
    "plan_settings_uninstall", "plan_plugin_uninstall", "split_bom", "starts_daemon",
]  # fmt: skip

STARTING = re.compile(rb"--start[\"', ]+--config\b")  # in a command line, or in a list of its words


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The bytes of a file now, after the edit, and without hooklatch; None stands for no file."""

    path: str
    old: bytes | None
    new: bytes | None
    uninstalled: bytes | None
    backup: str | None = None  # the path of one that exists already, with the bytes `uninstalled`
    edited: bytes | None = None  # the user's edits of a file of our own, which are backed up before it is deleted
    adopted: Sequence[AdoptedHandler] = ()  # handlers of others that were taken out

    @property
    def is_none(self) -> bool:
        return self.old == self.new


def starts_daemon(path: str) -> bool:
    """Return whether entries in a file start the daemon: a new installation keeps that, however it came about."""
    try:
        return STARTING.search(settings_files.read_if_present(path) or b"") is not None
    except FileError:  # the edit reads the file too, and says why it cannot
        return False


def plan_install(
    path: str, shape: SettingsShape, handlers: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str],
    adopted: Sequence[AdoptedHandler] = (),
) -> FileEdit:  # fmt: skip
    """Return the edit that gives each event its handler, and takes `adopted` out beside what was taken out before."""
    before = settings_files.read_if_present(path)
    mark, text = split_bom(path, before)
    with naming_file(path):
        own_handlers = list(find_entries(text))
        handler_by_event = {handler.event: handler.handler for handler in own_handlers if handler.matcher is None}
        if handler_by_event == handlers and len(own_handlers) == len(handlers) and not adopted:
            return FileEdit(path, before, before, before)
        without, backup = remove_own_entries(path, before, shape, environ)
        known = install_record.list_installed(environ).get(path)
        taken = [*(known.adopted if known is not None else ()), *adopted]
        stripped = take_out(split_bom(path, without)[1], taken)
        after = add_entries(stripped, shape, handlers)
        validate_edit(path, after, stripped, handlers)
    return FileEdit(path, before, (mark + after).encode(), without, backup, adopted=taken)


def take_out(text: str, taken: Sequence[AdoptedHandler]) -> str:
    """Return the text without the handlers that were adopted."""
    identities = [(each.event, each.matcher, each.handler) for each in taken]
    return remove_handlers(
        text, lambda found: (found.event, str(found.matcher or ""), found.handler) in identities, parse_value(text)
    ) if taken else text  # fmt: skip


def parse_value(text: str) -> object:
    root = parse_jsonc(text)
    return None if root is None else root.value


def plan_plugin_install(path: str, text: str, environ: Mapping[str, str]) -> FileEdit:
    """Return the edit that makes a file of our own."""
    before = settings_files.read_if_present(path)
    if before is not None and not (is_plugin(before) or is_script(before)):
        raise FileError(f"{path} is not hooklatch's; move it away, then install again")
    return FileEdit(path, before, text.encode(), None)


def plan_settings_uninstall(path: str, shape: SettingsShape, environ: Mapping[str, str]) -> FileEdit:
    """Return the edit that takes all our entries out of a file."""
    before = settings_files.read_if_present(path)
    with naming_file(path):
        without, backup = remove_own_entries(path, before, shape, environ)
    return FileEdit(path, before, without, without, backup)


def plan_plugin_uninstall(path: str, environ: Mapping[str, str]) -> FileEdit:
    """Return the edit that deletes a file of our own; if the user edited it, a backup is made."""
    before = settings_files.read_if_present(path)
    if before is None or not (is_plugin(before) or is_script(before)):
        return FileEdit(path, before, before, before)
    known = install_record.list_installed(environ).get(path)
    is_edited = known is None or install_record.digest_bytes(before) != known.digest
    return FileEdit(path, before, None, None, edited=before if is_edited else None)


def plan_edit(
    path: str, insert: Callable[[str], str] | None, strip: Callable[[str], str], environ: Mapping[str, str]
) -> FileEdit:
    """Return the edit that applies `insert` to the text of a file without our part; without `insert`, `strip` alone."""
    before = settings_files.read_if_present(path)
    history = FileHistory(path, before, environ)
    without = history.original
    if not history.is_untouched:
        mark, text = split_bom(path, before)
        without = (mark + strip(text)).encode() if before is not None else None
    if insert is None:
        return FileEdit(path, before, without, without, history.backup_of(without))
    mark, text = split_bom(path, without)
    return FileEdit(path, before, (mark + insert(text)).encode(), without, history.backup_of(without))


class FileHistory:
    """The facts about a file from its record: its bytes before us, and whether it is as we left it."""

    def __init__(self, path: str, current: bytes | None, environ: Mapping[str, str]) -> None:
        self.known = install_record.list_installed(environ).get(path)
        self.original: bytes | None = None
        self.is_untouched = False
        if self.known is None:
            return
        backup = self.known.backup
        data = settings_files.read_if_present(backup) if backup is not None else None
        if data is not None and install_record.digest_bytes(data) == self.known.backup_digest:
            self.original = data
        has_original = backup is None or self.original is not None
        self.is_untouched = (
            has_original and current is not None and install_record.digest_bytes(current) == self.known.digest
        )

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
    taken = history.known.adopted if history.known is not None else []
    if not taken and not any(True for _ in find_entries(text)) and not has_status_line(text):
        return before, history.backup_of(before)
    original = parse_value(split_bom(path, history.original)[1]) if history.original is not None else None
    stripped = remove_entries(text, original)
    for each in taken:
        stripped = restore_handler(stripped, each.event, each.handler, each.matcher, is_grouped=each.is_grouped)
    if history.original is None and is_nothing(stripped, shape):
        return None, None
    without = (mark + stripped).encode()
    return without, history.backup_of(without)


def apply_edit(edit: FileEdit, host: str, environ: Mapping[str, str]) -> str | None:
    """Apply an edit, and return the path of the backup that is now beside the file."""
    path, before, after = edit.path, edit.old, edit.new
    known = install_record.list_installed(environ).get(path)
    if after is None:
        edited_backup = settings_files.back_up_file(path, edit.edited) if edit.edited is not None else None
        if before is not None:
            settings_files.delete_file(path, before)
        install_record.forget_file(environ, path)
        settings_files.remove_folders(known.folders if known is not None else [])
        return edited_backup
    is_uninstall = after == edit.uninstalled
    if is_uninstall:
        if before != after:
            settings_files.replace_file(path, before, after)
        install_record.forget_file(environ, path)
        if edit.backup is not None:
            settings_files.delete_file(edit.backup, after)  # the file has the same bytes again
            return None
        return known.backup if known is not None else None
    folders = [*(known.folders if known is not None else []), *settings_files.make_folders(path)]
    backup = edit.backup
    try:
        if edit.uninstalled is not None and backup is None:
            backup = settings_files.back_up_file(path, edit.uninstalled)
        without = edit.uninstalled or b""
        settings_files.replace_file(path, before, after)
    except FileError:
        if known is None:
            settings_files.remove_folders(folders)
        if backup is not None and backup != edit.backup and edit.uninstalled is not None:
            settings_files.delete_file(backup, edit.uninstalled)
        raise
    installed = install_record.InstalledFile(
        host,
        install_record.digest_bytes(after),
        backup,
        install_record.digest_bytes(without) if backup else "",
        folders,
        list(edit.adopted),
    )
    install_record.remember_file(environ, path, installed)
    return backup


def diff_edit(edit: FileEdit) -> str:
    """Return an edit as `diff -u` shows it."""
    before, after = ((data or b"").decode(errors="replace").splitlines(keepends=True) for data in (edit.old, edit.new))
    old, new = (edit.path if data is not None else os.devnull for data in (edit.old, edit.new))
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


@contextmanager
def naming_file(path: str) -> Generator[None]:
    """Add the name of the file to an error about its text."""
    try:
        yield
    except JsoncError as error:
        place = f"{path}:{error.line}:{error.column}"
        raise FileError(f"{place}: {error.what}; nothing was changed: fix the file, then try again") from None


def validate_edit(path: str, after: str, expected: str, handlers: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that a text to be written holds the text without us and our handlers, and nothing else."""
    handler_by_event = {entry.event: entry.handler for entry in find_entries(after)}
    wanted = parse_value(expected)
    kept = parse_value(remove_entries(after, wanted))
    is_alike = kept == wanted or wanted is None or drop_version(kept) == wanted
    if handler_by_event != handlers or not is_alike:
        raise FileError(f"{path} would lose or change other settings; nothing was changed; please report this as a bug")


def drop_version(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: member for key, member in cast("dict[str, object]", value).items() if key != "version"}
