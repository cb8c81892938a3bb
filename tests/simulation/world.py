"""The simulated world: the files of hooks, who connects, who fires, and what befalls them.  Judges by `judge`."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

import trio

from simulation.administrator import Administrator
from simulation.client import Client, Refusal, connected
from simulation.judge import ACTIVE, LONG, SUSPENDED_FOR, Judge, Known, Versions, find_state, request_change
from simulation.kernel import Kernel, Process
from simulation.ledger import Ledger
from simulation.session import AgentOfWorld
from simulation.sources import BROKEN, CALLED, CONFIG, PASSING, source_text, sync
from simulation.trouble import DiskTrouble

__all__ = ["World"]

DOOMED = 0.1  # seconds after which a daemon that is doomed dies at one of its next calls
SLACK = 2**12  # bytes that are written after retention has counted
EVERY = 18  # fires between two events of the world
INPUTS = {"Bash": {"command": "ls"}, "Edit": {"path": "/a"}, "Count": {"n": 1}}  # what a tool of its kind must say
EVENTS = {"n": "post_tool_use", "t": "post_model"}
EDITED = ("a", "a", "b", "b", "n", "t", "c", "s", "s", "p")
STATES = (ACTIVE, "disabled", "suspended", "gone")


class World:
    """What outlives a daemon: files, agents, what was acknowledged."""

    max_violations = 20

    def __init__(self, kernel: Kernel, seed: object, folder: str, wanted: int, trouble: DiskTrouble) -> None:
        self.kernel, self.seed, self.folder, self.wanted, self.trouble = kernel, seed, folder, wanted, trouble
        self.random, self._settings = Random(f"{seed} world"), Random(f"{seed} settings")
        self.config, self.project = f"{folder}/config", f"{folder}/project"
        self.agent_socket, self.admin_socket = f"{folder}/run/agent.sock", f"{folder}/run/admin.sock"
        self.called = f"{folder}/own/called.py"
        self.digest = hashlib.sha256()
        self.violations: list[str] = []
        self.faults: Counter[str] = Counter()
        self.fires = self._nonces = 0
        Client.complain = self.violate
        self.judge = Judge(self.violate, lambda: kernel.now)
        self.ledger = Ledger(f"{folder}/state/record", self.digest, self.violate)
        paths = {name: f"{self.config}/hooks.d/{name}.py" for name in "abntc"}
        paths |= {"s": f"{folder}/own/version.py", "p": f"{self.project}/.hooklatch/hooks.d/p.py"}
        self.versions = {name: Versions(name, path) for name, path in paths.items()}
        self.globals = {
            name: Known(name, self.versions[name], EVENTS.get(name, "pre_tool_use"), match=match, id=name)
            for name, match in (*((name, None) for name in "abnt"), ("c", "Count"))
        }
        self.globals["g"] = Known("g", self.versions["s"], state="gone", id="g")  # an administrator's registration
        self.kept: dict[str, str | None] = {}  # states that were acknowledged as stored, and are not being changed
        self.project_hook = Known("p", self.versions["p"])
        self.project_fault: str | None = None  # why each gate in the project must be denied
        self.is_kept = self._settings.random() < 0.7  # whether shared state is
        self.is_synced = False  # whether answers wait for the disk
        self.is_doomed = False  # the daemon is killed soon
        self.doomed_at = ""  # while it changes a file with this in its path
        self._fired = trio.Event()
        self._locks = {name: trio.Lock() for name in (*self.versions, *self.globals)}
        self._is_trusted = False  # it was, at least once
        self.agents: list[AgentOfWorld] = []
        self.agents.extend(AgentOfWorld(self, number) for number in range(4))
        self.administrator = Administrator(kernel, self.random, self.judge, self.admin_socket)
        self.ask = self.administrator.ask
        self._believed_at = 0.0  # when the daemon has believed its state, for certain

    def violate(self, text: str) -> None:
        """Note a violation."""
        self.violations.append(f"[{self.fires} fires, {self.kernel.now:.4f} s] {text}")

    @property
    def is_over(self) -> bool:
        return self.fires >= self.wanted or len(self.violations) >= self.max_violations

    def prepare(self) -> None:
        """Write the files of a new machine."""
        for folder in (self.config, f"{self.config}/hooks.d", self.project, f"{self.project}/.hooklatch",
                       f"{self.project}/.hooklatch/hooks.d", f"{self.folder}/own"):  # fmt: skip
            os.makedirs(folder, mode=0o700)
            sync(os.path.dirname(folder))
        self.write(self.called, CALLED)
        for versions in self.versions.values():
            self.write(versions.path, source_text(versions.name, 1))

    def write_settings(self) -> None:
        """Have other settings in the next life."""
        draw = self._settings
        keep, segment = draw.choice(((0.5, 0.05), (0.5, 0.2), (2, 0.1), (2, 2)))
        durability = draw.choice(("written", "sync"))
        self.is_synced = durability == "sync"
        workers, calls, days = draw.choice((2, 4)), draw.choice((40, 10_000)), draw.choice((30, 30, 0.02))
        self.ledger.least = keep * 2**20 - SLACK if days == 30 else 0.0
        self.write(f"{self.config}/hooks.toml", CONFIG.format(
            keep=keep, segment=segment, kept=str(self.is_kept).lower(), workers=workers, calls=calls,
            durability=durability, days=days,
        ))  # fmt: skip

    def write(self, path: str, text: str) -> None:
        """Replace a file in one step, and have it on the disk."""
        with open(f"{path}.new~", "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new~", path)
        sync(os.path.dirname(path))

    def repair(self) -> None:
        """Make each file whole, before a new daemon starts, but for some that it does not find."""
        for versions in self.versions.values():
            if versions.is_gone and self.random.random() < 0.7:
                self.faults["file_gone_at_start"] += 1
                self.judge.blow("file")
            elif versions.is_broken or versions.written < versions.highest:
                self.write(versions.path, source_text(versions.name, versions.begin()))
                self._wrote(versions)
                self.judge.blow("file")

    def _wrote(self, versions: Versions) -> None:
        versions.written, versions.written_at = versions.highest, self.kernel.now
        versions.is_broken = versions.is_gone = False
        if versions.name == "p" and self._is_trusted:
            self.project_fault = "the project has changed"

    async def edit(self, name: str) -> None:
        """Write a new version of a file: in one step, or in two with a moment between them."""
        async with self._locks[name]:  # else it were unknown which of two versions is there in the end
            versions, draw = self.versions[name], self.random
            text = source_text(name, versions.begin())
            if name == "p":
                self.judge.blow("project")
                self.project_hook.become(None)
            if draw.random() < 0.3:
                self.faults["file_written_slowly"] += 1
                self.judge.blow("file")
                half = int(len(text) * (0.1 + 0.6 * draw.random()))
                with open(versions.path, "w") as file:
                    file.write(f"{text[:half]}\n(")
                    file.flush()
                    await trio.sleep(draw.random() * 0.3)
                    file.seek(0)
                    file.truncate()
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                sync(os.path.dirname(versions.path))  # it may have been gone
            else:
                self.faults["file_edited"] += 1
                self.write(versions.path, text)
            self._wrote(versions)

    async def break_file(self) -> None:
        """Have a file be broken, or gone, for a while: perhaps until after the next start."""
        name = self.random.choice(("a", "b", "n", "c"))
        versions = self.versions[name]
        async with self._locks[name]:
            if versions.is_broken:
                return
            versions.begin()
            versions.is_broken, versions.is_gone = True, self.random.random() < 0.5
            self.faults["file_gone" if versions.is_gone else "file_broken"] += 1
            self.judge.blow("file")
            if versions.is_gone:
                os.unlink(versions.path)
                sync(os.path.dirname(versions.path))
                self.is_doomed = self.random.random() < 0.7
            else:
                self.write(versions.path, BROKEN)
        if self.random.random() < 0.7:
            await self.reload()
            health = await self.ask("health")
            if health is not None and health["health"] == "ready":
                self.violate(f"E: all is green with a broken file: {health}")
        await trio.sleep(self.random.random())
        self.judge.blow("file")
        await self.edit(name)
        await self.reload()

    async def fire(
        self, client: Client, event: str, tool: str, do: dict[str, str], hooks: list[Known], *, in_project: bool = False
    ) -> None:
        """Fire, and have the decision judged."""
        self._nonces += 1
        nonce = f"q{self._nonces}"
        asked, watched = self.judge.begin(event, nonce, do, hooks, tool), self.administrator.watched
        fault = self.project_fault if in_project and event == "pre_tool_use" else None
        if tool == "Count":
            self.judge.counted += 1
        payload = {"tool_name": tool, "tool_input": INPUTS[tool], "do": do, "nonce": nonce}
        if event != "pre_tool_use":
            payload["response"] = {}
        decision = await client.call("fire", event=event, payload=payload)
        self.fires += 1
        self._fired.set()
        if in_project and fault is not None and self.project_fault == fault:
            asked.must_deny = fault
        self.digest.update(repr(sorted(decision.items(), key=lambda item: item[0])).encode())
        self.judge.end(asked, decision)
        if watched is not None:
            self.administrator.expect(watched, decision)
        if decision.get("record") is not None:
            # What waited for the disk is there whatever happens; any other for all that was written before some time.
            is_promised = self.is_synced and event == "pre_tool_use" and decision["cause"] != "audit"
            with self.kernel.acting_as(self.kernel.init):  # its calls do not fail: they are not the daemon's
                self.ledger.told(decision, client.session, -1.0 if is_promised else self.kernel.now)

    # -- what the administrator does ---------------------------------------------------------------------------

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

    async def trust(self) -> None:
        """Trust the project as it is."""
        async with self._locks["p"]:  # else it were unknown which of its versions is trusted
            versions = self.versions["p"]
            if versions.written != versions.highest or versions.is_broken:
                return
            version = versions.written
            self.project_fault = None  # from now on, and without an answer, it may be trusted, or not
            if self.project_hook.state != ACTIVE:
                self.project_hook.become(None)
            result = await self.ask("trust", folder=self.project)
            is_stored = result is not None and not result.get("warnings")  # else a start may lose it
            self._is_trusted = self._is_trusted or is_stored
            if result is not None and not result["diagnostics"]:
                versions.lowest = version
                self.project_hook.become(ACTIVE)

    async def untrust(self) -> None:
        """Trust the project no more: its hook is not called, also after a start."""
        async with self._locks["p"]:
            self.project_fault = None
            self.project_hook.become(None)
            answer = await self.ask("untrust", folder=self.project)
            if answer is not None:
                self._is_trusted = False
                self.project_hook.become("gone" if not answer.get("warnings") else None)  # it may come back by a start

    async def change(self, hook: Known, to: str) -> None:
        """Bring a hook to a state, and know whether that is stored."""
        if hook.state == "gone":
            hook.registered = max(hook.registered, self.versions["s"].written)
        method, params = request_change(hook, to, f"{self.called}:called")
        self.kept.pop(hook.name, None)
        hook.become(None)
        began = self.kernel.wall
        result = await self.ask(method, **params)
        if result is None:
            return
        hook.until = began + SUSPENDED_FOR
        hook.become(to)
        if not result.get("warnings"):
            self.kept[hook.name] = to
        if to == ACTIVE and hook.event != "pre_tool_use":
            await trio.sleep(0.01)  # what is on its way arrives
            for agent in self.agents:
                agent.check_permits(hook)

    async def switch(self) -> None:
        """Change the state of a hook of the operator's, and nearly always change it back."""
        hook = self.globals[self.random.choice("abgnt")]
        async with self._locks[hook.name]:
            if hook.state != ACTIVE:
                await self.settle(hook, await self.ask("hooks"))
                return
            to = "gone" if hook.name == "g" and self.random.random() < 0.5 else self.random.choice(
                ("disabled", "suspended")
            )  # fmt: skip
            self.faults[f"hook_{to}"] += 1
            doom = self.random.random()
            if doom < 0.4:
                self.is_doomed, self.doomed_at = True, "/state."  # what was not acknowledged may be there, or not
                await trio.sleep(DOOMED)
            await self.change(hook, to)
            if doom < 0.55:
                self.is_doomed = True  # what was acknowledged just now is there after a crash
                return
            await trio.sleep(self.random.random() ** 2 * 1.5)
            if hook.state == to and self.random.random() < 0.7:
                await self.change(hook, ACTIVE)

    async def settle(self, hook: Known, report: dict[str, Any] | None) -> None:
        """Have a hook be active, whatever it is."""
        if report is None:
            return
        hook.become(find_state(hook, report))
        while hook.state is not None and hook.state != ACTIVE:
            await self.change(hook, ACTIVE)

    def forget(self) -> None:
        """Take note that the daemon is another one: its hooks have the states that were stored, or unknown ones."""
        for name, hook in self.globals.items():
            hook.become(None)
            if self.judge.blows["disk"] > self.kernel.now - 20.0:
                self.kept.pop(name, None)  # a disk that failed may have lost it
            if self.kept.get(name) == "suspended" and (left := hook.until - self.kernel.wall) < 30.0:
                self.kept[name] = ACTIVE if left < -30.0 else None
        if self.judge.blows["disk"] > self.kernel.now - 20.0:
            self.project_hook.become(None)
        for agent in self.agents:
            agent.forget()

    async def confirm(self) -> None:
        """Load what is there by hand after a start: then the operator's guards are in force as they were."""
        report, gone = None, [one for one in self.versions.values() if one.is_gone]
        while report is None:
            await trio.sleep(0.05)
            if self.administrator.client is not None:
                await self._accept_state()
                await self.reload()
                report = await self.ask("hooks")
        for name, hook in self.globals.items():
            found, kept = find_state(hook, report), self.kept.get(name)
            if found == "inactive" and hook.versions in gone:
                found = kept or ACTIVE  # as it will be once its file is back
            if found not in STATES or (kept is not None and found != kept) or (found == "gone" and name != "g"):
                self.violate(f"G: {name} is {found} after a start, and was {kept}")
        for name, hook in self.globals.items():
            async with self._locks[name]:
                if hook.state is None:
                    await self.settle(hook, await self.ask("hooks"))
        for versions in gone:
            await self.edit(versions.name)

    async def _accept_state(self) -> None:
        """Go on with the state that is there, where a failed write has left one that the daemon does not believe."""
        answer = await self.ask("accept_state")
        if answer is None:
            return
        if answer["fault"] is not None:
            self.faults["state_accepted"] += 1
            self.kept.clear()
            self.project_hook.become(None)
            if not self.trouble.has_failed_since(self._believed_at):
                self.violate(f"G: the state is not believed, and no disk has failed: {answer}")
        self._believed_at = self.kernel.now

    # -- what befalls it -------------------------------------------------------------------------------------

    @contextmanager
    def dealing(self, fault: str, kind: str = "process") -> Generator[None]:
        """Count a fault, which may cost gates their answers from now on, and still does right after the block."""
        self.faults[fault] += 1
        self.judge.blow(kind)
        try:
            yield
        finally:  # also where the life ends meanwhile
            self.judge.blow(kind)

    def of_kind(self, name: str) -> list[Process]:
        return [one for one in self.kernel.processes.values() if one.name == name and not one.is_dead]

    async def kill(self, name: str) -> None:
        if found := self.of_kind(name):
            self.faults[f"{name}_killed"] += 1
            self.judge.blow("worker" if name == "worker" else "process")  # another worker is there at once
            self.random.choice(found).end(-9)

    async def stop(self, name: str) -> None:
        """Stop a process for a while (SIGSTOP)."""
        if found := self.of_kind(name):
            process = self.random.choice(found)
            process.is_stopped = True
            with self.dealing(f"{name}_stopped"):
                try:
                    await trio.sleep(self.random.random() ** 2 * 3.0)
                finally:
                    process.go_on()

    async def refuse_forks(self) -> None:
        """Have no process be started for a while (RLIMIT_NPROC)."""
        self.kernel.is_full = True
        with self.dealing("fork_refused"):
            try:
                await trio.sleep(self.random.random())
            finally:
                self.kernel.is_full = False

    async def shift_clock(self) -> None:
        """Move the wall clock while a hook is suspended, which has nothing to do with it."""
        async with self._locks[(hook := self.globals[self.random.choice("abgnt")]).name]:
            if hook.state == ACTIVE:
                await self.change(hook, "suspended")
            self.faults["clock_moved"] += 1
            self.kernel.skew += self.random.choice((-3600.0, -5.0, 1.0, 3600.0, 86_400.0))
            if hook.state == "suspended":
                await trio.sleep(self.random.random())
                await self.change(hook, ACTIVE)

    async def stall_client(self) -> None:
        if (client := self.random.choice(self.agents).client) is not None:
            self.faults["client_stalled"] += 1
            client.is_stalled = True
            self.judge.blow()
            await trio.sleep(self.random.random() * 2.0)
            client.is_stalled = False

    async def drop_client(self) -> None:
        clients = [*(agent.client for agent in self.agents), self.administrator.client]
        if (client := self.random.choice(clients)) is not None:
            self.faults["client_killed"] += 1
            client.end()

    async def fail_disk(self) -> None:
        with self.dealing(self.trouble.begin(), "disk"):
            try:
                await trio.sleep(self.random.random() * 0.4)
            finally:
                self.trouble.end()
        self.is_doomed = self.random.random() < 0.3  # what the disk has lost shows after a crash

    async def hang_up(self) -> None:
        """Send the daemon SIGHUP."""
        self.faults["sighup"] += 1
        signal.raise_signal(signal.SIGHUP)
        await trio.sleep(0)

    async def fire_once(self, do: dict[str, str] | None = None, after: float = 0.0) -> None:
        """Fire once over a connection of its own, which is idle for so long."""
        do = {"a": "deny"} if do is None and self.random.random() < 0.5 else do or {}
        async with connected(self.kernel, self.agent_socket) as (client, _):
            await trio.sleep(after)
            await self.fire(client, "pre_tool_use", "Bash", do, [*self.globals.values()])

    async def come_and_go(self) -> None:
        """Leave in the middle of a registration, whose worker may not be there yet."""
        self.faults["registration_abandoned"] += 1
        self._nonces += 1
        self.write(path := f"{self.folder}/own/passing.py", PASSING.format(number=self._nonces))
        table = {"id": "passing", "event": "pre_tool_use", "run": f"{path}:called"}
        session = {"id": f"passing-{self._nonces}", "host": "generic"}
        async with connected(self.kernel, self.agent_socket) as (client, nursery):
            await client.call("hello", protocol=1, client={"name": "sim", "version": "1"}, session=session)
            nursery.start_soon(partial(client.call, "register", hooks=[table]))
            await trio.sleep(self.random.random() ** 2 * 0.02)

    async def abandon(self) -> None:
        """Leave in the middle of a gate, whose hook runs on: the record has it, and its worker is busy until then."""
        self.faults["gate_abandoned"] += 1
        daemon, began = self.kernel.daemon, self.kernel.now
        self._nonces += 1
        what = self.random.choice(("slow:0.4", "slow:0.4", "ask"))
        params = {
            "event": "pre_tool_use", "call_id": (left := f"left-{self._nonces}"),
            "payload": {"tool_name": "Bash", "tool_input": INPUTS["Bash"], "do": {"a": what}, "nonce": left},
        }  # fmt: skip
        is_refused = False  # an answer that says that there is no decision

        async def fire(client: Client) -> None:
            nonlocal is_refused
            try:
                await client.call("fire", **params)
            except Refusal:
                is_refused = True

        async with connected(self.kernel, self.agent_socket) as (client, nursery):
            nursery.start_soon(fire, client)
            await trio.sleep(0.02 + 0.3 * self.random.random())
        for _ in range(12):
            with self.kernel.acting_as(self.kernel.init):
                is_recorded = self.ledger.has(left)
            if is_recorded:
                return
            await trio.sleep(1.0)
        # After a failed sync the record takes nothing for a while, not even this.
        is_calm = self.judge.blows["disk"] < began - 15.0 and self.judge.blows["start"] < began
        if is_calm and not is_refused and self.kernel.daemon is daemon and not daemon.is_dead:
            self.violate(f"F: a gate that its client left is not on record: {left}")

    async def flood(self, count: int, what: str) -> None:
        """Fire from many clients at once: each waits its turn, and gets it, or hears in time that it will not."""
        # A quick one takes a worker from nobody for long: who does not get one then has been forgotten.
        with self.dealing("flood", "flood" if what == LONG else "quick flood"):
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(self.fire_once, {"a": what})

    async def look_around(self) -> None:
        """Look at a daemon at which nothing happens: all has returned to where it began."""
        async with connected(self.kernel, self.admin_socket) as (client, _):
            await client.call("hello", protocol=1)
            for pause in (4.0,) * 9 + (0.0,):  # a hook of a notification may hang for 30 s
                status, asks = await client.call("status"), await client.call("asks")
                sources, alive = status["sources"], len(self.of_kind("worker"))
                known = sum(len(one["pids"]) + one["starting"] for one in sources) + 1  # the spare of the zygote
                twice = {place for place, n in Counter(one["source"] for one in sources).items() if n > 1}
                starting = sum(one["starting"] for one in sources)
                if alive <= known and not twice and not starting and not asks["asks"]:
                    return
                await trio.sleep(pause)
            workers = f"{alive} workers live, {known} are known, of them {starting} start"
            self.violate(f"D: {workers}; of replaced versions: {twice}; asks: {asks}")

    def _events(self) -> list[tuple[int, Callable[[], Awaitable[None]]]]:
        async def edit() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(self.random.choice((1, 1, 2))):
                    nursery.start_soon(self.edit, self.random.choice(EDITED))
            if self.random.random() < 0.3:  # else the daemon notices by itself
                await self.reload()

        async def switch() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(self.random.choice((1, 1, 3))):
                    nursery.start_soon(self.switch)

        return [
            (14, edit), (5, self.trust), (6, partial(self.kill, "worker")), (2, partial(self.kill, "zygote")),
            (1, partial(self.kill, "guardian")), (3, partial(self.stop, "worker")), (1, partial(self.stop, "zygote")),
            (3, self.break_file), (9, switch), (2, self.shift_clock), (2, self.stall_client),
            (2, self.drop_client), (2, self.hang_up), (4, self.fire_once), (3, self.fail_disk), (4, self.abandon),
            (3, partial(self.flood, 10, "slow:0.02")), (1, partial(self.flood, 40, LONG)),
            (1, self.refuse_forks), (3, self.come_and_go), (1, self.untrust),
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
                if self.random.random() < 0.4:
                    nursery.start_soon(event)  # and the next one may come meanwhile
                else:
                    await event()
