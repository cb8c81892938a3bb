"""What happens to an ask at the same time, in a real daemon: whatever comes first, all who look at it see one end.

Slow: two hundred gates, each of which somebody answers while something else ends it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from hooklatch.record.verify import verify_record
from support.daemons import Client, Daemon, RpcFailure, running_daemon

pytestmark = pytest.mark.slow

GUARD = (
    'from hooklatch import ask, hook\n\n@hook("pre_tool_use", priority=100)\ndef careful(event): return ask("so?")\n'
)
OTHER = 'from hooklatch import hook\n\n@hook("pre_tool_use")\ndef silent(event): pass\n'
FILES = {
    "hooks.toml": '[ask]\nwait = 300\n\n[[source]]\npath = "a.py"\n\n[[source]]\npath = "b.py"\n',
    "a.py": GUARD,
    "b.py": OTHER,
}
LANES, ROUNDS = 6, 20  # gates at the same time, and one after the other; each lane has two administrators of the 16
WAIT = 0.05  # seconds that a gate has whose ask expires meanwhile


class Gate:
    """One gate: what its agent was told, and which answers were acknowledged or refused."""

    def __init__(self) -> None:
        self.moved = trio.Event()  # its ask waits, or it is decided
        self.ask: dict[str, Any] | None = None
        self.decision: dict[str, Any] | None = None
        self.has_left = False
        self.acknowledged: list[dict[str, Any]] = []
        self.refused: list[str] = []


class Races:
    """A daemon, somebody who sees each ask that opens, and all gates so far."""

    def __init__(self, daemon: Daemon, chance: Random) -> None:
        self.daemon = daemon
        self.chance = chance
        self.gates: list[Gate] = []

    async def watch(self, *, task_status: trio.TaskStatus[None]) -> None:
        async with self.daemon.administrator() as admin:
            await admin.call("subscribe", topics=["asks"])
            task_status.started()
            while True:
                if (ask := (await admin.announcement()).get("opened")) is not None:
                    gate = self.gates[int(ask["excerpt"]["tool_input"]["command"])]
                    gate.ask = ask
                    gate.moved.set()

    async def some_turns(self) -> None:
        for _ in range(self.chance.randrange(12)):
            await trio.lowlevel.checkpoint()

    async def fire(self, agent: Client, gate: Gate, **params: Any) -> None:
        """Fire the gate; how long its agent waits is in `params`."""
        payload = {"tool_name": "Bash", "tool_input": {"command": str(self.gates.index(gate))}}
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            gate.decision = await agent.call("fire", event="pre_tool_use", payload=payload, **params)
        gate.moved.set()

    async def answer(self, person: Client, gate: Gate, by: str) -> None:
        assert gate.ask is not None
        await self.some_turns()
        verdict = self.chance.choice(("allow", "allow", "deny"))
        said = {"verdict": verdict, "reason": "so", "by": by, "payload_digest": gate.ask["payload_digest"]}
        try:
            gate.acknowledged.append((await person.call("answer_ask", id=gate.ask["id"], **said))["closed"])
        except RpcFailure as refusal:
            gate.refused.append(refusal.name)

    async def leave(self, agent: Client, gate: Gate) -> None:
        await self.some_turns()
        gate.has_left = True
        await agent.aclose()

    async def race(self, people: list[Client], ends: str) -> None:
        """Have a gate answered by each of the people, while something else may end its ask."""
        self.gates.append(gate := Gate())
        agent = self.daemon.connect()
        async with agent.stream, trio.open_nursery() as nursery:
            nursery.start_soon(lambda: self.fire(agent, gate, **({"timeout": WAIT} if ends == "expiry" else {})))
            await gate.moved.wait()
            if gate.ask is None:
                return  # it had no time for an ask
            if ends == "expiry":  # the answers come at about the moment at which nobody waits for them any more
                with trio.move_on_after(self.chance.uniform(0.5, 1.0) * WAIT):
                    await trio.sleep_forever()
            for person, by in zip(people, ("terminal", "page"), strict=False):
                nursery.start_soon(self.answer, person, gate, by)
            if ends == "hang-up":
                nursery.start_soon(self.leave, agent, gate)

    async def lane(self) -> None:
        async with self.daemon.administrator() as terminal, self.daemon.administrator() as page:
            for _ in range(ROUNDS):
                await self.race([terminal, page], self.chance.choice(("answers", "expiry", "hang-up")))

    async def meanwhile(self, act: Callable[[], Awaitable[object]]) -> None:
        """Have gates answered while the daemon does something."""
        first = len(self.gates)
        async with AsyncExitStack() as opened, trio.open_nursery() as nursery:
            for _ in range(2 * LANES):
                person = await opened.enter_async_context(self.daemon.administrator())
                nursery.start_soon(self.race, [person], "answers")
            while len(self.gates) == first:
                await trio.lowlevel.checkpoint()
            await self.gates[first].moved.wait()
            await self.some_turns()
            await act()

    async def reload(self) -> None:
        """Take the hook away that asks."""
        self.daemon.write("a.py", OTHER)
        async with self.daemon.administrator() as admin:
            await admin.call("reload")

    async def drain(self) -> None:
        self.daemon.parts.dispatcher.drain()


async def test_an_answer_that_was_acknowledged_is_the_decision_and_all_else_is_a_deny(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, trio.open_nursery() as nursery:
        races, asks, admission = Races(daemon, Random(14)), daemon.parts.asks, daemon.parts.shared.admission
        await nursery.start(races.watch)
        async with trio.open_nursery() as lanes:
            for _ in range(LANES):
                lanes.start_soon(races.lane)
        raced = len(races.gates)
        await races.meanwhile(races.reload)
        reloaded = len(races.gates)
        daemon.write("a.py", GUARD)
        async with daemon.administrator() as admin:
            await admin.call("reload")
            await races.meanwhile(races.drain)
            await admin.until_status(lambda status: status["connections"] == 2)
            left = len(asks), asks._waiting, asks._open._shares, admission.in_flight, admission.strangers.in_flight
        nursery.cancel_scope.cancel()

    assert left == (0, {}, Counter(), 0, 0)
    folder = tmp_path / "state" / "record"
    kept = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    opened, closed = ([one for one in kept if one.get("action") == what] for what in ("opened", "closed"))
    ends = {one["decision_id"]: one for one in closed}
    decided = {one["decision_id"]: one for one in kept if one["kind"] == "decision"}
    assert [one["decision_id"] for one in opened] == list(dict.fromkeys(one["decision_id"] for one in opened))
    assert len(closed) == len(opened) == len(ends)
    for number, gate in enumerate(races.gates):
        assert gate.decision is not None or gate.has_left
        assert set(gate.refused) <= {"not_found"}
        if gate.ask is None:
            assert gate.decision is not None
            assert gate.decision["verdict"] == "deny" or (raced <= number < reloaded), gate.decision
            continue
        end = ends[gate.ask["id"]]
        said = [(one["verdict"], one["by"], one["cause"]) for one in gate.acknowledged]
        assert said == ([(end["verdict"], end["by"], end["cause"])] if end["cause"] == "policy" else [])
        told = [one["verdict"] for one in (gate.decision, decided.get(gate.ask["id"])) if one is not None]
        assert set(told) <= {end["verdict"]}
        assert end["cause"] == "policy" or end["verdict"] == "deny"
    assert {"allow", "deny"} == {one["verdict"] for one in closed if one["cause"] == "policy"}
    assert not verify_record(str(folder)).findings
