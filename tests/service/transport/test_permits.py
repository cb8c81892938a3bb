"""Which events a client is told that it need not fire, and that each change reaches it before it is acknowledged."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.service.transport import permits
from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon

GUARDS = "def look(event):\n    return None\n"


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": "", "guards.py": GUARDS}) as running:
        yield running


def hook(daemon: Daemon, hook_id: str, event: str) -> dict[str, Any]:
    return {"id": hook_id, "event": event, "run": f"{daemon.folder}/guards.py:look"}


async def permitted(client: Client) -> set[str]:
    """Subscribe, and return what the client is told."""
    await client.call("subscribe", topics=["idle"])
    return set(client.announcements.pop()["events"])


def already_told(client: Client) -> bytes:
    """Return what is in the client's socket at this very moment."""
    try:
        return client.stream.socket._sock.recv(2**20)  # type: ignore[attr-defined]
    except BlockingIOError:
        return b""


async def test_a_client_may_skip_what_nobody_listens_to_and_what_cannot_refuse(daemon: Daemon) -> None:
    async with daemon.session(hooks=[hook(daemon, "mine", "stop")]) as client:
        events = await permitted(client)

    gates = {name for name, spec in Catalogue.standard().items() if spec.fails_closed}
    assert events == set(Catalogue.standard()) - gates - {"stop"}
    assert "pre_tool_use" in gates


@pytest.mark.parametrize("how", ["global", "own", "second connection", "enable", "trust", "file", "setting"])
async def test_it_is_told_before_the_change_is_acknowledged(daemon: Daemon, how: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".hooklatch").mkdir(parents=True)
    (work / ".hooklatch" / "hooks.toml").write_text('[[source]]\npath = "g.py"\n')
    (work / ".hooklatch" / "g.py").write_text("")
    mine = {**hook(daemon, "mine", "stop"), "enabled": False}
    async with daemon.administrator() as admin, daemon.session(cwd=str(work), hooks=[mine]) as client:
        hello = client.hello  # type: ignore[attr-defined]
        assert "stop" in await permitted(client)
        token = {"id": hello["session_id"], "resume_token": hello["resume_token"]}
        match how:
            case "global":
                await admin.call("register", scope="global", hooks=[hook(daemon, "g", "stop")])
            case "own" | "enable":
                async with daemon.session(**token) as other:
                    if how == "enable":
                        await other.call("enable", id="mine")
                    else:
                        await other.call("register", hooks=[hook(daemon, "o", "stop")])
                    told = already_told(client)
            case "second connection":
                async with daemon.session(**token, hooks=[hook(daemon, "o", "stop")]):
                    told = already_told(client)
            case "trust":
                await admin.call("trust", folder=str(work))
            case "file":
                daemon.write("hooks.toml", '[[hook]]\nid = "f"\nevent = "stop"\nrun = "guards.py:look"\n')
                await admin.call("reload")
            case _:
                daemon.write("hooks.toml", "[record]\nskipping = false\n")
                await admin.call("reload")
        if how in ("global", "trust", "file", "setting"):
            told = already_told(client)

    assert b'"topic":"idle"' in told
    assert b'"stop"' not in told.splitlines()[-1]


async def test_a_session_in_a_trusted_project_skips_nothing_nor_do_its_children(daemon: Daemon, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".hooklatch").mkdir(parents=True)
    (work / ".hooklatch" / "hooks.toml").write_text("")
    async with daemon.administrator() as admin, daemon.session(cwd=str(tmp_path)) as parent:
        await admin.call("trust", folder=str(work))
        async with daemon.session(cwd=str(tmp_path), **child_of(parent)) as child:
            assert "stop" in await permitted(parent)
            assert "stop" in await permitted(child)

            await parent.call("session.update", cwd=str(work))

            told = already_told(child)
            assert json.loads(told)["params"]["events"] == []
            assert parent.announcements.pop()["events"] == []


async def test_an_event_that_becomes_a_gate_is_taken_back(daemon: Daemon) -> None:
    event = '[[event]]\nname = "deploy"\nmodel = "{}"\nverdicts = {}\n'
    daemon.write("hooks.toml", event.format("notify", []))
    async with daemon.administrator() as admin, daemon.session() as client:
        await admin.call("reload")
        assert "deploy" in await permitted(client)

        daemon.write("hooks.toml", event.format("gate", ["deny"]))
        await admin.call("reload")

        assert b'"deploy"' not in already_told(client).splitlines()[-1]


async def test_what_a_session_requires_a_hook_for_is_not_skipped(daemon: Daemon) -> None:
    async with daemon.session(require_handlers=["stop"]) as client:
        assert "stop" not in await permitted(client)


async def test_whoever_watches_decisions_sees_them_all(daemon: Daemon) -> None:
    async with daemon.administrator() as admin, daemon.session() as client:
        await permitted(client)

        await admin.call("subscribe", topics=["decisions"])
        while_watched = await client.announcement()
        await admin.call("unsubscribe", topics=["decisions"])
        afterwards = await client.announcement()
        async with daemon.session() as other:
            await other.call("subscribe", topics=["decisions"])
            async with daemon.administrator() as leaving:
                await leaving.call("subscribe", topics=["decisions"])
                while_watched_again = await client.announcement()
            at_last = await client.announcement()

    assert [while_watched["events"], while_watched_again["events"]] == [[], []]
    assert "stop" in afterwards["events"]
    assert "stop" in at_last["events"]


async def test_a_parent_that_watches_sees_all_decisions_of_its_children(daemon: Daemon) -> None:
    async with daemon.session() as parent, daemon.session(**child_of(parent)) as child:
        await permitted(child)
        await parent.call("subscribe", topics=["decisions"])

        assert json.loads(already_told(child))["params"]["events"] == []


async def test_who_unsubscribes_must_fire_everything(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await permitted(client)
        await client.call("unsubscribe", topics=["idle"])

    assert client.announcements.pop()["events"] == []


async def test_a_change_elsewhere_is_not_told(daemon: Daemon) -> None:
    async with daemon.administrator() as admin, daemon.session() as client:
        await permitted(client)
        await admin.call("register", scope="global", hooks=[hook(daemon, "g", "pre_tool_use")])

        assert already_told(client) == b""


async def test_a_client_that_reads_nothing_is_cut_off_before_the_change_is_acknowledged(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "TIMEOUT", 0.05)
    async with daemon.administrator() as admin, daemon.session() as client:
        await permitted(client)
        (connection,) = [one for one in daemon.parts.bus.connections.values() if one.may_skip]
        while connection.send_all(b"x" * 2**16):
            continue

        await admin.call("register", scope="global", hooks=[hook(daemon, "g", "stop")])
        is_over = await client.hears_the_end()

    assert is_over


async def test_a_client_that_reads_late_is_waited_for(daemon: Daemon) -> None:
    async with daemon.administrator() as admin, daemon.session() as client:
        await permitted(client)
        (connection,) = [one for one in daemon.parts.bus.connections.values() if one.may_skip]
        filler = b'{"jsonrpc":"2.0","method":"filler","params":{}}\n' * 1000
        while connection.send_all(filler):
            continue

        number = await admin.send("register", scope="global", hooks=[hook(daemon, "g", "stop")])
        told = await client.announcement()
        await admin.answer_to(number)

    assert "stop" not in told["events"]


async def test_what_was_skipped_is_counted_and_recorded(daemon: Daemon) -> None:
    async with daemon.administrator() as admin, daemon.session(id="s") as client:
        await client.send_line({"jsonrpc": "2.0", "method": "skipped", "params": {"events": {"stop": 3, "metrics": 2}}})
        await client.call("fire", event="stop")
        status = await admin.call("status")
        records = (await admin.call("log", kind="skipped"))["records"]
        (session,) = (await admin.call("sessions"))["sessions"]

    assert (status["fired"], status["skipped"]) == (6, {"stop": 3, "metrics": 2})
    assert [(one["session"], one["events"]) for one in records] == [("s", {"stop": 3, "metrics": 2})]
    assert session["fires"] == 6


@pytest.mark.parametrize(
    "events", [{"pre_tool_use": 1}, {"no_such_event": 1}, {"stop": 0}, {"stop": 1, "pre_model": 1}]
)
async def test_nobody_can_report_to_have_skipped_a_gate(daemon: Daemon, events: dict[str, int]) -> None:
    async with daemon.administrator() as admin, daemon.session() as client:
        with pytest.raises(RpcFailure):
            await client.call("skipped", events=events)
        status = await admin.call("status")

    assert (status["fired"], status["skipped"]) == (0, {})


async def test_without_a_session_there_is_nothing_to_skip(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        with pytest.raises(RpcFailure, match="hello_required"):
            await admin.call("subscribe", topics=["idle"])
