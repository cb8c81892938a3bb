"""A collector of the hooks of an imported file, with a note for everything that is lost or different.

It knows the definitions that hooklatch accepts, but no other system.

An entry on a known event is never dropped: if it cannot run, it is kept with its `problem`, so that on a gate it
denies.  A hook's id is derived from its content (event, matcher, command), never from its position: a switch must not
move to another guard when an entry is added, deleted or moved.

The standard parser of JSON does not report positions, and a message about a guard must name the line to look at: so
there is an index of the line of each part of a document.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from hooklatch.core.hooks.definitions import InvalidHookError, is_id, read_definition
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.core.text import format_duration, is_unicode, suggest_name

__all__ = ["index_json_lines", "Collector", "ImportResult", "ImportedHook", "ImportNote", "suggest_key", "list_strings"]

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n')
STEP = re.compile(r"(?:\.[^.\[]*|\[\d+\])$")  # the last step of a place


def index_json_lines(text: str) -> dict[str, int]:
    """Return the line of each member and element of valid JSON, by its place such as `hooks.Stop[1].command`.

    Elements are counted from 1, as in messages.
    """
    lines: dict[str, int] = {}
    line = 1
    path: list[str | int] = []  # a key for each open object, a number for each open list
    is_key = False
    for found in TOKEN.finditer(text):
        token = found[0]
        match token:
            case "\n":
                line += 1
            case "{":
                path.append("")
                is_key = True
            case "[":
                path.append(1)
                lines.setdefault(format_json_path(path), line)
            case "}" | "]":
                path.pop()
                is_key = False
            case ",":
                step = path[-1]
                is_key = isinstance(step, str)
                if isinstance(step, int):
                    path[-1] = step + 1
            case ":":
                is_key = False
            case _:
                if is_key:
                    path[-1] = json.loads(token, strict=False)
                    lines[format_json_path(path)] = line
                elif path and isinstance(path[-1], int):
                    lines[format_json_path(path)] = line
        if token == "{" and len(path) > 1 and isinstance(path[-2], int):
            lines[format_json_path(path[:-1])] = line
    return lines


def find_line(lines: dict[str, int], place: str) -> int:
    """Return the line of a place, or of the nearest enclosing one; 0 if unknown."""
    while place and place not in lines:
        shorter = STEP.sub("", place)
        place = shorter if shorter != place else ""
    return lines.get(place, 0)


def format_json_path(path: list[str | int]) -> str:
    place = ""
    for step in path:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place


MAX_TIMEOUT = 600.0  # seconds, the maximum in a definition
MIN_TIMEOUT = 0.001
HASTY = 0.1  # seconds; hardly any command can start in less
MAX_NAME = 100  # characters of another system's name to use in an id
MAX_TEXT = 400  # characters of a note, which may quote the file
SETTLED = 6  # decimal places of a timeout
MAX_PROGRAM = 40  # characters of a program's name to use in an id
DIGEST = 8  # hex digits in an id; on a collision within a file, the digest covers all keys of the hook
UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")
TARGETS = ("command", "argv")


class ImportNote(msgspec.Struct, frozen=True):
    """A note for the user: its place in the file ("" for all of it), and whether something is lost.

    `is_dropped`: the entry is not imported at all.  `is_slip`: a key looks misspelt.
    """

    place: str
    text: str
    is_loss: bool = False
    is_dropped: bool = False
    is_slip: bool = False

    @property
    def shown(self) -> str:
        """Return the text for a reader who gets nothing in place of a dropped entry."""
        return f"dropped: {self.text}" if self.is_dropped else self.text

    def __str__(self) -> str:
        return f"{self.place}: {self.shown}" if self.place else self.shown


class ImportedHook(msgspec.Struct, frozen=True):
    """One imported hook: `settings` are the keys of a [[hook]]; if it has a `problem`, the user must fix that first.

    If the problem is that there is nothing to run, the settings name no command.  `override` is what to write in an
    [[override]] if a plugin provides the hook.
    """

    place: str
    settings: dict[str, Any]
    problem: str | None = None
    override: dict[str, Any] | None = None


class ImportResult(msgspec.Struct, frozen=True):
    """The result for one file; for JSON, `lines` maps places to line numbers."""

    kind: str
    hooks: list[ImportedHook]
    notes: list[ImportNote]
    lines: dict[str, int] = {}

    def line_of(self, place: str) -> int:
        """Return the line number of a place, 0 if unknown."""
        return find_line(self.lines, place)

    @property
    def has_losses(self) -> bool:
        """Return whether a hook of the file will not run."""
        return any(note.is_loss for note in self.notes) or any(hook.problem for hook in self.hooks)


class PendingHook(msgspec.Struct, frozen=True):
    """A hook without its final id, which starts with `name` and continues with a digest of `identity`."""

    place: str
    name: str
    identity: object
    settings: dict[str, Any]
    problem: str | None
    override: dict[str, Any] | None


class Collector:
    """Hooks and notes collected so far.

    `is_disabled` is set if the file has disabled all its hooks; `own` counts hooklatch's own entries.
    """

    def __init__(self) -> None:
        self.notes: list[ImportNote] = []
        self.kinds: list[str] = []
        self.is_disabled = False
        self.own = 0
        self._pending: list[PendingHook] = []

    def note(self, place: str, text: str, *, is_loss: bool = False) -> None:
        """Add a note about a difference."""
        self.notes.append(ImportNote(place, clip_note(text), is_loss))

    def lose(self, place: str, text: str) -> None:
        """Add a note that an entry is dropped, since its purpose is unknown."""
        self.notes.append(ImportNote(place, clip_note(text), is_loss=True, is_dropped=True))

    def note_unused(self, place: str, table: Mapping[str, Any], known: frozenset[str]) -> None:
        for key in sorted(table.keys() - known):
            near = suggest_key(key, known)
            text = f"{key!r} is not known here; the hook runs without it{near}"
            self.notes.append(ImportNote(place, clip_note(text), is_slip=bool(near)))

    def read_own_keys(self, place: str, table: Mapping[str, Any], settings: dict[str, Any]) -> None:
        """Read our own keys, which a user may add to another system's file; without them it is a plain guard."""
        for mark in ("amends", "only_judges"):
            if table.get(mark) is True:
                settings[mark] = True
            elif table.get(mark, False) is not False:
                self.note(place, f"{mark} {table[mark]!r:.40} is not true or false; the hook is a guard in its turn")

    def keep(
        self,
        place: str,
        name: str,
        settings: dict[str, Any],
        problem: str | None = None,
        *,
        entry: object = None,
        is_named: bool = False,
        override: dict[str, Any] | None = None,
    ) -> None:
        """Add a hook; with a `problem` it does not load until the user fixes it.

        `entry` is the file's content, from which a hook without a command gets its id; `is_named` says that `name`
        belongs to the hook itself and not to its event.
        """
        identity: object = [settings.get(key) for key in ("event", "match", *TARGETS)]
        if problem is not None and not any(key in settings for key in TARGETS):
            identity = [settings["event"], entry]
        texts, unusable = list(list_strings(settings)), None
        if any("\0" in text for text in texts):
            unusable = "it holds a null byte, which no command can contain"
        elif not all(map(is_unicode, texts)):
            unusable = "it holds characters that are not valid Unicode"
        if unusable is not None:
            settings, problem = {"event": settings["event"]}, problem or unusable
        # The key is Claude Code's: Reasonix ignores it and runs them.
        if self.is_disabled and self.kinds[-1:] != ["reasonix"]:
            settings = {**settings, "enabled": False}
        problem = problem or find_settings_fault(settings)
        identity = None if is_named else identity
        self._pending.append(PendingHook(place, name, identity, settings, problem and clip_note(problem), override))

    def hooks(self) -> list[ImportedHook]:
        """Return all hooks with their ids; of identical entries, only the first one."""
        counts = Counter(make_imported_id(hook, hook.identity) for hook in self._pending)
        hooks: dict[str, ImportedHook] = {}
        for hook in self._pending:
            hook_id = make_imported_id(hook, hook.identity)
            if hook.identity is None:
                hook_id = make_unused_id(hook_id, hooks)
            elif counts[hook_id] > 1:
                # Use all of their content: neither id may depend on the other's position.
                hook_id = make_imported_id(hook, [hook.identity, hook.settings, hook.problem])
            if hook_id in hooks:
                self.note(hook.place, f"it is the same as {hooks[hook_id].place}; it runs once")
                continue
            settings = {"id": hook_id, **hook.settings}
            hooks[hook_id] = ImportedHook(hook.place, settings, hook.problem, hook.override)
        return list(hooks.values())

    def seconds(self, place: str, value: object, unit: float, default: float | None) -> float | None:
        """Return a time limit in seconds; None for the default of the event."""
        written = f"timeout {value!r:.40}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or value == math.inf:
            fallback = "the event's default" if default is None else f"the default of {format_duration(default)}"
            self.note(place, f"{written} is not a duration; {fallback} applies")
            return default
        if value > MAX_TIMEOUT / unit:
            self.note(place, f"{written} was cut to {format_duration(MAX_TIMEOUT)}, the maximum")
            return MAX_TIMEOUT
        seconds = max(round(value * unit, SETTLED), MIN_TIMEOUT)
        if seconds < HASTY:
            too_short = f"{format_duration(seconds)}, too short for a command to start"
            self.note(place, f"{written} is {too_short}; was it meant in seconds?")
        return seconds


def find_settings_fault(settings: Mapping[str, Any]) -> str | None:
    """Return why these settings are not a valid definition, or None."""
    try:
        read_definition({"id": "imported", **{key: value for key, value in settings.items() if key != "match"}})
        compile_matcher(settings.get("match"))
    except InvalidHookError as error:
        return error.reason
    except MatcherError as error:
        return str(error)
    return None


def make_imported_id(hook: PendingHook, identity: object) -> str:
    """Return `name:program:digest`, or just the name if it belongs to the hook itself."""
    letters = [letter if letter.isprintable() and is_id(letter) else "_" for letter in hook.name[:MAX_NAME]]
    name = "".join(letters) or "hook"
    if identity is None:
        return name
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
    return ":".join(part for part in (name, short_program_name(hook.settings), digest[:DIGEST]) if part)


def short_program_name(settings: Mapping[str, Any]) -> str:
    """Return the name of the program that a hook runs, short enough for an id."""
    words = settings.get("argv") or str(settings.get("command", "")).split()
    return UNFIT.sub("", words[0].rstrip("\"'").rpartition("/")[2])[:MAX_PROGRAM] if words else ""


def make_unused_id(base: str, taken: Mapping[str, object]) -> str:
    number, candidate = 1, base
    while candidate in taken:
        number += 1
        candidate = f"{base}-{number}"
    return candidate


def suggest_key(key: str, known: frozenset[str]) -> str:
    return suggest_name(key.casefold(), known, cutoff=0.7)


def list_strings(value: object) -> Iterator[str]:
    """Yield every string in a value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            yield key
            yield from list_strings(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from list_strings(item)


def clip_note(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
