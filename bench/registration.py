"""How long the daemon's loop is held by one change of what all sessions share, by how many sessions there are.

register    one `register` with scope "global" over the admin socket, of a hook whose source is loaded already
reload      one `reload` over the admin socket, after an edit of one hook in hooks.toml

Beside 200 and 2,000 live sessions, every other one with a hook of its own; with 1 and 100 hooks in hooks.toml; idle,
and all subscribed to `registry`.  `held` is the longest turn of the trio loop between the request and its answer: for
so long no other session is served.  `cpu` is what that thread computed in such a turn, to which a busy machine adds
nothing.  `answered` is the time to the answer, which includes telling every subscriber.

Bad would be a registration that holds the loop for more than 10 ms (the median of the rounds, beside 2,000 sessions).
The worst turn is often the first after all have subscribed: a collection of the garbage collector's youngest generation
then meets what each of them has just made.

Run: python bench/registration.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from hooklatch.paths import ADMIN_SOCKET, AGENT_SOCKET
from hooklatch.service.daemon import DaemonOptions, make_full_collections_rare, open_daemon
from machine import Summary, print_machine, raise_open_files, save, summary

GUARD = "def allow(event):\n    return None\n"
SESSIONS, HOOKS = (200, 2000), (1, 100)
MOST_HELD = 10.0  # milliseconds
QUIET = 0.6  # seconds after which the watch has taken the last edit too, and a registration is alone
Rows = dict[str, dict[str, Summary]]


class Turns(trio.abc.Instrument):
    """Notes the longest turn of the loop: from one look for I/O to the next."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.held = self.cpu = 0.0
        self._started, self._computed = time.perf_counter(), time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        del timeout
        self._started, self._computed = time.perf_counter(), time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        del timeout
        self.held = max(self.held, time.perf_counter() - self._started)
        self.cpu = max(self.cpu, time.thread_time() - self._computed)


class Administrator:
    """A connection to the admin socket, in the daemon's own process: what it costs is part of what is measured."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = bytearray()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        await self._stream.send_all(line(method, params))
        while b"\n" not in self._received:
            self._received += await self._stream.receive_some(2**20)
        answer, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        found = json.loads(answer)
        if "error" in found:
            raise RuntimeError(found["error"])
        return found["result"]


def line(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


class Agents:
    """The process that holds the sessions."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._said = b""

    async def tell(self, *words: object) -> None:
        """Have it do something, and wait until that is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.send_all(" ".join(map(str, words)).encode() + b"\n")
        while not self._said.endswith(b"\n"):
            data = await self._process.stdout.receive_some(64)
            if not data:
                raise RuntimeError("the process of the sessions ended")
            self._said += data
        self._said = b""


def be_agents(path: str) -> None:
    """Be that process: sessions that say hello, may subscribe, and read all that they are told."""
    raise_open_files()
    agents: list[socket.socket] = []
    for words in map(str.split, sys.stdin):
        match words:
            case ["open", count]:
                for number in range(len(agents), int(count)):
                    agents.append(agent := socket.socket(socket.AF_UNIX))
                    agent.connect(path)
                    own = [{"id": "own", "event": "stop", "served": True}] if number % 2 else []
                    ask(agent, "hello", protocol=1, session={"hooks": own})
            case ["subscribe"]:
                for agent in agents:
                    ask(agent, "subscribe", topics=["registry"])
                threading.Thread(target=read_all, args=(agents,), daemon=True).start()
            case _:
                raise SystemExit(f"unknown order {words}")
        print("done", flush=True)


def ask(agent: socket.socket, method: str, **params: Any) -> None:
    agent.sendall(line(method, params))
    received = b""
    while b'"id":1' not in received:
        received += agent.recv(2**16)
    if b'"error"' in received:
        raise RuntimeError(received.decode())


def read_all(agents: list[socket.socket]) -> None:
    with select.epoll() as ready:
        for agent in agents:
            ready.register(agent.fileno(), select.EPOLLIN)
        while True:
            for fd, _ in ready.poll():
                os.read(fd, 2**16)


def hooks_file(config: Path, count: int, edit: int) -> str:
    """Return a file of hooks whose first one says by its priority which edit this is."""
    return "".join(
        f'[[hook]]\nid = "guard-{number}"\nevent = "pre_tool_use"\nmatch = ["Bash", "Edit{number}"]\n'
        f'run = "{config.parent}/guards.py:allow"\npriority = {100 + (edit if not number else 0)}\n\n'
        for number in range(count)
    )


@asynccontextmanager
async def running(folder: Path, hooks: int) -> AsyncGenerator[tuple[Administrator, Agents, Path]]:
    """Run a daemon in this process, and the sessions' process beside it."""
    config = folder / "hooks.toml"
    config.write_text(hooks_file(config, hooks, 0))
    (folder / "guards.py").write_text(GUARD)
    options = DaemonOptions(
        config=str(config), runtime_dir=str(folder / "run"), state_dir=str(folder / "state"), owns_process=False
    )
    async with open_daemon(options), trio.open_nursery() as nursery:
        make_full_collections_rare()  # as the daemon's own process does once it serves
        command = [sys.executable, __file__, "--agents", str(folder / "run" / AGENT_SOCKET)]
        start = trio.run_process  # it is killed with the nursery
        process = await nursery.start(
            lambda task_status: start(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False, capture_stdout=False,
                task_status=task_status,
            )
        )  # fmt: skip
        async with await trio.open_unix_socket(str(folder / "run" / ADMIN_SOCKET)) as stream:
            administrator = Administrator(stream)
            await administrator.call("hello", protocol=1)
            yield administrator, Agents(process), config
        nursery.cancel_scope.cancel()


async def measure(administrator: Administrator, config: Path, hooks: int, rounds: int, turns: Turns) -> Rows:
    """Register and reload, some times each."""
    series: dict[str, dict[str, list[float]]] = {}

    async def timed(name: str, method: str, **params: Any) -> None:
        turns.begin()
        started = time.perf_counter()
        await administrator.call(method, **params)
        answered = time.perf_counter() - started
        rows = series.setdefault(name, {"held": [], "cpu": [], "answered": []})
        for key, value in (("held", turns.held), ("cpu", turns.cpu), ("answered", answered)):
            rows[key].append(value * 1000)

    one = {"id": "one-more", "event": "pre_tool_use", "run": f"{config.parent}/guards.py:allow"}
    for number in range(rounds):
        await trio.sleep(QUIET)
        await timed("register", "register", scope="global", hooks=[one])
        await administrator.call("unregister", scope="global", id="one-more")
        await trio.Path(config).write_text(hooks_file(config, hooks, number + 1))
        await timed("reload", "reload")
    return {name: {key: summary(values) for key, values in rows.items()} for name, rows in series.items()}


async def measure_all(sessions: tuple[int, ...], rounds: int) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    turns = Turns()
    trio.lowlevel.add_instrument(turns)
    for count, hooks in itertools.product(sessions, HOOKS):
        with tempfile.TemporaryDirectory(prefix="registration-") as folder:
            async with running(Path(folder), hooks) as (administrator, agents, config):
                await agents.tell("open", count)
                for kind in ("idle", "subscribed"):
                    if kind == "subscribed":
                        await agents.tell("subscribe")
                    name = f"{count} sessions, {hooks} hooks, {kind}"
                    found[name] = await measure(administrator, config, hooks, rounds, turns)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Time how long one change for all sessions holds the loop.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="few sessions: to see that it runs")
    parser.add_argument("--agents", metavar="SOCKET", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.agents is not None:
        be_agents(arguments.agents)
        return 0
    raise_open_files()
    sessions, rounds = ((2, 20), 1) if arguments.quick else (SESSIONS, arguments.rounds)
    machine = print_machine()
    found = trio.run(measure_all, sessions, rounds)
    print(f"\n{'held, ms':<46}{'p50':>9}{'worst':>9}{'cpu p50':>9}{'worst':>9}{'answered':>10}")
    for name, rows in found.items():
        for change, row in rows.items():
            print(
                f"{name + ', ' + change:<46}{row['held'].p50_ms:>9.2f}{row['held'].worst_ms:>9.2f}"
                f"{row['cpu'].p50_ms:>9.2f}{row['cpu'].worst_ms:>9.2f}{row['answered'].p50_ms:>10.1f}"
            )
    most = max(rows["register"]["held"].p50_ms for rows in found.values())
    ratios = {
        f"{hooks} hooks, {kind}, {change}": found[f"{sessions[1]} sessions, {hooks} hooks, {kind}"][change][
            "cpu"
        ].p50_ms
        / found[f"{sessions[0]} sessions, {hooks} hooks, {kind}"][change]["cpu"].p50_ms
        for hooks in HOOKS
        for kind in ("idle", "subscribed")
        for change in ("register", "reload")
    }
    print(f"\n{sessions[1]} sessions against {sessions[0]}, cpu of the longest turn:")
    for name, ratio in ratios.items():
        print(f"{name:<46}{ratio:>9.2f}")
    print(f"\nlongest turn of a registration {most:.2f} ms; bad: over {MOST_HELD:g} ms")
    record = {"machine": machine, "rounds": rounds, "rows": found, "ratios": ratios, "most_held_ms": most}
    save("registration_quick" if arguments.quick else "registration", record)
    return int(most > MOST_HELD and not arguments.quick)


if __name__ == "__main__":
    sys.exit(main())
