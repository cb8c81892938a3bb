"""The removal of secrets from entries.

Almost no text holds a secret, and searching costs more than all else in making an entry.  So the texts of a payload, or
the JSON of an entry, are searched once, for all patterns at once, and each text by itself only if that finds something.
Most texts of payloads do not even hold a sign of a secret (`SIGNS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
import re2

from hooklatch.core.hooks.matchers import CompiledPattern, MatcherError, compile_matcher, compile_re2
from hooklatch.core.text import REDACTED, TOO_DEEP
from hooklatch.record.settings import SIGNS, RecordSettings
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = ["Redactor", "decode_inner_json"]

T = TypeVar("T")
WINDOW = 16 * 1024  # characters of a text that are searched; what follows is never recorded
SHORT = 2048  # characters of a text that is searched for signs first; a longer one RE2 reads in a third of the time
LONG_KEY = 200  # characters; a longer key is really data
CONTAINERS = (dict, list)
# What a pattern finds where a key has hidden the value already: to replace that too would leave no JSON.
DONE = re.compile(r"""[\w-]+\\*["']?\s*[=:]\s*\\*["']?""" + re.escape(REDACTED) + r"""\\*["']?""")
OPENINGS = ("{", "[")  # of a text that may hold JSON
PLAIN_KEYS = 4096  # keys that are known to hide nothing and to hold no secret; a host uses a few dozen
# A pattern with one of these may match a text alone, but not the same text between others, or the reverse.
PLACES = ("^", "$", r"\A", r"\z", r"\Q", r"\C")


class Redactor:
    """The active redaction list."""

    def __init__(self, settings: RecordSettings) -> None:
        self._keys = list(compile_patterns(settings.redact, compile_key_test))
        texts = dict(compile_patterns(settings.redact_text, lambda pattern: (pattern, compile_re2(pattern))))
        self._texts = list(texts.values())
        self._all = combine_patterns(tuple(texts))
        # None if a pattern is the operator's own, since its signs are not known.
        self._signs = {sign for text in texts for sign in SIGNS[text]} if SIGNS.keys() >= texts.keys() else None
        self._plain_keys: set[str] = set()

    def hides(self, key: str) -> bool:
        """Return whether a key's value is left out."""
        if key in self._plain_keys:
            return False
        if len(key) > LONG_KEY:
            return True
        lower = key.lower()
        if any(test(lower) for test in self._keys):
            return True
        if self.clean(key) == key:
            if len(self._plain_keys) >= PLAIN_KEYS:
                self._plain_keys.clear()
            self._plain_keys.add(key)
        return False

    def shows_all(self, value: dict[str, Any] | list[Any], levels: int, texts: list[str]) -> bool:
        """Return whether decoded JSON has no key that hides its value, and nothing deeper than so many levels.

        If so, `texts` has got all its texts in which a secret may be.  What a text holds as JSON counts as part of it.
        """
        inner: Iterable[Any]
        if isinstance(value, dict):
            if not self._plain_keys.issuperset(value):
                if any(map(self.hides, value)):
                    return False
                texts += value
            inner = value.values()
        else:
            inner = value
        for inner_value in inner:
            if type(inner_value) is str:
                texts.append(inner_value)
                if inner_value.lstrip().startswith(OPENINGS) and not self._shows_text(inner_value, levels, texts):
                    return False
            elif type(inner_value) in CONTAINERS and (
                levels <= 0 or not self.shows_all(inner_value, levels - 1, texts)
            ):
                return False
        return True

    def _shows_text(self, text: str, levels: int, texts: list[str]) -> bool:
        inner_json = decode_inner_json(text)
        if inner_json is None:
            return True
        # Of a key that occurs twice only the last value was decoded.
        return levels > 0 and self.shows_all(inner_json, levels - 1, texts) and find_ambiguity(text.encode()) is None

    def are_clean(self, texts: Iterable[str]) -> bool:
        """Return whether no text holds a secret; False may also be a false alarm, as with `is_clean`.

        They are less than their JSON and have no escapes: the excerpt of half a KiB takes 10 us, and by its JSON 13.
        """
        if self._all is None:
            return not self._texts
        text = '"'.join(texts)
        if self._signs is not None and len(text) <= SHORT:
            # RE2's code is cold in the processor's cache at each fire: this takes 7 us less of the daemon's 128.
            folded = text.casefold()
            for sign in self._signs:
                if sign in folded:
                    break
            else:
                return True
        return self._all.search(text.encode()) is None

    def is_clean(self, data: bytes) -> bool:
        """Return whether no text in JSON, as msgspec encodes it, holds a secret; False may also be a false alarm.

        A quote is next to each text, and like the end of a text it is not part of a word.  A match across two texts is
        not a secret, and costs the search of each.
        """
        if self._all is None:
            return not self._texts
        if b"\\" in data:
            # A codec undoes all of JSON's escapes in one pass; it reads and returns other bytes as Latin-1, unchanged.
            data = data.decode("unicode_escape").encode("latin-1")
        return self._all.search(data) is None

    def clean(self, text: str, *, window: int | None = WINDOW) -> str:
        """Return a text with its secrets replaced, cut to so many characters; None keeps all."""
        cleaned = text[:window]
        if self._all is not None and self._all.search(cleaned) is None:
            return cleaned
        for pattern in self._texts:
            cleaned = pattern.sub(replace_match, cleaned)
        # The cut may have gone through a secret, which is then at the end; only after much redaction would that show.
        if window is not None and len(text) > window and len(cleaned) < window // 2:
            return REDACTED
        return cleaned


def decode_inner_json(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or the list that a text holds as JSON; None if it holds none."""
    if not text.lstrip().startswith(OPENINGS):
        return None
    try:
        decoded: object = msgspec.json.decode(text)
    except RecursionError:
        return [TOO_DEEP]  # in place of a value that may hold a secret
    except (msgspec.MsgspecError, ValueError):
        return None
    return cast("dict[str, Any] | list[Any]", decoded) if isinstance(decoded, dict | list) else None


def replace_match(match: Any) -> str:
    matched: str = match.group()
    return matched if not matched or DONE.fullmatch(matched) else REDACTED


def compile_key_test(glob: str) -> Callable[[str], object]:
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


def compile_patterns(sources: Iterable[str], compile_one: Callable[[str], T]) -> Iterator[T]:
    """Yield the compiled patterns without those that RE2 cannot run: a configuration with one is refused earlier."""
    for source in sources:
        with suppress(MatcherError):
            yield compile_one(source)


@lru_cache(maxsize=8)
def combine_patterns(patterns: tuple[str, ...]) -> CompiledPattern | None:
    """Compile all patterns as one that is searched for in many texts at once; None if that is not equivalent."""
    if not patterns or any(place in pattern.replace("[^", "[") for pattern in patterns for place in PLACES):
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns), options)
    except re2.error:
        return None
