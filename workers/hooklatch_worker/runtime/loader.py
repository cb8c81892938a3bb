"""The loader of one source of hooks.  It runs only in workers, since it executes users' code."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, cast

from hooklatch_worker.author import ledger
from hooklatch_worker.author.failures import (
    AuthorFrames,
    find_innermost,
    format_exception,
    make_printable,
    suggest_whole_save,
)
from hooklatch_worker.author.ledger import HookMark, Ledger
from hooklatch_worker.author.marker import MarkedEvent
from hooklatch_worker.runtime.build import ImportedBuild
from hooklatch_worker.runtime.importers import cache_source_lines, install_importer
from hooklatch_worker.sandbox import environment
from hooklatch_worker.wire import ForeignHook, HookDeclaration, Source

__all__ = ["SourceError", "ImportedSource", "check_refusals", "suggest_package", "load_source"]

OWN = frozenset({"hooklatch", "hooklatch_worker"})
MAX_PACKAGE = 100  # characters of a package's name in a hint
CO_COROUTINE = 0x80  # from inspect, which is slow to import


class SourceError(Exception):
    """A source could not be imported; the text names the problem, the file and the line.

    `is_outside`: it tried to run a file outside of its build.
    """

    def __init__(self, message: str, file: str, line: int, *, is_outside: bool = False) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.is_outside = is_outside
        self.message = message
        self.file = file
        self.line = line


class ImportedSource:
    """An imported source: its functions by name, those marked as hooks, and the build that its files come from.

    A module of a package has no build; its `files` are those of its directory.

    Raises:
        SourceError: a marked function is not a hook, or names a file that is not there.
    """

    def __init__(
        self, module: types.ModuleType, build: ImportedBuild | None, before: frozenset[str], marks: Ledger
    ) -> None:
        self.path = module.__file__ or module.__name__
        self._module = module.__name__
        self._marks = marks
        self._author = AuthorFrames(self.path)
        self.functions: dict[str, Callable[..., Any]] = {
            name: value for name, value in vars(module).items() if callable(value) and not isinstance(value, type)
        }
        marked = [
            (name, marker) for name, function in self.functions.items() for marker in list_marked_events(function)
        ]
        self._check_lost_marks(module, marked)
        self.hooks = [
            HookDeclaration(name, self._line_of(name, marker, module), marker)
            for name, marker in marked
            if self._is_own(marker, module)
        ]
        self.hooks.sort(key=lambda declaration: declaration.line)
        self.elsewhere = self._list_foreign_hooks(module, marked)
        self.build = build
        self.files = [] if build is not None else sorted(list_module_files(os.path.dirname(self.path), before))
        for declaration in self.hooks:
            self._check_files(declaration)
        marks.close(self._author)

    def _check_files(self, declaration: HookDeclaration) -> None:
        for name in declaration.marker.files:
            path = os.path.join(os.path.dirname(self.path), name)
            if self.build is None:
                text = f"files names {name!r}, but this is an installed module: put its data into the package"
                raise SourceError(text, self.path, declaration.line)
            if path in self.build.unread:
                text = f"files of {self.path}:{declaration.line} names it: {self.build.unread[path]}"
                raise SourceError(text, path, 0)  # at that file, so that the daemon watches it
            if path not in self.build.names:
                text = f'files names {name!r}: write the names there as literals, files=["rules.json"]'
                raise SourceError(text, self.path, declaration.line)

    def _check_lost_marks(self, module: types.ModuleType, marked: list[tuple[str, MarkedEvent]]) -> None:
        """Reject a source with a lost mark, since its author believes that the function guards."""
        for decorator in self._marks.lost_decorators(vars(module), self._author):
            text = "hook(...) marks no function here, so it has no effect; write @hook(...) above a def"
            raise SourceError(text, decorator.file, decorator.line)
        found_markers = {id(marker) for _, marker in marked}
        lost_marks = [
            mark
            for mark in self._marks.of(vars(module), self._author)
            if not found_markers.issuperset(map(id, mark.markers))
        ]
        if lost_marks:
            first, others = ledger.summarize_marks(lost_marks)
            raise SourceError(ledger.explain_lost_mark(first, vars(module)) + others, first.file, first.line)

    def _is_own(self, marker: MarkedEvent, module: types.ModuleType) -> bool:
        mark = self._marks.mark_of(marker)
        return mark is None or ledger.is_mark_of(mark, vars(module), self._author)

    def _line_of(self, name: str, marker: MarkedEvent, module: types.ModuleType) -> int:
        """Return the line where a hook is defined, or where it was composed of functions from elsewhere."""
        mark = self._marks.mark_of(marker)
        return find_definition_line(self.functions[name], module) or (mark.line if mark is not None else 0)

    def _list_foreign_hooks(self, module: types.ModuleType, marked: list[tuple[str, MarkedEvent]]) -> list[ForeignHook]:
        marks = [mark for mark in self._marks.marks if self._author.wrote(mark.file)]
        if not self.hooks:  # then the author may have meant the hooks that it imports by name
            bound = {id(marker) for _, marker in marked}
            marks += [mark for mark in self._marks.marks if any(id(marker) in bound for marker in mark.markers)]
        foreign = [mark for mark in marks if not ledger.is_mark_of(mark, vars(module), self._author)]
        return [describe_foreign_hook(mark) for mark in dict.fromkeys(foreign)]

    @property
    def runtimes(self) -> set[str]:
        """Return the async runtimes of its hooks; without any, those of functions that a file may name."""
        if self.hooks:
            return {hook.marker.runtime for hook in self.hooks if is_async(self.functions[hook.function])}
        own = (function for function in self.functions.values() if function.__module__ == self._module)
        return {"trio" for function in own if is_async(function)}


def load_source(source: Source, build: ImportedBuild | None, before: frozenset[str]) -> ImportedSource:
    """Import a source, from its `build` if it is a file; `before` are the modules of every worker.

    Raises:
        SourceError: it is missing, or its code failed.
    """
    marks = ledger.current = Ledger()
    try:
        module = importlib.import_module(source.location) if build is None else import_file(source.location, build)
        return ImportedSource(module, build, before, marks)
    except SourceError:
        raise
    except BaseException as error:  # includes SystemExit and KeyboardInterrupt from a module's body
        if build is not None:
            check_refusals(build.refusals, source)
        path = source.location if source.kind == "file" else find_failed_file(error) or source.location
        raise make_source_error(error, path) from error


def check_refusals(refusals: Iterable[str], source: Source) -> None:
    """Raise the first refusal, even if the source has caught the ImportError."""
    for text in refusals:
        raise SourceError(text, source.location, 0, is_outside=True)


def import_file(path: str, build: ImportedBuild) -> types.ModuleType:
    data = build.files[path]
    cache_source_lines(path, data)
    code = compile(data, path, "exec", dont_inherit=True)
    module = types.ModuleType(make_module_name(path))
    module.__file__ = path
    sys.modules[module.__name__] = module
    install_importer(build)
    sys.path.insert(0, os.path.dirname(path))
    exec(code, module.__dict__)
    return module


def make_module_name(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    is_taken = stem in sys.modules or stem in sys.stdlib_module_names
    return f"hooks_{stem}" if is_taken else stem


def list_marked_events(function: Callable[..., Any]) -> tuple[MarkedEvent, ...]:
    try:
        markers = getattr(function, "__hooklatch_markers__", ())
    except Exception:  # a proxy object may raise anything; if its marks are lost, `_check_lost_marks` finds them
        return ()
    if not isinstance(markers, tuple):
        return ()
    return tuple(marker for marker in cast("tuple[object, ...]", markers) if isinstance(marker, MarkedEvent))


def describe_foreign_hook(mark: HookMark) -> ForeignHook:
    return ForeignHook(mark.function.__name__, mark.module, mark.file, mark.line)


def is_async(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    return isinstance(code, types.CodeType) and bool(code.co_flags & CO_COROUTINE)


def find_definition_line(function: Callable[..., Any], module: types.ModuleType) -> int:
    """Return a function's line if this module defines it; 0 if it was composed elsewhere."""
    code = getattr(function, "__code__", None)
    is_here = isinstance(code, types.CodeType) and code.co_filename == module.__file__
    return code.co_firstlineno if is_here and isinstance(code, types.CodeType) else 0


def list_module_files(folder: str, before: frozenset[str]) -> set[str]:
    prefix = os.path.join(os.path.realpath(folder), "")
    files: set[str] = set()
    for name in frozenset(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if isinstance(file, str) and os.path.realpath(file).startswith(prefix):
            files.add(file)
    return files


def find_failed_file(error: BaseException) -> str | None:
    """Return the file of the module that failed to import: the first one run by the import system."""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in (__file__, importlib.__file__) and not file.startswith("<frozen "):
            return file
        trace = trace.tb_next
    return None


def make_source_error(error: BaseException, path: str) -> SourceError:
    """Name the file and line to look at: that of the syntax error, or the author's innermost line."""
    if isinstance(error, SyntaxError) and error.filename:
        lines = "".join(linecache.getlines(error.filename)).rstrip().count("\n") + 1
        is_open = error.msg.endswith("was never closed") or error.msg.startswith("unterminated triple-quoted")
        is_at_end = is_open or (error.lineno or 0) >= lines
        hint = suggest_whole_save(error.filename, is_at_end=is_at_end)
        return SourceError(f"SyntaxError: {error.msg}{hint}", error.filename, error.lineno or 0)
    file, line = AuthorFrames(path).place_of(error) or (path, 0)
    return SourceError(f"{type(error).__name__}: {format_exception(error)}{suggest_package(error)}", file, line)


def suggest_package(error: BaseException) -> str:
    """Return the remedy for a package that the environment lacks, or a name that ours has not, "" for other errors.

    The name of the package on an index may differ from the module's.
    """
    error = find_innermost(error)
    try:
        name = error.name if isinstance(error, ImportError) else None
        is_missing = isinstance(error, ModuleNotFoundError)
    except BaseException:  # the class of the error may be the author's
        return ""
    if type(name) is not str or not name:
        return ""
    if name.partition(".")[0] in OWN:
        return "; a guard begins with: from hooklatch import hook, deny, ask, allow"
    if not is_missing:
        return ""
    package = make_printable(name.partition(".")[0][:MAX_PACKAGE])
    if environment.is_entered():
        return (
            f'; its environment {sys.prefix} lacks it: add the package that has it, such as "{package}", to the'
            " dependencies in the file's # /// script block, or install it into the environment that you named"
        )
    return (
        f'; if a package has it, put into the file: # /// script | # dependencies = ["{package}"] | # ///, each on'
        ' a line of its own, or name an interpreter that has it: python = ".venv/bin/python" in its [[source]]'
    )
