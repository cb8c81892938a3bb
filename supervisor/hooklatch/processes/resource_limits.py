"""The watch over the memory, descendants and threads of workers.  Knows sizes and counts; does not know hooks.

RLIMIT_AS would break healthy programs that only reserve memory (node, java), so the limit is on resident memory.
RLIMIT_NPROC does not bind root, and counts all processes of the user, so a hook's limit would be the user's. Instead
the processes below a worker are counted.  The zygote stops and kills those when the worker is dead.
At `strict` files in memory count too (`memory_files.py`), and threads.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psutil
import trio

from hooklatch.errors import explain_error
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import UnmeasuredError, measure_process
from hooklatch.processes.worker import PoolWorker
from hooklatch.threads import in_thread
from hooklatch_worker.systems import system

__all__ = ["MemoryWatch", "read_proportional_bytes"]

logger = logging.getLogger("hooklatch.memory")
INTERVAL = 0.1  # seconds between two checks of a busy worker: Python fills about 1 GiB a second
THREADS_INTERVAL, IDLE_INTERVAL = 0.5, 10.0  # and of all workers, if one at rest has threads that may grow, and if none


class MemoryWatch:
    """The watch over the workers of all pools. It sleeps while none of them is at work, but for a round now and then.

    A worker at rest that has no children and no thread but its own waits for its next call, so it cannot grow.
    """

    def __init__(self, pools: Mapping[tuple[str, int], Pool]) -> None:
        self._pools = pools
        self._at_work: dict[Pool, None] = {}  # those that prove a build too, which are not among `pools` yet
        self._alarm = trio.CancelScope()

    def begin(self, pool: Pool) -> None:
        """Measure a pool's workers from now on, until they rest."""
        self._at_work[pool] = None
        self._alarm.deadline = min(self._alarm.deadline, trio.current_time() + INTERVAL)

    async def run(self) -> None:
        """Kill each worker over a limit of its pool. During a call that is a crash, between calls a recycling."""
        unmeasured, all_due = None, 0.0
        async with trio.open_nursery() as nursery:
            while True:
                soon = trio.current_time() + INTERVAL
                self._alarm = trio.CancelScope(deadline=soon if self._at_work else max(soon, all_due))
                with self._alarm:
                    await trio.sleep_forever()
                is_full_round = (now := trio.current_time()) >= all_due
                if is_full_round:
                    all_due = now + IDLE_INTERVAL
                for pool in {**dict.fromkeys(self._pools.values() if is_full_round else ()), **self._at_work}:
                    for worker in (workers := [*pool.live_workers(), *pool.loading_workers()]):
                        if not worker.is_doomed and (is_full_round or is_due(pool, worker)):
                            unmeasured = measure_worker(pool, worker, nursery, unmeasured)
                    if any(worker.has_threads for worker in workers):
                        all_due = min(all_due, now + THREADS_INTERVAL)
                    if not any(is_due(pool, worker) for worker in workers) and pool.rest():
                        self._at_work.pop(pool, None)


def is_due(pool: Pool, worker: PoolWorker) -> bool:
    is_measured = worker.calls == worker.measured_calls and not worker.is_being_measured
    return worker.has_children or not is_measured or not pool.is_idle(worker)


def measure_worker(pool: Pool, worker: PoolWorker, nursery: trio.Nursery, before: str | None) -> str | None:
    """Check one worker. Return why it could not be measured, which is logged if `before` was None."""
    try:
        check_worker_memory(pool, worker, nursery)
    except UnmeasuredError as error:
        if before is None:
            logger.error("a worker's limits are not enforced for the moment: %s", error, extra={"pid": worker.pid})
        return str(error)
    if pool.is_idle(worker):  # else it may start a thread after this
        worker.measured_calls = worker.calls
    return None


def check_worker_memory(pool: Pool, worker: PoolWorker, nursery: trio.Nursery) -> None:
    limits = pool.limits
    own = read_resident_bytes(worker.pid)
    if own > limits.resident_bytes:
        end_worker(pool, worker, describe_excess("resident", own, limits.resident_bytes))
        return
    try:
        below = list(itertools.islice(system.list_descendants(worker.pid), limits.processes + 1))
    except OSError as error:
        raise UnmeasuredError(f"the processes below it cannot be listed: {explain_error(error)}") from None
    worker.has_children = bool(below)
    if len(below) > limits.processes:
        stop_processes(below)
        end_worker(pool, worker, f"it started too many processes: more than {limits.processes} were below it")
        return
    is_strict, threads = limits.worker.isolation.level == "strict", count_threads(worker.pid)
    worker.has_threads = threads > 1
    if is_strict and threads + sum(map(count_threads, below)) > limits.threads:
        stop_processes(below)
        end_worker(pool, worker, f"it started too many threads: more than {limits.threads} in it and below it")
        return
    if worker.is_being_measured:
        return
    held = all_held = 0
    try:
        if is_strict:  # no other worker needs it
            from hooklatch.processes.memory_files import measure_memory_files

            held = measure_memory_files([worker.pid])
            all_held = measure_memory_files([worker.pid, *below]) if below else held
    except PermissionError:
        end_worker(pool, worker, "it keeps what it has open from being read, which counts against its limits")
        return
    total = own + sum(map(read_resident_bytes, below)) + all_held
    is_over_total = limits.total_bytes is not None and total > limits.total_bytes
    if is_over_total or (held and own + held > limits.resident_bytes):
        # The sums are too high, since forked children share most of their pages, and mapped files count twice.  The
        # exact values take time, in which the counting of processes must continue.
        worker.is_being_measured = True
        nursery.start_soon(check_exactly, pool, worker, below)


async def check_exactly(pool: Pool, worker: PoolWorker, below: list[int]) -> None:
    limits, is_strict = pool.limits, pool.limits.worker.isolation.level == "strict"

    def measure() -> tuple[int, int]:
        pids = [worker.pid, *below]
        if not is_strict:
            return 0, sum(map(read_proportional_bytes, pids))
        from hooklatch.processes.memory_files import measure_memory_files, read_memory_field

        own = read_memory_field(worker.pid, "Rss:") + measure_memory_files([worker.pid])
        return own, sum(read_memory_field(pid, "Pss:") for pid in pids) + measure_memory_files(pids)

    try:
        own, total = await in_thread(measure)
    except (UnmeasuredError, PermissionError) as error:
        logger.error("a worker's limits are not enforced for the moment: %s", error, extra={"pid": worker.pid})
        worker.measured_calls = -1
        return
    finally:
        worker.is_being_measured = False
    # The wait for the thread was a checkpoint, and the worker may have been killed in it.
    suffix = " with its files in memory" if is_strict else ""
    if worker.is_doomed:
        return
    if is_strict and own > limits.resident_bytes:
        end_worker(pool, worker, describe_excess(f"resident{suffix}", own, limits.resident_bytes))
    elif limits.total_bytes is not None and total > limits.total_bytes:
        usage = f"resident with all below it{suffix and ' and their files in memory'}"
        end_worker(pool, worker, describe_excess(usage, total, limits.total_bytes))


def stop_processes(pids: Iterable[int]) -> None:
    """Keep the processes found from starting more, until the zygote has killed them all."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def end_worker(pool: Pool, worker: PoolWorker, reason: str) -> None:
    if pool.is_idle(worker):
        logger.warning("idle worker over a limit: %s", reason, extra={"pid": worker.pid})
        pool.recycle(worker)
    else:
        worker.kill(reason)


def read_resident_bytes(pid: int) -> int:
    """Return a process's resident memory, counting shared pages in full."""
    return measure_process("memory", pid, lambda: psutil.Process(pid).memory_info().rss)


def read_proportional_bytes(pid: int) -> int:
    """Return a process's memory with its share of each shared page. The kernel walks the page tables for it."""

    def read() -> int:
        with suppress(psutil.AccessDenied, AttributeError):  # a kernel without smaps has no shares
            return psutil.Process(pid).memory_full_info().pss
        return read_resident_bytes(pid)

    return measure_process("memory", pid, read)


def count_threads(pid: int) -> int:
    return measure_process("threads", pid, lambda: system.count_threads(pid))


def describe_excess(usage: str, size: int, limit: int) -> str:
    return f"{size // 2**20} MiB {usage} are over the limit of {limit // 2**20} MiB"
