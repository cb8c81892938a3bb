"""A host in a fleet, for tests: its table, and connections that are its link."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from support.daemons import Client, Daemon

__all__ = ["PUBLIC", "fleet_table", "link_of", "token_of"]

PUBLIC = "ed25519:" + base64.b64encode(b"k" * 32).decode()  # nobody has its private half


def fleet_table(*keys: str, more: str = "") -> str:
    """Return a [fleet] table that believes these public keys."""
    listed = ", ".join(f'"{key}"' for key in keys or (PUBLIC,))
    return f'[fleet]\nname = "acme"\nurl = "redis://engine:6379"\nhost = "h1"\nkeys = [{listed}]\n{more}\n'


def token_of(daemon: Daemon) -> str:
    return (Path(daemon.admin).parent / "fleet.token").read_text().strip()


@asynccontextmanager
async def link_of(daemon: Daemon) -> AsyncGenerator[Client]:
    """Connect as the link."""
    client = daemon.connect(daemon.admin)
    try:
        await client.call("hello", protocol=1, role="link", token=token_of(daemon))
        yield client
    finally:
        await client.aclose()
