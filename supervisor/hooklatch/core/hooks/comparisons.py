"""What a condition compares a value with: a path, a command, a number, a text.  Knows values; no payload, no event.

Each comparison answers whether the value *may* be meant.  Where nobody can tell it says yes, so that the guard is asked
and looks for itself: a path of an unknown user's home, a command that cannot be parsed or is decided when it runs, a
text that is too long.  So there is no negation: of "nobody can tell" it would make "the guard has nothing to say".

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

from hooklatch.core.hooks.matchers import CompiledPattern, compile_re2, set_of_glob, translate_glob
from hooklatch.core.text import is_unicode
from hooklatch.guards.command import Command, UnreadableCommandError
from hooklatch.guards.commands import commands
from hooklatch.guards.prefixes import is_meant, normalize_program

__all__ = [
    "KINDS",
    "MAX_COMMAND",
    "MAX_STEPS",
    "NUMBER",
    "Comparison",
    "ComparisonError",
    "WrongTypeError",
    "make_comparison",
    "read_commands",
]

logger = logging.getLogger("hooklatch.conditions")
MAX_PATTERN: Final = 1000  # characters; a path has at most 4096, and is not written by hand
# Characters that are parsed, of one payload: 4 us each, 20 at worst, in which the daemon decides nothing else.
MAX_COMMAND: Final = 2048
MAX_PATH: Final = 4096  # characters; the kernel takes no longer ones
MAX_STEPS: Final = 10**8  # of RE2, 5 ns each at worst, in all comparisons with one payload
IGNORED: Final = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
ELSEWHERE: Final = ("/proc/", "/dev/fd/")  # where every name is a link
HOMES: Final = ("~", "$HOME", "${HOME}")  # how it is written
# What would be a character of a name, and is written by those who mean something else.
MISREAD: Final[Mapping[str, str]] = {
    "{": "means no choice: write a list of paths, or [{] for the character",
    ",": "makes no list: write a list of paths, or [,] for the character",
    "\\": "takes no meaning away: write [*], [?] or [[] for these characters, and / between folders",
    "$HOME": "means no variable: write ~",
    "://": "is no path: write the path alone",
}
NUMBER: Final = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}


class ComparisonError(ValueError):
    """A comparison that cannot be made; the text says what to write instead."""


class WrongTypeError(ValueError):
    """A value of another type than a comparison is for; the text says which type it needs."""


class ComparisonContext(Protocol):
    """What a comparison needs besides the value: the agent's folder, what was read already, what may yet be done."""

    @property
    def folder(self) -> str | None: ...
    def parsed(self, text: str) -> list[Command] | None: ...
    def visible(self, text: str) -> str | None: ...
    def spend(self, steps: int) -> bool: ...


Compare: TypeAlias = Callable[[object, ComparisonContext], bool]


class Comparison(NamedTuple):
    """Compares one value: raises `WrongTypeError` if it has another type."""

    text: str
    may_hold: Compare
    joins: bool = False  # whether words in a list are one value, too: a command may be given as ["git", "push"]


def make_comparison(kind: str, wanted: object) -> Comparison:
    """Return the comparison of a kind with one wanted value.

    Raises:
        ComparisonError: there is no such kind, or it takes no such value.
    """
    return KINDS[kind](wanted)


def require_text(wanted: object, what: str) -> str:
    if not isinstance(wanted, str) or not wanted.strip():
        raise ComparisonError(f"{what} is a text that is not empty, not {wanted!r:.80}")
    if len(wanted) > MAX_PATTERN:
        raise ComparisonError(f"{what} has at most {MAX_PATTERN} characters, not {len(wanted)}")
    if not is_unicode(wanted):
        raise ComparisonError(f"{what} holds characters that are not valid Unicode: {wanted!r:.80}")
    return wanted


def format_compared_value(value: object) -> str:
    if not isinstance(value, str):
        raise WrongTypeError("is no text")
    return value


# -- equality, numbers, texts ----------------------------------------------------------------------------------------


def compare_equal(wanted: object) -> Comparison:
    if isinstance(wanted, str) and len(wanted) > MAX_PATTERN:
        raise ComparisonError(f"a value has at most {MAX_PATTERN} characters, not {len(wanted)}")
    if not isinstance(wanted, str | bool | int | float) or (isinstance(wanted, float) and not isfinite(wanted)):
        raise ComparisonError(f"a value is a text, a number, true or false, not {wanted!r:.80}")
    kind = name_json_type(wanted)

    def equals(value: object, _: ComparisonContext) -> bool:
        if name_json_type(value) != kind:
            raise WrongTypeError(f"is no {kind}")
        return value == wanted

    return Comparison(repr(wanted) if isinstance(wanted, str) else str(wanted).lower(), equals)


def name_json_type(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else ""


def compare_number(wanted: object) -> Comparison:
    found = NUMBER.fullmatch(wanted.strip()) if isinstance(wanted, str) and len(wanted) <= MAX_PATTERN else None
    if found is None:
        raise ComparisonError(f'a number is compared as ">= 100", with <, <=, > or >=, not {wanted!r:.80}')
    order, limit = ORDERS[found[1]], float(found[2]) if "." in found[2] else int(found[2])
    if isinstance(limit, float) and not isfinite(limit):
        raise ComparisonError(f"{found[2]:.20}… is larger than any number with a point that a payload can have")

    def compares(value: object, _: ComparisonContext) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongTypeError("is no number")
        return order(value, limit)

    return Comparison(f"{found[1]} {found[2]}", compares)


def compare_glob(wanted: object) -> Comparison:
    pattern = require_text(wanted, "a glob")
    compiled = compile_re2(translate_glob(pattern))

    def matches(value: object, setting: ComparisonContext) -> bool:
        return search_pattern(compiled, format_compared_value(value), setting)

    return Comparison(f"glob {pattern}", matches)


def search_pattern(compiled: CompiledPattern, text: str, setting: ComparisonContext) -> bool:
    return not setting.spend(len(text) * compiled.programsize) or compiled.fullmatch(text) is not None


# -- paths -----------------------------------------------------------------------------------------------------------


def compare_path(wanted: object) -> Comparison:
    pattern = normalize_path_text(require_text(wanted, "a path")).rstrip("/") or "/"
    for mark, instead in MISREAD.items():
        if mark in pattern:
            raise ComparisonError(f"{mark} {instead}, so no path would be {pattern!r}")
    if pattern != pattern.strip():
        raise ComparisonError(f"{pattern!r} begins or ends with a blank, which no path does; remove it")
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        raise ComparisonError(f"{pattern!r} is in the home of another user, which is not looked up; write the path")
    if pattern.lstrip().startswith("!"):
        raise ComparisonError(f"nothing is negated, so {pattern!r} would be a name; decide in the hook")
    compile_path_pattern(pattern, "/")  # any folder shows what is wrong with it

    def matches(value: object, setting: ComparisonContext) -> bool:
        return may_be(format_compared_value(value), pattern, setting)

    return Comparison(f"path {pattern}", matches)


@cache
def find_home() -> str:
    """Return the home of the user of this process, which is the agent's."""
    return normalize_path_text(posixpath.expanduser("~"))


def normalize_path_text(text: str) -> str:
    """Return one spelling of what a file system may take for one name."""
    return unicodedata.normalize("NFC", text.translate(IGNORED))


def may_be(value: str, pattern: str, setting: ComparisonContext) -> bool:
    """Return whether a path may be one that the pattern means, or be below one."""
    written, folder = list_spellings(value), setting.folder
    if not written:
        return True
    is_anchored = "/" in pattern or pattern in ("~", ".", "..")
    if folder is None and is_anchored and any(not one.startswith("/") for one in written):
        return True
    base = normalize_path_text(folder or "/")
    try:
        compiled = compile_path_pattern(pattern, base)
    except ValueError:  # what can be compiled in any folder cannot in this one
        return True
    return any(
        path.startswith(ELSEWHERE) or search_pattern(compiled, path, setting) for path in resolve_paths(written, base)
    )


@lru_cache(maxsize=512)
def list_spellings(value: str) -> frozenset[str]:
    """Return the paths that a tool may take a text for; none if nobody can say."""
    if "\0" in value or "://" in value or value.lstrip()[:5].lower() == "file:" or len(value) > MAX_PATH:
        return frozenset()
    written = {
        normalize_path_text(value),
        normalize_path_text(value.strip()),
        normalize_path_text(value.replace("\\", "/")),
    }
    if any(one.startswith("~") and one != "~" and not one.startswith("~/") for one in written):
        return frozenset()
    return frozenset(
        written
        | {find_home() + one.removeprefix(at) for one in written for at in HOMES if f"{one}/".startswith(f"{at}/")}
    )


@lru_cache(maxsize=512)
def resolve_paths(paths: frozenset[str], base: str) -> frozenset[str]:
    """Return paths from the root, without `.`, `..` and `//`; what `..` leaves is what is written, not a link's."""
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
    for one in pattern.split("/"):
        if one == "..":
            if parts and any(mark in parts[-1] for mark in "*?["):
                raise ComparisonError(f"{pattern!r} goes up from a folder that it does not name")
            parts = parts[:-1]
        elif one not in ("", "."):
            parts.append(one)
    while parts and parts[-1] == "**":
        parts.pop()
    found = "".join("(?:/[^/]*)*" if part == "**" else f"/{translate_path_part(part)}" for part in parts)
    return compile_re2(f"(?is){found}(?:/.*)?" if found else "(?is).*")


def quote_folder(folder: str) -> str:
    """Return a folder as a pattern that means just this folder."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in folder.rstrip("/"))


def translate_path_part(pattern: str) -> str:
    """Translate one part of a path: `*` and `?` do not go beyond it, and a set is meant as it stands, too: app/[id]."""
    found: list[str] = []
    position = 0
    while position < len(pattern):
        one = pattern[position]
        position += 1
        if one == "*":
            found.append("[^/]*")
        elif one == "?":
            found.append("[^/]")
        elif one == "[":
            translated, position = set_of_glob(pattern, position, never="/")
            found.append(translated)
        else:
            found.append(re2.escape(one))
    whole = "".join(found)
    return f"(?:{whole}|{re2.escape(pattern)})" if "[" in pattern else whole


# -- commands --------------------------------------------------------------------------------------------------------


def compare_command(wanted: object) -> Comparison:
    prefix = require_text(wanted, "a command").split()
    if any(not one.isprintable() or set(one) & set("$`'\"\\|&;<>(){}*?[]") for one in prefix):
        raise ComparisonError(f"{wanted!r} is a program and its first words, such as 'git push', not shell text")
    if prefix[0].startswith("!"):
        raise ComparisonError(f"nothing is negated, so {prefix[0]!r} would be a program; decide in the hook")
    if any(one.startswith("-") for one in prefix):
        raise ComparisonError(
            f"{wanted!r} has an option, which can be written in many ways: name the program and its verb, and look at"
            " options in the hook"
        )
    if "/" in prefix[0]:
        raise ComparisonError(f"a program is named without its folder: {prefix[0].rpartition('/')[2]!r}")
    name, rest = normalize_program(prefix[0]), prefix[1:]

    def may_run(value: object, setting: ComparisonContext) -> bool:
        text = format_compared_value(value)
        shown = setting.visible(text)
        if shown is not None and name not in shown:
            return False
        found = setting.parsed(text)
        return found is None or any(is_meant(name, rest, command) for command in found)

    return Comparison(f"command {' '.join(prefix)}", may_run, joins=True)


def read_commands(text: str) -> list[Command] | None:
    """Return the commands that a text would run; None if nobody can say that."""
    if len(text) > MAX_COMMAND:
        return None
    try:
        return commands(text)
    except UnreadableCommandError:
        return None
    except Exception:  # a bug in reading what an agent wrote must not leave a guard out, nor end the fire
        logger.exception("a command could not be read")
        return None


KINDS: Final[Mapping[str, Callable[[object], Comparison]]] = {
    "equals": compare_equal,
    "number": compare_number,
    "glob": compare_glob,
    "path": compare_path,
    "command": compare_command,
}
