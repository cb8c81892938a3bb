"""Watches the resident memory of workers, during calls and between them.  Knows sizes; knows no hook.

RLIMIT_AS would break healthy programs that only reserve memory (node, java), so what is bounded is what is resident.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import psutil
import trio

from hooklatch.processes.pool import Pool
from hooklatch.processes.worker import Worker

__all__ = ["watch_memory"]

INTERVAL = 0.1  # seconds between two looks at a busy worker: Python fills about 1 GiB a second
IDLE_ROUNDS = 20  # such intervals between two looks at an idle one, where only a thread left behind can grow


async def watch_memory(pools: Callable[[], Iterable[Pool]]) -> None:
    """Kill what is over its pool's `resident_bytes`: in a call it is a crash, between calls a recycling."""
    for round_number in itertools.count():
        await trio.sleep(INTERVAL)
        is_full_round = round_number % IDLE_ROUNDS == 0
        for pool in pools():
            for worker in pool.live_workers():
                check(pool, worker, is_full_round=is_full_round)


def check(pool: Pool, worker: Worker, *, is_full_round: bool) -> None:
    is_busy = pool.is_running(worker)
    if worker.is_doomed or not (is_busy or is_full_round or worker.calls != worker.measured_calls):
        return
    worker.measured_calls = worker.calls
    try:
        size = psutil.Process(worker.pid).memory_info().rss
    except psutil.Error:
        return  # it has just died; its own watch knows
    limit = pool.limits.resident_bytes
    if size <= limit:
        return
    if is_busy:
        worker.kill(f"{size // 2**20} MiB resident are over the limit of {limit // 2**20} MiB")
    else:
        pool.recycle(worker)
