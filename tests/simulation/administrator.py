"""The administrator of the simulated world: answers asks, hears of decisions, and requests what the world wants."""

from __future__ import annotations

from random import Random
from typing import Any

import trio

from simulation.client import Client, ConnectionLost, Refusal, connected
from simulation.judge import Judge
from simulation.kernel import Kernel

__all__ = ["Administrator"]

HEARD_WITHIN = 1.0  # seconds after its answer in which subscribers have heard of a decision


class Administrator:
    """The administrator, who outlives daemons. `watched` is an object for the time in which all decisions are heard."""

    def __init__(self, kernel: Kernel, random: Random, judge: Judge, socket: str) -> None:
        self._kernel, self._random, self._judge, self._socket = kernel, random, judge, socket
        self.client: Client | None = None
        self.watched: object | None = None
        self._announced: set[str] = set()

    async def run(self) -> None:
        """Connect, and listen until the daemon is gone; then connect again."""
        while True:
            try:
                async with connected(self._kernel, self._socket) as (client, nursery):
                    await client.call("hello", protocol=1)
                    await self._listen(client, nursery)
                    nursery.cancel_scope.cancel()
            finally:
                self.client = self.watched = None
            await trio.sleep(0.02)

    async def _listen(self, client: Client, nursery: trio.Nursery) -> None:
        is_watching = self._random.random() < 0.3
        await client.call("subscribe", topics=["asks", "operations", *(["decisions"] if is_watching else [])])
        self.client, seen = client, 0
        self.watched = object() if is_watching else None
        while not client.is_over:
            await client.heard.wait()
            client.heard = trio.Event() if not client.is_over else client.heard
            for one in client.announcements[seen:]:
                self._hear(client, nursery, one)
            seen = len(client.announcements)

    def _hear(self, client: Client, nursery: trio.Nursery, one: dict[str, Any]) -> None:
        if "decision" in one:
            self._judge.hear(one["decision"])
            self._announced.add(one["decision"]["decision_id"])
        elif "missed" in one:
            self.watched = object()
        elif "opened" in one:
            nursery.start_soon(self._answer, client, one["opened"]["id"])

    def expect(self, watched: object, decision: dict[str, Any]) -> None:
        """Check soon that a decision was announced, if nothing has interrupted since `watched`."""
        self._kernel.at(HEARD_WITHIN, self._check_heard, watched, decision)

    def _check_heard(self, watched: object, decision: dict[str, Any]) -> None:
        if self.watched is watched and decision["decision_id"] not in self._announced:
            self._judge.violate(f"A: a subscriber has not heard of {decision}")

    async def _answer(self, client: Client, name: str) -> None:
        draw = self._random
        is_late = draw.random() < 0.1
        await trio.sleep(draw.random() * 0.3 if not is_late else 14.0 + 2.0 * draw.random())
        verdict = "allow" if draw.random() < 0.5 else "deny"
        self._judge.answers[name] = f"{verdict}{'?' * is_late}"  # before: its answer may overtake ours
        try:
            await client.call("answer_ask", id=name, verdict=verdict, reason="I say so", by="sim")
        except ConnectionLost:
            self._judge.answers[name] = None
        except Refusal:
            self._judge.answers[name] = "deny"
            if self._judge.verdicts.get(name, "deny") != "deny":
                self._judge.violate(f"A: an answer to {name} was refused, and counts")

    async def ask(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Request something. None if there was no answer."""
        if self.client is None:
            return None
        try:
            return await self.client.call(method, **params)
        except (ConnectionLost, Refusal):
            return None
