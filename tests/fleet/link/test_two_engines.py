"""A fleet with its versions in one engine, and its logs and reports in another: neither waits for the other.

Slow: each test has engines of its own, which it kills, fills or halts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hooklatch.fleet.engine.engine import Engine, EngineRefusedError
from hooklatch.fleet.engine.opening import open_engine, open_engines
from support.link_parts import FLEET, HOST, MemoryDaemon, Publisher, RunLink, WrittenRecord, until, until_shipped
from support.redis_server import RedisServer, needs_redis, redis_server

pytestmark = [pytest.mark.slow, needs_redis]


@pytest.fixture
def other() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


async def test_logs_and_reports_go_to_the_engine_that_is_for_them(
    redis: RedisServer, other: RedisServer, engine: Engine, publisher: Publisher, daemon: MemoryDaemon,
    record: WrittenRecord, run_link: RunLink,
) -> None:  # fmt: skip
    record.write(5)
    await publisher.push(engine, "one")
    async with run_link(log_url=other.url), open_engine(other.url, FLEET) as logs:
        await until(lambda: daemon.applied is not None)
        await until_shipped(logs, record)
        await until(lambda: daemon.shipped_seq[-1:] == [5])
        async with open_engines(redis.url, other.url, FLEET) as both:
            assert await both.newest_version() == 1
            assert await both.epochs(HOST) == [1]
            assert [report.host async for report in both.reports()] == [HOST]

    for key, where, elsewhere in (
        ("policy", redis, other),
        (f"log:{HOST}:1", other, redis),
        (f"host:{HOST}", other, redis),
    ):
        assert where.command("EXISTS", f"hooklatch:{FLEET}:{key}") == b":1\r\n"
        assert elsewhere.command("EXISTS", f"hooklatch:{FLEET}:{key}") == b":0\r\n"


async def test_an_engine_of_logs_that_is_away_is_told_to_the_daemon(
    engine: Engine, other: RedisServer, publisher: Publisher, daemon: MemoryDaemon, record: WrittenRecord,
    run_link: RunLink,
) -> None:  # fmt: skip
    await publisher.push(engine, "one")
    async with run_link(log_url=other.url):
        await until(lambda: daemon.applied is not None)
        other.kill()
        record.write(5)
        await until(lambda: daemon.engine is not None and daemon.engine.kind == "away")


async def test_a_policy_arrives_whatever_becomes_of_the_engine_of_logs(
    redis: RedisServer, other: RedisServer, publisher: Publisher, daemon: MemoryDaemon, record: WrittenRecord,
    run_link: RunLink,
) -> None:  # fmt: skip
    async with run_link(log_url=other.url) as link, open_engine(redis.url, FLEET) as engine:
        await until(lambda: daemon.contacts > 0)
        other.command("CONFIG", "SET", "maxmemory", "1")
        record.write(5)
        await until(lambda: "shipping" in link.state.faults)
        await publisher.push(engine, "one")
        await until(lambda: daemon.applied is not None and daemon.applied.version == 1)
        other.kill()
        await until(lambda: "engine of logs" in link.state.faults)
        await publisher.push(engine, "two")
        await until(lambda: daemon.applied is not None and daemon.applied.version == 2)
        assert "engine" not in link.state.faults
        other.start()
        async with open_engine(other.url, FLEET) as logs:
            await until_shipped(logs, record)


async def test_records_leave_though_the_engine_of_versions_is_away(
    redis: RedisServer, other: RedisServer, daemon: MemoryDaemon, record: WrittenRecord, run_link: RunLink
) -> None:
    redis.kill()
    record.write(5)
    async with run_link(log_url=other.url) as link, open_engine(other.url, FLEET) as logs:
        await until_shipped(logs, record)

        assert "engine" in link.state.faults
    redis.start()


async def test_a_full_engine_of_logs_stops_no_push(
    redis: RedisServer, other: RedisServer, publisher: Publisher
) -> None:
    """A host can fill it with its own password, beside any link."""
    other.command("CONFIG", "SET", "maxmemory", "1")
    async with open_engines(redis.url, other.url, FLEET) as both:
        with pytest.raises(EngineRefusedError, match="its memory is full"):
            await both.report(HOST, b"report")

        assert await publisher.push(both, "one") == 1
