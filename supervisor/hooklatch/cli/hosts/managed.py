"""The layer of a host's settings that only root can write: whole files of ours, and a check of who could change them.

    make_managed_text(layout, handlers) ─▶ plan_managed(path, text) ─▶ write_managed

A managed file that is not ours is never changed: an administrator or a device manager has written it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import hooklatch
import hooklatch_worker
from hooklatch.cli.hosts import install_record, settings_files
from hooklatch.cli.hosts.changing import FileEdit
from hooklatch.cli.hosts.codex_trust import TERMINALS_LINE
from hooklatch.cli.hosts.editing import JsoncError
from hooklatch.cli.hosts.entries import add_entries, find_entries
from hooklatch.cli.hosts.layouts import SettingsLayout
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.core.light_json import as_object, is_object
from hooklatch.hosts.find import find_host

__all__ = [
    "find_foreign_owner",
    "list_not_roots",
    "make_managed_texts",
    "list_foreign",
    "plan_managed",
    "write_managed",
]

SECURE_MODS: Final = "cc-plugin-sec-default@builtin"  # Claude Code's own guard of mods, and where its options are
# The keys beside the hooks that turn other hooks off, where a host can do that.
ALONE: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "claude-code": {
            "allowManagedHooksOnly": True,
            "pluginConfigs": {SECURE_MODS: {"options": {"allowManagedModsOnly": True}}},
        },
    }
)
# The same, for a program that reads it from another file (`MachineFiles.beside`).
ALONE_BESIDE: Final = '{\n  "allowManagedHooksOnly": true\n}\n'
SCHEMA: Final = "https://opencode.ai/config.json"  # OpenCode adds it to a file that has none, if it may
FIRST_LINE: Final = (
    "# hooklatch's requirements for {title}.  `hooklatch uninstall {name} --managed` removes this file.\n"
)
FIRST_WORDS: Final = "# hooklatch's requirements for "


def make_managed_texts(
    layout: SettingsLayout, handlers: Mapping[str, Mapping[str, Any]], plugin: str
) -> dict[str, str]:
    """Return the texts of the managed files of a host, by path: OpenCode's names its plugin, Copilot CLI has two."""
    path = layout.managed
    if layout.is_plugin:
        code, naming = layout.managed_files
        return {code: plugin, naming: json.dumps({"$schema": SCHEMA, "plugin": [Path(code).as_uri()]}, indent=2) + "\n"}
    if path.endswith(".toml"):
        return {path: make_requirements(layout, handlers)}
    root = json.dumps(ALONE[layout.name], indent=2) + "\n" if layout.name in ALONE else ""
    beside = {layout.machine.beside: ALONE_BESIDE} if layout.machine.beside else {}
    return {path: add_entries(root, layout.shape, handlers), **beside}


def make_requirements(layout: SettingsLayout, handlers: Mapping[str, Mapping[str, Any]]) -> str:
    text = FIRST_LINE.format(title=find_host(layout.name).title, name=layout.name)
    text += "\nallow_managed_hooks_only = true\n"
    text += f"\n[features]\nhooks = true\n{TERMINALS_LINE}\n" if layout.name == "codex" else ""
    for event, handler in handlers.items():
        values = "\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in handler.items())
        text += f"\n[[hooks.{event}]]\n[[hooks.{event}.hooks]]\n{values}\n"
    return text


def list_foreign(texts: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the managed files of somebody else that lack something of ours."""
    for path, text in texts.items():
        before = settings_files.read_if_present(path)
        if before is not None and is_foreign(path, before, text.encode(), environ) and not has_all(path, before, text):
            yield path


def plan_managed(path: str, text: str | None, environ: Mapping[str, str], name: str) -> FileEdit:
    """Return the edit that makes a managed file, or deletes it if `text` is None."""
    before = settings_files.read_if_present(path)
    new = None if text is None else text.encode()
    if before is not None and is_foreign(path, before, new, environ):
        if text is None or has_all(path, before, text):
            return FileEdit(path, before, before, before)
        raise FileError(
            f"{path} is somebody else's and was left as it is; have its owner put in what "
            f"`hooklatch install {name} --managed --dry-run` shows, or move it away"
        )
    return FileEdit(path, before, new, None)


def is_foreign(path: str, before: bytes, new: bytes | None, environ: Mapping[str, str]) -> bool:
    """Return whether a managed file that is to get another content is somebody else's."""
    return before != new and not is_own_file(path, before, environ)


def has_all(path: str, data: bytes, text: str) -> bool:
    """Return whether somebody else's file has what ours would have, as its owner was asked to put it in."""
    load: Callable[[str], object] = tomllib.loads if path.endswith(".toml") else json.loads
    try:
        theirs, ours = load(data.decode()), load(text)
    except ValueError:
        return False
    return bool(ours) and contains(theirs, ours)


def contains(theirs: object, ours: object) -> bool:
    """Return whether a table has all of another one; other values must be equal, as JSON, in which 1 is not true."""
    if not is_object(ours):
        return json.dumps(theirs) == json.dumps(ours)
    given = as_object(theirs)
    return all(key in given and contains(given[key], value) for key, value in ours.items())


def is_own_file(path: str, data: bytes, environ: Mapping[str, str]) -> bool:
    """Return whether a managed file is one that we have written and that is unedited, or nothing but our entries."""
    known = install_record.list_installed(environ).get(path)
    if known is not None and known.digest == install_record.digest_bytes(data):
        return True
    text = data.decode(errors="replace")
    if path.endswith((".js", ".toml")):
        return text.startswith((FIRST_WORDS, "// hooklatch's plugin"))
    try:
        entries = list(find_entries(text))
        document = json.loads(text)
    except (JsoncError, ValueError):
        return False
    allowed = {"hooks", "version"}.union(*(keys.keys() for keys in ALONE.values()))
    groups = [group for event in document.get("hooks", {}).values() for group in event] if entries else []
    return bool(entries) and document.keys() <= allowed and len(groups) == len(entries)


def write_managed(edit: FileEdit, host: str, environ: Mapping[str, str]) -> None:
    """Write or delete a managed file, which every user can read."""
    known = install_record.list_installed(environ).get(edit.path)
    if edit.new is None:
        if edit.old is not None:
            settings_files.delete_file(edit.path, edit.old)
        install_record.forget_file(environ, edit.path)
        settings_files.remove_folders(known.folders if known is not None else [])
        return
    folders = [*(known.folders if known is not None else []), *settings_files.make_folders(edit.path, mode=0o755)]
    try:
        settings_files.replace_file(edit.path, edit.old, edit.new, mode=0o644)
    except FileError:
        settings_files.remove_folders(folders if known is None else [])
        raise
    digest = install_record.digest_bytes(edit.new)
    install_record.remember_file(environ, edit.path, install_record.InstalledFile(host, digest, folders=folders))


def list_not_roots(words: Iterable[str], more: Sequence[str]) -> Iterator[str]:
    """Yield each path that a user other than root could change: of what an entry runs, of `more`, and above them."""
    named = [word for word in words if os.path.isabs(word) and os.path.isfile(word)]
    packages = [str(Path(package.__file__).parent) for package in (hooklatch, hooklatch_worker) if package.__file__]
    python = [sys.executable, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), *packages]
    seen: set[str] = set()
    for path in [*named, *python, *filter(os.path.exists, more)]:
        for place in (path, os.path.realpath(path)):
            fault = find_foreign_owner(place)
            if fault and fault not in seen:
                seen.add(fault)
                yield fault


def find_foreign_owner(path: str) -> str:
    """Return the first of a path and the folders above it that another user than root could change, "" if none is.

    A folder with the sticky bit is accepted above: other users cannot rename what is root's in it.
    """
    current, is_above = path, False
    while True:
        try:
            status = os.lstat(current)
        except OSError as error:
            return f"{current} ({error.strerror})"
        is_link = stat.S_ISLNK(status.st_mode)
        is_loose = bool(status.st_mode & 0o022) and not is_link and not (is_above and status.st_mode & stat.S_ISVTX)
        if status.st_uid != 0 or is_loose:
            return current
        if current == "/":
            return ""
        current, is_above = os.path.dirname(current), True
