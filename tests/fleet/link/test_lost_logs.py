"""What the link does where its host's log in the engine was emptied, or the record has lost what was not shipped.

Slow: each test has an engine of its own.
"""

from __future__ import annotations

import pytest

from hooklatch.fleet.engine.engine import Engine
from support.link_parts import FLEET, HOST, MemoryDaemon, WrittenRecord, linked, settings_of, until, until_shipped
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]


async def test_a_log_that_was_emptied_does_not_stop_the_shipping(
    redis: RedisServer, engine: Engine, record: WrittenRecord
) -> None:
    record.write(5)
    async with linked(settings_of(redis.url), MemoryDaemon(), record.folder):
        await until_shipped(engine, record)
    redis.command("XTRIM", f"hooklatch:{FLEET}:log:{HOST}:1", "MAXLEN", 0)
    record.write(2)
    async with linked(settings_of(redis.url), MemoryDaemon(), record.folder) as link:
        found = await until_shipped(engine, record)

    assert [one["seq"] for one in found] == [6, 7]
    assert link.state.epoch == 1


async def test_a_busy_host_ships_all_again_when_the_engine_is_emptied_between_two_batches(
    redis: RedisServer, engine: Engine, record: WrittenRecord
) -> None:
    record.write(5)
    async with linked(settings_of(redis.url), MemoryDaemon(), record.folder) as link:
        await until_shipped(engine, record)
        redis.command("FLUSHALL")
        record.write(2)
        await until_shipped(engine, record)
        await until(lambda: link.state.shipped == 7)
        record.write(1)
        found = await until_shipped(engine, record)

    assert [one["seq"] for one in found] == list(range(1, 9))
    assert any("lost records" in text and "up to 5" in text for text in link.state.make_report(0.0, 0.0).findings)
    assert link.state.epoch == 1
