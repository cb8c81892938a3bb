"""The checks of a suite's rows, and sessions that speak to it in another system's words."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.daemons import Client, Daemon, RpcFailure, running_daemon

Answering = Callable[[dict[str, Any]], object]
Check = Callable[["Place"], Awaitable[None]]


class NativeClient(Client):
    """A client that serves hooks while it waits for an answer."""

    def __init__(self, stream: socket.socket, served: dict[str, Answering]) -> None:
        super().__init__(stream)
        self.served = served  # by hook id: what answers its calls
        self.asked: list[tuple[str, dict[str, Any]]] = []  # hook id and payload of each call
        self.hello: dict[str, Any] = {}

    async def answer_to(self, number: int) -> dict[str, Any]:
        return (await self.answers_to([number]))[0]

    async def answers_to(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return the results of several requests, whatever the order in which they come."""
        found: dict[int, dict[str, Any]] = {}
        while not found.keys() >= set(numbers):
            message = await self.read()
            assert message is not None, "the daemon closed the connection"
            if message.get("method") == "call":
                await self._serve(message)
            elif "error" in message:
                raise RpcFailure(message["error"])
            elif "result" in message:
                found[message["id"]] = message["result"]
        return [found[number] for number in numbers]

    async def _serve(self, call: dict[str, Any]) -> None:
        hook, payload = call["params"]["hook"], call["params"]["payload"]
        self.asked.append((hook, payload))
        answer = {"jsonrpc": "2.0", "id": call["id"], "result": self.served[hook](payload)}
        await self.send_line(answer)

    @asynccontextmanager
    async def again(self) -> AsyncGenerator[NativeClient]:
        """Open another connection of the same session."""
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(self.stream.socket.getpeername())
        client = NativeClient(stream, self.served)
        try:
            known = {"id": self.hello["session_id"], "resume_token": self.hello["resume_token"]}
            client.hello = await client.call("hello", protocol=1, session=known)
            yield client
        finally:
            await client.aclose()

    async def render(self, event: str, /, **payload: Any) -> Any:
        """Fire, and give the answer in the other system's own words."""
        return (await self.fire(event, **payload))["rendered"]

    async def hook_ids(self) -> list[str]:
        return [hook["id"] for hook in (await self.call("hooks"))["hooks"]]


class Place:
    """A daemon that others use too, by its socket; a folder that belongs to one test; a file of hooks for all."""

    def __init__(self, agent: str, folder: Path, hooks_file: str = "") -> None:
        self.agent = agent
        self.folder = folder
        self.hooks_file = hooks_file

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @asynccontextmanager
    async def session(
        self, dialect: str | None, *hooks: Mapping[str, Any], cwd: str | None = "", **served: Answering
    ) -> AsyncGenerator[NativeClient]:
        """Open a session with these hooks; without a `cwd` its folder is the test's own."""
        folder = str(self.folder) if cwd == "" else cwd
        async with open_session(self.agent, dialect, *hooks, cwd=folder, **served) as client:
            yield client

    @asynccontextmanager
    async def own_daemon(self, files: Mapping[str, str], name: str = "own") -> AsyncGenerator[Daemon]:
        """Run a daemon that has these files, for what a session cannot show; `name` is that of its folder."""
        async with running_daemon(self.folder / name, files) as daemon:
            yield daemon


@asynccontextmanager
async def open_session(
    agent: str, dialect: str | None, *hooks: Mapping[str, Any], cwd: str | None = None, **served: Answering
) -> AsyncGenerator[NativeClient]:
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(agent)
    client = NativeClient(stream, served)
    session = {"hooks": list(hooks), **({} if cwd is None else {"cwd": cwd})}
    try:
        spoken = {"dialect": dialect} if dialect else {}
        client.hello = await client.call("hello", protocol=1, session=session, **spoken)
        yield client
    finally:
        await client.aclose()
