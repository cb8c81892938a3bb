"""A definition that is refused is refused alone, and a hook that fails stands in for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.shared_daemon import daemon_in_thread

GUARD = """
from hooklatch_worker import deny

def no(event):
    return deny("no")
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon of which each test changes its own sessions only."""
    with daemon_in_thread(tmp_path_factory.mktemp("d"), {"guards.py": GUARD}) as daemon:
        yield daemon


@asynccontextmanager
async def opened(daemon: Daemon, dialect: str | None) -> AsyncGenerator[Client]:
    client = daemon.connect()
    await client.call("hello", protocol=1, dialect=dialect, session={"cwd": str(daemon.folder)})
    yield client
    await client.aclose()


PASSING: dict[str, Any] = {"id": "good", "event": "stop", "command": "true"}
# What is sent, the event and the id that it is listed with, and what its reason says; (each stands in at its event).
REFUSED: list[tuple[str | None, dict[str, Any], str]] = [
    (None, {"id": "bad", "event": "pre_tool_use", "match": {"regex": "(?=x)"}, "command": "true"}, "RE2"),
    (None, {"id": "bad", "event": "pre_tool_use", "timeout": 0, "command": "true"}, "timeout"),
    (None, {"id": "bad", "event": "pre_tool_use", "timeot": 1, "command": "true"}, "did you mean 'timeout'"),
    (None, {"id": "bad", "event": "pre_tool_use"}, "it needs one target"),
    (None, {"id": "bad", "event": "pre_tool_use", "run": "nowhere.py:f"}, "nowhere.py"),
    (None, {"id": "bad", "event": "pre_tool_use", "run": "guards.py:nope"}, "no function 'nope'"),
    (None, {"id": "bad", "event": "stop", "match": "Bash", "command": "true"}, "no field to match on"),
    (None, {"id": "bad", "event": "stop", "command": "true", "config": {"k": "x" * 2**17}}, "are allowed"),
    ("exathena", {"id": "bad", "event": "Stop", "matcher": "x", "command": "true"}, "is not about a tool"),
    ("exathena", {"id": "bad", "event": "PreToolUse", "matcher": "(?=x)", "command": "true"}, "RE2"),
    ("ethos", {"handler": "bad", "name": "agent_done", "model": "modifying"}, "is a void point"),
    ("ethos", {"handler": "bad", "name": "before_tool_call", "priority": 5000}, "priority"),
    ("radium", {"name": "bad", "type": "before_tool", "script": "x.sh"}, "Radium never runs it"),
    ("beam", {"callback": "bad", "event": "pre_tool_use", "matcher": {"tool": "x"}}, "has only 'tool_name'"),
]


@pytest.mark.parametrize(("dialect", "table", "why"), REFUSED)
async def test_a_refused_definition_stands_in_and_leaves_its_neighbours(
    daemon: Daemon, dialect: str | None, table: dict[str, Any], why: str
) -> None:
    written = next(table[key] for key in ("event", "name", "type") if key in table and table[key] != "bad")
    async with opened(daemon, dialect) as client:
        answer = await client.call("register", each=True, hooks=[table, PASSING])
        listed = (await client.call("hooks"))["hooks"]

    (refused,) = answer["refused"]
    assert answer["ids"] == ["bad", "good"]
    assert (refused["at"], refused["id"], refused["event"]) == (0, "bad", written)
    assert why in refused["reason"]
    states = {hook["id"]: (hook["state"], hook["problem"]) for hook in listed}
    assert states == {"bad": ("inactive", refused["reason"]), "good": ("active", None)}


async def test_without_each_one_refusal_is_that_of_all(daemon: Daemon) -> None:
    async with daemon.session() as client:
        with pytest.raises(RpcFailure, match="timeout"):
            await client.call("register", hooks=[{**PASSING, "id": "bad", "timeout": 0}, PASSING])

        assert (await client.call("hooks"))["hooks"] == []


async def test_at_a_gate_a_stand_in_denies_the_tools_that_it_is_for_and_elsewhere_it_warns(daemon: Daemon) -> None:
    bad = [
        {"id": "bash", "event": "pre_tool_use", "match": "Bash", "command": "true", "timeout": 0},
        {"id": "log", "event": "stop", "command": "true", "timeout": 0},
    ]
    async with daemon.session() as client:
        await client.call("register", each=True, hooks=bad)
        bash, read, stop = await client.fire_tool("Bash"), await client.fire_tool("Read"), await client.fire("stop")

    assert (bash["verdict"], bash["cause"], bash["hook"]) == ("deny", "load", "bash")
    assert "timeout" in bash["reason"]
    assert read["verdict"] == "pass"
    assert stop["verdict"] == "pass"
    assert "timeout" in str(stop["warnings"])


async def test_what_nobody_knows_is_only_listed(daemon: Daemon) -> None:
    hooks = [{"id": "a", "event": "pre_tool_uze", "command": "true"}, 7, {"event": 7, "command": "true"}, PASSING]
    async with daemon.session() as client:
        answer = await client.call("register", each=True, hooks=hooks)
        listed = (await client.call("hooks"))["hooks"]

    assert answer["ids"] == [None, None, None, "good"]
    assert [(one["at"], one["id"], one["event"]) for one in answer["refused"]] == [
        (0, None, "pre_tool_uze"), (1, None, None), (2, None, 7)
    ]  # fmt: skip
    assert [hook["id"] for hook in listed] == ["good"]


async def test_a_map_of_events_names_the_place_of_its_element_and_the_id_of_each_hook(daemon: Daemon) -> None:
    hooks = [
        PASSING,
        {"PreToolUse": [{"matcher": "bash", "hooks": ["a", {"id": "b", "timeout": 0}]}, 7], "Stop": ["c"]},
    ]
    async with opened(daemon, "exathena") as client:
        answer = await client.call("register", each=True, hooks=hooks)
        other = await client.fire("PreToolUse", tool_name="read")

    made = answer["ids"][3]
    assert (answer["ids"], made.startswith("refused-")) == (["good", "a", "b", made, "c"], True)
    assert [(one["at"], one["id"], one["event"]) for one in answer["refused"]] == [
        (1, "b", "PreToolUse"), (1, made, "PreToolUse")
    ]  # fmt: skip
    assert (other["verdict"], other["hook"]) == ("deny", made)


async def test_an_id_that_is_there_twice_or_cannot_be_one_gets_another(daemon: Daemon) -> None:
    gate = {"event": "pre_tool_use", "command": "true"}
    async with daemon.session() as client:
        hooks = [{**gate, "id": "a"}, {**gate, "id": "a"}, {**gate, "id": 7}, {**gate, "id": "global/x"}]
        answer = await client.call("register", each=True, hooks=hooks)

    first, *made = answer["ids"]
    assert first == "a"
    assert len({hook_id for hook_id in made if hook_id.startswith("refused-")}) == 3


async def test_limits_of_a_session_still_refuse_the_whole_call(daemon: Daemon) -> None:
    async with daemon.session() as client:
        with pytest.raises(RpcFailure, match="invalid_params"):
            await client.call("register", each=True, hooks=[PASSING] * 1001)
        table = {"event": ["stop"] * 1001, "id": "a", "command": "true"}
        with pytest.raises(RpcFailure, match="overload"):
            await client.call("register", each=True, hooks=[table])

        assert (await client.call("hooks"))["hooks"] == []


@pytest.mark.parametrize("each", [False, True])
async def test_a_hook_that_the_client_could_not_make_stands_in(daemon: Daemon, each: bool) -> None:
    hooks = [
        {"id": "a", "event": "PreToolUse", "match": "shell", "problem": "it takes 3 arguments", "handler": {"x": 1}},
        {"event": "PreToolUse", "match": "(?=edit)", "problem": "an option that RE2 has not"},
        {"event": "stop", "problem": "it is no function"},
    ]
    async with opened(daemon, "reasonix") as client:
        answer = await client.call("register", each=each, hooks=hooks)
        shell = await client.fire("PreToolUse", toolName="shell", toolArgs={})
        await client.call("unregister", id=answer["ids"][1])
        other = await client.fire("PreToolUse", toolName="other", toolArgs={})
        stop = await client.fire("Stop")

    assert answer.get("refused", []) == []
    assert (shell["verdict"], shell["cause"]) == ("deny", "load")
    assert shell["reason"].endswith("/a: it takes 3 arguments")
    assert other["verdict"] == "pass"
    assert stop["rendered"]["decision"] == "warn"
    assert "it is no function" in str(stop["warnings"])


@pytest.mark.parametrize("dialect", [None, "ethos", "exathena", "reasonix", "radium", "beam"])
async def test_a_stand_in_for_every_gate_denies_each_and_only_them(daemon: Daemon, dialect: str | None) -> None:
    async with opened(daemon, dialect) as client:
        (hook_id,) = (await client.call("register", hooks=[{"event": "*", "problem": "unreadable"}]))["ids"]
        tool = await client.call("fire", event=GATES[dialect], payload=PAYLOADS.get(dialect, {}))
        await client.call("unregister", id=hook_id)
        after = await client.call("fire", event=GATES[dialect], payload=PAYLOADS.get(dialect, {}))

    assert (tool["verdict"], tool["cause"]) == ("deny", "load")
    assert tool["reason"].endswith(": unreadable")
    assert after["verdict"] == "pass"


GATES: dict[str | None, str] = {
    None: "user_prompt_submit", "ethos": "subagent_spawning", "exathena": "PreToolUse", "reasonix": "UserPromptSubmit",
    "radium": "BeforeTool", "beam": "pre_compact",
}  # fmt: skip
PAYLOADS: dict[str | None, dict[str, Any]] = {"exathena": {"tool_name": "t"}, "radium": {"tool_name": "t"}}


async def test_a_hello_with_each_opens_and_resumes_in_spite_of_a_bad_hook(daemon: Daemon) -> None:
    client = daemon.connect()
    unnamed: list[dict[str, Any]] = [{"event": "stop", "command": 7}, *[{"event": "*", "problem": "no JSON"}] * 2]
    session: dict[str, Any] = {"hooks": [{**PASSING, "id": "bad", "timeout": 0}, PASSING, *unnamed], "each": True}
    first = await client.call("hello", protocol=1, session=session)
    other = daemon.connect()
    resumed = {"id": first["session_id"], "resume_token": first["resume_token"]}

    again = await other.call("hello", protocol=1, session={**session, **resumed})

    assert (again["hooks"], again["refused"]) == (first["hooks"], first["refused"])
    assert (first["hooks"][:2], len(first["hooks"])) == (["bad", "good"], 5)
    assert [one["at"] for one in first["refused"]] == [0, 2]
    await client.aclose()
    await other.aclose()


async def test_a_stand_in_is_red_and_stays_through_a_reload_and_a_restart(tmp_path: Path) -> None:
    hooks = [
        {"id": "refused", "event": "pre_tool_use", "match": "Bash", "command": "true", "timeout": 0},
        {"id": "stated", "event": "*", "match": "Bash", "problem": "it cannot be made"},
    ]
    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin, daemon.session() as client:
        await client.call("register", each=True, hooks=[{**PASSING, "id": "own", "timeout": 0}])
        await admin.call("register", scope="global", each=True, hooks=hooks)
        await admin.call("reload")
        own = {hook["id"]: hook["state"] for hook in (await client.call("hooks"))["hooks"]}
        status = await admin.call("status")
    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin:
        bash, stop = await admin.fire_tool("Bash"), await admin.fire("stop")
        prompt = await admin.fire("user_prompt_submit", prompt="x")
        restarted = await admin.call("status")

    assert own == {"refused": "inactive", "stated": "inactive", "own": "inactive"}
    assert [status["health"], restarted["health"]] == ["red", "red"]
    assert all(name in str(status["problems"]) for name in ("refused", "stated", "own"))
    assert [bash["verdict"], prompt["verdict"], stop["verdict"]] == ["deny", "deny", "pass"]
    assert "it cannot be made" in prompt["reason"]
    assert "hooklatch hooks disable global/stated" in prompt["reason"]
