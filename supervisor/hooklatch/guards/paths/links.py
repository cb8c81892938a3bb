"""Links on the way to a file: those of the disk, and those that a text makes itself.  Changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import Final

from hooklatch.guards.paths.patterns import is_wide, may_be
from hooklatch.shelltext.words import GLOB

__all__ = ["MAX_WAYS", "TextLinks", "find_file_identity"]

MAX_WAYS: Final = 1000  # files that a pattern stands for, and links on the way to them; more are not known
MAX_ADDED: Final = 128  # links that a text makes; where more of them lead is not known
MAX_LINKS: Final = 40  # on one way, as the kernel has it


class TextLinks:
    """The places where paths lead, by the links that are there and by those that were added."""

    def __init__(self) -> None:
        self.is_open = False  # whether there may be one of any name
        self._added: dict[str, set[str | None]] = {}  # None: it leads to what is not known
        self._moved: set[str] = set()  # those that are not links: what was moved there
        self._on_disk: dict[str, str | None] = {}
        self._ways: dict[tuple[str, bool, bool], list[str] | None] = {}

    def __len__(self) -> int:
        return len(self._added) + self.is_open

    def __contains__(self, path: str) -> bool:
        return path in self._added

    def add(self, path: str, ends: Iterable[str | None], *, is_moved: bool) -> None:
        """Note that a path leads to each of these; `is_moved`: it is what they were, and no link."""
        self._ways.clear()
        if len(self._added) >= MAX_ADDED:
            self.is_open = True
            return
        self._added.setdefault(path, set()).update(end for end in ends if end != path)
        if is_moved:
            self._moved.add(path)

    def ways(self, whole: str, *, is_followed: bool, is_stripped: bool = False) -> list[str] | None:
        """Return where a path leads once its links are followed; None if that is not known, or it is too much."""
        key = (whole, is_followed, is_stripped)
        if key not in self._ways:
            self._ways[key] = self._followed(whole, is_followed=is_followed, is_stripped=is_stripped)
        return self._ways[key]

    def _followed(self, whole: str, *, is_followed: bool, is_stripped: bool) -> list[str] | None:
        parts = [part for part in whole.split("/") if part not in ("", ".")]
        is_inside = whole.endswith(("/", "/."))
        while is_stripped and parts and is_wide(parts[-1]):
            parts, is_inside = parts[:-1], True
        waiting: list[tuple[tuple[str, ...], tuple[str, ...], int]] = [((), tuple(parts), 0)]
        found: dict[str, None] = {}
        seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        while waiting:
            done, rest, links = waiting.pop()
            if (done, rest) in seen:
                continue
            seen.add((done, rest))
            if len(seen) > MAX_WAYS or links > MAX_LINKS:
                return None
            if not rest:
                found["/" + "/".join(done)] = None
                continue
            part, rest = rest[0], rest[1:]
            if part == "..":
                waiting.append((done[:-1], rest, links))
                continue
            if (magic := leads_through_process(done, part)) is not None:
                if not magic:
                    return None
                waiting.append(((), rest, links))
                continue
            at = "/" + "/".join((*done, part))
            is_last = not rest and not is_followed and not is_inside
            names = self._names(done, part) if GLOB.search(part) else ()
            if names is None:
                return None
            for name in names:
                path = "/" + "/".join((*done, name))
                if rest or (not is_last and self._link(path)) or is_followed:
                    waiting.append((done, (name, *rest), links))
            leads = self._link(at) if not is_last or at in self._moved else set[str | None]()
            if self.is_open and rest and not leads:
                return None
            for target in leads:
                if target is None:
                    return None
                waiting.append(((), (*(part for part in target.split("/") if part not in ("", ".")), *rest), links + 1))
            if not leads or at in self._added:
                waiting.append(((*done, part), rest, links))
        return list(found) or None  # links that lead round in a circle

    def _names(self, done: tuple[str, ...], pattern: str) -> list[str] | None:
        """Return the files of a folder that a pattern stands for, those of the text too; None if there are too many."""
        folder = "/" + "/".join(done)
        try:
            found = os.listdir(folder)
        except (OSError, ValueError):
            found = []
        found += [os.path.basename(path) for path in self._added if os.path.dirname(path) == folder]
        meant = [name for name in found if may_be(pattern, name) and not GLOB.search(name)]
        return None if len(meant) > MAX_WAYS else meant

    def _link(self, path: str) -> set[str | None]:
        """Return where a path leads as a link, by the text and by the disk; empty if it is none."""
        found = set(self._added.get(path, ()))
        if path not in self._on_disk:
            try:
                self._on_disk[path] = os.readlink(path)
            except (OSError, ValueError):
                self._on_disk[path] = None
        if (target := self._on_disk[path]) is not None:
            found.add(os.path.join(os.path.dirname(path), target))
        return found


def leads_through_process(done: Sequence[str], part: str) -> bool | None:
    """Return whether a part leads to the root, as /proc/1/root does; None if it is a part like others."""
    if len(done) < 2 or not may_be(done[0], "proc"):
        return None
    if may_be(part, "root"):
        return True
    return False if any(may_be(part, name) for name in ("cwd", "exe", "fd", "map_files")) else None


def find_file_identity(path: str, *, is_shared: bool = False) -> tuple[int, int] | None:
    """Return what is the same for all names of a file; None if there is none, or `is_shared` and it has one name."""
    try:
        own = os.stat(path)
    except (OSError, ValueError):
        return None
    is_wanted = stat.S_ISREG(own.st_mode) and (not is_shared or own.st_nlink > 1)
    return (own.st_dev, own.st_ino) if is_wanted else None
