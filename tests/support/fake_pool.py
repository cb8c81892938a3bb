"""The daemon without processes and sockets: its own parts, on fake workers, spoken to through its own methods.

A fake worker runs a function in the daemon's task.  `tests/contract` holds it to what a pool of real ones does.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import trio

from callbacks import scripted
from hooklatch.core.call import Call
from hooklatch.core.hooks.registry import PythonTarget
from hooklatch.core.messages import CallOutcome, ChainHead, FireDecision
from hooklatch.core.protocol import Request, RpcError
from hooklatch.path_lookup import Stamp
from hooklatch.processes.fire_context import FireContext
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.zygote import ZygoteClient
from hooklatch.record.settings import RecordSettings
from hooklatch.record.writer import FireFacts, RecordWriter
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading.plugins import Discovery
from hooklatch.service.loading.reloader import Reloader
from hooklatch.service.loading.sources import SourceBuild, Sources, SourceVersion, read_source_version
from hooklatch.service.parts import DaemonComponents
from hooklatch.service.transport.bus import Bus
from hooklatch_worker import wire
from hooklatch_worker.author import verdicts

__all__ = ["Died", "FakePlace", "FakePool", "running_fakes"]

T = TypeVar("T")
Function = Callable[[Any], Awaitable[object]]
MODULE = "scripted"
NO_SOURCE = wire.Source("module", "")


class Died(Exception):
    """The worker's process ended in the middle of a call."""


class Failure(Exception):
    """An answer that was an error, by its name."""

    def __init__(self, error: RpcError) -> None:
        super().__init__(error.message)
        self.name = error.code.label


class FakePool(Pool):
    """What a pool of one build does, as its caller sees it; it never runs out of workers, and never starts one."""

    def __init__(self, functions: Mapping[str, Function], source: wire.Source = NO_SOURCE, build: int = 1) -> None:
        super().__init__(source, build, None, PoolLimits(), on_busy=str)  # type: ignore[arg-type]  # nothing is forked
        self.functions = functions

    def begin(self, call: Call, fire: FireContext, deadline: float) -> None:
        """Leave all to `call`."""

    async def call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        outcome, before = await self._call(call, fire, deadline), list[float]()
        for hook in call.following:
            if outcome.cause != "policy" or outcome.answer:
                break
            before.append(0.0)
            deadline = min(trio.current_time() + (hook.timeout or fire.spec.timeout), fire.deadline)
            outcome = await self._call(msgspec.structs.replace(call, hook=hook), fire, deadline)
        return msgspec.structs.replace(outcome, earlier_ms=tuple(before))

    async def _call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        target = call.hook.target
        assert isinstance(target, PythonTarget)
        event = SimpleNamespace(
            event=fire.spec.name,
            payload=msgspec.json.decode(call.payload.data),
            config=msgspec.json.decode(call.hook.config or b"null"),
        )
        answer = b""
        with trio.move_on_at(deadline) as scope:
            try:
                answer = verdicts.encode_verdict(await self.functions[target.function](event))
            except verdicts.GarbageError as error:
                return CallOutcome(cause="protocol", message=str(error))
            except Died:
                return CallOutcome(cause="crash", message="the worker exited with code 3", is_lost=True)
            except Exception as error:
                return CallOutcome(cause="crash", message=f"{type(error).__name__}: {error}")
        if scope.cancelled_caught or trio.current_time() >= deadline:
            return CallOutcome(cause="timeout", message="no answer", is_lost=True)
        return CallOutcome(cause="policy", answer=answer)


class FakeUnit(SourceBuild):
    """A build that is current until its source is said to have a new version."""

    version = 0
    now: Callable[[], int]

    def is_like(self, other: SourceBuild) -> bool:
        return isinstance(other, FakeUnit) and self.version == other.version

    def read_newer(self, stamps: Mapping[str, Stamp] | None = None) -> SourceVersion | None:
        return None if self.version == self.now() else read_source_version(self.source)


class FakeSources(Sources):
    """Builds fake pools, and looks without a thread: a clock that jumps does not wait for one."""

    @staticmethod
    async def look(look: Callable[[], T], *, abandon_on_cancel: bool = True) -> T:
        return look()

    def __init__(self, place: FakePlace, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.place = place

    async def build(self, version: SourceVersion, limits: PoolLimits) -> SourceBuild:
        self._builds += 1
        source, number = version.source, self.place.version

        async def run(event: Any) -> object:
            return await self.place.act(event, number)

        pool = FakePool({"act": run}, source, self._builds)
        pool.limits = limits
        unit = FakeUnit(version, pool, wire.SourceLoaded(0, [], ["act"], {}))
        unit.version, unit.now = number, lambda: self.place.version
        return unit


class FakeReloader(Reloader):
    """Finds no packages: they are looked for in a thread, for which a clock that jumps does not wait."""

    find_packages = staticmethod(lambda _: Discovery())


class FakeState(StateFile):
    """Kept nowhere."""

    def __init__(self) -> None:
        super().__init__("/nowhere")

    async def store(self) -> None:
        return


class FakeRecord(RecordWriter):
    """Keeps no file, and counts."""

    def __init__(self) -> None:  # nothing is opened
        self.count = 0
        self.folder = "/nowhere"
        self.is_synced_first = False

    @property
    def head(self) -> ChainHead | None:
        return ChainHead(self.count, "0" * 16)

    def choose_excerpt(self, facts: FireFacts) -> None:
        return

    def append_decision(self, decision: FireDecision, facts: FireFacts) -> ChainHead | None:
        self.count += 1
        return self.head

    def append_abandoned(
        self, event: str, decision_id: str, revision: int | None, facts: FireFacts
    ) -> ChainHead | None:
        return self.head

    def append(self, kind: str, **fields: Any) -> ChainHead:
        return ChainHead(self.count, "0" * 16)

    async def durable(self, head: ChainHead | None) -> None:
        return

    def apply(self, settings: RecordSettings) -> None:
        return


class FakeConnection:
    """A connection as the service sees one, and as its client does: requests go straight to the methods."""

    numbers = itertools.count(1)

    def __init__(self, parts: DaemonComponents, *, is_admin: bool) -> None:
        self.number = next(self.numbers)
        self.is_admin = is_admin
        self.peer = (os.getpid(), os.getuid())
        self.role = "admin" if is_admin else "agent"
        self.session: Any = None
        self.has_greeted = False
        self.client = ""
        self.topics: set[str] = set()
        self.announcements: list[dict[str, Any]] = []
        self._methods = parts.methods
        parts.bus.connections[self.number] = self  # type: ignore[assignment]

    def announce(self, line: bytes, *, topic: str) -> None:
        self.announcements.append(msgspec.json.decode(line)["params"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        request = Request(method, msgspec.Raw(msgspec.json.encode(params)), 1)
        try:
            result = await self._methods.handle(self, request)  # type: ignore[arg-type]
        except RpcError as error:
            raise Failure(error) from None
        answer: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
        return answer

    async def close(self) -> None:
        self._methods.closed(self)  # type: ignore[arg-type]


class FakePlace:
    """A daemon on fake workers."""

    failure = Failure
    is_exact = True  # nothing takes time but what is meant to

    def __init__(self) -> None:
        self.version = 1
        self.gates: dict[str, tuple[trio.Event, trio.Event]] = {}
        self.parts: DaemonComponents

    async def connect(self, *, is_admin: bool) -> FakeConnection:
        return FakeConnection(self.parts, is_admin=is_admin)

    def run_of(self) -> str:
        return f"{MODULE}:act"

    def new_version(self) -> int:
        self.version += 1
        return self.version

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[tuple[str, Callable[[], None], Callable[[], Awaitable[None]]]]:
        key, (began, go) = str(len(self.gates)), (trio.Event(), trio.Event())
        self.gates[key] = began, go
        yield key, go.set, began.wait

    async def advance(self, seconds: float) -> bool:
        await trio.sleep(seconds)
        return True

    def drain(self, *, is_draining: bool) -> None:
        self.parts.dispatcher.is_draining = is_draining

    async def act(self, event: Any, version: int) -> object:
        """Run the callback; what would end or stop its process is done without one."""
        match event.payload["do"].get(event.config["id"]):
            case "exit":
                raise Died
            case "hang":
                await trio.sleep_forever()
            case "hold":
                began, go = self.gates[event.payload["go"]]
                began.set()
                await go.wait()
                return None
            case _:
                await trio.lowlevel.checkpoint()
        return scripted.act(event, version)


@asynccontextmanager
async def running_fakes() -> AsyncGenerator[FakePlace]:
    """Run the daemon's parts as `service.process.daemon.serve` does, but for its processes and sockets."""
    place = FakePlace()
    parts = place.parts = DaemonComponents(
        config="/nowhere/hooks.toml", state=FakeState(), record=FakeRecord(), zygote=ZygoteClient(owns_process=False),
        environments="/nowhere/environments", bus=Bus(),
        supervisors=(), end=None, places={"admin": "/nobody/admin.sock"},
        make_sources=partial(FakeSources, place), make_reloader=FakeReloader,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        for part in (parts.sources.supervisor, parts.dispatcher, parts.sessions.timers):
            await nursery.start(part.run)
        yield place
        parts.dispatcher.stop()
        nursery.cancel_scope.cancel()
