"""A loss of power takes what no sync has brought to the disk, file by file: the rest is whole, nothing is hidden."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hooklatch.record.storage import recovery
from hooklatch.record.storage.mark import read_mark
from hooklatch.record.verify import verify_record
from support.pools import until
from support.records import (
    Beside,
    decided,
    found_beyond_faults,
    kinds,
    lines,
    opened,
    records,
    running,
    segments,
)


class FailingSync:
    """`fdatasync` on a disk that fails for a while."""

    fails = False

    def __call__(self, fd: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(fd)


def rotated(folder: Path, rotations: int) -> Beside:
    """Leave segments of which none is known to be on the disk but the first two entries; give anchor and mark."""
    with opened(folder) as record:
        beside = Beside(folder)
        for number in range(rotations):
            decided(record, number)
            decided(record, number)
            record._journal.begin_segment()
        decided(record, rotations)
    last = segments(folder)[-1]
    last.write_bytes(b"".join(last.read_bytes().splitlines(keepends=True)[:-1]))  # it did not stop
    return beside


def cut(path: Path, count: int) -> None:
    os.truncate(path, path.stat().st_size - count)


@pytest.mark.parametrize("rotations", [1, 2])
@pytest.mark.parametrize("is_whole_line", [False, True], ids=["within a line", "a whole line"])
def test_what_reached_the_disk_behind_a_gap_is_set_aside(tmp_path: Path, rotations: int, is_whole_line: bool) -> None:
    beside = rotated(tmp_path, rotations)
    first, *later = segments(tmp_path)
    behind = [path.read_bytes() for path in later]
    cut(first, len(lines(tmp_path)[3]) if is_whole_line else 7)
    beside.restore()

    with opened(tmp_path) as record:
        decided(record)
        assert record.status()["faults"] == []

    asides = [(tmp_path / one["to"]).read_bytes() for one in records(tmp_path) if one["kind"] == "recovered"]
    assert sorted(asides[:rotations]) == sorted(behind)
    assert [path.name for path in segments(tmp_path)] == [first.name, "0000000000010001.jsonl"]
    assert verify_record(str(tmp_path)).ok


@pytest.mark.parametrize("is_reboot", [True, False])
@pytest.mark.parametrize("number", [2, 4])
def test_what_reached_the_disk_out_of_order_is_set_aside(
    tmp_path: Path, number: int, is_reboot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the entries that no sync has covered one is missing, and later ones are there: sectors have no order.

    Without a new boot no power was lost, so somebody else did it.
    """
    with opened(tmp_path) as record:
        beside = Beside(tmp_path)
        for later in range(200):
            decided(record, later)
    (path,) = segments(tmp_path)
    whole = path.read_bytes().splitlines(keepends=True)[:-1]  # it did not stop
    torn = [*whole[:number], b"\0" * (len(whole[number]) - 1) + b"\n", *whole[number + 1 :]]
    path.write_bytes(b"".join(torn))
    beside.restore()

    if is_reboot:
        monkeypatch.setattr(recovery, "read_boot_id", lambda: "another")
    with opened(tmp_path) as record:
        assert record.status()["faults"] == []  # the beginning of a record is not read at a start
    assert verify_record(str(tmp_path)).ok == is_reboot
    if not is_reboot:
        return

    assert path.read_bytes() == b"".join(whole[:number])
    assert path.with_name(f"{path.name}.torn-1").read_bytes() == b"".join(torn[number:])


@pytest.mark.parametrize("is_synced", [False, True])
def test_an_empty_segment_that_could_not_be_removed_is_no_gap(tmp_path: Path, is_synced: bool) -> None:
    """A failed disk left it: the segment before it went on, and the one behind it follows that one."""
    with opened(tmp_path) as record:
        beside = Beside(tmp_path)
        for number in range(8):
            decided(record, number)
        if is_synced:
            record._syncs.once_blocking()
            beside = Beside(tmp_path)
        decided(record, 8)
        record._journal.begin_segment()
        decided(record, 9)
    empty = segments(tmp_path)[0].with_name(f"{5:016d}.jsonl")
    empty.touch()
    before = [path.read_bytes() for path in segments(tmp_path)]
    beside.restore()  # it was killed

    with opened(tmp_path):
        pass

    assert "recovered" not in kinds(tmp_path)
    assert [path.read_bytes() for path in segments(tmp_path)][: len(before)] == before
    assert found_beyond_faults(tmp_path) == []


def test_a_gap_before_what_was_on_the_disk_is_told_and_left(tmp_path: Path) -> None:
    rotated(tmp_path, 2)  # anchor and mark name the last entry: only a change by others explains a gap
    first, *later = segments(tmp_path)
    cut(first, len(lines(tmp_path)[3]))
    behind = [path.read_bytes() for path in later]

    with opened(tmp_path):
        pass

    assert all(path.read_bytes().startswith(whole) for path, whole in zip(later, behind, strict=True))
    assert "recovered" not in kinds(tmp_path)
    assert "missing" in {finding.what for finding in found_beyond_faults(tmp_path)}


def test_a_gap_that_reaches_into_what_was_on_the_disk_is_told_at_the_start(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    beside = rotated(tmp_path, 1)
    first, last = segments(tmp_path)
    cut(first, sum(map(len, lines(tmp_path)[2:6])))
    behind = last.read_bytes()
    beside.restore()

    with opened(tmp_path) as record:
        faults = record.status()["faults"]

    assert faults[0].startswith("records 3 to 3 are missing from the end")
    assert last.with_name(f"{last.name}.torn-1").read_bytes() == behind


@pytest.mark.parametrize("gone", ["anchor", "mark"])
def test_without_anchor_or_mark_no_gap_is_explained(tmp_path: Path, gone: str) -> None:
    beside = rotated(tmp_path, 1)
    first, last = segments(tmp_path)
    cut(first, 7)
    behind = last.read_bytes()
    beside.restore()
    (tmp_path / "anchor" if gone == "anchor" else tmp_path.with_name(tmp_path.name + ".mark")).unlink()

    with opened(tmp_path) as record:
        assert record.status()["faults"]

    assert last.read_bytes().startswith(behind)


@pytest.mark.parametrize("is_rotated", [False, True], ids=["its segment", "the one before too"])
async def test_a_line_that_is_torn_after_a_failed_sync_is_explained_and_its_entries_are_missing(
    tmp_path: Path, is_rotated: bool
) -> None:
    sync = FailingSync()
    async with running(tmp_path, fdatasync=sync) as record:
        await until(lambda: record.status()["synced_seq"] == 2)
        sync.fails = True
        decided(record)
        if is_rotated:
            record._journal.begin_segment()
        await until(lambda: record.status()["faults"])
        sync.fails = False
        await until(lambda: record.status()["synced_seq"] > 3)
        decided(record)
    torn, *_ = segments(tmp_path)
    cut(torn, 7)

    report = verify_record(str(tmp_path))

    assert [finding.what for finding in report.findings] == ["missing", "fault"]
    assert report.notes == [f"{torn.name} ends in a partial line, as a segment after it records"]


async def test_a_segment_whose_sync_failed_is_not_called_whole_by_a_stop(tmp_path: Path) -> None:
    sync = FailingSync()
    async with running(tmp_path, fdatasync=sync) as record:
        await until(lambda: record.status()["synced_seq"] == 2)
        sync.fails = True
        record._journal.folder = str(tmp_path / "gone")  # no other segment can be begun
        decided(record)
        await until(lambda: record.status()["faults"])
        sync.fails = False

    mark = read_mark(str(tmp_path))
    assert mark is not None
    assert not mark.is_closed
