"""The excerpt of a payload that is recorded, and the removal of secrets from entries.

An excerpt is enough to know what was judged, no secret, and no file.  It has the top-level keys with their values, and
the length in place of a value over 4 KiB.  No payload makes it raise.

Almost no text holds a secret, and searching costs more than all else in making an entry.  So the JSON of a payload, or
of an entry, is searched once, for all patterns at once, and each key and text by itself only if that finds something.
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
from hooklatch.record.settings import RecordSettings
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "Redactor", "decode_inner_json", "UNREADABLE", "replace_secrets", "excerpt_object", "excerpt_fields",
    "excerpt_payload", "hide_keys",
]  # fmt: skip

T = TypeVar("T")
WINDOW = 16 * 1024  # characters of a text that are searched; what follows is never recorded
LONG_KEY = 200  # characters; a longer key is really data
LONG, ESCAPED = re.compile(rb'"[^"]{%d,}":' % (LONG_KEY + 1)), re.compile(rb"\\.")
# What JSON may hold, its escapes undone, that one search does not judge: a text that may hold JSON, and the one letter
# whose lower case RE2 does not know.
DOUBTS = (r'"[\pZ\x00-\x20\x{85}]*[\[{]', r"\x{130}")
# What a pattern finds where a key has hidden the value already: to replace that too would leave no JSON.
DONE = re.compile(r"""[\w-]+\\*["']?\s*[=:]\s*\\*["']?""" + re.escape(REDACTED) + r"""\\*["']?""")
OPENINGS = ("{", "[")  # of a text that may hold JSON
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
QUIET = re2.Options()
QUIET.log_errors = False
Excerpt = tuple[msgspec.Raw | None, str | None]  # whole, as JSON; or what is shown of it, as text


class Redactor:
    """The active redaction list."""

    def __init__(self, settings: RecordSettings) -> None:
        self._keys = list(compile_patterns(settings.redact, compile_key_test))
        texts = dict(compile_patterns(settings.redact_text, lambda pattern: (pattern, compile_re2(pattern))))
        self._texts = list(texts.values())
        self._all = combine_patterns(tuple(texts))
        is_one_search = self._all is not None or not texts
        self._search = compile_search((*texts, *map(describe_key, settings.redact), *DOUBTS)) if is_one_search else None

    def hides(self, key: str) -> bool:
        """Return whether a key's value is left out."""
        lower = key.lower()
        return len(key) > LONG_KEY or any(test(lower) for test in self._keys)

    def is_plain(self, fields: object, data: bytes, levels: int) -> bool:
        """Return whether nothing of fields, which msgspec encodes as `data`, is hidden; False may be a false alarm.

        So one search is enough for nearly all payloads.  It goes without what a text may hold as JSON, which has keys
        and escapes of its own: then each text is looked at.
        """
        if self._search is None or (data.count(b"{") + data.count(b"[") > levels and is_deeper(fields, levels)):
            return False
        has_escapes = b"\\" in data
        if len(data) > LONG_KEY and LONG.search(ESCAPED.sub(b"_", data) if has_escapes else data) is not None:
            return False
        return self._search(unescape(data) if has_escapes else data) is None

    def is_clean(self, data: bytes) -> bool:
        """Return whether no text in JSON, as msgspec encodes it, holds a secret; False may also be a false alarm.

        A quote is next to each text, and like the end of a text it is not part of a word.  A match across two texts is
        not a secret, and costs the search of each.
        """
        if self._all is None:
            return not self._texts
        return self._all.search(unescape(data) if b"\\" in data else data) is None

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


def describe_key(glob: str) -> str:
    """Return a pattern of what each key holds that a glob means: its longest part without wildcards, in any case."""
    return "(?i)" + re2.escape(max(re.split(r"[*?]|\[.*", glob.lower(), flags=re.DOTALL), key=len))


@lru_cache(maxsize=8)
def compile_search(patterns: tuple[str, ...]) -> Callable[[bytes], object] | None:
    """Return a search for any of these patterns, or None if RE2 cannot make one of them all."""
    search = re2.Set.SearchSet(QUIET)
    try:
        for pattern in patterns:
            search.Add(pattern)
        search.Compile()
    except re2.error:
        return None
    # With too little memory for so many patterns a set finds nothing, and does not say so.
    return search.Match if search.Match(b'"{') is not None else None


def unescape(data: bytes) -> bytes:
    """Undo JSON's escapes, all in one pass of a codec, which reads and returns other bytes as Latin-1, unchanged."""
    return data.decode("unicode_escape").encode("latin-1")


@lru_cache(maxsize=8)
def combine_patterns(patterns: tuple[str, ...]) -> CompiledPattern | None:
    """Compile all patterns as one that is searched for in many texts at once; None if that is not equivalent."""
    if not patterns or any(place in pattern.replace("[^", "[") for pattern in patterns for place in PLACES):
        return None
    try:
        return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns), QUIET)
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
        is_same = count_values(shown) == count_values(visible_fields)
        is_whole = is_same and not is_deeper(fields, DEEP + 1) and find_ambiguity(data) is None
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
    return levels < 0 or any(is_deeper(inner, levels - 1) for inner in list_inner_values(cast("object", value)))


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
    data = encode(fields)
    if not redactor.is_plain(fields, data, DEEP + 1):
        data = encode(replace_secrets(hide_keys(fields, redactor.hides, DEEP + 1), redactor))
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
        return [hide_keys(inner, hides, levels - 1) for inner in cast("list[object]", value)]
    fields = cast("dict[str, object]", value)
    return {key: REDACTED if hides(key) else hide_keys(inner, hides, levels - 1) for key, inner in fields.items()}


def replace_secrets(value: object, redactor: Redactor, *, window: int | None = WINDOW) -> object:
    """Return decoded JSON with the secrets in its texts replaced, and of each text so many characters."""
    if isinstance(value, str):
        changed = change_inner_json(value, lambda inner: replace_secrets(inner, redactor, window=window))
        return redactor.clean(changed, window=window)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {redactor.clean(key): replace_secrets(inner, redactor, window=window) for key, inner in fields.items()}
    if isinstance(value, list):
        return [replace_secrets(inner, redactor, window=window) for inner in cast("list[object]", value)]
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
