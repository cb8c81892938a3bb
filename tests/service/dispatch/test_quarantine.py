"""Quarantine: a hook whose workers die again and again is not called for a while, and comes back by proving itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, Daemon, callbacks, running_daemon
from support.quarantine import HOOK, NAME, OTHER, daemon_and_client, quarantine, try_how

pytestmark = pytest.mark.slow  # each test starts a daemon with its zygote, and kills six workers


async def status(daemon: Daemon) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        return await admin.call("status")


async def test_the_sixth_death_in_30_s_quarantines_and_status_is_red(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, client):
        await quarantine(client)
        decision = await try_how(client, "well")
        seen = await status(daemon)
        others = await client.fire("pre_tool_use", tool_name="second")

    assert (decision["verdict"], decision["cause"], decision["retryable"]) == ("deny", "quarantined", True)
    assert f"hooklatch hooks disable global/{HOOK}" in decision["reason"]
    assert [one["outcome"] for one in decision["outcomes"]] == ["dropped"]
    assert (seen["health"], seen["quarantined"]) == ("red", [NAME])
    assert seen["dropped"]["quarantined"] >= 1
    assert others["verdict"] == "allow"


async def test_deadline_kills_count_too(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (_, client):
        causes: list[str] = []
        with trio.fail_after(30):
            while "quarantined" not in causes:  # on a busy machine some find no worker in their time, and do not count
                hung = await client.call(
                    "fire", event="pre_tool_use", payload={"tool_name": "sync", "how": "sleeps"}, timeout=0.05
                )
                causes.append(hung["cause"])

    assert causes.count("timeout") >= 6
    assert set(causes) <= {"timeout", "overload", "quarantined"}


@pytest.mark.parametrize("how", ["raises", "returns_a_str", "writes_garbage_to_the_socket", "system_exit"])
async def test_exceptions_and_garbage_do_not_count(tmp_path: Path, how: str) -> None:
    async with daemon_and_client(tmp_path) as (_, client):
        for _ in range(8):
            assert (await try_how(client, how))["cause"] in ("crash", "protocol")

        assert (await try_how(client, "well"))["cause"] == "policy"


async def test_a_hook_on_another_event_keeps_its_own_count(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (_, client):
        await quarantine(client)

        rest = await client.fire("message_claim", platform="sync", how="well")

    assert rest["verdict"] == "claim"


async def test_a_quarantined_hook_that_is_no_gate_is_dropped(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (_, client):
        for _ in range(6):
            await client.fire("message_claim", platform="sync", how="kills_itself")

        decision = await client.fire("message_claim", platform="sync", how="well")

    assert decision["verdict"] == "pass"
    assert [(one["outcome"], one["cause"]) for one in decision["outcomes"]] == [("dropped", "quarantined")]


async def answer_after_the_wait(client: Client, how: str) -> dict[str, Any]:
    """Fire until the hook is called again."""
    with trio.fail_after(30):
        while (decision := await try_how(client, how))["cause"] == "quarantined":  # noqa: ASYNC110  (it is time that ends it)
            await trio.sleep(0.005)
    return decision


async def test_one_good_probe_after_a_second_lifts_it(tmp_path: Path) -> None:
    """Slow: the first probe is due after 1 s."""
    async with daemon_and_client(tmp_path) as (daemon, client):
        await quarantine(client)
        started = trio.current_time()
        probe = await answer_after_the_wait(client, "well")
        waited = trio.current_time() - started
        crashed = await try_how(client, "kills_itself")

        assert probe["cause"] == "policy"
        assert waited > 0.5
        assert crashed["cause"] == "crash"
        assert (await try_how(client, "well"))["cause"] == "policy"
        assert (await status(daemon))["quarantined"] == []


async def test_a_bad_probe_keeps_it_and_a_probe_that_found_no_end_is_made_again(tmp_path: Path) -> None:
    """Slow: the first probe is due after 1 s."""
    async with daemon_and_client(tmp_path) as (daemon, client):
        await quarantine(client)
        (breaker,) = daemon.parts.breakers
        leaving = daemon.connect()
        await trio.sleep_until(breaker.until)
        await leaving.send("fire", event="pre_tool_use", payload={"tool_name": "sync", "how": "sleeps"})
        pool = next(pool for pool in daemon.parts.sources.pools.values() if "misbehaving" in pool.source.location)
        with trio.fail_after(5):
            while not pool.status()["busy"]:  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.002)
        meanwhile = await try_how(client, "well")
        await leaving.aclose()
        probe = await answer_after_the_wait(client, "kills_itself")
        after = await try_how(client, "well")

    assert meanwhile["cause"] == "quarantined"
    assert probe["cause"] == "crash"
    assert after["cause"] == "quarantined"


async def test_enabling_it_lifts_it(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, client):
        async with daemon.administrator() as admin:
            await admin.call("subscribe", topics=["operations"])
            await quarantine(client)
            await admin.call("enable", id=HOOK, scope="global")

        assert (await try_how(client, "well"))["cause"] == "policy"
        began, ended = admin.announcements
        assert (began["kind"], began["hook"], began["why"]) == (
            "quarantined",
            NAME,
            "the worker was killed by signal 9",
        )
        assert (ended["kind"], ended["hook"], ended["why"]) == ("released", NAME, "an operator has enabled it")


async def test_a_reload_lifts_it(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, client):
        async with daemon.administrator() as admin:
            await admin.call("subscribe", topics=["operations"])
            await quarantine(client)
            await admin.call("reload")

        assert (await try_how(client, "well"))["cause"] == "policy"
        assert [one["kind"] for one in admin.announcements] == ["quarantined", "released", "reloaded"]
        assert admin.announcements[1]["why"] == "an operator has reloaded"


async def test_a_new_version_of_its_file_lifts_it(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, client):
        await quarantine(client)
        daemon.write("misbehaving.py", callbacks("misbehaving.py") + "\n# mended\n")
        async with daemon.administrator() as admin:
            await admin.call("subscribe", topics=["operations"])
            await daemon.parts.reloader.reload()
            await admin.call("reload")
            released = [one for one in admin.announcements if one["kind"] == "released"]
            assert [one["why"] for one in released] == ["a new version of its file is active"]

        assert (await status(daemon))["health"] == "green"
        assert (await try_how(client, "well"))["cause"] == "policy"


async def test_a_broken_or_unrelated_change_does_not_lift_it(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, client):
        await quarantine(client)
        daemon.write("other.py", OTHER + "\n# changed\n")
        daemon.write("misbehaving.py", "def broken(:\n")
        await daemon.parts.reloader.reload()

        assert (await try_how(client, "well"))["cause"] == "quarantined"


async def test_one_session_cannot_quarantine_the_hook_of_another(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import os\ndef guard(event):\n    os._exit(1)\n")
    good = tmp_path / "good.py"
    good.write_text("from hooklatch import allow\ndef guard(event):\n    return allow()\n")
    event = {"id": "guard", "event": "pre_tool_use"}
    async with (
        running_daemon(tmp_path) as daemon,
        daemon.session(hooks=[{**event, "run": f"{bad}:guard"}]) as first,
        daemon.session(hooks=[{**event, "run": f"{good}:guard"}]) as second,
        daemon.session(hooks=[{**event, "served": True}]) as third,
    ):
        causes = [(await first.fire_tool("Bash"))["cause"] for _ in range(7)]
        decision = await second.fire_tool("Bash")
        number = await third.send("fire", event="pre_tool_use", payload={"tool_name": "Bash"})
        call = await third.read()
        assert call is not None
        await third.send_line({"jsonrpc": "2.0", "id": call["id"], "result": {"verdict": "allow"}})
        served = await third.answer_to(number)
        await first.call("enable", id="guard")
        enabled = await first.fire_tool("Bash")

    assert causes == ["crash"] * 6 + ["quarantined"]
    assert decision["verdict"] == "allow"
    assert served["verdict"] == "allow"
    assert enabled["cause"] == "crash"


async def test_one_sessions_deaths_quarantine_no_other_sessions_hook_of_the_same_id(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, _), daemon.session(id="s1") as one, daemon.session() as other:
        hook = {"id": "a", "event": "pre_compact", "run": f"{tmp_path}/misbehaving.py:misbehave"}
        for client in (one, other):
            await client.call("register", hooks=[hook])
        for _ in range(6):
            await one.fire("pre_compact", how="kills_itself")
        own = await one.fire("pre_compact", how="well")
        others = await other.fire("pre_compact", how="well")
        session = daemon.parts.sessions.get("s1")
        assert session is not None
        daemon.parts.sessions.discard(session)
        left = list(daemon.parts.breakers)

    assert own["cause"] == "quarantined"
    assert others["cause"] != "quarantined"
    assert left == []
