"""How a pool is limited, and what it shows of itself.  Knows values only."""

from __future__ import annotations

import msgspec

from hooklatch_worker import wire

__all__ = ["TOTAL_BYTES", "HookLoad", "IsolationStatus", "PoolLimits", "PoolStatus"]

TOTAL_BYTES = 2 * 2**30  # of a worker and its children, unless a source says otherwise


class PoolLimits(msgspec.Struct, frozen=True):
    """How many workers, and when one is replaced.  The limits of memory and processes also apply during a call.

    `resident_bytes` limits the worker alone; `total_bytes`, if set, limits it and its descendants, whose number is
    limited by `processes`, and the threads of all by `threads` at the level `strict`.

    `queue` bounds the gates that wait for a worker, and separately the other calls: a flood of notifications leaves
    gates their places.  `load_timeout` is for importing, separate from any call's own limit (celery's 4 s is a
    known trap).  Workers that `may_emit` send telemetry with their answers; from any other it breaks the protocol.
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
    """The configured level, the strongest one that is fully enforced, and what that lacks of the configured one."""

    configured: str
    in_force: str
    missing: list[str]


class HookLoad(msgspec.Struct, frozen=True):
    """What one hook and the workers of its source are doing.  All but `in_flight` is of the source.

    `workers` are idle or `busy`; `memory_bytes` is what these use, pages that they share counted for each, and None
    until they have been looked at; `waiting` calls have no worker yet; `in_flight` are calls of this hook that run.
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
