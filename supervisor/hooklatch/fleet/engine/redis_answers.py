"""The answers of Redis as values of ours: of version 3 of its protocol, as coredis reads it.

An answer of a shape that no Redis sends is an EngineRefusedError: the server may be another program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hooklatch.fleet.bundles import MAX_BUNDLE
from hooklatch.fleet.engine.engine import EngineRefusedError, RecordBatch

__all__ = [
    "Entry", "StreamInfo", "bound_answer", "convert_answer", "read_batches", "read_entries", "is_written",
    "read_stream_info", "format_redis_word",
]  # fmt: skip

MAX_SIGNATURE = 200
WRITTEN = re.compile(rb"[0-9]{1,18}")
Entry = tuple[tuple[int, int], dict[bytes, bytes]]  # of a stream: its id, and its fields
StoredEntry = tuple[bytes, list[bytes]]
SHAPES: dict[str, Any] = {
    "ACL DELUSER": int,
    "ACL SAVE": bytes,
    "ACL SETUSER": bytes,
    "CONFIG GET": dict[bytes, bytes],
    "GET": bytes | None,
    "GETDEL": bytes | None,
    "HELLO": dict[bytes, Any],
    "HGETALL": dict[bytes, bytes],
    "HSET": int,
    "INFO": bytes,
    "SADD": int,
    "SCAN": tuple[bytes, list[bytes]],
    "SET": bytes,
    "SETNX": int,
    "SMEMBERS": set[bytes],
    "TIME": tuple[bytes, bytes],
    "XADD": bytes | None,
    "XINFO STREAM": dict[bytes, Any],
    "XLEN": int,
    "XRANGE": list[StoredEntry],
    "XREAD": dict[bytes, list[StoredEntry]] | None,
    "XREVRANGE": list[StoredEntry],
    "XTRIM": int,
}


KIB, MIB = 2**10, 2**20
SMALL = 64 * KIB
LARGE = 16 * MIB  # an entry of a log, which a host may write as large as it likes
# Bytes of the answers to a command, by what it may bring; the others are small.
BOUNDS = {
    "GET": MAX_BUNDLE + SMALL, "HGETALL": LARGE, "SCAN": LARGE, "SMEMBERS": LARGE, "XINFO STREAM": 2 * LARGE,
    "XREAD": 2 * LARGE,
}  # fmt: skip
COUNTED = {"XRANGE": LARGE, "XREVRANGE": LARGE}  # for each entry


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


def convert_answer(command: str, answer: object) -> Any:
    """Return an answer if Redis gives such an answer to the command.

    Raises:
        msgspec.ValidationError: it does not.
    """
    return msgspec.convert(answer, SHAPES[command], builtin_types=(bytes,))


def bound_answer(command: str, arguments: Sequence[bytes | str | int]) -> int:
    """Return how many bytes an answer to a command may have: what is longer is not taken into memory."""
    count = int(arguments[arguments.index("COUNT") + 1]) if command in COUNTED and "COUNT" in arguments else 1
    return count * COUNTED[command] if command in COUNTED else BOUNDS.get(command, SMALL)


def read_entries(entries: Sequence[StoredEntry]) -> list[Entry]:
    """Return the entries of a stream."""
    try:
        return [
            (parse_stream_id(stream_id), dict(zip(fields[::2], fields[1::2], strict=True)))
            for stream_id, fields in entries
        ]
    except ValueError as error:
        raise EngineRefusedError(
            f"the engine's answer is not an entry of a stream: {error}; check that its URL leads to a Redis"
        ) from None


def parse_stream_id(stream_id: bytes) -> tuple[int, int]:
    first, _, second = stream_id.decode().partition("-")
    return int(first), int(second)


def read_stream_info(facts: Mapping[bytes, Any]) -> StreamInfo:
    """Return the facts of an answer of XINFO STREAM."""
    try:
        last = facts[b"last-entry"]
        newest = None if last is None else parse_stream_id(last[0])
        return StreamInfo(
            int(facts[b"length"]), int(facts[b"entries-added"]), parse_stream_id(facts[b"last-generated-id"]), newest
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineRefusedError(
            f"the engine's answer to XINFO STREAM cannot be read: {error!r}; check that its URL leads to a Redis"
        ) from None


def format_redis_word(value: object) -> str:
    """Return a word of an answer as text for people."""
    return value.decode(errors="replace") if isinstance(value, bytes) else repr(value)


def is_written(text: bytes) -> bool:
    """Return whether a text is a number that we may have written: a host may write any, and of thousands of digits."""
    return WRITTEN.fullmatch(text) is not None


def read_batches(entries: Sequence[StoredEntry]) -> list[RecordBatch]:
    """Return batches; an entry that no link writes becomes a batch of its own number, with any data that it has."""
    batches: list[RecordBatch] = []
    for (last, _), fields in read_entries(entries):
        first, at = (fields.get(name, b"") for name in (b"f", b"a"))
        first_seq, taken = int(first) if is_written(first) else last, int(at) if is_written(at) else 0
        signature = fields.get(b"s", b"")[:MAX_SIGNATURE].decode("ascii", "replace")
        batches.append(RecordBatch(first_seq, last, fields.get(b"d", b""), taken, signature))
    return batches
