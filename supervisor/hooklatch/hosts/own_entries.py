"""The recognition of hooklatch's own entries in other programs' settings.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final, cast

__all__ = ["is_entry", "is_entry_alone", "read_handler_command"]

COMMANDS: Final = ("command", "bash")  # the keys of a handler that may hold a command line
JOINING: Final = frozenset(";&|()<>`\n")  # characters with which a shell may run more than one command


def is_entry(words: list[str] | tuple[str, ...]) -> bool:
    """Return whether a command line starts hooklatch's forwarder, of this installation or of another."""
    if "--kind" not in words or "--wait" not in words:
        return False
    return any("hooklatch" in word and "entry" in word.rpartition("hooklatch")[2] for word in words)


def read_handler_command(handler: object) -> tuple[str, ...] | None:
    """Return the command line of a handler if it is one of ours."""
    return next((words for words, _ in list_own_commands(handler)), None)


def is_entry_alone(handler: object) -> bool:
    """Return whether a handler certainly starts the forwarder alone, and not also a guard behind `&&`."""
    return any(JOINING.isdisjoint(text.strip()) for _, text in list_own_commands(handler))


def list_own_commands(handler: object) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the command lines of a handler that are ours, as words and as text."""
    if not isinstance(handler, dict):
        return
    table = cast("dict[str, object]", handler)
    for key in COMMANDS:
        command = table.get(key)
        if not isinstance(command, str):
            continue
        try:
            words = tuple(shlex.split(command))
        except ValueError:
            continue
        if is_entry(words):
            yield words, command
