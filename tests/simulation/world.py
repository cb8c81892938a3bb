"""The simulated world: the files of hooks, who connects, who fires, and what befalls them.  Judges by `judge`."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

import trio

from simulation.client import Client, ConnectionLost, Refusal
from simulation.judge import Judge, Known, Versions
from simulation.kernel import Kernel, Process
from simulation.ledger import Ledger
from simulation.session import AgentOfWorld
from simulation.sources import BROKEN, CALLED, CONFIG, source_text
from simulation.trouble import DiskTrouble

__all__ = ["World"]

EVERY = 18  # fires between two events of the world
MAX_VIOLATIONS = 20


class World:
    """What outlives a daemon: files, agents, what was acknowledged."""

    def __init__(self, kernel: Kernel, seed: object, folder: str, wanted: int, trouble: DiskTrouble) -> None:
        self.kernel, self.seed, self.folder, self.wanted = kernel, seed, folder, wanted
        self.random = Random(f"{seed} world")
        self.config = f"{folder}/config"
        self.agent_socket, self.admin_socket = f"{folder}/run/agent.sock", f"{folder}/run/admin.sock"
        self.project = f"{folder}/project"
        self.digest = hashlib.sha256()
        self.violations: list[str] = []
        self.faults: Counter[str] = Counter()
        self.fires = 0
        self._nonces = 0
        Client.complain = self.violate
        self.judge = Judge(self.violate, lambda: kernel.now)
        self.ledger = Ledger(f"{folder}/state/record", self.digest, self.violate)
        self.versions = {name: Versions(name, f"{self.config}/hooks.d/{name}.py") for name in ("a", "b", "n", "t", "c")}
        self.versions["s"] = Versions("s", f"{folder}/own/version.py")
        self.called = f"{folder}/own/called.py"
        self.versions["p"] = Versions("p", f"{self.project}/.hooklatch/hooks.d/p.py")
        self.served = Versions("v", "")
        events = {"n": "post_tool_use", "t": "tool_result"}
        self.globals = {
            name: Known(
                name, self.versions[name], events.get(name, "pre_tool_use"), match="Count" if name == "c" else None
            )
            for name in ("a", "b", "n", "t", "c")
        }  # fmt: skip
        self.project_hook = Known("p", self.versions["p"])
        self.project_fault: str | None = None  # why each gate in the project must be denied
        self._fired = trio.Event()
        self._locks = {name: trio.Lock() for name in self.versions}
        self._is_trusted = False  # it was, at least once
        self.agents = [AgentOfWorld(self, f"agent-{n}", self.project if n == 0 else None) for n in range(4)]
        self._admin: Client | None = None
        self.trouble = trouble

    # -- what is wrong ---------------------------------------------------------------------------------------

    def violate(self, text: str) -> None:
        """Note a violation."""
        self.violations.append(f"[{self.fires} fires, {self.kernel.now:.4f} s] {text}")

    def note_lost(self, group: BaseExceptionGroup[Exception]) -> None:
        """Look at why an agent's connection ended."""
        for error in group.exceptions:
            if isinstance(error, ExceptionGroup):
                self.note_lost(error)
            elif isinstance(error, Refusal) and error.name not in (
                "draining",
                "session_in_use",
                "overload",
                "not_found",
            ):
                self.faults[f"refused: {error.name}"] += 1

    @property
    def is_over(self) -> bool:
        return self.fires >= self.wanted or len(self.violations) >= MAX_VIOLATIONS

    # -- files -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Write the files of a new machine."""
        draw = Random(f"{self.seed} settings")
        for folder in (self.config, f"{self.config}/hooks.d", self.project, f"{self.project}/.hooklatch",
                       f"{self.project}/.hooklatch/hooks.d", f"{self.folder}/own"):  # fmt: skip
            os.makedirs(folder, mode=0o700)
            sync(os.path.dirname(folder))
        self.write(self.called, CALLED)
        keep, segment = draw.choice((("0.5", "0.05"), ("0.5", "0.2"), ("64", "0.1"), ("64", "64")))
        self.write(f"{self.config}/hooks.toml", CONFIG.format(
            keep=keep, segment=segment, kept=draw.choice(("true", "false")), workers=draw.choice((2, 4)),
            calls=draw.choice((40, 10_000)),
        ))  # fmt: skip
        self.is_kept = "kept = true" in self.read(f"{self.config}/hooks.toml")
        for versions in self.versions.values():
            self.write(versions.path, source_text(versions.name, 1))

    def read(self, path: str) -> str:
        with open(path) as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        """Replace a file in one step, and have it on the disk."""
        with open(f"{path}.new~", "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new~", path)
        sync(os.path.dirname(path))

    def repair(self) -> None:
        """Make each file whole, before a new daemon starts."""
        for versions in self.versions.values():
            if versions.is_broken or versions.written < versions.highest:
                versions.highest += 1
                self.write(versions.path, source_text(versions.name, versions.highest))
                versions.written, versions.is_broken = versions.highest, False
                self.judge.blow("load")
                if versions.name == "p":
                    self._change_project()

    async def edit(self, name: str) -> None:
        """Write a new version of a file: in one step, or in two with a moment between them."""
        async with self._locks[name]:  # else it were unknown which of two versions is there in the end
            await self._edit(name)

    async def _edit(self, name: str) -> None:
        versions, draw = self.versions[name], self.random
        versions.highest += 1
        text = source_text(name, versions.highest)
        if name == "p":
            self.project_hook.stamp += 1
            self.project_hook.is_certain = False
        if draw.random() < 0.3:
            self.faults["file_written_slowly"] += 1
            self.judge.blow("load")
            half = int(len(text) * (0.1 + 0.6 * draw.random()))
            with open(versions.path, "w") as file:
                file.write(text[:half] + "\n(")
                file.flush()
                await trio.sleep(draw.random() * 0.3)
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        else:
            self.faults["file_edited"] += 1
            self.write(versions.path, text)
        versions.written, versions.is_broken = versions.highest, False
        if name == "p":
            self._change_project()

    # -- fires -----------------------------------------------------------------------------------------------

    async def fire(
        self, client: Client, event: str, tool: str, do: dict[str, str], hooks: list[Known], *, in_project: bool = False
    ) -> None:
        """Fire, and have the decision judged."""
        self._nonces += 1
        nonce = f"q{self._nonces}"
        asked = self.judge.begin(event, nonce, do, hooks, tool)
        fault = self.project_fault if in_project and event == "pre_tool_use" else None
        if tool == "Count":
            self.judge.counted += 1
        payload = {"tool_name": tool, "tool_input": {"n": 1}, "do": do, "nonce": nonce}
        if event != "pre_tool_use":
            payload["tool_response"] = {}
        decision = await client.call("fire", event=event, payload=payload)
        self.fires += 1
        self._fired.set()
        if in_project and fault is not None and self.project_fault == fault:
            asked.must_deny = fault
        self.digest.update(repr(sorted(decision.items(), key=lambda item: item[0])).encode())
        self.judge.end(asked, decision)
        if decision.get("record") is not None:
            with self.kernel.acting_as(self.kernel.init):  # its calls do not fail: they are not the daemon's
                self.ledger.told(decision["decision_id"], decision["record"], self.kernel.now)

    # -- the administrator -----------------------------------------------------------------------------------

    async def administer(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be the administrator: answer asks, and be there for what the world does."""
        while True:
            try:
                async with trio.open_nursery() as nursery:
                    client = Client(self.kernel, self.admin_socket)
                    nursery.start_soon(client.run)
                    await client.call("hello", protocol=1)
                    await client.call("subscribe", topics=["asks", "operations"])
                    self._admin = client
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
                    seen = 0
                    while not client.is_over:
                        await client.heard.wait()
                        client.heard = trio.Event() if not client.is_over else client.heard
                        for one in client.announcements[seen:]:
                            if one.get("topic") == "asks" and "opened" in one:
                                nursery.start_soon(self._answer, client, one["opened"])
                        seen = len(client.announcements)
                    nursery.cancel_scope.cancel()
            except* (ConnectionLost, Refusal):
                pass
            finally:
                self._admin = None
            await trio.sleep(0.02)

    async def _answer(self, client: Client, ask: dict[str, Any]) -> None:
        await trio.sleep(self.random.random() * 0.3)
        verdict = "allow" if self.random.random() < 0.5 else "deny"
        self.judge.answers[ask["id"]] = verdict  # before: its answer may overtake ours
        try:
            await client.call("answer_ask", id=ask["id"], verdict=verdict, reason="I say so", by="sim")
        except (ConnectionLost, Refusal):
            self.judge.answers.pop(ask["id"], None)

    async def ask(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Have the administrator request something. None if there was no answer."""
        if self._admin is None:
            return None
        try:
            return await self._admin.call(method, **params)
        except (ConnectionLost, Refusal):
            return None

    async def reload(self) -> None:
        """Reload by hand, after which what was written before is in force."""
        written = {one: one.written for one in self.versions.values() if one.name != "p" and one.written == one.highest}
        broken = [one for one in self.versions.values() if one.is_broken]
        result = await self.ask("reload")
        if result is None:
            return
        wrong = " ".join(str(one) for one in result["diagnostics"])
        for one, version in written.items():
            if os.path.dirname(one.path) not in wrong if one.name == "s" else one.path not in wrong:
                one.lowest = max(one.lowest, version)
        for one in broken:
            if one.is_broken and one.path not in wrong:
                self.violate(f"E: a broken file is not reported: {one.path} {wrong}")

    def _change_project(self) -> None:
        if self._is_trusted:
            self.project_fault = "the project has changed"

    async def trust(self) -> None:
        """Trust the project as it is."""
        async with self._locks["p"]:  # else it were unknown which of its versions is trusted
            await self._trust()

    async def _trust(self) -> None:
        versions = self.versions["p"]
        if versions.written != versions.highest or versions.is_broken:
            return
        version = versions.written
        result = await self.ask("trust", folder=self.project)
        self._is_trusted = self._is_trusted or result is not None
        if result is not None:
            self.project_fault = None
        if result is not None and not result["diagnostics"]:
            versions.lowest = version
            with self.project_hook.changing(is_certain=True):
                pass

    # -- what befalls it -------------------------------------------------------------------------------------

    def of_kind(self, name: str) -> list[Process]:
        return [one for one in self.kernel.processes.values() if one.name == name and not one.is_dead]

    def kill_one(self, name: str) -> None:
        found = self.of_kind(name)
        if found:
            self.faults[f"{name}_killed"] += 1
            self.judge.blow()
            self.random.choice(found).end(-9)

    async def stop_one(self, name: str) -> None:
        """Stop a process for a while (SIGSTOP)."""
        found = self.of_kind(name)
        if found:
            self.faults[f"{name}_stopped"] += 1
            process = self.random.choice(found)
            process.is_stopped = True
            self.judge.blow()
            await trio.sleep(self.random.random() ** 2 * 3.0)
            self.judge.blow()
            process.is_stopped = False
            for strand in process.strands:
                strand.wake()

    async def break_file(self) -> None:
        """Have a file be broken for a while."""
        name = self.random.choice(("a", "b", "n", "c"))
        versions = self.versions[name]
        self.faults["file_broken"] += 1
        async with self._locks[name]:
            versions.highest += 1
            versions.is_broken = True
            self.judge.blow("load")
            self.write(versions.path, BROKEN)
        if self.random.random() < 0.7:
            await self.reload()
            health = await self.ask("health")
            if health is not None and health["health"] == "ready":
                self.violate(f"E: all is green with a broken file: {health}")
        await trio.sleep(self.random.random())
        self.judge.blow("load")
        await self.edit(name)
        await self.reload()

    async def switch_global(self) -> None:
        """Disable a guard of the operator's, and enable it again."""
        name = self.random.choice(("a", "b"))
        hook = self.globals[name]
        self.faults["hook_disabled"] += 1
        with hook.changing(is_certain=False):
            if await self.ask("disable", id=f"{name}:{name}", scope="global") is None:
                return
        await trio.sleep(self.random.random() * 0.2)
        is_enabled = False
        while not is_enabled:
            is_enabled = await self.ask("enable", id=f"{name}:{name}", scope="global") is not None
            await trio.sleep(0.02)
        with hook.changing(is_certain=True):
            pass

    async def suspend(self) -> None:
        name = self.random.choice(("a", "b"))
        hook = self.globals[name]
        self.faults["hook_suspended"] += 1
        with hook.changing(is_certain=False):
            if await self.ask("suspend", id=f"{name}:{name}", seconds=600, reason="sim") is None:
                return
        await trio.sleep(self.random.random() * 0.2)
        while await self.ask("resume", id=f"{name}:{name}") is None:
            await trio.sleep(0.02)
        with hook.changing(is_certain=True):
            pass

    async def shift_clock(self) -> None:
        self.faults["clock_moved"] += 1
        self.kernel.skew += self.random.choice((-3600.0, -5.0, 1.0, 3600.0, 86_400.0))

    async def stall_client(self) -> None:
        agent = self.random.choice(self.agents)
        client = agent._client
        if client is not None:
            self.faults["client_stalled"] += 1
            client.is_stalled = True
            self.judge.blow()
            await trio.sleep(self.random.random() * 2.0)
            client.is_stalled = False

    async def drop_client(self) -> None:
        agent = self.random.choice(self.agents)
        if agent._client is not None:
            self.faults["client_killed"] += 1
            agent._client.end()

    async def fail_disk(self) -> None:
        self.faults[self.trouble.begin()] += 1
        self.judge.blow("disk")
        try:
            await trio.sleep(self.random.random() * 0.4)
        finally:  # also where the life ends meanwhile
            self.trouble.end()
            self.judge.blow("disk")

    async def hang_up(self) -> None:
        """Send the daemon SIGHUP."""
        self.faults["sighup"] += 1
        signal.raise_signal(signal.SIGHUP)
        await trio.sleep(0)

    async def _one_shot(self) -> None:
        await self._fire_once({"a": "deny"} if self.random.random() < 0.5 else {})

    async def _fire_once(self, do: dict[str, str]) -> None:
        """Fire once over a connection of its own."""
        try:
            async with trio.open_nursery() as nursery:
                client = Client(self.kernel, self.agent_socket)
                nursery.start_soon(client.run)
                await self.fire(client, "pre_tool_use", "Bash", do, [*self.globals.values()])
                client.end()
        except* (ConnectionLost, Refusal):
            pass

    async def _abandon(self) -> None:
        """Leave in the middle of a gate, whose hook runs on: the record has it, and its worker is busy until then."""
        self.faults["gate_abandoned"] += 1
        daemon, began = self.kernel.daemon, self.kernel.now
        self._nonces += 1
        params = {
            "event": "pre_tool_use", "call_id": (left := f"left-{self._nonces}"),
            "payload": {"tool_name": "Bash", "tool_input": {"n": 1}, "do": {"a": "slow:0.4"}, "nonce": left},
        }  # fmt: skip
        is_refused = False  # an answer that says that there is no decision
        try:
            async with trio.open_nursery() as nursery:
                client = Client(self.kernel, self.agent_socket)
                nursery.start_soon(client.run)
                nursery.start_soon(partial(client.call, "fire", **params))
                await trio.sleep(0.02 + 0.3 * self.random.random())
                client.end()
        except* ConnectionLost:
            pass
        except* Refusal:
            is_refused = True
        for _ in range(12):
            with self.kernel.acting_as(self.kernel.init):
                is_recorded = self.ledger.has(left)
            if is_recorded:
                return
            await trio.sleep(1.0)
        # After a failed sync the record takes nothing for a while, not even this.
        is_calm = self.judge.blows.get("disk", 0.0) < began - 15.0 and self.judge.blows["start"] < began
        if is_calm and not is_refused and self.kernel.daemon is daemon and not daemon.is_dead:
            self.violate(f"F: a gate that its client left is not on record: {left}")

    async def flood(self, seconds: float = 0.02) -> None:
        """Fire from many clients at once: each waits its turn, and gets it."""
        self.faults["flood"] += 1
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(self._fire_once, {"a": f"slow:{seconds}"})

    def _events(self) -> list[tuple[int, Callable[[], Awaitable[None]]]]:
        async def kill(name: str) -> None:
            self.kill_one(name)

        async def edit() -> None:
            await self.edit(self.random.choice(("a", "a", "b", "b", "n", "t", "c", "s", "s", "p")))
            if self.random.random() < 0.6:
                await self.reload()

        return [
            (14, edit), (5, self.trust), (6, lambda: kill("worker")), (2, lambda: kill("zygote")),
            (1, lambda: kill("guardian")), (3, lambda: self.stop_one("worker")), (1, lambda: self.stop_one("zygote")),
            (3, self.break_file), (3, self.switch_global), (2, self.suspend), (2, self.shift_clock),
            (2, self.stall_client), (2, self.drop_client), (2, self.hang_up), (4, self._one_shot), (2, self.fail_disk),
            (4, self._abandon), (3, self.flood),
        ]  # fmt: skip

    async def befall(self) -> None:
        """Let one thing happen after every few fires."""
        weights, events = zip(*self._events(), strict=True)
        async with trio.open_nursery() as nursery:
            while True:
                goal = self.fires + EVERY
                while self.fires < goal:
                    with trio.move_on_after(2.0):
                        await self._fired.wait()
                    self._fired = trio.Event()
                    goal -= 1 if self.fires < goal else 0  # where nothing can be fired, the world goes on
                [event] = self.random.choices(events, weights)
                if self.random.random() < 0.3:
                    nursery.start_soon(event)  # and the next one may come meanwhile
                else:
                    await event()


def sync(folder: str) -> None:
    """Have a folder's names on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)
