"""Writes imported hooks as a file for hooks.d.  Knows TOML, as far as a [[hook]] needs it; knows no other system.

What needs a hand is written too, as comments: the table is there, and takes effect when somebody takes the # away.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable
from typing import Any, cast

from hooklatch.importing.collecting import Imported, ImportedHook

__all__ = ["write_toml"]

NAMES = {"claude": "Claude Code", "reasonix": "Reasonix", "radium": "Radium"}
ORDER = (
    "id", "event", "match", "run", "command", "argv", "payload", "output", "exit_codes", "timeout", "cwd", "env",
    "priority", "enabled", "amends", "observe", "description", "config",
)  # fmt: skip
BARE = re.compile(r"[A-Za-z0-9_-]+")
MAX_STEM = 60  # characters of a file's name that go into an id


def write_toml(imported: Imported, *, origin: str, stem: str) -> str:
    """Return the text of the file; `stem` begins each id, since ids are unique over all files of hooks.d."""
    lines = [f"# Imported from {NAMES.get(imported.kind, imported.kind)}: {origin}"]
    lines += [f"# {note}" for note in imported.notes]
    lines = [one_line(line) for line in lines]
    for hook in imported.hooks:
        lines += ["", *table_of(hook, stem)]
    return "\n".join(lines) + "\n"


def table_of(hook: ImportedHook, stem: str) -> Iterable[str]:
    settings = {**hook.settings, "id": f"{one_line(stem)[:MAX_STEM]}:{hook.settings['id']}"}
    lines = ["[[hook]]", *(f"{key} = {value_text(settings[key])}" for key in ORDER if key in settings)]
    if hook.problem is None:
        return lines
    if hook.override is not None:
        lines += ["or, where a plugin has it, in hooks.toml:", "[[override]]"]
        lines += [f"{key} = {value_text(value)}" for key, value in hook.override.items()]
    return [one_line(f"# {hook.place} does not run: {hook.problem}"), *(f"# {line}" for line in lines)]


def one_line(text: str) -> str:
    """Return a text that can stand in a comment, or in an id: a line break in it would begin a line of TOML."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def key_text(key: str) -> str:
    return key if BARE.fullmatch(key) else value_text(key)


def value_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's too; but it has none for the delete character, which TOML wants escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case list():
            return "[" + ", ".join(value_text(item) for item in cast("list[object]", value)) + "]"
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return "{ " + ", ".join(f"{key_text(key)} = {value_text(item)}" for key, item in pairs) + " }"
        case _:
            raise TypeError(f"{value!r} has no form in TOML")
