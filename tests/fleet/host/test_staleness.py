"""A host without contact, with a real daemon and signed policy: its gates, its status, and back again."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from hooklatch.fleet.manifests import RolloutTarget
from support.daemons import Daemon, RpcFailure, child_of, running_daemon
from support.fleet_hosts import NO_POLICY
from support.fleets import fleet_table, link_of
from support.pools import until
from support.publishing import DENIES_BASH, Publisher, brought, guard

SOON = 'max_staleness = "300ms"\nwhen_stale = "deny"'
LATE = 'max_staleness = "1h"\nwhen_stale = "deny"'


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


def elsewhere(publisher: Publisher) -> list[str]:
    """Return a version for other hosts: there is something to read, and nothing to apply."""
    return [publisher.publish(DENIES_BASH, rollout=RolloutTarget(("elsewhere",))).envelope]


async def denied(daemon: Daemon, event: str = "pre_tool_use") -> str:
    """Fire an event for which nobody has a guard; return the hook that denied, and why, or the verdict."""
    async with daemon.session() as client:
        decision = await client.fire(event, tool_name="Read", tool_input={})
    return f"{decision['layer']}/{decision['hook']}: {decision['reason']}" if decision["cause"] else decision["verdict"]


async def fleet_of(daemon: Daemon) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        fleet: dict[str, Any] = (await admin.call("status"))["fleet"]
    return fleet


async def test_a_host_that_was_never_in_contact_denies_every_gate_and_passes_again_with_contact(
    tmp_path: Path, publisher: Publisher
) -> None:
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE)}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        before = [await denied(daemon, event) for event in ("pre_tool_use", "user_prompt_submit")]
        notified = await denied(daemon, "post_tool_use")
        health = await admin.call("health")
        status = await admin.call("status")
        async with link_of(daemon) as link:
            await link.call("fleet_follow")  # a question is no contact
            await link.call("fleet_follow", manifests=[])  # nor is an engine that has no version at all
            asked = await denied(daemon)
            await link.call("fleet_follow", manifests=elsewhere(publisher))
            answer = await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
            after = await denied(daemon)
        later = await admin.call("health")

    for text in (*before, asked):
        assert text.startswith("fleet/contact: ")
        assert "not in contact with its fleet 'acme', and never was" in text
    assert notified == "pass"
    assert (health["health"], health["reasons"]) == ("red", ["fleet"])
    assert status["fleet"]["denies"] in before[0]
    assert any("and never was" in fault for fault in status["faults"])
    assert (answer["stale_s"] is not None, answer["health"]) == (True, "ready")
    assert (after, later["reasons"]) == ("pass", [])


async def test_contact_that_is_too_long_ago_denies_and_its_return_does_not(
    tmp_path: Path, publisher: Publisher
) -> None:
    files = {"hooks.toml": fleet_table(publisher.public, more=SOON)}
    async with running_daemon(tmp_path, files) as daemon, link_of(daemon) as link:
        host = daemon.parts.fleet.use()
        counts = host.counts
        await link.call("fleet_follow", manifests=elsewhere(publisher))
        for number in range(1, 4):
            await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
            assert counts["in contact"] == number
            await until(lambda number=number: counts["stale"] == number + 1 and host.layer.denies is not None)
            assert (await denied(daemon)).startswith("fleet/contact: ")


async def test_a_reload_that_waits_for_a_users_file_keeps_no_gate_open(tmp_path: Path, publisher: Publisher) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    hangs = (
        f"import os, time\nopen({str(begun)!r}, 'w').close()\n"
        f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n"
    )
    files = {"hooks.toml": fleet_table(publisher.public, more=SOON.replace("300ms", "2s"))}
    async with running_daemon(tmp_path, files) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=elsewhere(publisher))
        try:
            daemon.write("hooks.d/slow.py", hangs)
            await until(begun.exists)
            await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
            before = await denied(daemon)
            await until(lambda: daemon.parts.fleet.use().contact.is_stale)
            await trio.testing.wait_all_tasks_blocked(0.05)
            stale = await denied(daemon)
            await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
            again = await denied(daemon)
        finally:
            go.touch()

    assert (before, again) == ("pass", "pass")
    assert stale.startswith("fleet/contact: ")


async def test_only_who_has_what_is_wanted_is_in_contact(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish(DENIES_BASH)
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE)}
    async with running_daemon(tmp_path, files) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[version.envelope])
        await link.call(
            "fleet_follow", manifests=[], timestamp=publisher.timestamp()
        )  # it is read, and its bundle withheld
        without = await denied(daemon)
        await link.call("fleet_apply", **version.applying)  # a stale host may be mended
        applied = await denied(daemon)
        await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
        then = await denied(daemon)
        async with daemon.session() as client:
            bash = await client.fire_tool("Bash")

    assert without.startswith("fleet/contact: ")
    assert applied.startswith("fleet/contact: ")
    assert then == "pass"
    assert bash["hook"] == "no-bash"


async def test_what_is_refused_is_no_contact(tmp_path: Path, publisher: Publisher) -> None:
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE)}
    async with running_daemon(tmp_path, files) as daemon, link_of(daemon) as link:
        with pytest.raises(RpcFailure):
            await link.call("fleet_follow", manifests=[Publisher().publish(DENIES_BASH).envelope])
        text = await denied(daemon)

    assert text.startswith("fleet/contact: ")


async def test_a_restart_remembers_the_contact_and_without_the_state_it_never_was(
    tmp_path: Path, publisher: Publisher
) -> None:
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE)}
    async with running_daemon(tmp_path, files) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=elsewhere(publisher))
        await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
        await until(lambda: '"contact": {' in (tmp_path / "state" / "state.json").read_text())
    async with running_daemon(tmp_path, files) as daemon:
        remembered = await denied(daemon)
    (tmp_path / "state" / "state.json").unlink()
    async with running_daemon(tmp_path, files) as daemon:
        forgotten = await denied(daemon)

    assert remembered == "pass"
    assert forgotten.startswith("fleet/contact: ")


async def test_it_is_denied_before_the_first_client_can_ask(tmp_path: Path, publisher: Publisher) -> None:
    """Nobody waits for anything here: the first fire of a daemon that has just begun."""
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE)}
    for _ in range(3):
        async with running_daemon(tmp_path, files) as daemon:
            client = daemon.connect()
            decision = await client.call("fire", event="pre_tool_use", payload={"tool_name": "Read", "tool_input": {}})
            await client.aclose()
            assert (decision["verdict"], decision["layer"]) == ("deny", "fleet")


GATE = '[[event]]\nname = "deploy_requested"\nmodel = "gate"\nverdicts = ["deny"]\nfields = { target = "str" }\n'


@pytest.mark.parametrize("what", ["one-shot", "custom", "child", "plugins", "dialect", "shadowed", "unwaited"])
async def test_no_way_of_firing_goes_around_it(tmp_path: Path, publisher: Publisher, what: str) -> None:
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE) + GATE}
    payload = {"tool_name": "Read", "tool_input": {}}
    async with running_daemon(tmp_path, files) as daemon, daemon.session(id="parent") as parent:
        match what:
            case "one-shot":
                client = daemon.connect()
                decision = await client.call("fire", event="pre_tool_use", payload=payload)
                await client.aclose()
            case "custom":
                decision = await parent.fire("deploy_requested", target="prod")
            case "child":
                async with daemon.session(**child_of(parent), plugins=[]) as client:
                    decision = await client.fire("pre_tool_use", **payload)
            case "plugins":
                decision = await parent.call("fire", event="pre_tool_use", payload=payload, plugins=[])
            case "dialect":
                client = daemon.connect()
                await client.call("hello", protocol=1, dialect="ethos", session={})
                decision = await client.call("fire", event="before_tool_call", payload={"toolName": "Read", "args": {}})
                await client.aclose()
            case "shadowed":
                await parent.call("register", hooks=[{"id": "contact", "event": "pre_tool_use", "command": "exit 0"}])
                decision = await parent.fire("pre_tool_use", **payload)
            case _:
                await parent.call("fire", event="pre_tool_use", payload=payload, wait=False)
                await until(lambda: daemon.parts.statistics.count_all() > 0)
                async with daemon.administrator() as admin:
                    (decision,) = (await admin.call("log", kind="decision"))["records"]

    assert decision["verdict"] == "deny"
    assert (decision["layer"], decision["hook"]) == ("fleet", "contact")


async def test_no_users_word_lifts_it(tmp_path: Path, publisher: Publisher) -> None:
    files = {
        "hooks.toml": fleet_table(publisher.public, more=LATE) + '[[override]]\nid = "contact"\nenabled = false\n',
    }
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        for method, params in (
            ("disable", {"id": "fleet/contact", "scope": "global"}),
            ("unregister", {"id": "fleet/contact", "scope": "global"}),
            ("suspend", {"id": "fleet/contact", "seconds": 60, "reason": "x"}),
        ):
            with pytest.raises(RpcFailure):
                await admin.call(method, **params)
        await admin.call("suspend", all=True, seconds=60, reason="x")
        await admin.call("reload")
        text = await denied(daemon)

    assert text.startswith("fleet/contact: ")


async def test_reloads_and_bundles_keep_the_denial(tmp_path: Path, publisher: Publisher) -> None:
    """Whatever is committed meanwhile is made with what holds at that moment."""
    one = publisher.publish(DENIES_BASH)
    files = {"hooks.toml": fleet_table(publisher.public, more=LATE)}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin, link_of(daemon) as link:
        await brought(link, one)
        two = publisher.publish({"more.py": guard("more", "Write")})
        await link.call("fleet_follow", manifests=[two.envelope])
        daemon.write("hooks.toml", fleet_table(publisher.public, more=LATE.replace("1h", "1ms")))
        await admin.call("reload")
        await until(lambda: daemon.parts.fleet.use().layer.denies is not None)
        async with link_of(daemon) as again:
            await again.call("fleet_apply", **two.applying)
        daemon.write("hooks.d/own.py", guard("own"))
        await admin.call("reload")
        text = await denied(daemon)

    assert text.startswith("fleet/contact: ")


async def test_where_stale_is_served_gates_pass_and_it_is_red(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish(DENIES_BASH)
    more = 'max_staleness = "200ms"'
    files = {"hooks.toml": fleet_table(publisher.public, more=more)}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        async with link_of(daemon) as link:
            await brought(link, version)
        await until(lambda: daemon.parts.fleet.use().contact.is_stale)
        health, fleet, text = await admin.call("health"), await fleet_of(daemon), await denied(daemon)

    assert health["reasons"] == ["fleet"]
    assert (fleet["is_stale"], fleet["denies"], text) == (True, None, "pass")


async def test_a_host_without_a_policy_denies_until_one_is_proven_or_none_is_meant_for_it(
    tmp_path: Path, publisher: Publisher
) -> None:
    """By default: neither a link, nor an engine without a version, nor half a history is enough."""
    other = elsewhere(publisher)
    version = publisher.publish(DENIES_BASH)
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table(publisher.public)}) as daemon:
        verdicts = [await denied(daemon)]
        async with link_of(daemon) as link:
            await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
            verdicts.append(await denied(daemon))
            await link.call("fleet_follow", manifests=other)  # more may follow
            verdicts.append(await denied(daemon))
            await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
            none_is_meant = await denied(daemon)
            await link.call("fleet_follow", manifests=[version.envelope])  # and its bundle is withheld
            verdicts.append(await denied(daemon))
            notified = await denied(daemon, "post_tool_use")
            await link.call("fleet_apply", **version.applying)
            with_policy = await denied(daemon)
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table(publisher.public)}) as daemon:
        again = await denied(daemon)  # proven from the disk

    for verdict in verdicts:
        assert NO_POLICY in verdict
        assert 'when_none = "serve"' in verdict
    assert (none_is_meant, notified, with_policy, again) == ("pass", "pass", "pass", "pass")


async def test_a_host_whose_state_is_gone_denies_again(tmp_path: Path, publisher: Publisher) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table(publisher.public)}) as daemon:
        async with link_of(daemon) as link:
            await link.call("fleet_follow", manifests=elsewhere(publisher))
            await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
        with_state = await denied(daemon)
    shutil.rmtree(tmp_path / "state")
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table(publisher.public)}) as daemon:
        without_state = await denied(daemon)  # from its first moment

    assert with_state == "pass"
    assert without_state.startswith("fleet/contact: ")


async def test_new_settings_hold_at_once(tmp_path: Path, publisher: Publisher) -> None:
    serve = 'when_none = "serve"\n'
    async with (
        running_daemon(tmp_path, {"hooks.toml": fleet_table(publisher.public, more=serve)}) as daemon,
        daemon.administrator() as admin,
    ):
        first = await denied(daemon)
        daemon.write("hooks.toml", fleet_table(publisher.public, more=serve + LATE))
        await admin.call("reload")
        second = await denied(daemon)
        daemon.write("hooks.toml", fleet_table(publisher.public, more=serve))
        await admin.call("reload")
        third = await denied(daemon)

    assert first == third == "pass"
    assert second.startswith("fleet/contact: ")


async def test_status_says_how_the_host_stands(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish(DENIES_BASH)
    files = {"hooks.toml": fleet_table(publisher.public, more='labels = ["ci"]')}
    async with running_daemon(tmp_path, files) as daemon, link_of(daemon) as link:
        at_first = await fleet_of(daemon)
        await brought(link, version)
        fleet = await fleet_of(daemon)
    async with running_daemon(tmp_path / "other", {"hooks.toml": ""}) as daemon:
        without = await fleet_of(daemon)

    one = {"version": 1, "bundle": version.digest}
    assert (at_first["head"]["version"], at_first["applied"], at_first["stale_s"]) == (0, None, None)
    assert (fleet["name"], fleet["host"], fleet["labels"], fleet["links"]) == ("acme", "h1", ["ci"], 1)
    assert (fleet["wanted"], fleet["applied"], fleet["problems"]) == (one, one, [])
    assert fleet["counts"] == {"stale": 1, "applied": 1, "in contact": 1}
    assert re.fullmatch(r"[0-9a-f]{64}", fleet["head"]["digest"])
    assert without is None
