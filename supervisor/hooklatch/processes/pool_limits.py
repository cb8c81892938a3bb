"""The limits of a pool, and what it takes to measure a process."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import psutil

from hooklatch.errors import explain_error
from hooklatch_worker import wire

__all__ = ["IN_PLACE", "TOTAL_BYTES", "PoolLimits", "UnmeasuredError", "measure_process"]

IN_PLACE = 1  # milliseconds that the loop waits for an answer, while no task gets its turn
TOTAL_BYTES = 2 * 2**30  # of a worker and its children, unless a source says otherwise


class PoolLimits(msgspec.Struct, frozen=True):
    """The number of workers, and the limits of each.  Those of memory and processes hold during a call too.

    `resident_bytes` limits the worker alone. `total_bytes`, if set, limits it and its descendants. `processes` limits
    the number of descendants, and `threads` the threads of all, at the level `strict`.

    `queue` bounds the gates that wait for a worker, and separately the notifications, so that a flood of these leaves
    gates their places.  `load_timeout` is for importing, separate from any call's own limit (celery's 4 s is a
    known trap).  Workers that `may_emit` send telemetry with their answers. From other workers it breaks the protocol.
    """

    workers: int = 4
    calls: int = 10_000
    age: float = 3600.0
    resident_bytes: int = 512 * 2**20
    total_bytes: int | None = TOTAL_BYTES
    processes: int = 128
    threads: int = 512
    worker: wire.WorkerLimits = wire.WorkerLimits()
    queue: int = 1024
    load_timeout: float = 30.0
    may_emit: bool = False


class UnmeasuredError(Exception):
    """The usage of a process cannot be read at the moment, so it is unknown, not zero."""


def measure_process(what: str, pid: int, read: Callable[[], int]) -> int:
    """Return what a function reads of a process; 0 if it is gone, and an UnmeasuredError if it cannot be read."""
    try:
        return read()
    except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):  # the last includes ZombieProcess
        return 0
    except (OSError, ValueError, IndexError, psutil.Error) as error:
        raise UnmeasuredError(f"the {what} of process {pid} cannot be read: {explain_error(error)}") from None
