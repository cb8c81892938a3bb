"""Fires that no client waits for: how many and how many bytes of them may be under way, and that each is counted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.service.dispatch.dispatcher import MAX_BACKGROUND
from hooklatch.service.registry.budget import MAX_HELD
from overload.floods import flooded_daemon, requests
from support.daemons import Client, Daemon
from support.pools import until

MIB = 2**20


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with flooded_daemon(tmp_path) as daemon:
        yield daemon
        await until(lambda: not daemon.parts.dispatcher._background_count)
        assert daemon.parts.budget.held == 0


def params_of(daemon: Daemon, size: int = 0) -> dict[str, Any]:
    """Return the params of a background fire that ends when a file `go` is there."""
    payload = {"notification_type": "slow", "go": str(daemon.folder / "go"), "text": "x" * size}
    return {"event": "notification", "payload": payload, "wait": False}


def go(daemon: Daemon) -> None:
    (daemon.folder / "go").touch()


@pytest.mark.slow
async def test_no_session_takes_all_places_and_what_is_dropped_is_counted(daemon: Daemon) -> None:
    """Slow: some 500 notifications that are held."""
    most = MAX_BACKGROUND // 2
    async with daemon.session() as flood, daemon.session() as other:
        for first in range(0, most + 50, 50):
            await flood.send_raw(requests(100 + first, 50, "fire", params_of(daemon)))
        accepted = [((await flood.read()) or {})["result"]["accepted"] for _ in range(most + 50)]
        others = [(await other.call("fire", **params_of(daemon)))["accepted"] for _ in range(20)]
        gate = await other.fire_tool("Bash")
        dropped = daemon.parts.statistics.dropped["background"]
        go(daemon)

    assert accepted == [True] * most + [False] * 50
    assert others == [True] * 20
    assert gate["reason"] == "no"
    assert dropped == 50


@pytest.mark.slow
async def test_large_payloads_take_at_most_half_of_the_room_that_is_left_and_give_it_back(daemon: Daemon) -> None:
    """Slow: some 40 MiB through the socket."""
    budget, size, others = daemon.parts.budget, 4 * MIB, MAX_HELD // 2
    assert budget.take("others", others)
    async with daemon.session() as client:
        accepted = await fire_until_dropped(client, params_of(daemon, size))
        held, dropped = budget.held - others, daemon.parts.statistics.dropped["background"]
        short = (await client.call("fire", **params_of(daemon)))["accepted"]
        gate = await client.fire_tool("Bash", text="x" * size)
        go(daemon)
        await until(lambda: budget.held == others)
        again = (await client.call("fire", **params_of(daemon, size)))["accepted"]
        await until(lambda: budget.held == others)
        budget.give_back("others", others)

    assert accepted * size <= held < accepted * (size + 1000)
    assert 2 * held <= MAX_HELD - others < 2 * (held + size) + size + 1000  # for one more, beside its line, no room
    assert (dropped, short, gate["reason"], again) == (1, True, "no", True)


async def fire_until_dropped(client: Client, params: dict[str, Any]) -> int:
    """Return how many background fires were accepted before the first that was not."""
    for accepted in range(20):
        if not (await client.call("fire", **params))["accepted"]:
            return accepted
    raise AssertionError("payloads of background fires are without a bound")


async def test_a_daemon_that_stops_waits_for_no_hook_that_only_observes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with flooded_daemon(tmp_path) as daemon, daemon.session() as client:
        await client.call("fire", **params_of(daemon))
        await until(lambda: daemon.parts.dispatcher._background_count == 1)

    assert not [record for record in caplog.records if record.levelname == "ERROR"]
