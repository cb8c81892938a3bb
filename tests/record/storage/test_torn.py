"""A torn end left by a crash is moved aside; changes in the middle are reported and left alone."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hooklatch.record.storage.reading import read_backwards
from hooklatch.record.verify import verify_record
from hooklatch_worker.systems.disks import allocate_blocks
from support.records import Beside, decision, fact, found_beyond_faults, kinds, lines, opened, records, segments


def crashed(folder: Path, count: int = 3) -> Path:
    """Leave a record as a daemon that was killed before its first sync does; give its segment."""
    with opened(folder) as record:
        beside = Beside(folder)
        for number in range(count):
            record.append_decision(decision(number), fact())
        record.append("reloaded")
    (path,) = segments(folder)
    path.write_bytes(b"".join(lines(folder)[:-1]))
    beside.restore()
    return path


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """Yield a folder whose syncs cost nothing, if there is one: a start per byte has thousands of them."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_last_line_torn_at_any_byte_is_moved_aside(quick_folder: Path) -> None:
    """Slow: a start for each byte of a record."""
    path = crashed(quick_folder)
    whole = path.read_bytes()
    beside = Beside(quick_folder)
    *_, last = whole.splitlines(keepends=True)
    kept = len(whole) - len(last)

    for length in range(1, len(last)):
        for later in segments(quick_folder)[1:]:
            later.unlink()
        path.write_bytes(whole[: kept + length])
        beside.restore()
        with opened(quick_folder) as record:
            assert record.status()["faults"] == []
            assert record.head is not None
            assert record.head.seq == 10_003  # a crash: behind all numbers that were reserved

        *_, recovered, started, _ = records(quick_folder)
        assert (recovered["kind"], recovered["bytes"], recovered["after_seq"]) == ("recovered", length, 5)
        assert (quick_folder / recovered["to"]).read_bytes() == last[:length]
        assert (started["kind"], started["after"]) == ("started", "crash")
    assert verify_record(str(quick_folder)).ok


def test_what_a_killed_daemon_had_allocated_is_given_back(tmp_path: Path) -> None:
    path = crashed(tmp_path)
    fd = os.open(path, os.O_RDWR)
    try:
        allocate_blocks(fd, path.stat().st_size, 2**20)
    except OSError:
        pytest.skip("this filesystem cannot allocate beyond a file's end")
    finally:
        os.close(fd)

    with opened(tmp_path):
        pass

    assert path.stat().st_blocks * 512 < 2**20


@pytest.mark.slow
def test_the_segment_that_follows_a_crash_may_be_torn_at_any_byte_too(quick_folder: Path) -> None:
    """Slow: a start for each byte of its first record."""
    crashed(quick_folder)
    with opened(quick_folder):
        beside = Beside(quick_folder)
    *_, path = segments(quick_folder)
    header = path.read_bytes().splitlines(keepends=True)[0]

    for length in range(len(header)):
        for later in segments(quick_folder)[1:]:
            later.unlink()
        path.write_bytes(header[:length])
        beside.restore()
        with opened(quick_folder) as record:
            assert record.status()["faults"] == []
            assert record.head is not None
            assert record.head.seq > 20_000

    assert verify_record(str(quick_folder)).ok


@pytest.mark.parametrize(
    "tail",
    [b"\n", b"garbage\n", b"\x00" * 5000, b"{}\n{}\n", b"x" * 300_000, b'{"seq":6,"prev":'],
    ids=["empty line", "garbage", "zeros", "two lines", "much", "beginning"],
)
def test_anything_after_the_last_sound_record_is_moved_aside(tmp_path: Path, tail: bytes) -> None:
    path = crashed(tmp_path)
    with path.open("ab") as file:
        file.write(tail)

    with opened(tmp_path) as record:
        head = record.append_decision(decision(9), fact())

    assert head is not None
    assert [one.read_bytes() for one in tmp_path.glob("*.torn-1")] == [tail]
    assert kinds(tmp_path).count("recovered") == 1
    assert verify_record(str(tmp_path)).ok


def test_torn_ends_of_several_crashes_are_all_kept(tmp_path: Path) -> None:
    crashed(tmp_path)
    for tail in (b"one", b"two"):
        with segments(tmp_path)[-1].open("ab") as file:
            file.write(tail)
        with opened(tmp_path):
            pass

    assert sorted(one.read_bytes() for one in tmp_path.glob("*.torn-*")) == [b"one", b"two"]


@pytest.mark.parametrize("left", [b"", b"{", b"\x00" * 100])
def test_a_segment_that_was_only_just_begun_gives_way_to_the_one_before(tmp_path: Path, left: bytes) -> None:
    path = crashed(tmp_path)
    (tmp_path / "0000000000000007.jsonl").write_bytes(left)

    with opened(tmp_path):
        pass

    assert [one.name for one in segments(tmp_path)] == [path.name, "0000000000010001.jsonl"]
    assert kinds(tmp_path).count("recovered") == bool(left)
    assert verify_record(str(tmp_path)).ok


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: [*found[:2], found[2].replace(b"d-0", b"d-X"), *found[3:]],
        lambda found: [*found[:2], *found[3:]],
        lambda found: [*found[:2], b"garbage\n", *found[2:]],
    ],
    ids=["changed", "left out", "put in"],
)
def test_damage_in_the_middle_is_told_and_not_mended(
    tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    path = crashed(tmp_path)
    damaged = b"".join(damage(lines(tmp_path)))
    path.write_bytes(damaged)

    with opened(tmp_path) as record:
        head = record.append_decision(decision(9), fact())
        faults = record.status()["faults"]

    assert head is not None
    assert path.read_bytes().startswith(damaged)
    assert re.search("the chain is broken near record [34]; see: hooklatch log verify", faults[0])
    assert json.loads(lines(tmp_path)[-4])["text"] == faults[0]


def test_an_end_that_was_cut_off_is_told_and_its_numbers_are_not_used_again(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        for number in range(5):
            record.append_decision(decision(number), fact())
    (path,) = segments(tmp_path)
    path.write_bytes(b"".join(lines(tmp_path)[:4]))

    with opened(tmp_path) as record:
        faults = record.status()["faults"]

    assert faults[0].startswith("records 5 to 8 are missing from the end")
    assert [one["seq"] for one in records(tmp_path)] == [1, 2, 3, 4, 9, 10, 11]
    assert [finding.text for finding in found_beyond_faults(tmp_path)] == ["records 5 to 8 are missing"]


def test_a_record_that_was_taken_away_whole_is_missing(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    segments(tmp_path)[0].unlink()

    with opened(tmp_path) as record:
        faults = record.status()["faults"]

    assert faults[0].startswith("records 1 to 3 are missing")
    assert records(tmp_path)[0]["seq"] == 4
    assert not verify_record(str(tmp_path)).ok


@pytest.mark.parametrize("text", [b"", b"garbage", b"0" * 84])
def test_an_anchor_that_somebody_wrote_to_is_told(tmp_path: Path, text: bytes) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / "anchor").write_bytes(text)

    with opened(tmp_path) as record:
        faults = record.status()["faults"]

    assert "anchor does not hold what was written to it" in faults[0]
    assert found_beyond_faults(tmp_path) == []


def test_the_end_is_read_and_not_the_whole(tmp_path: Path) -> None:
    path = crashed(tmp_path, 2000)
    data = bytearray(path.read_bytes())
    data[1000:2000] = b"x" * 1000
    path.write_bytes(data)

    with opened(tmp_path) as record:
        faults = record.status()["faults"]

    assert faults == []
    assert not verify_record(str(tmp_path)).ok
    assert next(read_backwards(str(tmp_path)))
