"""The ledger of every use of @hook in a source: each must yield a hook, or an error that says why it does not.

A mark belongs to the module whose top level is executing when it is made.  So a hook made by another module's factory
belongs to the file that called the factory, and an imported hook belongs to the file that defines it.

    `current` is set ──▶ the source is imported, each mark is recorded ──▶ `close` ──▶ further marks are errors
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from hooklatch_worker.author.failures import AuthorFrames

if TYPE_CHECKING:
    from hooklatch_worker.author.marker import MarkedEvent

__all__ = ["Decorator", "Ledger", "HookMark", "current", "expect_decorator", "note_mark"]

CO_OPTIMIZED = 0x1  # set for functions, not for modules or classes; from inspect, which is slow to import
US = __name__.partition(".")[0] + "."  # frames of this package, which end the user's part of the stack


class HookMark:
    """One use of @hook: the function, and the place in the module whose top level was executing (`home`)."""

    def __init__(
        self,
        function: FunctionType,
        markers: tuple[MarkedEvent, ...],
        home: dict[str, Any] | None,
        file: str,
        line: int,
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
    """One call of `hook(...)`, with its place; it marks a function once it is applied."""

    def __init__(self, made: Callable[[Any], Any], home: dict[str, Any] | None, file: str, line: int) -> None:
        self._made = weakref.ref(made)
        self.is_applied = False
        self.home = home
        self.file = file
        self.line = line

    @property
    def is_lost(self) -> bool:
        """Return whether it was discarded without being applied."""
        return not self.is_applied and self._made() is None


class Ledger:
    """The marks made while one source is imported."""

    def __init__(self) -> None:
        self.marks: list[HookMark] = []
        self._decorators: list[Decorator] = []
        self._mark_of: dict[int, HookMark] = {}  # by the id() of a marker, which the mark keeps alive
        self._author: AuthorFrames | None = None

    def note(self, function: FunctionType, markers: tuple[MarkedEvent, ...], frame: FrameType) -> None:
        """Record a mark made by `frame`.

        Raises:
            RuntimeError: the source is already loaded, so the mark would have no effect.
        """
        mark = HookMark(function, markers, *find_defining_module(frame))
        if self._author is not None:
            if self._author.wrote(mark.file):
                name = function.__name__
                raise RuntimeError(
                    f"@hook on {name!r} came after the source was loaded, so it would never be called; mark it at the"
                    f" top level of a module that the source imports at its own top level ({mark.file}:{mark.line})"
                )
            return  # of a library that was imported late
        self.marks.append(mark)
        self._mark_of.update((id(marker), mark) for marker in markers)

    def expect(self, made: Callable[[Any], Any], frame: FrameType) -> Decorator:
        """Record a decorator made by `frame`, which should be applied to a function."""
        decorator = Decorator(made, *find_defining_module(frame))
        if self._author is None:
            self._decorators.append(decorator)
        return decorator

    def lost_decorators(self, namespace: Mapping[str, Any], author: AuthorFrames) -> list[Decorator]:
        """Return decorators of a module that were discarded without marking anything: most likely an @ is missing."""
        return [
            decorator
            for decorator in self._decorators
            if decorator.is_lost and is_mark_of(decorator, namespace, author)
        ]

    def close(self, author: AuthorFrames) -> None:
        """Stop recording: from now on marks of the source itself are errors."""
        self._author = author
        self._decorators = []
        self.marks, self._mark_of = [], {}

    def mark_of(self, marker: MarkedEvent) -> HookMark | None:
        return self._mark_of.get(id(marker))

    def of(self, namespace: Mapping[str, Any], author: AuthorFrames) -> list[HookMark]:
        """Return the marks of one module, and those of no module if the author wrote them."""
        return [mark for mark in self.marks if is_mark_of(mark, namespace, author)]


current: Ledger | None = None  # set only in a worker; elsewhere a mark has no effect but on its function


def note_mark(function: FunctionType, markers: tuple[MarkedEvent, ...]) -> None:
    """Record a mark made by the caller's caller."""
    if current is not None:
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # as logging and namedtuple do
        current.note(function, markers, frame)


def expect_decorator(made: Callable[[Any], Any]) -> Decorator | None:
    """Record a decorator made by the caller's caller."""
    if current is None:
        return None
    return current.expect(made, sys._getframe(2))  # pyright: ignore[reportPrivateUsage]


def find_defining_module(frame: FrameType) -> tuple[dict[str, Any] | None, str, int]:
    """Return the module whose top level is executing, with file and line (within a class, a line of its body).

    If there is none, as in a thread, return the place of `frame` itself.
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


def is_mark_of(mark: HookMark | Decorator, namespace: Mapping[str, Any], author: AuthorFrames) -> bool:
    return mark.home is namespace or (mark.home is None and author.wrote(mark.file))


def explain_lost_mark(mark: HookMark, namespace: Mapping[str, Any]) -> str:
    """Return why a mark of a module yields no hook, and what to do."""
    function = mark.function
    name = function.__name__
    problem = f"{name!r} is marked with @hook but would never be called: "
    if name not in namespace:
        scope, _, _ = function.__qualname__.rpartition(".")
        if scope and not scope.endswith("<locals>"):
            return f"{problem}it is in the class {scope.rpartition('.')[2]}; make it a function of the module"
        return (
            f"{problem}no name of the module is bound to it; keep it at module level (NAME = ...), not in a list or a"
            " dict"
        )
    bound: object = namespace[name]
    if isinstance(bound, FunctionType) and are_twins(bound, function):
        where = f"{os.path.basename(bound.__code__.co_filename)}:{bound.__code__.co_firstlineno}"
        return f"{problem}a second function with that name ({where}) replaced it; give each a name of its own"
    kind = type(bound).__name__
    if kind in ("staticmethod", "classmethod"):
        return f"{problem}it was made a {kind}; remove that, it is a function of the module"
    if callable(bound):
        return (
            f"{problem}its name is bound to something else that does not carry the mark; a decorator above @hook must"
            " use functools.wraps, or be moved below it"
        )
    return f"{problem}its name is now bound to {'None' if bound is None else f'a {kind!r}'}"


def are_twins(bound: FunctionType, lost: FunctionType) -> bool:
    """Return whether two functions were defined with the same name in the same file."""
    is_same_file = bound.__code__.co_filename == lost.__code__.co_filename
    return bound is not lost and is_same_file and bound.__qualname__ == lost.__qualname__


def summarize_marks(marks: Iterable[HookMark]) -> tuple[HookMark, str]:
    """Return the first mark by line, and a phrase for how many more there are."""
    first, *others = sorted(marks, key=lambda mark: mark.line)
    return first, f" (and {len(others)} more)" if others else ""
