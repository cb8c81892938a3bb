"""Dialect sessions: another system's events go in, its own answers come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.dialects.radium import RADIUM
from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.shared_daemon import daemon_in_thread

GUARD = """
from hooklatch_worker import amend, append, ask, deny, hook

@hook("pre_tool_use")
def guard(event):
    command = event.tool_input["command"]
    if command == "rm":
        return deny("no rm")
    if command == "sudo":
        return ask("sure?")
    if command == "crash":
        raise RuntimeError("broken")
    if command == "curl":
        return amend(tool_input={"command": "curl -m 9"})

@hook("post_tool_use")
def remind(event):
    return append("formatted?")
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARD}
FIRES = {
    "ethos": ("before_tool_call", lambda command: {"toolName": "bash", "args": {"command": command}}),
    "exathena": ("PreToolUse", lambda command: {"tool_name": "bash", "command": command}),
    "reasonix": ("PreToolUse", lambda command: {"toolName": "bash", "toolArgs": {"command": command}}),
    "radium": ("BeforeTool", lambda command: {"tool_name": "bash", "arguments": {"command": command}}),
    "beam": ("pre_tool_use", lambda command: {"tool_name": "bash", "tool_input": {"command": command}}),
}
NATIVE_WORDS = """
def ethos(event):
    return {"error": "not in ethos"}

def beam(event):
    return ["deny", "not in beam"]

def radium(event):
    return {"success": False, "message": "stopped here", "modified_data": None, "should_continue": False}

def rubbish(event):
    return "whatever"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a guard."""
    with daemon_in_thread(tmp_path_factory.mktemp("d"), FILES) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon without hooks but those that its clients register."""
    with daemon_in_thread(tmp_path_factory.mktemp("d"), {"words.py": NATIVE_WORDS}) as daemon:
        yield daemon


async def speak(daemon: Daemon, dialect: str, **session: Any) -> Client:
    client = daemon.connect()
    await client.call("hello", protocol=1, dialect=dialect, session=session)
    return client


@pytest.mark.parametrize("dialect", FIRES)
async def test_one_hook_serves_every_dialect(daemon: Daemon, dialect: str) -> None:
    event, payload = FIRES[dialect]

    client = await speak(daemon, dialect)
    decisions = {
        command: await client.call("fire", event=event, payload=payload(command))
        for command in ("ls", "rm", "sudo", "crash", "curl")
    }
    await client.aclose()

    assert [decisions[command]["verdict"] for command in decisions] == ["pass", "deny", "ask", "deny", "pass"]
    assert decisions["curl"]["patch"] == {"tool_input": {"command": "curl -m 9"}}
    rendered = {command: json.dumps(decision["rendered"]) for command, decision in decisions.items()}
    assert "no rm" in rendered["rm"]
    assert "curl -m 9" in rendered["curl"] or decisions["curl"]["warnings"]
    assert "hook crashed (fail-safe deny)" in rendered["crash"]


async def test_a_native_event_that_feeds_several_gives_the_others_beside_the_first(daemon: Daemon) -> None:
    client = await speak(daemon, "radium")
    payload = {"tool_name": "bash", "arguments": {"command": "ls"}, "result": "out"}
    decision = await client.call("fire", event="AfterTool", payload=payload)
    await client.aclose()

    assert decision["event"] == "tool_result"
    assert [followed["event"] for followed in decision["followed_by"]] == ["post_tool_use"]
    assert decision["followed_by"][0]["append"] == "formatted?"


async def test_a_served_hook_is_asked_and_answers_in_its_own_words(bare: Daemon) -> None:
    client = await speak(bare, "ethos")
    definition = {"id": "mine", "event": "before_tool_call", "model": "modifying"}
    await client.call("register", hooks=[definition])
    payload = {"toolName": "bash", "args": {"command": "rm"}}
    number = await client.send("fire", event="before_tool_call", payload=payload)
    asked = await client.read()
    assert asked is not None
    await client.send_line({"jsonrpc": "2.0", "id": asked["id"], "result": {"error": "not this"}})
    decision = await client.answer_to(number)
    await client.aclose()

    assert asked["params"]["event"] == "before_tool_call"
    assert asked["params"]["payload"]["args"] == {"command": "rm"}
    assert (decision["verdict"], decision["reason"]) == ("deny", "not this")
    assert decision["rendered"]["error"] == "not this"


async def test_garbage_in_a_served_hook_of_a_dialect_denies(bare: Daemon) -> None:
    client = await speak(bare, "beam")
    await client.call("register", hooks=[{"id": "mine", "event": "pre_tool_use"}])
    number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "bash", "tool_input": {}})
    asked = await client.read()
    assert asked is not None
    await client.send_line({"jsonrpc": "2.0", "id": asked["id"], "result": "whatever"})
    decision = await client.answer_to(number)
    await client.aclose()

    assert (decision["verdict"], decision["cause"]) == ("deny", "protocol")


@pytest.mark.parametrize(
    ("dialect", "definition", "complaint"),
    [
        ("ethos", {"id": "x", "event": "before_tool_call", "model": "void"}, "it takes no void hooks"),
        ("ethos", {"id": "x", "event": "before_tool_call", "match": "Bash"}, "no matchers"),
        ("exathena", {"id": "x", "event": "PreToolUze"}, "did you mean 'PreToolUse'"),
        ("beam", {"id": "x", "event": "pre_tool_use", "match": "[unclosed"}, "not a pattern"),
    ],
)
async def test_a_registration_that_is_wrong_in_its_dialect_is_refused(
    bare: Daemon, dialect: str, definition: dict[str, Any], complaint: str
) -> None:
    client = await speak(bare, dialect)
    with pytest.raises(RpcFailure, match=complaint):
        await client.call("register", hooks=[definition])
    await client.aclose()


async def test_an_unknown_dialect_or_native_event_names_those_that_there_are(bare: Daemon) -> None:
    client = bare.connect()
    with pytest.raises(RpcFailure, match="unknown dialect 'klingon'; there are ethos"):
        await client.call("hello", protocol=1, dialect="klingon")
    await client.call("hello", protocol=1, dialect="reasonix", session={"require_handlers": ["PreToolUse"]})
    with pytest.raises(RpcFailure, match="reasonix has no event"):
        await client.call("fire", event="pre_tool_use", payload={})
    denied = await client.call("fire", event="PreToolUse", payload={"toolName": "bash", "toolArgs": {}})
    await client.aclose()

    assert (denied["verdict"], denied["cause"]) == ("deny", "load")


async def test_a_dialect_of_the_configuration_is_spoken_like_ours(tmp_path: Path) -> None:
    table = """
[[dialect]]
name = "mine"
style = "merged"
[dialect.events.before_shell]
answers = { words = { deny = "refused" }, patch = { tool_input = "args" } }
feeds = [{ event = "pre_tool_use", keys = { tool = "tool_name", args = "tool_input" } }]
"""

    async with running_daemon(tmp_path, {**FILES, "hooks.toml": FILES["hooks.toml"] + table}) as daemon:
        diagnostics = [str(found) for found in daemon.parts.reloader.active.diagnostics]
        assert diagnostics == []
        client = await speak(daemon, "mine")
        decision = await client.call("fire", event="before_shell", payload={"tool": "bash", "args": {"command": "rm"}})
        await client.aclose()

    assert (decision["verdict"], decision["rendered"]) == ("deny", {"refused": "no rm"})


async def test_a_hook_of_an_event_that_its_dialect_has_lost_fails_alone(tmp_path: Path) -> None:
    dialect = """
[[dialect]]
name = "mine"
style = "merged"
[dialect.events.EVENT]
answers = { words = { deny = "refused" } }
feeds = ["pre_tool_use"]
"""
    async with running_daemon(tmp_path, {"hooks.toml": dialect.replace("EVENT", "before")}) as daemon:
        hook = {"id": "seen", "event": "before", "served": True, "observe": True}
        client = await speak(daemon, "mine", hooks=[hook])
        daemon.write("hooks.toml", dialect.replace("EVENT", "prior"))
        async with daemon.administrator() as admin:
            await admin.call("reload")
        decision = await client.call("fire", event="prior", payload={"tool_name": "Bash", "tool_input": {}})
        await client.aclose()

    (outcome,) = decision["outcomes"]
    assert (outcome["cause"], outcome["message"]) == ("load", "its dialect 'mine' has no event 'before' any more")
    assert decision["verdict"] == "pass"


async def test_a_dialect_that_cannot_be_used_is_told_with_its_line(tmp_path: Path) -> None:
    table = '[[dialect]]\nname = "mine"\n[dialect.events]\nbefore = "pre_tool_uze"\n'

    async with running_daemon(tmp_path, {"hooks.toml": table}) as daemon:
        diagnostic = daemon.parts.reloader.active.diagnostics[0]

    assert diagnostic.line == 1
    assert "pre_tool_use" in diagnostic.message


async def test_reports_take_the_names_of_the_sessions_dialect(daemon: Daemon) -> None:
    client = await speak(daemon, "ethos")
    listed = await client.call("hooks", event="before_tool_call")
    explained = await client.call("explain", event="before_tool_call", payload={"tool_name": "bash"})
    await client.aclose()

    assert [hook["id"] for hook in listed["hooks"]] == ["guards:guard"]
    assert [hook["hook"] for hook in explained["fires"]] == ["guards:guard"]


async def test_the_events_of_a_session_of_a_dialect_are_its_own(bare: Daemon) -> None:
    client = await speak(bare, "ethos")
    events = {event["name"]: event for event in (await client.call("events"))["events"]}
    await client.aclose()

    assert "pre_tool_use" not in events
    assert events["before_tool_call"]["feeds"] == ["pre_tool_use"]
    assert events["before_tool_call"]["fails"] == "closed"


async def test_a_bare_map_of_events_is_taken_by_hello_and_by_register(bare: Daemon) -> None:
    hooks = {"PreToolUse": [{"matcher": "Write|Edit", "hooks": ["guard"]}], "Stop": ["stopped"]}

    client = bare.connect()
    said = await client.call("hello", protocol=1, dialect="exathena", session={"hooks": hooks})
    again = await client.call("register", hooks={"Stop": [{"served": True}, {"served": True}]})
    plain = bare.connect()
    with pytest.raises(RpcFailure, match="needs a dialect"):
        await plain.call("hello", protocol=1, session={"hooks": hooks})
    for one in (client, plain):
        await one.aclose()

    assert said["hooks"] == ["guard", "stopped"]
    assert again["ids"] == ["served-1", "served-2"]


async def test_a_served_hook_is_given_its_config_and_needs_no_id(bare: Daemon) -> None:
    async with bare.session() as client:
        definition = {"event": "pre_tool_use", "served": True, "config": {"limit": 3}}
        registered = await client.call("register", hooks=[definition, {"event": "stop", "served": True}])
        payload = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
        number = await client.send("fire", event="pre_tool_use", payload=payload)
        asked = await client.read()
        assert asked is not None
        await client.send_line({"jsonrpc": "2.0", "id": asked["id"], "result": None})
        await client.answer_to(number)

    assert registered["ids"] == ["served-1", "served-2"]
    assert (asked["params"]["hook"], asked["params"]["config"]) == ("served-1", {"limit": 3})


async def test_a_fire_may_be_in_a_dialect_that_its_session_does_not_speak(daemon: Daemon) -> None:
    event, payload = FIRES["reasonix"]
    async with daemon.session() as client:
        one_shot = daemon.connect()
        decisions = [
            await one.call("fire", event=event, payload=payload("rm"), dialect="reasonix") for one in (client, one_shot)
        ]
        await one_shot.aclose()

    assert [(one["verdict"], one["rendered"]["exitCode"]) for one in decisions] == [("deny", 2)] * 2


async def test_a_native_name_where_ours_is_needed_is_told_ours(tmp_path: Path) -> None:
    source = 'from hooklatch import hook\n\n@hook("before_tool_call")\ndef guard(event):\n    return None\n'
    async with running_daemon(tmp_path, {"hooks.d/guards.py": source}) as daemon, daemon.session() as client:
        with pytest.raises(RpcFailure, match="ethos's before_tool_call is 'pre_tool_use' here"):
            await client.call("fire", event="before_tool_call", payload={})
        (problem,) = (await client.call("status"))["problems"]

    assert "ethos's before_tool_call is 'pre_tool_use' here" in problem["message"]
    assert (problem["file"].endswith("guards.py"), problem["line"]) == (True, 3)


async def test_the_line_of_a_block_in_reasonix_names_the_command(bare: Daemon, tmp_path: Path) -> None:
    hook = {"id": "mine", "event": "PreToolUse", "command": "echo no >&2; exit 2"}
    client = await speak(bare, "reasonix", cwd=str(tmp_path), hooks=[hook])
    decision = await client.call("fire", event="PreToolUse", payload=FIRES["reasonix"][1]("ls"))
    await client.aclose()

    assert decision["rendered"]["message"] == "hook [session/PreToolUse] echo no >&2; exit 2: block: no"


async def test_a_workers_function_that_was_registered_in_a_dialect_may_answer_in_its_words(bare: Daemon) -> None:
    cases = [
        ("ethos", "before_tool_call", "ethos"),
        ("beam", "pre_tool_use", "beam"),
        ("beam", "pre_tool_use", "rubbish"),
    ]
    decisions: list[dict[str, Any]] = []
    for dialect, event, function in cases:
        hook = {"name" if dialect == "ethos" else "event": event, "run": f"{bare.folder}/words.py:{function}"}
        client = await speak(bare, dialect, hooks=[hook])
        payload = {"toolName": "bash", "args": {}} if dialect == "ethos" else {"tool_name": "bash", "tool_input": {}}
        decisions.append(await client.call("fire", event=event, payload=payload))
        await client.aclose()

    assert [(one["verdict"], one["cause"]) for one in decisions] == [
        ("deny", "policy"), ("deny", "policy"), ("deny", "protocol"),
    ]  # fmt: skip
    assert [one["reason"] for one in decisions[:2]] == ["not in ethos", "not in beam"]


async def test_a_stop_of_radium_keeps_its_reason_on_every_type(bare: Daemon) -> None:
    stop = {"success": False, "message": "stopped here", "modified_data": None, "should_continue": False}
    last: dict[str, dict[str, Any]] = {}
    for event in RADIUM.events:
        hook = {"name": "h", "type": event, "run": f"{bare.folder}/words.py:radium"}
        client = await speak(bare, "radium", hooks=[hook])
        decision = await client.call("fire", event=event, payload={"tool_name": "x", "arguments": {}})
        last[event] = decision["rendered"][-1]
        await client.aclose()

    assert len(last) == 13
    assert last == dict.fromkeys(RADIUM.events, stop)


async def test_a_payload_that_says_one_thing_in_two_ways_is_refused(bare: Daemon) -> None:
    client = await speak(bare, "ethos")
    payload = {"toolName": "bash", "tool_name": "rm", "args": {}}
    decision = await client.call("fire", event="before_tool_call", payload=payload)
    await client.aclose()

    assert (decision["verdict"], decision["cause"]) == ("deny", "payload")
    assert decision["rendered"]["error"]
