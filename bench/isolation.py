"""The cost of an isolation level: for a worker's start, from the fork request until its source is imported, and a call.

The levels are interleaved, so that other load on the machine affects all alike.  The spare pays for the start, ahead of
calls; the second table shows what every call pays (a guard in Python, and one that runs `exit 0` in a shell).

Bad would be: a start over 10 ms slower than with standard, or a call over 1.2 times as long (p50).

Run: python bench/isolation.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

import trio

from calls import call_of, fire_of
from hooklatch.core.call import Call
from hooklatch.core.messages import CallOutcome
from hooklatch.processes.starting import remove_scratch
from hooklatch.processes.worker import PoolWorker
from hooklatch.processes.zygote import ZygoteClient, open_zygote
from hooklatch_worker import wire
from hooklatch_worker.sandbox.isolation import detect_kernel, find_effective_isolation
from machine import ROOT, describe, save, summary

WORST_START_MS = 10.0
WORST_CALL = 1.2
GUARDS = wire.Source("file", str(ROOT / "bench" / "guards.py"))
SHELL = wire.Source("module", "hooklatch_worker.runtime.shell_runner")
GUARD = call_of("no_force_push", b'{"tool_name":"Bash","tool_input":{"command":"ls"}}')
COMMAND = call_of(
    "run", b'{"tool_name":"Bash","tool_input":{"command":"ls"}}', b'{"command":"exit 0","fails_closed":true}'
)


async def start(zygote: ZygoteClient, source: wire.Source, isolation: wire.Isolation) -> tuple[PoolWorker, float]:
    began = time.perf_counter()
    worker = PoolWorker(await zygote.fork(source, wire.WorkerLimits(isolation=isolation)))
    code = open(source.location, "rb").read() if source.kind == "file" else b""  # noqa: ASYNC230, SIM115
    loaded = await worker.load(wire.LoadCode(code))
    took = (time.perf_counter() - began) * 1e3
    if loaded.isolation != isolation.level:
        raise RuntimeError(f"{isolation.level} cannot be had here: {loaded.missing}")
    return worker, took


async def end(worker: PoolWorker, isolation: wire.Isolation) -> None:
    worker.kill("measured")
    await trio.lowlevel.wait_readable(worker.process.pidfd)
    worker.close()
    await remove_scratch(worker, isolation)


async def measure(rounds: int, folder: str) -> dict[str, dict[str, list[float]]]:
    offered = [
        wire.Isolation(level, temporary=os.path.join(folder, "tmp"))
        for level in wire.ISOLATION_LEVELS
        if not find_effective_isolation(detect_kernel(), wire.Isolation(level)).missing
    ]
    found: dict[str, dict[str, list[float]]] = {one.level: {"start": [], "guard": [], "command": []} for one in offered}
    async with open_zygote() as zygote:
        for turn in range(rounds + 3):
            for isolation in offered:
                for source, asked, name in ((GUARDS, GUARD, "guard"), (SHELL, COMMAND, "command")):
                    worker, took = await start(zygote, source, isolation)
                    times = [await timed(worker, asked) for _ in range(6)][1:]
                    await end(worker, isolation)
                    if turn >= 3:  # the first turns fill caches
                        found[isolation.level][name] += times
                        if source is GUARDS:
                            found[isolation.level]["start"].append(took)
    return found


async def timed(worker: PoolWorker, asked: Call) -> float:
    began = time.perf_counter()
    fire = fire_of()
    refused = worker.begin(asked, fire, 10.0)
    outcome = refused or await worker.end(fire)
    if isinstance(outcome, CallOutcome) or getattr(outcome, "cause", ""):
        raise RuntimeError(str(outcome))
    return (time.perf_counter() - began) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description="Time a worker's start and calls under each isolation level.")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, not how fast")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    machine = describe()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    with tempfile.TemporaryDirectory() as folder:
        found = trio.run(measure, rounds, folder)
    rows = {level: {name: summary(series) for name, series in one.items()} for level, one in found.items()}
    plain = rows["standard"]
    print(f"\n{'p50 ms':<14}{'start':>9}{'p99':>9}{'guard':>9}{'command':>9}")
    is_bad = False
    for level, row in rows.items():
        print(
            f"{level:<14}{row['start'].p50_ms:>9.2f}{row['start'].p99_ms:>9.2f}{row['guard'].p50_ms:>9.3f}"
            f"{row['command'].p50_ms:>9.2f}"
        )
        is_bad |= row["start"].p50_ms - plain["start"].p50_ms > WORST_START_MS
        is_bad |= any(row[name].p50_ms > WORST_CALL * plain[name].p50_ms for name in ("guard", "command"))
    print(f"bad: a start over {WORST_START_MS:g} ms dearer than standard, a call over {WORST_CALL:g} times as long")
    save("isolation_quick" if options.quick else "isolation", {"machine": machine, "rounds": rounds, "levels": rows})
    return int(is_bad and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
