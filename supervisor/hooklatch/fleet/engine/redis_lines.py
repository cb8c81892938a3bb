"""The connections of an engine on Redis: opened when they are first needed, and anew after they were lost."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import trio

from hooklatch.fleet.engine.addresses import Address
from hooklatch.fleet.engine.engine import EngineRefusedError
from hooklatch.fleet.engine.redis_answers import format_redis_word, read_clock
from hooklatch.fleet.engine.redis_connections import RedisCommand, RedisConnection
from hooklatch.fleet.engine.redis_errors import OLDEST

__all__ = ["RedisPool"]


class RedisPool:
    """Two connections to one server: `asking` for commands that are answered at once, `waiting` for those that wait.

    With one connection alone, every answer would stay behind a waiting XREAD.
    """

    def __init__(self, connect: Callable[[], Awaitable[RedisConnection]], address: Address) -> None:
        self._connect = connect
        self._address = address
        self._connections: dict[str, RedisConnection] = {}
        self._connecting = {"asking": trio.Lock(), "waiting": trio.Lock()}
        self._clock = (0, 0)  # the server's, in seconds and µs since the epoch, when our clock showed `_clock_at`
        self._clock_at = 0.0

    async def connection(self, name: str) -> RedisConnection:
        """Return the open connection of this name, after making it if need be."""
        async with self._connecting[name]:
            connection = self._connections.get(name)
            if connection is None or not connection.is_open:
                connection = await self._connect()
                try:
                    await self._validate_server(connection)
                except BaseException:
                    connection.close()
                    self.close()  # the other connection goes to the same server, which may have become a replica since
                    raise
                self._connections[name] = connection
            return connection

    async def _validate_server(self, connection: RedisConnection) -> None:
        """Refuse a server that is too old, in a cluster or a replica, and read its clock."""
        version = tuple(int(part) if part.isdecimal() else 0 for part in connection.version.split(".")[:2])
        if version < OLDEST:
            raise EngineRefusedError(
                f"{self._address} is Redis {connection.version}; it must be Redis 7.0 or later, or Valkey"
            )
        hello, now = await connection.execute(RedisCommand("HELLO"), RedisCommand("TIME"))
        mode, role = format_redis_word(hello.get(b"mode")), format_redis_word(hello.get(b"role"))
        if mode != "standalone":
            raise EngineRefusedError(
                f"{self._address} is in the mode {mode!r}: name a single server instead, with replicas if need be"
            )
        if role != "master":
            raise EngineRefusedError(
                f"{self._address} is a replica, which may be behind and takes no writes; name the primary"
            )
        self._clock, self._clock_at = read_clock(now), time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> int:
        """Return the engine's time in ms since the epoch: its last answer, and the time that has passed since."""
        seconds, microseconds = self._clock
        return int((seconds + time.clock_gettime(time.CLOCK_BOOTTIME) - self._clock_at) * 1000 + microseconds / 1000)

    def close(self) -> None:
        """Close the connections; the next caller of `connection` gets a new one."""
        for connection in self._connections.values():
            connection.close()
