"""The daemon as a whole, in this process, over its real sockets with real workers."""

from __future__ import annotations

import gc
import subprocess
from pathlib import Path

import pytest

from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.connection import Connection
from support.daemons import running_daemon
from support.guards import FILES
from support.pools import until
from support.warm_commands import PYTHON

GUARD = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash")
def no_rm(event):
    if "rm" in event.tool_input["command"]:
        return deny("no rm here")
"""
CONFIG = '[[source]]\npath = "guards.py"\n'


async def test_a_guard_of_a_file_denies_what_it_was_written_to_deny(tmp_path: Path) -> None:
    files = {"hooks.toml": CONFIG, "guards.py": GUARD}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        denied = await client.fire_tool("Bash", command="rm -rf /")
        passed = await client.fire_tool("Bash", command="ls")

    assert (denied["verdict"], denied["cause"], denied["reason"]) == ("deny", "policy", "no rm here")
    assert (denied["layer"], denied["hook"]) == ("global", "guards:no_rm")
    assert passed["verdict"] == "pass"


def count(kind: type) -> int:
    return sum(isinstance(one, kind) for one in gc.get_objects())


async def test_sessions_and_connections_leave_no_cycles_for_a_full_collection(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with running_daemon(tmp_path, FILES) as daemon:
        gc.collect()
        gc.disable()
        sessions, connections = count(AgentSession), count(Connection)
        try:
            async with daemon.session() as client:
                own = {"id": "own", "event": "stop", "run": str(tmp_path / "guards.py:judge")}
                await client.call("register", hooks=[own])
                await client.call("subscribe", topics=["registry", "decisions"])
                slow = {"tool_name": "Slow", "tool_input": {"until": str(go)}}
                fire = await client.send("fire", event="pre_tool_use", payload=slow)
                pools = daemon.parts.sources.pools.values()
                await until(lambda: any(pool.status()["busy"] for pool in pools))
                await client.call("ping")  # which another task of the connection has to read
                go.touch()
                await client.answer_to(fire)
                assert (count(AgentSession), count(Connection)) == (sessions + 1, connections + 1)
                await client.call("session.close")
            await until(lambda: (count(AgentSession), count(Connection)) == (sessions, connections))
        finally:
            gc.enable()


PROGRAM = """
import sys
import trio
from hooklatch.service.daemon import open_daemon
from hooklatch.service.folders import DaemonOptions

async def main():
    folder = sys.argv[1]
    places = {"config": "hooks.toml", "runtime_dir": "run", "state_dir": "state"}
    options = {name: f"{folder}/{place}" for name, place in places.items()}
    async with open_daemon(DaemonOptions(**options, owns_process=False)):
        print("serves", flush=True)

trio.run(main)
"""


@pytest.mark.slow
def test_a_program_that_runs_it_inside_itself_is_not_run_again_by_the_processes_of_its_hooks(tmp_path: Path) -> None:
    """Slow: the program is a process of its own."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [*PYTHON, str(tmp_path / "program.py"), str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "serves\n"), done.stderr
