"""Whether a fire has become clearly slower than it was, by ratios to yardsticks of the same run.

latency     of one fire after the other: against the floor, and against the floor with a sha256 chain and a write
            (bench/floor.py); the tenth percentile, which other programs on the machine hardly change
throughput  of eight connections with one fire in flight each, against the same two; the best of some short blocks

Everything runs on one core, in interleaved blocks.  The bounds are about half as much again as what was measured when
they were set, so that a noisy machine passes; no absolute time is in them.  A bound that is missed is measured again,
up to six times in all: noise passes once, a slower daemon never does.  When the daemon gets faster, lower them.

Bad would be any number beyond its bound in all six measurements: then this ends with 1.  `--slowed MICROSECONDS`
shows that it does so: that daemon computes for so much longer before each time that it sends something.

Run: python bench/check.py [--slowed MICROSECONDS]; `make check` runs it, in well under 20 s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from contenders import Client, calls_a_second, fire_block, run_daemon, run_floor, run_recording_floor
from machine import interleave, on_one_core, print_machine

MOST = {"latency / floor": 5.0, "latency / floor + chain + write": 4.4}
LEAST = {"throughput / floor": 0.16, "throughput / floor + chain + write": 0.22}
ATTEMPTS = 6
ROUNDS, CALLS = 10, 100
CONNECTIONS, WORKERS = 8, 4
SECONDS = 0.1
SLOWED = """
import socket, time
def slowed(send):
    def slowly(self, *arguments):
        end = time.perf_counter() + {seconds}
        while time.perf_counter() < end:
            pass
        return send(self, *arguments)
    return slowly
for name in ("send", "sendall", "sendmsg"):
    setattr(socket.socket, name, slowed(getattr(socket.socket, name)))
"""
DAEMON, FLOOR, RECORDING = "daemon", "floor", "floor + chain + write"


def measure(clients: dict[str, list[Client]]) -> dict[str, float]:
    blocks = {name: (fire_block(several[0]), CALLS) for name, several in clients.items()}
    took = {name: undisturbed(series) for name, series in interleave(blocks, ROUNDS).items()}
    rates = dict.fromkeys(clients, 0.0)
    for _ in range(ROUNDS):
        for name, several in clients.items():
            rates[name] = max(rates[name], calls_a_second(several, SECONDS))
    yardsticks = (FLOOR, RECORDING)
    return {
        **{f"latency / {name}": took[DAEMON] / took[name] for name in yardsticks},
        **{f"throughput / {name}": rates[DAEMON] / rates[name] for name in yardsticks},
    }


def undisturbed(series: list[float]) -> float:
    """Return the tenth percentile: of calls that other programs on this core did not interrupt."""
    return statistics.quantiles(series, n=10)[0]


@contextmanager
def running_all(begin: str) -> Generator[dict[str, list[Client]]]:
    """Start the daemon and the yardsticks on one core, and connect to each."""
    with on_one_core(), ExitStack() as stack:
        connects = {
            DAEMON: stack.enter_context(run_daemon(workers=WORKERS, begin=begin)).connect,
            FLOOR: stack.enter_context(run_floor(workers=WORKERS)),
            RECORDING: stack.enter_context(run_recording_floor(workers=WORKERS)),
        }
        yield {name: [connect() for _ in range(CONNECTIONS)] for name, connect in connects.items()}


def beyond(found: dict[str, float]) -> list[str]:
    """Return the names of the numbers that are beyond their bounds."""
    return [name for name, most in MOST.items() if found[name] > most] + [
        name for name, least in LEAST.items() if found[name] < least
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Fail if a fire is clearly slower than its bounds allow.")
    parser.add_argument("--slowed", type=float, default=0.0, metavar="MICROSECONDS", help="slow the daemon by so much")
    parser.add_argument("--attempts", type=int, default=ATTEMPTS)
    options = parser.parse_args()
    slowed = options.slowed
    begin = SLOWED.format(seconds=slowed / 1e6) if slowed else ""
    print_machine()
    missed = [*MOST, *LEAST]
    with running_all(begin) as clients:
        for attempt in range(1, options.attempts + 1):
            found = measure(clients)
            missed = [name for name in beyond(found) if name in missed]
            for name, number in found.items():
                bound = f"at most {MOST[name]:g}" if name in MOST else f"at least {LEAST[name]:g}"
                print(f"{attempt}  {name:<40}{number:8.2f}  {bound}")
            if not missed:
                return 0
    for name in missed:
        print(f"clearly slower than before: {name}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
