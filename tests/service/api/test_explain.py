"""What the daemon says of itself: hooks, events, explain, sessions, status."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Daemon, RpcFailure, child_of, running_daemon
from support.shared_daemon import daemon_in_thread

GUARDS = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash", timeout=2.0, description="says no")
def no(event):
    return deny("no")

@hook("pre_tool_use", priority=200)
def first(event):
    return None

@hook("pre_tool_use", enabled=False)
def off(event):
    return None

@hook("stop", observe=True)
def at_the_end(event):
    raise ValueError("no")
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon of those who fire nothing."""
    with daemon_in_thread(tmp_path_factory.mktemp("shared"), FILES) as daemon:
        yield daemon


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


def served(hook_id: str, **rest: Any) -> dict[str, Any]:
    return {"id": hook_id, "event": "pre_tool_use", "served": True, **rest}


# -- explain -----------------------------------------------------------------------------------------------------


async def test_explain_gives_who_would_fire_in_order_and_why_each_other_one_would_not(shared: Daemon) -> None:
    async with shared.session(hooks=[served("mine")]) as client:
        answer = await client.call("explain", event="pre_tool_use", payload={"tool_name": "Read"})

    assert [(one["layer"], one["hook"]) for one in answer["fires"]] == [("global", "guards:first"), ("session", "mine")]
    assert {one["hook"]: one["why"] for one in answer["others"]} == {
        "guards:no": "its matcher (Bash) does not match tool_name, nor its kind 'read'",
        "guards:off": "it is disabled",
        "guards:at_the_end": "it is a hook of stop",
    }
    assert answer["refusal"] is None
    assert shared.parts.statistics.count_all() == 0


async def test_explain_says_when_no_hook_is_asked_since_the_payload_cannot_be_matched(shared: Daemon) -> None:
    async with shared.session() as client:
        answer = await client.call("explain", event="pre_tool_use", payload={})

    assert "cause payload" in answer["refusal"]


async def test_an_administrator_explains_for_any_session_and_a_client_for_its_own(shared: Daemon) -> None:
    ask = {"event": "pre_tool_use", "payload": {"tool_name": "Read"}, "session": "one"}
    async with shared.session(id="one", hooks=[served("mine")]), shared.session() as two:
        async with shared.administrator() as admin:
            answer = await admin.call("explain", **ask)
            without = await admin.call("explain", **{**ask, "session": None})
            with pytest.raises(RpcFailure, match="not_found"):
                await admin.call("explain", **{**ask, "session": "nobody"})
        with pytest.raises(RpcFailure, match="not_admin"):
            await two.call("explain", **ask)

    assert [one["hook"] for one in answer["fires"]] == ["guards:first", "mine"]
    assert [one["hook"] for one in without["fires"]] == ["guards:first"]


@pytest.mark.parametrize("event", ["pre_tool_uze", ""])
async def test_an_unknown_event_cannot_be_explained(shared: Daemon, event: str) -> None:
    async with shared.session() as client:
        with pytest.raises(RpcFailure, match="unknown_event"):
            await client.call("explain", event=event)


# -- hooks -------------------------------------------------------------------------------------------------------


async def test_hooks_are_listed_in_firing_order_with_all_that_is_known_of_them(shared: Daemon) -> None:
    async with shared.session(hooks=[served("mine", match={"regex": "B.*"})]) as client:
        answer = await client.call("hooks", event="pre_tool_use")

    ids = [hook["id"] for hook in answer["hooks"]]
    by_id = {hook["id"]: hook for hook in answer["hooks"]}
    assert ids == ["guards:first", "guards:no", "guards:off", "mine"]
    assert by_id["guards:no"].items() >= {
        "layer": "global", "event": "pre_tool_use", "match": "Bash", "kind": "python", "state": "active",
        "target": f"{shared.folder}/guards.py:no", "origin": f"{shared.folder}/guards.py:4", "problem": None,
        "priority": 100, "timeout": 2.0, "description": "says no", "observe": False, "optional": False,
    }.items()  # fmt: skip
    assert by_id["guards:off"]["state"] == "disabled"
    assert (by_id["mine"]["kind"], by_id["mine"]["match"], by_id["mine"]["layer"]) == ("served", "regex B.*", "session")


async def test_timings_count_calls_and_failures_by_cause(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for _ in range(3):
            await client.fire("stop")
        hooks = {hook["id"]: hook["timings"] for hook in (await client.call("hooks"))["hooks"]}

    assert (hooks["guards:at_the_end"]["count"], hooks["guards:at_the_end"]["failures"]) == (3, {"crash": 3})
    assert 0 < hooks["guards:at_the_end"]["p50_ms"] <= hooks["guards:at_the_end"]["p99_ms"]
    assert hooks["guards:no"]["count"] == 0


# -- events ------------------------------------------------------------------------------------------------------


async def test_events_give_the_catalogue_with_budgets_and_counts(daemon: Daemon) -> None:
    async with daemon.session(hooks=[served("mine", timeout=20.0)]) as client:
        await client.fire("stop")
        events = {event["name"]: event for event in (await client.call("events"))["events"]}
        hello = client.hello  # type: ignore[attr-defined]

    gate = events["pre_tool_use"]
    assert (gate["model"], gate["fails"], gate["match"], gate["timeout"]) == ("gate", "closed", "tool_name", 5.0)
    assert gate["budget"] == hello["budgets"]["pre_tool_use"] == 2.0 + 5.0 + 20.0
    assert (gate["hooks"], gate["fired"], gate["last_fired"]) == (3, 0, None)
    assert (events["stop"]["fired"], events["stop"]["fails"]) == (1, "open")
    assert set(hello["budgets"]) == set(events)


# -- sessions ----------------------------------------------------------------------------------------------------


async def test_a_client_sees_its_own_session_and_an_administrator_all(daemon: Daemon) -> None:
    async with (
        daemon.session(id="one", cwd="/work", host="h") as one,
        daemon.session(id="two", **child_of(one)),
    ):
        await one.fire("notification")
        async with daemon.administrator() as admin:
            everyone = {session["id"]: session for session in (await admin.call("sessions"))["sessions"]}
        alone = (await one.call("sessions"))["sessions"]

    assert [session["id"] for session in alone] == ["one", "two"]
    assert set(everyone) == {"one", "two"}
    assert everyone["two"]["parent"] == "one"
    assert everyone["one"].items() >= {
        "parent": None, "host": "h", "cwd": "/work", "connections": 1, "fires": 1, "hooks": 0,
    }.items()  # fmt: skip


# -- status ------------------------------------------------------------------------------------------------------


async def test_status_says_how_the_daemon_is_and_more_to_an_administrator(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await client.fire_tool("Bash")
        seen, inside = await client.call("status"), await admin.call("status")

    assert (seen["health"], seen["pid"], seen["hooks"], seen["sessions"]) == ("green", os.getpid(), 4, 1)
    assert (seen["draining"], seen["problems"], seen["quarantined"]) == (False, [], [])
    assert "sources" not in seen
    assert (inside["fired"], inside["verdicts"], inside["connections"]) == (1, {"deny": 1}, 2)
    assert sorted((mark["hook"], mark["mark"]) for mark in inside["marks"]) == [
        ("global/guards:at_the_end", "observe"), ("global/guards:off", "disabled"),
    ]  # fmt: skip
    assert [source["source"] for source in inside["sources"]] == [f"{daemon.folder}/guards.py"]
    assert inside["places"]["config"] == f"{daemon.folder}/hooks.toml"


async def test_a_draining_daemon_denies_and_says_so(daemon: Daemon) -> None:
    async with daemon.session() as client:
        daemon.parts.dispatcher.is_draining = True
        gate, note = await client.fire_tool("Bash"), await client.fire("stop")
        later = await client.call("fire", event="stop", wait=False)
        status = await client.call("status")

    assert (gate["verdict"], gate["cause"], gate["retryable"]) == ("deny", "draining", True)
    assert (note["verdict"], later["accepted"], status["draining"]) == ("pass", False, True)


async def test_status_tells_how_long_hooks_and_events_took(tmp_path: Path) -> None:
    hook = '[[hook]]\nid = "it"\nevent = "pre_tool_use"\ncommand = "exit 0"\n'

    async with (
        running_daemon(tmp_path, {"hooks.toml": hook}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        for _ in range(3):
            await client.fire_tool("Bash", command="ls")
        timings = (await admin.call("status"))["timings"]

    for measured in (timings["hooks"]["global/it"], timings["events"]["pre_tool_use"]):
        assert measured["count"] == 3
        assert 0 < measured["min_ms"] <= measured["mean_ms"] <= measured["max_ms"]
