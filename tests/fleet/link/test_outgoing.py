"""What leaves the machine, and what does not: batches of a record as the engine gets them."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.fleet.batches import BatchError, PackedBatch, find_newest_place
from hooklatch.fleet.link.shipping import SYNC, Resume, ShippedHead, ShippingReader
from hooklatch.fleet.settings import DEFAULT_FIELDS
from hooklatch.record.storage.chain import GENESIS, seal_entry
from hooklatch.record.storage.mark import Anchor
from support.link_parts import WrittenRecord
from support.profiles import examples

ALWAYS = {"seq", "prev", "at", "kind", "hash"}
STRUCTURE = {"skipped", "first_seq", "kept_seq", "kept_prev", "lost"}  # of segments and retirements, of numbers alone
NAMES = st.sampled_from([*DEFAULT_FIELDS[:12], "excerpt", "excerpt_cut", "cwd", "patch", "new_in_2030", "seq2", "é"])
TEXT = st.text('ab,"\\{}:\n\u00e9\u2028', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["decision", "abandoned", "segment", "retired", "settings", "made_up_later"])


class Clock:
    """A clock that a test winds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def outgoing_of(folder: Path, fields: Any = ("verdict",), after: int = 0, clock: Clock | None = None) -> ShippingReader:
    found = ShippingReader(str(folder), "h1", fields, now=clock or Clock())
    found.seek(Resume(1, after))
    return found


def batches(outgoing: ShippingReader) -> list[PackedBatch]:
    found: list[PackedBatch] = []
    while (packed := outgoing.next()) is not None:
        found.append(packed)
    return found


def documents(found: list[PackedBatch]) -> list[dict[str, Any]]:
    return [json.loads(line) for one in found for line in zlib.decompress(one.data).split(b"\n")[1:]]


@examples(60)
@given(
    st.lists(st.tuples(KINDS, st.dictionaries(NAMES, VALUES, max_size=6)), min_size=1, max_size=8),
    st.sets(NAMES, max_size=6),
)
def test_nothing_else_leaves_than_the_configured_fields(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, dict[str, Any]]], fields: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("record")
    lines: list[bytes] = []
    prev = GENESIS
    for seq, (kind, body) in enumerate(records, 1):
        line, prev = seal_entry(seq, prev, "2026-01-01T00:00:00.000Z", kind, json.dumps(body).encode())
        lines.append(line)
    (folder / f"{1:016d}.jsonl").write_bytes(b"".join(lines))

    found = documents(batches(outgoing_of(folder, fields)))

    assert [one["seq"] for one in found] == list(range(1, len(records) + 1))
    assert find_newest_place(batches(outgoing_of(folder, fields))[-1].data, len(records)).hash == prev
    for shipped, line in zip(found, lines, strict=True):
        whole = json.loads(line)
        allowed = {*ALWAYS, *fields, *(STRUCTURE if whole["kind"] in ("segment", "retired") else ())}
        assert shipped == {name: value for name, value in whole.items() if name in allowed}


def test_not_a_byte_of_what_stays_is_in_a_batch(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(3, verdict="deny", excerpt={"tool_input": {"command": "SECRET"}}, cwd="/SECRET", reason="ok SECRET")

    (packed,) = batches(outgoing_of(record.folder, ("verdict",)))

    assert b"SECRET" not in zlib.decompress(packed.data)


def test_batches_are_bounded_by_count_and_by_bytes(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(2500, verdict="allow")
    record.write(40, verdict="x" * 50_000)

    found = batches(outgoing_of(record.folder))

    assert max(one.records for one in found) == 1000
    assert max(len(zlib.decompress(one.data)) for one in found) < 512 * 1024
    assert [one["seq"] for one in documents(found)] == list(range(1, 2541))


def test_what_is_not_on_the_disk_waits_but_not_for_ever(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(5)
    first = json.loads(record.lines[2])
    anchor = Anchor(str(record.folder), 3, first["hash"])
    clock = Clock()
    outgoing = outgoing_of(record.folder, clock=clock)

    (synced,) = batches(outgoing)
    assert (synced.first, synced.last) == (1, 3)
    assert outgoing.has_more()
    anchor.advance(4, json.loads(record.lines[3])["hash"])
    (later,) = batches(outgoing)
    assert (later.first, later.last) == (4, 4)
    clock.now = SYNC
    (late,) = batches(outgoing)
    assert (late.first, late.last) == (5, 5)
    assert not outgoing.has_more()
    anchor.close()


def test_an_anchor_that_cannot_be_read_holds_nothing_back(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(5)
    (record.folder / "anchor").write_text("damage")

    assert [one.last for one in batches(outgoing_of(record.folder))] == [5]


def test_a_torn_tail_waits_until_it_is_whole_or_gone(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(2)
    path = record.folder / f"{1:016d}.jsonl"
    end = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"seq":3,"prev":"torn')
    outgoing = outgoing_of(record.folder)

    assert [one.last for one in batches(outgoing)] == [2]
    os.truncate(path, end)  # as recovery does
    record.write(1)
    assert [one.last for one in batches(outgoing)] == [3]
    assert not outgoing.findings


def test_damaged_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(6)
    path = record.folder / f"{1:016d}.jsonl"
    path.write_bytes(b"".join([*record.lines[:2], b"damage\n", record.lines[1], *record.lines[3:]]))
    outgoing = outgoing_of(record.folder)

    found = batches(outgoing)

    assert [one["seq"] for one in documents(found)] == [1, 2, 4, 5, 6]
    assert outgoing.lost >= 1
    assert "damaged" in outgoing.findings[0]


def test_numbers_that_a_crash_skipped_are_not_lost(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(3)
    record.seq = 10_000
    record.rotate()
    record.write(1, kind="segment", skipped={"first": 4, "last": 10_000})
    outgoing = outgoing_of(record.folder)

    assert [one["seq"] for one in documents(batches(outgoing))] == [1, 2, 3, 10_001]
    assert (outgoing.lost, outgoing.findings) == (0, [])


def test_segments_that_are_removed_under_the_reader_are_counted(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    for _ in range(4):
        record.write(3)
        record.rotate()
    outgoing = outgoing_of(record.folder)
    assert outgoing.next() is not None
    record.retire(before=10)

    found = batches(outgoing)

    assert [one["seq"] for one in documents(found)] == [10, 11, 12]
    assert outgoing.lost == 6


def test_it_compares_with_the_record_on_the_disk(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(9)
    outgoing = outgoing_of(record.folder)
    fifth = json.loads(record.lines[4])["hash"]

    assert outgoing.compare(ShippedHead(1, 5, fifth)) == Resume(1, 5, fifth)
    assert outgoing.compare(ShippedHead(1, 5, "0" * 64)).is_rewritten
    assert outgoing.compare(ShippedHead(1, 10, "0" * 64)).is_rewritten
    assert outgoing.compare(None) == Resume(1)


def test_what_was_shipped_last_is_found_whatever_else_is_in_the_batch(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path / "record")
    record.write(2, kind="made_up_later", verdict=None, outcomes="none", new={"in": 2030})
    (packed,) = batches(outgoing_of(record.folder, ("verdict", "outcomes", "new")))

    assert find_newest_place(packed.data, 2).hash == record.hash
    for data, last in ((packed.data, 1), (packed.data[:-3], 2), (b"", 2), (zlib.compress(b"{}\n{}"), 2)):
        with pytest.raises(BatchError):
            find_newest_place(data, last)


def test_what_is_packed_again_is_not_lost_again(tmp_path: Path) -> None:
    record = WrittenRecord(tmp_path)
    record.write(9)
    outgoing = outgoing_of(tmp_path)

    for _ in range(3):  # connections that ended before the batch was acknowledged
        outgoing.seek(Resume(1, 5, finding="records 2 to 5 were removed", lost=4))
        assert outgoing.next() is not None

    assert outgoing.lost == 4
