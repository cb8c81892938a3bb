"""A TOML file with the line of each table and key.  Knows TOML; does not know our keys, opens no file.

The parser keeps no positions, so headers and keys are searched for in the lines.  A line is for the reader of a
diagnostic alone.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

import msgspec

from hooklatch.core.tables import InvalidTableError, Path, read_table
from hooklatch_worker.author.failures import clip_error_text, suggest_whole_save

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReportedDiagnostic

__all__ = ["ConfigError", "Diagnostic", "TomlDocument", "check_brackets", "decode_toml_text"]

T = TypeVar("T")
HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
NAME = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")

JSON = (
    "it is JSON, and a .toml file is read as TOML: write it as TOML, or if it is the settings file of another system"
    " put it into hooks.d as NAME.json"
)


class Diagnostic(msgspec.Struct, frozen=True):
    """Something wrong in a file: its place, and a text with the remedy.  `is_red` if it makes gates deny."""

    file: str
    line: int
    message: str
    is_red: bool = True

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return self.message if self.message.startswith(place) else f"{place}: {self.message}"

    def describe(self) -> ReportedDiagnostic:
        """Return it as answers report it."""
        return {"file": self.file, "line": self.line, "message": self.message, "is_red": self.is_red}


class ConfigError(Exception):
    """A file is not accepted."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


class TomlDocument:
    """One parsed file.

    Raises:
        ConfigError: the file is not TOML.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        text = decode_toml_text(path, data)
        if text.lstrip()[:1] == "{":  # as no TOML begins
            raise ConfigError(Diagnostic(path, 1, JSON))
        try:
            self.content: dict[str, Any] = tomllib.loads(text)
        except RecursionError:
            raise ConfigError(Diagnostic(path, 0, "not TOML: it is nested too deep")) from None
        except tomllib.TOMLDecodeError as error:
            match = re.search(r"line (\d+)", str(error))
            line = int(match[1]) if match else text.count("\n") + 1
            hint = suggest_whole_save(path, is_at_end=line > text.rstrip().count("\n"))
            raise ConfigError(Diagnostic(path, line, f"not TOML: {clip_error_text(str(error))}{hint}")) from None
        except ValueError:  # what int() raises for a number with more digits than its limit
            raise ConfigError(Diagnostic(path, 0, "not TOML: a number has thousands of digits")) from None
        self._lines = text.splitlines()
        self._headers = find_headers(self._lines)

    def read(self, into: type[T], apart: Collection[str] = ()) -> T:
        """Convert the whole file without the tables `apart`.

        Raises:
            ConfigError: the file has an error; its diagnostic has the line.
        """
        with self.at():
            for name, hint in get_type_hints(into).items():
                check_brackets(name, self.content.get(name), hint)
            return read_table({name: table for name, table in self.content.items() if name not in apart}, into, "file")

    @contextmanager
    def at(self, *path: str | int) -> Generator[None]:
        """Turn an error of the block into a diagnostic for the table at a path, with its line in the file."""
        try:
            yield
        except InvalidTableError as error:
            line = self.line_of((*path, *error.path))
            raise ConfigError(Diagnostic(self.path, line, str(error))) from None

    def line_of(self, path: Path) -> int:
        """Return the line of a table or a key, or else of the table around it; 0 if neither is found."""
        end = len(path)
        while path[:end] not in self._headers and end:
            end -= 1
        first = self._headers.get(path[:end], 0)
        keys = [part for part in path[end:] if isinstance(part, str)]
        if not keys:
            return first
        inside = next((line for line in self._headers.values() if line > first), len(self._lines) + 1)
        for key in reversed(keys):
            pattern = re.compile(rf"""(?!\s*#)(.*[\s{{,.\[])?["']?{re.escape(key)}["']?\s*[=.\]]""")
            for number in range(first + 1, inside):
                if pattern.match(self._lines[number - 1]):
                    return number
        below = (line for header, line in self._headers.items() if header[: len(path)] == path)
        return next(below, first)


def check_brackets(name: str, table: object, hint: Any) -> None:
    if table is None or isinstance(table, list if get_origin(hint) is list else dict):
        return
    if get_origin(hint) is list:
        raise InvalidTableError(f"write [[{name}]], with two brackets, for each {name}", (name,))
    raise InvalidTableError(f"write [{name}{'.NAME' if get_origin(hint) is dict else ''}], with one bracket", (name,))


def find_headers(lines: list[str]) -> dict[Path, int]:
    """Return the line of each table's header, by its path; each [[hook]] also has its number."""
    lines_by_path: dict[Path, int] = {}
    counts = Counter[str]()
    for number, line in enumerate(lines, 1):
        if (header := HEADER.match(line)) is None:
            continue
        root, *inner_names = [name.strip("\"'") for name in NAME.findall(header[2])] or [""]
        if header[1] == "[[" and not inner_names:
            counts[root] += 1
        entry = (root, counts[root] - 1) if counts[root] else (root,)
        lines_by_path.setdefault((*entry, *inner_names), number)
    return lines_by_path


def decode_toml_text(path: str, data: bytes) -> str:
    """Return a file's text.

    Raises:
        ConfigError: the file is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(Diagnostic(path, line, f"not UTF-8 ({error.reason}); save the file as UTF-8")) from None
