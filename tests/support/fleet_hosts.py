"""A host of a fleet for tests: a real daemon whose user has a guard too, and what it decides."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.daemons import Daemon, running_daemon
from support.fleets import fleet_table
from support.publishing import guard

__all__ = ["NO_POLICY", "decided", "health", "host", "notes"]

NO_POLICY = "no policy of the fleet 'acme', which may hold guards, has been proven on this host"
OWN = {"hooks.d/own.py": guard("own")}


@asynccontextmanager
async def host(
    folder: Path, *keys: str, more: str = "", name: str = "acme", files: dict[str, str] | None = None
) -> AsyncGenerator[Daemon]:
    """Run a host of the fleet whose user has a guard on Bash too."""
    config = fleet_table(*keys, more=more).replace('"acme"', f'"{name}"')
    async with running_daemon(folder, {**OWN, "hooks.toml": config, **(files or {})}) as daemon:
        yield daemon


async def decided(daemon: Daemon, tool: str = "Bash") -> str:
    """Return which hook decided, and why; `NO_POLICY` without its remedy."""
    async with daemon.session() as client:
        decision = await client.fire_tool(tool)
    if decision["verdict"] == "pass":
        return "pass"
    text = f"{decision['layer']}/{decision['hook']}: {decision['reason']}"
    return NO_POLICY if NO_POLICY in text else text


async def notes(daemon: Daemon, action: str) -> list[dict[str, Any]]:
    async with daemon.administrator() as admin:
        records = (await admin.call("log", limit=1000))["records"]
    return [one for one in records if one["kind"] == "fleet" and one["action"] == action]


async def health(daemon: Daemon) -> str:
    """Return whether a daemon is ready or red, apart from how long ago its link was there."""
    async with daemon.administrator() as admin:
        wrong = (await admin.call("status"))["wrong"]
    return "red" if [one for one in wrong if "in contact with its fleet" not in one["what"]] else "ready"
