"""Parts of paths as patterns of the shell: which names one may stand for, and whether it leaves out little.  Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from typing import Final

from hooklatch.shelltext.words import GLOB

__all__ = ["is_match", "is_start", "is_wide", "may_be", "may_match", "split_parts", "find_wide_together"]

CLASS: Final = re.compile(r"\[:(\w+):\]")
CLASSES: Final = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "digit": "0-9", "lower": "a-z", "upper": "A-Z", "word": "a-zA-Z0-9_",
    "xdigit": "0-9a-fA-F", "space": " \t", "blank": " \t", "cntrl": "\x01-\x1f",
}  # fmt: skip
# Names as folders of work have them, but for what is built or fetched: what leaves out few of them, leaves out little.
USUAL: Final = (
    "src", "tests", "docs", "lib", "app", "scripts", "config", "data", "README.md", "Makefile", "package.json",
    "pyproject.toml", "main.py", "index.ts", "Dockerfile", "server.go", "examples", "public", "utils", "notes.txt",
)  # fmt: skip
LETTERS: Final = tuple(f"{letter}{end}" for letter in "abcdefghijklmnopqrstuvwxyz" for end in ("x1", "1e"))
FEW: Final = 3  # one of so many names is few
MAX_TOGETHER: Final = 64  # patterns of one folder that are tried together
HIDDEN: Final = (".git", ".github", ".env", ".gitignore", ".config")


@functools.lru_cache(maxsize=4096)  # the library keeps 256, which a guard's own are nearly
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def fnmatchcase(name: str, pattern: str) -> bool:
    return compiled(pattern).match(name) is not None


@functools.lru_cache(maxsize=4096)
def split_parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def is_start(first: Sequence[str], parts: Sequence[str]) -> bool:
    return len(first) <= len(parts) and all(
        may_be(part, other) or may_be(other, part) for part, other in zip(first, parts, strict=False)
    )


def may_be(pattern: str, name: str) -> bool:
    """Return whether a part of a path, as a pattern of the shell, may stand for this name, a word in capitals too."""
    if pattern == name or pattern.casefold() == name.casefold():
        return True
    is_shown = not name.startswith(".") or pattern.startswith(".")  # what is hidden has to be named
    return is_shown and GLOB.search(pattern) is not None and fnmatchcase(name, translate_pattern(pattern))


def translate_pattern(pattern: str) -> str:
    """Return a pattern of the shell as Python has it: without classes, and with `!` for what is left out."""
    return CLASS.sub(lambda found: CLASSES.get(found[1], "!-~"), pattern[-255:].replace("[^", "[!"))


def is_wide(pattern: str) -> bool:
    """Return whether a pattern of the shell leaves out little of a folder: *, ?*, *.*, [!x]*, [a-y]*, *[a-z]."""
    if "*" not in pattern and "?" not in pattern and "[" not in pattern:
        return False
    pattern = pattern[-255:]  # a name is not longer
    if not pattern.strip("*?."):
        return "*" in pattern
    return leave_out_little([pattern])


def leave_out_little(patterns: Sequence[str]) -> bool:
    """Return whether few names of a folder are left that none of some patterns stands for: [a-m]* and [n-z]*."""
    names = HIDDEN if all(pattern.startswith(".") for pattern in patterns) else USUAL
    return FEW * sum(any(may_be(pattern, name) for pattern in patterns) for name in names) >= len(names) or (
        2 * sum(any(may_be(pattern, name) for pattern in patterns) for name in LETTERS) >= len(LETTERS)
    )


def find_wide_together(texts: Iterable[str]) -> list[str]:
    """Return the folders of which some paths leave out little together, though none of them does alone."""
    by_folder: dict[str, list[str]] = {}
    for text in texts:
        folder, slash, name = text.rpartition("/")
        if GLOB.search(name):
            by_folder.setdefault(folder + slash, []).append(name)
    return [
        folder or "./"
        for folder, names in by_folder.items()
        if 1 < len(names) <= MAX_TOGETHER and not any(map(is_wide, names)) and leave_out_little(names)
    ]


def is_match(parts: Sequence[str], pattern: str, *, is_whole: bool) -> bool:
    """Return whether a path is meant by a pattern, or is the folder that it stands for.

    A pattern without a slash means any part; `*/` at its begin any folder, `/*` at its end all that is below;
    `is_whole`: all that is below the path is meant, too.
    """
    if "/" not in pattern:
        is_rare = pattern[:1] == "." or has_magic(pattern)  # not a name that `*.py` has among many
        return any(may_match(part, pattern) if is_rare else part == pattern for part in parts)
    wanted, is_deep = split_parts(pattern), pattern.endswith("/*")
    if wanted[0] == "*":
        fixed = wanted[1:]
        ends = range(len(parts) - len(fixed) + 1)
        return any(
            all(map(may_match, parts[at : at + len(fixed)], fixed)) and (is_deep or at + len(fixed) == len(parts))
            for at in ends
        ) or (is_whole and len(fixed) > 1 and has_ending(parts, fixed[:-1]))
    if len(parts) >= len(wanted) and (is_deep or len(parts) == len(wanted)) and is_along(parts, wanted):
        return True
    above = wanted[:-1] if is_deep else wanted
    is_folder = len(parts) == len(above) and is_along(parts, above)
    return is_folder or (is_whole and len(parts) < len(above) and is_start(parts, above))


def is_along(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether parts are meant by others, one by one: in a place that is named, a pattern for all counts."""
    return all(may_match(part, other) or may_be(part, other) for part, other in zip(parts, wanted, strict=False))


def has_ending(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(parts) >= len(wanted) and all(map(may_match, parts[-len(wanted) :], wanted))


def may_match(part: str, pattern: str) -> bool:
    """Return whether a part of a path is meant by a part of a pattern, or may be if it is one of the shell."""
    if fnmatchcase(part, pattern):
        return True
    if not has_magic(part):
        return False
    is_rare = pattern[:1] == "." or not is_wide(part)  # what is not hidden is one of very many that `*` stands for
    return is_rare and may_be(part, re.sub(r"\A\*", "\x01", pattern).replace("*", ""))


def has_magic(part: str) -> bool:
    return GLOB.search(part) is not None
