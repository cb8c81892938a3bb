"""The built-in hook in a daemon's worker, where servers must outlive calls but not the worker."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from hooklatch_worker.lsp import diagnostics
from hooklatch_worker.systems import linux
from support.daemons import Client, Daemon, running_daemon

HOOK = f"""
[[hook]]
id = "lsp"
event = "post_tool_use"
match = {list(diagnostics.TOOLS)!r}
run = "hooklatch_worker.lsp.diagnostics:diagnose"
timeout = 6.0
config = {{ timeout = 5.0 }}
"""
BROKEN = "print(missing)\n"
LINE = "error: Undefined name `missing` at a.py:1:7"


async def fire(client: Client, tool: str, folder: Path) -> list[str]:
    tool_input = {"file_path": str(folder / "a.py")}
    decision = await client.call(
        "fire", event="post_tool_use", payload={"tool_name": tool, "tool_input": tool_input, "tool_response": "ok"}
    )
    return (decision.get("append") or "").splitlines()


def servers_of(daemon: Daemon) -> dict[int, int]:
    """Return the servers below the daemon's workers, each with its worker."""
    return {server: worker for worker in daemon.worker_pids for server in linux.list_children(worker)}


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["Edit", "write_file"])
async def test_a_server_serves_several_fires_and_ends_with_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """Slow: a daemon, a worker and a language server start."""
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + ":/usr/bin:/bin")
    (tmp_path / "a.py").write_text(BROKEN)

    async with running_daemon(tmp_path, {"hooks.toml": HOOK}) as daemon:
        async with daemon.session(cwd=str(tmp_path)) as client:
            answers = [await fire(client, tool, tmp_path) for _ in range(3)]
            read = await fire(client, "Read", tmp_path)
        servers = servers_of(daemon)

    assert answers == [["[lsp diagnostics]", LINE]] * 3
    assert read == []
    assert 1 <= len(servers) <= len(set(servers.values()))
    assert all(has_ended(server) for server in servers)


@pytest.mark.slow
async def test_a_server_dies_with_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow: a daemon, a worker and a language server start."""
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + ":/usr/bin:/bin")
    (tmp_path / "a.py").write_text(BROKEN)

    async with running_daemon(tmp_path, {"hooks.toml": HOOK}) as daemon, daemon.session(cwd=str(tmp_path)) as client:
        await fire(client, "Edit", tmp_path)
        [(server, worker), *_] = servers_of(daemon).items()
        os.kill(worker, 9)

        assert has_ended(server)


def has_ended(pid: int) -> bool:
    """Return whether a process ends within five seconds."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], 5.0)[0])
    finally:
        os.close(pidfd)
