"""Where commands may run: the folders that each `cd` of a text leads to.  Knows words of `cd`; parses nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hooklatch.guards.command import Places
from hooklatch.guards.words import Word

__all__ = ["MOVING", "Place"]

MAX_PATH = 4096  # characters; the kernel takes no longer ones
MAX_PLACES = 16  # folders that a command may run in; beyond that it is unknown
MOVING = frozenset({"cd", "chdir", "pushd", "popd"})


class Place:
    """Where the next command may run, and where if the one before it succeeded."""

    __slots__ = ("moved", "now")

    def __init__(self) -> None:
        self.now: Places = ("",)
        self.moved: Places = ("",)

    def stay(self, places: Places) -> None:
        self.now = self.moved = places

    def add(self, places: Places) -> None:
        """Note that it may be here, too."""
        self.now = either(self.now, places)

    def move(self, name: str, words: Sequence[Word]) -> None:
        """Note where the shell is after `cd`; it stays where it was if that fails."""
        named = [word for word in words if not word.text.startswith(("-", "+")) or word.text == "-"]
        target: str | None = "~"
        if name == "popd" or (name == "pushd" and not named):
            target = None
        elif named:
            word = named[-1]
            target = word.text if word.is_known and word.text != "-" and not set(word.text) & set("*?[") else None
            target = None if target is not None and target.startswith(("~-", "~+")) else target
        self.moved = tuple(dict.fromkeys(joined(place, target) for place in self.now))
        self.now = either(self.now, self.moved)


def either(one: Places, other: Places) -> Places:
    found = tuple(dict.fromkeys((*one, *other)))
    return found if len(found) <= MAX_PLACES else (None,)


def joined(place: str | None, target: str | None) -> str | None:
    """Return the place that `cd` leads to from another one; None if either is unknown."""
    if target is None:
        return None
    if target.startswith(("/", "~")):
        return target
    whole = None if place is None else os.path.join(place, target)
    return whole if whole is None or len(whole) <= MAX_PATH else None
