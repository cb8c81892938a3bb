"""Whatever a client chooses has a stated limit: over it is an error that names it, and never a pass."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from hooklatch.core.limits import (
    MAX_BYTES_IN_FLIGHT,
    MAX_HOOK_BYTES,
    MAX_HOOKS,
    MAX_SESSION_HOOK_BYTES,
)
from hooklatch.service.registry.budget import MAX_HELD
from support.daemons import Client, RpcFailure, running_daemon
from support.guards import FILES, WAITING

LONG, MANY = "x" * 201, [f"p{number}" for number in range(257)]
OF_A_SESSION: list[tuple[dict[str, Any], str]] = [
    ({"resume_token": LONG}, "$.session.resume_token"),
    ({"parent_session_id": LONG}, "$.session.parent_session_id"),
    ({"cwd": "/" + "x" * 4096}, "$.session.cwd"),
    ({"host": LONG}, "$.session.host"),
    ({"personality": LONG}, "$.session.personality"),
    ({"plugins": MANY}, "$.session.plugins"),
    ({"plugins": [LONG]}, "$.session.plugins[0]"),
    ({"require_handlers": MANY}, "$.session.require_handlers"),
    ({"hooks": [{}] * (MAX_HOOKS + 1)}, "$.session.hooks"),
]
OF_A_HELLO: list[tuple[dict[str, Any], str]] = [
    ({"client": {"name": LONG}}, "$.client.name"),
    ({"client": {"version": LONG}}, "$.client.version"),
    ({"dialect": LONG}, "$.dialect"),
    ({"emits": MANY}, "$.emits"),
    *(({"session": session}, field) for session, field in OF_A_SESSION),
]
OF_A_FIRE: list[tuple[dict[str, Any], str]] = [
    ({"event": LONG}, "$.event"),
    ({"call_id": LONG}, "$.call_id"),
    ({"plugins": MANY}, "$.plugins"),
    *(
        ({"envelope": {name: LONG}}, f"$.envelope.{name}")
        for name in ("session_id", "agent_id", "agent_type", "parent_session_id", "host", "turn")
    ),
    ({"envelope": {"cwd": "/" + "x" * 4096}}, "$.envelope.cwd"),
]


async def test_text_over_its_limit_is_an_error_that_names_the_field_and_the_limit(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon:
        for params, field in OF_A_HELLO:
            client = daemon.connect()
            with pytest.raises(RpcFailure, match=r"invalid_params: .*length <= ") as caught:
                await client.call("hello", protocol=1, **params)
            await client.aclose()
            assert f"`{field}`" in caught.value.message
        async with daemon.session() as client:
            for params, field in OF_A_FIRE:
                with pytest.raises(RpcFailure, match=r"invalid_params: .*length <= ") as caught:
                    await client.call("fire", **{"event": "pre_tool_use", "payload": {"tool_name": "x"}, **params})
                assert f"`{field}`" in caught.value.message
            assert (await client.fire_tool("Bash"))["verdict"] == "deny"
        assert len(daemon.parts.sessions) == 1


async def test_definitions_have_a_size_alone_and_together(tmp_path: Path) -> None:
    def hook(number: int, size: int) -> dict[str, Any]:
        return {"id": f"h{number}", "event": "notification", "served": True, "config": {"text": "x" * size}}

    async with running_daemon(tmp_path, FILES) as daemon, daemon.session() as client:
        with pytest.raises(RpcFailure, match=rf"invalid_params: .*'h0' takes .* {MAX_HOOK_BYTES} are allowed"):
            await client.call("register", hooks=[hook(0, MAX_HOOK_BYTES)])
        most = MAX_SESSION_HOOK_BYTES // 60_200
        for _ in range(2):  # what is replaced is counted once
            await client.call("register", hooks=[hook(number, 60_000) for number in range(most)])
        with pytest.raises(RpcFailure, match=rf"overload: .*{MAX_SESSION_HOOK_BYTES} are allowed"):
            await client.call("register", hooks=[hook(number, 60_000) for number in range(most, most + 3)])
        await client.call("unregister", id="h0")
        await client.call("register", hooks=[hook(most, 60_000)])
        assert len(next(iter(daemon.parts.sessions)).own) == most


async def fire_line(client: Client, number: int, rest: bytes) -> int:
    """Send a fire whose bytes are there already: what a client needs to make them is not the daemon's."""
    await client.send_raw(b'{"id":%d,' % number)
    await client.send_raw(rest)
    return number


async def fire_in_turn(client: Client, count: int, rest: bytes) -> None:
    for number in range(1000, 1000 + count):
        await client.answer_to(await fire_line(client, number, rest))


def rest_of_line(**params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "fire", "params": params}).encode()[1:] + b"\n"


@pytest.mark.slow
async def test_a_client_that_sends_as_much_as_it_may_costs_what_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: some 100 MiB through the socket."""
    monkeypatch.setattr("hooklatch.service.transport.connection.ROOM_TIMEOUT", 0.05)
    go, size = tmp_path / "go", 6 * 2**20
    patient = {**FILES, "guards.py": WAITING.replace('("pre_tool_use")', '("pre_tool_use", timeout=60)')}
    gate = {"tool_name": "Slow", "tool_input": {"until": str(go), "text": "x" * size}}
    slow = rest_of_line(event="pre_tool_use", payload=gate)
    in_background = rest_of_line(event="notification", payload={"text": "x" * size}, wait=False)
    async with running_daemon(tmp_path, patient) as daemon, daemon.session() as client, daemon.session() as other:
        await client.fire_tool("Bash")
        before = psutil.Process(os.getpid()).memory_info().rss
        asked = 2 * MAX_BYTES_IN_FLIGHT // size
        for number in range(1000, 1000 + asked):
            await fire_line(client, number, slow)
        refused = [await client.read() for _ in range(asked - MAX_BYTES_IN_FLIGHT // size)]
        with pytest.raises(RpcFailure, match="overload"):  # both are of this process, which may have half of all room
            await fire_in_turn(other, 12, in_background)
        held, dropped = daemon.parts.budget.held, daemon.parts.statistics.dropped
        grown = psutil.Process(os.getpid()).memory_info().rss - before
        behind = await other.send("fire", event="pre_tool_use", payload={"tool_name": "Bash"})
        go.touch()  # no worker is free before
        decision = await other.answer_to(behind)

    assert {answer["error"]["data"]["name"] for answer in refused if answer is not None} == {"overload"}
    assert decision["reason"] == "no"
    assert dropped == {"overload": 1}
    assert MAX_HELD // 2 - size < held < MAX_HELD // 2 + 2**16
    assert grown < 2 * held + 2**24  # of each line, nothing but the line and its payload


async def test_a_client_that_counts_the_bytes_that_it_was_told_of_is_never_refused(tmp_path: Path) -> None:
    line = {"event": "pre_tool_use", "payload": {"tool_name": "t", "tool_input": {"text": "x" * 2**20}}}
    size = len(json.dumps({"jsonrpc": "2.0", "id": 999, "method": "fire", "params": line})) + 1
    answers: list[Any] = []
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        room = client.hello["limits"]["in_flight_bytes"]  # type: ignore[attr-defined]
        for _ in range(50):
            while room < size:
                answers.append(await client.read())
                room += size
            await client.send("fire", **line)
            room -= size
        while len(answers) < 50:
            answers.append(await client.read())

    assert [answer["result"]["verdict"] for answer in answers] == ["pass"] * 50
