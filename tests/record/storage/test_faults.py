"""Files changed by others while they are written, and disks that fail: detected, reported, and fail closed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordError
from support.pools import until
from support.records import (
    SETTINGS,
    SYNC,
    decided,
    decision,
    fact,
    found_beyond_faults,
    kinds,
    opened,
    records,
    running,
    segments,
)
from support.repository import TESTS

# In a folder that is gone: of the file that is written, or of the one that keeps room where blocks cannot be allocated.
FAULT = "(Bad file descriptor|No such file or directory)"


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def lengthen(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


@pytest.mark.parametrize(
    ("do", "text"),
    [
        (remove, "was removed while it was being written"),
        (replace, "was replaced while it was being written"),
        (empty, "bytes instead of the"),
        (lengthen, "bytes instead of the"),
    ],
)
async def test_a_segment_that_somebody_touches_is_seen_and_the_record_goes_on_in_the_next(
    tmp_path: Path, do: Callable[[Path], None], text: str
) -> None:
    async with running(tmp_path, SYNC) as record:
        await record.durable(decided(record))
        (path,) = segments(tmp_path)
        do(path)
        head = decided(record)
        with pytest.raises(RecordError, match="may not be on the disk"):
            await record.durable(head)
        await until(lambda: record.status()["synced_seq"] > head.seq)
        await record.durable(decided(record))
        faults = record.status()["faults"]

    assert text in faults[0]
    assert text in records_after(tmp_path, head.seq)[0]["reason"]
    assert not verify_record(str(tmp_path)).ok


def records_after(folder: Path, seq: int) -> list[dict[str, str]]:
    (path,) = (path for path in segments(folder) if int(path.stem) > seq)
    others = {other: other.read_bytes() for other in segments(folder) if other != path}
    for other in others:
        other.unlink()
    found = records(folder)
    for other, data in others.items():
        other.write_bytes(data)
    return found


async def test_an_anchor_that_somebody_removes_is_made_again_and_told(tmp_path: Path) -> None:
    async with running(tmp_path, SYNC) as record:
        await record.durable(decided(record))
        (tmp_path / "anchor").unlink()
        await record.durable(decided(record))
        await until(lambda: record.status()["faults"])
        faults = record.status()["faults"]

    assert "/anchor was removed or replaced" in faults[0]
    report = verify_record(str(tmp_path))
    assert found_beyond_faults(tmp_path) == []
    assert report.anchored_through == (report.head.seq if report.head else 0)
    assert "was removed or replaced" in report.told[0]["text"]


async def test_a_folder_that_is_taken_away_refuses_every_gate(tmp_path: Path) -> None:
    async with running(tmp_path / "record", SYNC) as record:
        await record.durable(decided(record))
        shutil.rmtree(tmp_path / "record")
        with pytest.raises(RecordError):
            await record.durable(decided(record))

        with pytest.raises(
            RecordError, match=r"(was removed while it was being written|No such file or directory); repair its disk"
        ):
            decided(record)


def test_an_append_that_failed_and_went_elsewhere_costs_no_record_and_nobody_has_to_acknowledge_it(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as record:
        decided(record)
        fd = record._journal.segment.fd
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(
            null, fd, inheritable=False
        )  # writing to it fails as if it were closed, and nobody else gets its number
        os.close(null)

        head = record.append_decision(decision(2), fact())
        status = record.status()

    assert head is not None
    assert status["faults"] == []
    assert "cannot be written: Bad file descriptor" in status["warnings"][0]
    assert len(segments(tmp_path)) == 2
    report = verify_record(str(tmp_path))
    assert (report.ok, [told["kind"] for told in report.told]) == (True, ["mended"])
    with opened(tmp_path) as again:
        assert again.status()["faults"] == []


async def test_an_anchor_that_cannot_be_written_is_red_until_it_can_and_then_a_warning(tmp_path: Path) -> None:
    async with running(tmp_path, SYNC) as record:
        await record.durable(decided(record))
        fd = record._anchor.fd
        kept = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0)
        with open(os.devnull, "rb") as null:  # noqa: ASYNC230
            os.dup2(null.fileno(), fd, inheritable=False)
        record._anchor.is_in_place = lambda: True  # type: ignore[method-assign]
        await record.durable(decided(record))
        await until(lambda: record.status()["faults"])
        red = record.status()["faults"]
        os.dup2(kept, fd, inheritable=False)
        os.close(kept)
        await record.durable(decided(record))
        await until(lambda: record.status()["warnings"])
        status = record.status()

    assert [text for text in red if "/anchor cannot be written: Bad file descriptor" in text] == red
    assert status["faults"] == []
    assert "/anchor cannot be written" in status["warnings"][0]
    assert verify_record(str(tmp_path)).ok


async def test_an_anchor_that_is_taken_and_cannot_be_made_again_is_a_fault_that_stays(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    async with running(folder, SYNC) as record:
        await record.durable(decided(record))
        (folder / "anchor").unlink()
        (folder / "anchor.new").mkdir()  # in the way, for root too
        await record.durable(decided(record))
        await until(lambda: record.status()["faults"])
        (folder / "anchor.new").rmdir()
        await record.durable(decided(record))
        await until(lambda: record.status()["warnings"])
        faults = record.status()["faults"]

    assert "/anchor was removed or replaced" in faults[0]
    assert kinds(folder).count("fault") == 1
    assert not verify_record(str(folder)).ok


SCRIPT = """
import os, sys, trio
from hooklatch.record.writer import RecordWriter, RecordError
from support.records import SETTINGS, decision, fact

record = RecordWriter(sys.argv[1], SETTINGS)
open(sys.argv[2], "w").close()  # from here on the disk fails
outcomes = []
for number in range(30):
    try:
        record.append_decision(decision(number), fact())
        outcomes.append(f"recorded {number}")
    except RecordError as error:
        outcomes.append("refused" if "Input/output error" in str(error) else str(error))
print("\\n".join(outcomes))
record.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_where_the_kernel_says_that_a_write_failed_the_gate_is_refused_or_recorded_elsewhere(tmp_path: Path) -> None:
    """Slow: an interpreter under strace."""
    folder = tmp_path / "record"
    (path,) = (folder / "0000000000000001.jsonl",)
    done = subprocess.run(
        ["strace", "-qq", "-P", path, "-e", "trace=write", "-e", "inject=write:error=EIO:when=5+", "-o", os.devnull,
         sys.executable, "-c", SCRIPT, folder, tmp_path / "begun"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    ids = [one["decision_id"] for one in records(folder) if one["kind"] == "decision"]
    assert ids == [f"d-{line.split()[1]}" for line in said if line.startswith("recorded")]
    assert len(said) == 30
    assert len(segments(folder)) == 2
    assert found_beyond_faults(folder) == []


def test_a_disk_that_cannot_begin_a_segment_either_refuses_at_once_and_not_at_every_gate_anew(tmp_path: Path) -> None:
    with opened(tmp_path / "record", SETTINGS) as record:
        decided(record)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(null, record._journal.segment.fd, inheritable=False)
        os.close(null)
        shutil.rmtree(tmp_path / "record")

        for _ in range(3):
            with pytest.raises(RecordError, match=rf"cannot be written: {FAULT}; repair its disk"):
                decided(record)
        assert record.append_refusal(decision(cause="audit"), fact()) is None
        status = record.status()

    assert status["unrecorded"] == {"pre_tool_use": 1}
    assert re.search(FAULT, status["faults"][0])
