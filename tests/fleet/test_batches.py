"""Batches: what leaves a machine, and what is refused where it arrives."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.fleet.batches import (
    MAX_DATA,
    MAX_RECORDS,
    BatchError,
    PackedBatch,
    ShippedRecord,
    pack_batch,
    unpack_batch,
)
from hooklatch.record.storage.chain import GENESIS, seal_entry
from support.profiles import examples
from support.records import SETTINGS, decision, fact, lines, opened, records
from support.tables import table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a record of three decisions."""
    with opened(tmp_path / "record", SETTINGS) as record:
        for number in range(3):
            record.append_decision(decision(number), fact(cwd="/home/me/secret-project"))
    return tmp_path / "record"


KEYS = ("seq", "prev", "at", "kind", "hash", "verdict", "reason", "outcomes", "warnings", "excerpt")


def packed(folder: Path, *fields: str) -> PackedBatch:
    made = pack_batch("build-7", 1, iter(lines(folder)), fields)
    assert made is not None
    return made


def unpacked(made: PackedBatch, **other: Any) -> list[ShippedRecord]:
    place: dict[str, Any] = {"host": "build-7", "epoch": 1, "first": made.first, "last": made.last}
    return unpack_batch(made.data, **{**place, **other})


def chain(count: int, body: bytes = b"{}") -> list[bytes]:
    prev, made = GENESIS, list[bytes]()
    for seq in range(1, count + 1):
        line, prev = seal_entry(seq, prev, "2026-01-31T12:00:00.000Z", "decision", body)
        made.append(line)
    return made


def test_with_all_fields_a_record_is_the_line_itself(folder: Path) -> None:
    found = unpacked(packed(folder, *(name for record in records(folder) for name in record)))

    assert [one.document for one in found] == records(folder)
    assert all(one.is_whole for one in found)


def test_only_the_configured_fields_leave_the_machine(folder: Path) -> None:
    found = unpacked(packed(folder, "verdict"))

    (first, *_) = (one for one in found if one.kind == "decision")
    assert set(first.document) == {"seq", "prev", "at", "kind", "hash", "verdict"}
    assert not first.is_whole


def test_what_explains_a_gap_always_leaves() -> None:
    body = b'{"skipped":{"first":1,"last":1},"reason":"x"}'
    line, _ = seal_entry(2, GENESIS, "2026-01-31T12:00:00.000Z", "segment", body)
    made = pack_batch("build-7", 1, [line], ())
    assert made is not None

    assert unpacked(made)[0].document["skipped"] == {"first": 1, "last": 1}


def test_a_batch_ends_when_it_is_full_and_the_next_goes_on() -> None:
    source = iter(chain(MAX_RECORDS + 5))

    first, second = pack_batch("build-7", 1, source, ()), pack_batch("build-7", 1, source, ())

    assert first is not None
    assert second is not None
    assert (first.first, first.last, second.first, second.last) == (1, MAX_RECORDS, MAX_RECORDS + 1, MAX_RECORDS + 5)
    assert pack_batch("build-7", 1, source, ()) is None


def test_long_records_fill_a_batch_sooner() -> None:
    made = pack_batch("build-7", 1, chain(10, json.dumps({"reason": "x" * 100_000}).encode()), ["reason"])

    assert made is not None
    assert made.records == 3


def test_of_a_record_beyond_all_bounds_its_place_is_shipped() -> None:
    made = pack_batch("build-7", 1, chain(1, json.dumps({"reason": "x" * 5_000_000}).encode()), ["reason"])
    assert made is not None

    assert set(unpacked(made)[0].document) == {"seq", "prev", "at", "kind", "hash"}


def test_a_line_that_is_no_record_is_counted_and_not_shipped() -> None:
    one, two, three = chain(3)

    made = pack_batch("build-7", 1, [one, two.replace(b"decision", b"decisiom"), one, b"torn", three], ["reason"])

    assert made is not None
    assert [record.seq for record in unpacked(made)] == [1, 3]
    assert made.unreadable == 3


def again(made: PackedBatch, old: bytes, new: bytes) -> bytes:
    text = zlib.decompress(made.data)
    assert old in text
    return zlib.compress(text.replace(old, new, 1))


MADE = pack_batch("build-7", 1, chain(3), ())
assert MADE is not None
HOSTILE = {
    "no zlib": b"not zlib",
    "empty": b"",
    "cut off": MADE.data[:-4],
    "something behind it": MADE.data + b"x",
    "no header": zlib.compress(b"".join(chain(3))),
    "another format": again(MADE, b'"format":1', b'"format":2'),
    "another host": again(MADE, b"build-7", b"build-8"),
    "another epoch": again(MADE, b'"epoch":1', b'"epoch":2'),
    "fewer than it says": again(MADE, b'"records":3', b'"records":4'),
    "another number": again(MADE, b'{"seq":2', b'{"seq":3'),
    "a number of yes": again(MADE, b'{"seq":2', b'{"seq":true'),
    "a number beyond all": again(MADE, b'{"seq":2', b'{"seq":2000000000000000000'),
    "no hash": again(MADE, b'"hash"', b'"hush"'),
    "outcomes of no shape": zlib.compress(zlib.decompress(MADE.data).replace(b'"kind"', b'"outcomes":[1],"kind"')),
    "no object": again(MADE, b'{"seq":2', b'["seq":2'),
    "deep": zlib.compress(b'{"a":' * 100_000),
    "no text": again(MADE, b"decision", b"\xff\xfe"),
}


@table(
    ("data", "fault"),
    [
        (b"x" * MAX_DATA, "it cannot be unpacked"),
        (b"x" * (MAX_DATA + 1), f"it has {MAX_DATA + 1} bytes; the most is {MAX_DATA}"),
        (zlib.compress(b" " * MAX_DATA), "its first line cannot be read"),
        (zlib.compress(b" " * (MAX_DATA + 1)), f"it has more than {MAX_DATA} bytes unpacked"),
    ],
    ids=["the most", "one more", "the most, unpacked", "one more, unpacked"],
)
def test_a_batch_has_a_size_packed_and_unpacked(data: bytes, fault: str) -> None:
    with pytest.raises(BatchError, match=fault):
        unpack_batch(data, host="build-7", epoch=1, first=1, last=1)


@table("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_the_batch_is_refused_as_a_whole(data: bytes) -> None:
    with pytest.raises(BatchError):
        unpack_batch(data, host="build-7", epoch=1, first=1, last=3)


def test_a_record_whose_content_was_changed_is_not_whole() -> None:
    data = again(MADE, b"decision", b"decisiom") if MADE is not None else b""

    found = unpack_batch(data, host="build-7", epoch=1, first=1, last=3)

    assert [one.is_whole for one in found] == [False, True, True]


@table("other", [{"host": "build-8"}, {"epoch": 2}, {"first": 2}, {"last": 4}])
def test_a_batch_that_stands_elsewhere_is_refused(other: dict[str, Any]) -> None:
    assert MADE is not None
    with pytest.raises(BatchError):
        unpacked(MADE, **other)


ANY_LINE = st.one_of(
    st.binary(max_size=40),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=9),
    ).map(lambda value: json.dumps(value).encode()),
)


@examples(100)
@given(st.lists(ANY_LINE, max_size=4), st.booleans())
def test_whatever_stands_there_is_a_batch_or_one_error(lines: list[bytes], has_header: bool) -> None:
    header = json.dumps({"format": 1, "host": "a", "epoch": 1, "first": 1, "last": 1, "records": len(lines)}).encode()
    data = zlib.compress(b"\n".join([header, *lines] if has_header else lines))

    with suppress(BatchError):
        assert unpack_batch(data, host="a", epoch=1, first=1, last=1)


def test_null_is_nothing_and_hides_no_record_beside_it() -> None:
    body = b'{"verdict":null,"reason":null,"outcomes":null,"warnings":null,"cause":"policy"}'
    made = pack_batch("build-7", 1, chain(1, body), ("verdict", "reason", "outcomes", "warnings", "cause"))
    assert made is not None

    (record,) = unpacked(made)

    assert record.is_whole
    assert set(record.document) == {"seq", "prev", "at", "kind", "cause", "hash"}
