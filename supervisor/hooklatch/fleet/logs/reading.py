"""The reader of all hosts' logs in the engine: from the beginning, from the end, or new batches only.

Across hosts the order is that in which batches arrived at the engine, within a host that of the record.  A follower
cannot miss a batch: each look asks every log for the batches after the number that was read last.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from itertools import groupby
from operator import itemgetter

import msgspec
import trio

from hooklatch.fleet.engine.engine import Engine, RecordBatch
from hooklatch.fleet.logs.logs import HostLog, LogFinding, ReceivedBatch

__all__ = ["FleetReader", "LogKey", "list_logs"]

AT_ONCE = 64  # batches in memory, of all hosts together where there are fewer hosts; each may have megabytes
LISTED = 2.0  # seconds between looks for logs that are new
AFTER_ALL = 2**64  # above each number that a host can append
LogKey = tuple[str, int]  # a host and an epoch


async def list_logs(engine: Engine, hosts: Collection[str] | None = None) -> list[LogKey]:
    """Return the logs that the engine has, by host and epoch; all hosts', or only those of some."""
    return sorted([key async for key in engine.logs() if hosts is None or key[0] in hosts])


class FleetReader:
    """A reader of the chosen hosts' logs.  Each entry comes once, over all of its methods."""

    def __init__(self, engine: Engine, hosts: Collection[str] | None = None) -> None:
        self._engine = engine
        self._hosts = hosts
        self._logs: dict[str, HostLog] = {}
        self._positions: dict[LogKey, int] = {}
        self._listed: list[LogKey] = []
        self._listed_until = 0.0

    async def mark_end(self) -> None:
        """Have `new` begin with batches that arrive from now on."""
        for host, epoch in await list_logs(self._engine, self._hosts):
            for batch in await self._engine.batches_before(host, epoch, AFTER_ALL, limit=1):
                self._positions[host, epoch] = batch.last

    def resume(self, positions: Mapping[LogKey, int]) -> None:
        """Have `new` begin after these numbers."""
        self._positions.update(positions)

    async def new(self) -> AsyncGenerator[ReceivedBatch]:
        """Yield the batches that arrived since the last look, oldest first; at the first look all."""
        if trio.current_time() >= self._listed_until:
            self._listed = await list_logs(self._engine, self._hosts)
            self._listed_until = trio.current_time() + LISTED
            for key in self._listed:
                if (finding := await self._restart_shortened_log(*key)) is not None:
                    yield finding
        async with aclosing(self._merge(self._listed, self._positions, is_backward=False)) as arrivals:
            async for arrival in arrivals:
                yield arrival

    async def _restart_shortened_log(self, host: str, epoch: int) -> ReceivedBatch | None:
        """Begin anew with a log that has less than was read of it, and return a finding.

        It was emptied, or restored from an older copy: the entries below the old number may be other ones.
        """
        position = self._positions.get((host, epoch), 0)
        facts = await self._engine.log_facts(host, epoch) if position else None
        if facts is None or facts.last >= position:
            return None
        self._positions[host, epoch] = 0
        text = (
            f"the log of {host} (epoch {epoch}) was read through {position}, and the engine has no more than"
            f" {facts.last}: it was emptied or restored from an older copy, and is read anew"
        )
        now = int((await self._engine.facts())["clock"])
        finding = LogFinding(host, "engine", text, epoch, position)
        return ReceivedBatch(host, epoch, RecordBatch(0, 0, b"", now), (), (finding,))

    def forwards(self) -> AsyncGenerator[ReceivedBatch]:
        """Yield all batches, oldest first."""
        return self._merge(None, {}, is_backward=False)

    def backwards(self) -> AsyncGenerator[ReceivedBatch]:
        """Yield all batches, newest first; the records in each are in order all the same."""
        return self._merge(None, {}, is_backward=True)

    async def _merge(
        self, keys: list[LogKey] | None, positions: Mapping[LogKey, int], *, is_backward: bool
    ) -> AsyncGenerator[ReceivedBatch]:
        """Yield the batches of some logs, or of all, each from its position on."""
        keys = await list_logs(self._engine, self._hosts) if keys is None else keys
        keys = keys[::-1] if is_backward else keys
        logs_by_host = {host: list(logs) for host, logs in groupby(keys, itemgetter(0))}
        heap: list[tuple[int, int, LogCursor]] = []
        for number, (host, logs) in enumerate(logs_by_host.items()):
            starts = [(epoch, AFTER_ALL if is_backward else positions.get((host, epoch), 0)) for _, epoch in logs]
            limit = max(1, AT_ONCE // len(logs_by_host))
            cursor = LogCursor(self._engine, host, starts, limit=limit, is_backward=is_backward)
            if await cursor.advance():
                heap.append((cursor.rank, number, cursor))
        heapq.heapify(heap)
        while heap:
            _, number, cursor = heap[0]
            log = self._logs.setdefault(cursor.host, HostLog(cursor.host))
            arrival = log.take(cursor.epoch, cursor.batch)
            key = (cursor.host, cursor.epoch)
            self._positions[key] = max(self._positions.get(key, 0), cursor.batch.last)
            yield arrival
            if await cursor.advance():
                heapq.heapreplace(heap, (cursor.rank, number, cursor))
            else:
                heapq.heappop(heap)


class LogCursor:
    """A cursor in one host's log; its `batch`, of `epoch`, is the next to take, in the order of `rank`."""

    def __init__(
        self, engine: Engine, host: str, starts: list[tuple[int, int]], *, limit: int, is_backward: bool
    ) -> None:
        self.host = host
        self.epoch = 0
        self.batch: RecordBatch = RecordBatch(0, 0, b"")
        self.rank = -(2**63)
        self._engine = engine
        self._starts = starts[::-1]  # epochs to come, each with where to begin
        self._limit = limit  # batches to read at once
        self._is_backward = is_backward
        self._ready: list[RecordBatch] = []
        self._position = 0
        self._is_open = False

    async def advance(self) -> bool:
        """Go to the next batch; return whether there is one."""
        while not self._ready:
            if self._is_open:
                self._ready = (await self._read())[::-1]
                self._is_open = bool(self._ready)
            elif self._starts:
                self.epoch, self._position = self._starts.pop()
                self._is_open = True
            else:
                return False
        self.batch = self._ready.pop()
        self._position = self.batch.last
        # The host's own time of a batch may be false: it never moves the batch before or behind its neighbours.
        self.rank = max(self.rank, -self.batch.at if self._is_backward else self.batch.at)
        return True

    async def _read(self) -> list[RecordBatch]:
        read = self._engine.batches_before if self._is_backward else self._engine.batches
        batches = list(await read(self.host, self.epoch, self._position, limit=self._limit))
        if self._is_backward:
            latest = 0
            for number in range(len(batches) - 1, -1, -1):  # no batch arrived before the one that it follows
                latest = max(latest, batches[number].at)
                batches[number] = msgspec.structs.replace(batches[number], at=latest)
        return batches
