"""A daemon that runs as a program of its own, to be killed, with hooks that leave processes of many kinds."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from hooklatch_worker.systems import linux
from support.daemons import Client
from support.pools import until
from support.survivors import PATIENCE, knowing, waiting_for_an_order
from support.warm_commands import PYTHON

DAEMON = """
import json, sys
from hooklatch.service.daemon import run_daemon
from hooklatch.service.folders import DaemonOptions

def ready(what):
    print(json.dumps({"pid": what["pid"], "agent": what["agent"], "admin": what["admin"]}), flush=True)

folder = sys.argv[1]
options = DaemonOptions(config=folder + "/hooks.toml", runtime_dir=folder + "/run", state_dir=folder + "/state")
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
            above = {self.process.pid, *linux.list_children(self.process.pid), zygote}
            found = set(knowing(self.word)) - above - waiting_for_an_order(zygote)
            if not any(source["starting"] for source in status["sources"]):
                return found - {pid for source in status["sources"] for pid in source["pids"]}

    @property
    def bred(self) -> int:
        path = self.folder / "bred"
        return len(path.read_text()) if path.exists() else 0


@contextmanager
def started(folder: Path, word: str, *, more: str = "") -> Generator[Process]:
    shell = [("shell-done", 60, "exit 0"), ("shell-busy", 60, "sleep 60"), ("shell-late", 0.5, "sleep 60")]
    config = CONFIG + "".join(
        SHELL.format(name=name, timeout=timeout, end=end, bred=folder / "bred") for name, timeout, end in shell
    )
    (folder / "hooks.toml").write_text(config + more)
    (folder / "breeding.py").write_text(BREEDING)
    process = subprocess.Popen([*PYTHON, "-c", DAEMON, str(folder)], stdout=subprocess.PIPE)
    try:
        yield Process(process, folder, word)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def named(daemon: Process, names: set[str]) -> list[int]:
    zygote = (await daemon.status())["zygote"]["pid"]
    (guardian,) = [pid for pid in linux.list_children(daemon.process.pid) if zygote in linux.list_children(pid)]
    pids = {"zygote": [zygote], "guardian": [guardian], "worker": await daemon.workers()}
    return [pid for name in sorted(names) for pid in pids[name]]


async def soon(is_so: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        await until(is_so)
