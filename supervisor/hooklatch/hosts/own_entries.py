"""Tells hooklatch's own entries in other programs' settings from everybody else's.  Pure."""

from __future__ import annotations

import shlex
from typing import Final, cast

__all__ = ["is_entry", "words_of"]

COMMANDS: Final = ("command", "bash")  # the keys of a handler that may hold a command line


def is_entry(words: list[str] | tuple[str, ...]) -> bool:
    """Say whether a command line starts hooklatch's entry, of this installation or of another."""
    if "--kind" not in words or "--wait" not in words:
        return False
    return any("hooklatch" in word and "entry" in word.rpartition("hooklatch")[2] for word in words)


def words_of(handler: object) -> tuple[str, ...] | None:
    """Return the command line of a handler if it is one of ours."""
    if not isinstance(handler, dict):
        return None
    table = cast("dict[str, object]", handler)
    for key in COMMANDS:
        command = table.get(key)
        if not isinstance(command, str):
            continue
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if is_entry(words):
            return tuple(words)
    return None
