"""The record as clients see it: each answer names it, nothing unrecorded is allowed, and an abandoned gate is in it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import CALLBACKS, Daemon, RpcFailure, nothing_can_be_written, running_daemon
from support.pools import until

GUARDS = """
from hooklatch import allow, deny, hook

@hook("pre_tool_use", match=["Allow", "Deny", "Crash"])
def judge(event):
    if event.tool_name == "Crash":
        raise ValueError("its password=hunter2 is wrong")
    return allow() if event.tool_name == "Allow" else deny("not this")

@hook("post_tool_use")
def seen(event):
    return None
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


def records(daemon: Daemon, kind: str = "decision") -> list[dict[str, Any]]:
    lines = [
        json.loads(line)
        for path in sorted((daemon.folder / "state/record").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    return [line for line in lines if line["kind"] == kind]


@pytest.mark.parametrize("tool", ["Allow", "Deny", "Crash", "Nobody"])
async def test_every_answer_names_its_record(daemon: Daemon, tool: str) -> None:
    async with daemon.session() as client:
        decision = await client.fire_tool(tool, command="ls")
        (record,) = records(daemon)  # it is in the file by now

    assert decision["record"] == {"seq": record["seq"], "hash": record["hash"][: len(decision["record"]["hash"])]}
    for key in ("decision_id", "event", "verdict", "payload_digest", "revision"):
        assert record[key] == decision[key]
    for key in ("cause", "reason", "layer", "hook"):
        assert record.get(key) == (decision[key] and decision[key].replace("password=hunter2", "[redacted]"))
    payload = b'{"tool_name": "%b", "tool_input": {"command": "ls"}}' % tool.encode()
    assert record["payload_digest"] == sha256(payload).hexdigest()


async def test_a_one_shot_and_an_event_that_cannot_refuse_are_recorded_too(daemon: Daemon) -> None:
    client = daemon.connect()
    decision = await client.fire("post_tool_use", tool_name="Bash", password="hunter2")
    await client.aclose()

    (record,) = records(daemon)
    assert (record["decision_id"], record["gate"]) == (decision["decision_id"], False)
    assert "hunter2" not in json.dumps(record)


async def test_hello_and_status_give_the_head(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        decision = await client.fire_tool("Deny")
        status = await admin.call("status")

    assert client.hello["record"]["seq"] < decision["record"]["seq"]  # type: ignore[attr-defined]
    assert status["record"]["head"] == decision["record"]
    assert status["record"]["durability"] == "written"


async def test_a_decision_that_cannot_be_recorded_is_a_deny(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        with nothing_can_be_written():
            allowed = await client.fire_tool("Allow")
            refused = await client.fire_tool("Deny")
            other = await client.fire("post_tool_use", tool_name="Bash")
            red = await admin.call("status")
        with trio.fail_after(10):
            while (again := await client.fire_tool("Allow"))["cause"] == "audit":
                continue

    for decision in (allowed, refused):
        assert (decision["verdict"], decision["cause"], decision["retryable"]) == ("deny", "audit", False)
        assert decision["reason"].startswith("the decision could not be recorded (fail-safe deny): ")
        assert decision["patch"] is None
        assert [one["verdict"] for one in decision["outcomes"]] != []
    assert refused["reason"].endswith("(it was refused in any case: not this)")
    assert other["verdict"] == "pass"
    assert red["health"] == "red"
    assert red["failures"]["audit"] == 2
    assert again["verdict"] == "allow"


async def test_a_gate_whose_client_left_is_recorded_as_abandoned(tmp_path: Path) -> None:
    files = {"hooks.toml": '[[source]]\npath = "patient.py"\n', "patient.py": (CALLBACKS / "patient.py").read_text()}
    async with running_daemon(tmp_path, files) as daemon:
        client = daemon.connect()
        await client.call("hello", protocol=1, session={"id": "s1"})
        payload = {"tool_name": "wait", "began": str(tmp_path / "began"), "go": str(tmp_path / "go")}
        await client.send("fire", event="pre_tool_use", payload=payload)
        await until((tmp_path / "began").exists)
        await client.aclose()
        await until(lambda: bool(records(daemon, "abandoned")))
        (tmp_path / "go").touch()

        (record,) = records(daemon, "abandoned")

    assert (record["event"], record["session"]) == ("pre_tool_use", "s1")
    assert not records(daemon)


async def test_a_gate_whose_client_left_while_its_projects_were_looked_up_is_recorded(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookup of a disk that does not answer stands for any that takes long."""
    looking = trio.Event()

    async def look_for_ever(*_: object) -> None:
        looking.set()
        await trio.sleep_forever()

    monkeypatch.setattr(daemon.parts.dispatcher._projects, "find_current", look_for_ever)
    project = tmp_path / "project" / ".hooklatch"
    project.mkdir(parents=True)
    (project / "hooks.toml").write_text("")
    async with daemon.administrator() as admin:
        await admin.call("trust", folder=str(project.parent))
    client = daemon.connect()
    await client.call("hello", protocol=1, session={"id": "s1"})
    await client.send("fire", event="pre_tool_use", payload={"tool_name": "Allow"})
    await looking.wait()
    await client.aclose()
    await until(lambda: bool(records(daemon, "abandoned")))

    assert not records(daemon)


async def test_what_changes_the_policy_is_recorded(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        disabled = await admin.call("disable", id="guards:judge")
        await admin.call("suspend", id="guards:seen", seconds=60, reason="trying")
        await admin.call("resume", id="guards:seen")
    sources = {Path(record["location"]).name: record["sha256"] for record in records(daemon, "source")}
    assert sources == {
        name: sha256((daemon.folder / name).read_bytes()).hexdigest() for name in ("guards.py", "hooks.toml")
    }
    assert records(daemon, "registry")[-1]["revision"] == disabled["revision"]
    assert records(daemon, "registry")[-1]["changed"] == ["guards:judge"]
    assert records(daemon, "suspended")[0]["reason"] == "trying"
    assert records(daemon, "resumed")[0]["hook"] == "global/guards:seen"


async def test_sync_has_a_gates_decision_on_the_disk_before_its_answer(tmp_path: Path) -> None:
    files = {**FILES, "hooks.toml": '[daemon]\nrecord = "sync"\n' + FILES["hooks.toml"]}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client, daemon.administrator() as admin:
        decision = await client.fire_tool("Allow")
        status = await admin.call("status")

    assert status["record"]["durability"] == "sync"
    assert status["record"]["synced_seq"] >= decision["record"]["seq"]


async def test_an_operator_asks_for_any_record_and_an_agent_for_its_own_sessions(daemon: Daemon) -> None:
    async with daemon.session(id="s1") as one, daemon.session(id="s2") as two, daemon.administrator() as admin:
        mine = await one.fire_tool("Deny")
        other = await two.fire_tool("Allow")
        all_of_them = await admin.call("log", kind="decision")
        own = await one.call("log")
        with pytest.raises(RpcFailure, match="not_admin"):
            await one.call("log", session="s2")

    assert {record["decision_id"] for record in all_of_them["records"]} == {mine["decision_id"], other["decision_id"]}
    assert [record["decision_id"] for record in own["records"]] == [mine["decision_id"]]


async def test_a_session_does_not_see_what_an_earlier_one_of_its_id_did(daemon: Daemon) -> None:
    async with daemon.session(id="s1") as earlier:
        await earlier.fire_tool("Deny")
    daemon.parts.sessions.discard(next(iter(daemon.parts.sessions)))

    async with daemon.session(id="s1") as later:
        assert (await later.call("log"))["records"] == []
        await later.fire_tool("Allow")
        assert [record["verdict"] for record in (await later.call("log"))["records"]] == ["allow"]
