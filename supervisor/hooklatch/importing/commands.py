"""The common parts of entries of Claude Code and Reasonix: a command, and the variables that it needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from hooklatch.importing.collecting import Collector, list_strings, suggest_key

__all__ = ["note_missing_variables", "recognise_event", "suggest_misspelt_keys", "read_command_target"]

SHELLS = {"bash": "bash", "sh": "sh", "zsh": "zsh"}
VARIABLE = re.compile(r"\$\{?((?:CLAUDE|REASONIX)_[A-Z0-9_]+)")
VITAL = ("CLAUDE_PLUGIN_", "REASONIX_")  # paths; without one a command cannot find its own files
CLOSE = 0.82  # similarity at which a name of an event counts as a misspelling of another


def read_command_target(
    entry: Mapping[str, Any], known: frozenset[str], *, expanded: Collection[str] = ()
) -> tuple[dict[str, Any], str | None]:
    """Return the keys of the command (a line for a shell, which may be named, or a program with arguments), or a
    problem.

    `known` are the valid keys of an entry; `expanded` are variables that the other system itself expands when there is
    no shell.
    """
    command, arguments, shell = entry.get("command"), entry.get("args"), entry.get("shell")
    if not isinstance(command, str) or not command.strip():
        if "command" in entry:
            return {}, f"its command is {command!r:.80}, which cannot be run"
        return {}, f"it has no command{suggest_misspelt_keys(entry, known)}"
    if arguments is None:
        if shell is None:
            return {"command": command}, None
        if not isinstance(shell, str) or shell not in SHELLS:
            return {}, f"it is for the shell {shell!r}, which may be missing here"
        return {"argv": [SHELLS[shell], "-c", command]}, None
    words: object = arguments
    if not isinstance(words, list) or not all(isinstance(word, str) for word in cast("list[object]", words)):
        return {}, f"args is a list of strings, not {arguments!r}"
    argv = [command, *cast("list[str]", words)]
    placeholders = [f"${{{name}}}" for name in expanded]
    if any(placeholder in word for word in argv for placeholder in placeholders):
        return {"command": "exec " + " ".join(quote_word(word, placeholders) for word in argv)}, None
    return {"argv": argv}, None


def suggest_misspelt_keys(entry: Iterable[str], known: frozenset[str]) -> str:
    """Return a hint for each key that looks misspelt."""
    unknown = [key for key in entry if key not in known]
    return "".join(f"; {key!r} is not known here{near}" for key in unknown if (near := suggest_key(key, known)))


def quote_word(word: str, placeholders: Iterable[str]) -> str:
    """Quote a word for a shell, leaving placeholders to be expanded."""
    for placeholder in placeholders:
        if placeholder in word:
            return f'"{placeholder}"'.join(shlex.quote(part) if part else "" for part in word.split(placeholder))
    return shlex.quote(word)


def note_missing_variables(
    settings: Mapping[str, Any], provided: Collection[str], place: str, collector: Collector
) -> str | None:
    """Note variables that the command uses and that are not set here; return a problem if it cannot run without one."""
    line = [settings.get(key, "") for key in ("command", "argv")]
    named = {name for text in list_strings(line) for name in VARIABLE.findall(text)}
    for name in sorted(named - set(provided) - set(settings.get("env", {}))):
        if name.startswith(VITAL):
            return f'it needs ${name}, which is not set here: add env = {{ {name} = "..." }}'
        collector.note(place, f"it uses ${name}, which is not set here")
    return None


def recognise_event(event: str, known: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the event that is most likely meant, or None, and the problem of the name, or None."""
    if event in (names := list(known)):
        return event, None
    by_letters = {reduce_to_letters(name): name for name in names}
    near = get_close_matches(reduce_to_letters(event), by_letters, 1, CLOSE)
    meant = by_letters[near[0]] if near else None
    return meant, f"there is no event here for {event!r}" + (f"; did you mean {meant!r}?" if meant else "")


def reduce_to_letters(name: str) -> str:
    """Return a name without case and punctuation, so that `pre_tool_use` equals PreToolUse."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
