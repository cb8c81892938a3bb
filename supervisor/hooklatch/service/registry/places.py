"""Where an agent is, or began, and which projects that is in.  Knows paths; does not know sessions or hooks.

A place is known or unknown.  An unknown one is never treated as one without a project: a fire that needs its guards is
denied.  An ambiguous one counts for each directory that it may mean, since that only adds guards: a directory as named,
and with links resolved; a name of which only the letters and digits are known.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

from hooklatch.disks import in_time, is_plain
from hooklatch.service.config.looks import looked

__all__ = ["Place", "alike", "dashed", "find_place", "nearest", "place_of", "real_path"]

CUT = 200  # characters of a directory's name after which Claude Code replaces the rest by a digest


class Place(msgspec.Struct, frozen=True):
    """A directory by every absolute path that it may have; a `fault` says why that is unknown."""

    named: str
    paths: tuple[str, ...]
    fault: str | None = None


def find_place(folder: str) -> Place:
    """Look up a directory.  Missing components count as plain directories below the existing ones."""
    if not os.path.isabs(folder):
        return Place(folder, (), f"{folder!r} is not an absolute path")
    plain = os.path.normpath(folder)
    try:
        real = real_path(folder)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Place(folder, (plain,), f"{folder!r} cannot be looked up: {why}")
    return Place(folder, (plain,) if plain == real else (plain, real))


async def place_of(folder: str) -> Place:
    """Look up a directory from the event loop; one whose disk does not answer in time is unknown."""
    return await looked(find_place, folder)


@in_time
def real_path(folder: str) -> str:
    if is_plain(folder):
        return folder
    try:
        return os.path.realpath(folder, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(folder)  # follows the links that exist; missing components stay as they are named


def nearest(places: Iterable[Place], folders: Collection[str]) -> set[str]:
    """Return, for each path of these places, the nearest of `folders` at or above it."""
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
    """Return those of `folders` that may contain a directory whose path has the letters and digits of `name`.

    `name` has "-" for every other character, as Claude Code names the directory of a session's transcript.
    """
    return {folder for folder in folders if is_alike(name, dashed(folder))}


def is_alike(name: str, folder: str) -> bool:
    if len(folder) > CUT:
        return name[:CUT] == folder[:CUT]
    return name == folder or name.startswith(f"{folder.rstrip('-')}-")


def dashed(path: str) -> str:
    # Claude Code counts UTF-16 units: characters beyond the first plane are two.
    return "".join(
        char if char.isascii() and char.isalnum() else "-" * (2 if ord(char) > 0xFFFF else 1) for char in path
    )
