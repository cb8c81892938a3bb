"""The lives of daemons in the simulated world: each starts, serves, and is stopped, killed or loses its power.

A killed daemon is a ghost: its descriptors are gone and its disk is as it was at that moment, whatever its tasks still
do while they end.  The next daemon gets that disk.  In a quiet life nothing befalls it, and the scripts of
`tests/model` are played on it, beside their oracle.
"""

from __future__ import annotations

import os
import signal
from random import Random
from typing import Any

import trio

from hooklatch.record.settings import RecordSettings
from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordWriter
from hooklatch.service import daemon as daemon_module
from hooklatch.service.daemon import Daemon, open_daemon
from hooklatch.service.folders import DaemonOptions, StartError
from hooklatch.service.service_manager import Notifier
from model.place import FolderPlace
from model.play import play
from model.scripts import STEP, decoded
from simulation.client import Client, Refusal
from simulation.kernel import DAEMON_FDS, Process
from simulation.machine import Machine
from simulation.world import DOOMED, World

__all__ = ["Lives"]

SCRIPTS = 0.12  # how many of the lives are quiet ones
IMAGES = 4  # of what a loss of power may leave
PROMISE = 0.06  # seconds after which an answer's entry is on the disk, and a millisecond or two of a step
QUIET = 16.0  # seconds after which no hook hangs any more
LEAVE = 3.0  # seconds in which all that a daemon started is gone


class Lives:
    """The lives of daemons in one world."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world, self._machine, self._disk = world, machine, machine.disk
        self._kernel = world.kernel
        self._random = Random(f"{world.seed} lives")
        self._options = options_in(world.folder)
        self._played = 0
        self._promised: float | None = None

    async def run(self) -> None:
        """Live on until enough was fired."""
        self._world.prepare()
        try:
            while not self._world.is_over:
                if self._random.random() < SCRIPTS:
                    await self._quiet_life()
                else:
                    await self._life()
        except* Exception as group:
            self._world.violate(f"A: the world cannot understand what it is told: {first_of(group)!r}")

    def _begin(self) -> Process:
        kernel = self._kernel
        process = kernel.daemon = Process(kernel, kernel.init, "daemon")
        process.first_fd = DAEMON_FDS
        self._world.faults["daemon_started"] += 1
        return process

    def _end(self, process: Process) -> None:
        if process.fds:
            self._world.violate(f"D: descriptors are left: {process.fds}")
        process.end(0)

    async def _life(self) -> None:
        world, draw, ready, over, failure = self._world, self._random, trio.Event(), trio.Event(), list[str]()
        world.write_settings()
        process = self._begin()
        self._began, self._first = self._kernel.now, world.ledger.last_number
        world.judge.blow("start")
        notifier = Notifier.from_environment({}, process.pid)
        self._promised, world.ledger.unsynced_since = None, float("inf")
        world.ledger.open(self._kernel.now)

        async def serve() -> None:
            try:
                await daemon_module.main(self._options, lambda _: ready.set(), None, notifier)
            except StartError as error:
                failure.append(str(error))
            except Exception:
                if not process.is_dead:
                    raise
            over.set()
            ready.set()

        async def stop() -> None:
            await trio.sleep(QUIET)
            await world.flood(10, "slow:0.3")  # nobody else is there, whose calls would wake those that wait
            await trio.sleep(1.0)
            await world.look_around()
            world.faults["daemon_stopped"] += 1
            world.judge.blow("end")
            if draw.random() < 0.2:
                world.trouble.crash_after(draw.randint(1, 30), crash)
            for do, after in (("slow:0.4", 0.0), ("deny", 0.03), ("deny", 0.1), ("deny", 0.3)):
                nursery.start_soon(world.fire_once, {"a": do}, after)
            await trio.sleep(0.02)
            signal.raise_signal(signal.SIGTERM)
            with trio.move_on_after(60.0) as scope:
                await over.wait()
            if scope.cancelled_caught:
                world.violate("C: the daemon does not end")
                nursery.cancel_scope.cancel()

        def crash() -> None:
            self._kill(process)
            self._kernel.at(0.0, end_now)

        def end_now() -> None:
            nursery.cancel_scope.cancel()
            self._kernel.has_woken = True

        if draw.random() < 0.15:
            world.trouble.crash_after(draw.randint(1, 60), crash)  # while it starts: its recovery can be cut short too
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await ready.wait()
            if not over.is_set():
                async with trio.open_nursery() as inhabitants:
                    agents = [agent.run for agent in world.agents]
                    for one in (world.administrator.run, world.confirm, world.befall, *agents):
                        inhabitants.start_soon(one)
                    goal = world.fires + int(draw.expovariate(1 / 400)) + 20
                    world.is_doomed, world.doomed_at = False, ""
                    while not (world.fires >= goal or world.is_over or world.is_doomed or over.is_set()):
                        await trio.sleep(DOOMED / 2)
                    if over.is_set():
                        world.violate("C: the daemon ended by itself")
                    elif (world.is_doomed or draw.random() >= 0.4) and not world.is_over:
                        where, calls = (world.doomed_at, (6, 10)) if world.doomed_at else ("", (1, 40))  # of a write
                        world.trouble.crash_after(draw.randint(*calls), crash, where)
                        await trio.sleep(1.0)  # else it was not at its disk
                        crash()
                        await trio.sleep_forever()
                    inhabitants.cancel_scope.cancel()
                if not over.is_set():
                    await stop()
        await self._after(process, failure)

    def _started(self) -> list[Process]:
        """Return what daemons have started."""
        return [one for one in self._kernel.processes.values() if one.name in ("guardian", "zygote", "worker")]

    def _kill(self, process: Process) -> None:
        """Kill the daemon, or cut its power."""
        world, is_power_lost = self._world, self._random.random() < 0.6
        world.faults["power_lost" if is_power_lost else "daemon_killed"] += 1
        world.trouble.end()
        world.trouble.crash_after(0, lambda: None)
        self._images = [self._disk.image(is_power_lost=is_power_lost) for _ in range(IMAGES if is_power_lost else 1)]
        process.end(-9)
        if is_power_lost:
            world.judge.blow("power")
            for other in self._started():
                other.end(-9)
            self._machine.boot += 1
        # Up to when the record is promised to be there.
        self._promised = self._kernel.now - PROMISE if is_power_lost else float("inf")
        world.ledger.unsynced_since = self._kernel.now - PROMISE

    async def _after(self, process: Process, failure: list[str]) -> None:
        world, kernel, promised = self._world, self._kernel, self._promised
        world.trouble.end()
        world.trouble.crash_after(0, lambda: None)
        world.judge.blow("end")
        if promised is not None:
            for image in self._images[1:]:
                self._disk.become(image)
                with kernel.acting_as(kernel.init):
                    self._open_record()
            self._disk.become(self._images[0])
        elif failure:
            world.violate(f"C: the daemon did not start: {failure[0]}")
            process.end(1)
        else:
            self._end(process)
            with kernel.acting_as(kernel.init):
                self._verify()
        await trio.sleep(LEAVE)
        for one in self._started():
            if not one.is_dead:
                world.violate(f"D: a process is left: {one}")
                one.end(-9)
            one.reap()
        is_power_lost = promised not in (None, float("inf"))
        with kernel.acting_as(kernel.init):
            world.ledger.restart(promised if is_power_lost else None, world.trouble.may_have_lost)
        if not world.is_kept or is_power_lost:
            world.judge.forget_counts(is_zero=not world.is_kept)
        world.forget()
        world.repair()

    def _verify(self) -> None:
        """Hold the record against itself, as far as it is of this life: another one may have lost something."""
        world = self._world
        # It tells a fault itself.  What a failed sync has lost, no recovery brings back after a loss of power.
        has_failed = world.trouble.has_failed_since(self._began)
        known = ("fault", "altered", "missing", "torn") if has_failed else ("fault",)
        for finding in verify_record(world.ledger.folder).findings:
            number = finding.seq or int((finding.segment or "9999999999999999").partition(".")[0])
            if finding.what not in known and number > self._first:
                world.violate(f"F: verify finds {finding}")

    def _open_record(self) -> None:
        """Have the record alone open the disk: there are many that a loss of power may leave, and one gets a daemon."""
        world = self._world
        if not os.path.isdir(world.ledger.folder):
            return
        record = RecordWriter(world.ledger.folder, RecordSettings(low_bytes=0, critical_bytes=0, full_bytes=0))
        number = record.head.seq if record.head is not None else 0
        record.close()
        if number <= world.ledger.last_told:
            world.violate(f"F: the number {number} is used again: {world.ledger.last_told} was told")
        self._verify()

    # -- quiet lives -------------------------------------------------------------------------------------------

    async def _quiet_life(self) -> None:
        """Play scripts on a daemon of their own, beside the oracle."""
        world = self._world
        process = self._begin()
        self._played += 1
        folder = f"{world.folder}/model-{self._played}"
        os.makedirs(f"{folder}/config", mode=0o700)
        world.write(f"{folder}/config/hooks.toml", "")
        async with open_daemon(options_in(folder)) as daemon, trio.open_nursery() as nursery:
            place = PlaceOfWorld(world, daemon, folder, nursery)
            for number in range(3):
                if world.violations:
                    break  # the first one is enough
                script = decoded([self._random.randbytes(STEP) for _ in range(self._random.randint(6, 16))])
                try:
                    await play(script, place, f"x{number}.")
                except* AssertionError as group:
                    world.violate(f"A: the oracle: {first_of(group)}")
            nursery.cancel_scope.cancel()
        self._end(process)
        await trio.sleep(LEAVE)


def options_in(folder: str) -> DaemonOptions:
    return DaemonOptions(
        config=f"{folder}/config/hooks.toml", runtime_dir=f"{folder}/run", state_dir=f"{folder}/state"
    )  # fmt: skip


def first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class ConversationOfWorld:
    """A client, as scripts want it."""

    def __init__(self, world: World, client: Client) -> None:
        self._world, self._client = world, client
        self.announcements = client.announcements

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        result = await self._client.call(method, **params)
        if method == "fire":
            self._world.fires += 1
            self._world.digest.update(repr(sorted(result.items())).encode())
        return result

    async def close(self) -> None:
        self._client.end()
        await trio.sleep(0.05)


class PlaceOfWorld(FolderPlace):
    """A daemon of the simulated world, as scripts want it."""

    failure = Refusal

    def __init__(self, world: World, daemon: Daemon, folder: str, nursery: trio.Nursery) -> None:
        self._world, self._nursery = world, nursery
        super().__init__(folder, daemon.parts.dispatcher)

    def write(self, path: str, text: str) -> None:
        self._world.write(path, text)

    async def connect(self, *, is_admin: bool) -> ConversationOfWorld:
        client = Client(self._world.kernel, f"{self.folder}/run/{'admin' if is_admin else 'agent'}.sock")
        self._nursery.start_soon(client.run)
        return ConversationOfWorld(self._world, client)

    async def advance(self, seconds: float) -> bool:
        await trio.sleep(seconds)
        return True
