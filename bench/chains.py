"""What a gate costs that refuses, amends or has several guards, beside a silent one; fired in turn at one daemon.

Bad would be: a denial or an amendment over 1.3 times a silent fire, three guards in order over three times it, or two
slow guards marked `only_judges` that together take over 1.2 times the slower one.

Run: python bench/chains.py [--quick]
"""

from __future__ import annotations

import argparse
import time

from chain_guards import SLOW
from contenders import HERE, Client, run_daemon
from machine import describe, save, summary

QUICK = ("silent", "denied", "amended", "three in order", "three at once")
SLOWER = ("two slow in order", "two slow at once")


def measure(client: Client, kinds: tuple[str, ...], rounds: int, fires: int) -> dict[str, list[float]]:
    """Return milliseconds for each kind; each round fires all kinds, so that they share the machine's moods."""
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    lines = {kind: client.fire_line(kind, command="ls -l") for kind in kinds}
    for number in range(rounds + 1):
        for kind, line in lines.items():
            for _ in range(fires):
                began = time.perf_counter()
                client.exchange(line)
                if number:  # the first round warms up
                    took[kind].append((time.perf_counter() - began) * 1000)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few fires of each kind")
    is_quick = parser.parse_args().quick
    machine = describe()
    with run_daemon(guards=HERE / "chain_guards.py") as daemon:
        client = daemon.connect()
        took = measure(client, QUICK, 2 if is_quick else 30, 20 if is_quick else 100)
        took |= measure(client, SLOWER, 1 if is_quick else 5, 1)
        client.close()
    found = {kind: summary(series) for kind, series in took.items()}
    ratios = {kind: found[kind].p50_ms / found["silent"].p50_ms for kind in QUICK}
    ratios |= {kind: found[kind].p50_ms / (SLOW * 1000) for kind in SLOWER}
    print(", ".join(f"{key} {value}" for key, value in machine.items()), "\n")
    print(f"{'kind':20}{'p50 ms':>10}{'p99 ms':>10}{'ratio':>8}")
    for kind, one in found.items():
        print(f"{kind:20}{one.p50_ms:10.3f}{one.p99_ms:10.3f}{ratios[kind]:8.2f}")
    print("\nratio: to a silent fire; of the slow ones, to one slow guard")
    save("chains_quick" if is_quick else "chains", {"machine": machine, "kinds": found, "ratios": ratios})


if __name__ == "__main__":
    main()
