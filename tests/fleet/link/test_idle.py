"""What a host on which nothing happens asks of its engine, and that nothing comes late because of it.

Slow: each test has an engine of its own.  Times are scaled down, and what is counted is set against the time that
passed: a slow machine only asks less.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from hooklatch.fleet.engine import redis_connections
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.link import link, policy, reporting
from hooklatch.fleet.link.link import Link
from hooklatch.fleet.manifests import START
from support.daemons import nothing_left
from support.link_parts import (
    FLEET,
    MemoryDaemon,
    Publisher,
    RunLink,
    WrittenRecord,
    settings_of,
    shipped_records,
    until,
    until_shipped,
)
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]

MINUTE = 0.6  # seconds
A_MINUTE_COMMANDS = 5  # 6 are 0.1 a second, and what a connection or a change needs comes on top
A_MINUTE_BYTES = 20_000_000 / 24 / 60
PATIENCE = policy.BLOCK / 2  # seconds: a wait at the engine has not ended by then


def facts(redis: RedisServer) -> dict[str, int]:
    """Return the engine's counters; those of this question are in them."""
    text = b"".join(redis.command("INFO", section) for section in ("stats", "clients")).decode()
    rows = (row.partition(":") for row in text.splitlines())
    return {name: int(value) for name, _, value in rows if value.isdecimal()}


async def idle_link(redis: RedisServer, daemon: MemoryDaemon, record: WrittenRecord) -> Link:
    settings = settings_of(redis.url)
    return Link(settings, lambda: open_engine(settings.url, FLEET), daemon, str(record.folder), report_every=MINUTE)


async def test_an_idle_host_has_one_connection_and_asks_little(
    redis: RedisServer,
    publisher: Publisher,
    daemon: MemoryDaemon,
    record: WrittenRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy, "BLOCK", MINUTE)
    monkeypatch.setattr(redis_connections, "IDLE", MINUTE)
    record.write(5)
    async with open_engine(redis.url, FLEET) as engine:
        await publisher.push(engine, "one")
    with nothing_left():
        async with trio.open_nursery() as nursery:
            nursery.start_soon((await idle_link(redis, daemon, record)).run)
            await until(lambda: daemon.applied is not None and daemon.shipped_seq[-1:] == [5])
            await until(lambda: facts(redis)["connected_clients"] == 2)  # one of them asks here
            before, began = facts(redis), trio.current_time()
            await trio.sleep(8 * MINUTE)
            after, minutes = facts(redis), (trio.current_time() - began) / MINUTE
            nursery.cancel_scope.cancel()

    spent = {name: after[name] - count for name, count in before.items()}
    asked_here = 2  # by `facts`
    assert after["connected_clients"] == 2
    assert 0 < spent["total_commands_processed"] - asked_here <= (minutes + 2) * A_MINUTE_COMMANDS
    assert spent["total_connections_received"] == asked_here
    assert spent["total_net_input_bytes"] + spent["total_net_output_bytes"] - 20_000 <= minutes * A_MINUTE_BYTES


async def test_a_push_is_active_long_before_the_wait_would_end(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    await publisher.push(engine, "one")
    async with run_link():
        await until(lambda: daemon.contacts > 0)
        for version in (2, 3):
            await publisher.push(engine, f"number {version}")
            with trio.fail_after(PATIENCE):
                await until(lambda version=version: daemon.applied is not None and daemon.applied.version == version)


async def test_a_daemon_that_restarts_or_was_reset_is_followed_long_before_the_wait_would_end(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    await publisher.push(engine, "one")
    async with run_link():
        await until(lambda: daemon.contacts > 0)
        with trio.fail_after(PATIENCE):
            contacts = daemon.contacts
            daemon.restart()
            await until(lambda: daemon.contacts > contacts)
            contacts = daemon.contacts
            daemon.head = START
            await until(lambda: daemon.contacts > contacts and daemon.head.version == 1)


async def test_a_link_ends_at_once_though_its_question_is_held(
    redis: RedisServer, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    with trio.fail_after(PATIENCE):
        with nothing_left():
            async with run_link():
                await until(lambda: daemon.contacts > 0)
        await until(lambda: facts(redis)["connected_clients"] == 1)


async def test_contact_is_never_older_than_the_host_may_be_stale(
    redis: RedisServer, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    async with run_link(max_staleness=0.4):
        await until(lambda: daemon.contacts > 0)
        contacts, began = daemon.contacts, trio.current_time()
        await until(lambda: daemon.contacts >= contacts + 4)

        assert trio.current_time() - began < policy.BLOCK / 10, "a wait ends by max_staleness"


async def test_a_change_is_reported_though_a_question_is_held(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, record: WrittenRecord, tmp_path: Path,
    redis: RedisServer,
) -> None:  # fmt: skip
    async def newest() -> bytes:
        return b"".join([report.data async for report in engine.reports()])

    settings = settings_of(redis.url)
    own = link.Link(settings, lambda: open_engine(settings.url, FLEET), daemon, str(record.folder))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(own.run)
        await until(lambda: daemon.contacts > 0)
        daemon.is_there = False
        with trio.fail_after(PATIENCE):
            while b'"health":"unreachable"' not in await newest():  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()

    assert f'"every_s":{reporting.EVERY}'.encode() in await newest()


async def test_records_that_keep_coming_are_gathered_and_a_denial_is_not(
    engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    async with run_link():
        for _ in range(60):
            record.write(1, gate=True, verdict="pass")
            await trio.sleep(0.05)
        record.write(1, gate=True, verdict="deny")
        with trio.fail_after(6):
            found = await until_shipped(engine, record)

    assert [one["seq"] for one in found] == list(range(1, 62))
    assert len(await engine.batches("h1", 1, 0, limit=1000)) <= 6
    assert len(await shipped_records(engine)) == 61
