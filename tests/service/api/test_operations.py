"""Who did what about hooks: what the record has of an administrator who says a name."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure, running_daemon

GUARD = """
from hooklatch import hook

@hook("pre_tool_use", id="guard")
def guard(event):
    pass
"""
CONFIG = '[[source]]\npath = "guards.py"\n'


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARD}) as daemon:
        yield daemon


async def recorded(client: Client) -> list[dict[str, Any]]:
    records = (await client.call("log", kind="operation"))["records"]
    return [{key: one[key] for key in ("operation", "hook", "reason", "by", "uid", "pid")} for one in records]


async def test_who_operates_and_says_a_name_is_recorded_with_it_and_the_kernels_word(daemon: Daemon) -> None:
    who = {"by": "ann", "uid": os.getuid(), "pid": os.getpid()}
    async with daemon.administrator() as client:
        await client.call("suspend", id="guard", seconds=60, reason="a wrong guard", by="ann")
        await client.call("resume", all=True, reason="mended", by="ann")
        await client.call("disable", id="guard", scope="global", reason="not yet", by="ann")
        await client.call("enable", id="guard", scope="global", reason="now", by="ann")
        await client.call("reload", reason="new files", by="ann")
        found = await recorded(client)

    assert found == [
        {"operation": "suspend", "hook": "guard", "reason": "a wrong guard", **who},
        {"operation": "resume", "hook": "*", "reason": "mended", **who},
        {"operation": "disable", "hook": "guard", "reason": "not yet", **who},
        {"operation": "enable", "hook": "guard", "reason": "now", **who},
        {"operation": "reload", "hook": "*", "reason": "new files", **who},
    ]


async def test_what_is_refused_or_not_signed_is_no_operation(daemon: Daemon) -> None:
    async with daemon.administrator() as client:
        await client.call("disable", id="guard", scope="global")
        with pytest.raises(RpcFailure, match="no hook"):
            await client.call("disable", id="nobody", scope="global", by="ann", reason="a try")
        with pytest.raises(RpcFailure, match="by"):
            await client.call("enable", id="guard", scope="global", by="x" * 1000, reason="a try")
        hooks = (await client.call("hooks"))["hooks"]
        found = await recorded(client)

    assert found == []
    assert [hook["enabled"] for hook in hooks] == [False]  # a name that is too long enables nothing


async def test_an_agent_has_no_name_to_give(daemon: Daemon) -> None:
    async with daemon.session() as agent, daemon.administrator() as client:
        await agent.call("register", hooks=[{"id": "mine", "event": "pre_tool_use", "served": True}])
        await agent.call("disable", id="mine", by="an administrator", reason="it says")

        assert await recorded(client) == []
