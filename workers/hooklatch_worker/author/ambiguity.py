"""A detector of JSON that parsers may read differently: a key twice in one object, or a number out of range.

For a repeated key some parsers keep the first value and others the last, so a guard could see a different command than
the one that runs; msgspec silently keeps the last.

The detection needs no parser of our own.  If decoding and encoding give back the same bytes, no entry was dropped, and
most programs write JSON just like that.  In any other spelling, exactly the colons of dropped entries are lost, and
each entry had at least one.  Encoders do not escape colons; escaped ones in the source (\\u003a) are counted as well.
"""

from __future__ import annotations

import msgspec

__all__ = ["decode_checked", "find_ambiguity"]

MAX_NAMED = 64 * 2**10  # bytes; in larger documents the key is not named, which takes ten times as long as detection

decode = msgspec.json.Decoder(object).decode
encode = msgspec.json.Encoder().encode


def find_ambiguity(data: bytes) -> str | None:
    """Return why parsers may read this JSON differently, or None."""
    return decode_checked(data)[1]


def decode_checked(data: bytes) -> tuple[object, str | None]:
    """Return the value of a JSON text and None, or None and why parsers may read the text differently."""
    try:
        value = decode(data)
        encoded = encode(value)
    except RecursionError:
        return None, "it is nested too deep"
    except (msgspec.MsgspecError, UnicodeError, ValueError, MemoryError) as error:
        return None, str(error)
    # Counting takes as long as decoding and encoding together, where a text has line ends.
    if encoded == data or encoded.count(b":") == (count_colons(data) if b"\\" in data else data.count(b":")):
        return value, None
    key = f"the key {name_repeated_key(data)}" if len(data) <= MAX_NAMED else "a key"
    return None, f"{key} occurs twice in one object"


def count_colons(data: bytes) -> int:
    """Count the colons in a document, escaped or not, both between tokens and in strings."""
    plain = data.count(b":")
    if b"\\u003" not in data:
        return plain
    escapes = data.replace(b"\\\\", b"")  # so that an escaped backslash does not start an escape
    return plain + escapes.count(b"\\u003a") + escapes.count(b"\\u003A")


def name_repeated_key(data: bytes) -> str:
    import json

    repeated: list[str] = []

    def read(pairs: list[tuple[str, object]]) -> None:
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                repeated.append(key)
            keys.add(key)

    json.loads(data, object_pairs_hook=read)
    return ascii(repeated[0][:100])
