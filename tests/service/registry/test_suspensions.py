"""Break-glass: hooks that an operator leaves out for a limited time, with a reason, for all to see."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.hooks.suspension import MAX_SUSPENSION, Suspension
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.registry.suspensions import Suspensions
from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.quarantine import HOOK, daemon_and_client, quarantine

GUARDS = """
from hooklatch import allow, amend, deny, hook

@hook("pre_tool_use", match="Bash", priority=300)
def no_bash(event):
    return deny("no bash")

@hook("pre_tool_use", priority=200)
def rename(event):
    if event.tool_name == "Rewrite":
        return allow().amend(tool_input={"command": "rewritten"})

@hook("pre_tool_use", match=["Bash", "Crash"])
def crash(event):
    raise ValueError("a bug")

@hook("post_tool_use")
def seen(event):
    return None
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


async def suspend(daemon: Daemon, hook: str | None, seconds: float = 60, reason: str = "mending it") -> dict[str, Any]:
    async with daemon.administrator() as admin:
        target: dict[str, Any] = {"id": hook} if hook is not None else {"all": True}
        return await admin.call("suspend", seconds=seconds, reason=reason, **target)


async def status(daemon: Daemon) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        return await admin.call("status")


async def test_a_suspended_hook_is_left_out_and_the_decision_says_so(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await suspend(daemon, "guards:no_bash")
        await suspend(daemon, "global/guards:crash", reason="it has  a\nbug")
        decision = await client.fire_tool("Bash", command="ls")
        other = await client.fire_tool("Crash")
        unrelated = await client.fire_tool("Read")

    assert decision["verdict"] == "pass"
    assert [one["hook"] for one in decision["outcomes"]] == ["guards:rename"]
    first, second = decision["warnings"]
    assert first.startswith("global/guards:no_bash is suspended until 2")
    assert first.endswith("Z and was not asked: mending it")
    assert second.endswith("was not asked: it has a bug")
    assert other["verdict"] == "pass"
    assert "warnings" not in unrelated


async def test_all_hooks_can_be_suspended_and_status_is_red_and_says_so(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await suspend(daemon, None, seconds=900, reason="restoring the host")
        decision = await client.fire_tool("Bash")
        seen = await status(daemon)
        (one,) = [hook for hook in (await client.call("hooks"))["hooks"] if hook["id"] == "guards:no_bash"]
        why = {other["hook"]: other["why"] for other in (await explained(client))["others"]}

    assert (decision["verdict"], decision.get("outcomes", [])) == ("pass", [])
    assert seen["health"] == "red"
    assert [(one["hook"], one["reason"]) for one in seen["suspended"]] == [(None, "restoring the host")]
    assert 0 < seen["suspended"][0]["seconds_left"] <= 900
    assert one["state"] == "suspended"
    assert why["guards:no_bash"] == "it is suspended: restoring the host"


async def explained(client: Client) -> dict[str, Any]:
    return await client.call("explain", event="pre_tool_use", payload={"tool_name": "Bash"})


async def test_resuming_puts_it_in_force_at_once(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await suspend(daemon, "guards:no_bash")
        resumed = await admin.call("resume", id="guards:no_bash")
        decision = await client.fire_tool("Bash")
        again = await admin.call("resume", id="guards:no_bash")

    assert resumed == {"was_suspended": True, "suspended": []}
    assert decision["reason"] == "no bash"
    assert again["was_suspended"] is False
    assert daemon.parts.state.state.suspensions == []


async def test_its_time_ends_it(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await suspend(daemon, "guards:no_bash")
        assert (await client.fire_tool("Bash"))["reason"] != "no bash"
        await suspend(daemon, "guards:no_bash", seconds=0.1)
        with trio.fail_after(5):
            while (await client.fire_tool("Bash"))["reason"] != "no bash":
                await trio.lowlevel.checkpoint()
            while daemon.parts.state.state.suspensions:
                await trio.lowlevel.checkpoint()


async def test_a_gate_whose_hook_was_suspended_is_not_asked_again_after_a_change(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await suspend(daemon, "guards:crash")
        decision = await client.fire_tool("Rewrite", command="x")

    assert (decision["verdict"], decision["patch"]) == ("allow", {"tool_input": {"command": "rewritten"}})


async def test_a_suspension_outlives_a_restart_and_not_its_time(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon:
        await suspend(daemon, "guards:no_bash", reason="over a restart")
        await suspend(daemon, "guards:crash", seconds=0.001)
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")
        seen = await status(daemon)

    assert [one["reason"] for one in seen["suspended"]] == ["over a restart"]
    assert decision["cause"] == "crash"


async def test_after_the_clock_was_set_back_it_says_when_it_will_end(tmp_path: Path) -> None:
    state = StateFile(str(tmp_path))
    tomorrow = round(time.time(), 3) + 86_400
    state.state.suspensions = [Suspension(None, tomorrow, tomorrow + 30, "rotating keys")]
    suspensions = Suspensions(state, lambda kind, details: None)

    suspensions.restore()

    (restored,) = suspensions
    assert (restored.until - restored.since, restored.reason) == (pytest.approx(30), "rotating keys")
    assert restored.until < tomorrow
    assert 0 < suspensions.seconds_left(restored) <= 30


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"id": "guards:nobody", "seconds": 1, "reason": "x"}, "not_found: there is no hook"),
        ({"id": "guards:no_bash", "seconds": 0, "reason": "x"}, "invalid_params: a suspension lasts at most 24 h"),
        ({"id": "guards:no_bash", "seconds": MAX_SUSPENSION + 1, "reason": "x"}, "for longer, disable the hook"),
        ({"id": "guards:no_bash", "seconds": 1, "reason": " "}, "a suspension needs a reason"),
        ({"id": "guards:no_bash", "seconds": 1}, "invalid_params"),
        ({"seconds": 1, "reason": "x"}, 'give the "id" of a hook or plugin, or "all": true'),
        ({"id": "guards:no_bash", "all": True, "seconds": 1, "reason": "x"}, 'or "all": true'),
    ],
)
async def test_what_is_no_suspension_is_refused(daemon: Daemon, params: dict[str, Any], error: str) -> None:
    async with daemon.administrator() as admin:
        with pytest.raises(RpcFailure) as caught:
            await admin.call("suspend", **params)

    assert error in str(caught.value)
    assert not daemon.parts.state.state.suspensions


@pytest.mark.parametrize("method", ["suspend", "resume"])
async def test_only_the_admin_socket_suspends(daemon: Daemon, method: str) -> None:
    async with daemon.session() as client:
        with pytest.raises(RpcFailure, match="needs the admin socket"):
            await client.call(method, all=True, seconds=1, reason="x")


@pytest.mark.slow  # it kills six workers
async def test_a_quarantined_guards_reason_says_what_happened_and_the_way_out_works(tmp_path: Path) -> None:
    async with daemon_and_client(tmp_path) as (daemon, client):
        await quarantine(client)
        denied = await client.fire("pre_tool_use", tool_name="sync", how="well")
        await suspend(daemon, HOOK, reason="its file is being mended")
        passed = await client.fire("pre_tool_use", tool_name="sync", how="well")

    reason = denied["reason"]
    assert "its worker died more than 5 times in 30 s, the last time: the worker was killed by signal" in reason
    assert f"{daemon.folder}/misbehaving.py" in reason
    assert f"hooklatch suspend global/{HOOK} --for 15m --reason WHY" in reason
    assert passed["verdict"] == "pass"
