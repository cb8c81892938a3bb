"""More bytes than there is room for: they wait or are refused with a reason, small ones pass, and all is given back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from hooklatch.core.protocol import encode_request
from hooklatch.service.registry.budget import MAX_HELD, Budget
from overload.floods import HOOKS
from support.commands import new_place, serving
from support.daemons import Daemon, RpcFailure, running_daemon
from support.pools import is_busy, until

pytestmark = pytest.mark.slow  # megabytes through sockets

MIB = 2**20
LONG = "x" * MIB
MORE = """
from hooklatch import amend

@hook("pre_tool_use", match="Grow", timeout=60)
def grow(event):
    return amend(tool_input={"text": "x" * 2**20})
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\nworkers = 3\n', "guards.py": HOOKS + MORE}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon
        await until(lambda: daemon.parts.budget.held == 0)


def fill(budget: Budget) -> dict[str, int]:
    """Leave no room for anything large."""
    taken: dict[str, int] = {}
    while (size := (MAX_HELD - budget.held) // 2) > 2**14:
        holder = f"holder {len(taken)}"
        assert budget.take(holder, size)
        taken[holder] = size
    return taken


def empty(budget: Budget, taken: dict[str, int]) -> None:
    for holder, size in taken.items():
        budget.give_back(holder, size)


def peak_bytes(process: psutil.Process) -> int:
    """Return how much memory a process has had at most (proc_pid_status(5), VmHWM)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


async def test_many_calls_of_the_largest_size_are_judged_in_bounded_memory_that_is_given_back() -> None:
    payload = {"tool_name": "Bash", "tool_input": {"text": "x" * (8 * MIB - 2000)}}
    line = encode_request(7, "fire", {"event": "pre_tool_use", "payload": payload})
    causes: Counter[str] = Counter()

    async def ask(path: str) -> None:
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(line)
            answer = b""
            while not answer.endswith(b"\n"):
                data = await stream.receive_some(2**16)
                assert data, "hung up without an answer"
                answer += data
        said = json.loads(answer)
        assert said["id"] == 7
        causes[said["result"]["cause"] if "result" in said else said["error"]["data"]["name"]] += 1

    with new_place(FILES) as place, serving(place) as daemon:
        process = psutil.Process(daemon.pid)
        before = process.memory_info().rss
        async with trio.open_nursery() as nursery:
            for _ in range(32):
                nursery.start_soon(ask, daemon.ready["agent"])
        peak = peak_bytes(process)
        await until(lambda: process.memory_info().rss < before + 128 * MIB)

    assert causes.keys() <= {"policy", "overload"}
    assert causes["policy"] > 16
    assert peak < 480 * MIB


async def test_a_line_without_room_hears_overload_by_its_id_and_short_lines_pass(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.service.transport.connection.ROOM_TIMEOUT", 0.05)
    budget = daemon.parts.budget
    async with daemon.session() as client, daemon.session() as other:
        taken = fill(budget)
        for place in ("first", "last"):
            fire = {"method": "fire", "params": {"event": "pre_tool_use", "payload": {"tool_name": LONG}}}
            members = {"id": place, **fire} if place == "first" else {**fire, "id": place}
            await client.send_line({"jsonrpc": "2.0", **members})
            assert (await other.fire_tool("Bash"))["reason"] == "no"
            answer = await client.read() or {}
            assert (answer["id"], answer["error"]["data"]["name"]) == (place, "overload")
        assert (await client.fire_tool("Bash"))["reason"] == "no"

        empty(budget, taken)
        assert (await client.fire_tool("Bash", text=LONG))["reason"] == "no"


async def test_a_line_that_waits_is_judged_when_there_is_room(daemon: Daemon) -> None:
    budget = daemon.parts.budget
    async with daemon.session() as client, trio.open_nursery() as nursery:
        taken, decisions = fill(budget), list[dict[str, Any]]()

        async def fire() -> None:
            decisions.append(await client.fire_tool("Bash", text=LONG))

        nursery.start_soon(fire)
        await until(lambda: len(budget) == 1)
        empty(budget, taken)

    assert [decision["reason"] for decision in decisions] == ["no"]
    (pool,) = daemon.parts.sources.pools.values()
    await until(lambda: not is_busy(pool))
    assert [worker.hook for worker in pool.live_workers() if worker.hook] == []  # an idle one keeps no call


async def test_a_stranger_without_room_hears_overload_too(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.transport.connection.ROOM_TIMEOUT_OF_STRANGERS", 0.05)
    taken, client = fill(daemon.parts.budget), daemon.connect()

    with pytest.raises(RpcFailure, match="overload: there was no room"):
        await client.fire_tool("Bash", text=LONG)

    assert await client.hears_the_end()
    await client.aclose()
    empty(daemon.parts.budget, taken)


async def test_a_slow_sender_reads_why_it_is_closed_while_it_sends_on_and_holds_no_room(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.service.transport.connection.FRAME_TIMEOUT", 0.3)
    head = b'{"jsonrpc":"2.0","id":5,"method":"fire","params":{"event":"pre_tool_use","payload":{"text":"'
    async with daemon.session() as client:
        for sender in (client, daemon.connect()):
            await sender.send_raw(head + b"x" * 100_000)
            await until(lambda: daemon.parts.budget.held > 0)
            await until(lambda: daemon.parts.budget.held == 0)
            await sender.send_raw(b"x" * MIB + b"\n")  # nobody hangs up on it at once

            answer = await sender.read() or {}

            assert (answer["id"], answer["error"]["data"]["name"]) == (5, "parse_error")
            await sender.aclose()


async def test_a_hook_whose_large_answer_finds_no_room_is_an_overload_and_denies(daemon: Daemon) -> None:
    budget = daemon.parts.budget
    async with daemon.session() as client:
        taken = fill(budget)
        refused = await client.fire_tool("Grow")
        empty(budget, taken)
        await until(lambda: budget.held == 0)
        grown = await client.fire_tool("Grow")

    assert (refused["verdict"], refused["cause"]) == ("deny", "overload")
    assert (grown["verdict"], len(grown["patch"]["tool_input"]["text"])) == ("pass", MIB)


async def test_the_large_answer_of_a_client_that_serves_a_hook_finds_no_room_and_its_call_is_an_overload(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.service.transport.connection.ROOM_TIMEOUT", 0.05)
    hook = {"id": "mine", "event": "pre_tool_use", "served": True, "timeout": 20.0, "match": "Read"}
    async with daemon.session(hooks=[hook]) as client:
        taken = fill(daemon.parts.budget)
        number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Read"})
        asked = await client.read() or {}
        assert asked["method"] == "call"
        # Its number is one of ours too: an error in answer to it would be taken for that of our own request.
        await client.send_line({"jsonrpc": "2.0", "id": asked["id"], "result": {"reason": LONG}})
        decision = await client.answer_to(number)
        empty(daemon.parts.budget, taken)

    assert (decision["verdict"], decision["cause"]) == ("deny", "overload")


async def test_who_reads_nothing_is_closed_where_there_is_no_room_for_what_is_pending(daemon: Daemon) -> None:
    client = daemon.connect()
    await client.call("hello", protocol=1)
    taken = fill(daemon.parts.budget)
    with suppress(trio.BrokenResourceError):
        await client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"events"}\n' * 200)

    await until(lambda: not daemon.parts.bus.connections)

    await client.aclose()
    empty(daemon.parts.budget, taken)
