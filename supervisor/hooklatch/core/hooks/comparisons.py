"""The comparisons of a condition: with a path, a command, a number, a text.  Knows values; no payload, no event.

Each comparison returns whether the value *may* match.  An undecidable value may match, so the guard is called and looks
for itself: a path in an unknown user's home, a command that cannot be parsed or is decided when it runs, a text that is
too long.  For this reason there is no negation: it would turn "undecidable" into "the guard is not called".

Nothing is looked up: a path is compared as it is written, links are not followed.
"""

from __future__ import annotations

import logging
import posixpath
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import isfinite
from typing import Final, NamedTuple, Protocol, TypeAlias

import re2

from hooklatch.core.hooks.matchers import CompiledPattern, compile_re2, translate_glob, translate_glob_set
from hooklatch.core.text import is_unicode
from hooklatch.shelltext.command import Command, UnreadableCommandError
from hooklatch.shelltext.commands import commands
from hooklatch.shelltext.prefixes import is_meant
from hooklatch.shelltext.reading.programs import normalize_program

__all__ = [
    "KINDS", "MAX_COMMAND", "MAX_STEPS", "NUMBER", "Comparison", "ComparisonError", "WrongTypeError",
    "make_comparison", "read_commands",
]  # fmt: skip

logger = logging.getLogger("hooklatch.conditions")
MAX_PATTERN: Final = 1000  # characters; a path has at most 4096, and is not written by hand
# Characters that are parsed, of one payload: 4 us each, 20 at worst, in which the daemon decides nothing else.
MAX_COMMAND: Final = 2048
MAX_PATH: Final = 4096  # characters; the kernel takes no longer ones
MAX_STEPS: Final = 10**8  # of RE2, 5 ns each at worst, in all comparisons with one payload
IGNORED: Final = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
ELSEWHERE: Final = ("/proc/", "/dev/fd/")  # where every name is a link
HOMES: Final = ("~", "$HOME", "${HOME}")  # the ways to write the home folder
# Characters that would belong to a name here, but mean something else elsewhere; and what to write instead.
MISREAD: Final[Mapping[str, str]] = {
    "{": "does not begin a choice here: write a list of paths, or [{] for the character",
    ",": "does not separate paths here: write a list of paths, or [,] for the character",
    "\\": "does not escape here: write [*], [?] or [[] for these characters, and / between folders",
    "$HOME": "is not expanded here: write ~",
    "://": "is part of a URL, which is not a path: write the path alone",
}
NUMBER: Final = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}


class ComparisonError(ValueError):
    """A comparison that is not valid; the text says what to write instead."""


class WrongTypeError(ValueError):
    """A value of another type than a comparison needs; the text names the needed type."""


class ComparisonContext(Protocol):
    """The context of a comparison: the agent's folder, commands that are parsed already, and the remaining budget."""

    @property
    def folder(self) -> str | None: ...
    def parsed_commands(self, text: str) -> list[Command] | None: ...
    def visible_text(self, text: str) -> str | None: ...
    def spend(self, steps: int) -> bool: ...


Compare: TypeAlias = Callable[[object, ComparisonContext], bool]


class Comparison(NamedTuple):
    """A comparison with one expected value; `may_hold` raises `WrongTypeError` for a value of another type."""

    text: str
    may_hold: Compare
    joins: bool = False  # whether words in a list are one value, too: a command may be given as ["git", "push"]


def make_comparison(kind: str, expected: object) -> Comparison:
    """Return the comparison of a kind with one expected value.

    Raises:
        ComparisonError: there is no such kind, or it does not take such a value.
    """
    return KINDS[kind](expected)


def require_text(expected: object, label: str) -> str:
    if not isinstance(expected, str) or not expected.strip():
        raise ComparisonError(f"{label} is a text that is not empty, not {expected!r:.80}")
    if len(expected) > MAX_PATTERN:
        raise ComparisonError(f"{label} has at most {MAX_PATTERN} characters, not {len(expected)}")
    if not is_unicode(expected):
        raise ComparisonError(f"{label} holds characters that are not valid Unicode: {expected!r:.80}")
    return expected


def format_compared_value(value: object) -> str:
    if not isinstance(value, str):
        raise WrongTypeError("is not a text")
    return value


# -- equality, numbers, texts ----------------------------------------------------------------------------------------


def compare_equal(expected: object) -> Comparison:
    if isinstance(expected, str) and len(expected) > MAX_PATTERN:
        raise ComparisonError(f"a value has at most {MAX_PATTERN} characters, not {len(expected)}")
    if not isinstance(expected, str | bool | int | float) or (isinstance(expected, float) and not isfinite(expected)):
        raise ComparisonError(f"a value is a text, a number, true or false, not {expected!r:.80}")
    kind = name_json_type(expected)

    def equals(value: object, _: ComparisonContext) -> bool:
        if name_json_type(value) != kind:
            raise WrongTypeError(f"is not {kind}" if kind == "true or false" else f"is not a {kind}")
        return value == expected

    return Comparison(repr(expected) if isinstance(expected, str) else str(expected).lower(), equals)


def name_json_type(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else ""


def compare_number(expected: object) -> Comparison:
    match = NUMBER.fullmatch(expected.strip()) if isinstance(expected, str) and len(expected) <= MAX_PATTERN else None
    if match is None:
        raise ComparisonError(f'a number is compared as ">= 100", with <, <=, > or >=, not {expected!r:.80}')
    order, limit = ORDERS[match[1]], float(match[2]) if "." in match[2] else int(match[2])
    if isinstance(limit, float) and not isfinite(limit):
        raise ComparisonError(f"{match[2]:.20}… is larger than any number with a point that a payload can have")

    def compares(value: object, _: ComparisonContext) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongTypeError("is not a number")
        return order(value, limit)

    return Comparison(f"{match[1]} {match[2]}", compares)


def compare_glob(expected: object) -> Comparison:
    pattern = require_text(expected, "a glob")
    compiled = compile_re2(translate_glob(pattern))

    def matches(value: object, context: ComparisonContext) -> bool:
        return search_pattern(compiled, format_compared_value(value), context)

    return Comparison(f"glob {pattern}", matches)


def search_pattern(compiled: CompiledPattern, text: str, context: ComparisonContext) -> bool:
    return not context.spend(len(text) * compiled.programsize) or compiled.fullmatch(text) is not None


# -- paths -----------------------------------------------------------------------------------------------------------


def compare_path(expected: object) -> Comparison:
    pattern = normalize_path_text(require_text(expected, "a path")).rstrip("/") or "/"
    for mark, instead in MISREAD.items():
        if mark in pattern:
            raise ComparisonError(f"{mark} {instead}, so no path would be {pattern!r}")
    if pattern != pattern.strip():
        raise ComparisonError(f"{pattern!r} begins or ends with a space, which paths do not; remove it")
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        raise ComparisonError(f"{pattern!r} is in the home of another user, which is not looked up; write the path")
    if pattern.lstrip().startswith("!"):
        raise ComparisonError(f"{pattern!r} would be a name, since there is no negation; decide in the hook instead")
    compile_path_pattern(pattern, "/")  # raises for a bad pattern; any folder does

    def matches(value: object, context: ComparisonContext) -> bool:
        return may_be(format_compared_value(value), pattern, context)

    return Comparison(f"path {pattern}", matches)


@cache
def find_home() -> str:
    """Return the home of this process's user, who is the agent's user too."""
    return normalize_path_text(posixpath.expanduser("~"))


def normalize_path_text(text: str) -> str:
    """Return one spelling for all texts that a file system may take for one name."""
    return unicodedata.normalize("NFC", text.translate(IGNORED))


def may_be(value: str, pattern: str, context: ComparisonContext) -> bool:
    """Return whether a path may match the pattern, or be below a folder that does."""
    written, folder = list_spellings(value), context.folder
    if not written:
        return True
    is_anchored = "/" in pattern or pattern in ("~", ".", "..")
    if folder is None and is_anchored and any(not spelling.startswith("/") for spelling in written):
        return True
    base = normalize_path_text(folder or "/")
    try:
        compiled = compile_path_pattern(pattern, base)
    except ValueError:  # the pattern is valid, but not below this folder's name
        return True
    return any(
        path.startswith(ELSEWHERE) or search_pattern(compiled, path, context) for path in resolve_paths(written, base)
    )


@lru_cache(maxsize=512)
def list_spellings(value: str) -> frozenset[str]:
    """Return the paths that a tool may take a text for; none if that is undecidable."""
    if "\0" in value or "://" in value or value.lstrip()[:5].lower() == "file:" or len(value) > MAX_PATH:
        return frozenset()
    written = {
        normalize_path_text(value),
        normalize_path_text(value.strip()),
        normalize_path_text(value.replace("\\", "/")),
    }
    if any(path.startswith("~") and path != "~" and not path.startswith("~/") for path in written):
        return frozenset()  # another user's home
    return frozenset(
        written
        | {
            find_home() + path.removeprefix(home)
            for path in written
            for home in HOMES
            if f"{path}/".startswith(f"{home}/")
        }
    )


@lru_cache(maxsize=512)
def resolve_paths(paths: frozenset[str], base: str) -> frozenset[str]:
    """Return absolute paths without `.`, `..` and `//`; `..` removes the part before it, even where that is a link."""
    return frozenset("/" + posixpath.normpath(posixpath.join(base, path)).lstrip("/") for path in paths)


@lru_cache(maxsize=2048)  # for each pattern and each folder that agents work in
def compile_path_pattern(pattern: str, base: str) -> CompiledPattern:
    """Compile a pattern of paths for an agent that works in the folder `base`."""
    if pattern in ("~", ".") or pattern.startswith("~/"):
        pattern = (quote_folder(find_home()) if pattern[0] == "~" else quote_folder(base)) + pattern[1:]
    elif "/" not in pattern and pattern != "..":
        return compile_re2(f"(?is)(?:.*/)?{translate_path_part(pattern)}(?:/.*)?")
    elif pattern.startswith("**/"):
        pattern = f"/{pattern}"
    elif not pattern.startswith("/"):
        pattern = f"{quote_folder(base)}/{pattern}"
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == "..":
            if parts and any(mark in parts[-1] for mark in "*?["):
                raise ComparisonError(f"{pattern!r} goes up from a folder that it does not name")
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    while parts and parts[-1] == "**":
        parts.pop()
    expression = "".join("(?:/[^/]*)*" if part == "**" else f"/{translate_path_part(part)}" for part in parts)
    return compile_re2(f"(?is){expression}(?:/.*)?" if expression else "(?is).*")


def quote_folder(folder: str) -> str:
    """Return a pattern that matches just this folder."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in folder.rstrip("/"))


def translate_path_part(pattern: str) -> str:
    """Translate character part of a path: `*` and `?` do not match "/", and a set also matches literally: app/[id]."""
    expressions: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            expressions.append("[^/]*")
        elif character == "?":
            expressions.append("[^/]")
        elif character == "[":
            translated, position = translate_glob_set(pattern, position, never="/")
            expressions.append(translated)
        else:
            expressions.append(re2.escape(character))
    whole = "".join(expressions)
    return f"(?:{whole}|{re2.escape(pattern)})" if "[" in pattern else whole


# -- commands --------------------------------------------------------------------------------------------------------


def compare_command(expected: object) -> Comparison:
    prefix = require_text(expected, "a command").split()
    if any(not word.isprintable() or set(word) & set("$`'\"\\|&;<>(){}*?[]") for word in prefix):
        raise ComparisonError(f"{expected!r} is a program and its first words, such as 'git push', not shell text")
    if prefix[0].startswith("!"):
        raise ComparisonError(
            f"{prefix[0]!r} would be a program, since there is no negation; decide in the hook instead"
        )
    if any(word.startswith("-") for word in prefix):
        raise ComparisonError(
            f"{expected!r} has an option, which can be written in many ways: name the program and its verb, and check"
            " options in the hook"
        )
    if "/" in prefix[0]:
        raise ComparisonError(f"a program is named without its folder: {prefix[0].rpartition('/')[2]!r}")
    name, first_words = normalize_program(prefix[0]), prefix[1:]

    def may_run(value: object, context: ComparisonContext) -> bool:
        text = format_compared_value(value)
        # A search of the text first, which costs far less than the parser and decides nearly all commands.
        visible_text = context.visible_text(text)
        if visible_text is not None and name not in visible_text:
            return False
        parsed_commands = context.parsed_commands(text)
        return parsed_commands is None or any(is_meant(name, first_words, command) for command in parsed_commands)

    return Comparison(f"command {' '.join(prefix)}", may_run, joins=True)


def read_commands(text: str) -> list[Command] | None:
    """Return the commands that a text would run; None if that is undecidable."""
    if len(text) > MAX_COMMAND:
        return None
    try:
        return commands(text)
    except UnreadableCommandError:
        return None
    except Exception:  # a bug of the parser on an agent's text must neither leave a guard out nor end the fire
        logger.exception("a command could not be read")
        return None


KINDS: Final[Mapping[str, Callable[[object], Comparison]]] = {
    "equals": compare_equal,
    "number": compare_number,
    "glob": compare_glob,
    "path": compare_path,
    "command": compare_command,
}
