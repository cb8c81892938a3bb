"""What every target of the fuzzer needs: bytes in pieces, a document of bytes, and a look at an error."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

__all__ = ["pieces", "document", "said"]

LIMITED = 2**12  # characters that an error may say of a document, however long that is


def pieces(data: bytes) -> Iterator[bytes]:
    """Cut bytes as a socket might, at places that their first byte decides."""
    step = data[0] % 7 + 1 if data else 1
    for start in range(0, len(data), step):
        yield data[start : start + step]


def document(data: bytes) -> object:
    """Return the JSON in bytes; anything else stands for itself, as a text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")


def said(error: Exception) -> None:
    """Look at an error: it tells something, and does not repeat a whole document."""
    assert str(error)
    assert len(str(error)) < LIMITED, f"an error of {len(str(error))} characters"
