"""How the time of one fire is spent: the daemon runs in this process, the client in another.

stages   between marks at the sockets and at trio's loop; they add up to the total.  What is between two of them is our
         own code, before the worker has the call, while it runs, and after it has answered.  If everything runs on one
         core, the worker's time is part of "pool send" (it preempts at once) and the two waits are 0
kinds    `--kinds`: the own time of each function by cProfile, summed by what it does: system calls, encoding, hashing,
         trio, and each of our folders.  cProfile slows Python more than C, so this says where, and not how long
cProfile `--cprofile`: its table

No mark knows a name of the daemon's own, so whatever stands there can be profiled.  Marks have a cost (about 0.3 us
each, and trio's instrument somewhat more): "unmarked" is the duration of a fire without any, seen from the client.
Switches and processor time are those of the daemon's thread, unmarked.  Bad would be: one stage of our own code that
takes over a quarter of the total.

Run: python bench/profile_fire.py [--fires N] [--kinds | --cprofile] [--one-core] [--quick]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import trio

from contenders import connect
from hooklatch.service.daemon import open_daemon
from hooklatch.service.folders import DaemonOptions
from machine import on_one_core, print_machine, save

HERE = Path(__file__).resolve().parent
OWN = ("before the worker", "while the worker runs", "after the worker")
STAGES = {
    "wait for a request": "blocked in epoll between two fires: the client's part",
    "wake for the request": "trio's loop from epoll's return to our task",
    "socket in": "recv of the request",
    "before the worker": "request read, plan found, a worker taken, its frame encoded",
    "pool send": "send to the worker",
    "while the worker runs": "what needs no answer, and trio's loop from our wait to epoll",
    "worker": "waiting: the worker woken, the callback run, its answer sent, we woken",
    "wake for the answer": "trio's loop from epoll's return to our task",
    "pool receive": "recv of the answer",
    "after the worker": "the answer read, the decision made, recorded and encoded",
    "socket out": "send to the client",
    "to sleep again": "what is left to do, and trio's loop from our wait to epoll",
}
KINDS = {
    "waiting in epoll": ("'poll' of",),
    "system calls": ("'recv' of", "'send' of", "'sendmsg' of", "posix.", "_socket.socket"),
    "encoding": ("msgspec", "'encode' of", "'decode' of", "encode_into", "_json."),
    "hashing, searching": ("sha256", "_hashlib", "hexdigest", "re2"),
}


class Marks:
    """The times of the marks, in order, each with the stage that ended."""

    def __init__(self) -> None:
        self.moments: list[tuple[str, int]] = []
        self.is_on = False
        self.is_out = False  # whether a worker has a call
        self.last = ""

    def mark(self, stage: str, at: int | None = None) -> None:
        if self.is_on:
            self.moments.append((stage, at or time.perf_counter_ns()))
            self.last = stage

    def fires(self) -> dict[str, list[float]]:
        """Return the microseconds of each stage, one number per fire; 0 if it did not have to wait."""
        found: dict[str, list[float]] = {stage: [] for stage in STAGES}
        current: dict[str, float] = {}
        for (_, before), (stage, at) in zip(self.moments, self.moments[1:], strict=False):
            if stage == "wake for the request":
                if {"socket out", "pool receive"} <= current.keys() <= STAGES.keys():
                    for name, series in found.items():
                        series.append(current.get(name, 0.0))
                current = {}
            current[stage] = current.get(stage, 0.0) + (at - before) / 1e3
        return found


class Sleeps(trio.abc.Instrument):
    """Marks when trio's loop blocks and wakes."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._marks.mark("while the worker runs" if self._marks.is_out else "to sleep again")

    def after_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._marks.mark("worker" if self._marks.is_out else "wait for a request")


def mark_sockets(marks: Marks) -> None:
    """Mark what goes through every socket of this process; those with a path are the clients'."""
    recv, send = socket.socket.recv, socket.socket.send

    def marked_recv(self: socket.socket, *arguments: Any) -> bytes:
        began = time.perf_counter_ns()
        is_client = bool(self.getsockname())
        if marks.is_out and not is_client and marks.last == "pool send":
            marks.mark("while the worker runs", began)
        data = recv(self, *arguments)
        if is_client:
            marks.mark("wake for the request", began)
            marks.mark("socket in")
        elif marks.is_out:
            marks.mark("wake for the answer" if marks.last == "worker" else "worker", began)
            marks.mark("pool receive")
            marks.is_out = False
        return data

    def marked_send(self: socket.socket, *arguments: Any) -> int:
        began = time.perf_counter_ns()
        is_client = bool(self.getsockname())
        marks.mark("after the worker" if is_client else "before the worker", began)
        sent = send(self, *arguments)
        marks.mark("socket out" if is_client else "pool send")
        marks.is_out = not is_client
        return sent

    socket.socket.recv = marked_recv  # type: ignore[assignment]
    socket.socket.send = marked_send  # type: ignore[assignment]


def lay_out(folder: str) -> None:
    shutil.copy(HERE / "guards.py", folder)
    Path(folder, "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')


@asynccontextmanager
async def daemon_here() -> AsyncGenerator[str]:
    with tempfile.TemporaryDirectory() as folder:
        lay_out(folder)
        options = DaemonOptions(f"{folder}/hooks.toml", f"{folder}/run", f"{folder}/state", owns_process=False)
        async with open_daemon(options) as daemon:
            yield daemon.ready["agent"]


async def fire_from_outside(path: str, fires: int) -> list[float]:
    """Have a client process fire; return how many microseconds each fire took."""
    command = [sys.executable, str(HERE / "profile_fire.py"), "--fire-at", path, "--fires", str(fires)]
    done = await trio.run_process(command, capture_stdout=True)
    return msgspec.json.decode(done.stdout, type=list[float])


def be_client(path: str, fires: int) -> None:
    client = connect(path)
    line = client.fire_line()
    took: list[float] = []
    for _ in range(fires):
        start = time.perf_counter()
        client.exchange(line)
        took.append((time.perf_counter() - start) * 1e6)
    client.close()
    print(msgspec.json.encode(took[fires // 10 :]).decode())  # the first tenth warms up


async def profile(fires: int) -> dict[str, object]:
    async with daemon_here() as path:
        before = resource.getrusage(resource.RUSAGE_THREAD)
        unmarked = await fire_from_outside(path, fires)
        after = resource.getrusage(resource.RUSAGE_THREAD)
    marks = Marks()
    mark_sockets(marks)
    trio.lowlevel.add_instrument(Sleeps(marks))
    async with daemon_here() as path:
        marks.is_on = True
        marked = await fire_from_outside(path, fires)
        marks.is_on = False
    stages = {stage: statistics.median(took[len(took) // 10 :]) for stage, took in marks.fires().items()}
    return {
        "fires": fires,
        "unmarked_us": statistics.median(unmarked),
        "marked_us": statistics.median(marked),
        "user_us": (after.ru_utime - before.ru_utime) / fires * 1e6,
        "system_us": (after.ru_stime - before.ru_stime) / fires * 1e6,
        "switches": (after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw) / fires,
        "stages_us": stages,
    }


async def profile_calls(fires: int) -> pstats.Stats:
    profiler = cProfile.Profile()
    async with daemon_here() as path:
        await fire_from_outside(path, 200)
        profiler.enable()
        await fire_from_outside(path, fires)
        profiler.disable()
    return pstats.Stats(profiler)


def kind_of(file: str, function: str) -> str:
    """Return what a function of cProfile's table does: of ours, the folder that it is in."""
    name = f"{file} {function}"
    for root in ("/supervisor/hooklatch/", "/workers/"):
        if root in file:
            folder = file.partition(root)[2].rpartition("/")[0]
            return f"ours: {folder or 'hooklatch'}"
    for kind, words in KINDS.items():
        if any(word in name for word in words):
            return kind
    return "trio" if "/trio/" in file or "/outcome/" in file else "other built-in and library functions"


def kinds_of(stats: pstats.Stats, fires: int) -> dict[str, dict[str, float]]:
    took: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for (file, _, function), (_, count, own, *_) in stats.stats.items():  # type: ignore[attr-defined]
        kind = kind_of(file, function)
        took[kind] += own
        calls[kind] += count
    return {kind: {"us": own / fires * 1e6, "calls": calls[kind] / fires} for kind, own in took.most_common()}


def show(found: dict[str, Any]) -> None:
    stages = found["stages_us"]
    whole = sum(took for stage, took in stages.items() if stage != "wait for a request")
    print(f"{'stage':<24}{'p50 us':>8}{'share':>8}")
    for stage, took in stages.items():
        share = "" if stage == "wait for a request" else f"{took / whole:7.1%}"
        print(f"{stage:<24}{took:8.1f}{share:>8}  {STAGES[stage]}")
    print(f"{'sum without the first':<24}{whole:8.1f}")
    print(f"seen from the client: {found['marked_us']:.1f} us marked, {found['unmarked_us']:.1f} us unmarked (medians)")
    print(
        f"the daemon's thread, a fire: {found['user_us']:.1f} us in user mode, {found['system_us']:.1f} in the kernel, "
        f"{found['switches']:.2f} switches"
    )


def show_kinds(found: dict[str, dict[str, float]]) -> None:
    whole = sum(one["us"] for kind, one in found.items() if kind != "waiting in epoll")
    print(f"{'kind':<44}{'us':>8}{'share':>8}{'calls':>8}")
    for kind, one in found.items():
        if one["calls"] >= 0.05:
            share = "" if kind == "waiting in epoll" else f"{one['us'] / whole:.1%}"
            print(f"{kind:<44}{one['us']:8.1f}{share:>8}{one['calls']:8.1f}")
    calls = sum(one["calls"] for one in found.values())
    print(f"{'all but the waiting, under cProfile':<44}{whole:8.1f}{'':8}{calls:8.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Show where the time of one fire goes.")
    parser.add_argument("--fires", type=int, default=5000)
    parser.add_argument("--kinds", action="store_true", help="sum cProfile's table by what functions do")
    parser.add_argument("--cprofile", action="store_true", help="print cProfile's table")
    parser.add_argument("--one-core", action="store_true", help="client, daemon and workers on one core")
    parser.add_argument("--quick", action="store_true", help="100 fires, saved apart: shows that it runs")
    parser.add_argument("--fire-at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fire_at:
        be_client(options.fire_at, options.fires)
        return 0
    fires, name = (100, "{}_quick") if options.quick else (options.fires, "{}")
    machine = print_machine()
    with on_one_core() if options.one_core else nullcontext():
        if options.cprofile:
            trio.run(profile_calls, fires).sort_stats("tottime").print_stats(40)
        elif options.kinds:
            kinds = kinds_of(trio.run(profile_calls, fires), fires)
            show_kinds(kinds)
            save(name.format("profile_fire_kinds"), {"machine": machine, "kinds": kinds})
        else:
            found = trio.run(profile, fires)
            show(found)
            save(name.format("profile_fire"), {"machine": machine, **found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
