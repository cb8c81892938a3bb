"""Connections to Redis: slow is not silent, and endless is not an answer."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from hooklatch.fleet.engine import redis_connections
from hooklatch.fleet.engine.engine import POLICY, Engine, EngineError, EngineRefusedError, RecordBatch, UnreachableError
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import MAX_BUNDLE
from support.daemons import nothing_left
from support.redis_server import RedisServer
from support.scripted_redis import GREETED, answering, slow_way


@pytest.mark.slow
async def test_a_slow_way_is_not_taken_for_silence(shared_redis: RedisServer, tmp_path: Path) -> None:
    """Slow: a bundle goes and comes in many parts, each a little late, and in all longer than the engine's patience."""
    data = os.urandom(3 * 2**20)
    digest = os.urandom(32).hex()
    async with (
        slow_way(shared_redis.socket, tmp_path, part=65536, pause=0.02) as url,
        open_engine(url, "slow", timeout=0.6) as engine,
    ):
        await engine.put_bundle(digest, data)

        assert await engine.bundle(digest) == data


async def test_a_process_that_had_no_time_itself_does_not_blame_the_server(shared_redis: RedisServer) -> None:
    async def starve() -> None:
        time.sleep(0.5)  # noqa: ASYNC251  (as a machine with too much to do would)

    async with open_engine(shared_redis.url, "starved", timeout=0.3) as engine, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(starve)
            assert await engine.bundle("a" * 64) is None
            nursery.start_soon(starve)
            assert await engine.wait({POLICY: 0}, 0.1) == set()


SENT = b"x" * 65536


async def test_an_answer_without_end_is_given_up(tmp_path: Path) -> None:
    sent = 0

    def parts() -> bytes:
        nonlocal sent
        sent += len(SENT)
        return SENT

    with nothing_left():
        async with (
            answering(tmp_path, *GREETED, b"$999999999999\r\n", for_ever=parts) as url,
            open_engine(url, "fleet") as engine,
        ):
            with pytest.raises(EngineRefusedError, match="was closed during GET: it sends more than an answer has"):
                await engine.bundle("a" * 64)

    assert sent < 2 * MAX_BUNDLE


PUSH = b">2\r\n$7\r\nmessage\r\n$4\r\nnoon\r\n"


@pytest.mark.parametrize("unasked", [PUSH, b"+OK\r\n", b"_\r\n", PUSH * 3000])
async def test_what_nobody_asked_for_ends_the_connection_with_the_next_answer(tmp_path: Path, unasked: bytes) -> None:
    with nothing_left():
        async with (
            answering(tmp_path, *GREETED, b"$-1\r\n" + unasked) as url,
            open_engine(url, "fleet") as engine,
        ):
            with pytest.raises(EngineRefusedError, match="was closed during GET: it sends messages that nobody asked"):
                await engine.bundle("a" * 64)


async def test_what_comes_while_nothing_is_asked_ends_the_connection(tmp_path: Path) -> None:
    sent = 0

    def parts() -> bytes:
        nonlocal sent
        sent += len(PUSH)
        return PUSH

    async with (
        answering(tmp_path, *GREETED, b"$-1\r\n", for_ever=parts) as url,
        open_engine(url, "fleet") as engine,
    ):
        with suppress(EngineRefusedError):
            await engine.bundle("a" * 64)
        with trio.fail_after(10):
            await trio.testing.wait_all_tasks_blocked(0.05)  # its server sends until its connection is closed

    assert sent < 2**20


async def test_an_answer_that_trickles_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_connections, "LONGEST", 0.2)
    async with (
        answering(tmp_path, *GREETED, b"$999999999999\r\n", for_ever=lambda: b"x") as url,
        open_engine(url, "fleet", timeout=0.1) as engine,
    ):
        with pytest.raises(UnreachableError, match="has not answered GET"):
            await engine.bundle("a" * 64)


METHODS: list[Callable[[Engine], Awaitable[object]]] = [
    lambda engine: engine.versions(0),
    lambda engine: engine.newest_version(),
    lambda engine: engine.commit(1, b""),
    lambda engine: engine.bundle("a" * 64),
    lambda engine: engine.put_bundle("a" * 64, b""),
    lambda engine: engine.append("host", 1, RecordBatch(1, 1, b"")),
    lambda engine: engine.last_batch("host"),
    lambda engine: engine.batches("host", 1, 0),
    lambda engine: engine.batches_before("host", 1, 10),
    lambda engine: engine.epochs("host"),
    lambda engine: engine.log_facts("host", 1),
    lambda engine: engine.notes("host"),
    lambda engine: engine.trim("host", 1, 1, b""),
    lambda engine: engine.report("host", b""),
    lambda engine: listed(engine.reports()),
    lambda engine: listed(engine.logs()),
    lambda engine: engine.facts(),
]
ODD = r"""
$-1|*-1|:1|:-1|+OK|$1|$1/x|*0|%0|~0|_|#t|,1.5|*1/*0|*1/*2/$1/x/*0|*1/*2/$3/1-0/*1/$1/d|*1/*2/:1/:2|*1/*2/$3/9-9/_
*1/*2/$3/1-0/*2/$1/d/:1|%1/$1/k/:1|%1/$1/k/*1/:1|%1/:1/:1|~1/:1|*2/$1/0/:1|*2/:0/*1/:1|*2/$1/0/*1/_|*1/:1|%1/$1/1/:1
-ERR|-|-MOVED|-MOVED x|-ASK 1 a:b|-NOPERM|>1/:1|!5/ERR x|(99999999999999999999|=5/bin:x|*99999999|$x|x|
"""


async def listed(items: object) -> list[object]:
    return [item async for item in items]  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_no_answer_of_a_hostile_server_is_more_than_an_error(tmp_path: Path) -> None:
    """Slow: every method meets every odd answer, on a connection of its own."""
    surprises: list[tuple[int, bytes, BaseException]] = []
    for number, method in enumerate(METHODS):
        for text in ODD.replace("\n", "|").split("|"):
            odd = f"{text}/".replace("/", "\r\n").encode()
            async with answering(tmp_path, *GREETED, odd * 3, odd, odd) as url:
                try:
                    async with open_engine(url, "fleet", timeout=0.05) as engine:
                        with trio.fail_after(10):
                            await method(engine)
                except EngineError:
                    pass
                except BaseException as error:
                    surprises.append((number, odd, error))

    assert not surprises, "\n".join(map(repr, surprises))
