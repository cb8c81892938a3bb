"""Durability of records: when they are on disk, which tasks wait for it, and what a failed sync means."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from hooklatch.core.messages import ChainHead
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.mark import read_anchor
from hooklatch.record.writer import RecordError
from support.daemons import nothing_left
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


class Disk:
    """Stands for fdatasync(2): counts, can be held, and can fail; what works is the real one."""

    def __init__(self) -> None:
        self.fds: list[int] = []
        self.fails = False
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()

    def sync(self, fd: int) -> None:
        self.fds.append(fd)
        self.begun.set()
        assert self.go.wait(10)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(fd)


async def test_what_is_written_is_on_the_disk_a_moment_later_without_anybody_waiting(tmp_path: Path) -> None:
    async with running(tmp_path) as record:
        head = decided(record)
        with assert_no_checkpoints():
            await record.durable(head)

        await until(lambda: record.status()["synced_seq"] >= head.seq)

        assert record.status()["sync_age_s"] < 10


async def test_the_anchor_names_the_last_record_that_is_on_the_disk(tmp_path: Path) -> None:
    async with running(tmp_path, SYNC) as record:
        head = decided(record)
        await record.durable(head)
        anchored = read_anchor(str(tmp_path))

    assert anchored is not None
    assert (anchored[0], anchored[1][:32]) == (head.seq, head.hash)


async def test_sync_waits_for_the_disk(tmp_path: Path) -> None:
    disk = Disk()
    async with running(tmp_path, SYNC, fdatasync=disk.sync) as record:
        await until(lambda: record.status()["synced_seq"] == 2)
        disk.go.clear()
        disk.begun.clear()
        returned: list[ChainHead] = []

        async def wait(head: ChainHead) -> None:
            await record.durable(head)
            returned.append(head)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, decided(record))
            await until(disk.begun.is_set)
            await wait_all_tasks_blocked()
            before = list(returned)
            disk.go.set()

    assert (before, len(returned)) == ([], 1)


async def test_those_who_write_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    disk = Disk()
    async with running(tmp_path, SYNC, fdatasync=disk.sync) as record:
        await until(lambda: record.status()["synced_seq"] == 2)
        disk.go.clear()
        disk.begun.clear()
        count = len(disk.fds)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(record.durable, decided(record))
            await until(disk.begun.is_set)
            for number in range(50):
                nursery.start_soon(record.durable, decided(record, number))
            await wait_all_tasks_blocked()
            disk.go.set()

        assert len(disk.fds) - count == 2
        assert record.status()["synced_seq"] == 53


async def test_a_sync_that_fails_is_told_and_never_tried_again_on_that_file(tmp_path: Path) -> None:
    disk = Disk()
    async with running(tmp_path, SYNC, fdatasync=disk.sync) as record:
        await until(lambda: record.status()["synced_seq"] == 2)
        disk.fails = True
        head = decided(record)
        with pytest.raises(RecordError, match="record 3 may not be on the disk"):
            await record.durable(head)
        failed = disk.fds[-1]
        disk.fails = False
        count = len(disk.fds)
        await until(lambda: record.status()["synced_seq"] > 3)
        again = decided(record)
        await record.durable(again)
        with pytest.raises(RecordError, match="record 3 may not be on the disk"):
            await record.durable(head)
        faults = record.status()["faults"]

        assert failed not in disk.fds[count:]
    assert "cannot be synced: Input/output error" in faults[0]
    assert len(segments(tmp_path)) == 2
    (begun,) = (one for one in records(tmp_path) if one["kind"] == "segment" and one["seq"] > 1)
    assert "cannot be synced" in begun["reason"]
    assert found_beyond_faults(tmp_path) == []


@pytest.mark.parametrize("settings", [SETTINGS, SYNC], ids=["written", "sync"])
async def test_while_syncs_fail_gates_are_refused_and_their_denials_written(
    tmp_path: Path, settings: RecordSettings
) -> None:
    disk = Disk()
    async with running(tmp_path, settings, fdatasync=disk.sync) as record:
        disk.fails = True
        decided(record)
        await until(lambda: record.status()["faults"])
        with pytest.raises(RecordError, match=r"cannot be synced: Input/output error; repair its disk"):
            decided(record)
        refused = record.append_refusal(decision(9, cause="audit"), fact())
        passed = record.append_decision(decision(event="stop"), fact(is_gate=False))
        unrecorded = record.status()["unrecorded"]
        disk.fails = False
        await until(lambda: record.status()["synced_seq"] > 4)
        decided(record)

    assert (refused is not None, passed, unrecorded) == (True, None, {"stop": 1})
    assert [one["cause"] for one in records(tmp_path) if one.get("decision_id") == "d-9"] == ["audit"]
    assert kinds(tmp_path).count("unrecorded") == 1
    assert found_beyond_faults(tmp_path) == []


async def test_who_waits_when_the_daemon_ends_is_told(tmp_path: Path) -> None:
    disk = Disk()
    outcome: list[str] = []
    with nothing_left(), opened(tmp_path, SYNC, fdatasync=disk.sync) as record:

        async def wait(head: ChainHead) -> None:
            try:
                await record.durable(head)
            except RecordError as error:
                outcome.append(str(error))

        async with trio.open_nursery() as waiters, trio.open_nursery() as nursery:
            await nursery.start(record.run)
            await until(lambda: record.status()["synced_seq"] == 2)
            disk.go.clear()
            disk.begun.clear()
            decided(record)
            await until(disk.begun.is_set)
            waiters.start_soon(wait, decided(record))  # the sync under way does not hold it
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            disk.go.set()

    assert outcome == ["record 4 was not synced: the daemon is about to end"]


async def test_a_change_to_sync_holds_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as record:
        record.apply(SYNC)
        head = decided(record)
        await record.durable(head)

        assert record.status()["synced_seq"] >= head.seq


SCRIPT = """
import os, sys, trio
from hooklatch.record.writer import RecordWriter
from support.records import SETTINGS, decision, fact
import msgspec

async def main():
    record = RecordWriter(sys.argv[1], msgspec.structs.replace(SETTINGS, durability="sync"))
    async with trio.open_nursery() as nursery:
        await nursery.start(record.run)
        for number in range(3):
            await record.durable(record.append_decision(decision(number), fact()))
            os.write(1, b"answer %d\\n" % number)
        nursery.cancel_scope.cancel()
    record.close()

trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_between_a_record_and_its_answer_the_kernel_is_asked_to_bring_it_to_the_disk(tmp_path: Path) -> None:
    """Slow: an interpreter under strace."""
    trace = tmp_path / "trace"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-y", "-e", "trace=write,fdatasync", "-o", trace, sys.executable, "-c", SCRIPT,
         tmp_path / "record"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    steps: list[str] = []
    for line in trace.read_text().splitlines():
        if "write(" in line and ".jsonl>" in line:
            steps.append("write")
        elif "write(1<" in line and "answer" in line:
            steps.append("answer")
        elif "fdatasync" in line and (".jsonl>" in line or "resumed" in line) and line.endswith("= 0"):
            steps.append("sync")
    for position, step in enumerate(steps):
        if step == "answer":
            written = max(index for index in range(position) if steps[index] == "write")
            assert "sync" in steps[written:position], steps
    assert steps.count("answer") == 3
