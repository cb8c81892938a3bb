"""The adoption of other hooks: they leave the host's settings and run in the daemon, before the guards.

settings ─▶ AdoptedHandler, in the record of the file ─▶ a file in hooks.d, with an amending hook for each
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hooklatch.cli.hooks.guard_files import find_hooks_folder, write_new
from hooklatch.cli.hosts import install_record, settings_files
from hooklatch.cli.hosts.changing import FileEdit, apply_edit, diff_edit, plan_install, split_bom
from hooklatch.cli.hosts.entries import find_entries
from hooklatch.cli.hosts.install_record import AdoptedHandler
from hooklatch.cli.hosts.layouts import SettingsLayout
from hooklatch.cli.hosts.others import TEXT, OtherHook
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.errors import HooklatchError
from hooklatch.hosts.adopted import AdoptedHook
from hooklatch.hosts.find import find_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import HookStatus

__all__ = [
    "ENDING", "adopt_handlers", "give_back_handlers", "list_adopted", "list_adoption_notes", "plan_adoption",
    "read_why_not",
]  # fmt: skip

ENDING = ".py"
KNOWN_KEYS = frozenset(
    {"type", "command", "bash", "timeout", "timeoutSec", "onFailure", "name", "description", "statusMessage"}
)
HEAD = '''"""Hooks of {title} that were adopted: `hooklatch uninstall {host}` gives them back.

`hooklatch install {host} --adopt` writes this file anew.
"""

import os

from hooklatch import deny, hook
from hooklatch.cli.hosts.others import list_unaccepted
from hooklatch.hosts.adopted import AdoptedHook, run_adopted
'''
ARRIVALS = """

@hook("config_change", id="{host}-arrivals", description="refuses settings with a hook that may change what was judged")
def arrivals(event):
    found = list_unaccepted({host!r}, os.environ, event.cwd or "/")
    if found:
        return deny(f"{{'; '.join(other.title for other in found)}}: hooklatch install {host} --adopt, or take it out")
"""
HOOK = """

@hook({event!r}, id={id!r}, amends=True, timeout={timeout!r}, description={description!r})
def {name}(event):
    return run_adopted(event, {hook!r})
"""


def read_why_not(layout: SettingsLayout, other: OtherHook) -> str:
    """Return why a hook cannot be adopted, "" if it can."""
    if other.handler is None:
        is_text = other.file.endswith(TEXT)
        return "it runs with that skill, agent or command alone" if is_text else "it is no hook of settings"
    if other.document.layer not in ("user", "project") or other.file.endswith(".toml"):
        return f"hooklatch does not edit {other.file}"
    if "/.claude/" in other.file and layout.name != "claude-code":
        return "it is Claude Code's"
    line = other.handler.handler.get(layout.command, other.handler.handler.get("command"))
    if other.handler.handler.get("type", "command") != "command" or not isinstance(line, str) or not line.strip():
        return "it is not a command line"
    if unknown := sorted(other.handler.handler.keys() - KNOWN_KEYS):
        return f"its {', '.join(unknown)} would be lost"
    is_foreign_form = layout.name == "copilot" and other.event[:1].isupper()
    return "its form of the event is not the one that hooklatch gets" if is_foreign_form else ""


def make_adopted(layout: SettingsLayout, other: OtherHook) -> AdoptedHandler:
    """Return a hook as it is recorded and run; a project's hook is for calls in that project alone."""
    assert other.handler is not None
    given = other.handler.handler.get(layout.timeout)
    default = 600.0 if layout.name in ("claude-code", "codex") else 60.0
    seconds = given / (1000 if layout.unit == "ms" else 1) if isinstance(given, int | float) and given > 0 else default
    return AdoptedHandler(
        other.event, other.handler.handler, str(other.handler.matcher or ""), len(other.handler.path) > 3, other.digest,
        max(1.0, min(seconds, 600.0)), other.document.project,
    )  # fmt: skip


def plan_adoption(
    layout: SettingsLayout, path: str, handlers: Mapping[str, Mapping[str, Any]], others: Sequence[OtherHook]
) -> list[FileEdit]:
    """Return the edit of the file that our entries go into, and of each other file that a hook is taken out of."""
    taken: dict[str, list[AdoptedHandler]] = {path: []}
    for other in others:
        if not read_why_not(layout, other):
            taken.setdefault(other.file, []).append(make_adopted(layout, other))
    edits: list[FileEdit] = []
    for file, adopted in taken.items():
        kept = handlers
        if file != path:
            text = split_bom(file, settings_files.read_if_present(file))[1]
            kept = {entry.event: entry.handler for entry in find_entries(text)}
        edits.append(plan_install(file, layout.shape, kept, os.environ, adopted))
    return edits


def list_adoption_notes(
    layout: SettingsLayout, others: Sequence[OtherHook], edits: Sequence[FileEdit], backups: Sequence[str | None]
) -> Iterator[str]:
    """Yield what becomes of each hook, and of each file."""
    for other in others:
        if not read_why_not(layout, other):
            yield f"adopted: {other.what} ({other.event} in {other.file}) runs in the daemon, before the guards"
    for edit, backup in zip(edits, backups, strict=True):
        yield f"{edit.path} has changed too{f' (backup: {backup})' if backup is not None else ''}"
        yield from diff_edit(edit).splitlines()


def list_adopted(host: str, environ: Mapping[str, str]) -> Iterator[AdoptedHandler]:
    """Yield what is recorded as taken out of a host's files."""
    for installed in install_record.list_installed(environ).values():
        if installed.host == host:
            yield from installed.adopted


def adopt_handlers(
    layout: SettingsLayout, adopted: Sequence[AdoptedHandler], arguments: argparse.Namespace
) -> FileEdit | None:
    """Have the daemon run these hooks, and return the edit that was made."""
    others = {each.digest: each for each in [*list_adopted(layout.name, os.environ), *adopted]}
    adopted = list(others.values())
    path = os.path.join(find_hooks_folder(arguments, None), f"adopted_{layout.name.replace('-', '_')}{ENDING}")
    before = settings_files.read_if_present(path)
    text = make_source(layout, adopted).encode()
    if before == text or (not adopted and not has_arrivals(layout)):
        return None
    if before is None:
        write_new({path: text.decode()})
    else:
        settings_files.replace_file(path, before, text)
    ids = {make_id(layout, each) for each in adopted}
    if has_arrivals(layout):
        ids.add(f"{layout.name}-arrivals")
    inactive = list_inactive(ids, path, arguments)
    if inactive:
        if before is None:
            settings_files.delete_file(path, text)
        else:
            settings_files.replace_file(path, text, before)
        raise CommandError(Exit.CANNOT_CREATE, f"nothing was adopted: {inactive}")
    installed = install_record.InstalledFile(layout.name, install_record.digest_bytes(text))
    install_record.remember_file(os.environ, path, installed)
    return FileEdit(path, before, text, None)


def make_source(layout: SettingsLayout, adopted: Sequence[AdoptedHandler]) -> str:
    host = find_host(layout.name)
    source = HEAD.format(title=host.title, host=host.name)
    for each in adopted:
        line = str(each.handler.get(layout.command, each.handler.get("command")))
        hook = AdoptedHook(host.name, each.event, line, each.matcher, each.folder)
        source += HOOK.format(
            event=host.events[each.event].event, id=make_id(layout, each), timeout=each.timeout,
            description=f"adopted: {line[:60]}", name=f"adopted_{each.digest}", hook=hook,
        )  # fmt: skip
    return source + (ARRIVALS.format(host=host.name) if has_arrivals(layout) else "")


def has_arrivals(layout: SettingsLayout) -> bool:
    """Return whether a host asks before it takes changed settings."""
    return any(spec.event == "config_change" for spec in find_host(layout.name).events.values())


def make_id(layout: SettingsLayout, adopted: AdoptedHandler) -> str:
    return f"{layout.name}-{adopted.digest[:8]}"


def list_inactive(ids: set[str], path: str, arguments: argparse.Namespace) -> str:
    """Return why the daemon does not run hooks; "" if it does, or if there is no daemon."""
    try:
        with connect_administrator(arguments) as link:
            link.ask("reload")
            hooks: list[HookStatus] = link.ask("hooks")["hooks"]
    except HooklatchError:
        return ""
    states = {hook["id"]: hook["problem"] or hook["state"] for hook in hooks if hook["state"] != "active"}
    missing = ids - {hook["id"] for hook in hooks}
    if missing:
        return f"the daemon that listens does not read {path}; name its --config"
    return "; ".join(f"{name}: {states[name]}" for name in sorted(ids & states.keys()))


def give_back_handlers(layout: SettingsLayout, arguments: argparse.Namespace) -> Iterator[tuple[FileEdit, str | None]]:
    """Delete the daemon's file of a host's hooks, and have the daemon forget them; yield the edit."""
    name = f"adopted_{layout.name.replace('-', '_')}{ENDING}"
    for path, installed in install_record.list_installed(os.environ).items():
        if installed.host != layout.name or os.path.basename(path) != name:
            continue
        data = settings_files.read_if_present(path)
        is_edited = data is not None and install_record.digest_bytes(data) != installed.digest
        edit = FileEdit(path, data, None, None, edited=data if is_edited else None)
        yield edit, None if arguments.dry_run else apply_edit(edit, layout.name, os.environ)
        if not arguments.dry_run:
            forget_hooks(path, arguments)


def forget_hooks(path: str, arguments: argparse.Namespace) -> None:
    """Have a daemon that listens accept that hooks are gone: they would deny otherwise."""
    try:
        with connect_administrator(arguments) as link:
            link.ask("reload")
            hooks: list[HookStatus] = link.ask("hooks")["hooks"]
            for hook in hooks:
                if hook["layer"] == "global" and (hook["origin"] or "").startswith(path):
                    link.ask("unregister", id=hook["id"], scope="global")
    except HooklatchError:
        return
