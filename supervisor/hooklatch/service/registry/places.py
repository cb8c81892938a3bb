"""The directories in which an agent is, or began, and the projects of these.  Does not know sessions or hooks.

A place is known or unknown.  An unknown place is never treated as one without a project: a fire that needs its guards
is denied.  An ambiguous place counts for each directory that it may mean, since that only adds guards. Such are a
directory as named and with links resolved, and a name of which only the letters and digits are known.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

from hooklatch.disks import is_plain, limit_look
from hooklatch.threads import look_at_path
from hooklatch_worker.systems.disks import read_real_path

__all__ = [
    "ResolvedDirectory", "find_similar_folders", "dash_path", "find_place", "find_nearest_folders",
    "look_up_directory", "find_real_path", "SessionStarts",
]  # fmt: skip

CUT = 200  # characters of a directory's name after which Claude Code replaces the rest by a digest
MAX_SESSIONS = 10_000  # host sessions that are remembered; the least recently used is dropped first


class ResolvedDirectory(msgspec.Struct, frozen=True):
    """A directory with every absolute path that it may have. A `fault` says why these are unknown."""

    named: str
    paths: tuple[str, ...]
    fault: str | None = None


def find_place(folder: str) -> ResolvedDirectory:
    """Look up a directory.  Missing components count as plain directories below the existing ones."""
    if not os.path.isabs(folder):
        return ResolvedDirectory(folder, (), f"{folder!r} is not an absolute path")
    plain = os.path.normpath(folder)
    try:
        real = find_real_path(folder)
    except (OSError, ValueError) as error:
        explanation = getattr(error, "strerror", None) or error
        return ResolvedDirectory(folder, (plain,), f"{folder!r} cannot be looked up: {explanation}")
    return ResolvedDirectory(folder, (plain,) if plain == real else (plain, real))


async def look_up_directory(folder: str) -> ResolvedDirectory:
    """Look up a directory from the event loop. If its disk does not answer in time, it is unknown."""
    return await look_at_path(find_place, folder)


@limit_look
def find_real_path(folder: str) -> str:
    if is_plain(folder):
        return folder
    try:
        return read_real_path(folder)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(folder)  # follows the links that exist; missing components stay as they are named


def find_nearest_folders(places: Iterable[ResolvedDirectory], folders: Collection[str]) -> set[str]:
    """Return, for each path of these places, the nearest of `folders` at or above it."""
    if not folders:
        return set()
    paths = {path for place in places for path in place.paths}
    return {folder for path in paths if (folder := find_first_above(path, folders)) is not None}


def find_first_above(path: str, folders: Collection[str]) -> str | None:
    while path not in folders:
        parent, _, name = path.rpartition("/")
        if not name:
            return None
        path = parent or "/"
    return path


def find_similar_folders(name: str, folders: Iterable[str]) -> set[str]:
    """Return those of `folders` that may contain a directory whose path has the letters and digits of `name`.

    `name` has "-" for every other character, as Claude Code names the directory of a session's transcript.
    """
    return {folder for folder in folders if is_alike(name, dash_path(folder))}


def is_alike(name: str, folder: str) -> bool:
    if len(folder) > CUT:
        return name[:CUT] == folder[:CUT]
    return name == folder or name.startswith(f"{folder.rstrip('-')}-")


def dash_path(path: str) -> str:
    # Claude Code counts UTF-16 units: characters beyond the first plane are two.
    return "".join(
        char if char.isascii() and char.isalnum() else "-" * (2 if ord(char) > 0xFFFF else 1) for char in path
    )


class SessionStarts:
    """The place that the first fire of each host session named, where the session itself is not here.

    A one-shot client sends the directory in which its agent is now. An agent that has left its project by `cd` is still
    held to the guards of its start directory.  These places only add guards, so a forged id gains nothing.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[ResolvedDirectory, ...]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def get(self, session_id: str) -> tuple[ResolvedDirectory, ...]:
        """Return the places at which a session began, if known, and note that it was used now."""
        places = self._places.pop(session_id, ())
        if places:
            self._places[session_id] = places
        return places

    def note(self, session_id: str, places: tuple[ResolvedDirectory, ...]) -> None:
        """Remember the first places of a session, if they are known."""
        if places and all(place.fault is None for place in places) and session_id not in self._places:
            self._places[session_id] = places
            if len(self._places) > MAX_SESSIONS:
                del self._places[next(iter(self._places))]
