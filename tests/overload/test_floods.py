"""More than can be served: fair shares, bounded queues, refusals at once, and afterwards all is as before."""

from __future__ import annotations

import resource
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest
import trio

from hooklatch.core.protocol import MAX_IN_FLIGHT
from hooklatch.processes.pool import Pool
from hooklatch.service.registry.admission import MAX_OF_SESSION
from hooklatch.service.transport.connection import MAX_BUFFERED
from overload.floods import Answers, fires, flooded_daemon, join, requests
from support.daemons import Client, Daemon
from support.pools import is_busy, until

pytestmark = pytest.mark.slow  # floods are many requests

FLOODERS = 5
QUIET = 8


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with flooded_daemon(tmp_path) as daemon:
        yield daemon


def pool_of(daemon: Daemon) -> Pool:
    (pool,) = daemon.parts.sources.pools.values()
    return pool


async def assert_it_is_as_before(daemon: Daemon) -> None:
    """The next fire is answered by policy, no worker is lost, nothing waits."""
    pool = pool_of(daemon)
    async with daemon.session() as client:
        assert (await client.fire_tool("Bash"))["reason"] == "no"
    await until(lambda: not is_busy(pool))
    status = pool.status()
    assert (status["lost"], status["waiting"], status["busy"]) == (0, 0, 0)
    assert all(not session.flow.in_flight for session in daemon.parts.sessions)


async def hold(daemon: Daemon, stack: AsyncExitStack, go: Path, *, sessions: int) -> list[Client]:
    """Have sessions offer 256 gates each, of which none ends before `go` is there; give their connections."""
    async with daemon.session() as earlier:
        await earlier.fire_tool("Bash")  # so that no flooding session is taken to be alone
    clients: list[Client] = []
    per_session = MAX_OF_SESSION // MAX_IN_FLIGHT
    for _ in range(sessions):
        first = await stack.enter_async_context(daemon.session())
        clients += [first, *[await join(daemon, first) for _ in range(per_session - 1)]]
    for client in clients:
        stack.push_async_callback(client.aclose)
        await client.send_raw(fires(100, MAX_IN_FLIGHT, "Slow", go=str(go)))
    pool, statistics, offered = pool_of(daemon), daemon.parts.statistics, sessions * MAX_OF_SESSION
    await until(lambda: pool.status()["waiting"] + pool.status()["busy"] + statistics.dropped["overload"] == offered)
    return clients


async def test_floods_are_refused_and_every_quiet_session_is_served(daemon: Daemon) -> None:
    """Slow: 1,280 gates that are held."""
    go, answers, quiet_answers, pool = daemon.folder / "go", Answers(), Answers(), pool_of(daemon)
    async with AsyncExitStack() as stack:
        clients = await hold(daemon, stack, go, sessions=FLOODERS)
        assert pool.status()["waiting"] == pool.limits.queue
        waiting = [pool._queue._gates.waiting(session.id) for session in daemon.parts.sessions if session.connections]
        quiet = [await stack.enter_async_context(daemon.session()) for _ in range(QUIET)]
        for client in quiet:
            await client.send_raw(fires(100, 3, "Bash"))
        await until(lambda: sum(session.flow.in_flight == 3 for session in daemon.parts.sessions) == QUIET)

        go.touch()
        async with trio.open_nursery() as nursery:
            for client in quiet:
                nursery.start_soon(quiet_answers.read, client, 3)
            for client in clients:
                nursery.start_soon(answers.read, client, MAX_IN_FLIGHT)
        async with daemon.administrator() as admin:
            status = await admin.call("status")
        await assert_it_is_as_before(daemon)

    offered = FLOODERS * MAX_OF_SESSION + QUIET * 3
    assert max(waiting) - min(waiting) <= 2
    assert quiet_answers.causes == {"policy": QUIET * 3}
    assert set(answers.causes) == {"policy", "overload"}
    assert offered - pool.limits.queue - 3 <= answers.causes["overload"] <= offered - pool.limits.queue
    assert answers.times == dict.fromkeys(range(100, 100 + MAX_IN_FLIGHT), len(clients))
    assert status["dropped"]["overload"] == status["failures"]["overload"] == answers.causes["overload"]


async def test_all_connections_of_a_session_together_have_a_limit(daemon: Daemon) -> None:
    go, answers = daemon.folder / "go", Answers()
    async with daemon.session() as first, AsyncExitStack() as stack:
        clients = [first]
        for _ in range(MAX_OF_SESSION // MAX_IN_FLIGHT):
            clients.append(await join(daemon, first))
            stack.push_async_callback(clients[-1].aclose)
        for client in clients[:-1]:
            await client.send_raw(fires(100, MAX_IN_FLIGHT, "Slow", go=str(go)))
        (session,) = daemon.parts.sessions
        await until(lambda: session.flow.in_flight == MAX_OF_SESSION)

        await clients[-1].send_raw(fires(100, 1, "Bash"))
        await answers.read(clients[-1], 1)
        assert answers.causes == {"overload": 1}
        assert await clients[-1].call("ping") == {}

        go.touch()
        for client in clients[:-1]:
            await answers.read(client, MAX_IN_FLIGHT)
        await assert_it_is_as_before(daemon)
    assert answers.causes == {"overload": 1, "policy": MAX_OF_SESSION}


async def test_a_slow_reader_slow_hooks_and_a_flood_at_once_disturb_nobody(daemon: Daemon) -> None:
    """Slow: a client asks for some megabytes that it does not read, beside a flood."""
    go = daemon.folder / "go"
    async with AsyncExitStack() as stack:
        await hold(daemon, stack, go, sessions=1)
        deaf = await stack.enter_async_context(daemon.session())
        parts = daemon.parts
        sessions = [(one, one.session) for one in parts.bus.connections.values() if one.session]
        (connection,) = [one for one, session in sessions if not parts.statistics.count_all(session.fired)]
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(deaf.send_raw, requests(100, 60, "events", {}) * 20)
        await until(lambda: len(connection._outgoing) > MAX_BUFFERED)

        async with daemon.session() as quiet:
            with trio.fail_after(10):
                decisions = [await quiet.fire_tool("Bash") for _ in range(5)]

        held = {one.number: len(one._outgoing) for one in daemon.parts.bus.connections.values()}
        nursery.cancel_scope.cancel()
        go.touch()
    await assert_it_is_as_before(daemon)

    assert [decision["reason"] for decision in decisions] == ["no"] * 5
    assert max(held.values()) == held[connection.number] < 3 * MAX_BUFFERED
    assert all(size < MAX_BUFFERED for number, size in held.items() if number != connection.number)


@pytest.fixture
def many_files() -> Generator[None]:
    """Allow many open files before the daemon counts its places; users who are not root often begin with 1024."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 5_000:
        pytest.skip(f"only {before[1]} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.timeout(150)
async def test_four_thousand_fires_at_once_are_each_answered_once_beside_two_thousand_idle_sessions(
    many_files: None, daemon: Daemon
) -> None:
    """Slow: 2,080 connections and 4,000 fires."""
    answers, pool = Answers(), pool_of(daemon)
    is_over = False
    most = {"waiting": 0, "read": 0}
    process = psutil.Process()
    quiet_reasons: list[str] = []

    async def offer(client: Client) -> None:
        async with trio.open_nursery() as both:
            both.start_soon(client.send_raw, fires(100, 50, "Bash"))
            both.start_soon(answers.read, client, 50)

    async def watch() -> None:
        async with daemon.session() as quiet:
            while not is_over:
                quiet_reasons.append((await quiet.fire_tool("Bash"))["reason"])
                most["waiting"] = max(most["waiting"], pool.status()["waiting"])
                if len(quiet_reasons) % 20:
                    continue
                held = [len(one._incoming.lines) for one in daemon.parts.bus.connections.values()]
                most["read"] = max(most["read"], *held)

    async with AsyncExitStack() as stack:
        for _ in range(2_000):
            await stack.enter_async_context(daemon.session())
        clients = [await stack.enter_async_context(daemon.session()) for _ in range(80)]
        before = process.memory_info().rss

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            async with trio.open_nursery() as floods:
                for client in clients:
                    floods.start_soon(offer, client)
            is_over = True
        grown = process.memory_info().rss - before
        await assert_it_is_as_before(daemon)

    assert set(answers.causes) <= {"policy", "overload"}
    assert answers.causes["policy"] >= 400
    assert answers.times == dict.fromkeys(range(100, 150), 80)
    assert set(quiet_reasons) == {"no"}
    assert most["waiting"] <= pool.limits.queue
    assert most["read"] <= 2**15
    assert grown < 200 * 2**20
