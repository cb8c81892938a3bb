"""Who did what about hooks: what the record has of administrators, by the kernel's word and by their own."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

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


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def recorded(client: Client) -> list[dict[str, Any]]:
    records = (await client.call("log", kind="operation"))["records"]
    return [{key: one[key] for key in one if key not in ("seq", "at", "kind", "prev", "hash")} for one in records]


def kernels_word() -> dict[str, Any]:
    return {"uid": os.getuid(), "pid": os.getpid(), "process": Path("/proc/self/comm").read_text().strip()}


async def test_who_operates_and_says_a_name_is_recorded_with_it_and_the_kernels_word(daemon: Daemon) -> None:
    who = {"by": "ann", **kernels_word()}
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
        {"operation": "reload", "hook": "*", "reason": "new files", "accepted": [], **who},
    ]


async def test_what_is_trusted_and_registered_is_recorded_with_its_digests(daemon: Daemon) -> None:
    project, guards = daemon.folder / "project", daemon.folder / "guards.py"
    daemon.write("project/.hooklatch/hooks.toml", "")
    table = {"id": "added", "event": "pre_tool_use", "run": f"{guards}:guard"}
    rest = {"reason": "", "by": None, **kernels_word()}
    async with daemon.administrator() as client:
        await client.call("trust", folder=str(project))
        await client.call("untrust", folder=str(project))
        await client.call("untrust", folder=str(project))  # which changes nothing
        await client.call("register", scope="global", hooks=[table])
        await client.call("unregister", scope="global", id="global/added")
        found = await recorded(client)

    assert found == [
        {"operation": "trust", "hook": "*", "folder": str(project), "files": {"hooks.toml": sha256(b"")}, **rest},
        {"operation": "untrust", "hook": "*", "folder": str(project), **rest},
        {
            "operation": "register", "hook": "*", "ids": ["added"], "files": {str(guards): sha256(guards.read_bytes())},
            "sha256": sha256(json.dumps([table], separators=(",", ":")).encode()), **rest,
        },
        {"operation": "unregister", "hook": "global/added", "removed": ["added"], **rest},
    ]  # fmt: skip


async def test_who_leaves_before_the_answer_is_recorded_all_the_same(daemon: Daemon) -> None:
    (daemon.folder / "guards.py").unlink()
    daemon.write("hooks.d/more.py", GUARD.replace("guard", "more"))
    async with daemon.administrator() as client:
        await client.call("reload")
        (daemon.folder / "hooks.d/more.py").unlink()
        async with daemon.administrator() as hasty:
            await hasty.send("reload", accept_removed=True)
            while daemon.parts.reloader.active.plan.removed == []:
                await trio.lowlevel.checkpoint()
        found = await recorded(client)

    assert found[-1]["accepted"] == [str(daemon.folder / "hooks.d/more.py")]


async def test_what_is_refused_is_no_operation(daemon: Daemon) -> None:
    async with daemon.administrator() as client:
        with pytest.raises(RpcFailure, match="no hook"):
            await client.call("disable", id="nobody", scope="global", by="ann", reason="a try")
        with pytest.raises(RpcFailure, match="by"):
            await client.call("disable", id="guard", scope="global", by="x" * 1000, reason="a try")
        hooks = (await client.call("hooks"))["hooks"]
        found = await recorded(client)

    assert found == []
    assert [hook["enabled"] for hook in hooks] == [True]  # a name that is too long changes nothing


async def test_an_agent_has_no_name_to_give(daemon: Daemon) -> None:
    async with daemon.session() as agent, daemon.administrator() as client:
        await agent.call("register", hooks=[{"id": "mine", "event": "pre_tool_use", "served": True}])
        await agent.call("disable", id="mine", by="an administrator", reason="it says")

        assert await recorded(client) == []
