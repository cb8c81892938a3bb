"""What tests of edited and broken files share: guards to edit, and what is heard and seen of them."""

from __future__ import annotations

from typing import Any

import trio

from support.daemons import Client

GUARDS = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("one")

@hook("notification")
def noted(event):
    return None
"""
CONFIG = '[[source]]\npath = "guards.py"\n'
HOOK = '[[hook]]\nid = "{id}"\nevent = "pre_tool_use"\nrun = "guards.py:no"\n'


async def watching(client: Client) -> Client:
    await client.call("subscribe", topics=["registry"])
    return client


async def reloaded(client: Client) -> dict[str, Any]:
    with trio.fail_after(10):
        return await client.announcement()


async def bash(client: Client) -> tuple[str, str | None, str | None]:
    decision = await client.fire_tool("Bash")
    return decision["verdict"], decision["cause"], decision["reason"]


def is_red(status: dict[str, Any]) -> bool:
    return status["health"] == "red"


def is_green(status: dict[str, Any]) -> bool:
    return status["health"] == "green"
