"""SIGKILL to the daemon or to its zygote: whatever they and their hooks started is gone within one second."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch_worker.sandbox import linux
from support.daemons import Client
from support.pools import until
from support.survivors import PATIENCE, knowing, nobody_survives, wait_until_gone, waiting_for_an_order

DAEMON = """
import json, sys
from hooklatch.service.process.daemon import run_daemon
from hooklatch.service.process.folders import Options

def ready(what):
    print(json.dumps({"pid": what.pid, "agent": what.agent, "admin": what.admin}), flush=True)

folder = sys.argv[1]
options = Options(config=folder + "/hooks.toml", runtime_dir=folder + "/run", state_dir=folder + "/state")
run_daemon(options, on_ready=ready)
"""
CONFIG = """
[[source]]
path = "breeding.py"
workers = 4
"""
# One of each kind that a shell can start: a child, one that ignores the hangup, its own session, a daemon of the old
# school with a pipeline of its own that ignores what it is told.
SHELL = """
[[hook]]
id = "{name}"
event = "pre_tool_use"
match = "{name}"
timeout = {timeout}
env = {{ BRED = "{bred}" }}
command = '''
sleep 3600 &
nohup sleep 3600 > /dev/null 2>&1 &
setsid sleep 3600 &
(setsid sh -c 'trap "" TERM HUP INT; (sleep 3600 & cat /dev/zero | sleep 3600) & sleep 3600' &)
printf x >> "$BRED"
{end}
'''
"""
BREEDING = '''
import os, signal, subprocess, time
from hooklatch import allow, hook

def breed(event):
    """One of each kind that may escape: a child, its own session, a daemon of the old school, and each one's child."""
    for leaves_session in (False, True):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if leaves_session:
                os.setsid()
            if os.fork() == 0 and leaves_session:
                if os.fork():
                    os._exit(0)
            time.sleep(3600)
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    with open(event.payload["bred"], "a") as file:
        file.write("x")

@hook("pre_tool_use", match="busy", timeout=60)
def busy(event):
    breed(event)
    sum(range(10**12))

@hook("pre_tool_use", match="late", timeout=0.5)
def late(event):
    breed(event)
    time.sleep(60)

@hook("pre_tool_use", match="done", timeout=60)
def done(event):
    breed(event)
    return allow()

@hook("pre_tool_use", match="answer", timeout=60)
def answer(event):
    return allow()
'''

pytestmark = pytest.mark.slow  # each test starts a daemon as a program of its own: 0.5 s and more


class Process:
    """A daemon that runs as a program of its own."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, word: str) -> None:
        assert process.stdout is not None
        self.process = process
        self.ready = json.loads(process.stdout.readline())
        self.folder = folder
        self.word = word

    def connect(self, door: str = "agent") -> Client:
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(self.ready[door])
        return Client(stream)

    async def status(self) -> dict[str, Any]:
        client = self.connect("admin")
        await client.call("hello", protocol=1)
        status = await client.call("status")
        await client.aclose()
        return status

    async def fire(self, tool: str) -> dict[str, Any]:
        client = self.connect()
        try:
            return await client.fire("pre_tool_use", tool_name=tool, bred=str(self.folder / "bred"))
        finally:
            await client.aclose()

    async def send(self, tool: str) -> Client:
        client = self.connect()
        payload = {"tool_name": tool, "bred": str(self.folder / "bred")}
        await client.send("fire", event="pre_tool_use", payload=payload)
        return client

    async def workers(self) -> list[int]:
        return [pid for source in (await self.status())["sources"] for pid in source["pids"]]

    async def strays(self) -> set[int]:
        """Return what knows the word and is neither the daemon, a worker (ordered or not), nor between these."""
        while True:
            status = await self.status()
            zygote = status["zygote"]["pid"]
            above = {self.process.pid, *linux.children(self.process.pid), zygote}
            found = set(knowing(self.word)) - above - waiting_for_an_order(zygote)
            if not any(source["starting"] for source in status["sources"]):
                return found - {pid for source in status["sources"] for pid in source["pids"]}

    @property
    def bred(self) -> int:
        path = self.folder / "bred"
        return len(path.read_text()) if path.exists() else 0


@contextmanager
def started(folder: Path, word: str) -> Generator[Process]:
    shell = [("shell-done", 60, "exit 0"), ("shell-busy", 60, "sleep 60"), ("shell-late", 0.5, "sleep 60")]
    config = CONFIG + "".join(
        SHELL.format(name=name, timeout=timeout, end=end, bred=folder / "bred") for name, timeout, end in shell
    )
    (folder / "hooks.toml").write_text(config)
    (folder / "breeding.py").write_text(BREEDING)
    process = subprocess.Popen([sys.executable, "-c", DAEMON, str(folder)], stdout=subprocess.PIPE)
    try:
        yield Process(process, folder, word)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@asynccontextmanager
async def crowded(folder: Path) -> AsyncGenerator[Process]:
    """Run a daemon two of whose workers spin in C and one waits for a command, with offspring of many kinds."""
    with nobody_survives() as word, started(folder, word) as daemon:
        assert (await daemon.fire("done"))["verdict"] == "allow"
        assert (await daemon.fire("shell-done"))["verdict"] == "pass"
        waiting = [await daemon.send(tool) for tool in ("busy", "busy", "shell-busy")]
        await until(lambda: daemon.bred == 5)
        assert len(knowing(word)) > 30
        yield daemon
        for client in waiting:
            await client.aclose()


async def test_nothing_outlives_a_killed_daemon(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


@pytest.mark.parametrize("stopped", [{"zygote"}, {"guardian"}, {"zygote", "guardian"}, {"worker"}])
async def test_nothing_outlives_a_killed_daemon_when_others_were_stopped(tmp_path: Path, stopped: set[str]) -> None:
    async with crowded(tmp_path) as daemon:
        for pid in await named(daemon, stopped):
            os.kill(pid, signal.SIGSTOP)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


@pytest.mark.parametrize("other", ["zygote", "guardian"])
async def test_nothing_outlives_a_daemon_that_is_killed_together_with_another(tmp_path: Path, other: str) -> None:
    async with crowded(tmp_path) as daemon:
        (pid,) = await named(daemon, {other})
        daemon.process.send_signal(signal.SIGSTOP)  # so that neither can do anything before both are dead
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


async def test_nothing_outlives_zygote_and_guardian_killed_together_and_the_daemon_goes_on(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        old = await daemon.strays()
        pids = await named(daemon, {"zygote", "guardian"})
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

        await soon(lambda: not old & set(knowing(daemon.word)))
        after = await daemon.fire("answer")

    assert after["verdict"] == "allow"


async def named(daemon: Process, names: set[str]) -> list[int]:
    zygote = (await daemon.status())["zygote"]["pid"]
    (guardian,) = [pid for pid in linux.children(daemon.process.pid) if zygote in linux.children(pid)]
    pids = {"zygote": [zygote], "guardian": [guardian], "worker": await daemon.workers()}
    return [pid for name in sorted(names) for pid in pids[name]]


async def soon(is_so: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        await until(is_so)


@pytest.mark.parametrize("tool", ["busy", "shell-busy"])
async def test_nothing_outlives_a_worker_that_is_killed(tmp_path: Path, tool: str) -> None:
    with nobody_survives() as word, started(tmp_path, word) as daemon:
        client = await daemon.send(tool)
        await until(lambda: daemon.bred == 1)
        left = await daemon.strays()
        assert len(left) >= 5
        for pid in await daemon.workers():
            os.kill(pid, signal.SIGKILL)
        await soon(lambda: not left & set(knowing(word)))
        message = await client.read()
        await client.aclose()

        assert message is not None
        assert (message["result"]["verdict"], message["result"]["cause"]) == ("deny", "crash")
        assert (await daemon.fire("answer"))["verdict"] == "allow"


@pytest.mark.parametrize("tool", ["late", "shell-late"])
async def test_nothing_outlives_a_hook_that_is_past_its_deadline(tmp_path: Path, tool: str) -> None:
    with nobody_survives() as word, started(tmp_path, word) as daemon:
        bystanders = await daemon.strays()
        decision = await daemon.fire(tool)
        with trio.fail_after(PATIENCE):
            while await daemon.strays() - bystanders:
                await trio.lowlevel.checkpoint()

    assert (decision["verdict"], decision["cause"]) == ("deny", "timeout")


async def test_nothing_outlives_a_daemon_that_ends_well(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        client = daemon.connect("admin")
        await client.call("hello", protocol=1)
        daemon.process.send_signal(signal.SIGTERM)
        while not (await client.call("status"))["draining"]:
            await trio.lowlevel.checkpoint()
        daemon.process.send_signal(signal.SIGTERM)
        await client.aclose()
        with trio.fail_after(10):
            await trio.to_thread.run_sync(daemon.process.wait)

        assert wait_until_gone(daemon.word) == []
        assert daemon.process.returncode == 0


async def test_nothing_of_a_killed_zygote_is_left_and_the_daemon_goes_on(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        old = set(knowing(daemon.word)) - {daemon.process.pid, *linux.children(daemon.process.pid)}
        os.kill((await daemon.status())["zygote"]["pid"], signal.SIGKILL)

        await until(lambda: not old & set(knowing(daemon.word)))
        after = await daemon.fire("answer")

        assert after["verdict"] == "allow"
        assert daemon.process.poll() is None


async def test_a_killed_zygote_denies_what_was_under_way(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        client = await daemon.send("busy")
        await until(lambda: daemon.bred == 6)
        os.kill((await daemon.status())["zygote"]["pid"], signal.SIGKILL)
        message = await client.read()
        await client.aclose()
        with trio.fail_after(5):
            while not (await daemon.status())["zygote"]["restarts"]:  # else the daemon's own end would meet its sweep
                await trio.lowlevel.checkpoint()

    assert message is not None
    assert (message["result"]["verdict"], message["result"]["cause"]) == ("deny", "crash")


async def test_a_stale_socket_does_not_stop_the_next_start(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        assert os.path.exists(daemon.ready["agent"])  # noqa: ASYNC240  (a look, not a wait)

        with started(tmp_path, daemon.word) as successor:
            decision = await successor.fire("answer")

    assert decision["verdict"] == "allow"


async def test_a_draining_daemon_finishes_what_it_began_and_denies_what_is_new(tmp_path: Path) -> None:
    slow = BREEDING.replace("sum(range(10**12))", "time.sleep(0.5)")
    with nobody_survives() as word, started(tmp_path, word) as daemon:
        (tmp_path / "breeding.py").write_text(slow)
        client = daemon.connect("admin")
        await client.call("hello", protocol=1)
        await client.call("reload")
        waiting = await daemon.send("busy")
        await until(lambda: daemon.bred == 1)
        daemon.process.send_signal(signal.SIGTERM)
        while not (await client.call("status"))["draining"]:
            await trio.lowlevel.checkpoint()
        refused = await client.fire("pre_tool_use", tool_name="answer")
        finished = await waiting.read()
        with trio.fail_after(5):
            await trio.to_thread.run_sync(daemon.process.wait)
        for one in (client, waiting):
            await one.aclose()

    assert (refused["verdict"], refused["cause"]) == ("deny", "draining")
    assert finished is not None
    assert finished["result"]["verdict"] == "pass"
    assert daemon.process.returncode == 0
