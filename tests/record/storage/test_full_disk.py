"""A disk that really fills up: what is recorded at each stage, and how the reserve is used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordError, RecordWriter
from support.daemons import nothing_left
from support.pools import until
from support.records import (
    SETTINGS,
    decision,
    fact,
    fill,
    found_beyond_faults,
    kinds,
    needs_root,
    opened,
    records,
    running,
    segments,
    tiny_disk,
)
from support.repository import TESTS
from support.warm_commands import PYTHON

KIB = 1024
STAGES = msgspec.structs.replace(
    SETTINGS, low_bytes=1500 * KIB, critical_bytes=1000 * KIB, full_bytes=500 * KIB, excerpt_bytes=200
)


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def leave(folder: Path, free: int) -> None:
    """Take so much of a disk that this is left."""
    with (folder / "ballast").open("ab") as file:
        file.write(b"x" * (free_bytes(folder) - free))


def write_until_full(record: RecordWriter) -> tuple[int, str]:
    """Record gates until one is refused; give how many were recorded, and why the last was not."""
    for number in range(100_000):
        try:
            record.append_decision(decision(number), fact())
        except RecordError as error:
            return number, str(error)
    raise AssertionError("the disk has no end")


@needs_root
def test_the_stages_of_a_disk_that_fills_up(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 8 * KIB) as disk, opened(disk / "record", STAGES, reserve=64 * KIB) as record:
        seen = [record.status()]
        for free in (1400, 900, 400):
            leave(disk, free * KIB)
            record._space.look()
            seen.append(record.status())
            if free == 900:
                gate = record.append_decision(decision(1), fact())
                notified = record.append_decision(decision(event="stop"), fact(is_gate=False))
        with pytest.raises(
            RecordError, match=r"the disk of .* is full, so gates are denied until there is space: free some space"
        ):
            record.append_decision(decision(2), fact())
        refused = record.append_refusal(decision(3, cause="audit"), fact())
        (disk / "ballast").unlink()
        after = record.append_decision(decision(4), fact())
        seen.append(record.status())
        found = records(disk / "record")
        report = verify_record(str(disk / "record"))

    assert [one["stage"] for one in seen] == ["normal", "low", "critical", "full", "normal"]
    assert [bool(one["faults"]) for one in seen] == [False, False, True, True, False]
    assert [bool(one["warnings"]) for one in seen] == [False, True, False, False, False]
    assert (gate is not None, notified, refused is not None, after is not None) == (True, None, True, True)
    by_id = {one["decision_id"]: one for one in found if one["kind"] == "decision"}
    assert ["excerpt" in by_id[one] for one in ("d-1", "d-3", "d-4")] == [False, False, True]
    assert [(one["previous"], one["stage"]) for one in found if one["kind"] == "disk"] == [
        ("normal", "low"), ("low", "critical"), ("critical", "full"), ("full", "normal"),
    ]  # fmt: skip
    assert [one["events"] for one in found if one["kind"] == "unrecorded"] == [{"stop": 1}]
    assert report.ok, report.findings


@needs_root
def test_a_disk_without_a_free_byte_denies_records_the_denials_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 4 * KIB) as disk, opened(disk / "record", reserve=64 * KIB) as record:
        ballast = fill(disk)
        recorded, reason = write_until_full(record)
        denied = sum(record.append_refusal(decision(10**6 + n, cause="audit"), fact()) is not None for n in range(200))
        status = record.status()
        ballast.unlink()
        after = record.append_decision(decision(10**7), fact())
        found = records(disk / "record")
        report = verify_record(str(disk / "record"))

    assert "is full" in reason
    assert 50 <= denied < 200  # some 64 KiB of them
    assert status["unrecorded"] == {"pre_tool_use": 200 - denied}
    assert status["stage"] == "full"
    assert after is not None
    ids = [one["decision_id"] for one in found if one["kind"] == "decision"]
    assert len(ids) == recorded + denied + 1
    assert [one["events"] for one in found if one["kind"] == "unrecorded"] == [{"pre_tool_use": 200 - denied}]
    assert report.ok, report.findings


@needs_root
def test_without_room_kept_for_it_a_short_write_is_taken_back(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 256) as disk, opened(disk / "record", reserve=4 * KIB) as record:
        record._journal.segment._can_allocate = False  # as on a filesystem that cannot
        record.append_decision(decision(), fact())
        assert (disk / "record" / "reserve").stat().st_size == 4 * KIB
        fill(disk)
        recorded, _ = write_until_full(record)
        denied = sum(record.append_refusal(decision(10**6 + n, cause="audit"), fact()) is not None for n in range(50))
        found = records(disk / "record")
        report = verify_record(str(disk / "record"))
        size = segments(disk / "record")[0].stat().st_size

    assert recorded > 0
    assert 2 <= denied < 20
    assert size % 4096 != 0  # the disk gives whole pages: what was written of the next line is gone
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
    assert report.ok, report.findings


@needs_root
def test_a_daemon_that_ends_on_a_full_disk_says_so_from_the_reserve(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 4 * KIB) as disk:
        with opened(disk / "record", reserve=64 * KIB) as record:
            fill(disk)
            write_until_full(record)

        assert kinds(disk / "record")[-2:] == ["disk", "stopped"]
        assert verify_record(str(disk / "record")).ok


@pytest.mark.linux_only("blocks that are kept beyond the end of a file (fallocate)")
@needs_root
def test_a_start_on_a_full_disk_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 2 * KIB) as disk:
        with opened(disk / "record", reserve=64 * KIB) as record:
            record.append_decision(decision(), fact())
        before = (segments(disk / "record"))[0].read_bytes()
        fill(disk)

        with nothing_left(), pytest.raises(RecordError, match=r"cannot be written: the disk of .* is full"):
            RecordWriter(str(disk / "record"), SETTINGS, reserve=64 * KIB)

        assert segments(disk / "record")[0].read_bytes().startswith(before)
        assert verify_record(str(disk / "record")).ok


@needs_root
async def test_the_watch_sees_that_there_is_room_again_without_a_fire(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 4 * KIB) as disk:
        async with running(disk / "record", reserve=64 * KIB) as record:
            ballast = fill(disk)
            write_until_full(record)
            assert record.append_refusal(decision(cause="audit"), fact()) is not None
            ballast.unlink()

            await until(lambda: record.status()["stage"] == "normal")

        assert verify_record(str(disk / "record")).ok


@pytest.mark.linux_only("blocks that are kept beyond the end of a file (fallocate)")
def test_a_write_that_finds_no_space_refuses_the_gate_and_counts_the_rest(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        segment = record._journal.segment
        kept = os.dup(segment.fd)
        full = os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(full, segment.fd, inheritable=False)
        os.close(full)

        with pytest.raises(RecordError, match="is full"):
            record.append_decision(decision(), fact())
        passed = record.append_decision(decision(event="stop"), fact(is_gate=False))
        lost = record.append_refusal(decision(cause="audit"), fact())
        status = record.status()
        os.dup2(kept, segment.fd, inheritable=False)
        os.close(kept)
        again = record.append_decision(decision(2), fact())

    assert (passed, lost, status["stage"]) == (None, None, "full")
    assert status["unrecorded"] == {"stop": 1, "pre_tool_use": 1}
    assert again is not None
    assert kinds(tmp_path) == ["segment", "started", "unrecorded", "disk", "decision", "stopped"]
    assert verify_record(str(tmp_path)).ok


SCRIPT = """
import resource, sys
from hooklatch.record.writer import RecordWriter, RecordError
from support.records import SETTINGS, decision, fact

record = RecordWriter(sys.argv[1], SETTINGS)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
for number in range(100):
    record.append_decision(decision(number), fact())
    print(number, flush=True)
record.close()
"""


def test_a_limit_on_the_size_of_files_costs_a_new_segment_and_no_record() -> None:
    # On a disk: a file system in memory counts what is allocated ahead against the limit, too.
    with TemporaryDirectory(dir="/var/tmp") as folder:
        done = subprocess.run(
            [*PYTHON, "-c", SCRIPT, f"{folder}/record"], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )  # fmt: skip

        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(number) for number in range(100)]
        record = Path(folder, "record")
        ids = [one["decision_id"] for one in records(record) if one["kind"] == "decision"]
        assert ids == [f"d-{number}" for number in range(100)]
        assert max(path.stat().st_size for path in segments(record)) <= 20_000
        assert found_beyond_faults(record) == []


@needs_root
def test_the_reserve_is_really_kept_free_by_the_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 4 * KIB) as disk, opened(disk / "record", reserve=1024 * KIB) as record:
        fill(disk)
        write_until_full(record)

        assert free_bytes(disk) == 0
        assert record.status()["reserve_bytes"] > 1023 * KIB  # one record says that the disk is full
        assert record.append_refusal(decision(cause="audit"), fact()) is not None
