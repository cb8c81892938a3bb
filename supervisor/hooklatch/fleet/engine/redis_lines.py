"""The connections of an engine on Redis: made when they are first needed, and anew after they were lost.

Knows which server will do, and its clock; knows no fleet.
"""

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
    """Two connections to one server: `asking` for what is answered at once, `waiting` for what may take its time."""

    def __init__(self, connect: Callable[[], Awaitable[RedisConnection]], address: Address) -> None:
        self._connect = connect
        self._address = address
        self._lines: dict[str, RedisConnection] = {}
        self._connecting = {"asking": trio.Lock(), "waiting": trio.Lock()}
        self._clock = (0, 0)  # the server's, in seconds and µs since the epoch, when ours showed `_clock_at`
        self._clock_at = 0.0

    async def line(self, name: str) -> RedisConnection:
        async with self._connecting[name]:
            line = self._lines.get(name)
            if line is None or not line.is_open:
                line = await self._connect()
                try:
                    await self._check(line)
                except BaseException:
                    line.close()
                    self.close()  # the other one goes to the same server, which may have become a replica since
                    raise
                self._lines[name] = line
            return line

    async def _check(self, line: RedisConnection) -> None:
        """Refuse a server that will not do, and learn its clock."""
        version = tuple(int(part) if part.isdecimal() else 0 for part in line.version.split(".")[:2])
        if version < OLDEST:
            raise EngineRefusedError(
                f"{self._address} is Redis {line.version}; it must be Redis 7.0 or later, or Valkey"
            )
        hello, now = await line.ask(RedisCommand("HELLO"), RedisCommand("TIME"))
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
        """Return the engine's time in ms since the epoch, by how long ago it told us."""
        seconds, microseconds = self._clock
        return int((seconds + time.clock_gettime(time.CLOCK_BOOTTIME) - self._clock_at) * 1000 + microseconds / 1000)

    def close(self) -> None:
        """Close the connections; whoever needs one next gets a new one."""
        for line in self._lines.values():
            line.close()
