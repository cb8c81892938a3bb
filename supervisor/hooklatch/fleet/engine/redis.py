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
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import trio

from hooklatch.fleet.engine.addresses import Address
from hooklatch.fleet.engine.engine import (
    Batch,
    BehindError,
    ConflictError,
    Engine,
    LogFacts,
    RefusedError,
    Report,
    UnreachableError,
)
from hooklatch.fleet.engine.redis_connections import Line, Question, connected, trusting
from hooklatch.fleet.engine.redis_errors import OLDEST
from hooklatch.fleet.policy.manifests import NAME

__all__ = ["RedisEngine", "opens"]

BLOCK = 0.4  # seconds that the server may hold a waiting question: so long may a dead peer go unnoticed, and
GRACE = 0.8  # so long may its answer then stay away; twice as long after each time that it did, as it may be busy
AT_ONCE = 16  # batches in one answer: each may have megabytes
SCANNED = 1000  # keys looked at in one step of SCAN
BIG = 2**63  # seqs and versions are below; an id of a stream has 64 bits
TOO_LOW = "equal or smaller than the target stream top item"  # of XADD, Redis 5 to 8 and Valkey
NONE = "no such key"  # of XINFO
UNKNOWN = "unknown"
EPOCH = re.compile(r"[1-9][0-9]{0,17}")
WRITTEN = re.compile(rb"[0-9]{1,18}")  # a number of ours: a host may write any, and thousands of digits are an error


@asynccontextmanager
async def opens(
    address: Address, fleet: str, *, password: str | None, ca: str | None, timeout: float
) -> AsyncGenerator[Engine]:
    """Open a fleet's part of a Redis; connections that are lost later are made anew at the next call."""
    if NAME.fullmatch(fleet) is None:
        raise RefusedError(f"{fleet!r} is no name of a fleet: letters, digits, '.', '_' and '-', at most 63")
    tls = trusting(ca) if address.scheme == "rediss" else None
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        connect = partial(connected, nursery, address, password=password, tls=tls, timeout=timeout)
        engine = RedisEngine(connect, address, fleet, timeout)
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

    def __init__(self, connect: Callable[[], Awaitable[Line]], address: Address, fleet: str, timeout: float) -> None:
        self._connect = connect
        self._address = address
        self._prefix = f"hooklatch:{fleet}:"
        self._timeout = timeout
        self._lines: dict[str, Line] = {}
        self._connecting = {"asking": trio.Lock(), "waiting": trio.Lock()}
        self._reading = trio.Lock()
        self._grace = GRACE
        self._end_known_by: Line | None = None  # the connection on which a log's end was read, or written
        self._clock = 0.0  # the engine's, in seconds since the epoch, when ours showed `_clock_at`
        self._clock_at = 0.0

    async def connect(self) -> None:
        """Connect, and look whether this server will do.

        Raises:
            EngineError: it is away, refuses us, is too old, or is a replica or part of a cluster.
        """
        await self._line("asking")

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
            line = await self._line("waiting")
            questions = self._looks(after, "COUNT", limit, "BLOCK", block)
            try:
                answers = await line.ask(*questions, patience=block / 1000 + min(self._grace, self._timeout))
            except UnreachableError:
                self._grace = min(2 * self._grace, max(GRACE, self._timeout))
                self.close()  # the other connection has the same peer
                raise
            self._grace = GRACE
        return self._whole(after, answers)

    def _looks(self, after: int, *how: str | int) -> tuple[Question, Question]:
        policy = self._key("policy")
        return Question("XREAD", *how, "STREAMS", policy, f"{after}-0"), Question("XLEN", key=policy)

    def _whole(self, after: int, answers: Sequence[Any]) -> list[tuple[int, bytes]]:
        """Return the versions that came, if they and all before them are there."""
        streams, count = answers
        found: list[tuple[int, bytes]] = []
        for number, (place, fields) in enumerate(entries_in(streams), start=after + 1):
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
        if stream is None:
            return 0
        count, newest = int(stream[b"length"]), number_of(stream[b"last-generated-id"])
        last = stream[b"last-entry"]
        if newest != (count, 0) or last is None or number_of(last[0]) != newest:
            raise BehindError(
                f"{self._address} has {count} versions of the policy, and had {newest[0]}: {key} was trimmed"
                " or written by something else; restore it from a copy"
            )
        return count

    async def _stream(self, key: str) -> dict[bytes, Any] | None:
        """Return what the server knows of a stream, None if there is none."""
        try:
            (facts,) = await self._ask(Question("XINFO STREAM", key=key))
        except RefusedError as error:
            if NONE not in str(error):
                raise
            return None
        return cast("dict[bytes, Any]", facts)

    async def commit(self, version: int, manifest: bytes) -> None:
        await self._check_that_nothing_is_evicted()
        newest = await self.newest_version()
        if newest != version - 1:
            raise ConflictError(f"version {version} cannot be published: the newest is {newest}")
        try:  # between these two the log can only grow: then this is refused
            await self._ask(Question("XADD", f"{version}-0", "d", manifest, key=self._key("policy")))
        except RefusedError as error:
            if TOO_LOW not in str(error):
                raise
            await self.newest_version()  # says so if that version was there and is lost
            raise ConflictError(f"version {version} was published by somebody else at the same time") from None

    async def bundle(self, digest: str) -> bytes | None:
        (data,) = await self._ask(Question("GET", key=self._key("bundle", digest)))
        return cast("bytes | None", data)

    async def put_bundle(self, digest: str, data: bytes) -> None:
        await self._check_that_nothing_is_evicted()
        key = self._key("bundle", digest)
        (is_new,) = await self._ask(Question("SETNX", data, key=key))
        if not is_new and await self.bundle(digest) != data:
            raise RefusedError(
                f"{self._address} holds other bytes as {key}, so nobody can use it: an administrator must delete it"
            )

    async def _check_that_nothing_is_evicted(self) -> None:
        """Refuse to publish where what is published may be dropped for want of memory; where we may know."""
        policy = (await self._told())["evicts"]
        if policy.startswith("allkeys"):
            raise RefusedError(
                f"{self._address} drops data when its memory is full (maxmemory-policy {policy}):"
                " set maxmemory-policy noeviction there"
            )

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def append(self, host: str, epoch: int, batch: Batch) -> None:
        if not (0 < batch.first <= batch.last < BIG and 0 < epoch < BIG):
            raise ValueError(f"no batch of a log: epoch {epoch}, {batch.first} to {batch.last}")
        key, epochs = self._log(host, epoch), self._log(host, "epochs")
        line = await self._line("asking")  # whose clock is then known
        if self._end_known_by is not line and self._end_known_by is not None:
            self._end_known_by = None
            # What answers now may be restored from an older copy, or be a replica that was behind: it would take this
            # batch, and what it lost would be a hole in the log for ever.
            raise UnreachableError(
                f"the connection to {self._address} was lost: look again where the log of {host} ends"
            )
        self._end_known_by = line
        entry = ("f", batch.first, "a", self._now(), "d", batch.data)
        try:
            await line.ask(Question("SADD", epoch, key=epochs), Question("XADD", f"{batch.last}-0", *entry, key=key))
        except RefusedError as error:
            if TOO_LOW not in str(error):
                raise
            raise ConflictError(f"{key} holds record {batch.last} of {host} or later ones already") from None

    async def last_batch(self, host: str) -> tuple[int, Batch] | None:
        self._end_known_by = await self._line("asking")
        for epoch in reversed(await self.epochs(host)):
            key = self._log(host, epoch)
            (entries,) = await self._ask(Question("XREVRANGE", "+", "-", "COUNT", 1, key=key))
            if entries:
                return epoch, batches_in(entries)[0]
            if stream := await self._stream(key):
                last, _ = number_of(stream[b"last-generated-id"])
                return epoch, Batch(last, last, b"")
        return None

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> Sequence[Batch]:
        found: list[Batch] = []
        while len(found) < limit:
            count = min(AT_ONCE, limit - len(found))
            start = f"({found[-1].last if found else after}-{2**64 - 1}"
            (entries,) = await self._ask(Question("XRANGE", start, "+", "COUNT", count, key=self._log(host, epoch)))
            found += batches_in(entries)
            if len(entries) < count:
                break
        return found

    async def epochs(self, host: str) -> Sequence[int]:
        (members,) = await self._ask(Question("SMEMBERS", key=self._log(host, "epochs")))
        return sorted(int(member) for member in members if WRITTEN.fullmatch(member))

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> Sequence[Batch]:
        key, end = self._log(host, epoch), f"({before}-0"
        (entries,) = await self._ask(Question("XREVRANGE", end, "-", "COUNT", min(limit, AT_ONCE), key=key))
        return batches_in(entries)

    async def logs(self) -> AsyncIterator[tuple[str, int]]:
        seen = set[tuple[str, int]]()
        async for names in self._streams(self._key("log", "")):
            for host, _, epoch in (name.rpartition(":") for name in names):
                if NAME.fullmatch(host) and EPOCH.fullmatch(epoch) and (host, int(epoch)) not in seen:
                    seen.add((host, int(epoch)))
                    yield host, int(epoch)

    async def log_facts(self, host: str, epoch: int) -> LogFacts | None:
        stream = await self._stream(self._log(host, epoch))
        if stream is None:
            return None
        last, _ = number_of(stream[b"last-generated-id"])
        return LogFacts(last, int(stream[b"length"]), int(stream[b"entries-added"]))

    async def trim(self, host: str, epoch: int, through: int, note: bytes) -> int:
        await self._ask(Question("HSET", epoch, note, key=self._key("trimmed", checked(host))))
        (removed,) = await self._ask(Question("XTRIM", "MINID", "=", f"{through + 1}-0", key=self._log(host, epoch)))
        return int(removed)

    async def notes(self, host: str) -> Mapping[int, bytes]:
        (found,) = await self._ask(Question("HGETALL", key=self._key("trimmed", checked(host))))
        return {int(epoch): note for epoch, note in found.items() if WRITTEN.fullmatch(epoch)}

    # -- hosts ---------------------------------------------------------------------------------------------------------

    async def report(self, host: str, data: bytes) -> None:
        await self._ask(Question("XADD", "MAXLEN", "=", 1, "*", "d", data, key=self._host(host)))

    async def reports(self) -> AsyncIterator[Report]:
        seen = set[str]()
        async for names in self._streams(self._key("host", "")):
            hosts = [name for name in names if NAME.fullmatch(name) and name not in seen]
            seen |= set(hosts)
            for host, entries in zip(hosts, await self._newest_of(hosts), strict=True):
                for (at, _), fields in entries_of(entries):
                    yield Report(host, fields.get(b"d", b""), at)

    async def _newest_of(self, hosts: Sequence[str]) -> list[Any]:
        questions = [Question("XREVRANGE", "+", "-", "COUNT", 1, key=self._host(host)) for host in hosts]
        return await self._ask(*questions) if questions else []

    async def _streams(self, prefix: str) -> AsyncIterator[list[str]]:
        """Yield what follows a prefix in the keys of streams, some at a time, and perhaps twice.

        A key of another type is passed over: a host may make one of its own, and must not stop those who read all.
        """
        cursor = b"0"
        while True:
            looks = Question("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", SCANNED, "TYPE", "stream")
            ((cursor, keys),) = await self._ask(looks)
            yield [key.decode(errors="replace").removeprefix(prefix) for key in keys]
            if cursor == b"0":
                return

    async def facts(self) -> dict[str, str]:
        line = await self._line("asking")
        (hello,) = await line.ask(Question("HELLO"))
        facts = {"engine": hello.get(b"server", b"redis").decode(), "version": line.version, "clock": str(self._now())}
        return facts | await self._told() | {"appendfsync": await self._syncs()}

    async def _told(self) -> dict[str, str]:
        """Return whether the server logs its writes and what it drops for want of memory, if it lets us know."""
        try:
            (answer,) = await self._ask(Question("INFO", "memory", "persistence"))
        except RefusedError:
            return {"appendonly": UNKNOWN, "evicts": UNKNOWN}
        told = dict(row.split(":", 1) for row in answer.decode(errors="replace").splitlines() if ":" in row)
        appends = {"0": "no", "1": "yes"}.get(told.get("aof_enabled", ""), UNKNOWN)
        return {"appendonly": appends, "evicts": told.get("maxmemory_policy", UNKNOWN)}

    async def _syncs(self) -> str:
        try:
            (answer,) = await self._ask(Question("CONFIG GET", "appendfsync"))
        except RefusedError:
            return UNKNOWN
        return str(answer.get(b"appendfsync", UNKNOWN.encode()).decode())

    # -- connections ---------------------------------------------------------------------------------------------------

    async def _ask(self, *questions: Question) -> list[Any]:
        return await (await self._line("asking")).ask(*questions)

    async def _line(self, name: str) -> Line:
        async with self._connecting[name]:
            line = self._lines.get(name)
            if line is None or not line.is_open:
                line = await self._connect()
                try:
                    await self._check(line)
                except BaseException:
                    line.close()
                    raise
                self._lines[name] = line
            return line

    async def _check(self, line: Line) -> None:
        """Refuse a server that will not do, and learn its clock."""
        version = tuple(int(part) if part.isdecimal() else 0 for part in line.version.split(".")[:2])
        if version < OLDEST:
            raise RefusedError(f"{self._address} is Redis {line.version}; it must be Redis 7.0 or later, or Valkey")
        hello, now = await line.ask(Question("HELLO"), Question("TIME"))
        if hello.get(b"mode") != b"standalone":
            raise RefusedError(
                f"{self._address} is in the mode {hello.get(b'mode', b'?').decode()!r}: name a single server instead,"
                " with replicas if need be"
            )
        if hello.get(b"role") != b"master":
            raise RefusedError(
                f"{self._address} is a replica, which may be behind and takes no writes; name the primary"
            )
        self._clock, self._clock_at = int(now[0]) + int(now[1]) / 1e6, time.monotonic()

    def _now(self) -> int:
        """Return the engine's time in ms since the epoch, by how long ago it told us."""
        return int((self._clock + time.monotonic() - self._clock_at) * 1000)

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        for line in self._lines.values():
            line.close()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)

    def _host(self, host: str) -> str:
        return self._key("host", checked(host))

    def _log(self, host: str, epoch: int | str) -> str:
        return self._key("log", checked(host), str(epoch))


def checked(host: str) -> str:
    """Return a host's name, if it is one: it is part of keys, and rights are given by keys."""
    if NAME.fullmatch(host) is None:
        raise RefusedError(f"{host!r} is no name of a host: letters, digits, '.', '_' and '-', at most 63")
    return host


def entries_in(streams: Any) -> list[tuple[tuple[int, int], dict[bytes, bytes]]]:
    """Return the entries of an answer of XREAD for one stream, or for none."""
    answer = cast("dict[bytes, list[Any]]", streams or {})
    return [entry for entries in answer.values() for entry in entries_of(entries)]


def entries_of(entries: Sequence[Any]) -> list[tuple[tuple[int, int], dict[bytes, bytes]]]:
    return [(number_of(place), dict(zip(fields[::2], fields[1::2], strict=False))) for place, fields in entries]


def number_of(place: bytes) -> tuple[int, int]:
    first, _, second = place.partition(b"-")
    return int(first), int(second)


def batches_in(entries: Sequence[Any]) -> list[Batch]:
    """Return batches; one that is not what we write has the number of its entry and what data it has."""
    found: list[Batch] = []
    for (last, _), fields in entries_of(entries):
        first, at = (fields.get(name, b"") for name in (b"f", b"a"))
        begins, taken = int(first) if WRITTEN.fullmatch(first) else last, int(at) if WRITTEN.fullmatch(at) else 0
        found.append(Batch(begins, last, fields.get(b"d", b""), taken))
    return found
