"""Guards marked `only_judges`, wherever they are declared: they run at the same time, and decide as in order.

Slow as a whole: each has a daemon and workers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.pools import until

pytestmark = pytest.mark.slow

HOOKS = """
import time
from pathlib import Path
from hooklatch_worker import amend, context, deny, hook

@hook("pre_tool_use", match="Slow", only_judges=True)
def slow(event):
    time.sleep(0.3)

def meet(event):
    event.state.increment("here")
    while event.state.get("here") < 2:
        time.sleep(0.002)

@hook("pre_tool_use", match="Meet", only_judges=True, priority=200, timeout=20.0)
def first(event):
    meet(event)
    return deny("the first")

@hook("pre_tool_use", match="Meet", only_judges=True, timeout=20.0)
def second(event):
    meet(event)
    return deny("the second")

@hook("pre_tool_use", match="Held", only_judges=True, priority=200, timeout=20.0)
def refusing(event):
    meet(event)
    return deny("at once")

@hook("pre_tool_use", match="Held", only_judges=True, timeout=20.0)
def held(event):
    meet(event)
    while not Path(event.tool_input["release"]).exists():
        time.sleep(0.002)
    event.state.set("worked on", True)
    return deny("late")

@hook("pre_tool_use", match="After", only_judges=True)
def after(event):
    while not event.state.get("worked on"):
        time.sleep(0.002)
    return deny("it worked on")

@hook("pre_tool_use", match="Wait", id="waiting", only_judges=True)
@hook("pre_tool_use", match="Wait", id="waiting-too", only_judges=True)
def wait(event):
    meet(event)
    Path(event.tool_input["began"]).touch()
    time.sleep(600)

@hook("pre_tool_use", match="Change", only_judges=True)
def changing(event):
    return amend(tool_input={"command": "true"})
"""
CONFIG = """
[[source]]
path = "hooks.py"

[[hook]]
id = "in-a-file"
event = "pre_tool_use"
match = "Slow"
run = "hooks.py:slow"
only_judges = true
"""


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "hooks.py": HOOKS}) as daemon:
        yield daemon


def told(decision: dict[str, Any]) -> list[tuple[str, str | None, bool]]:
    return [(one["hook"], one.get("verdict"), one.get("unneeded", False)) for one in decision["outcomes"]]


def records(daemon: Daemon, kind: str) -> list[dict[str, Any]]:
    (path,) = (daemon.folder / "state/record").glob("*.jsonl")
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == kind]


async def test_two_slow_guards_take_as_long_as_one(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.fire_tool("Slow")  # two workers are warm now

        decision = await client.fire_tool("Slow")

    assert told(decision) == [("hooks:slow", None, False), ("in-a-file", None, False)]
    assert decision["duration_ms"] < 0.75 * sum(one["duration_ms"] for one in decision["outcomes"])


async def test_the_earlier_refusal_decides_and_the_other_one_is_on_record(daemon: Daemon) -> None:
    """They wait for each other, so they run at the same time, or not at all."""
    async with daemon.session() as client:
        decision = await client.fire_tool("Meet")
    (line,) = records(daemon, "decision")

    assert (decision["verdict"], decision["reason"], decision["hook"]) == ("deny", "the first", "hooks:first")
    assert told(decision) == told(line)
    # The second one's answer may be there by then, or not.
    assert told(decision) in [
        [("hooks:first", "deny", False), ("hooks:second", verdict, True)] for verdict in ("deny", None)
    ]


async def test_a_refusal_does_not_wait_for_a_guard_behind_it_which_goes_on_with_its_work(daemon: Daemon) -> None:
    release = daemon.folder / "release"
    async with daemon.session() as client:
        decision = await client.fire_tool("Held", release=str(release))
        release.touch()
        later = await client.fire_tool("After")

    assert (decision["reason"], told(decision)[1]) == ("at once", ("hooks:held", None, True))
    assert decision["outcomes"][1]["outcome"] == "unawaited"
    assert later["reason"] == "it worked on"
    assert told(records(daemon, "decision")[0]) == told(decision)


async def test_a_change_in_spite_of_the_mark_denies(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire_tool("Change")

    assert (decision["verdict"], decision["cause"], decision["patch"]) == ("deny", "protocol", None)
    assert "it is marked only_judges, but changed the payload" in decision["reason"]


async def test_where_the_client_left_meanwhile_that_is_on_record(daemon: Daemon) -> None:
    began = daemon.folder / "began"
    client = daemon.connect()
    await client.call("hello", protocol=1, session={"id": "s1"})
    await client.send("fire", event="pre_tool_use", payload={"tool_name": "Wait", "tool_input": {"began": str(began)}})
    await until(began.exists)

    await client.aclose()
    await until(lambda: bool(records(daemon, "abandoned")))

    assert not records(daemon, "decision")


def served(hook_id: str, **rest: Any) -> dict[str, Any]:
    return {"id": hook_id, "event": "pre_tool_use", "match": "Served", "served": True, "only_judges": True, **rest}


async def call_of(client: Client) -> dict[str, Any]:
    with trio.fail_after(5):
        call = await client.read()
    assert call is not None
    return call


async def test_served_guards_are_asked_at_the_same_time_and_the_order_decides(daemon: Daemon) -> None:
    async with daemon.session(hooks=[served("a"), served("b")]) as client:
        number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Served", "tool_input": {}})
        calls = {call["params"]["hook"]: call["id"] for call in (await call_of(client), await call_of(client))}
        for hook_id in ("b", "a"):
            answer = {"verdict": "deny", "reason": f"{hook_id} says no"}
            await client.send_line({"jsonrpc": "2.0", "id": calls[hook_id], "result": answer})
        decision = await client.answer_to(number)

    assert (decision["hook"], decision["reason"]) == ("a", "a says no")
    assert told(decision) == [("a", "deny", False), ("b", "deny", True)]


async def test_the_mark_is_shown_and_an_event_that_is_no_gate_has_none(daemon: Daemon) -> None:
    async with daemon.session(hooks=[served("a")]) as client:
        listed = {hook["id"]: hook["only_judges"] for hook in (await client.call("hooks"))["hooks"]}
        for event in ("stop", "post_tool_use", "message_claim", "post_model"):
            with pytest.raises(RpcFailure, match=f"{event} is not a gate") as caught:
                await client.call("register", hooks=[served("mine", event=event, match=None)])
            assert caught.value.name == "invalid_params"

    assert all(listed.values())
    assert {"a", "in-a-file", "hooks:slow"} <= listed.keys()


async def test_in_a_file_that_is_a_diagnostic(daemon: Daemon) -> None:
    declared = '[[hook]]\nid = "unfit"\nevent = "stop"\nrun = "../hooks.py:slow"\nonly_judges = true\n'
    daemon.write("hooks.d/unfit.toml", declared)

    async with daemon.administrator() as admin:
        problems = (await admin.call("reload"))["diagnostics"]

    assert [(one["line"], "remove only_judges" in one["message"]) for one in problems] == [(1, True)], json.dumps(
        problems
    )
