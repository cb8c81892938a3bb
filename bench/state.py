"""The cost of a counter shared by a source's workers: in the daemon, or in SQLite (WAL) written by the workers.

step        one increment, in a worker, from the request to the sum; by one worker alone and by four that contend
quiet       calls of a guard of another source that counts nothing, alone and while four workers send requests nonstop

served      event.state: a request to the daemon over the worker's own socket; `kept`: with its journal on disk
sqlite      begin immediate, upsert, commit; synchronous = normal, as safe against a killed process as `kept`

Both sums must be exact.  The two are interleaved, so that other load on the machine affects both alike.

SQLite is faster by the two context switches of a request, but event.state does not use it, since it needs a file that
every worker can write and lock (docs/explanation/design.md).  So bad would be a step that is expensive relative to a
call: kept, by one worker, over twice the p50 of a whole call of a guard that counts nothing; or a quiet p99 of over 3
times the one alone; or a sum that is not exact.

Run: python bench/state.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

import trio

from calls import call_of, fire_of
from hooklatch.core.call import Call
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.payload import Payload
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.zygote import open_zygote
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch_worker import wire
from machine import ROOT, print_machine, save, summary

WORKERS = 4
GUARDS = wire.Source("file", str(ROOT / "bench" / "guards.py"))
CODE = wire.LoadCode(Path(GUARDS.location).read_bytes(), str(ROOT / "bench"))
HOOKS = {
    function: Hook(
        id=function, event="pre_tool_use", layer=Layer.GLOBAL, matcher=compile_matcher(None),
        target=PythonTarget(GUARDS, 1, function),
    )
    for function in ("served", "sqlite")
}  # fmt: skip
WAYS = ("served", "served, kept", "sqlite")
WORST_STEP, WORST_QUIET = 2.0, 3.0
Series = dict[str, list[float]]


class Bench:
    """A pool for the counting source, one for the quiet source, and both stores."""

    def __init__(self, pool: Pool, quiet: Pool, states: dict[str, SharedState], folder: Path, steps: int) -> None:
        self._pool = pool
        self._quiet = quiet
        self._states = states
        self._path = str(folder / "counters.db")
        create_database(self._path)
        self._steps = steps
        self.sums: dict[str, int] = defaultdict(int)
        self.done: dict[str, int] = defaultdict(int)

    async def call(self, way: str, series: list[float]) -> None:
        """Take some steps in one worker, and record the duration of each."""
        payload = json.dumps({"steps": self._steps, "path": self._path}).encode()
        state = self._states.get(way)
        fire = fire_of(state.answer if state else None)
        asked = Call(0, HOOKS[way.partition(",")[0]], Payload(payload), {})
        outcome = await self._pool.call(asked, fire, trio.current_time() + 60)
        if outcome.cause != "policy":
            raise RuntimeError(str(outcome))
        said = json.loads(outcome.answer)["context"]
        series += said["times"]
        self.sums[way] = max(self.sums[way], said["value"])
        self.done[way] += self._steps

    async def together(self, way: str, series: list[float]) -> None:
        """Take steps in all workers at once."""
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(self.call, way, series)

    async def quietly(self, series: list[float], calls: int) -> None:
        payload = b'{"tool_name":"Bash","tool_input":{"command":"ls"}}'
        for _ in range(calls):
            asked = call_of("no_force_push", payload)
            outcome = await self._quiet.call(asked, fire_of(), trio.current_time() + 60)
            series.append(outcome.duration_ms)

    async def beside(self, series: list[float], calls: int) -> None:
        """Time the quiet guard while all other workers send requests nonstop."""
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(self._without_end)
            await self.quietly(series, calls)
            nursery.cancel_scope.cancel()

    async def _without_end(self) -> None:
        while True:
            await self.call("served, endless", [])


def create_database(path: str) -> None:
    """Create the file of counters, in WAL mode.

    Done before any worker opens it: connections that switch a file to WAL at once fail, whatever their timeout is.
    """
    database = sqlite3.connect(path)
    database.execute("pragma journal_mode = wal")
    database.execute("create table counters (key text primary key, value integer)")
    database.close()


async def measure(rounds: int, steps: int, folder: Path) -> tuple[Series, Bench]:
    series: Series = defaultdict(list)
    (folder / "kept").mkdir()
    states = {name: SharedState(str(folder)) for name in ("served", "served, endless")}
    states["served, kept"] = SharedState(f"{folder}/kept")
    states["served, kept"].open()
    limits = PoolLimits(workers=WORKERS)
    async with open_zygote() as zygote, trio.open_nursery() as nursery:
        for state in states.values():
            await nursery.start(state.run)
        pools = [Pool(GUARDS, 1, zygote, limits, CODE, on_busy=str) for _ in range(2)]
        for pool in pools:
            await nursery.start(pool.run)
        bench = Bench(pools[0], pools[1], states, folder, steps)
        for way in WAYS:  # start every worker and create every file before measuring
            await bench.together(way, [])
        for _ in range(rounds):
            for way in WAYS:
                await bench.call(way, series[f"{way}, 1 worker"])
                await bench.together(way, series[f"{way}, {WORKERS} workers"])
            await bench.quietly(series["quiet, alone"], steps)
        for act in [partial(bench.beside, series["quiet, beside"], steps)] * rounds:
            await act()
        nursery.cancel_scope.cancel()
    for state in states.values():
        state.close()
    return series, bench


def main() -> int:
    parser = argparse.ArgumentParser(description="Time a counter that workers share.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="few steps: to see that it runs")
    arguments = parser.parse_args()
    rounds, steps = (2, 20) if arguments.quick else (arguments.rounds, 300)
    machine = print_machine()
    with tempfile.TemporaryDirectory(prefix="state-") as folder:
        series, bench = trio.run(measure, rounds, steps, Path(folder))
    rows = {name: summary(one) for name, one in series.items()}
    print(f"\n{'':<26}{'p50 ms':>9}{'p99 ms':>9}{'worst':>9}")
    for name, row in rows.items():
        print(f"{name:<26}{row.p50_ms:>9.4f}{row.p99_ms:>9.4f}{row.worst_ms:>9.2f}")
    contended = rows[f"sqlite, {WORKERS} workers"]
    ratios = {
        way: {
            "p50": rows[f"{way}, {WORKERS} workers"].p50_ms / contended.p50_ms,
            "p99": rows[f"{way}, {WORKERS} workers"].p99_ms / contended.p99_ms,
        }
        for way in WAYS[:2]
    }
    quiet = rows["quiet, beside"].p99_ms / rows["quiet, alone"].p99_ms
    exact = {way: bench.sums[way] == bench.done[way] for way in WAYS}
    print(f"\nagainst sqlite with {WORKERS} workers: {json.dumps(ratios)}; quiet p99 {quiet:.2f}; exact: {exact}")
    step = rows["served, kept, 1 worker"].p50_ms / rows["quiet, alone"].p50_ms
    print(f"a step against a whole call: {step:.2f}")
    print(f"bad: a step over {WORST_STEP:g} calls, quiet p99 over {WORST_QUIET:g} times, a sum that is not exact")
    found = {
        "machine": machine,
        "rounds": rounds,
        "steps": steps,
        "rows": rows,
        "ratios": ratios,
        "quiet": quiet,
        "step": step,
    }
    save("state_quick" if arguments.quick else "state", {**found, "exact": exact})
    is_bad = step > WORST_STEP or quiet > WORST_QUIET or not all(exact.values())
    return int(is_bad and not arguments.quick)


if __name__ == "__main__":
    sys.exit(main())
