"""Who is the fleet's link, and what that may do: by its token alone, and its own methods alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.service.daemon import open_daemon
from hooklatch.service.folders import DaemonOptions
from support.daemons import Client, Daemon, RpcFailure, nothing_left, running_daemon
from support.fleets import fleet_table, link_of, token_of
from support.records import records

LINKS_OWN = {"fleet_follow", "fleet_apply", "fleet_shipped"}
MAY = {*LINKS_OWN, "ping", "health"}


async def refusal(client: Client, method: str, **params: Any) -> str:
    with pytest.raises(RpcFailure) as caught:
        await client.call(method, **params)
    return caught.value.name


def noted(daemon: Daemon, action: str) -> list[dict[str, Any]]:
    return [one for one in records(daemon.folder / "state" / "record") if one.get("action") == action]


async def test_a_link_may_call_its_methods_and_nothing_else(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon, link_of(daemon) as link:
        tables = daemon.parts.methods.tables
        every = {name for table in tables.values() for name in table} | {"fire", "no_such_method"}
        refused = {name: await refusal(link, name, event="stop", payload={}) for name in sorted(every - MAY)}
        health, pong = await link.call("health"), await link.call("ping")
        unwaited = await refusal(link, "fire", event="stop", payload={}, wait=False)

    assert set(tables["link"]) <= MAY
    assert set(refused.values()) | {unwaited} == {"not_permitted"}
    assert (health["reasons"], pong) == (["fleet"], {})  # it was never in contact


async def test_nobody_else_may_call_what_only_a_link_may(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon,
        daemon.session() as agent,
        daemon.administrator() as admin,
    ):
        stranger = daemon.connect(daemon.admin)
        names = sorted(daemon.parts.methods.tables["link"].keys() & LINKS_OWN)
        told = [await refusal(client, name, seq=1) for client in (agent, admin, stranger) for name in names]
        await stranger.aclose()

    assert set(told) == {"not_permitted"}


async def test_the_token_is_for_its_owner_alone_and_new_at_each_start(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
            path = Path(daemon.admin).parent / "fleet.token"
            seen.append(token_of(daemon))
            mode = stat.S_IMODE(path.stat().st_mode)

    assert mode == 0o600
    assert [len(token) for token in seen] == [64, 64]
    assert seen[0] != seen[1]
    assert not path.exists()


async def test_the_token_is_where_the_admin_socket_is(tmp_path: Path) -> None:
    """Whoever is given the directory of the agent socket alone is not given the token."""
    (tmp_path / "hooks.toml").write_text(fleet_table())
    options = DaemonOptions(
        config=str(tmp_path / "hooks.toml"), runtime_dir=str(tmp_path / "run"), state_dir=str(tmp_path / "state"),
        owns_process=False, admin_dir=str(tmp_path / "admin"),
    )  # fmt: skip
    with nothing_left():
        async with open_daemon(options):
            found = [folder for folder in ("run", "admin") if "fleet.token" in os.listdir(tmp_path / folder)]

    assert found == ["admin"]


async def test_without_a_fleet_there_is_no_token_and_no_link(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    (run / "fleet.token").write_text("left by a daemon that was killed")

    async with running_daemon(tmp_path) as daemon:
        client = daemon.connect(daemon.admin)
        with pytest.raises(RpcFailure, match=r"not_permitted: there is no token: hooks\.toml has no \[fleet\] table"):
            await client.call("hello", protocol=1, role="link", token="left by a daemon that was killed")
        await client.aclose()
        is_there = (run / "fleet.token").exists()

    assert not is_there


@pytest.mark.parametrize(
    ("hello", "name"),
    [
        ({"role": "link"}, "not_permitted"),
        ({"role": "link", "token": ""}, "not_permitted"),
        ({"role": "link", "token": "0" * 64}, "not_permitted"),
        ({"role": "link", "token": "\u0661" * 64}, "not_permitted"),
    ],
)
async def test_a_wrong_token_is_refused_and_recorded(tmp_path: Path, hello: dict[str, str], name: str) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        client = daemon.connect(daemon.admin)
        refused = await refusal(client, "hello", protocol=1, **hello)
        later = await refusal(client, "fleet_shipped", seq=1)
        await client.call("hello", protocol=1)  # it stays what it was
        found = noted(daemon, "link refused")
        await client.aclose()

    assert (refused, later) == (name, "not_permitted")
    assert len(found) == 1
    assert "token" in found[0]["problem"]


@pytest.mark.parametrize("role", ["links", "admin", "agent", ""])
async def test_no_other_role_can_be_asked_for(tmp_path: Path, role: str) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        client = daemon.connect(daemon.admin)
        with pytest.raises(RpcFailure, match="invalid_params: unknown role"):
            await client.call("hello", protocol=1, role=role, token=token_of(daemon))
        await client.aclose()


async def test_on_the_agent_socket_the_role_is_refused_and_recorded(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        client = daemon.connect()
        refused = await refusal(client, "hello", protocol=1, role="link", token=token_of(daemon))
        found = noted(daemon, "link refused")
        await client.aclose()

    assert refused == "not_admin"
    assert len(found) == 1


async def test_a_link_has_no_session(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        client = daemon.connect(daemon.admin)
        refused = await refusal(client, "hello", protocol=1, role="link", token=token_of(daemon), session={})
        await client.call("hello", protocol=1, role="link", token=token_of(daemon))
        again = await refusal(client, "hello", protocol=1)
        sessions = len(daemon.parts.sessions)
        await client.aclose()

    assert (refused, again, sessions) == ("invalid_params", "not_permitted", 0)


async def test_a_table_that_comes_and_goes_takes_the_token_and_the_links_along(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon, daemon.administrator() as admin:
        daemon.write("hooks.toml", fleet_table())
        await admin.call("reload")
        first = token_of(daemon)
        async with link_of(daemon) as link:
            daemon.write("hooks.toml", fleet_table(more='labels = ["ci"]'))
            await admin.call("reload")
            assert await link.hears_the_end()
        second = token_of(daemon)
        async with link_of(daemon) as link:
            daemon.write("hooks.toml", "")
            await admin.call("reload")
            assert await link.hears_the_end()
        is_there = (Path(daemon.admin).parent / "fleet.token").exists()

    assert first != second
    assert not is_there


async def test_a_reload_that_changes_nothing_keeps_the_link_and_one_after_a_loss_mends_it(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon,
        daemon.administrator() as admin,
        link_of(daemon) as link,
    ):
        first = token_of(daemon)
        await admin.call("reload")
        await link.call("ping")
        kept = token_of(daemon)
        (Path(daemon.admin).parent / "fleet.token").unlink()
        await admin.call("reload")
        second = token_of(daemon)

    assert first == kept != second


@pytest.mark.parametrize("main", ["", "[workers]\nworkers = 3\n", None])
async def test_only_an_explicit_reload_accepts_that_the_table_is_gone(tmp_path: Path, main: str | None) -> None:
    table = fleet_table(more='when_stale = "deny"')
    async with (
        running_daemon(tmp_path, {"hooks.toml": table}) as daemon,
        link_of(daemon) as link,
        daemon.session() as client,
    ):
        if main is None:
            (tmp_path / "hooks.toml").unlink()
        else:
            daemon.write("hooks.toml", main)
        await client.until_status(lambda status: bool(status["problems"]))
        still = await link.call("ping")
        decisions = [await client.fire_tool("Read")]
    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin, daemon.session() as client:
        decisions.append(await client.fire_tool("Read"))
        status = await admin.call("status")
        async with link_of(daemon) as link:
            await admin.call("reload", accept_removed=main is None)
            assert await link.hears_the_end()
        passed = await client.fire_tool("Read")
        after = await admin.call("status")

    assert still == {}
    assert [(one["verdict"], one["hook"]) for one in decisions] == [("deny", "contact")] * 2
    assert status["record"]["shipping"] is not None
    assert "hooklatch reload" in status["problems"][0]["message"]
    assert passed["verdict"] == "pass"
    assert (after["fleet"], after["record"]["shipping"]) == (None, None)


async def test_a_broken_main_file_keeps_the_host_in_its_fleet_across_a_restart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}):
        pass
    async with running_daemon(tmp_path, {"hooks.toml": "[fleet]\nnam = 1"}) as daemon, link_of(daemon) as link:
        assert await link.call("ping") == {}


async def test_a_token_that_cannot_be_written_lets_nobody_in_and_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "run" / "fleet.token"
    os.makedirs(blocked, mode=0o700)
    (tmp_path / "run").chmod(0o700)

    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon, daemon.administrator() as admin:
        client = daemon.connect(daemon.admin)
        refused = await refusal(client, "hello", protocol=1, role="link", token="x")
        faults = (await admin.call("status"))["faults"]
        blocked.rmdir()
        await admin.call("reload")
        async with link_of(daemon) as link:
            await link.call("fleet_follow")
        mended = (await admin.call("status"))["faults"]
        await client.aclose()

    assert refused == "not_permitted"
    assert any("the fleet's link cannot connect" in fault for fault in faults)
    assert not any("the fleet's link cannot connect" in fault for fault in mended)


async def test_a_link_that_is_killed_leaves_nothing_and_the_next_may_come(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        for _ in range(3):
            async with link_of(daemon) as link:
                await link.call("ping")
        with trio.fail_after(10):
            while daemon.parts.bus.connections:  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.005)
