"""What an event costs that no hook listens to: asked of the daemon, and skipped by a client that may.

asked      a fire of `stop` over a kept connection, without a hook anywhere
skipped    the same, in a session with `skip_idle`
Interleaved blocks, so that other load on the machine affects all alike.  Bad would be 5 us or more for a skipped event
(p50), in any of the clients.

Run: python bench/idle_events.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import trio

import contenders
import hooklatch
from machine import describe, save, summary

AIM = 0.005  # milliseconds
EVENT = "stop"
CALLS = 200  # a block
Series = dict[str, list[float]]


def blocking(path: str, *, skip_idle: bool) -> list[float]:
    with hooklatch.connect_sync(path, skip_idle=skip_idle) as session:
        took: list[float] = []
        for _ in range(CALLS):
            start = time.perf_counter()
            session.fire(EVENT, finish_reason="done")
            took.append((time.perf_counter() - start) * 1e3)
    return took


async def awaiting(path: str, *, skip_idle: bool) -> list[float]:
    async with hooklatch.connect(path, skip_idle=skip_idle) as session:
        took: list[float] = []
        for _ in range(CALLS):
            start = time.perf_counter()
            await session.fire(EVENT, finish_reason="done")
            took.append((time.perf_counter() - start) * 1e3)
    return took


def under_trio(path: str, *, skip_idle: bool) -> list[float]:
    async def block() -> list[float]:
        return await awaiting(path, skip_idle=skip_idle)

    return trio.run(block)


def under_asyncio(path: str, *, skip_idle: bool) -> list[float]:
    return asyncio.run(awaiting(path, skip_idle=skip_idle))


BLOCKS: dict[str, Callable[..., list[float]]] = {
    "threads": blocking, "trio": under_trio, "asyncio": under_asyncio,
}  # fmt: skip


def measure(path: str, rounds: int) -> Series:
    found: Series = {}
    for _ in range(rounds):
        for name, block in BLOCKS.items():
            for how, skip_idle in (("asked", False), ("skipped", True)):
                took = block(path, skip_idle=skip_idle)
                found.setdefault(f"{name}, {how}", []).extend(took[CALLS // 10 :])  # the first ones find cold caches
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="2 rounds, saved apart")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    record: dict[str, Any] = {**describe(), "rounds": rounds}
    with contenders.run_daemon() as daemon:
        rows = {name: summary(took) for name, took in measure(daemon.agent, rounds).items()}
    for name, row in rows.items():
        print(
            f"{name:18} p50 {row.p50_ms * 1e3:7.1f} us   p99 {row.p99_ms * 1e3:7.1f} us   best {row.best_ms * 1e3:7.1f}"
        )
    worst = max(row.p50_ms for name, row in rows.items() if name.endswith("skipped"))
    print(f"\nskipped: {worst * 1e3:.1f} us at most (p50), aim under {AIM * 1e3:.0f}")
    print(f"saved to {save('idle_events_quick' if options.quick else 'idle_events', {**record, 'rows': rows})}")
    return int(worst >= AIM and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
