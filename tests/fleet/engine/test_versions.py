"""What every engine must do with versions and bundles; the suite runs for each engine in tests/support/engines.py."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from hooklatch.fleet.engine.engine import BehindError, ConflictError, Engine, EngineRefusedError
from hooklatch.fleet.engine.opening import open_engine
from support.daemons import nothing_left
from support.engines import Store, versions_after

Opens = Callable[[], AbstractAsyncContextManager[Engine]]
LONG = 3600.0  # seconds that nobody waits


async def commit_all(engine: Engine, *manifests: bytes) -> None:
    for version, manifest in enumerate(manifests, start=1 + await engine.newest_version()):
        await engine.commit(version, manifest)


async def test_an_empty_fleet_has_no_version(opens: Opens) -> None:
    with nothing_left():
        async with opens() as engine:
            assert await engine.newest_version() == 0
            assert await engine.versions(0) == []
            assert await versions_after(engine, 0, 0.01) == []


async def test_versions_come_in_order_after_a_number(opens: Opens) -> None:
    manifests = [b"", b"one\r\n", bytes(range(256)), *(b"%d" % number for number in range(4, 13))]
    async with opens() as engine:
        await commit_all(engine, *manifests)

        assert await engine.versions(0) == list(enumerate(manifests, start=1))
        assert await engine.versions(10) == [(11, b"11"), (12, b"12")]
        assert await engine.versions(12) == []
        assert await engine.newest_version() == 12


async def test_a_limit_gives_the_first_ones(opens: Opens) -> None:
    async with opens() as engine:
        await commit_all(engine, *(b"%d" % number for number in range(1, 31)))

        assert [number for number, _ in await engine.versions(3, limit=20)] == list(range(4, 24))
        assert [number for number, _ in await engine.versions(23, limit=20)] == list(range(24, 31))


@pytest.mark.parametrize("version", [0, 1, 2, 4, 5, 100])
async def test_a_version_that_is_not_the_next_is_refused(opens: Opens, version: int) -> None:
    async with opens() as engine:
        await commit_all(engine, b"first", b"second")

        with pytest.raises(ConflictError):
            await engine.commit(version, b"other")

        assert await engine.versions(0) == [(1, b"first"), (2, b"second")]


async def test_of_many_publishers_of_a_version_one_wins_and_the_others_are_told(opens: Opens) -> None:
    outcomes: dict[bytes, bool] = {}

    async def publish(name: bytes, ready: trio.Event) -> None:
        async with opens() as engine:
            await engine.newest_version()
            await ready.wait()
            try:
                await engine.commit(1, name)
                outcomes[name] = True
            except ConflictError:
                outcomes[name] = False

    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        for number in range(16):
            nursery.start_soon(publish, b"%d" % number, ready)
        ready.set()

    async with opens() as engine:
        [winner] = [name for name, has_won in outcomes.items() if has_won]
        assert await engine.versions(0) == [(1, winner)]
        assert len(outcomes) == 16


async def test_publishers_that_try_again_lose_nothing_of_each_other(opens: Opens) -> None:
    async def publish(name: str) -> None:
        async with opens() as engine:
            for number in range(8):
                while True:
                    try:
                        await engine.commit(1 + await engine.newest_version(), f"{name}{number}".encode())
                        break
                    except ConflictError:
                        continue

    async with trio.open_nursery() as nursery:
        for name in "abcdef":
            nursery.start_soon(publish, name)

    async with opens() as engine:
        versions = await engine.versions(0)
        assert [number for number, _ in versions] == list(range(1, 49))
        for name in "abcdef":
            own = [text.decode() for _, text in versions if text.startswith(name.encode())]
            assert own == [f"{name}{number}" for number in range(8)]


async def test_key_sets_that_were_read_and_are_gone_are_no_empty_answer(opens: Opens) -> None:
    async with opens() as engine:
        await engine.put_key_set(1, b"one")
        await engine.put_key_set(2, b"two")

        assert (await engine.key_sets(0), await engine.key_sets(1)) == ([b"one", b"two"], [b"two"])
        assert await engine.key_sets(2) == []
        with pytest.raises(BehindError, match="has no key set 3"):
            await engine.key_sets(3)


async def test_who_waits_is_told_of_a_new_version(opens: Opens) -> None:
    found: list[tuple[int, bytes]] = []

    async def wait(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with opens() as engine:
            await versions_after(engine, 1, 0.01)  # so it is connected for waiting
            task_status.started()
            found.extend(await versions_after(engine, 1, LONG))

    async with opens() as engine:
        await engine.commit(1, b"first")
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                await nursery.start(wait)

            await engine.commit(2, b"second")

    assert found == [(2, b"second")] * 8


async def test_an_engine_answers_while_some_wait(opens: Opens) -> None:
    found: list[tuple[int, bytes]] = []

    async def wait(engine: Engine) -> None:
        found.extend(await versions_after(engine, 0, LONG))

    async with opens() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(wait, engine)
        nursery.start_soon(wait, engine)
        await engine.put_bundle("a" * 64, b"bundle")

        assert await engine.bundle("a" * 64) == b"bundle"
        await engine.commit(1, b"first")

    assert found == [(1, b"first")] * 2


async def test_waiting_that_is_cancelled_leaves_a_working_engine(opens: Opens) -> None:
    with nothing_left():
        async with opens() as engine:
            for _ in range(5):
                with trio.move_on_after(0.01):
                    await versions_after(engine, 0, LONG)
            await engine.commit(1, b"first")

            assert await versions_after(engine, 0, LONG) == [(1, b"first")]


@pytest.mark.slow
async def test_cancelling_at_any_moment_leaves_a_working_engine_and_whole_versions(opens: Opens) -> None:
    """Slow: it cancels a hundred times, each a little later."""
    async with opens() as engine:
        for turn in range(100):
            with trio.move_on_after(turn * 0.00005):
                await engine.commit(1 + await engine.newest_version(), b"%d" % turn)
        newest = await engine.newest_version()
        versions = await engine.versions(0, limit=1000)

    assert [number for number, _ in versions] == list(range(1, newest + 1))
    told = [int(manifest) for _, manifest in versions]
    assert told == sorted(set(told))


async def test_an_error_of_the_block_comes_out_as_it_is(opens: Opens) -> None:
    with nothing_left(), pytest.raises(KeyError, match="mine"):
        async with opens():
            raise KeyError("mine")


async def test_a_bundle_is_kept_under_its_digest(opens: Opens) -> None:
    data = bytes(range(256)) * 4096 * 4
    digest = hashlib.sha256(data).hexdigest()
    async with opens() as engine:
        assert await engine.bundle(digest) is None

        await engine.put_bundle(digest, data)
        await engine.put_bundle(digest, data)

        assert await engine.bundle(digest) == data
        assert await engine.bundle("b" * 64) is None


async def test_a_bundle_is_never_replaced(opens: Opens) -> None:
    async with opens() as engine:
        await engine.put_bundle("c" * 64, b"first")

        with pytest.raises(EngineRefusedError, match="holds other bytes"):
            await engine.put_bundle("c" * 64, b"second")

        assert await engine.bundle("c" * 64) == b"first"


async def test_fleets_of_one_engine_do_not_see_each_other(shared_store: Store) -> None:
    async with open_engine(shared_store.url, "here.1") as here, open_engine(shared_store.url, "here.10") as there:
        await here.commit(1, b"here")
        await there.put_bundle("d" * 64, b"there")
        await there.report("host", b"there")

        assert await there.newest_version() == 0
        assert await here.bundle("d" * 64) is None
        assert [report async for report in here.reports()] == []


@pytest.mark.parametrize("name", ["", "a:b", "a*", "a b", "-a", "a/b", "é", "a" * 64, "a\n"])
async def test_what_is_no_name_is_no_fleet_and_no_host(shared_store: Store, name: str) -> None:
    with pytest.raises(EngineRefusedError, match="is not a name of a fleet"):
        async with open_engine(shared_store.url, name):
            pass
    async with open_engine(shared_store.url, "fleet") as engine:
        with pytest.raises(EngineRefusedError, match="is not a name of a host"):
            await engine.report(name, b"")
        with pytest.raises(EngineRefusedError, match="is not a name of a host"):
            await engine.epochs(name)
