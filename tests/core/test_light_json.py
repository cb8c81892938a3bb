"""Light JSON: strings are written as msgspec writes them, and lines of ours are read as msgspec reads them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from hooklatch.core.light_json import parse_own_object, quote_unicode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=20,
)


def read_by_msgspec(line: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def test_each_character_is_quoted_as_msgspec_does() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x11000), 0x10FFFF):
        assert quote_unicode(chr(code)).encode() == msgspec.json.encode(chr(code)), hex(code)


@given(st.dictionaries(st.text(), VALUES))
def test_what_msgspec_writes_is_read_as_it_was(table: dict[str, Any]) -> None:
    assert parse_own_object(msgspec.json.encode(table) + b"\n") == table


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
@example(b'{"a":1,"a":2}')
@example(b'{"a":"\\ud800"}')
@example(b'{"\\udc00":1}')
@example(b'{"a":"\\ud83d\\ude00"}')
@example(b'{"a":NaN}')
@example(b'{"a":1}{"b":2}')
@example(b'{"a":1')
@example(b"[1]")
@example(b"")
@example(b'{"a":"\xff"}')
@example(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
def test_what_is_no_object_of_ours_is_told_apart_as_by_msgspec(line: bytes) -> None:
    assert parse_own_object(line) == read_by_msgspec(line)
