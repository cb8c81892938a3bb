"""A writer of imported hooks as a file for hooks.d.

A hook that the user must fix first is written as comments: its table takes effect once the user removes the # signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, cast

import tomlkit
from tomlkit.items import AoT, Item

from hooklatch.importing.collecting import ImportedHook, ImportResult

__all__ = ["write_toml"]

NAMES = {"claude": "Claude Code", "reasonix": "Reasonix", "radium": "Radium"}
ORDER = (
    "id", "event", "match", "run", "command", "argv", "payload", "output", "exit_codes", "timeout", "cwd", "env",
    "priority", "enabled", "amends", "only_judges", "observe", "description", "config",
)  # fmt: skip
MAX_STEM = 60  # characters of a file's name that go into an id


def write_toml(imported: ImportResult, *, origin: str, stem: str) -> str:
    """Return the text of the file; `stem` begins each id, since ids are unique over all files of hooks.d."""
    head = [f"Imported from {NAMES.get(imported.kind, imported.kind)}: {origin}", *map(str, imported.notes)]
    lines = [f"# {make_comment_line(line)}" for line in head]
    for hook in imported.hooks:
        lines += ["", *format_hook_toml(hook, stem)]
    return "\n".join(lines) + "\n"


def format_hook_toml(hook: ImportedHook, stem: str) -> Iterator[str]:
    settings = {**hook.settings, "id": f"{make_comment_line(stem)[:MAX_STEM]}:{hook.settings['id']}"}
    lines = format_table_lines("hook", {key: settings[key] for key in ORDER if key in settings})
    if hook.problem is None:
        yield from lines
        return
    if hook.override is not None:
        lines += ["or, where a plugin has it, in hooks.toml:", *format_table_lines("override", hook.override)]
    yield make_comment_line(f"# {hook.place} does not run: {hook.problem}")
    yield from (f"# {line}" for line in lines)


def format_table_lines(name: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the lines of one [[name]] table, with each table within it on one line."""
    table = tomlkit.table()
    cast("MutableMapping[str, object]", table).update({key: make_toml_item(value) for key, value in settings.items()})
    return tomlkit.dumps({name: AoT([table])}).rstrip("\n").split("\n")


def make_toml_item(value: object) -> Item:
    if not isinstance(value, dict):
        return tomlkit.item(value)
    table = tomlkit.inline_table()
    cast("MutableMapping[str, object]", table).update(cast("dict[str, Any]", value))
    return table


def make_comment_line(text: str) -> str:
    """Return a text for a comment or an id, with escapes for line breaks, which would begin a new line of TOML."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
