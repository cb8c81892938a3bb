"""Many calls at once on callbacks that crash at random: each gets one answer, and nothing is left."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import callbacks, running_daemon
from support.pools import is_busy, running_pool, until
from support.survivors import nobody_survives

GOOD = ("well", "prints", "starts_a_thread", "forks_a_child_that_lives_on")
BAD = {
    "raises": "crash",
    "kills_itself": "crash",
    "exits_with_0": "crash",
    "closes_the_socket": "crash",
    "forks_a_child_and_dies": "crash",
    "returns_a_str": "protocol",
    "writes_garbage_to_the_socket": "protocol",
    "forges_another_call": "protocol",
    "stops_itself": "timeout",
}


def saw_a_worker(decision: dict[str, Any]) -> bool:
    """Return whether a call began; its time may also have passed while it waited for a worker."""
    (outcome,) = decision["outcomes"]
    return decision["cause"] not in ("overload", "timeout") or "no answer within" in outcome["message"]


@pytest.mark.slow
async def test_every_gate_gets_its_own_answer_while_workers_crash_at_random(tmp_path: Path) -> None:
    """Slow: 200 calls, 20 at a time, some of which wait for their deadline."""
    dice = random.Random(20260101)
    plan = [dice.choice((*GOOD, *GOOD, *GOOD, *BAD)) for _ in range(200)]
    calls: list[tuple[str, str, bool]] = []
    files = {
        "hooks.toml": '[[source]]\npath = "misbehaving.py"\nworkers = 8\n',
        "misbehaving.py": callbacks("misbehaving.py"),
    }
    with nobody_survives():
        async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:

            async def fire_some(hows: list[str]) -> None:
                client = daemon.connect()
                await client.call("hello", protocol=1)
                for how in hows:
                    payload = {"tool_name": "sync", "how": how}
                    limit = 0.2 if how == "stops_itself" else 20.0
                    # On a slow machine the short limit may pass while the call waits for a worker: fired again, then.
                    is_called = False
                    while not is_called:
                        daemon.parts.breakers.clear()  # it would answer in the workers' stead
                        decision = await client.call("fire", event="pre_tool_use", payload=payload, timeout=limit)
                        assert decision["verdict"] == "deny"
                        is_called = saw_a_worker(decision)
                        calls.append((how, decision["cause"], is_called))
                await client.aclose()

            async with trio.open_nursery() as nursery:
                for start in range(20):
                    nursery.start_soon(fire_some, plan[start::20])
            (pool,) = daemon.parts.sources.pools.values()
            await until(lambda: not pool.status()["condemned"])
            status = await admin.call("status")
            pool_status = pool.status()

    for how, cause, is_called in calls:
        assert cause == BAD.get(how, "policy") or (how == "stops_itself" and not is_called)
    assert sum(is_called for _, _, is_called in calls) == 200
    counts = Counter(cause for _, cause, _ in calls)
    assert status["verdicts"] == {"deny": counts.total()}
    assert status["failures"] == {cause: number for cause, number in counts.items() if cause != "policy"}
    assert pool_status["busy"] == pool_status["waiting"] == 0
    assert pool_status["idle"] + pool_status["starting"] <= 8
    deadly = set(BAD) - {"raises", "returns_a_str"}
    assert pool_status["lost"] == sum(how in deadly for how in plan)


@pytest.mark.slow
async def test_calls_that_are_cancelled_at_random_lose_no_worker(tmp_path: Path) -> None:
    """Slow: 300 calls, cancelled at a random moment, while workers die and are recycled."""
    dice = random.Random(20260102)
    async with running_pool(tmp_path, callbacks("workaday.py"), workers=4, calls=7) as workers:

        async def call_and_leave() -> None:
            with trio.move_on_after(dice.random() * 0.02):
                await workers.call(dice.choice(["pid", "pid", "pid", "die"]), is_gate=dice.random() < 0.6)

        for _ in range(15):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call_and_leave)
        await until(lambda: not is_busy(workers.pool) and not workers.pool.status()["condemned"])

        assert await workers.said("pid")
        assert workers.pool.status()["idle"] <= 4
        assert workers.pool.status()["busy"] == workers.pool.status()["waiting"] == 0
