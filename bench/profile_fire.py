"""How the time of one fire is spent: the daemon runs in this process with marks at its stages, the client in another.

The time between two marks belongs to the stage that ends at the second one, so the stages add up to the total.  Marks
have a cost of their own (about 0.2 us each, and trio's instrument somewhat more): the line "unmarked" is the duration
of a fire without any, seen from the client.  If everything runs on one core, the worker's time is part of "pool send"
(it preempts at once) and the two waits are 0.  Bad would be: one stage of our own code (all but the worker and the two
waits) that takes over a quarter of the total.

Run: python bench/profile_fire.py [--fires N] [--cprofile]; the latter prints cProfile's table instead.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import pstats
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from contenders import Client
from hooklatch.core.decisions import phases
from hooklatch.core.decisions.decision import Machine
from hooklatch.processes import worker as worker_module
from hooklatch.processes.pool import Pool
from hooklatch.service.dispatch import dispatcher as dispatcher_module
from hooklatch.service.process.daemon import serve
from hooklatch.service.process.folders import Options
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.transport import connection as connection_module
from hooklatch.service.transport.connection import Connection
from hooklatch_worker import wire
from machine import describe, save

HERE = Path(__file__).resolve().parent
STAGES = {
    "wait for a request": "blocked in epoll between two fires: the client's part",
    "wake for the request": "trio's loop from epoll's return to our task",
    "socket in": "recv of the request",
    "decode": "line cut off, request with its params",
    "select": "event, payload, view, matching",
    "machine": "the fire made, its first call asked for",
    "take": "a worker taken",
    "frame": "the envelope and the worker's frame encoded",
    "pool send": "send to the worker",
    "to sleep": "trio's loop from our wait to epoll",
    "worker": "blocked in epoll: the worker woken, the callback run, its answer sent, we woken",
    "wake for the answer": "trio's loop from epoll's return to our task",
    "pool receive": "recv of the answer",
    "decode answer": "frame cut off, the worker's message",
    "give back": "worker back to idle, statistics, outcome",
    "combine": "answer judged, decision made",
    "decision encode": "decision counted, shown to subscribers, made JSON",
    "socket out": "send to the client",
    "to sleep again": "trio's loop from our wait to epoll",
}


class Marks:
    """The times of the marks, in order, each with the stage that ended."""

    def __init__(self) -> None:
        self.moments: list[tuple[str, int]] = []
        self.is_on = False

    def mark(self, stage: str, at: int | None = None) -> None:
        if self.is_on:
            self.moments.append((stage, at or time.perf_counter_ns()))

    def after(self, holder: Any, name: str, stage: str) -> None:
        """Mark each return of a plain function."""
        function: Callable[..., object] = getattr(holder, name)

        @functools.wraps(function)
        def marked(*args: object, **kwargs: object) -> object:
            try:
                return function(*args, **kwargs)
            finally:
                self.mark(stage)

        setattr(holder, name, marked)

    def after_waiting(self, holder: Any, name: str, stage: str) -> None:
        """Mark each return of a coroutine function."""
        function: Callable[..., Any] = getattr(holder, name)

        @functools.wraps(function)
        async def marked(*args: object, **kwargs: object) -> object:
            try:
                return await function(*args, **kwargs)
            finally:
                self.mark(stage)

        setattr(holder, name, marked)

    def fires(self) -> dict[str, list[float]]:
        """Return the microseconds of each stage, one number per fire; 0 if it did not have to wait."""
        found: dict[str, list[float]] = {stage: [] for stage in STAGES}
        current: dict[str, float] = {}
        for (_, before), (stage, at) in zip(self.moments, self.moments[1:], strict=False):
            if stage == "wake for the request":
                if "socket out" in current and "pool receive" in current:
                    for name, series in found.items():
                        series.append(current.get(name, 0.0))
                current = {}
            current[stage] = current.get(stage, 0.0) + (at - before) / 1e3
        return found


class MarkedSocket:
    """A socket that records marks; trio only needs its fileno."""

    def __init__(self, inner: Any, marks: Marks, *, woken: str, received: str, sent: str) -> None:
        self._inner = inner
        self._marks = marks
        self._woken = woken
        self._received = received
        self._sent = sent
        self.fileno = inner.fileno
        self.close = inner.close
        self.shutdown = inner.shutdown

    def recv(self, size: int) -> bytes:
        began = time.perf_counter_ns()
        data = self._inner.recv(size)
        self._marks.mark(self._woken, began)
        self._marks.mark(self._received)
        return data

    def send(self, data: bytes) -> int:
        sent = self._inner.send(data)
        self._marks.mark(self._sent)
        return sent


class Sleeps(trio.abc.Instrument):
    """Marks when trio's event loop blocks and wakes; the last send tells which of the two waits of a fire it is."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._marks.mark("to sleep" if self._is_out() else "to sleep again")

    def after_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._marks.mark("worker" if self._is_out() else "wait for a request")

    def _is_out(self) -> bool:
        moments = self._marks.moments
        return bool(moments) and moments[-1][0] in ("pool send", "to sleep", "worker")


def install(marks: Marks) -> None:
    """Install a mark at the end of each of the daemon's stages."""
    for holder, name, stage in (
        (connection_module, "read_line", "decode"),
        (dispatcher_module, "select", "select"),
        (phases.Gate, "next_calls", "machine"),
        (Pool, "_take", "take"),
        (wire, "frame", "frame"),
        (wire, "decode_from_worker", "decode answer"),
        (Statistics, "called", "give back"),
        (Machine, "decide", "combine"),
        (connection_module, "encode_result", "decision encode"),
    ):
        marks.after(holder, name, stage)
    mark_sockets(marks)


def mark_sockets(marks: Marks) -> None:
    start, load = Connection.run, worker_module.Worker.load

    async def run(self: Connection) -> None:
        self._socket = MarkedSocket(
            self._socket, marks, woken="wake for the request", received="socket in", sent="socket out"
        )
        await start(self)

    async def loaded(self: worker_module.Worker, *args: Any) -> Any:
        answer = await load(self, *args)
        self.process.socket = MarkedSocket(
            self.process.socket, marks, woken="wake for the answer", received="pool receive", sent="pool send"
        )
        return answer

    Connection.run = run
    worker_module.Worker.load = loaded


def lay_out(folder: str) -> None:
    shutil.copy(HERE / "guards.py", folder)
    Path(folder, "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')


@asynccontextmanager
async def daemon_here() -> AsyncGenerator[str]:
    with tempfile.TemporaryDirectory() as folder:
        lay_out(folder)
        options = Options(f"{folder}/hooks.toml", f"{folder}/run", f"{folder}/state", owns_process=False)
        async with serve(options) as daemon:
            yield daemon.ready.agent


async def fire_from_outside(path: str, fires: int) -> list[float]:
    """Have a client process fire; return how many microseconds each fire took."""
    command = [sys.executable, str(HERE / "profile_fire.py"), "--fire-at", path, "--fires", str(fires)]
    done = await trio.run_process(command, capture_stdout=True)
    return msgspec.json.decode(done.stdout, type=list[float])


def be_client(path: str, fires: int) -> None:
    client = Client(path)
    client.call("hello", protocol=1, session={"host": "bench"})
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
        unmarked = await fire_from_outside(path, fires)
    marks = Marks()
    install(marks)
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
        "stages_us": stages,
    }


async def profile_calls(fires: int) -> None:
    profiler = cProfile.Profile()
    async with daemon_here() as path:
        await fire_from_outside(path, 200)
        profiler.enable()
        await fire_from_outside(path, fires)
        profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def show(found: dict[str, Any]) -> None:
    stages = found["stages_us"]
    whole = sum(took for stage, took in stages.items() if stage != "wait for a request")
    print(f"{'stage':<22}{'p50 us':>8}{'share':>8}")
    for stage, took in stages.items():
        share = "" if stage == "wait for a request" else f"{took / whole:7.1%}"
        print(f"{stage:<22}{took:8.1f}{share:>8}  {STAGES[stage]}")
    print(f"{'sum without the first':<22}{whole:8.1f}")
    print(f"seen from the client: {found['marked_us']:.1f} us marked, {found['unmarked_us']:.1f} us unmarked (medians)")


def main() -> int:
    parser = argparse.ArgumentParser(description="Show where the time of one fire goes.")
    parser.add_argument("--fires", type=int, default=5000)
    parser.add_argument("--cprofile", action="store_true")
    parser.add_argument("--fire-at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fire_at:
        be_client(options.fire_at, options.fires)
        return 0
    machine = describe()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    if options.cprofile:
        trio.run(profile_calls, options.fires)
        return 0
    found = trio.run(profile, options.fires)
    show(found)
    save("profile_fire", {"machine": machine, **found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
