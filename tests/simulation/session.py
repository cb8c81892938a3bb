"""An agent of the simulated world: its session over many connections and daemons, its hooks, its fires."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from simulation.client import Client, ConnectionLost, Refusal
from simulation.judge import Known

if TYPE_CHECKING:
    from simulation.world import World

__all__ = ["AgentOfWorld"]

ACTIONS = ("deny", "deny", "deny", "allow", "ask", "mark", "slow:0.02", "slow:0.4", "print", "raise", "exit", "halt",
           "garbage", "hang", "forge", "twice")  # fmt: skip
SERVED = ("deny", "deny", "garbage", "illegal", "drop", "hang")
OWN = ("s1", "s2", "s3")  # the hooks that a session registers by `run`, all of one file
EVENTS = ("pre_tool_use",) * 8 + ("post_tool_use", "tool_result")
TOOLS = ("Bash", "Bash", "Bash", "Edit", "Count")


class AgentOfWorld:
    """One agent. It outlives daemons; `project` is the trusted folder that it is in, if any."""

    def __init__(self, world: World, name: str, project: str | None) -> None:
        self._world = world
        self.name, self._project = name, project
        self._random = Random(f"{world.seed} agent {name}")
        self._token: str | None = None
        self._client: Client | None = None
        self._hooks = {one: Known(one, world.versions["s"]) for one in OWN}
        self._served = Known("v", world.served)
        self._heard = 0
        self._chain: int | None = None

    def forget(self) -> None:
        """Take note that the daemon is another one: what was registered is gone."""
        for hook in (*self._hooks.values(), self._served):
            with hook.changing(is_certain=False):
                pass

    async def run(self) -> None:
        """Connect, and fire, until the daemon is gone; then connect again."""
        while True:
            try:
                async with trio.open_nursery() as nursery:
                    await self._talk(nursery)
                    nursery.cancel_scope.cancel()
            except* (ConnectionLost, Refusal) as group:
                self._world.note_lost(group)
            finally:
                self._lose()
            await trio.sleep(0.01 + self._random.random() * 0.2)

    def _lose(self) -> None:
        with self._served.changing(is_certain=False):
            pass
        if self._client is not None:
            self._client.end()
            self._client = None

    async def _talk(self, nursery: trio.Nursery) -> None:
        world, draw = self._world, self._random
        client = self._client = Client(world.kernel, world.agent_socket, on_call=self._serve)
        nursery.start_soon(client.run)
        session: dict[str, Any] = {"id": self.name, "resume_token": self._token, "host": "generic"}
        if self._project is not None:
            session["cwd"] = self._project
        if self._token is None:
            del session["resume_token"]
        hello = await client.call("hello", protocol=1, client={"name": "sim", "version": "1"}, session=session)
        self._token = hello["resume_token"]
        self._chain, self._heard = None, 0
        await self._register(client)
        while True:
            if draw.random() < 0.06:
                await self._change(client)
            elif draw.random() < 0.15:
                async with trio.open_nursery() as together:
                    for _ in range(draw.randint(2, 4)):
                        together.start_soon(self._fire_safely, client)
            else:
                await self._fire(client)
            if client.is_over:
                raise ConnectionLost("closed")
            if draw.random() < 0.3:
                await trio.sleep(draw.random() ** 3 * 0.3)

    async def _register(self, client: Client) -> None:
        world = self._world
        tables: list[dict[str, Any]] = [
            {"id": one, "event": "pre_tool_use", "run": f"{world.called}:called", "config": {"id": one}} for one in OWN
        ]
        with self._served.changing(is_certain=True):
            lowest = world.versions["s"].written
            await client.call("register", hooks=[*tables, {"id": "v", "event": "pre_tool_use", "served": True}])
        for one, hook in self._hooks.items():
            hook.registered = max(hook.registered, lowest)
            await client.call("enable", id=one)  # it may have been disabled before, which outlives a registration
            with hook.changing(is_certain=True):
                pass

    async def _change(self, client: Client) -> None:
        draw = self._random
        one = draw.choice(OWN)
        hook = self._hooks[one]
        match draw.randrange(5):
            case 0:
                was = hook.is_certain
                with hook.changing(is_certain=False):
                    await client.call("disable", id=one)
                if was:
                    await self._fire(client)
                    with hook.changing(is_certain=True):
                        await client.call("enable", id=one)
            case 1:
                with hook.changing(is_certain=False):
                    await client.call("unregister", id=one)
                await self._fire(client)
                await self._register(client)
            case 2:
                heard = len(client.announcements)
                result = await client.call("subscribe", topics=["registry"])
                if self._chain is None:
                    self._chain, self._heard = result["revision"], heard
            case 3:
                report = await client.call("hooks", event="pre_tool_use")
                self._listen(client, report["revision"])
            case _:
                raise ConnectionLost("it hangs up by itself")

    def _listen(self, client: Client, revision: int) -> None:
        """Check that announcements follow each other."""
        if self._chain is None:
            return
        heard, self._heard = client.announcements[self._heard :], len(client.announcements)
        for one in heard:
            if one.get("topic") != "registry":
                continue
            if "resync" in one:
                self._chain = one["resync"]
                continue
            if one["revision"] <= self._chain:
                continue  # it was said before the answer to the subscription
            if one["previous"] != self._chain:
                self._world.violate(f"E: {self.name} hears {one} after {self._chain}")
            self._chain = one["revision"]
        if self._chain < revision and not client.is_stalled:
            self._world.violate(f"E: {self.name} sees revision {revision} and has heard of {self._chain}")

    async def _fire_safely(self, client: Client) -> None:
        with suppress(ConnectionLost, Refusal):
            await self._fire(client)

    async def _fire(self, client: Client) -> None:
        world, draw = self._world, self._random
        event = draw.choice(EVENTS)
        tool = draw.choice(TOOLS) if event == "pre_tool_use" else "Bash"
        hooks = [*world.globals.values(), *self._hooks.values(), self._served]
        if self._project is not None:
            hooks.append(world.project_hook)
        do = {}
        for hook in hooks:
            if hook.event == event and draw.random() < 0.16:
                do[hook.name] = draw.choice(SERVED if hook is self._served else ACTIONS)
        if tool == "Count":
            do = {}
        await world.fire(client, event, tool, do, hooks, in_project=self._project is not None)

    async def _serve(self, call: dict[str, Any]) -> Any:
        payload = call["payload"]
        what = (payload.get("do") or {}).get("v", "pass")
        await trio.sleep(self._random.random() * 0.01)
        match what:
            case "deny":
                return {"verdict": "deny", "reason": f"v {payload['nonce']} v1"}
            case "garbage":
                return 5
            case "illegal":
                return {"verdict": "no such verdict"}
            case "drop":
                if self._client is not None:
                    self._client.end()
                return None
            case "hang":
                await trio.sleep_forever()
        return None
