"""Faults of an engine that a link finds: each is told to the daemon, and a history that begins anew is offered.

Slow: each test has an engine of its own.
"""

from __future__ import annotations

from itertools import groupby

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from support.link_parts import FLEET, MemoryDaemon, Publisher, RunLink, until
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]


async def test_a_history_that_gives_up_what_was_read_is_offered_whole_and_another_is_not(
    redis: RedisServer, engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    anew = Publisher(publisher.key)
    for text in ("one", "two"):
        await publisher.push(engine, text)
    lost = publisher.head
    async with run_link(max_staleness=0.4) as link:
        await until(lambda: daemon.applied is not None and daemon.applied.version == 2)
        redis.command("FLUSHALL")
        await until(lambda: daemon.engine is not None and daemon.engine.kind == "behind")
        for text in ("another one", "another two", "another three"):
            await anew.push(engine, text)
        await until(lambda: daemon.engine is not None and daemon.engine.kind == "rewritten")
        texts = [fault.text for fault in daemon.engine_faults if fault is not None]
        assert "hooklatch fleet history" in texts[-1]
        assert daemon.refusals == []
        await anew.push(engine, "anew", gives_up=lost)
        await until(lambda: daemon.applied is not None and daemon.applied.version == 4)
        await until(lambda: daemon.engine is None and "policy" not in link.state.faults)

    # One kind may be told twice: the text says what is missing, and a look may fall between two versions of the push.
    kinds = [fault.kind if fault is not None else None for fault in daemon.engine_faults]
    assert [kind for kind, _ in groupby(kinds)] == ["behind", "rewritten", None]


async def test_an_engine_that_is_away_or_refuses_is_told_to_the_daemon_also_when_it_never_was_there(
    redis: RedisServer, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    redis.kill()
    async with run_link():
        await until(lambda: daemon.engine is not None)
        assert daemon.engine is not None
        assert daemon.engine.kind == "away"
        daemon.engine = None
        daemon.restart()  # another one, which has to be told too
        await until(lambda: daemon.engine is not None)
        redis.start()
        async with open_engine(redis.url, FLEET) as engine:
            await until(lambda: daemon.engine is not None and daemon.engine.kind == "empty")
            await publisher.push(engine, "one")
            await until(lambda: daemon.engine is None)


async def test_an_engine_that_has_lost_key_sets_is_behind(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    await publisher.push(engine, "one")
    daemon.key_set = 2
    async with run_link(max_staleness=0.4):
        await until(lambda: daemon.engine is not None and "hooklatch fleet restore" in daemon.engine.text)
        assert daemon.engine is not None
        assert daemon.engine.kind == "behind"
        await engine.put_key_set(1, b"one")
        await engine.put_key_set(2, b"two")
        await until(lambda: daemon.engine is None)
