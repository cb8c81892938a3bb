"""The excerpt of a payload that is recorded, and the removal of secrets from entries.

An excerpt is enough to know what was judged, no secret, and no file.  It has the top-level keys with their values, and
the length in place of a value over 4 KiB.  No payload makes it raise.

Almost no text holds a secret, and searching costs more than all else in making an entry.  So the texts of a payload, or
the JSON of an entry, are searched once, for all patterns at once, and each text by itself only if that finds something.
Most texts of payloads do not even hold a sign of a secret (`SIGNS`).  Nearly always nothing is hidden, and then the
excerpt is decoded, searched and encoded once.  A copy is made only of a value that hides a key or holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
import re2

from hooklatch.core.hooks.matchers import CompiledPattern, MatcherError, compile_matcher, compile_re2
from hooklatch.core.payload import Payload
from hooklatch.core.text import REDACTED, TOO_DEEP
from hooklatch.record.settings import SIGNS, RecordSettings
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "Redactor", "decode_inner_json", "UNREADABLE", "replace_secrets", "excerpt_object", "excerpt_fields",
    "excerpt_payload", "hide_keys",
]  # fmt: skip

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
LARGE = 4 * 1024  # bytes of a value as received; a longer value is a file rather than an argument
DEEP = 50  # levels; deeper nesting is not needed to see what was judged, and each level costs the interpreter's stack
HIDDEN = 24  # bytes that replace a value which is left out
# Bytes of a payload that is read for this alone, and its colons, one for each field: reading a text takes half as long
# as its sha256, but reading a MiB of small fields a hundred times as long.  Where hooks match on a field it has been
# read already.
UNREAD = 2**20
COLONS = 10_000
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError)
READ_FOR_PERSON = 2**16  # bytes of an object that are read whole: all fires wait for that, 0.3 s at worst
decode = msgspec.json.Decoder().decode
decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
decode_fields = msgspec.json.Decoder(dict[str, object]).decode
encode = msgspec.json.Encoder().encode
Excerpt = tuple[msgspec.Raw | None, str | None]  # whole, as JSON; or what is shown of it, as text


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


def excerpt_payload(payload: Payload, limit: int, redactor: Redactor) -> Excerpt:
    """Return the excerpt of a payload; nothing if it has no fields, or would have to be read only for this."""
    data = payload.data
    try:
        if len(data) <= LARGE and len(data) <= limit:  # no value is large, and all fit
            return redact_fields(decode_fields(data), limit, redactor)
        if limit <= 0 or (payload.decoded is None and (len(data) > UNREAD or data.count(b":") > COLONS)):
            return None, None
        return excerpt_fields(payload.fields, limit, redactor)
    except UNREADABLE:
        return None, None


def excerpt_object(data: bytes, limit: int, redactor: Redactor) -> Excerpt:
    """Return the excerpt for a person who has to judge an object now: of its long values too, as much as fits.

    It is JSON only where nothing but secrets is missing from it, else a text, which may be empty.
    """
    try:
        if len(data) > READ_FOR_PERSON:
            return excerpt_fields(decode_raw(data), limit, redactor, is_whole=False)
        fields = decode_fields(data)
        if len(data) > limit:
            return redact_fields(fields, limit, redactor, is_whole=False)
        visible_fields = hide_keys(fields, redactor.hides, DEEP + 1)
        shown = replace_secrets(visible_fields, redactor)
        text = encode(shown)
        # Two keys may hold secrets, and be the same without them.
        is_whole = (
            count_values(shown) == count_values(visible_fields)
            and not is_deeper(fields, DEEP + 1)
            and find_ambiguity(data) is None
        )
        if is_whole and len(text) <= limit:
            return msgspec.Raw(text), None
        return None, text[:limit].decode("utf-8", "ignore")
    except UNREADABLE:
        return None, ""


def count_values(value: object) -> int:
    """Return how many values decoded JSON has, at all levels."""
    inner = list_inner_values(value)
    return len(inner) + sum(map(count_values, inner))


def is_deeper(value: object, levels: int) -> bool:
    """Return whether something in decoded JSON lies deeper than so many levels, as `hide_keys` counts them."""
    if not isinstance(value, dict | list):
        return False
    return levels < 0 or any(
        is_deeper(inner_value, levels - 1) for inner_value in list_inner_values(cast("object", value))
    )


def list_inner_values(value: object) -> Collection[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def excerpt_fields(
    fields: Mapping[str, msgspec.Raw], limit: int, redactor: Redactor, *, is_whole: bool = True
) -> Excerpt:
    """Return the excerpt of undecoded fields: as many as fit into `limit` bytes."""
    values: dict[str, object] = {}
    size = 0
    for key, raw in fields.items():
        if size > limit:
            return redact_fields(values, limit, redactor, is_whole=False)
        values[key] = decode_value(raw)
        size += len(key) + (HIDDEN if len(raw) > LARGE else len(raw))
    return redact_fields(values, limit, redactor, is_whole=is_whole)


def decode_value(raw: msgspec.Raw) -> object:
    if len(raw) <= LARGE:
        try:
            return decode(raw)
        except UNREADABLE:
            pass
    return {"omitted_bytes": len(raw)}


def redact_fields(fields: dict[str, object], limit: int, redactor: Redactor, *, is_whole: bool = True) -> Excerpt:
    texts: list[str] = []
    if redactor.shows_all(fields, DEEP + 1, texts):
        data = encode(fields)
        is_clean = redactor.are_clean(texts)
    else:
        fields = cast("dict[str, object]", hide_keys(fields, redactor.hides, DEEP + 1))
        data, is_clean = b"", False
    if not is_clean:
        data = encode(replace_secrets(fields, redactor))
    if is_whole and len(data) <= limit:
        return msgspec.Raw(data), None
    return None, data[:limit].decode("utf-8", "ignore")


def hide_keys(value: object, hides: Callable[[str], bool], levels: int) -> object:
    """Return decoded JSON without the values that its keys hide, and without those deeper than so many levels."""
    kind = type(value)
    if kind is str:
        return change_inner_json(cast("str", value), lambda inner_json: hide_keys(inner_json, hides, levels - 1))
    if kind is not dict and kind is not list:
        return value
    if levels < 0:
        return TOO_DEEP
    if kind is list:
        return [hide_keys(inner_value, hides, levels - 1) for inner_value in cast("list[object]", value)]
    fields = cast("dict[str, object]", value)
    return {
        key: REDACTED if hides(key) else hide_keys(inner_value, hides, levels - 1)
        for key, inner_value in fields.items()
    }


def replace_secrets(value: object, redactor: Redactor, *, window: int | None = WINDOW) -> object:
    """Return decoded JSON with the secrets in its texts replaced, and of each text so many characters."""
    if isinstance(value, str):
        return redactor.clean(
            change_inner_json(value, lambda inner_json: replace_secrets(inner_json, redactor, window=window)),
            window=window,
        )
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {
            redactor.clean(key): replace_secrets(inner_value, redactor, window=window)
            for key, inner_value in fields.items()
        }
    if isinstance(value, list):
        return [replace_secrets(inner_value, redactor, window=window) for inner_value in cast("list[object]", value)]
    return value


def change_inner_json(text: str, change: Callable[[object], object]) -> str:
    """Return a text with the JSON in it changed; the same text if it holds no JSON, or nothing changes.

    Ambiguous JSON is left out: the excerpt would show one of its two readings, and a hook may have seen the other.
    """
    inner_json = decode_inner_json(text)
    if inner_json is None:
        return text
    if find_ambiguity(text.encode()) is not None:
        return REDACTED
    changed = change(inner_json)
    if changed == inner_json:
        return text
    return changed if isinstance(changed, str) else encode(changed).decode()
