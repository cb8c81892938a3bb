"""The engine on Redis 7 or later, or Valkey: streams with ids of ours, so the server itself refuses a number twice.

Knows keys and commands; knows no policy and no record.  All keys begin with `hooklatch:<fleet>:`:

| key | type | holds | written by |
|---|---|---|---|
| `policy` | stream, ids `<version>-0` | `d` the manifest | publishers: XADD |
| `bundle:<sha256>` | string | the bundle | publishers: SETNX, so none is ever replaced |
| `log:<host>:epochs` | set | the epochs that there are | that host: SADD |
| `log:<host>:<epoch>` | stream, ids `<last seq>-0` | `f` first seq, `a` ms by the engine, `d` data | that host: XADD |
| `trimmed:<host>` | hash, by epoch | what an operator removed, and why | operators: HSET |
| `host:<host>` | stream of one entry, id by the engine's clock | `d` the report | that host: XADD |

The versions are numbered from 1 without a gap and are never trimmed, so their count is the number of the newest.
Every look at them asks for the count too: a log that was emptied, cut or restored from an older copy shows as behind,
never as "nothing new".
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import trio

from hooklatch.fleet.engine.addresses import Address
from hooklatch.fleet.engine.engine import (
    BehindError,
    ConflictError,
    Engine,
    EngineRefusedError,
    LogFacts,
    LostError,
    RecordBatch,
    StoredReport,
    UnreachableError,
)
from hooklatch.fleet.engine.redis_answers import (
    StreamInfo,
    format_redis_word,
    is_written,
    read_batches,
    read_entries,
    read_scan_keys,
    read_single_stream,
    read_stream_info,
)
from hooklatch.fleet.engine.redis_connections import (
    RedisCommand,
    RedisConnection,
    make_tls_context,
    open_redis_connection,
)
from hooklatch.fleet.engine.redis_lines import RedisPool
from hooklatch.fleet.policy.manifests import NAME

__all__ = ["RedisEngine", "opens"]

BLOCK = 0.4  # seconds that the server may hold a waiting question: so long may a dead peer go unnoticed, and
GRACE = 0.8  # so long may its answer then stay away; twice as long after each time that it did, as it may be busy
AT_ONCE = 16  # batches in one answer: each may have megabytes
SCANNED = 1000  # keys looked at in one step of SCAN
LAST = 2**64 - 1  # the last number that an id of a stream can have
BIG = 2**63  # seqs and versions are below; an id of a stream has 64 bits
TOO_LOW = "equal or smaller than the target stream top item"  # of XADD, Redis 5 to 8 and Valkey
NONE = "no such key"  # of XINFO
UNKNOWN = "unknown"
EPOCH = re.compile(r"[1-9][0-9]{0,17}")


@asynccontextmanager
async def opens(
    address: Address, fleet: str, *, password: str | None, ca: str | None, timeout: float
) -> AsyncGenerator[Engine]:
    """Open a fleet's part of a Redis; connections that are lost later are made anew at the next call."""
    if NAME.fullmatch(fleet) is None:
        raise EngineRefusedError(f"{fleet!r} is no name of a fleet: letters, digits, '.', '_' and '-', at most 63")
    tls = make_tls_context(ca) if address.scheme == "rediss" else None
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        connect = partial(open_redis_connection, nursery, address, password=password, tls=tls, timeout=timeout)
        engine = RedisEngine(RedisPool(connect, address), address, fleet, timeout)
        try:
            await engine.connect()
            yield engine
        except BaseException as error:  # ours must not come out as a group of one, which a nursery would make of it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class RedisEngine:
    """One fleet's keys, through two connections: one for what is answered at once, one for waiting."""

    def __init__(self, lines: RedisPool, address: Address, fleet: str, timeout: float) -> None:
        self._lines = lines
        self._address = address
        self._prefix = f"hooklatch:{fleet}:"
        self._timeout = timeout
        self._reading = trio.Lock()
        self._grace = GRACE
        self._end_known_by: RedisConnection | None = None  # the connection on which a log's end was read, or written
        self._epochs: set[tuple[str, int]] = set()  # that were there when a log's end was read or written

    async def connect(self) -> None:
        """Connect, and look whether this server will do.

        Raises:
            EngineError: it is away, refuses us, is too old, or is a replica or part of a cluster.
        """
        await self._lines.line("asking")

    # -- policy --------------------------------------------------------------------------------------------------------

    async def versions(self, after: int, *, wait: float = 0.0, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        end = trio.current_time() + wait
        while True:
            left = end - trio.current_time()
            found = (
                await self._versions_now(after, limit) if left <= 0 else await self._versions_soon(after, limit, left)
            )
            if found or left <= 0:
                return found

    async def _versions_now(self, after: int, limit: int) -> Sequence[tuple[int, bytes]]:
        return self._whole(after, await self._ask(*self._looks(after, "COUNT", limit)))

    async def _versions_soon(self, after: int, limit: int, left: float) -> Sequence[tuple[int, bytes]]:
        """Wait for a version for `left` seconds or `BLOCK`: short, so that a peer that has died is soon noticed."""
        block = max(1, int(min(left, BLOCK) * 1000))
        async with self._reading:
            line = await self._lines.line("waiting")
            questions = self._looks(after, "COUNT", limit, "BLOCK", block)
            try:
                answers = await line.ask(*questions, patience=block / 1000 + min(self._grace, self._timeout))
            except UnreachableError:
                self._grace = min(2 * self._grace, max(GRACE, self._timeout))
                self._lines.close()  # the other connection has the same peer
                raise
            self._grace = GRACE
        return self._whole(after, answers)

    def _looks(self, after: int, *how: str | int) -> tuple[RedisCommand, RedisCommand]:
        policy = self._key("policy")
        return RedisCommand("XREAD", *how, "STREAMS", policy, f"{after}-0", about=policy), RedisCommand(
            "XLEN", key=policy
        )

    def _whole(self, after: int, answers: Sequence[Any]) -> list[tuple[int, bytes]]:
        """Return the versions that came, if they and all before them are there."""
        streams, count = answers
        found: list[tuple[int, bytes]] = []
        for number, (place, fields) in enumerate(read_single_stream(streams), start=after + 1):
            if place != (number, 0):
                raise BehindError(
                    f"{self._address} has no version {number} and has one after it: {self._key('policy')} was trimmed"
                    " or written by something else; restore it from a copy"
                )
            found.append((number, fields.get(b"d", b"")))
        newest = after + len(found)
        if count < newest:
            raise BehindError(
                f"{self._address} has {count} versions of the policy, and version {newest} was read from it:"
                f" {self._key('policy')} was emptied, trimmed or restored from an older copy; restore a newer one"
            )
        return found

    async def newest_version(self) -> int:
        key = self._key("policy")
        stream = await self._stream(key)
        if stream is not None and not stream.is_whole:
            raise BehindError(
                f"{self._address} has {stream.count} versions of the policy, and had {stream.newest_ever[0]}: {key} was"
                " trimmed or written by something else; restore it from a copy"
            )
        return 0 if stream is None else stream.count

    async def _stream(self, key: str) -> StreamInfo | None:
        """Return what the server knows of a stream, None if there is none."""
        try:
            (facts,) = await self._ask(RedisCommand("XINFO STREAM", key=key))
        except EngineRefusedError as error:
            if NONE not in str(error):
                raise
            return None
        return read_stream_info(facts)

    async def commit(self, version: int, manifest: bytes) -> None:
        await self._check_that_nothing_is_evicted()
        newest = await self.newest_version()
        if newest != version - 1:
            raise ConflictError(f"version {version} cannot be published: the newest is {newest}")
        try:  # between these two the log can only grow: then this is refused
            await self._ask(RedisCommand("XADD", f"{version}-0", "d", manifest, key=self._key("policy")))
        except EngineRefusedError as error:
            if TOO_LOW not in str(error):
                raise
            await self.newest_version()  # says so if that version was there and is lost
            raise ConflictError(f"version {version} was published by somebody else at the same time") from None

    async def bundle(self, digest: str) -> bytes | None:
        (data,) = await self._ask(RedisCommand("GET", key=self._key("bundle", digest)))
        return cast("bytes | None", data)

    async def put_bundle(self, digest: str, data: bytes) -> None:
        await self._check_that_nothing_is_evicted()
        key = self._key("bundle", digest)
        (is_new,) = await self._ask(RedisCommand("SETNX", data, key=key))
        if not is_new and await self.bundle(digest) != data:
            raise EngineRefusedError(
                f"{self._address} holds other bytes as {key}, so nobody can use it: an administrator must delete it"
            )

    async def _check_that_nothing_is_evicted(self) -> None:
        """Refuse to publish where what is published may be dropped for want of memory; where we may know."""
        policy = (await self._told())["evicts"]
        if policy.startswith("allkeys"):
            reason = f"drops data when its memory is full (maxmemory-policy {policy})"
            raise EngineRefusedError(f"{self._address} {reason}: set maxmemory-policy noeviction there")

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def append(self, host: str, epoch: int, batch: RecordBatch) -> None:
        if not (0 < batch.first <= batch.last < BIG and 0 < epoch < BIG):
            raise ValueError(f"no batch of a log: epoch {epoch}, {batch.first} to {batch.last}")
        key, epochs = self._log(host, epoch), self._log(host, "epochs")
        line = await self._lines.line("asking")  # whose clock is then known
        if self._end_known_by is not line and self._end_known_by is not None:
            self._end_known_by = None
            # What answers now may be restored from an older copy, or be a replica that was behind: it would take this
            # batch, and what it lost would be a hole in the log for ever.
            raise UnreachableError(
                f"the connection to {self._address} was lost: look again where the log of {host} ends"
            )
        self._end_known_by = line
        entry = ("f", batch.first, "a", self._lines.now(), "d", batch.data)
        try:
            is_new, _ = await line.ask(
                RedisCommand("SADD", epoch, key=epochs), RedisCommand("XADD", f"{batch.last}-0", *entry, key=key)
            )
        except EngineRefusedError as error:
            if TOO_LOW not in str(error):
                raise
            raise ConflictError(f"{key} holds record {batch.last} of {host} or later ones already") from None
        if is_new and (host, epoch) in self._epochs:
            raise LostError(f"{self._address} has lost {key}, and has taken records from {batch.first} on since")
        self._epochs.add((host, epoch))

    async def last_batch(self, host: str) -> tuple[int, RecordBatch] | None:
        self._end_known_by = await self._lines.line("asking")
        epochs = await self.epochs(host)
        self._epochs = {(host, epoch) for epoch in epochs}
        for epoch in reversed(epochs):
            key = self._log(host, epoch)
            (entries,) = await self._ask(RedisCommand("XREVRANGE", "+", "-", "COUNT", 1, key=key))
            if entries:
                return epoch, read_batches(entries)[0]
            if stream := await self._stream(key):
                last, _ = stream.newest_ever
                return epoch, RecordBatch(last, last, b"")
        return None

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        found: list[RecordBatch] = []
        while len(found) < limit:
            last = found[-1].last if found else after
            if last >= LAST:  # a host may append it, and there is no question for what follows it
                break
            count, start = min(AT_ONCE, limit - len(found)), f"({last}-{LAST}"
            (entries,) = await self._ask(RedisCommand("XRANGE", start, "+", "COUNT", count, key=self._log(host, epoch)))
            found += read_batches(entries)
            if len(entries) < count:
                break
        return found

    async def epochs(self, host: str) -> Sequence[int]:
        (members,) = await self._ask(RedisCommand("SMEMBERS", key=self._log(host, "epochs")))
        return sorted(int(member) for member in members if is_written(member))

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        if before <= 0:  # a host may append what is numbered 0, and there is no question for what precedes it
            return []
        key, end = self._log(host, epoch), "+" if before > LAST else f"({before}-0"
        (entries,) = await self._ask(RedisCommand("XREVRANGE", end, "-", "COUNT", min(limit, AT_ONCE), key=key))
        return read_batches(entries)

    async def logs(self) -> AsyncIterator[tuple[str, int]]:
        seen = set[tuple[str, int]]()
        async for names in self._streams(self._key("log", "")):
            for host, _, epoch in (name.rpartition(":") for name in names):
                if NAME.fullmatch(host) and EPOCH.fullmatch(epoch) and (host, int(epoch)) not in seen:
                    seen.add((host, int(epoch)))
                    yield host, int(epoch)

    async def log_facts(self, host: str, epoch: int) -> LogFacts | None:
        stream = await self._stream(self._log(host, epoch))
        return None if stream is None else LogFacts(stream.newest_ever[0], stream.count, stream.added)

    async def trim(self, host: str, epoch: int, through: int, note: bytes) -> int:
        await self._ask(RedisCommand("HSET", epoch, note, key=self._key("trimmed", validate_host_name(host))))
        (removed,) = await self._ask(
            RedisCommand("XTRIM", "MINID", "=", f"{through + 1}-0", key=self._log(host, epoch))
        )
        return int(removed)

    async def notes(self, host: str) -> Mapping[int, bytes]:
        (found,) = await self._ask(RedisCommand("HGETALL", key=self._key("trimmed", validate_host_name(host))))
        return {int(epoch): note for epoch, note in found.items() if is_written(epoch) and isinstance(note, bytes)}

    # -- hosts ---------------------------------------------------------------------------------------------------------

    async def report(self, host: str, data: bytes) -> None:
        await self._ask(RedisCommand("XADD", "MAXLEN", "=", 1, "*", "d", data, key=self._host(host)))

    async def reports(self) -> AsyncIterator[StoredReport]:
        seen = set[str]()
        async for names in self._streams(self._key("host", "")):
            hosts = [name for name in names if NAME.fullmatch(name) and name not in seen]
            seen |= set(hosts)
            for host, entries in zip(hosts, await self._newest_of(hosts), strict=True):
                for (at, _), fields in read_entries(entries):
                    yield StoredReport(host, fields.get(b"d", b""), at)

    async def _newest_of(self, hosts: Sequence[str]) -> list[Any]:
        questions = [RedisCommand("XREVRANGE", "+", "-", "COUNT", 1, key=self._host(host)) for host in hosts]
        return await self._ask(*questions) if questions else []

    async def _streams(self, prefix: str) -> AsyncIterator[list[str]]:
        """Yield what follows a prefix in the keys of streams, some at a time, and perhaps twice.

        A key of another type is passed over: a host may make one of its own, and must not stop those who read all.
        """
        cursor = b"0"
        while True:
            looks = RedisCommand("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", SCANNED, "TYPE", "stream")
            (answer,) = await self._ask(looks)
            cursor, keys = read_scan_keys(answer)
            yield [key.removeprefix(prefix) for key in keys]
            if cursor == b"0":
                return

    async def facts(self) -> dict[str, str]:
        line = await self._lines.line("asking")
        (hello,) = await line.ask(RedisCommand("HELLO"))
        facts = {
            "engine": format_redis_word(hello.get(b"server")),
            "version": line.version,
            "clock": str(self._lines.now()),
        }
        return facts | await self._told() | {"appendfsync": await self._syncs()}

    async def _told(self) -> dict[str, str]:
        """Return whether the server logs its writes and what it drops for want of memory, if it lets us know."""
        try:
            (answer,) = await self._ask(RedisCommand("INFO", "memory", "persistence"))
        except EngineRefusedError:
            return {"appendonly": UNKNOWN, "evicts": UNKNOWN}
        told = dict(row.split(":", 1) for row in answer.decode(errors="replace").splitlines() if ":" in row)
        appends = {"0": "no", "1": "yes"}.get(told.get("aof_enabled", ""), UNKNOWN)
        return {"appendonly": appends, "evicts": told.get("maxmemory_policy", UNKNOWN)}

    async def _syncs(self) -> str:
        try:
            (answer,) = await self._ask(RedisCommand("CONFIG GET", "appendfsync"))
        except EngineRefusedError:
            return UNKNOWN
        return format_redis_word(answer.get(b"appendfsync", UNKNOWN.encode()))

    # -- keys ----------------------------------------------------------------------------------------------------------

    async def _ask(self, *questions: RedisCommand) -> list[Any]:
        return await (await self._lines.line("asking")).ask(*questions)

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)

    def _host(self, host: str) -> str:
        return self._key("host", validate_host_name(host))

    def _log(self, host: str, epoch: int | str) -> str:
        return self._key("log", validate_host_name(host), str(epoch))


def validate_host_name(host: str) -> str:
    """Return a host's name, if it is one: it is part of keys, and rights are given by keys."""
    if NAME.fullmatch(host) is None:
        raise EngineRefusedError(f"{host!r} is no name of a host: letters, digits, '.', '_' and '-', at most 63")
    return host
