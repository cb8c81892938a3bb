"""Collects what a file gives: hooks that load, hooks that need a hand, and a line for all that is lost or different.

Knows what our own definitions accept; knows no other system.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from hooklatch.core.definitions import InvalidHookError, is_id, read_definition
from hooklatch.core.matchers import MatcherError, compile_matcher

__all__ = ["Collector", "Imported", "ImportedHook", "Note", "strings_in"]

MAX_TIMEOUT = 600.0  # seconds; what a definition may say
MIN_TIMEOUT = 0.001
HASTY = 0.1  # seconds; a command that has less can hardly start
MAX_NAME = 100  # characters of another system's name that go into an id
MAX_TEXT = 400  # characters of a note; it may quote what somebody wrote
SETTLED = 6  # decimal places of a timeout


class Note(msgspec.Struct, frozen=True):
    """Something to know: where it stands in the file ("" for all of it), and whether a hook or a part of it is lost."""

    place: str
    text: str
    is_loss: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class ImportedHook(msgspec.Struct, frozen=True):
    """One hook of ours: `settings` are the keys of a [[hook]]; with a `problem` somebody has to mend it first."""

    place: str
    settings: dict[str, Any]
    problem: str | None = None


class Imported(msgspec.Struct, frozen=True):
    """What a file gave."""

    kind: str
    hooks: list[ImportedHook]
    notes: list[Note]

    @property
    def has_losses(self) -> bool:
        """Something that the file wants to have run does not run as it stands."""
        return any(note.is_loss for note in self.notes) or any(hook.problem for hook in self.hooks)


class Collector:
    """What was found so far.  `is_disabled` is for a file that has switched off all its hooks."""

    def __init__(self) -> None:
        self.hooks: list[ImportedHook] = []
        self.notes: list[Note] = []
        self.kinds: list[str] = []
        self.is_disabled = False
        self._ids: set[str] = set()
        self._last: dict[str, int] = {}  # the last number that a name was given

    def note(self, place: str, text: str, *, is_loss: bool = False) -> None:
        """Say what is different here."""
        self.notes.append(Note(place, clip(text), is_loss))

    def lose(self, place: str, text: str) -> None:
        """Say what is dropped."""
        self.note(place, f"dropped: {text}", is_loss=True)

    def note_unused(self, place: str, table: Mapping[str, Any], known: frozenset[str]) -> None:
        for key in sorted(table.keys() - known):
            self.note(place, f"{key!r} is not known here; the hook runs without it")

    def take_mark(self, place: str, table: Mapping[str, Any], settings: dict[str, Any]) -> None:
        """Take `amends`, a key of ours that a file of another system may have too; without it a hook is a guard."""
        if table.get("amends") is True:
            settings["amends"] = True
        elif table.get("amends", False) is not False:
            self.note(place, f"amends {table['amends']!r:.40} is not true or false; the hook is a guard")

    def keep(self, place: str, name: str, settings: dict[str, Any], problem: str | None = None) -> None:
        """Take a hook in, if it is one that loads; its matcher alone may be one that does not."""
        if any("\0" in text for text in strings_in(settings)):
            self.lose(place, "it holds a null byte, which no command can be given")
            return
        if not all(is_text(text) for text in strings_in(settings)):
            self.lose(place, "it holds characters that are not valid Unicode")
            return
        settings = {"id": self._id(name), **settings}
        if self.is_disabled:
            settings["enabled"] = False
        try:
            read_definition({key: value for key, value in settings.items() if key != "match"})
        except InvalidHookError as error:
            self.lose(place, error.reason)
            return
        try:
            compile_matcher(settings.get("match"))
        except MatcherError as error:
            problem = problem or str(error)
        self.hooks.append(ImportedHook(place, settings, problem and clip(problem)))

    def seconds(self, place: str, value: object, unit: float, default: float | None) -> float | None:
        """Give a time limit in seconds; None for the event's own."""
        written = f"timeout {value!r:.40}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or value == math.inf:
            held = "the event's own" if default is None else f"the default of {default:g} s"
            self.note(place, f"{written} is no length of time; {held} holds")
            return default
        if value > MAX_TIMEOUT / unit:
            self.note(place, f"{written} was cut to {MAX_TIMEOUT:g} s, the most there is")
            return MAX_TIMEOUT
        seconds = max(round(value * unit, SETTLED), MIN_TIMEOUT)
        if seconds < HASTY:
            self.note(place, f"{written} is {seconds:g} s, in which hardly a command starts; was it meant as seconds?")
        return seconds

    def _id(self, name: str) -> str:
        letters = [letter if letter.isprintable() and is_id(letter) else "_" for letter in name[:MAX_NAME]]
        base = "".join(letters) or "hook"
        number, found = self._last.get(base, 1), base
        while found in self._ids:
            number += 1
            found = f"{base}-{number}"
        self._last[base] = number
        self._ids.add(found)
        return found


def strings_in(value: object) -> Iterator[str]:
    """Yield every text in a value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            yield key
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from strings_in(item)


def clip(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
