"""The chain's lines: how they are sealed, and when they no longer match."""

from __future__ import annotations

import hashlib
import json

import pytest

from hooklatch.core.messages import ChainHead
from hooklatch.record.storage.chain import GENESIS, ChainLink, format_timestamp, make_head, read_link, seal_entry
from support.tables import table

AT = "2026-01-31T12:00:00.000Z"
LINE, OWN = seal_entry(1, GENESIS, AT, "started", b'{"pid":7,"hash":"x","nested":{"a":1,"hash":"y"}}')


def test_a_record_is_one_line_of_json_with_its_place_first_and_its_hash_last() -> None:
    record = json.loads(LINE, object_pairs_hook=lambda pairs: pairs)

    assert LINE.count(b"\n") == 1
    assert [key for key, _ in record] == ["seq", "prev", "at", "kind", "pid", "hash", "nested", "hash"]
    assert dict(record)["hash"] == OWN


def test_the_hash_is_that_of_the_lines_bytes_before_it() -> None:
    covered, _, _ = LINE.rpartition(b',"hash":"')

    assert hashlib.sha256(covered).hexdigest() == OWN


def test_a_record_without_fields_has_a_hash_too() -> None:
    line, own = seal_entry(2, OWN, AT, "stopped", b"{}")

    assert read_link(line) == ChainLink(2, OWN, AT, "stopped", own)


def test_a_line_is_read_with_and_without_its_end() -> None:
    assert read_link(LINE) == read_link(LINE[:-1]) == ChainLink(1, GENESIS, AT, "started", OWN)


def test_any_other_byte_anywhere_is_seen() -> None:
    for position in range(len(LINE) - 1):
        for bit in range(8):
            changed = bytearray(LINE)
            changed[position] ^= 1 << bit

            assert read_link(bytes(changed)) is None, (position, bit)


def test_a_beginning_of_a_line_is_no_line() -> None:
    for length in range(len(LINE) - 1):
        assert read_link(LINE[:length]) is None, length


@table(
    "line",
    [
        b"", b"\n", b"{}\n", b"\x00" * 200, LINE + LINE, LINE[:-1] + b" \n", LINE[1:],
        LINE[:10] + LINE,
    ],
)  # fmt: skip
def test_what_is_no_record_is_none(line: bytes) -> None:
    assert read_link(line) is None


def test_what_has_a_sound_hash_and_is_no_json_is_none() -> None:
    line, _ = seal_entry(1, GENESIS, AT, "started", b'{"pid":}')

    assert read_link(line) is None


def test_a_head_carries_half_of_the_hash() -> None:
    assert make_head(1, OWN) == ChainHead(1, OWN[:32])


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1769860800.9996, "2026-01-31T12:00:00.999Z"),
        (1769860801, "2026-01-31T12:00:01.000Z"),
    ],
)
def test_a_moment_is_utc_with_milliseconds(moment: float, text: str) -> None:
    assert format_timestamp(moment) == text


def test_moments_within_one_second_differ() -> None:
    assert [format_timestamp(5.001), format_timestamp(5.5), format_timestamp(4.0)] == [
        "1970-01-01T00:00:05.001Z", "1970-01-01T00:00:05.500Z", "1970-01-01T00:00:04.000Z",
    ]  # fmt: skip
