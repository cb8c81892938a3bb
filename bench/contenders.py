"""The contenders: context managers that yield a function which makes one call.  Does not measure anything itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import trio_parallel

import guards

__all__ = [
    "PAYLOAD",
    "Client",
    "Daemon",
    "judge",
    "judge_in_trio_parallel",
    "process_pool",
    "run_floor",
    "run_daemon",
    "spawn_script",
]

HERE = Path(__file__).resolve().parent
ANSWER_TIMEOUT = 60.0  # seconds after which a contender counts as hung
PAYLOAD = {
    "tool_name": "Bash",
    "tool_input": {
        "command": "git fetch origin && git rebase origin/main && git push --atomic origin HEAD:refs/heads/topic/relay",
        "description": "Bring the topic branch up to date and publish it",
        "timeout": 120000,
    },
    "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
}
DAEMON = """
import sys
from hooklatch.service.process.daemon import run_daemon
from hooklatch.service.process.folders import Options
run_daemon(Options(*sys.argv[1:]), on_ready=lambda ready: print("ready", flush=True))
"""


class Client:
    """A plain blocking connection, with the same overhead for every contender."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(None)  # a timeout would add a poll to every read
        self.socket.connect(path)
        self._id = 0

    def request(self, method: str, **params: object) -> bytes:
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def exchange(self, line: bytes) -> bytes:
        """Send a line and return the line that answers it."""
        self.socket.sendall(line)
        answer = self.socket.recv(2**16)
        while not answer.endswith(b"\n"):
            more = self.socket.recv(2**16)
            if not more:
                raise EOFError("the other side closed the connection")
            answer += more
        return answer

    def call(self, method: str, **params: object) -> dict[str, Any]:
        answer = json.loads(self.exchange(self.request(method, **params)))
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    def fire_line(self, tool: str = "Bash", /, **tool_input: object) -> bytes:
        payload = PAYLOAD if tool == "Bash" else {"tool_name": tool, "tool_input": tool_input}
        return self.request("fire", event="pre_tool_use", payload=payload, call_id="toolu_01A09q90qw90lq917835lq9")

    def fire(self, tool: str = "Bash", /, **tool_input: object) -> dict[str, Any]:
        return json.loads(self.exchange(self.fire_line(tool, **tool_input)))["result"]

    def close(self) -> None:
        self.socket.close()


class Daemon:
    """A running daemon, and connections that have completed hello."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str) -> None:
        self.process = process
        self.agent = f"{folder}/run/agent.sock"
        self.admin = f"{folder}/run/admin.sock"

    def connect(self) -> Client:
        client = Client(self.agent)
        client.call("hello", protocol=1, client={"name": "bench", "version": "1"}, session={"host": "bench"})
        return client

    def administer(self) -> Client:
        client = Client(self.admin)
        client.call("hello", protocol=1)
        return client


@contextmanager
def run_daemon(*, workers: int = 4, guards: Path = HERE / "guards.py") -> Generator[Daemon]:
    """Run the real daemon in its own process, with one source."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(guards, Path(folder, "guards.py"))
        config = Path(folder, "hooks.toml")
        config.write_text(f'[[source]]\npath = "guards.py"\nworkers = {workers}\n')
        command = [sys.executable, "-c", DAEMON, str(config), f"{folder}/run", f"{folder}/state"]
        with running(command) as process:
            yield Daemon(process, folder)


@contextmanager
def run_floor(*, workers: int = 1) -> Generator[Callable[[], Client]]:
    """Run the bare relay in its own process; yield a function that connects to it."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/floor.sock"
        with running([sys.executable, str(HERE / "floor.py"), path, str(workers)]):
            yield lambda: Client(path)


@contextmanager
def running(command: list[str]) -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"it did not start: {' '.join(command[:3])}")
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(ANSWER_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()


def judge(payload: bytes) -> str | None:
    """Decode the payload and call the guard: the work of every contender without a socket in its worker."""
    verdict = guards.no_force_push(SimpleNamespace(**msgspec.json.decode(payload)))
    return None if verdict is None else verdict.reason


@contextmanager
def process_pool() -> Generator[Callable[[], object]]:
    payload = msgspec.json.encode(PAYLOAD)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield lambda: pool.submit(judge, payload).result()


async def judge_in_trio_parallel() -> object:
    return await trio_parallel.run_sync(judge, msgspec.json.encode(PAYLOAD))


def spawn_script(*flags: str) -> Callable[[], object]:
    """Return a function that starts Python with these flags, writes the payload to it and waits for its end."""
    command = [sys.executable, *flags, str(HERE / "spawned_guard.py")]
    payload = json.dumps(PAYLOAD).encode()
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}

    def call() -> object:
        subprocess.run(command, input=payload, env=environment, stdout=subprocess.DEVNULL, check=True)
        return None

    return call
