"""Removes secrets from what is recorded.  Knows keys, texts and RE2 patterns; does not know payloads or files.

Almost no text holds a secret, and searching costs more than everything else in making a record.  So the texts of a
record are searched at once, as one, and each by itself only if that finds something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import re2

from hooklatch.core.hooks.matchers import CompiledPattern, MatcherError, compile_matcher, compile_re2
from hooklatch.record.settings import RecordSettings

__all__ = ["REDACTED", "Redactor"]

T = TypeVar("T")
REDACTED = "[redacted]"
WINDOW = 16 * 1024  # characters of a text that are searched; what follows is never recorded
LONG_KEY = 200  # characters; a longer key is really data
MEMORY = 8 * 2**20  # bytes for all patterns together
# A pattern with one of these may match a text alone, but not the same text between others, or the reverse.
PLACES = ("^", "$", r"\A", r"\z", r"\Q", r"\C")
# Neither a letter nor a line's end: the edge of a text alone is the edge of a word here too.
BETWEEN = "\x00"


class Redactor:
    """The active redaction list."""

    def __init__(self, settings: RecordSettings) -> None:
        self._keys = list(compiled(settings.redact, key_test))
        texts = dict(compiled(settings.redact_text, lambda pattern: (pattern, compile_re2(pattern))))
        self._texts = list(texts.values())
        self._all = as_one(tuple(texts))
        self._hides = lru_cache(maxsize=4096)(self._matches)

    def hides(self, key: str) -> bool:
        """Return whether a key's value is to be left out."""
        return len(key) > LONG_KEY or self._hides(key)

    def _matches(self, key: str) -> bool:
        lower = key.lower()
        return any(test(lower) for test in self._keys)

    def is_clean(self, texts: Sequence[str]) -> bool:
        """Return whether none of the texts holds a secret."""
        if not texts or not self._texts:
            return True
        if self._all is None:
            return not any(pattern.search(text[:WINDOW]) for pattern in self._texts for text in texts)
        joined = BETWEEN.join([text[:WINDOW] for text in texts])
        return self._all.search(joined.encode("utf-8", "replace")) is None

    def clean(self, text: str) -> str:
        """Return a text with its secrets replaced."""
        cleaned = text[:WINDOW]
        for pattern in self._texts:
            cleaned = pattern.sub(replacement, cleaned)
        # The cut may have gone through a secret, which is then at the end; only after much redaction would that show.
        if len(text) > WINDOW and len(cleaned) < WINDOW // 2:
            return REDACTED
        return cleaned


def replacement(match: Any) -> str:
    return REDACTED if match.group() else ""


def key_test(glob: str) -> Callable[[str], object]:
    """Return the test for a key in lower case; nearly all globs are a word with stars around it."""
    word = (lower := glob.lower()).strip("*")
    if not word or any(mark in word for mark in "*?["):
        return compile_matcher({"glob": lower}).matches
    match lower.startswith("*"), lower.endswith("*"):
        case True, True:
            return lambda key: word in key
        case True, False:
            return lambda key: key.endswith(word)
        case False, True:
            return lambda key: key.startswith(word)
        case _:
            return word.__eq__


def compiled(sources: Iterable[str], compile_one: Callable[[str], T]) -> Iterator[T]:
    """Leave out what RE2 cannot run: a configuration with it is refused before it gets here."""
    for source in sources:
        with suppress(MatcherError):
            yield compile_one(source)


@lru_cache(maxsize=8)
def as_one(patterns: tuple[str, ...]) -> CompiledPattern | None:
    """Compile all patterns as one that is searched for in many texts at once; None if that is not equivalent."""
    if not patterns or any(place in pattern.replace("[^", "[") for pattern in patterns for place in PLACES):
        return None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns), options)
    except re2.error:
        return None
