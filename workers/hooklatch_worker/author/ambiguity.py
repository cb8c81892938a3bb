"""Finds JSON that two readers could read differently: a key that stands twice in one object, a number out of range.

Of a repeated key one reader takes the first and another the last, so a guard could be shown another command than the
one that runs; msgspec takes the last and says nothing.

How it is found without a parser of our own: decoded and encoded again, a document has all its colons but those of the
entries that were dropped, each of which had one at least.  An encoder escapes no colon; where the source has some
escaped (\\u003a), they are counted with the plain ones.
"""

from __future__ import annotations

import msgspec

__all__ = ["ambiguity"]

MAX_NAMED = 64 * 2**10  # bytes in which the key is looked for, to name it: that takes ten times as long as to find out

decode = msgspec.json.Decoder(object).decode
encode = msgspec.json.Encoder().encode


def ambiguity(data: bytes) -> str | None:
    """Return why not everybody would read this JSON alike; None where everybody does."""
    try:
        kept = encode(decode(data)).count(b":")
    except RecursionError:
        return "it is nested too deep"
    except (msgspec.MsgspecError, UnicodeError, ValueError, MemoryError) as error:
        return str(error)
    if kept == colons(data):
        return None
    key = f"the key {named(data)}" if len(data) <= MAX_NAMED else "a key"
    return f"{key} stands twice in one object"


def colons(data: bytes) -> int:
    """Count the colons of a document, escaped or not, between its tokens or in its strings."""
    plain = data.count(b":")
    if b"\\u003" not in data:
        return plain
    escapes = data.replace(b"\\\\", b"")  # what follows an escaped backslash is no escape
    return plain + escapes.count(b"\\u003a") + escapes.count(b"\\u003A")


def named(data: bytes) -> str:
    import json

    repeated: list[str] = []

    def read(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                repeated.append(key)
            seen.add(key)

    json.loads(data, object_pairs_hook=read)
    return ascii(repeated[0][:100])
