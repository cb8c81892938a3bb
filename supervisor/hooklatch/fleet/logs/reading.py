"""The reader of all hosts' logs in the engine: from the beginning, from the end, or new batches only.

Across hosts the order is that in which batches arrived at the engine, within a host that of the record.  A follower
cannot miss a batch: each look asks every log for the batches after the number that was read last.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing

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
            async with aclosing(self._restart_shortened_logs()) as arrivals:
                async for arrival in arrivals:
                    yield arrival
        starts = [(key, self._positions.get(key, 0)) for key in self._listed]
        async with aclosing(
            self._merge([ForwardReader(self._engine, *host_starts) for host_starts in group_by_host(starts)])
        ) as arrivals:
            async for arrival in arrivals:
                yield arrival

    async def _restart_shortened_logs(self) -> AsyncGenerator[ReceivedBatch]:
        """Begin anew with each log that has less than was read of it, and yield a finding.

        It was emptied, or restored from an older copy: the entries below the old number may be other ones.
        """
        for key in self._listed:
            host, epoch = key
            position = self._positions.get(key, 0)
            facts = await self._engine.log_facts(host, epoch) if position else None
            if facts is not None and facts.last < position:
                self._positions[key] = 0
                text = (
                    f"the log of {host} (epoch {epoch}) was read through {position}, and the engine has no more than"
                    f" {facts.last}: it was emptied or restored from an older copy, and is read anew"
                )
                now = int((await self._engine.facts())["clock"])
                finding = LogFinding(host, "engine", text, epoch, position)
                yield ReceivedBatch(host, epoch, RecordBatch(0, 0, b"", now), (), (finding,))

    async def forwards(self) -> AsyncGenerator[ReceivedBatch]:
        """Yield all batches, oldest first."""
        starts = [(key, 0) for key in await list_logs(self._engine, self._hosts)]
        async with aclosing(
            self._merge([ForwardReader(self._engine, *host_starts) for host_starts in group_by_host(starts)])
        ) as arrivals:
            async for arrival in arrivals:
                yield arrival

    async def backwards(self) -> AsyncGenerator[ReceivedBatch]:
        """Yield all batches, newest first; the records in each are in order all the same."""
        starts = [(key, AFTER_ALL) for key in reversed(await list_logs(self._engine, self._hosts))]
        async with aclosing(
            self._merge([BackwardReader(self._engine, *host_starts) for host_starts in group_by_host(starts)])
        ) as arrivals:
            async for arrival in arrivals:
                yield arrival

    async def _merge(self, cursors: Sequence[LogCursor]) -> AsyncGenerator[ReceivedBatch]:
        heap: list[tuple[int, int, LogCursor]] = []
        for number, cursor in enumerate(cursors):
            cursor.limit = max(1, AT_ONCE // len(cursors))
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

    def __init__(self, engine: Engine, host: str, starts: list[tuple[int, int]]) -> None:
        self.host = host
        self.epoch = 0
        self.batch: RecordBatch = RecordBatch(0, 0, b"")
        self.rank = 0
        self.limit = 1  # batches to read at once
        self._engine = engine
        self._starts = starts[::-1]  # epochs to come, each with where to begin
        self._ready: list[RecordBatch] = []
        self._position = 0
        self._is_open = False

    async def advance(self) -> bool:
        """Go to the next batch; return whether there is one."""
        while not self._ready:
            if self._is_open:
                self._ready = (await self._read(self._position))[::-1]
                self._is_open = bool(self._ready)
            elif self._starts:
                self.epoch, self._position = self._starts.pop()
                self._is_open = True
            else:
                return False
        self.batch = self._ready.pop()
        self._position = self.batch.last
        # The host's own time of a batch may be false: it never moves the batch before or behind its neighbours.
        self.rank = max(self.rank, self._compute_rank(self.batch.at))
        return True

    def _compute_rank(self, at: int) -> int:
        raise NotImplementedError

    async def _read(self, position: int) -> list[RecordBatch]:
        raise NotImplementedError


class ForwardReader(LogCursor):
    """A cursor from the oldest batch on."""

    def _compute_rank(self, at: int) -> int:
        return at

    async def _read(self, position: int) -> list[RecordBatch]:
        return list(await self._engine.batches(self.host, self.epoch, position, limit=self.limit))


class BackwardReader(LogCursor):
    """A cursor from the newest batch on."""

    def __init__(self, engine: Engine, host: str, starts: list[tuple[int, int]]) -> None:
        super().__init__(engine, host, starts)
        self.rank = -(2**63)

    def _compute_rank(self, at: int) -> int:
        return -at

    async def _read(self, position: int) -> list[RecordBatch]:
        batches = list(await self._engine.batches_before(self.host, self.epoch, position, limit=self.limit))
        latest = 0
        for number in range(len(batches) - 1, -1, -1):  # no batch arrived before the one that it follows
            latest = max(latest, batches[number].at)
            batches[number] = msgspec.structs.replace(batches[number], at=latest)
        return batches


def group_by_host(logs: Iterable[tuple[LogKey, int]]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Group the starts in each log by host: epochs in the order given."""
    starts_by_host: dict[str, list[tuple[int, int]]] = {}
    for (host, epoch), start in logs:
        starts_by_host.setdefault(host, []).append((epoch, start))
    return list(starts_by_host.items())
