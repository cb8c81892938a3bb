"""What a user can do about the fleet's hooks: nothing, but what the bundle allows.  Each attempt is recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Daemon, RpcFailure, child_of
from support.fleet_hosts import decided, health, host, notes
from support.fleets import link_of
from support.publishing import DENIES_BASH, Publisher, brought, guard
from support.states import put_state

OTHER = {"guards.py": guard("fleet").replace("no-bash", "no-other")}


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture
async def daemon(tmp_path: Path, publisher: Publisher) -> AsyncGenerator[Daemon]:
    """A host with a policy whose one hook has an id of its own."""
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(OTHER))
        yield daemon


async def attempts(daemon: Daemon) -> list[tuple[str, str]]:
    return [(one["why"], one["hook"]) for one in await notes(daemon, "attempt")]


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("disable", {"id": "fleet/no-other"}),
    ("disable", {"id": "no-other"}),
    ("unregister", {"id": "fleet/no-other"}),
    ("unregister", {"id": "no-other"}),
    ("suspend", {"id": "fleet/no-other", "seconds": 60, "reason": "r"}),
    ("suspend", {"id": "no-other", "seconds": 60, "reason": "r"}),
]


async def test_no_change_of_a_hook_of_the_fleet_is_made_and_each_attempt_is_recorded(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        for what, params in CHANGES:
            with pytest.raises(RpcFailure, match="not_permitted: fleet/no-other is a hook of the fleet"):
                await admin.call(what, **params)

        assert await attempts(daemon) == [(what, "fleet/no-other") for what, _ in CHANGES]
        assert await decided(daemon) == "fleet/no-other: fleet"
        assert await health(daemon) == "ready"


@pytest.mark.parametrize("what", ["disable", "unregister"])
async def test_a_session_changes_none_either(daemon: Daemon, what: str) -> None:
    async with daemon.session() as client:
        with pytest.raises(RpcFailure, match="not_permitted"):
            await client.call(what, id="fleet/no-other")
        with pytest.raises(RpcFailure, match="not_admin"):
            await client.call(what, id="fleet/no-other", scope="global")

        assert (await client.fire_tool("Bash"))["layer"] == "fleet"
    assert await attempts(daemon) == [(what, "fleet/no-other")]


async def test_a_bare_id_that_a_session_may_have_had_is_no_attempt(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("unregister", id="no-other")

    assert await attempts(daemon) == []


async def test_a_hook_of_the_same_id_beside_it_is_the_users_own(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.administrator() as admin:
        await brought(link, publisher.publish(DENIES_BASH))
        with pytest.raises(RpcFailure, match="fleet/no-bash"):
            await admin.call("disable", id="no-bash")  # it may mean either

        await admin.call("disable", id="global/no-bash")

        assert await decided(daemon) == "fleet/no-bash: fleet"
        assert await attempts(daemon) == []


async def test_enabling_changes_nothing_but_lifts_a_quarantine(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        await admin.call("enable", id="fleet/no-other")

    assert "fleet/no-other" not in daemon.parts.state.state.switches
    assert await decided(daemon) == "fleet/no-other: fleet"


async def test_all_are_suspended_but_the_fleets(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.administrator() as admin:
        await brought(link, publisher.publish({"guards.py": guard("fleet", "Read")}))

        answer = await admin.call("suspend", all=True, seconds=60, reason="r")

        assert "fleet/no-read" in answer["warnings"][0]
        assert await decided(daemon, "Read") == "fleet/no-read: fleet"
        assert await decided(daemon, "Bash") == "pass"
        assert await attempts(daemon) == [("suspend --all", "fleet/no-read")]


@pytest.mark.parametrize("which", [{"all": True}, {"id": "fleet/no-other"}], ids=str)
async def test_where_the_bundle_allows_it_it_is_suspended(
    tmp_path: Path, publisher: Publisher, which: dict[str, Any]
) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.administrator() as admin:
        await brought(link, publisher.publish(OTHER, suspendable=True))

        answer = await admin.call("suspend", **which, seconds=60, reason="r")

        assert "warnings" not in answer
        assert "fleet/no-other" not in await decided(daemon)
        await brought(link, publisher.publish(OTHER, suspendable=False))
        assert await decided(daemon) == "fleet/no-other: fleet"


async def test_what_stands_in_for_an_unknown_policy_is_never_suspended(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(OTHER, suspendable=True))
    (tmp_path / "state" / "fleet" / "policy.json").write_text("{")

    async with host(tmp_path, publisher.public) as daemon, daemon.administrator() as admin:
        await admin.call("suspend", all=True, seconds=60, reason="r")
        with pytest.raises(RpcFailure, match="not_permitted"):
            await admin.call("suspend", id="fleet/policy", seconds=60, reason="r")
        with pytest.raises(RpcFailure, match="not_permitted"):
            await admin.call("disable", id="fleet/policy")

        assert "fleet/policy" in await decided(daemon, "Read")


async def test_no_override_reaches_it(daemon: Daemon, publisher: Publisher) -> None:
    config = (daemon.folder / "hooks.toml").read_text()
    for name in ("fleet/no-other", "no-other"):
        daemon.write("hooks.toml", f'{config}\n[[override]]\nid = "{name}"\nenabled = false\nobserve = true\n')
        await daemon.parts.reloader.reload()
        await daemon.parts.reloader.reload()

        assert await decided(daemon) == "fleet/no-other: fleet"
        assert any("which cannot be overridden" in str(one) for one in daemon.parts.reloader.active.diagnostics)
    assert await attempts(daemon) == [("override", "fleet/no-other"), ("override", "no-other")]


async def test_no_switch_in_the_state_file_reaches_it(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(OTHER))
    path = tmp_path / "state" / "state.json"
    put_state(path.parent, json.dumps({**json.loads(path.read_text()), "switches": {"fleet/no-other": False}}))

    async with host(tmp_path, publisher.public) as daemon:
        assert await decided(daemon) == "fleet/no-other: fleet"
        assert await attempts(daemon) == [("a switch in the state file", "fleet/no-other")]


async def test_a_suspension_in_the_state_file_does_not_reach_it(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.administrator() as admin:
        await brought(link, publisher.publish(OTHER, suspendable=True))
        await admin.call("suspend", id="fleet/no-other", seconds=3600, reason="r")
        await brought(link, publisher.publish({**OTHER, "more.py": ""}, suspendable=False))

    async with host(tmp_path, publisher.public) as daemon:
        assert await decided(daemon) == "fleet/no-other: fleet"


async def test_a_session_and_its_children_see_it_whatever_they_register(daemon: Daemon) -> None:
    served = {"id": "no-other", "event": "pre_tool_use", "served": True}
    async with daemon.session() as parent, daemon.session(plugins=[], **child_of(parent)) as child:
        await parent.call("register", hooks=[served])
        for client in (parent, child):
            names = [hook["name"] for hook in (await client.call("hooks"))["hooks"]]
            assert names[0] == "fleet/no-other"


async def test_a_broken_state_file_and_a_broken_main_file_take_nothing_from_it(
    tmp_path: Path, publisher: Publisher
) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(OTHER))
    (tmp_path / "state" / "state.json").write_text("{")

    async with host(tmp_path, publisher.public, files={"hooks.toml": "= broken"}) as daemon:
        assert await decided(daemon) == "fleet/no-other: fleet"
        async with daemon.administrator() as admin:
            await admin.call("reload")
            assert await decided(daemon) == "fleet/no-other: fleet"
            assert await notes(daemon, "left") == []


async def test_a_fleets_hook_that_dies_too_often_is_quarantined_and_denies(
    tmp_path: Path, publisher: Publisher
) -> None:
    dying = (
        'import os\nfrom hooklatch import hook\n\n@hook("pre_tool_use", id="dies")\ndef f(event):\n    os._exit(1)\n'
    )
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.session() as client:
        await brought(link, publisher.publish({"guards.py": dying}))
        causes = [(await client.fire_tool("Read"))["cause"] for _ in range(7)]

        assert set(causes) == {"crash", "quarantined"}
        assert causes[-1] == "quarantined"
        async with daemon.administrator() as admin:
            await admin.call("enable", id="fleet/dies")
        assert (await client.fire_tool("Read"))["cause"] == "crash"
