"""What tests of floods share: hooks that can be held, and clients that offer many fires at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.daemons import Client, Daemon, running_daemon

HOOKS = """
import os
import time

from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash", timeout=60)
def no(event):
    return deny("no")

@hook("pre_tool_use", match="Slow", timeout=60)
def slow(event):
    while not os.path.exists(event.tool_input["go"]):
        time.sleep(0.01)
    return deny("slow no")

@hook("notification", match="slow", timeout=60)
def hear(event):
    while not os.path.exists(event.payload["go"]):
        time.sleep(0.01)
"""


@asynccontextmanager
async def flooded_daemon(folder: Path) -> AsyncGenerator[Daemon]:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\nworkers = 3\n', "guards.py": HOOKS}
    async with running_daemon(folder, files) as daemon:
        yield daemon


def fires(first: int, count: int, tool: str, **tool_input: Any) -> bytes:
    """Return so many fires as lines, numbered from `first`."""
    payload = {"tool_name": tool, "tool_input": tool_input}
    return requests(first, count, "fire", {"event": "pre_tool_use", "payload": payload})


def requests(first: int, count: int, method: str, params: dict[str, Any]) -> bytes:
    return b"".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        for number in range(first, first + count)
    )


class Answers:
    """What came back: how often each request was answered, and how."""

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()
        self.causes: Counter[str] = Counter()

    async def read(self, client: Client, count: int) -> None:
        for _ in range(count):
            answer = await client.read()
            assert answer is not None, "the daemon closed the connection"
            self.times[answer["id"]] += 1
            self.causes[answer["result"]["cause"] if "result" in answer else answer["error"]["data"]["name"]] += 1


async def join(daemon: Daemon, first: Client) -> Client:
    """Open one more connection of a client's session."""
    hello = first.hello  # type: ignore[attr-defined]
    client = daemon.connect()
    params = {"id": hello["session_id"], "resume_token": hello["resume_token"]}
    await client.call("hello", protocol=1, session=params)
    return client
