"""Where an agent is, or began, and in which projects that is.  Knows paths; knows no session and no hook.

A place can be told or it cannot; one that cannot be told is never one without a project: whoever needs its guards
denies.  What is ambiguous counts for each folder that it may stand for, since that only adds guards: a folder as it was
named, and as it is without links; a name of which only the letters and digits are known.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

__all__ = ["Place", "alike", "dashed", "find_place", "nearest"]

CUT = 200  # characters of a folder's name after which Claude Code replaces the rest by a digest


class Place(msgspec.Struct, frozen=True):
    """A folder by every whole path that it may have; a `fault` says why that is not known."""

    named: str
    paths: tuple[str, ...]
    fault: str | None = None


def find_place(folder: str) -> Place:
    """Look where a folder is.  What is missing of it counts as plain folders below what is there."""
    if not os.path.isabs(folder):
        return Place(folder, (), f"{folder!r} is no whole path")
    plain = os.path.normpath(folder)
    try:
        real = real_path(folder)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Place(folder, (plain,), f"{folder!r} cannot be looked up: {why}")
    return Place(folder, (plain,) if plain == real else (plain, real))


def real_path(folder: str) -> str:
    try:
        return os.path.realpath(folder, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(folder)  # follows what links there are; the rest is as it is named


def nearest(places: Iterable[Place], folders: Collection[str]) -> set[str]:
    """Return for each path of these places the nearest of `folders` at or above it."""
    if not folders:
        return set()
    paths = {path for place in places for path in place.paths}
    return {folder for path in paths if (folder := first_above(path, folders)) is not None}


def first_above(path: str, folders: Collection[str]) -> str | None:
    while path not in folders:
        above, _, name = path.rpartition("/")
        if not name:
            return None
        path = above or "/"
    return path


def alike(name: str, folders: Iterable[str]) -> set[str]:
    """Return those of `folders` at or below which a folder may be of whose path `name` has the letters and digits.

    `name` has "-" for every other character: so Claude Code names the folder of a session's transcript.
    """
    return {folder for folder in folders if is_alike(name, dashed(folder))}


def is_alike(name: str, folder: str) -> bool:
    if len(folder) > CUT:
        return name[:CUT] == folder[:CUT]
    return name == folder or name.startswith(f"{folder.rstrip('-')}-")


def dashed(path: str) -> str:
    # Claude Code counts in UTF-16: what is beyond the first plane is two characters.
    return "".join(
        char if char.isascii() and char.isalnum() else "-" * (2 if ord(char) > 0xFFFF else 1) for char in path
    )
