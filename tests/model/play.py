"""Plays a script on a daemon and on the oracle, and compares.  Knows the protocol; knows no part of the daemon.

After each step that is no fire every live session's view is looked at: the computed order, each hook's state, the
revision (it grows if and only if the view changed), and what its subscription heard in between.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import trio

from model.oracle import ADMIN, GATE, MATCHED, Hook, Oracle, Playing
from model.place import Conversation, Place, finished, told
from model.scripts import (
    Advance,
    Close,
    Definition,
    Disable,
    Drain,
    Enable,
    Fire,
    Hold,
    Open,
    Register,
    Release,
    Reload,
    Script,
    Step,
    Storm,
    Subscribe,
    Unregister,
    Unsubscribe,
)

__all__ = ["play"]

TIMEOUT = 60.0  # seconds of each hook; what hangs is ended by its fire's own, shorter one
HANG = 0.3  # seconds that a fire has in which a hook hangs


@dataclass
class Held:
    """A fire under way, waiting in a hook: what will be decided, and what the daemon will have said."""

    who: str
    playing: Playing
    revision: int
    release: Callable[[], None]
    decision: list[dict[str, Any]]
    answered: trio.Event


@dataclass
class Seen:
    """What one viewer was last seen to see."""

    revision: int
    hooks: dict[tuple[str, str], Hook]
    is_subscribed: bool = False
    heard: int = 0
    chain: int = 0


@dataclass
class Stage:
    """One script being played."""

    place: Place
    oracle: Oracle
    nursery: trio.Nursery
    prefix: str
    connections: dict[str, Conversation] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    registrations: int = 0

    # -- steps -----------------------------------------------------------------------------------------------

    async def take(self, step: Step) -> None:
        self.oracle.at(trio.current_time())
        match step:
            case Open():
                await self.open(step)
            case Close(who):
                await self.close(who)
            case Register(who, hooks):
                await self.register(who, hooks)
            case Unregister(who, hook_id):
                await self.unregister(who, hook_id)
            case Enable(who, hook_id) | Disable(who, hook_id):
                await self.switch(who, hook_id, is_on=isinstance(step, Enable))
            case Subscribe(who) | Unsubscribe(who):
                await self.subscribe(who, is_on=isinstance(step, Subscribe))
            case Fire():
                await self.fire(step)
            case Hold():
                await self.hold(step)
            case Release():
                await self.release()
            case Storm() if self.held:
                pass  # hooks after the one that waits may be in its worker already: no quarantine reaches them there
            case Storm(who, hook_id, times, apart, later):
                for seconds in (*[apart] * (times - 1), 0.0, *later):
                    await self.advance(seconds)
                    await self.fire(Fire(who, GATE, "Bash", {hook_id: "exit"}))
            case Reload():
                self.oracle.reload(self.place.new_version())
                await self.ask(ADMIN, "reload")
            case Advance(seconds):
                await self.advance(seconds)
            case Drain():
                self.place.drain(is_draining=True)
                self.oracle.is_draining = True
            case _:
                assert_never(step)

    async def advance(self, seconds: float) -> None:
        """Let time pass, if nothing waits that has a deadline."""
        if seconds and not self.held and await self.place.advance(seconds):
            self.oracle.at(trio.current_time())

    async def ask(self, who: str, method: str, expected: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a request that must succeed, or fail with an error of this name."""
        result: dict[str, Any] = {}
        name: str | None = None
        try:
            result = await self.connections[who].call(method, **params)
        except self.place.failure as error:
            name = getattr(error, "name", str(error))
        assert name == expected, f"{method}: {name or 'accepted'}, expected {expected or 'no error'}"
        return result

    async def open(self, step: Open) -> None:
        who = step.who
        if who in self.connections:
            return
        token = self.tokens.get(who) if step.has_token else "not the token"
        if who not in self.oracle.sessions:
            self.seen.pop(who, None)  # another session than the one that had this id
        expected = self.oracle.hello(who, has_token=token is not None and step.has_token)
        conversation = await self.place.connect(is_admin=False)
        self.connections[who] = conversation
        session = {"id": f"{self.prefix}{who}", "resume_token": token}
        hello = await self.ask(who, "hello", expected, protocol=1, session=session)
        if expected is not None:
            del self.connections[who]
            await conversation.close()
            return
        self.tokens[who] = hello["resume_token"]
        self.seen.setdefault(who, Seen(hello["revision"], self.expected(who)))
        assert hello["revision"] >= self.seen[who].revision

    async def close(self, who: str) -> None:
        if who not in self.connections or any(held.who == who for held in self.held):
            return
        await self.connections.pop(who).close()
        self.oracle.leave(who)
        self.seen[who].is_subscribed = False

    async def register(self, who: str, definitions: tuple[Definition, ...]) -> None:
        if who not in self.connections:
            return
        hooks, tables = list[Hook](), list[dict[str, Any]]()
        for one in definitions:
            self.registrations += 1
            hook_id, name = one.id, f"{who}.{one.id}.{self.registrations}"
            marks = {"enabled": one.enabled, "amends": one.amends}
            hooks.append(Hook(hook_id, one.event, one.match, one.priority, name, 0, **marks, where=one.where))
            table = {"id": hook_id, "event": one.event, "priority": one.priority, **marks}
            table |= {"run": self.place.run_of(), "timeout": TIMEOUT, "config": {"id": hook_id, "name": name}}
            table |= {"where": {"tool_input.n": one.where}} if one.where is not None else {}
            tables.append(table | ({"match": list(one.match)} if one.match is not None else {}))
        scope = "global" if who == ADMIN else "session"
        await self.ask(who, "register", self.oracle.register(who, hooks), hooks=tables, scope=scope)

    async def unregister(self, who: str, hook_id: str) -> None:
        if who in self.connections:
            self.oracle.unregister(who, hook_id)
            await self.ask(who, "unregister", id=hook_id)

    async def switch(self, who: str, hook_id: str, *, is_on: bool) -> None:
        if who in self.connections:
            expected = self.oracle.switch(who, hook_id, enabled=is_on)
            await self.ask(who, "enable" if is_on else "disable", expected, id=hook_id)

    async def subscribe(self, who: str, *, is_on: bool) -> None:
        if who not in self.connections:
            return
        result = await self.ask(who, "subscribe" if is_on else "unsubscribe", topics=["registry"])
        seen = self.seen[who]
        if is_on and not seen.is_subscribed:
            seen.chain, seen.heard = result["revision"], len(self.connections[who].announcements)
        seen.is_subscribed = is_on

    # -- fires -----------------------------------------------------------------------------------------------

    def payload(self, event: str, value: str | None, do: Mapping[str, str]) -> dict[str, Any]:
        payload: dict[str, Any] = {"do": dict(do), "tool_input": {"n": 0}, "response": None}
        return payload if value is None else payload | {MATCHED[event]: value}

    def without_late_hangs(self, step: Fire) -> dict[str, str]:
        """Let only the first hook of a gate hang: another one's deadline depends on how fast those before it are."""
        seen = [hook for hook in self.oracle.view(step.who) if hook.event == step.event and hook.enabled]
        matching = [hook for hook in seen if hook.match is None or step.value in hook.match]
        called = [hook.id for hook in matching if hook.where != ">= 1"]
        do = step.do
        late = {one for one in do if step.event != GATE or called[:1] != [one]}
        return {one: "exit" if what == "hang" and one in late else what for one, what in do.items()}

    async def fire(self, step: Fire) -> None:
        if step.who not in self.connections:
            return
        do = self.without_late_hangs(step)
        payload = self.payload(step.event, step.value, do)
        params: dict[str, Any] = {"timeout": HANG} if "hang" in do.values() else {}
        before = None if self.place.is_exact else copy.deepcopy(self.oracle)
        decision = await self.connections[step.who].call("fire", event=step.event, payload=payload, **params)
        expected = finished(self.oracle.fire(step.who, step.event, payload), self.oracle)
        found = told(decision)
        if found != expected and before is not None:
            # The end of a quarantine may have come between our look at the clock and the daemon's.
            before.at(trio.current_time())
            expected = finished(before.fire(step.who, step.event, payload), before)
            self.oracle.breakers = before.breakers
        assert found == expected, f"{step}:\n  decided  {found}\n  expected {expected}"
        assert decision["revision"] == self.seen[step.who].revision

    async def hold(self, step: Hold) -> None:
        """Begin a fire, if it comes to the hook in which it is to wait."""
        if step.who not in self.connections or len(self.held) > 1:
            return
        do = {one: "exit" if what == "hang" else what for one, what in step.do.items()}
        do = {**do, step.at: "hold"}
        payload = self.payload(GATE, step.value, do)
        tried = copy.deepcopy(self.oracle)
        if finished(tried.fire(step.who, GATE, payload), tried, is_patient=False) is not None:
            return  # it would not wait
        await self.nursery.start(self.keep, step, payload)

    async def keep(
        self, step: Hold, payload: dict[str, Any], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        decision, answered = list[dict[str, Any]](), trio.Event()
        async with self.place.held() as (key, release, is_waiting):
            playing = self.oracle.fire(step.who, GATE, payload)
            next(playing)
            held = Held(step.who, playing, self.seen[step.who].revision, release, decision, answered)
            async with trio.open_nursery() as nursery:

                async def fire() -> None:
                    params = payload | {"go": key}
                    decision.append(await self.connections[step.who].call("fire", event=GATE, payload=params))
                    answered.set()

                nursery.start_soon(fire)
                await is_waiting()
                self.held.append(held)
                task_status.started()

    async def release(self) -> None:
        """Let the oldest fire go on; what it says is of the moment at which it began."""
        if not self.held:
            return
        held = self.held.pop(0)
        held.release()
        await held.answered.wait()
        [decision] = held.decision
        self.oracle.at(trio.current_time())
        expected = finished(held.playing, self.oracle)
        found = told(decision)
        assert found == expected, f"a fire that was under way:\n  decided  {found}\n  expected {expected}"
        assert decision["revision"] == held.revision

    # -- looking ---------------------------------------------------------------------------------------------

    def expected(self, who: str) -> dict[tuple[str, str], Hook]:
        return {(hook.layer, hook.id): hook for hook in self.oracle.view(who)}

    async def look(self) -> None:
        """Compare what every viewer sees, and what it heard, with what it should."""
        self.oracle.at(trio.current_time())
        for who in (*self.connections,):
            report = await self.ask(who, "hooks")
            order = [(one["layer"], one["id"]) for one in report["hooks"]]
            now, seen = self.expected(who), self.seen[who]
            assert order == list(now), f"{who} sees {order}, not {list(now)}"
            for one in report["hooks"]:
                hook = now[one["layer"], one["id"]]
                state = "active" if hook.enabled else "disabled"
                if hook.enabled and self.oracle.is_quarantined(who, hook):
                    state = "quarantined"
                assert one["state"] == state, f"{who}: {one['id']} is {one['state']}, not {state}"
            if now == seen.hooks:
                assert report["revision"] == seen.revision, f"{who}: a revision without a change"
            else:
                assert report["revision"] > seen.revision, f"{who}: a change without a new revision"
            self.listen(who, seen, now, report["revision"])
            seen.revision, seen.hooks = report["revision"], now

    def listen(self, who: str, seen: Seen, now: dict[tuple[str, str], Hook], revision: int) -> None:
        heard = self.connections[who].announcements[seen.heard :]
        seen.heard += len(heard)
        if not seen.is_subscribed:
            assert not heard, f"{who} hears {heard} without a subscription"
            return
        added, removed, changed = list[str](), list[str](), list[str]()
        for one in heard:
            if "resync" in one:
                seen.chain = one["resync"]
                continue
            assert one["previous"] == seen.chain, f"{who}: {one} does not follow {seen.chain}"
            assert one["revision"] > seen.chain
            seen.chain = one["revision"]
            added, removed, changed = added + one["added"], removed + one["removed"], changed + one["changed"]
        assert seen.chain == revision, f"{who} heard of {seen.chain} and sees {revision}"
        if all("resync" not in one for one in heard):
            old = seen.hooks
            assert sorted(added) == sorted(key[1] for key in now if key not in old)
            assert sorted(removed) == sorted(key[1] for key in old if key not in now)
            assert sorted(changed) == sorted(key[1] for key in now if key in old and old[key] != now[key])


async def play(script: Script, place: Place, prefix: str) -> None:
    """Play a script; what it leaves behind on the daemon is taken away again."""
    oracle = Oracle(place.version)
    async with trio.open_nursery() as nursery:
        stage = Stage(place, oracle, nursery, prefix)
        stage.connections[ADMIN] = admin = await place.connect(is_admin=True)
        hello = await admin.call("hello", protocol=1)
        if not place.is_exact:
            await admin.call("reload")  # whoever played before may have left hooks of these ids quarantined
        stage.seen[ADMIN] = Seen(hello["revision"], {})
        try:
            for step in script:
                await stage.take(step)
                if not isinstance(step, Fire | Hold | Release):
                    await stage.look()
            while stage.held:
                await stage.release()
            await stage.look()
        finally:
            place.drain(is_draining=False)
            for held in stage.held:
                held.release()
            with trio.CancelScope(shield=True):
                for hook_id in list(stage.oracle.admin.own):
                    await admin.call("unregister", id=hook_id)
                for conversation in stage.connections.values():
                    await conversation.close()
            nursery.cancel_scope.cancel()
