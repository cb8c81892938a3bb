"""A run of the simulation: its arguments, the order in which the machine is put together, and its result."""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import logging
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from simulation import faults

__all__ = ["main", "run_seed"]

FOLDER = "/sim"
UNAME = os.uname_result(("Linux", "sim", "6.1", "1", "sim64"))


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", default="1", help="decides everything (default: 1)")
    parser.add_argument("--fires", type=int, default=2000, help="events to fire (default: 2000)")
    parser.add_argument("--fault", help="put back a fault that the project once had")
    parser.add_argument("--list-faults", action="store_true", help="print the names of these faults, one a line")
    parser.add_argument("--json", action="store_true", help="print the last line alone")
    parser.add_argument("--log", action="store_true", help="print the daemon's log to standard error")
    parser.add_argument("--minutes", type=float, help="play fresh seeds for so long, one on each core")
    parser.add_argument("--seeds", help="play these seeds, as in 1-12, one on each core")
    chosen = parser.parse_args(arguments)
    if chosen.list_faults:
        print("\n".join(faults.FAULTS))
        return 0
    if chosen.fault is not None and chosen.fault not in faults.FAULTS:
        parser.error(f"there is no fault {chosen.fault!r}; --list-faults prints them")
    if chosen.minutes is not None:
        first = time.time_ns() // 1_000_000_000
        return run_many(itertools.count(first), chosen.fires, minutes=chosen.minutes, fault=chosen.fault)
    if chosen.seeds is not None:
        begin, _, end = chosen.seeds.partition("-")
        return run_many(iter(range(int(begin), int(end or begin) + 1)), chosen.fires, fault=chosen.fault)
    if chosen.fault is not None:
        faults.install(chosen.fault)
    result = run_seed(chosen.seed, chosen.fires, has_log=chosen.log, fault=chosen.fault)
    if (texts := result.pop("texts")) and not chosen.json:
        print(*texts, "again: " + shlex.join(describe_command(chosen.seed, chosen.fires, chosen.fault)), sep="\n")
    print(json.dumps(result))
    return 1 if result["violations"] else 0


def describe_command(seed: object, fires: int, fault: str | None) -> list[str]:
    words = ["python", "-m", "tests.simulation", "--seed", str(seed), "--fires", str(fires)]
    return words + (["--fault", fault] if fault else [])


def run_many(seeds: Iterator[int], fires: int, *, minutes: float = math.inf, fault: str | None = None) -> int:
    """Play seeds, each in an interpreter of its own, one on each core. Return the exit code.

    The last line is JSON: the sums, and the seeds with violations.
    """
    began, sums, bad = time.monotonic(), Counter[str](), list[int]()

    def play_on(core: int) -> None:
        while time.monotonic() - began < minutes * 60 and (seed := next(seeds, None)) is not None:
            words = describe_command(seed, fires, fault)
            played = subprocess.run(
                [sys.executable, *words[1:]], capture_output=True, text=True, check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )  # fmt: skip
            *texts, last = played.stdout.splitlines() or [""]
            result = json.loads(last) if played.returncode in (0, 1) and last.startswith("{") else {"violations": 1}
            if result["violations"]:
                bad.append(seed)
                print("\n".join(texts or [shlex.join(words), played.stdout, played.stderr]), flush=True)
            sums.update({"seeds": 1, "fires": result.get("fires", 0), "violations": result["violations"]})
            sums.update({"cpu_seconds": result.get("cpu_seconds", 0), **result.get("faults", {})})

    cores = os.sched_getaffinity(0)
    with ThreadPoolExecutor(len(cores)) as pool:
        list(pool.map(play_on, cores))
    sums["cpu_seconds"] = round(sums["cpu_seconds"])
    print(json.dumps({**sums, "bad_seeds": sorted(bad), "seconds": round(time.monotonic() - began, 3)}))
    return 1 if bad else 0


def run_seed(seed: object, fires: int, *, has_log: bool = False, fault: str | None = None) -> dict[str, Any]:
    """Play one seed until so many events were fired. Return what came of it."""
    clock, cpu = time.perf_counter, time.process_time
    began = clock()
    # What a process takes from its environment is the same for every run.
    os.environ.clear()
    os.environ.update({"HOME": FOLDER, "PATH": "/usr/bin"})
    os.uname = lambda: UNAME
    platform.python_version = lambda: "3"
    gc.set_threshold(50_000, 20, 50)  # garbage is looked for less often: a twentieth of the time
    if has_log:
        logging.basicConfig(level="DEBUG", stream=sys.stderr, format="%(name)s %(message)s")
    else:
        logging.disable()

    from simulation.kernel import Kernel, Stuck
    from simulation.machine import Machine

    kernel = Kernel(seed)
    machine = Machine(kernel, seed, FOLDER)
    with machine.install():
        from simulation.life import Lives
        from simulation.loop import run_simulated
        from simulation.trouble import DiskTrouble
        from simulation.world import World

        sys.dont_write_bytecode = True  # from here on: what workers import is in files of the simulated disk
        world = World(kernel, seed, FOLDER, fires, DiskTrouble(machine.disk, f"{FOLDER}/state", seed))
        if fault is not None:
            world.max_violations = 1  # it is found
        kernel.report = world.violate
        lives = Lives(world, machine)

        # Which packages are installed must not matter: the daemon looks for plugins among them.
        sys.path[:] = [path for path in sys.path if path.startswith(sys.base_prefix)]
        try:
            run_simulated(kernel, lives.run, seed)
        except Stuck as stuck:
            world.violate(f"C: {stuck}")
    return {
        "seed": seed, "fires": world.fires, "faults": dict(sorted(world.faults.items())),
        "digest": world.digest.hexdigest(), "violations": len(world.violations), "seconds": round(clock() - began, 3),
        "cpu_seconds": round(cpu(), 3), "fault": fault, "texts": world.violations,
    }  # fmt: skip
