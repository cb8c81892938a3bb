"""Watches what workers use: memory, and processes below them.  Knows sizes and counts; does not know hooks.

RLIMIT_AS would break healthy programs that only reserve memory (node, java), so the limit is on resident memory.
RLIMIT_NPROC does not bind root, and counts all processes of the user, so a hook's limit would be the user's: the limit
is on the processes below a worker.  The zygote stops and kills those when the worker is dead.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil
import trio

from hooklatch.errors import why
from hooklatch.processes.pool import Pool
from hooklatch.processes.worker import Worker
from hooklatch_worker.sandbox import linux

__all__ = ["watch_memory"]

logger = logging.getLogger("hooklatch.memory")
INTERVAL = 0.1  # seconds between two checks of a busy worker: Python fills about 1 GiB a second
IDLE_ROUNDS = 5  # such intervals between two checks of an idle one without children: only a thread can grow there


async def watch_memory(pools: Callable[[], Iterable[Pool]]) -> None:
    """Kill what is over a limit of its pool: during a call that is a crash, between calls a recycling."""
    unmeasured: str | None = None
    async with trio.open_nursery() as nursery:
        for round_number in itertools.count():
            await trio.sleep(INTERVAL)
            is_full_round = round_number % IDLE_ROUNDS == 0
            for pool in pools():
                for worker in [*pool.live_workers(), *pool.loading_workers()]:
                    if not worker.is_doomed and (is_full_round or is_due(pool, worker)):
                        unmeasured = look(pool, worker, nursery, unmeasured)


class UnmeasuredError(Exception):
    """What a process uses cannot be read at the moment: that is unknown, not zero."""


def is_due(pool: Pool, worker: Worker) -> bool:
    return worker.has_children or worker.calls != worker.measured_calls or not pool.is_idle(worker)


def look(pool: Pool, worker: Worker, nursery: trio.Nursery, before: str | None) -> str | None:
    """Check one worker; return why it could not be measured, which is logged if `before` was None."""
    try:
        check(pool, worker, nursery)
    except UnmeasuredError as error:
        if before is None:
            logger.error("a worker's limits are not enforced for the moment: %s", error, extra={"pid": worker.pid})
        return str(error)
    return None


def check(pool: Pool, worker: Worker, nursery: trio.Nursery) -> None:
    worker.measured_calls = worker.calls
    limits = pool.limits
    own = resident(worker.pid)
    worker.memory_bytes = own
    if own > limits.resident_bytes:
        end(pool, worker, over("resident", own, limits.resident_bytes))
        return
    try:
        below = list(itertools.islice(linux.descendants(worker.pid), limits.processes + 1))
    except OSError as error:
        raise UnmeasuredError(f"the processes below it cannot be listed: {why(error)}") from None
    worker.has_children = bool(below)
    if len(below) > limits.processes:
        stop(below)
        end(pool, worker, f"it started too many processes: more than {limits.processes} were below it")
    elif limits.total_bytes is None or worker.is_being_measured:
        return
    elif own + sum(map(resident, below)) > limits.total_bytes:
        # The sum is too high, since forked children share most of their pages.  The exact value takes time, and the
        # counting must go on meanwhile.
        worker.is_being_measured = True
        nursery.start_soon(check_total, pool, worker, below)


async def check_total(pool: Pool, worker: Worker, below: list[int]) -> None:
    try:
        total = await trio.to_thread.run_sync(lambda: sum(map(proportional, [worker.pid, *below])))
    except UnmeasuredError as error:
        logger.error("a worker's limits are not enforced for the moment: %s", error, extra={"pid": worker.pid})
        return
    finally:
        worker.is_being_measured = False
    limit = pool.limits.total_bytes
    if limit is not None and total > limit and not worker.is_doomed:
        end(pool, worker, over("resident with all below it", total, limit))


def stop(pids: Iterable[int]) -> None:
    """Keep the processes found from starting more, until the zygote has killed them all."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def end(pool: Pool, worker: Worker, reason: str) -> None:
    if pool.is_idle(worker):
        logger.warning("idle worker over a limit: %s", reason, extra={"pid": worker.pid})
        pool.recycle(worker)
    else:
        worker.kill(reason)


def resident(pid: int) -> int:
    """Return a process's resident memory, counting shared pages in full; 0 if it is gone.

    Raises:
        UnmeasuredError: it cannot be read.
    """
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:  # includes ZombieProcess
        return 0
    except (psutil.Error, OSError) as error:
        raise UnmeasuredError(f"the memory of process {pid} cannot be read: {why(error)}") from None


def proportional(pid: int) -> int:
    """Return the same, counting of a shared page only its share; for that the kernel walks the page tables."""
    try:
        return psutil.Process(pid).memory_full_info().pss
    except psutil.AccessDenied:
        return resident(pid)
    except psutil.NoSuchProcess:
        return 0
    except (psutil.Error, OSError) as error:
        raise UnmeasuredError(f"the memory of process {pid} cannot be read: {why(error)}") from None


def over(what: str, size: int, limit: int) -> str:
    return f"{size // 2**20} MiB {what} are over the limit of {limit // 2**20} MiB"
