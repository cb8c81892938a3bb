"""What Claude Code's and Reasonix's entries have in common: a command, and the variables it counts on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from hooklatch.importing.collecting import Collector, strings_in

__all__ = ["missing_variables", "nearest_event", "target_of"]

SHELLS = {"bash": "bash", "sh": "sh", "zsh": "zsh"}
VARIABLE = re.compile(r"\$\{?((?:CLAUDE|REASONIX)_[A-Z0-9_]+)")
VITAL = ("CLAUDE_PLUGIN_", "REASONIX_")  # places of files: without one a command cannot find itself
CLOSE = 0.85  # how alike two names of events are of which one is a slip of the pen


def target_of(
    entry: Mapping[str, Any], place: str, collector: Collector, *, expanded: Collection[str] = ()
) -> dict[str, Any] | None:
    """Read what to run: a shell line, a line for a named shell, or a program with its arguments.

    `expanded` are variables that the other system puts in where no shell does.
    """
    command, arguments, shell = entry.get("command"), entry.get("args"), entry.get("shell")
    if not isinstance(command, str) or not command.strip():
        # That system drops it too, in silence: nothing is lost.
        collector.note(place, f"dropped: its command is {command!r}" if "command" in entry else "dropped: no command")
        return None
    if arguments is None:
        if shell is None:
            return {"command": command}
        if not isinstance(shell, str) or shell not in SHELLS:
            collector.lose(place, f"it is for the shell {shell!r}, which cannot be counted on here")
            return None
        return {"argv": [SHELLS[shell], "-c", command]}
    words: object = arguments
    if not isinstance(words, list) or not all(isinstance(word, str) for word in cast("list[object]", words)):
        collector.lose(place, f"args is a list of strings, not {arguments!r}")
        return None
    argv = [command, *cast("list[str]", words)]
    placeholders = [f"${{{name}}}" for name in expanded]
    if any(placeholder in word for word in argv for placeholder in placeholders):
        return {"command": "exec " + " ".join(quoted(word, placeholders) for word in argv)}
    return {"argv": argv}


def quoted(word: str, placeholders: Iterable[str]) -> str:
    """Quote a word for a shell, but for the variables that it is to put in."""
    for placeholder in placeholders:
        if placeholder in word:
            return f'"{placeholder}"'.join(shlex.quote(part) if part else "" for part in word.split(placeholder))
    return shlex.quote(word)


def missing_variables(
    settings: Mapping[str, Any], provided: Collection[str], place: str, collector: Collector
) -> str | None:
    """Find variables that the command counts on and nobody sets here; give the problem, if it cannot run without."""
    line = [settings.get(key, "") for key in ("command", "argv")]
    named = {name for text in strings_in(line) for name in VARIABLE.findall(text)}
    for name in sorted(named - set(provided) - set(settings.get("env", {}))):
        if name.startswith(VITAL):
            return f'it counts on ${name}, which is not set here: add env = {{ {name} = "..." }}'
        collector.note(place, f"it uses ${name}, which is not set here")
    return None


def nearest_event(event: str, known: Iterable[str]) -> str:
    near = get_close_matches(event, known, 1, CLOSE)
    return f"; did you mean {near[0]!r}?" if near else ""
