"""What a native payload says of its session: each key of each dialect's table is what hooks see, and no more than that.

The cases are made from the tables, so that a new key is tried as soon as it is there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dialects.samples import cases
from hooklatch.dialects.dialect import Dialect
from hooklatch.dialects.translation import SESSION_FIELDS, translate_to_canonical
from hooklatch_worker.author.event import ENVELOPE
from support.daemons import Client, Daemon
from support.shared_daemon import daemon_in_thread

SEES = """
import json, os
from hooklatch_worker import deny

NAMES = {names}

def sees(event):
    seen = {{name: getattr(event, name, None) for name in NAMES}}
    with open(event.config["to"], "w") as file:
        json.dump({{"attributes": seen, "payload": event.payload}}, file)

def remembers(event):
    fires = event.state.session.increment("fires")
    return deny(str(fires)) if event.tool_name == "ask" else None
"""
CUSTOM = """
[[dialect]]
name = "mine"
style = "merged"
[dialect.events.before]
feeds = [{ event = "pre_tool_use", keys = { tool = "tool_name", folder = "cwd", began = "began_in", chat = "session_id", step = "turn", on = "host", number = "call_id", "about.it" = "metadata" } }]
answers = { words = { deny = "refused" } }
[dialect.events.after]
feeds = ["stop"]
"""  # noqa: E501
NAMES = sorted(ENVELOPE - {"event"})
VALUES: dict[str, Any] = {"turn": 41, "metadata": {"trace": "t-9"}}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("d")
    with daemon_in_thread(folder, {"hooks.toml": CUSTOM, "sees.py": SEES.format(names=NAMES)}) as daemon:
        for name in ("sessions", "stated"):
            (folder / name).mkdir()
        yield daemon


@asynccontextmanager
async def opened(daemon: Daemon, dialect: str, *hooks: dict[str, Any], **session: Any) -> AsyncGenerator[Client]:
    client = daemon.connect()
    folder = str(daemon.folder / "sessions")
    hello = await client.call(
        "hello",
        protocol=1,
        dialect=dialect,
        session={"cwd": folder, "host": "sessions", "hooks": list(hooks), **session},
    )
    client.hello = hello  # type: ignore[attr-defined]
    yield client
    await client.call("session.close")
    await client.aclose()


def stated_in(dialect: Dialect, event: str) -> dict[str, str]:
    """Return the keys of a native event's table that name what an envelope has too, with our names."""
    return {
        native: path
        for native, path in dialect.events[event].feeds[0].keys.items()
        if path in {*SESSION_FIELDS, *NAMES}
    }


async def answered(client: Client, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Answer the one call of a served hook; return what it was sent, and the decision."""
    called: dict[str, Any] = {}
    while True:
        message = await client.read()
        assert message is not None
        if message.get("method") == "call":
            called = message["params"]
            await client.send_line({"jsonrpc": "2.0", "id": message["id"], "result": None})
        elif message.get("id") == number:
            assert "result" in message, message
            return called, message["result"]


TABLES = [
    pytest.param(dialect, event, id=f"{dialect.name}-{event}")
    for dialect, event in cases()
    if stated_in(dialect, event)
]


@pytest.mark.parametrize(("dialect", "event"), TABLES)
async def test_every_hook_sees_what_the_payload_says(daemon: Daemon, dialect: Dialect, event: str) -> None:
    keys = stated_in(dialect, event)
    folder = daemon.folder / "stated"
    values = {**VALUES, "cwd": str(folder)}
    payload = {native: values.get(path, f"stated-{path}") for native, path in keys.items()}
    if "toolName" in dialect.events[event].feeds[0].keys or "tool_name" in dialect.events[event].feeds[0].keys:
        payload |= {key: "tool" for key in ("toolName", "tool_name") if key in dialect.events[event].feeds[0].keys}
    ours = dialect.events[event].feeds[0].event
    seen, read = daemon.folder / "seen", daemon.folder / "read"
    command = f"cat > {read}; pwd >> {read}"
    hooks: list[dict[str, Any]] = [
        {"id": "worker", "event": ours, "run": f"{daemon.folder}/sees.py:sees", "config": {"to": str(seen)}},
        {"id": "shell", "event": ours, "command": command, "payload": "canonical", "exit_codes": "strict"},
    ]
    native = next((key for key, our in dialect.registration.items() if our == "event"), "event")
    named = next((key for key, our in dialect.registration.items() if our == "id"), "id")
    async with opened(daemon, dialect.name, *hooks, {native: event, named: "served"}) as client:
        session_id = client.hello["session_id"]  # type: ignore[attr-defined]
        called, decision = await answered(client, await client.send("fire", event=event, payload=payload))
        record = (await client.call("log", limit=1))["records"][-1]
    told, (document, where) = json.loads(seen.read_text()), read.read_text().splitlines()

    assert decision["verdict"] == "pass", decision
    own = translate_to_canonical(dialect, event, payload)[0]
    for key, name in keys.items():
        assert (told["attributes"][name], told["payload"][name]) == (payload[key], payload[key]), name
        assert (json.loads(document)[name], called["payload"][key]) == (payload[key], payload[key]), name
    for name, value in own.stated.items():
        assert called["envelope"][name] == value
    assert where == str(folder if "cwd" in own.stated else daemon.folder / "sessions")
    assert record["cwd"] == where
    assert (record["session"], record.get("claimed_session")) == (session_id, own.stated.get("session_id"))


def test_the_tables_have_such_keys() -> None:
    assert {dialect.name for dialect, event in cases() if stated_in(dialect, event)} == {
        "ethos", "exathena", "reasonix", "radium", "beam"
    }  # fmt: skip


async def test_a_dialect_of_ones_own_states_whatever_it_maps(daemon: Daemon) -> None:
    folder, seen = str(daemon.folder / "stated"), daemon.folder / "seen"
    hook = {
        "id": "worker",
        "event": "pre_tool_use",
        "run": f"{daemon.folder}/sees.py:sees",
        "config": {"to": str(seen)},
    }
    payload = {
        "tool": "t", "folder": folder, "began": folder, "chat": "c-1", "step": 4, "on": "here", "number": "n-1",
        "about": {"it": {"a": 1}},
    }  # fmt: skip
    async with opened(daemon, "mine", hook) as client:
        await client.call("fire", event="before", payload=payload)
    told = json.loads(seen.read_text())["attributes"]

    expected = {"cwd": folder, "session_id": "c-1", "turn": 4, "host": "here", "call_id": "n-1", "metadata": {"a": 1}}
    assert {name: told[name] for name in expected} == expected


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"cwd": "some/where"}, {}, "cwd must be an absolute path, not 'some/where'"),
    ({"cwd": ""}, {}, "cwd must be an absolute path"),
    ({"cwd": "/a\0b"}, {}, "cwd must be an absolute path"),
    ({"cwd": 7}, {}, "cannot be used"),
    ({"cwd": ["/"]}, {}, "cannot be used"),
    ({"cwd": "/" + "x" * 5000}, {}, "cannot be used"),
    ({"sessionId": 7}, {}, "cannot be used"),
    ({"sessionId": "x" * 201}, {}, "cannot be used"),
    ({"cwd": "/srv"}, {"cwd": "/tmp"}, "two values are given for cwd"),
    ({"sessionId": "a"}, {"session_id": "b"}, "two values are given for session_id"),
]


@pytest.mark.parametrize(("payload", "envelope", "why"), REFUSED)
async def test_what_cannot_be_used_refuses_the_fire(
    daemon: Daemon, payload: dict[str, Any], envelope: dict[str, Any], why: str
) -> None:
    async with opened(daemon, "reasonix") as client:
        gate = await client.call("fire", event="PreToolUse", payload={**payload, "toolName": "t"}, envelope=envelope)
        other = await client.call("fire", event="Stop", payload=payload, envelope=envelope)

    assert (gate["verdict"], gate["cause"]) == ("deny", "payload")
    assert gate["rendered"]["blocked"]
    assert why in gate["reason"]
    assert other["verdict"] == "pass"
    assert why in str(other["warnings"])


async def test_what_says_nothing_or_the_same_is_taken(daemon: Daemon) -> None:
    folder = str(daemon.folder / "stated")
    async with opened(daemon, "reasonix", {"event": "PreToolUse", "id": "g", "command": "pwd >&2; exit 2"}) as client:
        fires: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({}, {}), ({"cwd": None, "sessionId": None}, {}), ({"cwd": folder}, {"cwd": folder}), ({}, {"cwd": folder}),
        ]  # fmt: skip
        decided = [
            await client.call("fire", event="PreToolUse", payload={**payload, "toolName": "t"}, envelope=envelope)
            for payload, envelope in fires
        ]

    sessions = str(daemon.folder / "sessions")
    assert [one["reason"] for one in decided] == [sessions, sessions, folder, folder]


async def test_a_claimed_session_is_told_and_gives_nothing_of_it(daemon: Daemon) -> None:
    hook = {"id": "remembers", "event": "pre_tool_use", "run": f"{daemon.folder}/sees.py:remembers"}
    async with daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[hook])
        try:
            async with (
                opened(daemon, "reasonix", id="victim") as victim,
                opened(daemon, "reasonix", id="other") as other,
            ):
                watching = daemon.connect(daemon.admin)
                await watching.call("hello", protocol=1)
                await watching.call("subscribe", topics=["decisions"])
                for _ in range(3):
                    await victim.fire("PreToolUse", toolName="t")
                own = await other.fire("PreToolUse", toolName="ask", sessionId="victim")
                announced = [await watching.announcement() for _ in range(4)][-1]
                records = (await victim.call("log"))["records"]
                still = await victim.fire("PreToolUse", toolName="ask")
                await watching.aclose()
        finally:
            await admin.call("unregister", scope="global", id="remembers")

    assert (own["reason"], still["reason"]) == ("1", "4")
    assert announced["session_id"] == "other"
    assert {one["session"] for one in records} == {"victim"}
