"""Watches the resident memory of workers, during calls and between them.  Knows sizes; knows no hook.

RLIMIT_AS would break healthy programs that only reserve memory (node, java), so what is bounded is what is resident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psutil
import trio

from hooklatch.processes.pool import Pool
from hooklatch.processes.worker import Worker

__all__ = ["watch_memory"]

INTERVAL = 0.1  # seconds between two looks: Python fills about 1 GiB a second


async def watch_memory(pools: Callable[[], Iterable[Pool]]) -> None:
    """Kill what is over its pool's `resident_bytes`: in a call it is a crash, between calls a recycling."""
    while True:
        await trio.sleep(INTERVAL)
        for pool in pools():
            for worker in pool.live_workers():
                check(pool, worker)


def check(pool: Pool, worker: Worker) -> None:
    is_busy = pool.is_running(worker)
    if not is_busy and worker.calls == worker.measured_calls:
        return
    worker.measured_calls = worker.calls
    try:
        size = psutil.Process(worker.pid).memory_info().rss
    except psutil.Error:
        return  # it has just died; its own watch knows
    limit = pool.limits.resident_bytes
    if size > limit:
        over = f"{size // 2**20} MiB resident are over the limit of {limit // 2**20} MiB"
        worker.kill(over if is_busy else "recycled")
