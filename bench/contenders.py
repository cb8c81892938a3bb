"""The daemon, the yardsticks and a script, each as a user starts it, and the client that calls them all alike.

Pools, which need no socket, are in bench/pools.py.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from machine import Block

__all__ = [
    "PAYLOAD",
    "PAYLOAD_JSON",
    "Client",
    "Daemon",
    "calls_a_second",
    "connect",
    "fire_block",
    "run_daemon",
    "run_floor",
    "run_recording_floor",
    "run_straight",
    "running",
    "spawn_script",
]

HERE = Path(__file__).resolve().parent
SCRIPT = """
import json, sys
payload = json.load(sys.stdin)
if "push --force" in payload["tool_input"]["command"]:
    print("force pushes are not allowed here", file=sys.stderr)
    sys.exit(2)
"""
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
PAYLOAD_JSON = msgspec.json.encode(PAYLOAD)
DAEMON = """
import sys
from hooklatch.service.daemon import run_daemon
from hooklatch.service.folders import DaemonOptions
run_daemon(DaemonOptions(*sys.argv[1:]), on_ready=lambda ready: print("ready", flush=True))
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
        return self.fire_line_of(PAYLOAD if tool == "Bash" else {"tool_name": tool, "tool_input": tool_input})

    def fire_line_of(self, payload: Mapping[str, object]) -> bytes:
        return self.request("fire", event="pre_tool_use", payload=payload, call_id="toolu_01A09q90qw90lq917835lq9")

    def fire(self, tool: str = "Bash", /, **tool_input: object) -> dict[str, Any]:
        return json.loads(self.exchange(self.fire_line(tool, **tool_input)))["result"]

    def close(self) -> None:
        self.socket.close()


class Daemon:
    """A running daemon, and connections that have completed hello."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str) -> None:
        self.process = process
        self.folder = folder
        self.agent = f"{folder}/run/agent.sock"
        self.admin = f"{folder}/run/admin.sock"

    def connect(self) -> Client:
        return connect(self.agent)

    def administer(self) -> Client:
        client = Client(self.admin)
        client.call("hello", protocol=1)
        return client


def connect(path: str) -> Client:
    """Return a connection to a daemon that has completed hello."""
    client = Client(path)
    client.call("hello", protocol=1, client={"name": "bench", "version": "1"}, session={"host": "bench"})
    return client


@contextmanager
def run_daemon(*, workers: int = 4, files: Mapping[str, str] | None = None, begin: str = "") -> Generator[Daemon]:
    """Run the real daemon in its own process, with bench/guards.py as its source.

    `files` are written beside it, and each that ends in `.py` is a source too; a hooks.toml among them replaces ours.
    `begin` is run in that process before the daemon is imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "guards.py", folder)
        written = dict(files or {})
        sources = ["guards.py", *(name for name in written if name.endswith(".py"))]
        written.setdefault(
            "hooks.toml", "".join(f'[[source]]\npath = "{name}"\nworkers = {workers}\n' for name in sources)
        )
        for name, text in written.items():
            Path(folder, name).write_text(text)
        command = [sys.executable, "-c", begin + DAEMON, f"{folder}/hooks.toml", f"{folder}/run", f"{folder}/state"]
        with running(command) as process:
            yield Daemon(process, folder)


@contextmanager
def run_floor(*, workers: int = 1) -> Generator[Callable[[], Client]]:
    """Run the bare relay in its own process; yield a function that connects to it."""
    with relay("floor.py", str(workers)) as connects:
        yield connects


@contextmanager
def run_recording_floor(*, workers: int = 1) -> Generator[Callable[[], Client]]:
    """Run the relay that also keeps a sha256 chain in a file."""
    with tempfile.TemporaryDirectory() as folder, relay("floor.py", str(workers), f"{folder}/record") as connects:
        yield connects


@contextmanager
def run_straight(*, workers: int = 1) -> Generator[Callable[[], Client]]:
    """Run the relay that has every shape of a fire."""
    with tempfile.TemporaryDirectory() as folder, relay("straight.py", str(workers), f"{folder}/record") as connects:
        yield connects


@contextmanager
def relay(script: str, *arguments: str) -> Generator[Callable[[], Client]]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/relay.sock"
        with running([sys.executable, str(HERE / script), path, *arguments]):
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


def fire_block(client: Client, line: bytes = b"", *, expected: str = "pass") -> Block:
    """Return a block of fires on this connection, after one that must be answered as expected."""
    line = line or client.fire_line()
    answer = msgspec.json.decode(client.exchange(line))
    if answer["result"]["verdict"] != expected:
        raise RuntimeError(f"not the answer that is to be timed: {answer}")

    def block(calls: int) -> list[float]:
        took: list[float] = []
        for _ in range(calls):
            start = time.perf_counter()
            answer = client.exchange(line)
            took.append((time.perf_counter() - start) * 1e3)
            if b'"outcome":"failed"' in answer:
                raise RuntimeError(f"a hook failed, so this is not to be timed: {answer.decode()}")
        return took

    return block


def calls_a_second(clients: list[Client], seconds: float, *, line: bytes = b"", in_flight: int = 1) -> float:
    """Keep this many calls in flight on each connection; return how many are answered in a second."""
    lines = {client.socket.fileno(): (client, line or client.fire_line()) for client in clients}
    answered = 0
    with select.epoll() as answers:
        for fd, (client, one) in lines.items():
            answers.register(fd, select.EPOLLIN)
            client.socket.sendall(one * in_flight)
        start = time.perf_counter()
        while (now := time.perf_counter()) - start < seconds:
            for fd, _ in answers.poll():
                client, one = lines[fd]
                count = client.socket.recv(2**18).count(b"\n")
                if count:
                    client.socket.sendall(one * count)
                    answered += count
        for client, _ in lines.values():
            left = in_flight
            while left:
                left -= client.socket.recv(2**18).count(b"\n")
    return answered / (now - start)


def spawn_script(*flags: str) -> Callable[[], object]:
    """Return a function that starts Python with these flags, writes the payload to it and waits for its end."""
    command = [sys.executable, *flags, "-c", SCRIPT]
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}

    def call() -> object:
        subprocess.run(command, input=PAYLOAD_JSON, env=environment, stdout=subprocess.DEVNULL, check=True)
        return None

    return call
