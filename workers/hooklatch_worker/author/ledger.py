"""Accounts for the marks of a source: what was marked with @hook must be a hook, or is an error that says why not.

A mark belongs to the module whose own top level was running when it was made.  So a hook that a factory of another
module makes belongs to the file that called the factory, and one that was only imported to the file where it stands.

    `current` is set ──▶ the source is imported, each mark is noted ──▶ `close` ──▶ a further mark is an error
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from hooklatch_worker.author.failures import Author

if TYPE_CHECKING:
    from hooklatch_worker.author.marker import Marker

__all__ = ["Decorator", "Ledger", "Mark", "current", "expect", "note"]

CO_OPTIMIZED = 0x1  # of a function's code, not of a module's or a class's; as in inspect, which costs more to import
US = __name__.partition(".")[0] + "."  # the frames below which the user's own are


class Mark:
    """One use of @hook: what it marked, and the place in the module whose top level was running (`home`)."""

    def __init__(
        self, function: FunctionType, markers: tuple[Marker, ...], home: dict[str, Any] | None, file: str, line: int
    ) -> None:
        self.function = function
        self.markers = markers
        self.home = home
        self.file = file
        self.line = line

    @property
    def module(self) -> str:
        return str(self.home.get("__name__", "")) if self.home is not None else ""


class Decorator:
    """One `hook(...)`, which marks a function once it is applied to one, and the place where it was made."""

    def __init__(self, made: Callable[[Any], Any], home: dict[str, Any] | None, file: str, line: int) -> None:
        self._made = weakref.ref(made)
        self.is_applied = False
        self.home = home
        self.file = file
        self.line = line

    @property
    def is_lost(self) -> bool:
        """Nobody has applied it, and nobody can."""
        return not self.is_applied and self._made() is None


class Ledger:
    """The marks that were made while one source was imported."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._decorators: list[Decorator] = []
        self._mark_of: dict[int, Mark] = {}  # by the identity of a marker, which the mark keeps alive
        self._author: Author | None = None

    def note(self, function: FunctionType, markers: tuple[Marker, ...], frame: FrameType) -> None:
        """Take a mark that `frame` made.

        Raises:
            RuntimeError: the source is loaded, so that the mark would be of no effect.
        """
        mark = Mark(function, markers, *home_of(frame))
        if self._author is not None:
            if self._author.wrote(mark.file):
                name = function.__name__
                raise RuntimeError(
                    f"@hook on {name!r} came after the source was loaded, so it would never be asked; mark it at the"
                    f" top level of a module that the source imports at its own top level ({mark.file}:{mark.line})"
                )
            return  # a library's own, that was imported late
        self.marks.append(mark)
        self._mark_of.update((id(marker), mark) for marker in markers)

    def expect(self, made: Callable[[Any], Any], frame: FrameType) -> Decorator:
        """Take note of a decorator that `frame` made, and that is to be applied to a function."""
        decorator = Decorator(made, *home_of(frame))
        if self._author is None:
            self._decorators.append(decorator)
        return decorator

    def lost_decorators(self, namespace: Mapping[str, Any], author: Author) -> list[Decorator]:
        """Return what was made in a module, marked nothing and was thrown away: most likely an @ is missing."""
        return [one for one in self._decorators if one.is_lost and is_of(one, namespace, author)]

    def close(self, author: Author) -> None:
        """Take no more marks: the source's own would be lost."""
        self._author = author
        self._decorators = []
        self.marks, self._mark_of = [], {}

    def mark_of(self, marker: Marker) -> Mark | None:
        return self._mark_of.get(id(marker))

    def of(self, namespace: Mapping[str, Any], author: Author) -> list[Mark]:
        """Return the marks of one module; those of no module are the author's where he wrote them."""
        return [mark for mark in self.marks if is_of(mark, namespace, author)]


current: Ledger | None = None  # in a worker alone; elsewhere a mark changes its function and nothing else


def note(function: FunctionType, markers: tuple[Marker, ...]) -> None:
    """Take a mark that the caller's caller made."""
    if current is not None:
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # as logging and namedtuple find theirs
        current.note(function, markers, frame)


def expect(made: Callable[[Any], Any]) -> Decorator | None:
    """Take note of a decorator that the caller's caller made."""
    if current is None:
        return None
    return current.expect(made, sys._getframe(2))  # pyright: ignore[reportPrivateUsage]


def home_of(frame: FrameType) -> tuple[dict[str, Any] | None, str, int]:
    """Find the module whose top level is running, with its file and line (in a class, that of the class's body).

    Where there is none, as in a thread, it is the place of `frame` itself.
    """
    outer: FrameType | None = frame
    body: FrameType | None = None
    while outer is not None:
        names = outer.f_globals
        name = names.get("__name__")
        if isinstance(name, str) and name.startswith(US):
            break
        is_function = outer.f_code.co_flags & CO_OPTIMIZED
        if body is None or is_function or body.f_globals is not names:
            body = None if is_function else outer
        module = sys.modules.get(name) if outer.f_code.co_name == "<module>" and isinstance(name, str) else None
        if module is not None and vars(module) is names:
            file = names.get("__file__")
            place = body or outer
            return names, file if isinstance(file, str) else place.f_code.co_filename, place.f_lineno
        outer = outer.f_back
    return None, frame.f_code.co_filename, frame.f_lineno


def is_of(mark: Mark | Decorator, namespace: Mapping[str, Any], author: Author) -> bool:
    return mark.home is namespace or (mark.home is None and author.wrote(mark.file))


def why_lost(mark: Mark, namespace: Mapping[str, Any]) -> str:
    """Return why a mark of a module is no hook, and what to do."""
    function = mark.function
    name = function.__name__
    told = f"{name!r} is marked with @hook and would never be asked: "
    if name not in namespace:
        scope, _, _ = function.__qualname__.rpartition(".")
        if scope and not scope.endswith("<locals>"):
            return f"{told}it is in the class {scope.rpartition('.')[2]}; make it a function of the module"
        return (
            f"{told}no name of the module is bound to it; keep it at module level (NAME = ...), not in a list or a dict"
        )
    found: object = namespace[name]
    if isinstance(found, FunctionType) and are_twins(found, function):
        where = f"{os.path.basename(found.__code__.co_filename)}:{found.__code__.co_firstlineno}"
        return f"{told}a second function of that name ({where}) took its place; give each a name of its own"
    kind = type(found).__name__
    if kind in ("staticmethod", "classmethod"):
        return f"{told}it was made a {kind}; leave that away, it is a function of the module"
    if callable(found):
        return (
            f"{told}its name is bound to something else that does not carry the mark; a decorator above @hook must use"
            " functools.wraps, or stand below it"
        )
    return f"{told}its name is bound to {'None' if found is None else f'a {kind!r}'} by now"


def are_twins(found: FunctionType, lost: FunctionType) -> bool:
    """Return whether two functions were written under the same name in the same file."""
    is_same_file = found.__code__.co_filename == lost.__code__.co_filename
    return found is not lost and is_same_file and found.__qualname__ == lost.__qualname__


def first_and_others(marks: Iterable[Mark]) -> tuple[Mark, str]:
    """Return the mark that stands first, and words for how many more there are."""
    first, *others = sorted(marks, key=lambda mark: mark.line)
    return first, f" (and {len(others)} more)" if others else ""
