"""Which part of a payload is recorded: enough to know what was judged, no secret, and no file.  Knows JSON only.

Top-level keys with their values; a value over 4 KiB is replaced by its length.  No payload makes it raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from hooklatch.core.payload import Payload, PayloadError
from hooklatch.record.content.redaction import REDACTED, Redactor

__all__ = ["Excerpt", "encode", "shown", "shown_payload", "visible"]

LARGE = 4 * 1024  # bytes of a value as received; a longer value is a file rather than an argument
DEEP = 50  # levels; deeper nesting is not needed to see what was judged, and each level costs the interpreter's stack
HIDDEN = 24  # bytes that replace a value which is left out
# Bytes of a payload that is read for this alone: a million small keys take a third of a second.  Where hooks match on
# a field it has been read already.
UNREAD = 2**20
decode = msgspec.json.Decoder().decode
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, MemoryError)


class Excerpt(msgspec.Struct, frozen=True):
    """The values that are shown, with secrets still in them, and their texts; `is_whole` if no key was left out."""

    fields: dict[str, object]
    texts: list[str]
    is_whole: bool = True


def shown_payload(payload: Payload, limit: int, redactor: Redactor) -> Excerpt | None:
    """Choose what is shown of a payload; None if it has no fields, or would have to be read only for this."""
    data = payload.data
    if len(data) <= LARGE and len(data) <= limit:  # no value is large, and all fit
        return whole(data, redactor)
    if len(data) > UNREAD and not payload.is_read:
        return None
    try:
        return shown(payload.fields, limit, redactor)
    except PayloadError:
        return None


def whole(data: bytes, redactor: Redactor) -> Excerpt | None:
    try:
        fields = decode(data)
    except UNREADABLE:
        return None
    texts: list[str] = []
    found = visible(fields, redactor.hides, texts, -1)  # its values are the first level
    return Excerpt(cast("dict[str, object]", found), texts) if isinstance(found, dict) else None


def shown(fields: Mapping[str, msgspec.Raw], limit: int, redactor: Redactor) -> Excerpt:
    """Choose what is shown: as many fields as fit into `limit` bytes, without the values that their keys hide."""
    found: dict[str, object] = {}
    texts: list[str] = []
    size = 0
    for key, raw in fields.items():
        if size > limit:
            return Excerpt(found, texts, is_whole=False)
        texts.append(key)
        found[key] = value_of(key, raw, redactor, texts)
        size += len(key) + (HIDDEN if len(raw) > LARGE else len(raw))
    return Excerpt(found, texts)


def value_of(key: str, raw: msgspec.Raw, redactor: Redactor, texts: list[str]) -> object:
    if redactor.hides(key):
        return REDACTED
    if len(raw) > LARGE:
        return {"omitted_bytes": len(raw)}
    try:
        return visible(msgspec.json.decode(raw), redactor.hides, texts)
    except UNREADABLE:
        return {"omitted_bytes": len(raw)}


def visible(value: object, hides: Callable[[str], bool], texts: list[str], depth: int = 0) -> object:
    """Return decoded JSON without what its keys hide; add every remaining text, keys too, to `texts`."""
    kind = type(value)
    if kind is str:
        texts.append(cast("str", value))
        return value
    if kind is not dict and kind is not list:
        return value
    if depth > DEEP:
        return "[too deep]"
    if kind is list:
        return [visible(one, hides, texts, depth + 1) for one in cast("list[object]", value)]
    found: dict[str, object] = {}
    for key, one in cast("dict[str, object]", value).items():
        texts.append(key)
        if hides(key):
            found[key] = REDACTED
        elif type(one) is str:  # most are, and a call for each is what this costs
            texts.append(one)
            found[key] = one
        else:
            found[key] = visible(one, hides, texts, depth + 1)
    return found


def cleaned(value: object, redactor: Redactor) -> object:
    """Return a value with the secrets in its texts replaced."""
    if isinstance(value, str):
        return redactor.clean(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {redactor.clean(key): cleaned(one, redactor) for key, one in fields.items()}
    if isinstance(value, list):
        return [cleaned(one, redactor) for one in cast("list[object]", value)]
    return value


def encode(excerpt: Excerpt, limit: int, redactor: Redactor | None = None) -> tuple[msgspec.Raw | None, str | None]:
    """Encode an excerpt: whole, as JSON, or its first `limit` bytes, as text.  A redactor cleans its texts first."""
    fields = excerpt.fields if redactor is None else cast("dict[str, object]", cleaned(excerpt.fields, redactor))
    data = msgspec.json.encode(fields)
    if excerpt.is_whole and len(data) <= limit:
        return msgspec.Raw(data), None
    return None, data[:limit].decode("utf-8", "ignore")
