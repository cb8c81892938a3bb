"""The engine on Redis 7 or later, or Valkey: streams with ids of ours, so the server itself refuses a number twice.

Knows keys and commands, not policy and record.  All keys begin with `hooklatch:<fleet>:`:

| key | type | holds | written by |
|---|---|---|---|
| `policy` | stream, ids `<version>-0` | `d` the manifest | publishers: XADD |
| `timestamp` | stream of one entry, id by the engine's clock | `d` which version is the newest | publishers: XADD |
| `keys` | stream, ids `<version>-0` | `d` a key set | publishers: XADD |
| `bundle:<sha256>` | string | the bundle | publishers: SETNX, so none is ever replaced |
| `log:<host>:epochs` | set | the epochs that there are | that host: SADD |
| `log:<host>:<epoch>` | stream, ids `<last seq>-0` | `f` first seq, `a` ms by it, `d` data, `s` signature | it: XADD |
| `trimmed:<host>` | hash, by epoch | what an operator removed, and why | operators: HSET |
| `token:<host>` | string | the word that a token is exchanged for, for an hour | who makes users: SET |
| `key:<host>:<slot>` | string | the public key of a host that joined | that host: SETNX |
| `events` | stream | `d` the enrolment or retirement of a host | operators: XADD |
| `host:<host>` | stream of one entry, id by the engine's clock | `d` the report | that host: XADD |

The versions are numbered from 1 without a gap and are never trimmed, so their count is the number of the newest.
A reader asks for the count on each connection, and with each version that is new there: a log that was emptied, cut or
restored from an older copy shows as behind, never as "nothing new".
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import trio

from hooklatch.fleet.engine.engine import (
    KEYS,
    POLICY,
    TIMESTAMP,
    Address,
    BehindError,
    ConflictError,
    Engine,
    EngineRefusedError,
    LogFacts,
    LostError,
    RecordBatch,
    StoredReport,
    UnreachableError,
    find_user,
    list_rights,
)
from hooklatch.fleet.engine.redis_answers import (
    StreamInfo,
    format_redis_word,
    is_written,
    read_batches,
    read_entries,
    read_stream_info,
)
from hooklatch.fleet.engine.redis_connections import RedisCommand, RedisConnection, RedisPool, make_tls_context
from hooklatch.fleet.manifests import NAME

__all__ = ["RedisEngine", "opens"]

GRACE = 12.0  # seconds that the answer to a question that the server holds may be late: a server that hangs is noticed
AT_ONCE = 8  # batches in one answer: each may have megabytes
KEY_SETS = 64  # in one answer
SCANNED = 1000  # keys looked at in one step of SCAN
LAST = 2**64 - 1  # the last number that an id of a stream can have
BIG = 2**63  # seqs and versions are below; an id of a stream has 64 bits
TOO_LOW = "equal or smaller than the target stream top item"  # of XADD, Redis 5 to 8 and Valkey
NONE = "no such key"  # of XINFO
NO_FILE = "not configured to use an ACL file"  # of ACL SAVE: such a server forgets its users with its end
UNKNOWN = "unknown"
EPOCH = re.compile(r"[1-9][0-9]{0,17}")


@asynccontextmanager
async def opens(
    address: Address, fleet: str, *, password: str | None, ca: str | None, timeout: float
) -> AsyncGenerator[Engine]:
    """Open a fleet's part of a Redis; connections that are lost later are made anew at the next call."""
    if NAME.fullmatch(fleet) is None:
        raise EngineRefusedError(f"{fleet!r} is not a name of a fleet: letters, digits, '.', '_' and '-', at most 63")
    tls = make_tls_context(ca) if address.scheme == "rediss" else None
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        pool = RedisPool(nursery, address, password=password, tls=tls, timeout=timeout)
        engine = RedisEngine(pool, address, fleet)
        try:
            await pool.connection("main")  # connects, and checks this server
            yield engine
        except BaseException as error:  # raised below: a nursery would wrap it in an exception group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class RedisEngine(Engine):
    """One fleet's keys, through a pool of two connections."""

    def __init__(self, pool: RedisPool, address: Address, fleet: str) -> None:
        self._pool = pool
        self._address = address
        self._prefix = f"hooklatch:{fleet}:"
        self._fleet = fleet
        self._waiting = trio.Lock()  # held while the main connection waits
        self._end_known_on: RedisConnection | None = None  # the connection on which a log's end was read or written
        self._may_ask_info = True
        self._counted: tuple[RedisConnection, int] | None = None  # where all versions were there, up to which
        self._begun: set[tuple[str, int]] = set()  # the logs that were there then

    # -- policy --------------------------------------------------------------------------------------------------------

    async def wait(self, heads: Mapping[str, int], seconds: float) -> Collection[str]:
        streams = {self._key(name): name for name in heads}
        block = ("COUNT", 1, "BLOCK", max(1, int(seconds * 1000)))
        command = RedisCommand(
            "XREAD", *block, "STREAMS", *streams, *(f"{head}-0" for head in heads.values()), about=next(iter(streams))
        )
        async with self._waiting:
            connection = await self._pool.connection("main")
            try:
                (answer,) = await connection.execute(command, timeout=seconds + GRACE)
            except UnreachableError:
                self._pool.close()  # the other connection has the same peer
                raise
        return {streams[key] for key in map(format_redis_word, answer or ()) if key in streams}

    async def versions(self, after: int, *, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        policy = self._key(POLICY)
        connection = await self._connection()
        streams = await self._ask("XREAD", "COUNT", limit, "STREAMS", policy, f"{after}-0", about=policy, on=connection)
        versions: list[tuple[int, bytes]] = []
        entries = [entry for stream in streams.values() for entry in read_entries(stream)] if streams else []
        for number, (stream_id, fields) in enumerate(entries, start=after + 1):
            if stream_id != (number, 0):
                raise BehindError(
                    f"{self._address} has no version {number} and has one after it: {policy} was trimmed or written by"
                    " something else; restore it from a copy"
                )
            versions.append((number, fields.get(b"d", b"")))
        newest = after + len(versions)
        if self._counted != (connection, newest):
            count = await self._ask("XLEN", key=policy, on=connection)
            if count < newest:
                raise BehindError(
                    f"{self._address} has {count} versions of the policy, and version {newest} was read from it:"
                    f" {policy} was emptied, trimmed or restored from an older copy; restore a newer one"
                )
            self._counted = connection, newest
        return versions

    async def newest_version(self) -> int:
        key = self._key(POLICY)
        stream = await self._find_stream(key)
        if stream is not None and not stream.is_whole:
            raise BehindError(
                f"{self._address} has {stream.count} versions of the policy, and had {stream.newest_ever[0]}: {key} was"
                " trimmed or written by something else; restore it from a copy"
            )
        return 0 if stream is None else stream.count

    async def _find_stream(self, key: str, connection: RedisConnection | None = None) -> StreamInfo | None:
        """Return the server's facts of a stream, None if there is none."""
        try:
            return read_stream_info(await self._ask("XINFO STREAM", key=key, on=connection))
        except EngineRefusedError as error:
            if NONE not in str(error):
                raise
            return None

    async def commit(self, version: int, manifest: bytes) -> None:
        await self._refuse_eviction()
        newest = await self.newest_version()
        if newest != version - 1:
            raise ConflictError(f"version {version} cannot be published: the newest is {newest}")
        try:  # since the look above the log can only have grown, and then this is refused
            with refusing_numbers(f"version {version} was published by another publisher at the same time"):
                await self._ask("XADD", f"{version}-0", "d", manifest, key=self._key(POLICY))
        except ConflictError:
            await self.newest_version()  # raises BehindError if that version was there and is lost
            raise

    async def bundle(self, digest: str) -> bytes | None:
        return cast("bytes | None", await self._ask("GET", key=self._key("bundle", digest)))

    async def put_bundle(self, digest: str, data: bytes) -> None:
        await self._refuse_eviction()
        key = self._key("bundle", digest)
        is_new = await self._ask("SETNX", data, key=key)
        if not is_new and await self.bundle(digest) != data:
            raise EngineRefusedError(
                f"{self._address} holds other bytes as {key}, which no host would take: an administrator must delete it"
            )

    async def timestamp(self) -> tuple[int, bytes] | None:
        entries = await self._ask("XREVRANGE", "+", "-", "COUNT", 1, key=self._key(TIMESTAMP))
        for (at, count), fields in read_entries(entries):
            return at + bool(count), fields.get(b"d", b"")
        return None

    async def put_timestamp(self, data: bytes) -> None:
        await self._ask("XADD", "MAXLEN", "=", 1, "*", "d", data, key=self._key(TIMESTAMP))

    async def key_sets(self, after: int) -> Sequence[bytes]:
        key = self._key(KEYS)
        entries = read_entries(await self._ask("XRANGE", f"{after}-0", "+", "COUNT", KEY_SETS, key=key))
        if after and (not entries or entries[0][0] != (after, 0)):
            raise BehindError(
                f"{self._address} has no key set {after}, which was read from it: {key} was emptied, trimmed or"
                " restored from an older copy"
            )
        return [fields.get(b"d", b"") for _, fields in entries[1 if after else 0 :]]

    async def put_key_set(self, version: int, data: bytes) -> None:
        with refusing_numbers(f"the engine has a key set {version} already, or a later one"):
            await self._ask("XADD", f"{version}-0", "d", data, key=self._key(KEYS))

    async def _refuse_eviction(self) -> None:
        """Refuse to publish where the server may drop data for want of memory; without the right to know, go on."""
        policy = (await self._read_memory_facts())["evicts"]
        if policy.startswith("allkeys"):
            reason = f"drops data when its memory is full (maxmemory-policy {policy})"
            raise EngineRefusedError(f"{self._address} {reason}: set maxmemory-policy noeviction there")

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def append(self, host: str, epoch: int, batch: RecordBatch) -> None:
        if not (0 < batch.first <= batch.last < BIG and 0 < epoch < BIG):
            raise ValueError(f"no batch of a log: epoch {epoch}, {batch.first} to {batch.last}")
        key = self._log_key(host, epoch)
        connection = await self._pool.connection("side")  # first, since it brings the server's clock for the batch
        if self._end_known_on is not connection and self._end_known_on is not None:
            self._end_known_on = None
            # The server that answers now may be restored from an older copy, or be a replica that was behind: it would
            # take this batch, and what it lost would stay a hole in the log.
            raise UnreachableError(
                f"the connection to {self._address} was lost: the end of the log of {host} has to be read again"
            )
        self._end_known_on = connection
        signed = ("s", batch.signature) if batch.signature else ()
        entry = (f"{batch.last}-0", "f", batch.first, "a", self._pool.now(), "d", batch.data, *signed)
        if (host, epoch) in self._begun:
            commands = [RedisCommand("XADD", "NOMKSTREAM", *entry, key=key)]
        else:
            epochs = self._log_key(host, "epochs")
            commands = [RedisCommand("SADD", epoch, key=epochs), RedisCommand("XADD", *entry, key=key)]
        with refusing_numbers(f"{key} holds record {batch.last} of {host} or later ones already"):
            *_, taken = await connection.execute(*commands)
        if taken is None:
            self._begun.discard((host, epoch))
            raise LostError(f"{self._address} has lost {key}, which it had before")
        self._begun.add((host, epoch))

    async def last_batch(self, host: str) -> tuple[int, RecordBatch] | None:
        connection = self._end_known_on = await self._pool.connection("side")
        self._begun.clear()
        for epoch in reversed(await self.epochs(host, on=connection)):
            key = self._log_key(host, epoch)
            entries = await self._ask("XREVRANGE", "+", "-", "COUNT", 1, key=key, on=connection)
            stream = None if entries else await self._find_stream(key, connection)
            if not entries and stream is None:
                continue
            self._begun.add((host, epoch))
            if stream is None:
                return epoch, read_batches(entries)[0]
            last, _ = stream.newest_ever
            return epoch, RecordBatch(last, last, b"")
        return None

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        batches: list[RecordBatch] = []
        while len(batches) < limit:
            last = batches[-1].last if batches else after
            if last >= LAST:  # a host may append it, and no command can ask for what follows it
                break
            count, start = min(AT_ONCE, limit - len(batches)), f"({last}-{LAST}"
            entries = await self._ask("XRANGE", start, "+", "COUNT", count, key=self._log_key(host, epoch))
            batches += read_batches(entries)
            if len(entries) < count:
                break
        return batches

    async def epochs(self, host: str, *, on: RedisConnection | None = None) -> Sequence[int]:
        members = await self._ask("SMEMBERS", key=self._log_key(host, "epochs"), on=on)
        return sorted(int(member) for member in members if is_written(member))

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        if before <= 0:  # a host may append a batch numbered 0, and no command can ask for what precedes it
            return []
        key, end = self._log_key(host, epoch), "+" if before > LAST else f"({before}-0"
        entries = await self._ask("XREVRANGE", end, "-", "COUNT", min(limit, AT_ONCE), key=key)
        return read_batches(entries)

    async def logs(self) -> AsyncIterator[tuple[str, int]]:
        seen_logs = set[tuple[str, int]]()
        async for names in self._scan_streams(self._key("log", "")):
            for host, _, epoch in (name.rpartition(":") for name in names):
                if NAME.fullmatch(host) and EPOCH.fullmatch(epoch) and (host, int(epoch)) not in seen_logs:
                    seen_logs.add((host, int(epoch)))
                    yield host, int(epoch)

    async def log_facts(self, host: str, epoch: int) -> LogFacts | None:
        stream = await self._find_stream(self._log_key(host, epoch))
        return None if stream is None else LogFacts(stream.newest_ever[0], stream.count, stream.added)

    async def trim(self, host: str, epoch: int, through: int, note: bytes) -> int:
        await self._ask("HSET", epoch, note, key=self._key("trimmed", validate_host_name(host)))
        return int(await self._ask("XTRIM", "MINID", "=", f"{through + 1}-0", key=self._log_key(host, epoch)))

    async def notes(self, host: str) -> Mapping[int, bytes]:
        notes = await self._ask("HGETALL", key=self._key("trimmed", validate_host_name(host)))
        return {int(epoch): note for epoch, note in notes.items() if is_written(epoch)}

    # -- hosts ---------------------------------------------------------------------------------------------------------

    async def report(self, host: str, data: bytes) -> None:
        await self._ask("XADD", "MAXLEN", "=", 1, "*", "d", data, key=self._host_key(host))

    async def events(self) -> Sequence[bytes]:
        entries = read_entries(await self._ask("XRANGE", "-", "+", key=self._key("events")))
        return [fields.get(b"d", b"") for _, fields in entries]

    async def add_event(self, data: bytes) -> None:
        await self._ask("XADD", "*", "d", data, key=self._key("events"))

    async def invite(self, host: str, secret: str, password: str, word: str, seconds: int) -> None:
        token = self._key("token", validate_host_name(host))
        for kind, secret_of in (("host", password), ("join", secret)):
            await self._ask("ACL SETUSER", find_user(host, kind), *list_rights(self._fleet, host, kind, secret_of))
        await self._ask("SET", word, "EX", seconds, key=token)
        await self._keep_users()

    async def dismiss(self, host: str) -> None:
        await self._ask("ACL DELUSER", find_user(validate_host_name(host)), find_user(host, "join"))
        await self._keep_users()

    async def _keep_users(self) -> None:
        """Have the server write its file of users: unwritten, one that was taken away is back after its next start."""
        try:
            await self._ask("ACL SAVE")
        except EngineRefusedError as error:
            if NO_FILE not in str(error):
                raise

    async def redeem(self, host: str) -> str | None:
        word = await self._ask("GETDEL", key=self._key("token", validate_host_name(host)))
        return None if word is None else word.decode("ascii", "replace")

    async def register_key(self, host: str, slot: str, key: str) -> str:
        await self._ask("SETNX", key, key=self._key("key", validate_host_name(host), slot))
        return await self.registered_key(host, slot)

    async def registered_key(self, host: str, slot: str) -> str:
        key = await self._ask("GET", key=self._key("key", validate_host_name(host), slot))
        return "" if key is None else key.decode("ascii", "replace")

    async def reports(self) -> AsyncIterator[StoredReport]:
        seen_hosts = set[str]()
        async for names in self._scan_streams(self._key("host", "")):
            hosts = [name for name in names if NAME.fullmatch(name) and name not in seen_hosts]
            seen_hosts |= set(hosts)
            for report in await self._newest_reports(hosts):
                yield report

    async def newest_report(self, host: str) -> StoredReport | None:
        return next(iter(await self._newest_reports([host])), None)

    async def _newest_reports(self, hosts: Sequence[str]) -> list[StoredReport]:
        commands = [RedisCommand("XREVRANGE", "+", "-", "COUNT", 1, key=self._host_key(host)) for host in hosts]
        answers = await (await self._connection()).execute(*commands) if commands else []
        return [
            StoredReport(host, fields.get(b"d", b""), at)
            for host, entries in zip(hosts, answers, strict=True)
            for (at, _), fields in read_entries(entries)
        ]

    async def _scan_streams(self, prefix: str) -> AsyncIterator[list[str]]:
        """Yield the rest of each stream's key after a prefix, some keys at a time, and perhaps a key twice.

        A key of another type is passed over: a host may make such a key, and must not stop the readers of all hosts.
        """
        cursor = b"0"
        while True:
            options = ("MATCH", f"{prefix}*", "COUNT", SCANNED, "TYPE", "stream")
            cursor, keys = await self._ask("SCAN", cursor, *options)
            yield [key.decode(errors="replace").removeprefix(prefix) for key in keys]
            if cursor == b"0":
                return

    async def facts(self) -> dict[str, str]:
        connection = await self._connection()
        (hello,) = await connection.execute(RedisCommand("HELLO"))
        engine, version = format_redis_word(hello.get(b"server")), connection.server_version or ""
        facts = {"engine": engine, "version": version, "clock": str(self._pool.now())}
        return facts | await self._read_memory_facts() | {"appendfsync": await self._read_fsync_setting()}

    async def fullness(self) -> float | None:
        facts = await self._read_info("memory") if self._may_ask_info else None
        if facts is None:
            self._may_ask_info = False
            return None
        used, limit = (
            int(facts[name]) if facts.get(name, "").isdecimal() else 0 for name in ("used_memory", "maxmemory")
        )
        return used / limit if limit else None

    async def _read_memory_facts(self) -> dict[str, str]:
        """Return whether the server logs its writes, and what it drops for want of memory, if we may know."""
        facts = await self._read_info("memory", "persistence") or {}
        appends = {"0": "no", "1": "yes"}.get(facts.get("aof_enabled", ""), UNKNOWN)
        return {"appendonly": appends, "evicts": facts.get("maxmemory_policy", UNKNOWN)}

    async def _read_info(self, *sections: str) -> dict[str, str] | None:
        """Return the server's facts of some sections, None if it does not let us know."""
        try:
            answer = await self._ask("INFO", *sections)
        except EngineRefusedError:
            return None
        return dict(row.split(":", 1) for row in answer.decode(errors="replace").splitlines() if ":" in row)

    async def _read_fsync_setting(self) -> str:
        try:
            answer = await self._ask("CONFIG GET", "appendfsync")
        except EngineRefusedError:
            return UNKNOWN
        return format_redis_word(answer.get(b"appendfsync", UNKNOWN.encode()))

    # -- keys ----------------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        command: str,
        *arguments: bytes | str | int,
        key: str = "",
        about: str = "",
        on: RedisConnection | None = None,
    ) -> Any:
        connection = on or await self._connection()
        return (await connection.execute(RedisCommand(command, *arguments, key=key, about=about)))[0]

    async def _connection(self) -> RedisConnection:
        """Return a connection on which no question waits."""
        if not self._waiting.locked():
            connection = await self._pool.connection("main")
            if not self._waiting.locked():
                return connection
        return await self._pool.connection("side")

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)

    def _host_key(self, host: str) -> str:
        return self._key("host", validate_host_name(host))

    def _log_key(self, host: str, epoch: int | str) -> str:
        return self._key("log", validate_host_name(host), str(epoch))


@contextmanager
def refusing_numbers(conflict: str) -> Generator[None]:
    """Raise ConflictError with this text where the server has the number of an entry already, or a later one."""
    try:
        yield
    except EngineRefusedError as error:
        if TOO_LOW not in str(error):
            raise
        raise ConflictError(conflict) from None


def validate_host_name(host: str) -> str:
    """Return a host's name if it is valid: it is part of keys, and rights are given by keys."""
    if NAME.fullmatch(host) is None:
        raise EngineRefusedError(f"{host!r} is not a name of a host: letters, digits, '.', '_' and '-', at most 63")
    return host
