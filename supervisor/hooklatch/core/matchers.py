"""Compiles what a hook matches on.  Knows patterns and strings; knows no event and no payload.

Patterns of users run in linear time: exact names and sets by us, globs and regular expressions by RE2.  A raw pattern
is compiled alone and then full-matched, never wrapped: a wrapper would turn `a)|(b` into an unanchored match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, cast

import re2

__all__ = ["Matcher", "MatcherError", "compile_matcher"]

MAX_PATTERN = 4096  # characters; a longer one is a mistake, or an attack on the compiler
MAX_MEMORY = 8 * 2**20  # bytes that RE2 may use for one pattern; its own default


class MatcherError(ValueError):
    """A matcher that cannot be compiled, with what to write instead."""


class Matcher:
    """Says whether a value matches; `text` shows it to people, `source` is its canonical JSON form."""

    __slots__ = ("_test", "source", "text")

    def __init__(self, source: object, text: str, test: Callable[[str], bool] | None) -> None:
        self.source = source
        self.text = text
        self._test = test

    @property
    def matches_all(self) -> bool:
        return self._test is None

    def matches(self, value: str) -> bool:
        return self._test is None or self._test(value)

    def __repr__(self) -> str:
        return f"Matcher({self.text})"


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...
    def search(self, text: str) -> object: ...


def compile_matcher(source: object) -> Matcher:
    """Compile a matcher from its JSON form: null, "*", a name, a list of names, {glob} or {regex, search}.

    Raises:
        MatcherError: it has another form, or its pattern is not one that RE2 can run.
    """
    match source:
        case None | "*":
            return Matcher(None, "*", None)
        case str():
            return Matcher(source, checked_name(source), source.__eq__)
        case list():
            return of_names(cast("list[object]", source))
        case {"glob": object() as pattern}:
            return of_glob(pattern, cast("Mapping[str, object]", source))
        case {"regex": object() as pattern}:
            return of_regex(pattern, cast("Mapping[str, object]", source))
        case _:
            raise MatcherError(
                f"a matcher is a name, a list of names, {{glob = ...}} or {{regex = ...}}, not {source!r}"
            )


def of_names(names: Sequence[object]) -> Matcher:
    if not names or not all(isinstance(name, str) for name in names):
        raise MatcherError(f"a list of names must hold one string or more, not {names!r}")
    known = frozenset(checked_name(name) for name in cast("Sequence[str]", names))
    return Matcher(list(names), "|".join(sorted(known)), known.__contains__)


def of_glob(pattern: object, source: Mapping[str, object]) -> Matcher:
    refuse_unknown(source, "glob")
    text = checked(pattern)
    compiled = compile_re2(regex_of_glob(text))
    return Matcher({"glob": text}, f"glob {text}", lambda value: compiled.fullmatch(value) is not None)


def of_regex(pattern: object, source: Mapping[str, object]) -> Matcher:
    refuse_unknown(source, "regex", "search")
    text = checked(pattern)
    search = source.get("search", False)
    if not isinstance(search, bool):
        raise MatcherError(f"search must be true or false, not {search!r}")
    compiled = compile_re2(text)
    if search:
        return Matcher(
            {"regex": text, "search": True},
            f"regex {text} (search)",
            lambda value: compiled.search(value) is not None,
        )
    return Matcher({"regex": text}, f"regex {text}", lambda value: compiled.fullmatch(value) is not None)


def refuse_unknown(source: Mapping[str, object], kind: str, *others: str) -> None:
    for key in source:
        if key not in (kind, *others):
            raise MatcherError(f"a {kind} matcher has no key {key!r}")


def checked_name(name: str) -> str:
    # Such a hook would never be called: on a gate, that is a guard which is not there.
    if name in ("", "*"):
        raise MatcherError(f'{name!r} is the name of nothing; leave the matcher out, or write just "*", to match all')
    return checked(name)


def checked(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise MatcherError(f"a pattern must be a string, not {pattern!r}")
    if len(pattern) > MAX_PATTERN:
        raise MatcherError(f"a pattern of {len(pattern)} characters is over the limit of {MAX_PATTERN}")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise MatcherError(f"{pattern!r} holds characters that are not valid Unicode") from None
    return pattern


def regex_of_glob(pattern: str) -> str:
    """Translate `*`, `?` and `[...]`, where `*` crosses every character: tool names have no folders."""
    parts: list[str] = ["(?s)"]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            parts.append(".*")
        elif character == "?":
            parts.append(".")
        elif character == "[":
            negated = pattern.startswith(("!", "^"), position)
            position += negated
            end = pattern.find("]", position + 1)  # a bracket that comes first is itself a member
            if end < 0:
                raise MatcherError(f"the glob {pattern!r} has an unclosed '['")
            inside = pattern[position:end].replace("\\", "\\\\")
            parts.append(f"[{'^' if negated else ''}{inside}]")
            position = end + 1
        else:
            parts.append(re2.escape(character))
    return "".join(parts)


@lru_cache(maxsize=1024)
def compile_re2(pattern: str) -> Pattern:
    options = re2.Options()
    options.log_errors = False  # else the library writes to standard error
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise MatcherError(
            f"{pattern!r} is not a pattern that RE2 can run: {reason_of(error)}"
            " (look-around and back-references are not supported; see docs/hooks.md)"
        ) from None


def reason_of(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
