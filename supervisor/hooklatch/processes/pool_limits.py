"""The limits of a pool, and the values that it reports of itself."""

from __future__ import annotations

import msgspec

from hooklatch_worker import wire

__all__ = ["TOTAL_BYTES", "HookLoad", "IsolationStatus", "PoolLimits", "PoolStatus"]

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


class IsolationStatus(msgspec.Struct, frozen=True):
    """The configured level of isolation, the strongest that is fully enforced, and the parts that are missing."""

    configured: str
    in_force: str
    missing: list[str]


class HookLoad(msgspec.Struct, frozen=True):
    """The load of one hook and of its source's workers.  All values but `in_flight` are those of the source.

    `workers` are idle or `busy`. `memory_bytes` is what these use, with shared pages counted for each, and None until
    it was measured. `waiting` calls have no worker yet. `in_flight` are the calls of this hook that run.
    """

    workers: int
    busy: int
    memory_bytes: int | None
    waiting: int
    in_flight: int


class PoolStatus(msgspec.Struct, frozen=True):
    source: str
    digest: str
    build: int
    idle: int
    busy: int
    starting: int
    waiting: int
    pids: list[int]
    started: int
    lost: int
    recycled: int
    condemned: int
    isolation: IsolationStatus
