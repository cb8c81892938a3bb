"""Conditions in a daemon: from a file, from a mark, from a client; what a gate says where one cannot be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, RpcFailure, running_daemon

TOML = """
[[source]]
path = "guards.py"

[[hook]]
id = "push"
event = "pre_tool_use"
match = "shell"
where = { command = "git push" }
run = "guards.py:says_no"

[[hook]]
id = "keys"
event = "pre_tool_use"
match = ["write", "mcp__db__write"]
where = { path = "secrets/**" }
run = "guards.py:says_no"

[[hook]]
id = "bad"
event = "pre_tool_use"
match = "Broken"
where = { comand = "x" }
run = "guards.py:says_no"

[[hook]]
id = "told"
event = "post_tool_use"
where = { "tool_input.n" = "> 5" }
run = "guards.py:notes"
"""
GUARDS = """
from hooklatch import amend, append, deny, hook

def says_no(event):
    return deny("no")

def notes(event):
    return append("noted")

@hook("pre_tool_use", match="Bash", where={"command": "echo"}, amends=True)
def makes_a_push(event):
    if "turn into" in event.tool_input["command"]:
        return amend(tool_input={"command": "git push"})

@hook("pre_tool_use", match="Bash", where={"command": "hidden"}, id="a")
@hook("pre_tool_use", match="Observed", where={"command": "hidden"}, observe=True, id="b")
@hook("pre_tool_use", match="Optional", where={"command": "hidden"}, optional=True, id="c")
def raises(event):
    raise ValueError("it was called")
"""


def called(decision: dict[str, Any]) -> list[str]:
    return [one["hook"] for one in decision.get("outcomes", ())]


async def fire(client: Client, tool: str, cwd: str = "/work", **tool_input: Any) -> dict[str, Any]:
    payload = {"tool_name": tool, "tool_input": tool_input}
    return await client.call("fire", event="pre_tool_use", payload=payload, envelope={"cwd": cwd})


async def test_a_guard_is_called_only_for_what_it_is_for(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": TOML, "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        assert called(await fire(client, "Bash", command="ls")) == []
        pushed = await fire(client, "Bash", command="cd x && sudo git push")
        assert (pushed["verdict"], pushed["hook"]) == ("deny", "push")
        # of what a hook made of the input
        made = await fire(client, "Bash", command="echo turn into")
        assert (made["verdict"], made["hook"]) == ("deny", "push")
        assert called(made) == ["guards:makes_a_push", "push"]
        # by the agent's folder
        assert (await fire(client, "Write", file_path="secrets/x", content=""))["hook"] == "keys"
        assert (await fire(client, "Write", file_path="/work/secrets/x", content=""))["hook"] == "keys"
        assert called(await fire(client, "Write", "/elsewhere", file_path="/work/secrets/x", content="")) == []
        # what is not there
        missing = await fire(client, "mcp__db__write", table="t")
        assert (missing["verdict"], missing["cause"], called(missing)) == ("deny", "payload", [])
        assert "its field 'path' is missing, and global/keys has a condition on it" in missing["reason"]
        no_command = await fire(client, "Bash")
        assert (no_command["verdict"], no_command["cause"]) == ("deny", "payload")
        unreadable = await fire(client, "Bash", command="ls ((")
        assert called(unreadable)[:1] == ["guards:makes_a_push"]
        observed, optional = await fire(client, "Observed"), await fire(client, "Optional")
        assert (observed["verdict"], optional["verdict"]) == ("pass", "pass")
        assert [called(one) for one in (observed, optional)] == [["b@pre_tool_use"], ["c@pre_tool_use"]]
        # a condition that cannot be used denies where its hook stands
        broken = await fire(client, "Broken", command="x")
        assert (broken["verdict"], broken["cause"], broken["hook"]) == ("deny", "load", "bad")
        assert "did you mean 'command'?" in broken["reason"]
        # what cannot refuse skips it
        for given, expected in (({"n": 6}, ["told"]), ({"n": 5}, []), ({}, []), ({"n": "6"}, [])):
            payload = {"tool_name": "x", "tool_input": given}
            assert called(await client.call("fire", event="post_tool_use", payload=payload)) == expected
        explained = await admin.call(
            "explain", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {"command": "ls"}}
        )
        why = {one["hook"]: one["why"] for one in explained["others"]}
        assert why["push"] == "a condition does not hold: command is command git push"
        assert why["keys"].startswith("its matcher")
        blind = await admin.call("explain", event="pre_tool_use", payload={"tool_name": "Write", "tool_input": {}})
        assert "came without a known path" in blind["refusal"]
        listed = {one["id"]: one["where"] for one in (await admin.call("hooks"))["hooks"]}
        assert listed["keys"] == "path is path secrets/**"


async def test_a_client_registers_conditions_and_is_told_what_is_wrong_with_them(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        mine = {"id": "mine", "event": "pre_tool_use", "served": True, "where": {"command": "rm -rf"}}
        with pytest.raises(RpcFailure, match="hook 'mine': where: command: 'rm -rf' has an option"):
            await client.call("register", hooks=[mine])
        with pytest.raises(RpcFailure, match="has no field 'comand'; did you mean 'command'"):
            await client.call("register", hooks=[mine | {"where": {"comand": "rm"}}])

        await client.call("register", hooks=[mine | {"where": {"command": "rm"}}])

        assert called(await client.fire_tool("Bash", command="ls")) == []


async def test_a_file_that_breaks_over_a_restart_denies_only_what_its_conditions_meant(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": TOML, "guards.py": GUARDS}):
        pass
    (tmp_path / "guards.py").write_text("this is (")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        refused = await fire(client, "Bash", command="git push")
        passed = await fire(client, "Bash", command="ls")

    assert (refused["verdict"], refused["cause"]) == ("deny", "load")
    assert passed["verdict"] == "pass"
