"""The main benchmarks, side by side in one run: what a fire costs, and how many there are in a second.

latency     one client, one call after the other, in interleaved blocks, so that other load on the machine affects all
            alike; the first calls of a block and the first rounds are warm-up and do not count
one core    the same with client, daemon and workers on one core: no wake-up crosses cores, so the code's own work
            remains.  The stricter ratio, and by far the more stable one
throughput  eight connections with one call in flight each, and one connection with 32 in flight; pools are driven by as
            many callers, and once without any.  All have four workers
1 ms hooks  one that waits and one that computes, eight connections, as many workers as cores: against what as many
            processes do that only call the hook.  One that computes shares its cores with the daemon and the client

Three yardsticks, in rising order: the floor (bench/floor.py), a bare relay with the same two hops and no semantics at
all; the floor with a sha256 chain and a write; straight code with every shape of a fire (bench/straight.py).  Rivals:
pools of processes that a program uses itself (bench/pools.py), and a script that is spawned for each call.

All processes of a run are in one group of the scheduler, where that is permitted, and the load of the machine stands
beside each figure: with other work on it only ratios of one table can be read.

Bad would be, for one Python gate over a kept connection: over 2.3 times the floor's median on all cores, 2.9 on one;
over 1.25 times the straight code; a p99 over three times the floor's; slower than any pool; under 0.30 of the floor's
throughput on all cores or on one, or under that of any pool; with a hook that waits 1 ms, under 0.9 of what its workers
can do, and with one that computes so long, under 0.9 of the floor.

Run: python bench/run.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec

import contenders
import guards
from contenders import Client, calls_a_second, fire_block
from machine import (
    Block,
    blocks_of,
    interleave,
    load,
    on_one_core,
    one_scheduling_group,
    print_machine,
    save,
    summary,
)
from pools import missing, pools

DAEMON = "hooklatch daemon"
FLOOR = "floor: bare relay, two hops"
RECORDING = "floor + sha256 chain + write"
STRAIGHT = "every shape, straight code"
YARDSTICKS = {
    FLOOR: contenders.run_floor,
    RECORDING: contenders.run_recording_floor,
    STRAIGHT: contenders.run_straight,
}
CONNECTIONS, PIPELINED = 8, 32
WORKERS = 4
HOOK_SECONDS = 0.001
CORES = len(os.sched_getaffinity(0))
MOST = {"two cores": 2.3, "one core": 2.9, "straight": 1.25, "p99": 3.0}
LEAST = {"throughput": 0.30, "workers": 0.9}
Rows = dict[str, dict[str, float]]


def latency(rounds: int, calls: int) -> Rows:
    """Time one call after the other to each contender."""
    with ExitStack() as stack:
        daemon = stack.enter_context(contenders.run_daemon())
        blocks: dict[str, tuple[Block, int]] = {DAEMON: (fire_block(daemon.connect()), calls)}
        for name, run in YARDSTICKS.items():
            blocks[name] = (fire_block(stack.enter_context(run(workers=1))()), calls)
        for name, pool in stack.enter_context(pools(1)).items():
            blocks[name] = (pool.block, calls)
        rare = max(2, calls // 50)
        blocks["python -I -S script, spawned"] = (blocks_of(contenders.spawn_script("-I", "-S")), rare)
        blocks["python script, spawned"] = (blocks_of(contenders.spawn_script()), rare)
        return {name: msgspec.to_builtins(summary(took)) for name, took in interleave(blocks, rounds).items()}


def throughput(rounds: int, seconds: float, workers: int) -> dict[str, Rows]:
    """Return each contender's calls per second, with many connections and with one: medians of the rounds."""
    many, one = f"{CONNECTIONS} connections or callers", f"pipelined on one connection, {PIPELINED} in flight"
    called_back = f"pools without callers, {CONNECTIONS} in flight by callbacks"
    rates: dict[str, dict[str, Callable[[], float]]] = {many: {}, one: {}, called_back: {}}

    def add(name: str, connect: Callable[[], Client]) -> None:
        clients, single = [connect() for _ in range(CONNECTIONS)], connect()
        rates[many][name] = partial(calls_a_second, clients, seconds)
        rates[one][name] = partial(calls_a_second, [single], seconds, in_flight=PIPELINED)

    with ExitStack() as stack:
        add(DAEMON, stack.enter_context(contenders.run_daemon(workers=workers)).connect)
        for name, run in YARDSTICKS.items():
            add(name, stack.enter_context(run(workers=workers)))
        for name, pool in stack.enter_context(pools(workers)).items():
            rates[many][name] = partial(pool.rate, CONNECTIONS, seconds)
            if pool.rate_by_callbacks:
                rates[called_back][name] = partial(pool.rate_by_callbacks, CONNECTIONS, seconds)
        rates[called_back][FLOOR] = rates[many][FLOOR]
        return {kind: in_turns(found, rounds, FLOOR) for kind, found in rates.items()}


def in_turns(rates: dict[str, Callable[[], float]], rounds: int, unit: str) -> Rows:
    """Measure each rate once a round, after a round that warms up; return medians, and their share of one of them."""
    series: dict[str, list[float]] = {name: [] for name in rates}
    for number in range(rounds + 1):
        for name in [*rates] if number % 2 else [*rates][::-1]:
            rate = rates[name]()
            if number:
                series[name].append(rate)
    medians = {name: statistics.median(found) for name, found in series.items()}
    return {name: {"calls_a_second": rate, "x": rate / medians[unit]} for name, rate in medians.items()}


def slow_hooks(rounds: int, seconds: float) -> dict[str, Rows]:
    """Return calls per second where the hook takes a millisecond, and the share of what the workers can do."""
    found: dict[str, Rows] = {}
    with contenders.run_daemon(workers=max(2, CORES)) as daemon, contenders.run_floor(workers=max(2, CORES)) as floor:
        for tool, hook in (("Sleep", guards.sleep), ("Spin", guards.spin)):
            rates: dict[str, Callable[[], float]] = {"workers alone": partial(most_of, hook)}
            for name, connect in ((DAEMON, daemon.connect), (FLOOR, floor)):
                clients = [connect() for _ in range(CONNECTIONS)]
                line = clients[0].fire_line(tool, seconds=HOOK_SECONDS)
                rates[name] = partial(calls_a_second, clients, seconds, line=line)
            kind = "a hook that waits 1 ms" if tool == "Sleep" else "a hook that computes 1 ms"
            found[kind] = in_turns(rates, rounds, "workers alone")
    return found


def most_of(hook: Callable[[Any], object]) -> float:
    """Return the rate of as many workers as cores that do nothing but call the hook."""
    event = SimpleNamespace(tool_input={"seconds": HOOK_SECONDS})
    start = time.perf_counter()
    for _ in range(100):
        hook(event)
    return max(2, CORES) * 100 / (time.perf_counter() - start)


def show_latency(title: str, found: Rows) -> None:
    floor = found[FLOOR]
    print(f"\n{title:<44}{'p50 ms':>10}{'p99 ms':>10}{'x floor':>10}{'p99 x':>8}{'calls':>8}")
    for name, row in found.items():
        ratios = row["p50_ms"] / floor["p50_ms"], row["p99_ms"] / floor["p99_ms"]
        print(
            f"{name:<44}{row['p50_ms']:10.3f}{row['p99_ms']:10.3f}{ratios[0]:10.2f}{ratios[1]:8.2f}{row['count']:8.0f}"
        )


def show_rates(title: str, found: Rows) -> None:
    print(f"\n{title:<44}{'calls/s':>10}{'x':>20}")
    for name, row in found.items():
        print(f"{name:<44}{row['calls_a_second']:10.0f}{row['x']:20.2f}")


def judgement(
    on_all: Rows, on_one: Rows, rates: dict[str, Rows], slow: dict[str, Rows], loads: dict[str, float]
) -> list[tuple[str, float, str]]:
    """Return each number that could be bad, and what would be, with the load while it was measured."""
    lines: list[tuple[str, float, str]] = []
    for where, found in (("two cores", on_all), ("one core", on_one)):
        own, floor, straight = found[DAEMON], found[FLOOR], found[STRAIGHT]
        pool = min(row["p50_ms"] for name, row in found.items() if is_pool(name))
        lines += [
            (f"p50, {where}: x floor", own["p50_ms"] / floor["p50_ms"], f"over {MOST[where]}"),
            (f"p50, {where}: x straight code", own["p50_ms"] / straight["p50_ms"], f"over {MOST['straight']}"),
            (f"p50, {where}: x the fastest pool", own["p50_ms"] / pool, "over 1"),
            (f"p99, {where}: x floor", own["p99_ms"] / floor["p99_ms"], f"over {MOST['p99']}"),
        ]
    for kind, rows in rates.items():
        if DAEMON not in rows:
            continue
        lines.append((f"{kind}: x floor", rows[DAEMON]["x"], f"under {LEAST['throughput']}"))
        if fastest := [row["x"] for name, row in rows.items() if is_pool(name)]:
            lines.append((f"{kind}: x the fastest pool", rows[DAEMON]["x"] / max(fastest), "under 1"))
    waiting, computing = slow.values()
    lines.append(("a hook that waits 1 ms: x workers", waiting[DAEMON]["x"], f"under {LEAST['workers']}"))
    share = computing[DAEMON]["x"] / computing[FLOOR]["x"]
    lines.append(("a hook that computes 1 ms: x floor", share, f"under {LEAST['workers']}"))
    return [(what, number, f"{bad:<12} load {loads[table_of(what)]}") for what, number, bad in lines]


def table_of(what: str) -> str:
    """Return which of the loads a line of the judgement was measured under."""
    kind = what.partition(":")[0].removeprefix("p50, ").removeprefix("p99, ")
    return kind if kind in ("two cores", "one core") else "rates"


def is_pool(name: str) -> bool:
    return name != DAEMON and name not in YARDSTICKS and "spawned" not in name


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a fire with the least that it could cost, and with rivals.")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, not how fast")
    options = parser.parse_args()
    rounds, calls, seconds, workers = (1, 5, 0.02, 2) if options.quick else (options.rounds, 200, 0.5, WORKERS)
    few = max(1, rounds // 3)
    machine = print_machine()
    for name in missing():
        print(f"not installed, so left out: {name}")

    with one_scheduling_group() as scheduling:
        print(f"scheduling: {scheduling}")
        loads: dict[str, float] = {}
        on_all, loads["two cores"] = latency(rounds, calls), load()
        with on_one_core():
            on_one, loads["one core"] = latency(rounds, calls), load()
            single = {f"one core, {kind}": rows for kind, rows in throughput(few, seconds, workers).items()}
        rates = throughput(few, seconds, workers)
        slow, loads["rates"] = slow_hooks(few, seconds), load()
    rates |= {kind: rows for kind, rows in single.items() if "connections" in kind}

    show_latency("latency", on_all)
    show_latency("latency on one core", on_one)
    for kind, rows in {**rates, **slow}.items():
        show_rates(kind, rows)
    lines = judgement(on_all, on_one, rates, slow, loads)
    print(f"\n{'the daemon':<64}{'':>8}  bad would be")
    for what, number, bad in lines:
        print(f"{what:<64}{number:8.2f}  {bad}")
    path = save(
        "run_quick" if options.quick else "run",
        {
            "machine": {**machine, "scheduling": scheduling},
            "loads": loads,
            "rounds": rounds,
            "latency": on_all,
            "latency_on_one_core": on_one,
            "calls_a_second": rates,
            "slow_hooks": slow,
            "ratios": {what: number for what, number, _ in lines},
        },
    )
    print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
