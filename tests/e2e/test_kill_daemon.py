"""SIGKILL to the daemon or to its zygote: whatever they and their hooks started is gone within two seconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch_worker import linux
from processes.pools import until
from processes.survivors import knowing, nobody_survives, wait_until_gone
from support import Client

DAEMON = """
import json, sys
from hooklatch.service.daemon import Options, run_daemon

def ready(what):
    print(json.dumps({"pid": what.pid, "agent": what.agent, "admin": what.admin}), flush=True)

folder = sys.argv[1]
options = Options(config=folder + "/hooks.toml", runtime_dir=folder + "/run", state_dir=folder + "/state")
run_daemon(options, on_ready=ready)
"""
CONFIG = '[[source]]\npath = "breeding.py"\nworkers = 4\n'
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

    @property
    def bred(self) -> int:
        path = self.folder / "bred"
        return len(path.read_text()) if path.exists() else 0


@contextmanager
def started(folder: Path, word: str) -> Generator[Process]:
    (folder / "hooks.toml").write_text(CONFIG)
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
    """Run a daemon two of whose workers spin in C, and which has offspring of many kinds."""
    with nobody_survives() as word, started(folder, word) as daemon:
        assert (await daemon.fire("done"))["verdict"] == "allow"
        waiting = [await daemon.send("busy") for _ in range(2)]
        await until(lambda: daemon.bred == 3)
        assert len(knowing(word)) > 15
        yield daemon
        for client in waiting:
            await client.aclose()


async def test_nothing_outlives_a_killed_daemon(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


async def test_nothing_outlives_a_killed_daemon_whose_zygote_was_stopped(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        os.kill((await daemon.status())["zygote"]["pid"], signal.SIGSTOP)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


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
        old = set(knowing(daemon.word)) - {daemon.process.pid}
        trackers = {pid for pid in linux.children(daemon.process.pid) if "resource_tracker" in command(pid)}
        os.kill((await daemon.status())["zygote"]["pid"], signal.SIGKILL)

        await until(lambda: not (old - trackers) & set(knowing(daemon.word)))
        after = await daemon.fire("answer")

        assert after["verdict"] == "allow"
        assert daemon.process.poll() is None


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


async def test_a_killed_zygote_denies_what_was_under_way(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        client = await daemon.send("busy")
        await until(lambda: daemon.bred == 4)
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
