"""Collects what a file gives: hooks that load, hooks that need a hand, and a line for all that is lost or different.

Knows what our own definitions accept; knows no other system.

An entry on an event that we know is never dropped: what cannot run is kept with its `problem`, so that on a gate it
denies.  A hook's id comes from what it is (event, matcher, command), never from its position: a switch must not move
to another guard when an entry is added, deleted or moved.
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
from hooklatch.core.text import did_you_mean
from hooklatch.importing.places import line_at

__all__ = ["Collector", "Imported", "ImportedHook", "Note", "nearest_key", "strings_in"]

MAX_TIMEOUT = 600.0  # seconds; what a definition may say
MIN_TIMEOUT = 0.001
HASTY = 0.1  # seconds; a command that has less can hardly start
MAX_NAME = 100  # characters of another system's name that go into an id
MAX_TEXT = 400  # characters of a note; it may quote what somebody wrote
SETTLED = 6  # decimal places of a timeout
MAX_PROGRAM = 40  # characters of a program's name that go into an id
DIGEST = 8  # hexadecimal digits of an id; two hooks of one file that share them are told apart by all their keys
UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")
TARGETS = ("command", "argv")


class Note(msgspec.Struct, frozen=True):
    """Something to know: where it stands in the file ("" for all of it), and whether a hook or a part of it is lost.

    `is_dropped` tells an entry of which nothing is left; `is_slip`, a key that looks misspelt.
    """

    place: str
    text: str
    is_loss: bool = False
    is_dropped: bool = False
    is_slip: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class ImportedHook(msgspec.Struct, frozen=True):
    """One hook of ours: `settings` are the keys of a [[hook]]; with a `problem` somebody has to mend it first.

    Where the problem is that nothing can be run, the settings name no command.  `override` is what an [[override]] of
    a plugin's hook would say in its place.
    """

    place: str
    settings: dict[str, Any]
    problem: str | None = None
    override: dict[str, Any] | None = None


class Imported(msgspec.Struct, frozen=True):
    """What a file gave; `lines` say where its places are, in a JSON file."""

    kind: str
    hooks: list[ImportedHook]
    notes: list[Note]
    lines: dict[str, int] = {}

    def line_of(self, place: str) -> int:
        """Return the line of a place, 0 where it is not known."""
        return line_at(self.lines, place)

    @property
    def has_losses(self) -> bool:
        """Something that the file wants to have run does not run as it stands."""
        return any(note.is_loss for note in self.notes) or any(hook.problem for hook in self.hooks)


class Kept(msgspec.Struct, frozen=True):
    """A hook that has no id yet: `name` begins it, and `identity` is what the rest of it is made of."""

    place: str
    name: str
    identity: object
    settings: dict[str, Any]
    problem: str | None
    override: dict[str, Any] | None


class Collector:
    """What was found so far.  `is_disabled` is for a file that has switched off all its hooks."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.kinds: list[str] = []
        self.is_disabled = False
        self._kept: list[Kept] = []

    def note(self, place: str, text: str, *, is_loss: bool = False) -> None:
        """Say what is different here."""
        self.notes.append(Note(place, clip(text), is_loss))

    def lose(self, place: str, text: str) -> None:
        """Say what is dropped: an entry of which it is not known what it is for."""
        self.notes.append(Note(place, clip(f"dropped: {text}"), is_loss=True, is_dropped=True))

    def note_unused(self, place: str, table: Mapping[str, Any], known: frozenset[str]) -> None:
        for key in sorted(table.keys() - known):
            near = nearest_key(key, known)
            text = f"{key!r} is not known here; the hook runs without it{near}"
            self.notes.append(Note(place, clip(text), is_slip=bool(near)))

    def take_mark(self, place: str, table: Mapping[str, Any], settings: dict[str, Any]) -> None:
        """Take `amends`, a key of ours that a file of another system may have too; without it a hook is a guard."""
        if table.get("amends") is True:
            settings["amends"] = True
        elif table.get("amends", False) is not False:
            self.note(place, f"amends {table['amends']!r:.40} is not true or false; the hook is a guard")

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
        """Take a hook in: one that loads, or, with a `problem`, one that somebody must mend.

        `entry` is what the file holds, for the id of a hook without a command; `is_named` says that `name` is the
        hook's own, and not its event's.
        """
        identity: object = [settings.get(key) for key in ("event", "match", *TARGETS)]
        if problem is not None and not any(key in settings for key in TARGETS):
            identity = [settings["event"], entry]
        for is_bad, text in (
            (any("\0" in text for text in strings_in(settings)), "it holds a null byte, which no command can be given"),
            (not all(is_text(text) for text in strings_in(settings)), "it holds characters that are not valid Unicode"),
        ):
            if is_bad:
                settings, problem = {"event": settings["event"]}, problem or text
        if self.is_disabled:
            settings = {**settings, "enabled": False}
        problem = problem or fault_of(settings)
        identity = None if is_named else identity
        self._kept.append(Kept(place, name, identity, settings, problem and clip(problem), override))

    def hooks(self) -> list[ImportedHook]:
        """Return all hooks under their ids; of entries that are the same in all, the first one."""
        shares = Counter(id_of(kept, kept.identity) for kept in self._kept)
        found: dict[str, ImportedHook] = {}
        for kept in self._kept:
            hook_id = id_of(kept, kept.identity)
            if kept.identity is None:
                hook_id = unused(hook_id, found)
            elif shares[hook_id] > 1:
                # Told apart by all that they are: the id of neither may depend on the other one's place.
                hook_id = id_of(kept, [kept.identity, kept.settings, kept.problem])
            if hook_id in found:
                self.note(kept.place, f"it is the same as {found[hook_id].place}; it runs once")
                continue
            settings = {"id": hook_id, **kept.settings}
            found[hook_id] = ImportedHook(kept.place, settings, kept.problem, kept.override)
        return list(found.values())

    def seconds(self, place: str, value: object, unit: float, default: float | None) -> float | None:
        """Return a time limit in seconds; None for the event's own."""
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


def fault_of(settings: Mapping[str, Any]) -> str | None:
    """Return why our own reader would refuse these settings, if it would."""
    try:
        read_definition({"id": "imported", **{key: value for key, value in settings.items() if key != "match"}})
        compile_matcher(settings.get("match"))
    except InvalidHookError as error:
        return error.reason
    except MatcherError as error:
        return str(error)
    return None


def id_of(kept: Kept, identity: object) -> str:
    """Return `name:program:digest`, or the name alone where it is the hook's own."""
    letters = [letter if letter.isprintable() and is_id(letter) else "_" for letter in kept.name[:MAX_NAME]]
    name = "".join(letters) or "hook"
    if identity is None:
        return name
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
    return ":".join(part for part in (name, program_of(kept.settings), digest[:DIGEST]) if part)


def program_of(settings: Mapping[str, Any]) -> str:
    """Return the name of the program that a hook runs, as far as it helps to recognise it."""
    words = settings.get("argv") or str(settings.get("command", "")).split()
    return UNFIT.sub("", words[0].rstrip("\"'").rpartition("/")[2])[:MAX_PROGRAM] if words else ""


def unused(base: str, taken: Mapping[str, object]) -> str:
    number, found = 1, base
    while found in taken:
        number += 1
        found = f"{base}-{number}"
    return found


def nearest_key(key: str, known: frozenset[str]) -> str:
    return did_you_mean(key.casefold(), known, cutoff=0.7)


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
