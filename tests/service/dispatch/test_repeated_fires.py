"""What a fire finds prepared by those before it is never that of another event, matched value or session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.daemons import Daemon
from support.shared_daemon import daemon_in_thread

GUARDS = """
from hooklatch import deny, hook

LONG = 300_000

@hook("pre_tool_use", match="Long")
def tell_long(event):
    return deny("x" * LONG)

@hook("pre_tool_use", match=["Bash", "bash"])
def judge_bash(event):
    return deny("bash") if event.tool_input["command"] == "no" else None

@hook("pre_model", match="first")
def refuse_first(event):
    return deny("first")

@hook("pre_model", match="second")
def refuse_second(event):
    return deny("second")
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in_thread(tmp_path_factory.mktemp("d"), FILES) as daemon:
        yield daemon


async def test_an_answer_over_many_reads_is_whole(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decisions = [await client.fire_tool(tool, command="ls") for tool in ("Bash", "Long", "Bash", "Long")]

    assert [decision["verdict"] for decision in decisions] == ["pass", "deny", "pass", "deny"]
    assert [decisions[at]["reason"] for at in (1, 3)] == ["x" * 300_000] * 2


async def test_guards_are_selected_by_their_events_own_field(daemon: Daemon) -> None:
    fired = [("first", "Bash"), ("second", "Bash"), ("third", "Bash"), ("second", "first"), ("first", "second")]

    async with daemon.session() as client:
        decisions = [await client.fire("pre_model", model_id=model, tool_name=tool) for model, tool in fired]

    assert [decision["reason"] for decision in decisions] == ["first", "second", None, "second", "first"]


async def test_sessions_that_see_the_same_hooks_keep_their_own_terms(daemon: Daemon) -> None:
    fire: dict[str, Any] = {"event": "pre_tool_use", "payload": {"tool_name": "bash", "tool_input": {"command": "no"}}}
    speaker = daemon.connect()
    await speaker.call("hello", protocol=1, dialect="beam", session={})

    async with daemon.session() as plain, daemon.session(require_handlers=["user_prompt_submit"]) as strict:
        for _ in range(2):
            ours, theirs = await plain.call("fire", **fire), await speaker.call("fire", **fire)
            assert (ours["reason"], "rendered" in ours) == ("bash", False)
            assert (theirs["reason"], "rendered" in theirs) == ("bash", True)
            assert (await plain.fire("user_prompt_submit", prompt="x"))["verdict"] == "pass"
            assert (await strict.fire("user_prompt_submit", prompt="x"))["cause"] == "load"
    await speaker.aclose()
