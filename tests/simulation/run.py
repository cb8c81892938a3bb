"""A run of the simulation: its arguments, the order in which the machine is put together, and its result."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import random
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

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
    chosen = parser.parse_args(arguments)
    from simulation import faults

    if chosen.list_faults:
        print("\n".join(faults.FAULTS))
        return 0
    if chosen.fault is not None:
        if chosen.fault not in faults.FAULTS:
            parser.error(f"there is no fault {chosen.fault!r}; --list-faults prints them")
        faults.install(chosen.fault)
    result = run_seed(chosen.seed, chosen.fires, has_log=chosen.log, fault=chosen.fault)
    texts = result.pop("texts")
    if not chosen.json:
        for text in texts:
            print(text)
        if texts:
            words = ["python", "-m", "tests.simulation", "--seed", str(chosen.seed), "--fires", str(chosen.fires)]
            words += ["--fault", chosen.fault] if chosen.fault else []
            print("again:", shlex.join(words))
    print(json.dumps(result))
    return 1 if result["violations"] else 0


def run_seed(seed: object, fires: int, *, has_log: bool = False, fault: str | None = None) -> dict[str, Any]:
    """Play one seed until so many events were fired. Return what came of it."""
    clock = time.perf_counter
    began = clock()
    # What a process takes from its environment is the same for every run.
    os.environ.clear()
    os.environ.update({"HOME": FOLDER, "PATH": "/usr/bin"})
    os.uname = lambda: UNAME
    platform.python_version = lambda: "3"
    sys.dont_write_bytecode = True
    if has_log:
        logging.basicConfig(level="DEBUG", stream=sys.stderr, format="%(name)s %(message)s")
    else:
        logging.disable()

    from simulation.disk import Disk
    from simulation.kernel import Kernel
    from simulation.machine import USER, Machine, install_machine

    kernel = Kernel(seed)
    disk = Disk([FOLDER], lambda: int(kernel.wall * 1e9), random.Random(f"{seed} disk"), uid=USER)
    machine = Machine(kernel, seed, (FOLDER,))
    with install_machine(machine, disk.install()):
        from simulation.life import Lives
        from simulation.loop import run_simulated
        from simulation.world import World

        world = World(kernel, seed, FOLDER, fires)
        lives = Lives(world, machine, disk, has_scripts=True)

        def stuck(text: str) -> None:
            world.violate(f"C: {text}")
            raise KeyboardInterrupt

        run_simulated(kernel, lives.run, seed, stuck)
    return {
        "seed": seed, "fires": world.fires, "faults": dict(sorted(world.faults.items())),
        "digest": world.digest.hexdigest(), "violations": len(world.violations), "seconds": round(clock() - began, 3),
        "fault": fault, "texts": world.violations,
    }  # fmt: skip
