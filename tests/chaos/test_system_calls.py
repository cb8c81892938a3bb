"""One system call of the daemon fails, and no promise is broken: a handful of places, of the hundreds of a night.

Slow: each place is the whole life of a daemon, and then a second start.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chaos.system_calls.page import FaultReport, format_page
from support.repository import TESTS

PROGRAM = TESTS / "chaos" / "system_calls" / "night.py"
PLACES = (
    "start epoll_create1 EMFILE _io_epoll.py",
    "start pidfd_open EMFILE systems/linux.py",
    "register sendto ENOBUFS systems/linux.py",
    "fire write EIO record/storage/journal.py",
    "rotation close EIO record/storage/journal.py",
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=120, check=False)
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout)
    return done


@pytest.mark.slow
def test_no_promise_is_broken_where_a_system_call_fails(tmp_path: Path) -> None:
    done = run("--first", "--only", *PLACES, "--results", str(tmp_path / "results.json"))

    assert done.returncode == 0, done.stdout + done.stderr
    reports = msgspec.json.decode((tmp_path / "results.json").read_bytes(), type=list[FaultReport])
    assert len(reports) == len(PLACES)
    assert all(report.is_reached for report in reports), reports
    # No traceback either of a guardian that was begun.
    reason = "the guardian did not start: the guardian could not be started: Too many open files"
    assert {tuple(report.effects) for report in reports if report.phase == "start"} == {
        ("start refused (69): hooklatch: Too many open files",),
        (f"start refused (69): hooklatch: {reason}",),
    }


@pytest.mark.slow
def test_a_guard_that_refuses_nothing_is_seen(tmp_path: Path) -> None:
    done = run("--without-guard", "--results", str(tmp_path / "results.json"))

    assert done.returncode == 1
    assert "pass: 'forbidden' passed" in done.stdout


def test_the_page_counts_lives_by_call() -> None:
    place = "<frozen os>:makedirs:225 < service/folders.py:make_runtime_dir:123"
    reports = [
        FaultReport("start", "mkdir", "EIO", place, True, ["start refused (69): hooklatch: no"], [], 0.5),
        FaultReport("start", "mkdir", "ENOSPC", place, True, ["yellow: state", "denied: load"], [], 0.5),
        FaultReport("start", "mkdir", "EACCES", place, False, [], [], 0.5),
    ]

    page = format_page(reports)

    assert "with one of these errors: 2 in all" in page
    assert (
        "| `mkdir` | `service/folders.py` | EIO, ENOSPC |"
        " the start ended with an error: 1; gates were denied with cause load: 1 |\n"
    ) in page
