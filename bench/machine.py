"""Shared by all benchmarks: a description of the machine, summaries of series, interleaving, and the results folder."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sysconfig
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import msgspec

__all__ = [
    "ROOT",
    "WARM_CALLS",
    "WARM_ROUNDS",
    "Block",
    "Summary",
    "blocks_of",
    "describe",
    "interleave",
    "load",
    "on_one_core",
    "one_scheduling_group",
    "print_machine",
    "raise_open_files",
    "save",
    "summary",
]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
WARM_ROUNDS = 2
WARM_CALLS = 5  # per block, since caches hold another contender's code
CPU_GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))  # cgroups(7): version 1, version 2
BUILD_FLAGS = {"--enable-optimizations": "PGO", "--with-lto": "LTO"}
Block = Callable[[int], list[float]]

# An installed package is compiled.  Otherwise whatever starts here would compile every module anew, each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class Summary(msgspec.Struct, frozen=True):
    """A series of milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    best_ms: float
    worst_ms: float


def summary(series: Sequence[float]) -> Summary:
    ordered = sorted(series)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Summary(len(ordered), statistics.median(ordered), p99, ordered[0], ordered[-1])


def describe() -> dict[str, object]:
    """Return the machine and its load: a load near the number of cores makes all results worse."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "build": build_flags(),
        "trio": version("trio"),
        "msgspec": version("msgspec"),
        "load_before": load(),
    }


def build_flags() -> str:
    """Return which optimizations this interpreter was built with; one without costs 10 to 15 % in the ratios."""
    words = str(sysconfig.get_config_var("CONFIG_ARGS") or "").replace("'", " ").split()
    return (
        " ".join(name for flag, name in BUILD_FLAGS.items() if any(word.startswith(flag) for word in words)) or "plain"
    )


def print_machine() -> dict[str, object]:
    machine = describe()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    return machine


def blocks_of(call: Callable[[], object]) -> Block:
    """Return a block of calls, each timed in milliseconds, from a function that makes one."""

    def block(calls: int) -> list[float]:
        took: list[float] = []
        for _ in range(calls):
            start = time.perf_counter()
            call()
            took.append((time.perf_counter() - start) * 1e3)
        return took

    return block


def interleave(blocks: dict[str, tuple[Block, int]], rounds: int) -> dict[str, list[float]]:
    """Run each block once per round, starting with a different one each time."""
    series: dict[str, list[float]] = {name: [] for name in blocks}
    names = list(blocks)
    for number in range(rounds + WARM_ROUNDS):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            block, calls = blocks[name]
            warm = min(WARM_CALLS, calls - 1)
            took = block(calls)[warm:]
            if number >= WARM_ROUNDS:
                series[name] += took
    return series


@contextmanager
def on_one_core() -> Generator[None]:
    """Pin this process, and those that it starts meanwhile, to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def one_scheduling_group() -> Generator[str]:
    """Put this process, and those that it starts meanwhile, into one group of the scheduler; yield what came of it.

    A worker begins a session of its own, so with autogroups (sched(7)) it is a group of its own, and latency depends on
    the groups of whatever else runs.  A cpu cgroup ends that, where we may make one.
    """
    folder = next((root for root in CPU_GROUPS if (root / "cgroup.procs").exists()), None)
    own = folder / f"hooklatch-bench-{os.getpid()}" if folder is not None else None
    try:
        if own is None:
            raise FileNotFoundError("no cpu cgroups")
        own.mkdir()
        (own / "cgroup.procs").write_text(str(os.getpid()))
        if not any((own / name).exists() for name in ("cpu.shares", "cpu.weight")):
            raise FileNotFoundError("no cpu controller")
    except OSError as error:
        yield f"each process by itself ({error.strerror or error})"
        return
    try:
        yield "one group"
    finally:
        for pid in (own / "cgroup.procs").read_text().split():  # ours, and those that end with it
            with suppress(OSError):  # it has ended
                (own.parent / "cgroup.procs").write_text(pid)
        own.rmdir()


def load() -> float:
    """Return how many processes wanted a core in the last minute, our own among them."""
    return round(os.getloadavg()[0], 2)


def raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def save(name: str, record: dict[str, object]) -> Path:
    """Write one run's record to bench/results/, replacing the previous one."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    return path
