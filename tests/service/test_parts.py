"""The daemon's own parts fail, each by an exception in its midst: it is seen, it works again, and fires go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.restarts import Restart
from hooklatch.metrics import MetricsPublisher
from hooklatch.processes.queueing import CallQueue
from hooklatch.processes.supervisor import ChildSpec, PartFailedError, Supervisor
from hooklatch.service.api.methods import ApiMethods
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.hints import KernelHints
from hooklatch.service.loading.watch import FileWatch
from hooklatch.service.registry.admission import Admission
from hooklatch.service.registry.sessions import Sessions
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.service_manager import Notifier
from hooklatch.service.signals import SignalReceiver
from hooklatch.service.transport.connection import Connection
from hooklatch_worker.systems.disks import FileWatches
from support.daemons import Client, Daemon, running_daemon
from support.guards import FILES
from support.pools import until


class OddError(Exception):
    """What nobody expects."""


class Fuse:
    """The real thing, which raises the next time that it is called, once; then it counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self._real: Callable[..., Any] = vars(owner)[name]
        self.is_due = True
        self.calls_since = 0
        monkeypatch.setattr(owner, name, self._wrapped())

    def _wrapped(self) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self.is_due:
                self.is_due = False
                raise OddError("injected")
            self.calls_since += 1
            return self._real(*arguments, **named)

        return call


class Place:
    """A daemon, a client and a control of it, and how to have each part at work."""

    def __init__(self, daemon: Daemon, client: Client, admin: Client) -> None:
        self.daemon, self.client, self.admin = daemon, client, admin

    async def fire(self) -> None:
        await self.client.fire_tool("Bash")

    async def slow_fire(self) -> None:
        go = self.daemon.folder / f"go{self.client._count}"
        number = await self.client.send("fire", event="pre_tool_use", payload=slow(go))
        await trio.sleep(0.05)  # long enough for the reader handoff to have noticed; if it was not, nothing was shown
        go.touch()
        await self.client.answer_to(number)

    async def flood(self) -> None:
        for _ in range(30):
            await self.client.send("fire", event="pre_tool_use", payload={"tool_name": "x"})
        for _ in range(30):
            assert await self.client.read() is not None

    async def hint(self) -> None:
        self.daemon.parts.file_watch.hint.set()

    async def touch(self) -> None:
        (self.daemon.folder / "hooks.toml").touch()

    async def suspend(self) -> None:
        await self.admin.call("suspend", id="guards:hear", seconds=0.01, reason="a test")

    async def other_metrics(self) -> None:
        self.daemon.write("hooks.toml", FILES["hooks.toml"] + f'[daemon]\nmetrics_file = "{self.daemon.folder}/m"\n')
        await self.admin.call("reload")

    async def end_of_a_deadline(self) -> None:
        for pool in self.daemon.parts.sources.pools.values():
            pool._alarm.cancel()

    async def fire_and_forget(self) -> None:
        await self.client.call("fire", event="notification", payload={"message": "x"}, wait=False)

    async def session_that_ends(self) -> None:
        async with self.daemon.session():
            pass

    async def connection_that_ends(self) -> None:
        await self.daemon.connect().aclose()


def slow(go: Path) -> dict[str, Any]:
    return {"tool_name": "Slow", "tool_input": {"until": str(go)}}


PARTS: dict[str, tuple[Any, str, Callable[[Place], Awaitable[None]]]] = {
    "reader handoff": (Connection, "hand_over_reading", Place.slow_fire),
    "admission": (Admission, "_admit_next", Place.flood),
    "memory watch": ("hooklatch.processes.resource_limits", "check_worker_memory", Place.fire),
    "file watch": (FileWatch, "_look", Place.hint),
    "file hints": (KernelHints, "_is_hint", Place.touch),
    "suspensions": (Suspensions, "_end", Place.suspend),
    "metrics": (MetricsPublisher, "_keep_publishing", Place.other_metrics),
    "guards.py": (CallQueue, "next_deadline", Place.end_of_a_deadline),
    "background fires": (Dispatcher, "_publish", Place.fire_and_forget),
    "session timers": (Sessions, "discard", Place.session_that_ends),
    "agent connections": (ApiMethods, "closed", Place.connection_that_ends),
}

if not FileWatches.IS_COMPLETE:
    del PARTS["file hints"]


def nodes_of(status: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(status["tree"])
    for node in found:
        found += node["children"]
    return found


def faults_of(status: dict[str, Any], name: str) -> bool:
    return any(name in fault and "OddError: injected" in fault for fault in status["faults"])


def failures(node: dict[str, Any]) -> int:
    return int(node["restarts"] + node["failed"])


async def test_a_part_that_fails_is_seen_and_works_again_and_fires_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import importlib

    monkeypatch.setattr("hooklatch.service.registry.sessions.LINGER", 0.0)
    async with running_daemon(tmp_path, FILES) as daemon, daemon.session() as client, daemon.administrator() as admin:
        place = Place(daemon, client, admin)
        assert (await admin.call("health"))["reasons"] == []
        for name, (owner, method, work) in PARTS.items():
            caplog.clear()
            fuse = Fuse(monkeypatch, importlib.import_module(owner) if isinstance(owner, str) else owner, method)
            with trio.fail_after(20):
                while fuse.is_due:
                    await work(place)
                    await trio.sleep(0.01)
                status = await admin.until_status(partial(faults_of, name=name))
                while not fuse.calls_since:
                    await work(place)
                    await trio.sleep(0.01)
                now = await admin.call("status")
                (node,) = (node for node in nodes_of(now) if name in node["name"])
                verdict = (await client.fire_tool("Bash"))["verdict"]

            assert (name, status["health"]) == (name, "red")
            assert (name, verdict, node["state"], failures(node)) == (name, "deny", "running", 1)
            assert "Traceback" in caplog.text, name
            assert "OddError: injected" in caplog.text, name
        assert "parts" in (await admin.call("health"))["reasons"]


@pytest.mark.parametrize(
    ("name", "owner", "method"),
    [
        ("agent listener", "hooklatch.processes.supervisor.Supervisor", "spawn"),
        ("record", "hooklatch.record.writer.RecordWriter", "_rotate"),
    ],
)
async def test_without_its_listener_or_its_record_the_daemon_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, owner: str, method: str
) -> None:
    def fail(*arguments: object) -> None:
        raise OddError("injected")

    with pytest.RaisesGroup(pytest.RaisesExc(PartFailedError, match=name), flatten_subgroups=True):
        async with running_daemon(tmp_path, FILES) as daemon:
            monkeypatch.setattr(f"{owner}.{method}", fail)
            if name == "record":
                daemon.parts.notes.note("fault", {"text": "something to write"})
            else:
                client = daemon.connect()
            with trio.fail_after(10):
                await trio.sleep_forever()
    if name != "record":
        await client.aclose()


async def test_signals_are_received_after_an_exception_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = SignalReceiver()
    fuse = Fuse(monkeypatch, SignalReceiver, "_take")
    async with Supervisor("process").open() as process:
        await process.start(ChildSpec("signal receiver", signals.receive, reports_start=True, below=signals.supervisor))
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: not fuse.is_due)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: fuse.calls_since)

        assert any("'signals' failed: OddError: injected" in fault for fault in process.faults())


async def test_the_watchdog_is_fed_again_after_an_exception(tmp_path: Path) -> None:
    looks: list[bool] = []

    def is_well() -> bool:
        looks.append(True)
        if len(looks) == 1:
            raise OddError("injected")
        return True

    feed = partial(Notifier(str(tmp_path / "nobody"), watchdog=0.02).keep_alive, is_well)
    async with Supervisor("process").open() as process:
        await process.start(ChildSpec("watchdog", feed, Restart.TRANSIENT))
        await until(lambda: len(looks) > 2)
