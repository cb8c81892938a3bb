"""The excerpt of a payload that is recorded: enough to know what was judged, no secret, and no file.

It has the top-level keys with their values, and the length in place of a value over 4 KiB.  No payload makes it raise.

Nearly always nothing is hidden, and then the excerpt is decoded, searched and encoded once.  A copy is made only of a
value that hides a key or holds a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

import msgspec

from hooklatch.core.payload import Payload
from hooklatch.core.text import REDACTED, TOO_DEEP
from hooklatch.record.redaction import WINDOW, Redactor, decode_inner_json
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = ["UNREADABLE", "replace_secrets", "excerpt_object", "excerpt_fields", "excerpt_payload", "hide_keys"]

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


def excerpt_payload(payload: Payload, limit: int, redactor: Redactor) -> Excerpt:
    """Return the excerpt of a payload; nothing if it has no fields, or would have to be read only for this."""
    data = payload.data
    try:
        if len(data) <= LARGE and len(data) <= limit:  # no value is large, and all fit
            return redact_fields(decode_fields(data), limit, redactor)
        if limit <= 0 or (not payload.is_read and (len(data) > UNREAD or data.count(b":") > COLONS)):
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
