"""What a hook starts is bounded with it: processes without end, and memory that its children take.

Each bomb here is held by itself too: it stops forking after so many in all, and every process of it dies by an alarm.
"""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch_worker import wire
from hooklatch_worker.systems import linux
from support.daemons import callbacks
from support.pools import Workers, running_pool, until
from support.survivors import waiting_for_an_order

BOMBS = (
    callbacks("workaday.py")
    + '''

import subprocess

ALARM = 5  # seconds: whatever else fails, this ends each process of a bomb
MOST = 300  # processes that a bomb may start in all

def count(path):
    with open(path, "a") as file:
        file.write("x")
    return os.path.getsize(path)


def fork_without_end(path):
    while count(path) < MOST:
        if os.fork() == 0:
            signal.alarm(ALARM)
    time.sleep(60)


def bomb(event):
    fork_without_end(event.payload["forks"])


def bomb_in_the_background(event):
    if os.fork() == 0:
        signal.alarm(ALARM)
        os.setsid()
        fork_without_end(event.payload["forks"])
    return tell("back")


def bomb_of_sessions(event):
    path = event.payload["forks"]
    while count(path) < MOST:
        if os.fork() == 0:
            signal.alarm(ALARM)
            os.setsid()
    time.sleep(60)


SCRIPT = """
b() { printf x >> "$0"; [ "$(wc -c < "$0")" -gt 300 ] || { b | b & } ; }
b; sleep 5
"""

def bomb_in_the_shell(event):
    # Where RLIMIT_NPROC binds (not for root) it is the third backstop, beside the count and the time.
    line = "ulimit -u 2000; " + SCRIPT
    subprocess.run(["timeout", "-s", "KILL", str(ALARM), "bash", "-c", line, event.payload["forks"]])


if os.path.exists(os.path.join(os.path.dirname(__file__), "explode")):
    fork_without_end(os.path.join(os.path.dirname(__file__), "forks"))


def swell_below(event):
    if os.fork() == 0:
        signal.alarm(ALARM)
        fat = bytearray(os.urandom(2**20) * event.payload["mib"])
        time.sleep(60)
    time.sleep(60)


def share(event):
    """A big worker whose children share its pages, told by themselves to be as big."""
    shared = bytearray(os.urandom(2**20) * 60)
    pids = []
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            signal.alarm(ALARM)
            time.sleep(60)
        pids.append(pid)
    time.sleep(0.5)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return tell(len(shared))

import mmap, threading

held, go_on = [], threading.Event()


def hold(event):
    """Write a file in memory, and keep it: open here, in a child alone, or mapped alone."""
    mib, how = event.payload["mib"], event.payload.get("how", "open")
    fd = os.memfd_create("held")
    for _ in range(mib):
        os.write(fd, bytes(2**20))
    if how == "passed on" and os.fork() == 0:
        time.sleep(60)
    if how == "mapped":
        held.append(mmap.mmap(fd, mib * 2**20))
    if how != "open":
        os.close(fd)
    return tell(os.getpid())


def use(event):
    """Map and read a file in memory, share it with a child, and let go of it."""
    fd = os.memfd_create("used")
    for _ in range(event.payload["mib"]):
        os.write(fd, bytes(2**20))
    with mmap.mmap(fd, event.payload["mib"] * 2**20) as view:
        sum(view[0::4096])
        pid = os.fork()
        if pid == 0:
            time.sleep(0.5)
            os._exit(0)
        os.waitpid(pid, 0)
    os.close(fd)
    return tell(os.getpid())


def many_threads(event):
    for _ in range(event.payload["threads"]):
        threading.Thread(target=go_on.wait, daemon=True).start()
    time.sleep(event.payload["seconds"])
    go_on.set()
    return tell(os.getpid())
'''
)

pytestmark = pytest.mark.slow  # each test starts a zygote, and some hundred processes


@asynccontextmanager
async def watched_pool(folder: Path, **limits: Any) -> AsyncGenerator[Workers]:
    async with running_pool(folder, BOMBS, is_watched=True, **limits) as workers:
        yield workers


def zygotes_children(workers: Workers) -> set[int]:
    assert workers.zygote.pid is not None
    return set(linux.list_descendants(workers.zygote.pid)) - waiting_for_an_order(workers.zygote.pid)


@pytest.mark.parametrize("function", ["bomb", "bomb_of_sessions", "bomb_in_the_shell"])
async def test_a_hook_that_forks_without_end_is_a_crash_and_all_of_it_is_killed(tmp_path: Path, function: str) -> None:
    async with watched_pool(tmp_path, processes=24) as workers:
        outcomes = []

        async def explode() -> None:
            outcomes.append(await workers.call(function, forks=str(tmp_path / "forks")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(explode)
            await until(lambda: len(zygotes_children(workers)) > 10 or outcomes)
            meanwhile = await workers.said("pid")
        await until(lambda: zygotes_children(workers) <= set(workers.pool.status()["pids"]))

    assert outcomes[0].cause == "crash"
    assert outcomes[0].message == "it started too many processes: more than 24 were below it"
    assert meanwhile


async def test_a_bomb_left_behind_by_a_call_that_returned_is_killed_with_its_worker(tmp_path: Path) -> None:
    async with watched_pool(tmp_path, processes=24) as workers:
        await workers.said("bomb_in_the_background", forks=str(tmp_path / "forks"))
        await until(lambda: workers.pool.status()["recycled"])
        await until(lambda: zygotes_children(workers) <= set(workers.pool.status()["pids"]))

        assert await workers.said("pid")


async def test_a_bomb_at_import_is_a_worker_that_did_not_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched_pool(tmp_path, processes=24) as workers:
        await until(lambda: workers.pool.status()["idle"])
        (tmp_path / "explode").touch()
        await workers.call("die")
        await until(lambda: "more than 24 were below it" in caplog.text)
        (tmp_path / "explode").unlink()

        assert await workers.said("pid")
    assert "worker not started" in caplog.text


async def test_memory_that_a_hooks_child_takes_counts_as_its_own(tmp_path: Path) -> None:
    async with watched_pool(tmp_path, total_bytes=150 * 2**20) as workers:
        outcome = await workers.call("swell_below", mib=200)

    assert outcome.cause == "crash"
    assert "MiB resident with all below it are over the limit of 150 MiB" in outcome.message


async def test_pages_that_a_hook_shares_with_its_children_count_once(tmp_path: Path) -> None:
    async with watched_pool(tmp_path, total_bytes=200 * 2**20) as workers:
        size = await workers.said("share")

    assert size == 60 * 2**20


STRICT = wire.WorkerLimits(file_bytes=2**30, isolation=wire.Isolation("strict", is_required=False))


@pytest.mark.linux_only("the level strict")
@pytest.mark.parametrize("how", ["open", "passed on", "mapped"])
async def test_files_in_memory_count_at_strict_across_calls(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"resident_bytes": 300 * 2**20, "total_bytes": 300 * 2**20}
    caplog.set_level(logging.INFO)
    async with watched_pool(tmp_path, worker=STRICT, workers=2, **limits) as workers:
        for _ in range(50):  # some call of these, or the time after it, is the last
            await workers.call("hold", mib=20, how=how)
            if workers.pool.status()["lost"] or workers.pool.status()["recycled"]:
                break
        await until(lambda: workers.pool.status()["lost"] or workers.pool.status()["recycled"])

    # A call that was answered in the moment of the kill does not say it; the log does at each end of a worker.
    reasons = {str(getattr(record, "reason", record.getMessage())) for record in caplog.records}
    assert any("files in memory are over the limit of 300 MiB" in reason for reason in reasons)


@pytest.mark.linux_only("the level strict")
async def test_what_is_held_in_memory_for_a_while_ends_nobody(tmp_path: Path) -> None:
    async with watched_pool(tmp_path, worker=STRICT, resident_bytes=200 * 2**20, total_bytes=300 * 2**20) as workers:
        pids = {await workers.said("use", mib=120) for _ in range(3)}
        pids |= {await workers.said("many_threads", threads=60, seconds=0.3)}
        status = workers.pool.status()

    assert (len(pids), status["lost"], status["recycled"]) == (1, 0, 0)


async def test_threads_without_end_are_a_crash_at_strict_and_some_hundred_are_not_limited_elsewhere(
    tmp_path: Path,
) -> None:
    async with watched_pool(tmp_path, worker=STRICT, threads=100) as workers:
        outcome = await workers.call("many_threads", threads=200, seconds=30)
    (tmp_path / "standard").mkdir()
    async with watched_pool(tmp_path / "standard", threads=100) as workers:
        assert await workers.said("many_threads", threads=200, seconds=0.3)

    assert (outcome.cause, "more than 100 in it and below it" in outcome.message) == ("crash", True)


def test_what_is_frozen_starts_nothing_more(tmp_path: Path) -> None:
    forks = tmp_path / "forks"
    root = os.fork()
    if root == 0:
        try:
            signal.alarm(60)
            while append(forks) < 300:
                if os.fork() == 0:
                    signal.alarm(60)
            signal.pause()
        finally:
            os._exit(0)
    while len(list(linux.list_descendants(root))) < 20:
        continue

    frozen = linux.freeze_processes([root], timeout=60)
    size = forks.stat().st_size
    states = {linux.read_process_state(pid) for pid in frozen}
    select.select([], [], [], 0.1)
    later = {root, *linux.list_descendants(root)}, forks.stat().st_size
    for pid in frozen | later[0]:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(root, 0)

    assert later == (frozen, size)
    assert states == {b"T"}


def append(path: Path) -> int:
    with path.open("a") as file:
        file.write("x")
    return path.stat().st_size
