"""Reads hooks.toml and hooks.d/*.toml into frozen data.  Knows TOML and its tables; opens no file, runs nothing.

A file is good as a whole or not at all, with one exception: a hook whose matcher alone is bad stays, marked.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from hooklatch.core.hooks.builtin_sources import SHELL
from hooklatch.core.hooks.catalogue import Catalogue, InvalidEventError
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition, refuse_unknown_keys
from hooklatch.processes.pool import PoolLimits
from hooklatch.service.config.main_tables import MAIN_TABLES, MainTables, read_main_tables
from hooklatch_worker.author.failures import clipped
from hooklatch_worker.wire import ISOLATION_LEVELS, Source, WorkerLimits

__all__ = [
    "LINE", "PROJECT_TABLES", "TABLES", "ConfigError", "Diagnostic", "FileConfig", "SourceEntry", "place_of",
    "read_config", "source_of",
]  # fmt: skip

T = TypeVar("T")
TABLES = ("source", "hook", "event", "dialect", "workers")  # of any file of the user's
PROJECT_TABLES = ("source", "hook")  # of a project's: it changes nothing that other sessions see
HEADER = re.compile(r"\s*\[\[\s*(\w+)\s*\]\]|\s*\[\s*([\w.-]+)\s*\]")
LINE = "__line__"  # where a table that is checked later begins
WORKER_KEYS = {
    "workers": int, "calls": int, "age": float, "memory_mib": int, "total_mib": int, "processes": int,
    "open_files": int, "file_mib": int,
}  # fmt: skip
MIN_WORKERS, MAX_WORKERS = 2, 64
MAX_LIMIT = 2**31  # of any of [workers]; far beyond what anybody means, and a number that still travels


class Diagnostic(msgspec.Struct, frozen=True):
    """Something wrong in a file: where, what, and what to do.  `is_red` when it makes gates deny."""

    file: str
    line: int
    message: str
    is_red: bool = True

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return self.message if self.message.startswith(place) else f"{place}: {self.message}"


class ConfigError(Exception):
    """A file that is not accepted."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


class SourceEntry(msgspec.Struct, frozen=True):
    """A [[source]] table: every function marked with @hook in it."""

    kind: str
    location: str
    workers: int | None = None
    isolation: str | None = None


class FileConfig(msgspec.Struct, frozen=True):
    """What one file declares, and the sha256 of the bytes that said so (none of a Python file: its source has it).

    `diagnostics` tell of what is in the file and could not be taken, where the rest of it could.
    """

    path: str
    digest: str = ""
    sources: list[SourceEntry] = []
    hooks: list[HookDefinition] = []
    events: list[dict[str, Any]] = []
    dialects: list[dict[str, Any]] = []
    limits: PoolLimits | None = None
    main: MainTables = MainTables()
    diagnostics: list[Diagnostic] = []


def source_of(run: str, folder: str) -> tuple[Source, str]:
    """Split a `run` into its source and its function; a path is relative to `folder`."""
    place, _, function = run.rpartition(":")
    if place.endswith(".py") or "/" in place:
        path = os.path.normpath(os.path.join(folder, os.path.expanduser(place)))
        return Source("file", path), function
    return Source("module", place), function


def place_of(definition: HookDefinition, folder: str) -> tuple[Source, str]:
    """Return the source and the function that a definition's target stands for; a served hook has none."""
    if definition.shell is not None:
        return SHELL.source, SHELL.function
    return source_of(definition.run or "", folder)


def read_config(path: str, data: bytes, tables: tuple[str, ...] = (*TABLES, *MAIN_TABLES)) -> FileConfig:
    """Read one file's bytes; `tables` are those that it may hold.

    Raises:
        ConfigError: what is wrong, with its line.
    """
    text = decode(path, data)
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(Diagnostic(path, 0, "not TOML: it is nested too deep")) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise ConfigError(Diagnostic(path, int(found[1]) if found else 0, f"not TOML: {clipped(str(error))}")) from None
    except ValueError:  # what int() says of a number of more digits than it takes
        raise ConfigError(Diagnostic(path, 0, "not TOML: a number has thousands of digits")) from None
    return Reader(path, text).read(document, tables)


def decode(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(Diagnostic(path, line, f"not UTF-8 ({error.reason}); save the file as UTF-8")) from None


class Reader:
    """Turns one parsed document into a FileConfig, and every complaint into a place in the text."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._folder = os.path.dirname(path)
        self._headers: dict[str, list[int]] = {}  # of tables with two brackets
        self._tables_once: dict[str, int] = {}  # and with one
        for number, line in enumerate(self._lines, 1):
            if (named := HEADER.match(line)) is None:
                continue
            if named[1] is not None:
                self._headers.setdefault(named[1], []).append(number)
            else:
                self._tables_once.setdefault(named[2], number)

    def read(self, document: Mapping[str, Any], tables: tuple[str, ...]) -> FileConfig:
        self._at(
            0,
            lambda: refuse_tables(document, tables),
            document,
        )
        return FileConfig(
            path=self._path,
            sources=[self._source(i, entry) for i, entry in enumerate(self._tables(document, "source"))],
            hooks=[hook for i, entry in enumerate(self._tables(document, "hook")) for hook in self._hook(i, entry)],
            events=[self._event(i, entry) for i, entry in enumerate(self._tables(document, "event"))],
            dialects=[self._dialect(i, entry) for i, entry in enumerate(self._tables(document, "dialect"))],
            limits=self._limits(document["workers"]) if "workers" in document else None,
            main=read_main_tables(document, self._tables, self._checked, self._header, self._folder),
        )

    def _checked(self, table: str, index: int | None, entry: object, read: Callable[[], T]) -> T:
        """Read one of the main file's tables; `index` counts those with two brackets."""
        line = self._tables_once.get(table, 0) if index is None else self._header(table, index)
        return self._at(line, read, entry)

    def _tables(self, document: Mapping[str, Any], key: str) -> list[Any]:
        tables: list[Any] | object = document.get(key, [])
        if not isinstance(tables, list):
            raise self._error(self._find(rf"\[?\s*{key}\b"), f"write [[{key}]], with two brackets, for each {key}")
        return [*cast("Iterable[Any]", tables)]

    def _hook(self, index: int, entry: object) -> list[HookDefinition]:
        line = self._header("hook", index)

        def read() -> list[HookDefinition]:
            if isinstance(entry, Mapping) and "served" in cast("Mapping[str, Any]", entry):
                raise InvalidHookError("", "served hooks are registered by a client, not in a file")
            return read_definition(entry, is_lenient=True)  # pyright: ignore[reportUnknownArgumentType]  # TOML

        return [msgspec.structs.replace(hook, line=line) for hook in self._at(line, read, entry)]

    def _source(self, index: int, entry: object) -> SourceEntry:
        line = self._header("source", index)

        def read() -> SourceEntry:
            if not isinstance(entry, Mapping):
                raise InvalidHookError("", "a source is a table")
            table = cast("Mapping[str, Any]", entry)
            refuse_unknown_keys(table, ("path", "module", "workers", "isolation"), "a source")
            path, module = table.get("path"), table.get("module")
            if (path is None) == (module is None) or not isinstance(path or module, str):
                raise InvalidHookError("", 'a source needs path = "guards.py" or module = "package.module"')
            workers = table.get("workers")
            if workers is not None:
                check_workers(workers)
            isolation = table.get("isolation")
            if isolation is not None and isolation not in ISOLATION_LEVELS:
                levels = ", ".join(map(repr, ISOLATION_LEVELS))
                raise InvalidHookError("", f"isolation is one of {levels}, not {isolation!r}")
            if module is not None:
                return SourceEntry("module", str(module), workers, isolation)
            full = os.path.normpath(os.path.join(self._folder, os.path.expanduser(str(path))))
            return SourceEntry("file", full, workers, isolation)

        return self._at(line, read, entry)

    def _event(self, index: int, entry: object) -> dict[str, Any]:
        line = self._header("event", index)
        if not isinstance(entry, Mapping) or not isinstance(cast("Mapping[str, Any]", entry).get("name"), str):
            raise self._error(line, 'an event needs name = "a_name"')
        event = dict(cast("Mapping[str, Any]", entry))
        self._at(line, lambda: Catalogue.standard().with_custom([event]), event)
        return event

    def _dialect(self, index: int, entry: object) -> dict[str, Any]:
        line = self._header("dialect", index)
        if not isinstance(entry, Mapping):
            raise self._error(line, 'a dialect needs name = "a-name"')
        return {**cast("Mapping[str, Any]", entry), LINE: line}

    def _limits(self, table: object) -> PoolLimits:
        line = self._find(r"\s*\[+\s*workers\s*\]")

        def read() -> PoolLimits:
            if not isinstance(table, Mapping):
                raise InvalidHookError("", "write [workers], with one bracket")
            values = cast("Mapping[str, Any]", table)
            refuse_unknown_keys(values, WORKER_KEYS, "[workers]")
            for key, value in values.items():
                check_limit(key, value)
            check_workers(values.get("workers", MIN_WORKERS))
            default = PoolLimits()
            return PoolLimits(
                workers=int(values.get("workers", default.workers)),
                calls=int(values.get("calls", default.calls)),
                age=float(values.get("age", default.age)),
                resident_bytes=int(values["memory_mib"]) * 2**20 if "memory_mib" in values else default.resident_bytes,
                total_bytes=int(values["total_mib"]) * 2**20 if "total_mib" in values else default.total_bytes,
                processes=int(values.get("processes", default.processes)),
                worker=WorkerLimits(
                    open_files=int(values.get("open_files", default.worker.open_files)),
                    file_bytes=int(values["file_mib"]) * 2**20 if "file_mib" in values else default.worker.file_bytes,
                ),
            )

        return self._at(line, read, table)

    def _at(self, line: int, read: Callable[[], T], table: object) -> T:
        try:
            return read()
        except (InvalidHookError, InvalidEventError) as error:
            raise self._error(self._line_of(str(error), line, table), str(error)) from None

    def _line_of(self, message: str, line: int, table: object) -> int:
        """Point at the key that the message names, when it stands below the table's header."""
        named = re.search(r"(?:no|unknown) key '([^']+)'", message) or re.search(r"(?:: |^)(\w+) is ", message)
        if named is None or not isinstance(table, Mapping):
            return line
        return self._find(rf"\s*(\[+\s*)?{re.escape(named[1])}\b", after=line + 1) or line

    def _error(self, line: int, message: str) -> ConfigError:
        return ConfigError(Diagnostic(self._path, line, message))

    def _header(self, key: str, index: int) -> int:
        """Return the line of the index-th [[key]] header; tomllib keeps no positions."""
        found = self._headers.get(key, ())
        return found[index] if index < len(found) else 0

    def _find(self, pattern: str, *, after: int = 0) -> int:
        compiled = re.compile(pattern)
        for number, line in enumerate(self._lines, 1):
            if number >= after and compiled.match(line):
                return number
        return 0


def refuse_tables(document: Iterable[str], tables: tuple[str, ...]) -> None:
    for table in document:
        if table in (*TABLES, *MAIN_TABLES) and table not in tables:
            raise InvalidHookError("", f"the file has no key {table!r}; it belongs in the user's main hooks.toml")
    refuse_unknown_keys(document, tables, "the file")


def check_limit(key: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidHookError("", f"{key} is a number over 0, not {value!r}")
    if WORKER_KEYS[key] is int and isinstance(value, float):
        raise InvalidHookError("", f"{key} is a whole number, not {value!r}")
    if value > MAX_LIMIT:
        raise InvalidHookError("", f"{key} is at most {MAX_LIMIT}, not {value!r}")


def check_workers(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_WORKERS <= value <= MAX_WORKERS:
        raise InvalidHookError(
            "",
            f"workers is a whole number from {MIN_WORKERS} to {MAX_WORKERS} (one is kept free of notifications),"
            f" not {value!r}",
        )
