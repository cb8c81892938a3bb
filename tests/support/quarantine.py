"""A hook whose workers die until it is quarantined, and another one beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.daemons import Client, Daemon, callbacks, running_daemon
from support.survivors import nobody_survives

CONFIG = '[[source]]\npath = "misbehaving.py"\n\n[[source]]\npath = "other.py"\n'
OTHER = (
    'from hooklatch import allow, hook\n@hook("pre_tool_use", match="second")\ndef fine(event):\n    return allow()\n'
)
HOOK = "misbehaving:misbehave@pre_tool_use"
NAME = f"global/{HOOK}"


@asynccontextmanager
async def daemon_and_client(folder: Path) -> AsyncGenerator[tuple[Daemon, Client]]:
    files = {"hooks.toml": CONFIG, "misbehaving.py": callbacks("misbehaving.py"), "other.py": OTHER}
    with nobody_survives():
        async with running_daemon(folder, files) as daemon, daemon.session() as client:
            yield daemon, client


async def try_how(client: Client, how: str, kind: str = "sync") -> dict[str, Any]:
    return await client.fire("pre_tool_use", tool_name=kind, how=how)


async def quarantine(client: Client) -> None:
    for _ in range(6):
        assert (await try_how(client, "kills_itself"))["cause"] == "crash"
    assert (await try_how(client, "well"))["cause"] == "quarantined"
