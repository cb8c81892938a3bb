"""An agent of the simulated world: its session over many connections and daemons, its hooks, its fires."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from simulation.client import Client, ConnectionLost, Refusal, connected
from simulation.judge import ACTIVE, Known, Versions

if TYPE_CHECKING:
    from simulation.world import World

__all__ = ["AgentOfWorld"]

ACTIONS = (
    "deny", "deny", "deny", "deny", "allow", "ask", "ask", "mark", "mark", "unmarked", "unmarked:raise", "plain",
    "slow:0.02", "slow:0.4", "print", "raise", "raise:print", "exit", "halt", "garbage", "hang", "forge", "twice",
)  # fmt: skip
SERVED = ("deny", "deny", "garbage", "illegal", "drop", "hang")
EVENTS = ("pre_tool_use",) * 8 + ("post_tool_use", "post_model")
TOOLS = ("Bash", "Bash", "Bash", "Edit", "Count")


class AgentOfWorld:
    """One agent, which outlives daemons. The first is in the project, and the last is a child of the one before it."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self.name = world, f"agent-{number}"
        self._random = Random(f"{world.seed} {self.name}")
        self._token: str | None = None
        self._child_token: str | None = None
        self.client: Client | None = None
        self._project = world.project if number == 0 else None
        self._parent = world.agents[2] if number == 3 else None
        own, served = (("s1", "s2", "s3"), "v") if self._parent is None else (("k1", "k2"), "w")
        self.hooks = {one: Known(one, world.versions["s"], id=one) for one in own}  # by `run`, all of one file
        if self._parent is None:  # those of a notification are called at once
            self.hooks |= {one: Known(one, world.versions["s"], "post_tool_use", id=one) for one in ("o1", "o2")}
        self.served = Known(served, Versions(served, ""))
        self._heard = 0
        self._chain: int | None = None

    def forget(self) -> None:
        """Take note that the daemon is another one: what was registered is gone."""
        for hook in (*self.hooks.values(), self.served):
            hook.become(None)

    async def run(self) -> None:
        """Connect, and fire, until the daemon is gone; then connect again."""
        world, parent = self._world, self._parent
        while True:
            try:
                if parent is None or parent._child_token is not None:
                    async with connected(world.kernel, world.agent_socket, self._serve) as (client, _):
                        await self._talk(client)
            finally:
                self.client = None
            await trio.sleep(0.01 + self._random.random() * 0.2)

    async def _talk(self, client: Client) -> None:
        draw, parent = self._random, self._parent
        self.client = client
        client.on_end = lambda: self.served.become(None)
        session = {
            "id": self.name, "host": "generic", "resume_token": self._token, "cwd": self._project,
            "parent_session_id": parent and parent.name, "parent_token": parent and parent._child_token,
        }  # fmt: skip
        session = {key: value for key, value in session.items() if value is not None}
        hello = await client.call("hello", protocol=1, client={"name": "sim", "version": "1"}, session=session)
        self._token, self._child_token, client.session = hello["resume_token"], hello["child_token"], self.name
        self._chain, self._heard = None, 0
        await self._register(client)
        if draw.random() < 0.5:
            await self._subscribe(client)
        while True:
            if draw.random() < 0.06:
                await self._change(client)
            elif draw.random() < 0.25:
                async with trio.open_nursery() as together:
                    for _ in range(draw.randint(2, 5)):
                        together.start_soon(self._fire_safely, client)
            else:
                await self._fire(client)
            if client.is_over:
                raise ConnectionLost("closed")
            if draw.random() < 0.2:
                await trio.sleep(draw.random() ** 3 * 0.3)

    async def _register(self, client: Client) -> None:
        world = self._world
        tables: list[dict[str, Any]] = [
            {"id": one, "event": hook.event, "run": f"{world.called}:called", "config": {"id": one}}
            for one, hook in self.hooks.items()
        ]
        tables.append({"id": self.served.name, "event": "pre_tool_use", "served": True})
        lowest = world.versions["s"].written
        with self.served.changing(ACTIVE):
            await client.call("register", hooks=tables)
        for one, hook in self.hooks.items():
            hook.registered = max(hook.registered, lowest)
            if hook.state == "gone":
                hook.become(ACTIVE)
            elif hook.state != ACTIVE:  # it may have been disabled before, which outlives a registration
                with hook.changing(ACTIVE):
                    await client.call("enable", id=one)

    async def _change(self, client: Client) -> None:
        draw = self._random
        one = draw.choice(list(self.hooks))
        hook = self.hooks[one]
        match draw.randrange(8):
            case 0 | 1 as how:
                with hook.changing("disabled"):
                    await client.call("disable", id=one)
                await self._fire(client)
                if how == 0:
                    with hook.changing(ACTIVE):
                        await client.call("enable", id=one)
                    return
                with hook.changing("gone"):
                    await client.call("unregister", id=one)
                await self._fire(client)
                await self._register(client)
            case 2:
                await self._subscribe(client)
            case 3:
                report = await client.call("hooks", event="pre_tool_use")
                self._listen(client, report["revision"])
            case 4:
                raise ConnectionLost("it hangs up by itself")
            case 5:
                await self._trespass(client)
            case _:
                await self._register(client)

    async def _subscribe(self, client: Client) -> None:
        heard = len(client.announcements)
        result = await client.call("subscribe", topics=["registry", "idle"])
        if self._chain is None:
            self._chain, self._heard = result["revision"], heard

    async def _trespass(self, client: Client) -> None:
        """Try what only an operator may, and to be another session: each is refused."""
        of_operator = {"disable": {"id": "a", "scope": "global"}, "reload": {}, "trust": {"folder": "/"}}
        method = self._random.choice(list(of_operator))
        session = {"id": self.name, "resume_token": "0" * len(self._token or ""), "host": "generic"}
        async with connected(self._world.kernel, self._world.agent_socket) as (other, _):
            for one, what, params in (
                (client, method, of_operator[method]), (other, "hello", {"protocol": 1, "session": session}),
            ):  # fmt: skip
                with suppress(Refusal):
                    await one.call(what, **params)
                    self._world.violate(f"A: an agent may {what}")

    def check_permits(self, hook: Known) -> None:
        """Check that this client fires the event of a hook that is active for certain."""
        client = self.client
        if client is None or client.is_over or client.is_stalled or hook.state != ACTIVE:
            return
        told = [one["events"] for one in client.announcements if one.get("topic") == "idle"]
        if told and hook.event in told[-1]:
            self._world.violate(f"E: {self.name} may skip {hook.event}, which {hook.name} is on: {told}")

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
        hooks = [*world.globals.values(), *self.hooks.values(), self.served]
        if self._project is not None:
            hooks.append(world.project_hook)
        if self._parent is not None:
            inherited = [hook for hook in self._parent.hooks.values() if hook.event == "pre_tool_use"]
            hooks += [*inherited, self._parent.served]
        do = {}
        for hook in hooks:
            if hook.event == event and draw.random() < 0.14:
                is_served = not hook.versions.path
                if tool != "Count":
                    do[hook.name] = draw.choice(SERVED if is_served else ACTIONS)
                elif not (do or is_served or hook.match):
                    do[hook.name] = "mark"  # then it is counted in two phases, once
        await world.fire(client, event, tool, do, hooks, in_project=self._project is not None)

    async def _serve(self, call: dict[str, Any]) -> Any:
        payload = call["payload"]
        what = (payload.get("do") or {}).get(self.served.name, "pass")
        await trio.sleep(self._random.random() * 0.01)
        match what:
            case "deny":
                return {"verdict": "deny", "reason": f"{self.served.name} {payload['nonce']} v1"}
            case "garbage":
                return 5
            case "illegal":
                return {"verdict": "no such verdict"}
            case "drop":
                if self.client is not None:
                    self.client.end()
                return None
            case "hang":
                await trio.sleep_forever()
        return None
