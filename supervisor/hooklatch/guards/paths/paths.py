"""Paths as guards compare them: placed where a command runs, links followed, patterns taken for what they may match.

Looks at the disk, and at the links that a text makes itself; changes nothing, and knows no policy.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hooklatch.guards.paths.patterns import is_start, is_wide, may_be, split_parts
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.reading.places import HOME_IS_SET, MACHINES, WITH_HOMES
from hooklatch.shelltext.words import GLOB, Word, is_no_path

__all__ = ["find_file_identity", "HOMES", "STREAMS", "PlacedPath", "PathResolver", "find_own_home"]

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


MAX_PATH: Final = 4096  # characters; the kernel takes no longer ones
NOWHERE: Final = "/nobody/knows/where"  # the folder after `cd $X`
HOMES: Final = ("/home", "/Users")
STREAMS: Final = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2"})
# Where CDPATH may be set, in whichever way: then `cd x` may lead anywhere.
CDPATH_IS_SET: Final = re.compile(r"(?<!\$)(?<!\w)CDPATH\b")
REPEATS: Final = re.compile(r"\b(?:while|until|for|select)\b|\(\s*\)")  # what makes a later command come before
OF_VARIABLE: Final = re.compile(r"\A\$(?:(HOME|PWD)|\{(HOME|PWD)\})(?=/|\Z)")
BLANK: Final = re.compile(r"[\s*?\[]")
LINKING: Final = frozenset({"ln", "link", "cp", "mv", "mount"})


class PlacedPath(NamedTuple):
    """One place on the disk that a word may mean: absolute, without `.`, `..` and links; a pattern where one is left.

    `is_placed` is false if it is not known in which folder it lies, and `is_here` if it is on another machine.
    """

    whole: str
    is_placed: bool = True
    is_here: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        return split_parts(self.whole)

    def is_below(self, folders: Iterable[str]) -> bool:
        """Return whether it surely is one of these folders, or lies in one."""
        return any(self.parts[: len(parts)] == parts for parts in map(split_parts, folders))

    def may_be_below(self, folders: Iterable[str]) -> bool:
        """Return whether it is one of these folders, or lies in one, or may by its patterns."""
        return any(is_start(parts, self.parts) for parts in map(split_parts, folders))

    def may_be_above(self, folder: str) -> bool:
        """Return whether this folder lies below it, or may by its patterns."""
        parts = split_parts(folder)
        return len(self.parts) < len(parts) and is_start(self.parts, parts)

    def may_be(self, folder: str) -> bool:
        """Return whether it is this folder, or may be by its patterns."""
        parts = split_parts(folder)
        return len(self.parts) == len(parts) and is_start(self.parts, parts)

    def is_home(self) -> bool:
        """Return whether it is a user's home, or the folder of all homes."""
        parts = self.parts
        if self.whole == find_own_home() or (len(parts) == 1 and may_be(parts[0], "root")):
            return True
        return len(parts) == 2 and any(may_be(parts[0], folder[1:]) for folder in HOMES)


UNKNOWN: Final = PlacedPath(NOWHERE, is_placed=False)


class PathResolver:
    """The paths that the words of one text mean, seen from the folder in which it begins."""

    def __init__(self, begin: str, text: str = "", found: Sequence[Command] = ()) -> None:
        self.begin = begin
        self._home_is_known = HOME_IS_SET.search(text) is None
        self._folder_is_known = re.search(r"(?<![\w$])(?<!\$\{)(?:OLD)?PWD=", text) is None
        self._is_led = CDPATH_IS_SET.search(text) is not None
        self._links = TextLinks()
        self._real: dict[str, str] = {}
        repeats = REPEATS.search(text) is not None
        self._found, self._reached = list(found), 0
        self._order = {id(command): at for at, command in enumerate(self._found)}
        if repeats:
            self._reach_at(len(self._found))

    def lost(self, word: Word, command: Command) -> list[PlacedPath]:
        """Return what is lost if a word is removed: of `link` the link, of `link/` and `link/*` what it leads to."""
        self._reach(command)
        return self._meant(self.expanded(word, command), command, is_followed=False)

    def changed(self, word: Word, command: Command) -> list[PlacedPath]:
        """Return what is changed if a word is written to: as it is named, and with all links followed."""
        self._reach(command)
        word = self.expanded(word, command)
        found = [
            *self._meant(word, command, is_named=True),
            *self._meant(word, command, is_named=True, is_followed=True),
        ]
        return list(dict.fromkeys(found))

    def of_text(self, text: str) -> list[PlacedPath]:
        """Return what a path that is not a word of a shell means."""
        return self.changed(Word(text), Command(program=""))

    def expanded(self, word: Word, command: Command) -> Word:
        """Return a word in which $HOME and $PWD are what they say, if the text sets neither.

        It stays one word only in quotes, or where the folder has no blank; and a program that runs others may do so in
        another folder than that of the shell, which has put the value there.
        """
        found = None if word.is_known else OF_VARIABLE.match(word.text)
        if found is None or set(rest := word.text[found.end() :]) & set("$`"):
            return word
        if "HOME" in found[0]:
            is_known = self._home_is_known and (word.is_one or not BLANK.search(find_own_home()))
            return Word(f"~{rest}", is_known)
        is_known = self._folder_is_known and not command.within and (word.is_one or not BLANK.search(self.begin))
        return Word(f".{rest}", is_known)

    def here(self, folder: str) -> str:
        """Return a folder with its links followed."""
        if folder not in self._real:
            self._real[folder] = next(iter(self._links.ways(folder, is_followed=True) or ()), os.path.normpath(folder))
        return self._real[folder]

    def links_before(self, command: Command) -> int:
        """Return how many links the text has made before this command, and things moved."""
        self._reach(command)
        return len(self._links)

    def _reach(self, command: Command) -> None:
        """Note what the commands before this one have done."""
        self._reach_at(self._order.get(id(command), 0))

    def _reach_at(self, end: int) -> None:
        while self._reached < end:
            self._reached += 1
            self._note(self._found[self._reached - 1])

    def _meant(
        self, word: Word, command: Command, *, is_followed: bool = False, is_named: bool = False
    ) -> list[PlacedPath]:
        """Return what a word means; `is_named`: as it is written, too, instead of the folder that is emptied."""
        if not word.is_known or not is_possible(word.text):
            return [UNKNOWN]
        found: dict[PlacedPath, None] = {}
        is_here = MACHINES.isdisjoint(command.within)
        for place in command.places:
            for whole in self._placed(word.text, place, command):
                if whole is None:
                    found[UNKNOWN] = None
                    continue
                plain, is_lost = os.path.normpath(whole), whole.startswith(NOWHERE)
                if is_named or is_lost or not is_here:
                    found[PlacedPath(plain if is_named else strip_wide_ends(whole), not is_lost, is_here)] = None
                if is_lost or not is_here or plain in STREAMS:
                    continue
                ways = self._links.ways(whole, is_followed=is_followed, is_stripped=not is_named)
                found.update((PlacedPath(way), None) for way in ways or ())
                if ways is None or len(found) > MAX_WAYS:
                    return [*found, PlacedPath(strip_wide_ends(whole)), UNKNOWN]
        return list(found)

    def _placed(self, text: str, place: str | None, command: Command) -> Iterator[str | None]:
        """Yield what a word names, absolute; what its `..` mean is left to who follows links."""
        for named in self._homes(text, command):
            if named is None or os.path.isabs(named):
                yield named
                continue
            is_led = self._is_led and bool(place) and str(place)[:1] not in ("/", "~", ".")
            for folder in [NOWHERE] if place is None or is_led else self._homes(place, command):
                # `cd` takes `..` by the name of the folder that it is in, programs by the disk.
                yield None if folder is None else f"{os.path.normpath(os.path.join(self.begin, folder))}/{named}"

    def _homes(self, text: str, command: Command) -> Iterator[str | None]:
        """Yield a path without `~`, once for each home that it may stand for."""
        if not text.startswith("~"):
            yield text
            return
        user, slash, rest = text.partition("/")
        if user != "~":
            known = os.path.expanduser(user)
            yield (f"{HOMES[0]}/{user[1:]}" if known == user else known) + slash + rest
        elif not self._home_is_known:
            yield None
        else:
            yield find_own_home() + slash + rest
            if not WITH_HOMES.isdisjoint(command.within):
                yield f"/root{slash}{rest}"

    # -- links -------------------------------------------------------------------------------------------------------

    def _note(self, command: Command) -> None:
        """Note the links that a command makes, and what it moves."""
        name = command.program
        if name not in LINKING or self._links.is_open:
            return
        words = command.operands
        if name == "mount" and not command.has_option("--bind", "--rbind", "-B", "-R", "--move", "-M", "-o"):
            return
        is_copy = name == "cp" and not command.has_option("-s", "-l", "--symbolic-link", "--link")
        into = [word for last, word in zip(command.arguments, command.arguments[1:], strict=False)
                if last.text in ("-t", "--target-directory")]  # fmt: skip
        into += [
            Word(word.text.partition("=")[2], word.is_known)
            for word in command.arguments
            if word.text.startswith("--target-d")
        ]
        targets = into[-1:] or (words[-1:] if len(words) > 1 else [Word(".")])
        sources = [word for word in words if word not in targets] if into or len(words) > 1 else words
        for source in sources:
            leads = self._meant(source, command, is_named=True)
            if is_copy and not any(lead.whole in self._links for lead in leads):
                continue
            ends: set[str | None] = {lead.whole if lead.is_placed else None for lead in leads}
            if name == "ln" and source.is_known and not os.path.isabs(source.text):
                ends |= {os.path.join("\0", source.text)}  # seen from where the link is
            named = self._meant(targets[0], command, is_named=True)
            self._links.is_open |= name != "mv" and not all(place.is_placed for place in named)
            base = os.path.basename(source.text.rstrip("/"))
            for place in named:
                for at in (place.whole, f"{place.whole.rstrip('/')}/{base}") if base else (place.whole,):
                    seen_there = (end and end.replace("\0", os.path.dirname(at)) for end in ends)
                    self._links.add(at, seen_there, is_moved=name in ("mv", "mount"))


def find_own_home() -> str:
    return os.path.expanduser("~")


def strip_wide_ends(whole: str) -> str:
    """Return the folder of which a path means all that is in it, or the path; no link is followed."""
    whole = os.path.normpath(whole)
    while whole != "/" and is_wide(os.path.basename(whole)):
        whole = os.path.dirname(whole)
    return f"/{whole.lstrip('/')}"


def is_possible(text: str) -> bool:
    """Return whether there can be such a path at all."""
    return len(text) <= MAX_PATH and not is_no_path(text)
