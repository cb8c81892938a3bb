"""A daemon killed before any single step of writing leaves a record that the next one opens without a fault."""

from __future__ import annotations

import os
import subprocess
import tempfile

import pytest

from support.repository import TESTS
from support.warm_commands import PYTHON

# Each child is killed right before its Nth call that changes a file, in whatever thread that is.  It opens a record,
# writes, rotates, lets retention remove what there was before, and ends.
SCRIPT = """
import os, shutil, signal, sys, threading, trio
import msgspec
from pathlib import Path
from hooklatch.record.storage.mark import mark_path
from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordWriter
from support.records import SETTINGS, decision, fact, opened, segments

CHANGES = {"write", "pwrite", "rename", "unlink", "fsync", "fdatasync", "ftruncate", "open", "fallocate"}
TIGHT = msgspec.structs.replace(SETTINGS, keep_bytes=1, segment_bytes=600)

def kill_before(step):
    seen = 0
    def look(frame, what, function):
        nonlocal seen
        if what == "c_call" and function.__name__ in CHANGES and getattr(function, "__module__", "") == "posix":
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
    threading.setprofile(look)
    sys.setprofile(look)

async def use(record):
    async with trio.open_nursery() as nursery:
        await nursery.start(record.run)
        record.append_decision(decision(1), fact())
        while len(segments(Path(record.folder))) > 1 or record.status()["synced_seq"] < 5:
            await trio.sleep(0.001)
            record._retention_at = 0.0
            if record.status()["synced_seq"] < 5:
                record.append_decision(decision(2), fact())
        nursery.cancel_scope.cancel()

def live(folder, step):
    kill_before(step)
    record = RecordWriter(str(folder), TIGHT)
    import hooklatch.record.writer as writer
    writer.LOOK = 0.01
    trio.run(use, record)
    record.close()

def make(folder):
    with opened(folder) as record:
        for part in range(3):
            record.append_decision(decision(part), fact())
            record._journal.begin_segment()

base, how, steps, found = Path(sys.argv[1]), sys.argv[2], 0, set()
while True:
    steps += 1
    folder = base / f"{steps}" / "record"
    folder.parent.mkdir()
    if how == "made":
        make(folder)
    pid = os.fork()
    if not pid:
        live(folder, steps)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with opened(folder) as record:
        assert record.status()["faults"] == [], (steps, record.status()["faults"])
        used = {one.seq for one in [record.append_decision(decision(3), fact())]}
    report = verify_record(str(folder))
    assert report.ok, (steps, report.findings)
    with opened(folder) as record:
        assert record.status()["faults"] == [], (steps, record.status()["faults"])
    shutil.rmtree(folder.parent)
    if code == 0 or (how == "fresh" and steps == 40):  # what comes then is as with `made`
        break
    assert code == -signal.SIGKILL, code
print(steps)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fresh", "made"])
def test_a_kill_before_any_step_of_writing_is_no_fault_for_the_next_start(how: str) -> None:
    """Slow: some hundred daemons' records are begun, killed and opened again."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        done = subprocess.run(
            [*PYTHON, "-c", SCRIPT, folder, how], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 40
