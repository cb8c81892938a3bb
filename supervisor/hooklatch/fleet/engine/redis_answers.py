"""The answers of Redis as values of ours.

An answer is of version 3 of its protocol, as coredis reads it: bytes, numbers, lists, sets, maps and None.  An answer
of a shape that no Redis sends is refused: the server may be another program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from hooklatch.fleet.engine.engine import EngineRefusedError, RecordBatch

__all__ = [
    "Entry", "StreamInfo", "read_batches", "read_clock", "read_single_stream", "read_entries", "fits_command",
    "is_written", "read_scan_keys", "read_stream_info", "format_redis_word",
]  # fmt: skip

WRITTEN = re.compile(rb"[0-9]{1,18}")
Entry = tuple[tuple[int, int], dict[bytes, bytes]]  # of a stream: its id, and its fields
KINDS: dict[str, tuple[type, ...]] = {
    "CONFIG GET": (dict,),
    "GET": (bytes, type(None)),
    "HELLO": (dict,),
    "HGETALL": (dict,),
    "HSET": (int,),
    "INFO": (bytes,),
    "SADD": (int,),
    "SCAN": (list,),
    "SETNX": (int,),
    "SMEMBERS": (set,),
    "TIME": (list,),
    "XADD": (bytes,),
    "XINFO STREAM": (dict,),
    "XLEN": (int,),
    "XRANGE": (list,),
    "XREAD": (dict, type(None)),
    "XREVRANGE": (list,),
    "XTRIM": (int,),
}


class StreamInfo(msgspec.Struct, frozen=True):
    """The facts of a stream: how many entries it has and was ever given, the newest id ever, and the newest now."""

    count: int
    added: int
    newest_ever: tuple[int, int]
    newest: tuple[int, int] | None

    @property
    def is_whole(self) -> bool:
        """Return whether its entries are numbered from 1 to their count, and none was ever removed."""
        return self.newest_ever == self.newest == (self.count, 0)


def fits_command(command: str, answer: object) -> bool:
    """Return whether an answer is of a kind that Redis gives to a command."""
    return isinstance(answer, KINDS[command])


def read_single_stream(streams: Any) -> list[Entry]:
    """Return the entries of an answer of XREAD for one stream, or for none."""
    answer = cast("dict[bytes, list[Any]]", streams or {})
    return [entry for entries in answer.values() for entry in read_entries(entries)]


def read_entries(entries: Sequence[Any]) -> list[Entry]:
    """Return the entries of a stream.

    Raises:
        EngineRefusedError: they are not entries.
    """
    try:
        return [(parse_stream_id(stream_id), read_entry_fields(fields)) for stream_id, fields in entries]
    except (TypeError, ValueError) as error:
        raise EngineRefusedError(
            f"the engine's answer is not an entry of a stream: {error}; check that its URL leads to a Redis"
        ) from None


def read_entry_fields(values: Sequence[Any]) -> dict[bytes, bytes]:
    if not all(isinstance(value, bytes) for value in values):
        raise TypeError("a field is not text")
    return dict(zip(values[::2], values[1::2], strict=True))


def read_scan_keys(answer: Sequence[Any]) -> tuple[bytes, list[str]]:
    """Return the cursor and the keys of an answer of SCAN; keys that are not text are not ours, and are left out.

    Raises:
        EngineRefusedError: it is not an answer of SCAN.
    """
    try:
        cursor, keys = answer
        if isinstance(cursor, bytes):
            return cursor, [key.decode(errors="replace") for key in keys if isinstance(key, bytes)]
    except (TypeError, ValueError):
        pass
    raise EngineRefusedError("the engine's answer to SCAN is not a list of keys; check that its URL leads to a Redis")


def parse_stream_id(stream_id: bytes) -> tuple[int, int]:
    """Return the two numbers of an id.

    Raises:
        EngineRefusedError: it is not an id.
    """
    try:
        first, _, second = stream_id.decode().partition("-")
        return int(first), int(second)
    except (AttributeError, ValueError):
        raise EngineRefusedError(
            f"the engine answers {stream_id!r}, which is not an id of a stream; check that its URL leads to a Redis"
        ) from None


def read_stream_info(facts: Mapping[bytes, Any]) -> StreamInfo:
    """Return the facts of an answer of XINFO STREAM.

    Raises:
        EngineRefusedError: it lacks some, or they are not of their kind.
    """
    try:
        last = facts[b"last-entry"]
        newest = None if last is None else parse_stream_id(last[0])
        return StreamInfo(
            int(facts[b"length"]), int(facts[b"entries-added"]), parse_stream_id(facts[b"last-generated-id"]), newest
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EngineRefusedError(
            f"the engine's answer to XINFO STREAM cannot be read: {error!r}; check that its URL leads to a Redis"
        ) from None


def read_clock(answer: Sequence[Any]) -> tuple[int, int]:
    """Return the seconds and µs since the epoch of an answer of TIME.

    Raises:
        EngineRefusedError: it is not a time.
    """
    try:
        seconds, microseconds = answer
        return int(seconds), int(microseconds)
    except (TypeError, ValueError):
        raise EngineRefusedError(
            "the engine's answer to TIME is not a time; check that its URL leads to a Redis"
        ) from None


def format_redis_word(value: object) -> str:
    """Return a word of an answer as text for people."""
    return value.decode(errors="replace") if isinstance(value, bytes) else repr(value)


def is_written(text: object) -> bool:
    """Return whether a text is a number that we may have written: a host may write any, and of thousands of digits."""
    return isinstance(text, bytes) and WRITTEN.fullmatch(text) is not None


def read_batches(entries: Sequence[Any]) -> list[RecordBatch]:
    """Return batches; an entry that no link writes becomes a batch of its own number, with any data that it has."""
    batches: list[RecordBatch] = []
    for (last, _), fields in read_entries(entries):
        first, at = (fields.get(name, b"") for name in (b"f", b"a"))
        first_seq, taken = int(first) if is_written(first) else last, int(at) if is_written(at) else 0
        batches.append(RecordBatch(first_seq, last, fields.get(b"d", b""), taken))
    return batches
