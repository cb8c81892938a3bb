"""Segments begin and end by size and age, and are retired by age and total size; the record states each."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from hooklatch.record.storage.reading import Filters, filter_entries
from hooklatch.record.verify import verify_record
from support.pools import until
from support.records import SETTINGS, decided, kinds, records, running, segments


async def test_a_segment_that_is_large_enough_is_followed_by_the_next(tmp_path: Path) -> None:
    small = msgspec.structs.replace(SETTINGS, segment_bytes=4000)
    async with running(tmp_path, small) as record:
        for number in range(30):
            head = decided(record, number)
            await until(lambda head=head: record.status()["synced_seq"] >= head.seq)

    found = segments(tmp_path)
    assert 5 <= len(found) <= 10
    for before, after in pairwise(found):
        (last, first) = (
            list(filter_entries(iter(path.read_bytes().splitlines(True)), Filters())) for path in (before, after)
        )
        assert (first[0]["kind"], first[0]["name"]) == ("segment", after.name)
        assert first[0]["previous"] == {"name": before.name, "seq": last[-1]["seq"], "hash": last[-1]["hash"]}
    assert verify_record(str(tmp_path)).ok


async def test_a_segment_that_is_old_enough_is_followed_by_the_next(tmp_path: Path) -> None:
    now = [time.time()]
    async with running(tmp_path, SETTINGS, clock=lambda: now[0]) as record:
        decided(record)
        await until(lambda: record.status()["synced_seq"] == 3)
        now[0] += SETTINGS.segment_age
        decided(record)
        await until(lambda: record.status()["segments"] == 2)

    async with running(tmp_path, SETTINGS, clock=lambda: now[0] + SETTINGS.segment_age) as record:
        decided(record)
        await until(lambda: record.status()["segments"] == 3)
    assert verify_record(str(tmp_path)).ok


async def test_an_old_segment_without_a_record_of_its_own_is_not_followed(tmp_path: Path) -> None:
    now = [time.time()]
    async with running(tmp_path, SETTINGS, clock=lambda: now[0]) as record:
        await until(lambda: record.status()["synced_seq"] == 2)
        now[0] += 10 * SETTINGS.segment_age
        record.append("reloaded")
        await until(lambda: record.status()["synced_seq"] == 4)

        assert record.status()["segments"] == 2


async def filled(folder: Path, count: int) -> None:
    """Leave a record of about `count` segments."""
    small = msgspec.structs.replace(SETTINGS, segment_bytes=1000)
    async with running(folder, small) as record:
        while record.status()["segments"] < count:
            head = decided(record)
            await until(lambda head=head: record.status()["synced_seq"] >= head.seq)


async def test_the_oldest_segments_go_when_there_are_too_many_bytes_and_the_record_says_so(tmp_path: Path) -> None:
    await filled(tmp_path, 6)
    before = segments(tmp_path)
    (tmp_path / f"{before[0].name}.torn-1").write_bytes(b"torn")
    first_left = records_of(before[-2])[0]
    keep = sum(path.stat().st_size for path in before[-2:]) + 1000
    async with running(tmp_path, msgspec.structs.replace(SETTINGS, keep_bytes=keep)) as record:
        await until(lambda: len(segments(tmp_path)) == 2)
        assert record.status()["segments"] == 2

    (retired,) = (one for one in records(tmp_path) if one["kind"] == "retired")
    assert retired["segments"] == [path.name for path in before[:-2]]
    assert (retired["first_seq"], retired["kept_seq"], retired["lost"]) == (1, first_left["seq"], 0)
    assert retired["kept_prev"] == first_left["prev"]
    assert not [name for name in os.listdir(tmp_path) if ".torn-" in name]
    report = verify_record(str(tmp_path))
    assert report.ok
    assert report.notes == [
        f"records 1 to {first_left['seq'] - 1} were removed by retention, says record {retired['seq']}"
    ]


def records_of(path: Path) -> list[dict[str, object]]:
    return [one for one in records(path.parent) if one["seq"] >= int(path.stem)]


async def test_segments_go_when_they_are_too_old_and_the_current_one_never(tmp_path: Path) -> None:
    await filled(tmp_path, 4)
    for path in segments(tmp_path):
        os.utime(path, (1, 1))

    async with running(tmp_path) as record:
        await until(lambda: len(segments(tmp_path)) == 1)
        decided(record)

    assert verify_record(str(tmp_path)).ok
    assert kinds(tmp_path)[0] == "segment"


async def test_a_smaller_limit_holds_at_once(tmp_path: Path) -> None:
    await filled(tmp_path, 4)
    async with running(tmp_path) as record:
        assert len(segments(tmp_path)) == 4

        record.apply(msgspec.structs.replace(SETTINGS, keep_bytes=1))

        await until(lambda: len(segments(tmp_path)) == 1)


async def test_a_removal_that_was_interrupted_is_explained_too(tmp_path: Path) -> None:
    await filled(tmp_path, 6)
    before = {path: path.read_bytes() for path in segments(tmp_path)}
    async with running(tmp_path, msgspec.structs.replace(SETTINGS, keep_bytes=1)):
        await until(lambda: len(segments(tmp_path)) == 1)
    for path in list(before)[2:-1]:  # as if it had come no further
        path.write_bytes(before[path])

    report = verify_record(str(tmp_path))

    assert report.ok, report.findings


@pytest.mark.parametrize("chosen", [0, 1, -1])
async def test_a_removal_that_nobody_recorded_is_found(tmp_path: Path, chosen: int) -> None:
    await filled(tmp_path, 4)
    segments(tmp_path)[chosen].unlink()

    report = verify_record(str(tmp_path))

    assert [finding.what for finding in report.findings] == ["missing"]
