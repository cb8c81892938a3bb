"""What tests of the daemon share: a real daemon in this process, a plain JSON-RPC client, and a look for leaks."""

from __future__ import annotations

import functools
import json
import os
import resource
import select
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio

from hooklatch.client.protocol.decisions import TABLE
from hooklatch.client.protocol.exchange import explain_unclear_line
from hooklatch.dialects import installed
from hooklatch.service.daemon import open_daemon
from hooklatch.service.folders import DaemonOptions
from hooklatch.service.parts import DaemonComponents
from hooklatch_worker.systems import linux
from support.repository import CALLBACKS
from support.warm_guardians import warm_guardians
from support.warm_interpreters import of_the_interpreters

# Which packages are installed is read once in a process, not with each of hundreds of daemons.
setattr(installed, "entry_points", functools.cache(installed.entry_points))  # noqa: B010  (its type is another function's)


class RpcFailure(Exception):
    """An answer that was an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['data']['name']}: {error['message']}")
        self.name = error["data"]["name"]
        self.message = error["message"]


def check_as_clients_do(line: bytes, message: dict[str, Any]) -> None:
    """Hold each line that a real daemon writes to what clients take: a strict reader must not refuse a true answer."""
    assert explain_unclear_line(line) is None, line[:1000]
    for said in (message.get("result"), (message.get("params") or {}).get("decision")):
        if isinstance(said, dict) and {"decision_id", "verdict"} <= said.keys():
            assert TABLE.fault(said) == "", said


class Client:
    """A connection that speaks lines of JSON, and nothing that hooklatch's own clients do for their users."""

    def __init__(self, stream: socket.socket) -> None:
        stream.setblocking(False)
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(stream))
        self.announcements: list[dict[str, Any]] = []
        self._buffer = bytearray()
        self._count = 0

    async def send(self, method: str, **params: Any) -> int:
        self._count += 1
        await self.send_line({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        return self._count

    async def send_line(self, message: object) -> None:
        await self.send_raw(json.dumps(message).encode() + b"\n")

    async def send_raw(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def read(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end of input."""
        while b"\n" not in self._buffer:
            data = await self.stream.receive_some(2**20)
            if not data:
                return None
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        message = json.loads(line)
        check_as_clients_do(line, message)
        return message

    async def answer_to(self, number: int) -> dict[str, Any]:
        """Return the result of a request, keeping announcements that come before it."""
        while True:
            message = await self.read()
            assert message is not None, "the daemon closed the connection"
            if message.get("method") == "announce":
                self.announcements.append(message["params"])
            elif message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RpcFailure(message["error"])
                return message["result"]

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.answer_to(await self.send(method, **params))

    async def fire(self, event: str, /, **payload: Any) -> dict[str, Any]:
        return await self.call("fire", event=event, payload=payload)

    async def fire_tool(self, tool: str, **tool_input: Any) -> dict[str, Any]:
        return await self.fire("pre_tool_use", tool_name=tool, tool_input=tool_input)

    async def announcement(self) -> dict[str, Any]:
        """Return the next announcement, one already here or one to come."""
        while not self.announcements:
            message = await self.read()
            assert message is not None, "the daemon closed the connection"
            if message.get("method") == "announce":
                self.announcements.append(message["params"])
        return self.announcements.pop(0)

    async def until_status(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask for the status until it is as it should be; give it."""
        with trio.fail_after(30):
            while not is_so(status := await self.call("status")):  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.005)  # each question is work for the daemon that is waited for
        return status

    async def hears_the_end(self) -> bool:
        """Read on until the daemon closes the connection."""
        with trio.fail_after(10):
            try:
                while await self.read() is not None:
                    continue
            except trio.BrokenResourceError:
                return True  # it closed with something of ours unread
        return True

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)


class Daemon:
    """A daemon under test: its parts, its folder, and clients of it."""

    def __init__(self, parts: DaemonComponents, folder: Path) -> None:
        self.parts = parts
        self.folder = folder
        self.agent = parts.places["agent"]
        self.admin = parts.places["admin"]

    def connect(self, path: str | None = None) -> Client:
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path or self.agent)
        return Client(stream)

    @asynccontextmanager
    async def session(self, **params: Any) -> AsyncGenerator[Client]:
        client = self.connect()
        try:
            client.hello = await client.call("hello", protocol=1, session=params)  # type: ignore[attr-defined]
            yield client
        finally:
            await client.aclose()

    @asynccontextmanager
    async def administrator(self) -> AsyncGenerator[Client]:
        client = self.connect(self.admin)
        try:
            await client.call("hello", protocol=1)
            yield client
        finally:
            await client.aclose()

    def write(self, name: str, text: str) -> Path:
        """Write a file beside hooks.toml; a copy of a callbacks file is written as `name = CALLBACKS / name`."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def worker_pids(self) -> list[int]:
        return [pid for pool in self.parts.sources.pools.values() for pid in pool.status()["pids"]]


def child_of(parent: Client) -> dict[str, Any]:
    """Return what a session shows that another one has started."""
    hello = parent.hello  # type: ignore[attr-defined]
    return {"parent_session_id": hello["session_id"], "parent_token": hello["child_token"]}


@asynccontextmanager
async def running_daemon(
    folder: Path, files: Mapping[str, str] | None = None, *, config: str = "hooks.toml"
) -> AsyncGenerator[Daemon]:
    """Run a daemon in this process, with these files in its folder; nothing of it is left afterwards."""
    with nothing_left(), warm_guardians():
        for name, text in (files or {}).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        options = DaemonOptions(
            config=str(folder / config),
            runtime_dir=str(folder / "run"),
            state_dir=str(folder / "state"),
            owns_process=False,
        )
        async with open_daemon(options) as daemon:
            yield Daemon(daemon.parts, folder)


def callbacks(name: str) -> str:
    """Return the text of a file of callbacks."""
    return (CALLBACKS / name).read_text()


@contextmanager
def nothing_can_be_written() -> Generator[None]:
    """Have the kernel refuse every write to a file in this process (setrlimit(2), EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


CHECKED: list[int] = []  # the threads of the blocks that are open


@contextmanager
def nothing_left() -> Generator[None]:
    """Assert that a block leaves no child process and no descriptor behind.

    While a block of another thread is open, whose daemon opens and closes descriptors meanwhile, that block answers for
    the descriptors of both.
    """
    fds, children = open_descriptors(), set(linux.list_children())
    own = threading.get_ident()
    CHECKED.append(own)
    try:
        yield
    finally:
        CHECKED.remove(own)
    pids, of_ours = of_the_interpreters()
    assert set(linux.list_children()) - children - pids == set(), "a child process was left"
    if any(one != own for one in CHECKED):
        return
    for _ in range(200):  # a look that was left alone closes its descriptors when its thread gets to run
        left = {fd: target for fd, target in open_descriptors().items() if fd not in {*fds, *of_ours}}
        if not left:
            return
        select.select([], [], [], 0.01)
    raise AssertionError(f"descriptors were left: {left}")


def open_descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found
