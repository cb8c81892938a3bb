"""What an engine must do when its server dies, falls silent or comes back with less than it had."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest
import trio
import trio.testing

from hooklatch.fleet.engine import redis
from hooklatch.fleet.engine.engine import (
    POLICY,
    BehindError,
    Engine,
    EngineError,
    LostError,
    RecordBatch,
    UnreachableError,
)
from hooklatch.fleet.engine.opening import open_engine
from support.daemons import nothing_left
from support.engines import Store, versions_after

LONG = 3600.0  # seconds that nobody waits


async def commit_all(engine: Engine, *manifests: bytes) -> None:
    for version, manifest in enumerate(manifests, start=1 + await engine.newest_version()):
        await engine.commit(version, manifest)


async def raises(error: type[EngineError], ask: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(error):
        await ask()


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(store: Store) -> None:
    """Slow: kills and starts a server several times, each time while it is written to."""
    versions, records = 0, 0

    async def publish(engine: Engine) -> None:
        nonlocal versions
        with suppress(UnreachableError):
            while True:
                await engine.commit(versions + 1, b"%d" % (versions + 1))
                versions += 1

    async def ship(engine: Engine) -> None:
        nonlocal records
        with suppress(UnreachableError):
            while True:
                await engine.append("host", 1, RecordBatch(records + 1, records + 10, b"%d" % records))
                records += 10

    for turn in range(3):
        async with open_engine(store.url, "fleet") as engine:
            versions = await engine.newest_version()
            records = last[1].last if (last := await engine.last_batch("host")) else 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish, engine)
                nursery.start_soon(ship, engine)
                read, enough = versions, versions + 5 * turn
                async with open_engine(store.url, "fleet") as reader:
                    while read <= enough:
                        read = (await versions_after(reader, read, LONG))[-1][0]
                await trio.to_thread.run_sync(store.kill)
        store.start()
        async with open_engine(store.url, "fleet") as engine:
            numbers = [number for number, _ in await engine.versions(0, limit=100_000)]
            batches = await engine.batches("host", 1, 0, limit=100_000)
            assert len(numbers) in (versions, versions + 1)  # the last was perhaps written and not acknowledged
            assert numbers == list(range(1, len(numbers) + 1))
            assert [batch.last for batch in batches] == list(range(10, 10 * len(batches) + 1, 10))
            assert batches[-1].last in (records, records + 10)


async def test_who_waits_learns_that_the_server_has_gone_and_goes_on_when_it_is_back(store: Store) -> None:
    with nothing_left():
        async with open_engine(store.url, "fleet") as engine:
            await engine.commit(1, b"first")
            assert await versions_after(engine, 1, 0.01) == []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(raises, UnreachableError, lambda: versions_after(engine, 1, LONG))
                await trio.testing.wait_all_tasks_blocked(0.01)
                await trio.to_thread.run_sync(store.kill)
            await raises(UnreachableError, lambda: engine.versions(1))
            await raises(UnreachableError, lambda: engine.commit(2, b"second"))
            store.start()

            await engine.commit(2, b"second")

            assert await versions_after(engine, 1, LONG) == [(2, b"second")]
            store.kill()
    store.start()


async def test_who_waits_learns_that_the_server_answers_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's kernel answers for it, so only the end of the wait and of its grace can show that."""
    monkeypatch.setattr(redis, "GRACE", 0.3)
    async with open_engine(store.url, "fleet") as engine:
        assert await versions_after(engine, 0, 0.01) == []
        store.pause()

        with pytest.raises(UnreachableError, match="has not answered XREAD hooklatch:fleet:policy"):
            await engine.wait({POLICY: 0}, 0.2)

        store.resume()
        await engine.commit(1, b"first")
        assert await versions_after(engine, 0, LONG) == [(1, b"first")]


async def test_whoever_asks_a_silent_server_is_told_in_time(store: Store) -> None:
    async with AsyncExitStack() as stack:
        engine = None
        while engine is None:  # a server that runs may be as slow on a busy machine
            with suppress(UnreachableError):
                engine = await stack.enter_async_context(open_engine(store.url, "fleet", timeout=0.05))
                await engine.last_batch("host")
        store.pause()

        with pytest.raises(UnreachableError, match="has not answered"):
            await engine.append("host", 1, RecordBatch(1, 1, b"first"))
        with pytest.raises(UnreachableError, match="has sent nothing"):
            await engine.append("host", 1, RecordBatch(1, 1, b"first"))
        store.resume()
    async with open_engine(store.url, "fleet") as engine:
        last = await engine.last_batch("host")
        assert last is None or last[1].data == b"first"  # it may have read what was sent before it was given up


async def test_silence_breaks_no_cancelling(store: Store) -> None:
    async with open_engine(store.url, "fleet") as engine:
        store.pause()
        with trio.move_on_after(0.02) as asking:
            await engine.newest_version()
        with trio.move_on_after(0.02) as connecting:
            await engine.newest_version()
        store.resume()

    assert asking.cancelled_caught
    assert connecting.cancelled_caught


async def test_an_engine_that_lost_everything_is_behind_and_not_without_news(store: Store) -> None:
    async with open_engine(store.url, "fleet") as engine:
        await commit_all(engine, b"1", b"2", b"3")
        store.lose_everything()

        with pytest.raises(BehindError, match="has 0 versions of the policy, and version 3 was read from it"):
            await engine.versions(3)


@pytest.mark.slow
async def test_an_engine_from_an_older_copy_is_behind(store: Store) -> None:
    """Slow: starts a server again."""
    async with open_engine(store.url, "fleet") as engine:
        await commit_all(engine, b"1", b"2")
        restore = store.back_up()
        await commit_all(engine, b"3")
    restore()
    async with open_engine(store.url, "fleet") as engine:
        with pytest.raises(BehindError):
            await engine.versions(3)
        assert await engine.versions(2) == []  # who had not read it cannot know


@pytest.mark.slow
async def test_no_batch_follows_on_what_an_older_copy_has_lost(store: Store) -> None:
    """Slow: starts a server again.  The connection would be made anew by itself, and the log would have a hole."""
    async with open_engine(store.url, "fleet") as engine:
        await engine.append("host", 1, RecordBatch(1, 1, b"first"))
        restore = store.back_up()
        await engine.append("host", 1, RecordBatch(2, 2, b"second"))
        await trio.to_thread.run_sync(restore)  # and the connection's end is seen meanwhile

        with pytest.raises(UnreachableError, match="the end of the log of host has to be read again"):
            await engine.append("host", 1, RecordBatch(3, 3, b"third"))

        found = await engine.last_batch("host")
        assert found is not None
        assert found[1].last == 1
        await engine.append("host", 1, RecordBatch(2, 2, b"second"))
        assert [batch.last for batch in await engine.batches("host", 1, 0)] == [1, 2]


async def test_no_batch_follows_on_a_log_that_is_gone(store: Store) -> None:
    """It would be taken, and what the log had would be a hole."""
    async with open_engine(store.url, "fleet") as engine:
        for last in (1, 2):
            await engine.append("host", 1, RecordBatch(last, last, b"data"))
        for _ in range(2):
            store.lose_everything()

            with pytest.raises(LostError, match="has lost hooklatch:fleet:log:host:1"):
                await engine.append("host", 1, RecordBatch(3, 3, b"third"))

            assert await engine.last_batch("host") is None
            await engine.append("host", 1, RecordBatch(1, 2, b"again"))
            assert await engine.last_batch("host") is not None
        assert await engine.epochs("host") == [1]
