"""What a fleet's engine has not acknowledged stays, up to a limit; what has to go nevertheless is counted and told."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec
import pytest

from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.chain import read_tail
from hooklatch.record.storage.mark import HighWaterMark
from hooklatch.record.storage.retention import count_unshipped, measure_segments, plan_retirement
from hooklatch.record.storage.segments import SegmentFile, list_segments
from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordWriter
from support.pools import until
from support.records import SETTINGS, decided, opened, records, running, segments
from support.tables import table

SMALL = msgspec.structs.replace(SETTINGS, segment_bytes=1000)
TIGHT = msgspec.structs.replace(SETTINGS, keep_bytes=1)  # everything but the current segment may go
MUCH = 2**30


def in_a_fleet(settings: RecordSettings, keep: int = MUCH) -> RecordSettings:
    return msgspec.structs.replace(settings, keep_unshipped_bytes=keep)


async def filled(folder: Path, count: int) -> None:
    """Leave a record of about `count` segments."""
    async with running(folder, SMALL) as record:
        while record.status()["segments"] < count:
            head = decided(record)
            await until(lambda head=head: record.status()["synced_seq"] >= head.seq)


def last_of(path: Path) -> int:
    tail = read_tail(SegmentFile(int(path.stem), str(path)))
    assert tail is not None
    return tail.link.seq


async def looked(record: RecordWriter) -> None:
    """Have retention look, after the look that it has at its start."""
    await until(lambda: record._retention_at > 0)
    await record._retire()


async def test_nothing_goes_that_was_not_acknowledged(tmp_path: Path) -> None:
    await filled(tmp_path, 5)
    before = segments(tmp_path)

    async with running(tmp_path, in_a_fleet(TIGHT)) as record:
        await looked(record)
        kept_at_first = segments(tmp_path)[: len(before)]
        record.set_shipped(last_of(before[1]) + 1)  # the third has records that are not there yet
        record._retention_at = 0.0
        await until(lambda: len(segments(tmp_path)) < len(before))
        await looked(record)
        left = segments(tmp_path)
        shipping = record.status()["shipping"]

    assert kept_at_first == before
    assert left[0] == before[2]
    assert (shipping["lost_records"], shipping["lost"]) == (0, [])
    assert not [one for one in records(tmp_path) if one["kind"] == "fault"]
    assert verify_record(str(tmp_path)).ok


async def test_an_engine_that_has_lost_some_takes_its_acknowledgement_back(tmp_path: Path) -> None:
    await filled(tmp_path, 4)
    before = segments(tmp_path)

    async with running(tmp_path, in_a_fleet(SETTINGS)) as record:
        record.set_shipped(last_of(before[-1]))
        record.set_shipped(0)
        record.apply(in_a_fleet(TIGHT))
        await looked(record)
        left = segments(tmp_path)

    assert left[: len(before)] == before


async def test_what_is_over_the_limit_goes_oldest_first_and_is_counted_and_recorded_before(tmp_path: Path) -> None:
    await filled(tmp_path, 6)
    before = segments(tmp_path)
    acknowledged = int(before[0].stem) + 1  # the first segment is acknowledged in part
    limit = sum(path.stat().st_size for path in before[3:]) + 2000

    async with running(tmp_path, in_a_fleet(SETTINGS, limit)) as record:
        record.set_shipped(acknowledged)
        record.apply(in_a_fleet(TIGHT, limit))
        await until(lambda: len(segments(tmp_path)) < len(before))
        await looked(record)
        left = segments(tmp_path)
        status = record.status()

    (retired,) = (one for one in records(tmp_path) if one["kind"] == "retired")
    (fault,) = (one for one in records(tmp_path) if one["kind"] == "fault")
    gone = before[: before.index(left[0])]
    lost = status["shipping"]
    assert 1 <= len(gone) <= 4
    assert retired["unshipped"]["first_seq"] == acknowledged + 1
    assert retired["unshipped"]["last_seq"] == last_of_removed(retired)
    assert lost["lost_records"] == retired["unshipped"]["records"] == last_of_removed(retired) - acknowledged
    assert lost["lost_bytes"] == retired["unshipped"]["bytes"] > 0
    assert fault["seq"] < retired["seq"]
    assert f"records {acknowledged + 1} to " in fault["text"]
    assert any("keep_unshipped_mib" in text for text in status["faults"])


def last_of_removed(retired: dict[str, int]) -> int:
    return retired["kept_seq"] - 1


async def test_a_loss_is_told_across_a_restart_until_it_is_acknowledged(tmp_path: Path) -> None:
    await filled(tmp_path, 4)
    async with running(tmp_path, in_a_fleet(TIGHT, 1)) as record:
        record.set_shipped(0)
        record._retention_at = 0.0
        await until(lambda: len(segments(tmp_path)) == 1)

    async with running(tmp_path, in_a_fleet(TIGHT, 1)) as record:
        told = [text for text in record.faults if "keep_unshipped_mib" in text]
        await record.acknowledge("the engine was away for a month")
        after = record.faults

    assert len(told) == 1
    assert after == []


async def test_until_a_link_says_so_all_may_take_what_both_limits_allow(tmp_path: Path) -> None:
    """After a restart everything seems to wait; that alone removes nothing, and is no loss."""
    await filled(tmp_path, 5)
    before = segments(tmp_path)
    total = sum(path.stat().st_size for path in before)
    half = msgspec.structs.replace(SETTINGS, keep_bytes=total // 2 + 4000)

    async with running(tmp_path, in_a_fleet(half, total // 2 + 4000)) as record:
        await looked(record)
        kept = segments(tmp_path)[: len(before)]
        lost = record.status()["shipping"]["lost"]
    async with running(tmp_path, in_a_fleet(TIGHT, total // 4)) as record:
        await until(lambda: len(segments(tmp_path)) < len(before))
        told = [text for text in record.faults if "no link has said what it has" in text]

    assert (kept, lost) == (before, [])
    assert len(told) == 1


async def test_without_a_fleet_all_is_as_before(tmp_path: Path) -> None:
    await filled(tmp_path, 4)
    async with running(tmp_path, TIGHT) as record:
        await until(lambda: len(segments(tmp_path)) == 1)
        shipping = record.status()["shipping"]

    (retired,) = (one for one in records(tmp_path) if one["kind"] == "retired")
    assert shipping is None
    assert "unshipped" not in retired


async def test_nothing_goes_by_settings_of_an_earlier_time(tmp_path: Path) -> None:
    """The main file may say otherwise, and is read later than the record is opened."""
    await filled(tmp_path, 4)
    before = segments(tmp_path)
    async with running(tmp_path, TIGHT, is_settled=False) as record:
        await until(lambda: record.status()["syncs"] > 0)
        kept = segments(tmp_path)
        record.apply(TIGHT)
        await until(lambda: len(segments(tmp_path)) == 1)

    assert kept[: len(before)] == before


async def test_what_waits_is_counted_without_the_numbers_that_a_crash_skipped(tmp_path: Path) -> None:
    with opened(tmp_path, in_a_fleet(SETTINGS)) as record:
        decided(record)
        record._files.close()  # a crash: nothing is closed
        os.close(record._lock)
        record._appender.is_closed = True
    async with running(tmp_path, in_a_fleet(SETTINGS)) as record:
        there = len(records(tmp_path))
        shipping = record.status()["shipping"]
        assert record.head is not None
        newest = record.head.seq
        record.set_shipped(newest)
        after = record.status()["shipping"]

    assert newest > 10_000
    assert shipping["waiting_records"] == there
    assert (after["waiting_records"], after["shipped_seq"]) == (0, newest)


def test_a_record_that_is_not_there_cannot_be_acknowledged(tmp_path: Path) -> None:
    with opened(tmp_path, in_a_fleet(SETTINGS)) as record, pytest.raises(ValueError, match="cannot be acknowledged"):
        record.set_shipped(1000)


def made(folder: Path, counts: list[int]) -> list[SegmentFile]:
    """Make segments of so many short lines each, with nothing in them that is a record."""
    first = 1
    for count in counts:
        Path(SegmentFile.of(str(folder), first).path).write_bytes(b'{"no": "record"}\n' * count)
        first += count
    return list_segments(str(folder))


@table("seed", range(40))
def test_no_plan_removes_a_waiting_segment_within_the_limit(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    places = made(tmp_path, [chance.randint(1, 30) for _ in range(chance.randint(2, 8))])
    newest = places[-1].first + 5
    shipped = chance.choice([None, 0, chance.randint(0, newest), newest])
    settings = RecordSettings(keep_bytes=chance.randint(1, 1500), keep_unshipped_bytes=chance.randint(1, 1500))
    known = measure_segments(str(tmp_path))

    made_plan = plan_retirement(
        str(tmp_path), places[-1], settings, max(at for _, at in known.values()), HighWaterMark(), shipped
    )

    chosen = made_plan.places if made_plan is not None else []
    left = {place: size for place, (size, _) in known.items() if place not in chosen}
    limit = (settings.keep_unshipped_bytes or 0) + (settings.keep_bytes if shipped is None else 0)
    assert chosen == places[: len(chosen)]
    for index, place in enumerate(chosen):
        if places[index + 1].first - 1 > (shipped or 0):  # it waits, so the limit was exceeded with it
            after = sum(size for other, (size, _) in known.items() if other >= place and waits(places, other, shipped))
            assert after > limit
    over = sum(left.values()) > settings.keep_bytes
    oldest = min(left)
    if over and oldest != places[-1]:  # what stays over the limits waits
        assert waits(places, oldest, shipped)
    assert count_unshipped(known, shipped or 0, newest).records == newest - (shipped or 0)


def waits(places: list[SegmentFile], place: SegmentFile, shipped: int | None) -> bool:
    if place == places[-1]:
        return True
    return places[places.index(place) + 1].first - 1 > (shipped or 0)
