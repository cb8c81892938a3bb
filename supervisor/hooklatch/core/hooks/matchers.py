"""The compiler of matchers.  Knows patterns and strings; does not know events or payloads.

User patterns run in linear time: exact names and sets by lookup, globs and regular expressions by RE2.  A raw pattern
is compiled as it is and full-matched, never wrapped: a wrapper would turn `a)|(b` into an unanchored match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

import re2

from hooklatch.core.text import is_unicode

__all__ = [
    "MAX_STEPS", "CompiledPattern", "Matcher", "MatcherError", "compile_matcher", "compile_re2",
    "translate_glob_set",
]  # fmt: skip

MAX_PATTERN = 4096  # characters; a longer one is a mistake or an attack on the compiler
MAX_MEMORY = 2**20  # bytes of RE2 memory per pattern; its default of 8 MiB is too much for each of a thousand hooks
# Upper bound on the steps (of 5 ns at worst) for matching one value.  Linear time alone is not enough where a value may
# have 8 MiB: RE2 takes up to one step per character for each instruction of the compiled pattern.
MAX_STEPS = 2 * 10**8
MAX_SHOWN = 200  # characters of a value that an error quotes
MARKS = re.compile(r"[|*?+,(){}^$\\]")  # characters of patterns, which tool names hardly have
CHOICE = re.compile(r"\{[^{}]*,[^{}]*\}")
ALTERNATIVES = (
    (("(?=", "(?!", "(?<"), "look-around is not supported: write the exception as a second hook"),
    (("(?P", r"\1", r"\2", r"\3", r"\4", r"\5", r"\6", r"\7", r"\8", r"\9"), "back-references are not supported"),
    (("(?>", "++", "*+", "?+"), "RE2 never backtracks, so write a plain group or repetition"),
    (("repetition size",), "a part may repeat at most 1000 times, nested repetitions multiplied: write * or +"),
    (("too large",), "it needs too much memory: write * or + in place of counted repetitions"),
)


class MatcherError(ValueError):
    """A matcher that does not compile; the text says what to write instead."""


class InvalidConditionError(ValueError):
    """A `where` that cannot be used; the text says what to write instead."""


class UnreadableFieldError(ValueError):
    """A missing field, or one of another type, so that it cannot be decided whether the hook is meant."""


class Matcher:
    """A compiled matcher; `text` is its display form, `source` its canonical JSON form.

    `weight` is the maximum number of steps per character; 0 if the value is compared as a whole.
    """

    __slots__ = ("_test", "matches_all", "source", "text", "weight")

    def __init__(self, source: object, text: str, test: Callable[[str], bool] | None, weight: int = 0) -> None:
        self.source = source
        self.text = text
        self.weight = weight
        self.matches_all = test is None
        self._test = test

    @property
    def names(self) -> frozenset[str]:
        """The names that a value is compared with as a whole; a pattern has none."""
        source = self.source
        if isinstance(source, str):
            return frozenset({source})
        return frozenset(cast("list[str]", source)) if isinstance(source, list) else frozenset()

    def matches(self, value: str) -> bool:
        return self._test is None or self._test(value)

    def __repr__(self) -> str:
        return f"Matcher({self.text})"


class CompiledPattern(Protocol):
    """The methods of a pattern that RE2 compiled, which has no types of its own."""

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str) -> object: ...
    def search(self, text: str | bytes) -> object: ...
    def sub(self, repl: Callable[[Any], str], text: str) -> str: ...


def compile_matcher(source: object) -> Matcher:
    """Compile a matcher from its JSON form: null, "*", a name, a list of names, {glob} or {regex, search}.

    Raises:
        MatcherError: it has another form, or RE2 cannot run its pattern.
    """
    match source:
        case None | "*":
            return Matcher(None, "*", None)
        case str():
            return Matcher(source, validate_tool_name(source), source.__eq__)
        case list():
            return match_names(cast("list[object]", source))
        case {"glob": object() as pattern}:
            return match_glob(pattern, cast("Mapping[str, object]", source))
        case {"regex": object() as pattern}:
            return match_regex(pattern, cast("Mapping[str, object]", source))
        case _:
            raise MatcherError(
                f"a matcher is a name, a list of names, {{glob = ...}} or {{regex = ...}}, not {clip_repr(source)}"
            )


def match_names(names: Sequence[object]) -> Matcher:
    if not names or not all(isinstance(name, str) for name in names):
        raise MatcherError(f"a list of names must hold at least one string, and only strings, not {clip_repr(names)}")
    known = frozenset(validate_tool_name(name) for name in cast("Sequence[str]", names))
    return Matcher(list(names), "|".join(sorted(known)), known.__contains__)


def match_glob(pattern: object, source: Mapping[str, object]) -> Matcher:
    refuse_unknown(source, "glob")
    text = refuse_empty_pattern(validate_pattern(pattern))
    compiled = compile_re2(translate_glob(text))
    weight = compiled.programsize
    return Matcher({"glob": text}, f"glob {text}", lambda value: compiled.fullmatch(value) is not None, weight)


def match_regex(pattern: object, source: Mapping[str, object]) -> Matcher:
    refuse_unknown(source, "regex", "search")
    text = validate_pattern(pattern)
    search = source.get("search", False)
    if not isinstance(search, bool):
        raise MatcherError(f"search must be true or false, not {clip_repr(search)}")
    compiled = compile_re2(text if search else refuse_empty_pattern(text))
    if search:
        return Matcher(
            {"regex": text, "search": True},
            f"regex {text} (search)",
            lambda value: compiled.search(value) is not None,
            compiled.programsize,
        )
    weight = compiled.programsize
    return Matcher({"regex": text}, f"regex {text}", lambda value: compiled.fullmatch(value) is not None, weight)


def refuse_unknown(source: Mapping[str, object], kind: str, *others: str) -> None:
    for key in source:
        if key not in (kind, *others):
            raise MatcherError(f"a {kind} matcher has no key {clip_repr(key)}")


def validate_tool_name(name: str) -> str:
    # A hook with this name would never be called; on a gate, that would be a missing guard.
    if name in ("", "*"):
        raise MatcherError(f'{name!r} does not name anything; leave the matcher out, or write just "*", to match all')
    if validate_pattern(name) != name.strip() or not name.isprintable():
        raise MatcherError(
            f"{clip_repr(name)} has a space around it or an invisible character, which no tool's name has; remove it"
        )
    if (mark := MARKS.search(name)) is not None:
        just_this = re.sub(r"[*?\[{]", r"[\g<0>]", name)
        raise MatcherError(
            f"{clip_repr(name)} is compared as a whole, and {mark[0]!r} is hardly a part of a name: write a list of "
            f"names, {{regex = …}} or {{glob = …}}; {{glob = {clip_repr(just_this)}}} is just this text"
        )
    return name


def refuse_empty_pattern(pattern: str) -> str:
    """Refuse an empty pattern, which matches only an empty name and so no tool; a search for it matches all."""
    if not pattern:
        raise MatcherError("a pattern must not be empty; leave the matcher out to match all")
    return pattern


def validate_pattern(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise MatcherError(f"a pattern must be a string, not {clip_repr(pattern)}")
    if len(pattern) > MAX_PATTERN:
        raise MatcherError(f"a pattern of {len(pattern)} characters is over the limit of {MAX_PATTERN}")
    if not is_unicode(pattern):
        raise MatcherError(f"{clip_repr(pattern)} holds characters that are not valid Unicode")
    return pattern


def translate_glob(pattern: str) -> str:
    """Translate `*`, `?` and `[...]`; `*` matches every character, since tool names are not paths."""
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
            translated, position = translate_glob_set(pattern, position)
            parts.append(translated)
        elif character == "{" and (choice := CHOICE.match(pattern, position - 1)) is not None:
            raise MatcherError(
                f"{choice[0]!r:.80} is not a choice in a glob; write one glob for each, or [{{] for the character"
            )
        else:
            parts.append(re2.escape(character))
    return "".join(parts)


def translate_glob_set(pattern: str, position: int, *, never: str = "") -> tuple[str, int]:
    """Translate a set, from behind its `[`, and return the position behind it.

    A negated set does not match `never` either.

    Raises:
        MatcherError: the set has no end, or names a class of characters.
    """
    is_negated = pattern.startswith(("!", "^"), position)
    position += is_negated
    end = pattern.find("]", position + 1)  # a "]" that comes first is a member of the set
    if end < 0:
        raise MatcherError(f"the glob {clip_repr(pattern)} has an unclosed '['")
    inside = pattern[position:end]
    if "[:" in inside:
        raise MatcherError(f"{clip_repr(pattern)} has a named class in a set; write its characters, such as [a-z0-9]")
    inside = inside.replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    if inside.startswith(("-", "]")):
        inside = f"\\{inside}"  # special in another position: `never` may come before it
    return f"[{'^' if is_negated else ''}{never if is_negated else ''}{inside}]", end + 1


@lru_cache(maxsize=1024)
def compile_re2(pattern: str) -> CompiledPattern:
    options = re2.Options()
    options.log_errors = False  # otherwise RE2 writes to standard error
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = explain_pattern_error(error)
        raise MatcherError(
            f"{clip_repr(pattern)} is not a pattern that RE2 can run: {reason} ({suggest_pattern(reason)})"
        ) from None


def explain_pattern_error(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    text = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"  # it may quote the whole pattern


def suggest_pattern(reason: str) -> str:
    """Return what to write instead of a pattern that RE2 rejected for this reason."""
    for marks, alternative in ALTERNATIVES:
        if any(mark in reason for mark in marks):
            return f"{alternative}, or match more and decide in the callback"
    return "RE2 has no look-around and no back-references; rewrite it, or match more and decide in the callback"


def clip_repr(value: object) -> str:
    """Return the repr of a value for an error, clipped."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
