"""However a peer behaves: silent, gone, deaf, too many at once, or mad; and nobody else notices."""

from __future__ import annotations

import json
import random
import resource
from contextlib import suppress
from typing import Any

import pytest
import trio

from hooklatch.core.protocol import MAX_IN_FLIGHT
from support.daemons import Client, Daemon, RpcFailure
from support.pools import until
from support.rough import BAD_LINES, answer_to, tool


async def test_a_peer_that_only_sends_rubbish_is_told_and_closed(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.send_raw(b"rubbish\n" * 10)

        names = [(await client.read() or {}).get("error", {}).get("data", {}).get("name") for _ in range(5)]

        assert names == ["parse_error"] * 5
        assert await client.hears_the_end()


async def test_rubbish_between_requests_is_told_each_time(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for _ in range(10):
            assert (await answer_to(client, b"rubbish\n"))["error"]["data"]["name"] == "parse_error"
            await client.call("ping")


async def test_half_a_frame_and_silence_disturbs_nobody_and_leaves_nothing(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.session() as other:
        await client.send_raw(b'{"jsonrpc":"2.0","id":1,"meth')

        assert (await other.fire_tool("Bash"))["reason"] == "no"


@pytest.mark.slow
async def test_a_line_that_is_not_ended_in_time_is_told_and_closed_however_it_drips(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: it waits for the daemon's patience to end, shortened to 0.5 s."""
    monkeypatch.setattr("hooklatch.service.transport.connection.FRAME_TIMEOUT", 0.5)
    async with daemon.session() as client, daemon.session() as other:
        answer: dict[str, Any] | None = None
        await client.send_raw(b'{"jsonrpc":"2.0","id":1,"meth')
        with trio.fail_after(20):
            while answer is None:
                with trio.move_on_after(0.05):
                    answer = await client.read()
                if answer is None:
                    with suppress(trio.BrokenResourceError):  # closed meanwhile, and the answer is still to be read
                        await client.send_raw(b" ")  # each piece is progress, and the line ends never

        assert "begun and not ended" in answer["error"]["message"]
        assert await client.hears_the_end()
        assert (await other.fire_tool("Bash"))["reason"] == "no"


async def test_a_line_in_two_pieces_leaves_no_deadline_behind(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.transport.connection.FRAME_TIMEOUT", 0.2)
    async with daemon.session() as client:
        await client.send_raw(b'{"jsonrpc":"2.0","id":1,')
        await trio.sleep(0.02)
        await client.send_raw(b'"method":"ping"}\n')
        assert (await client.read() or {})["result"] == {}
        await trio.sleep(0.4)

        assert (await client.fire_tool("Bash"))["reason"] == "no"


async def test_requests_end_in_any_order_and_a_slow_one_keeps_no_other_waiting(daemon: Daemon) -> None:
    go = daemon.folder / "go"
    async with daemon.session() as client:
        slow = [await client.send("fire", event="pre_tool_use", payload=tool("Slow", go)) for _ in range(3)]
        for _ in range(3):
            assert (await client.fire_tool("Bash"))["reason"] == "no"
            assert await client.call("ping") == {}
        go.write_text("")

        ended = [await client.read() for _ in slow]

    assert sorted(answer["id"] for answer in ended if answer) == slow


async def test_a_slow_request_that_begins_while_another_one_ends_keeps_no_other_waiting(daemon: Daemon) -> None:
    """What the end of the first one takes back must be its own hold on the reader, not that of the second one."""
    first_go, second_go = daemon.folder / "first", daemon.folder / "second"
    async with daemon.session() as client:
        first = await client.send("fire", event="pre_tool_use", payload=tool("Slow", first_go))
        await client.call("ping")  # another task reads now
        second = await client.send("fire", event="pre_tool_use", payload=tool("Slow", second_go))
        first_go.write_text("")
        assert (await client.read() or {})["id"] == first

        with trio.fail_after(5):
            assert await client.call("ping") == {}

        second_go.write_text("")
        await client.answer_to(second)


async def test_one_request_over_those_allowed_in_flight_is_refused_and_a_ping_is_not(daemon: Daemon) -> None:
    go = daemon.folder / "go"
    async with daemon.session() as client:
        payload = tool("Slow", go)
        numbers = [await client.send("fire", event="pre_tool_use", payload=payload) for _ in range(MAX_IN_FLIGHT)]

        with pytest.raises(RpcFailure, match="overload: 64 requests of this connection are unanswered"):
            await client.fire_tool("Bash")
        assert await client.call("ping") == {}
        await client.aclose()

    await until(lambda: len(daemon.parts.bus.connections) == 1)
    assert daemon.parts.statistics.causes["abandoned"] == len(numbers)
    go.write_text("")


async def test_a_client_that_vanishes_in_mid_call_leaves_nothing(daemon: Daemon) -> None:
    go = daemon.folder / "go"
    client = daemon.connect()
    await client.call("hello", protocol=1)
    await client.send("fire", event="pre_tool_use", payload=tool("Slow", go))
    await client.call("ping")

    await client.aclose()

    await until(lambda: len(daemon.parts.bus.connections) == 1)
    go.write_text("")


@pytest.mark.slow
async def test_a_client_that_never_reads_is_not_read_from_either(daemon: Daemon) -> None:
    """Slow: it asks for some 20 MiB of answers."""
    async with daemon.session() as client:
        request = b'{"jsonrpc":"2.0","id":1,"method":"events"}\n' * 100
        with trio.move_on_after(1):
            for _ in range(100):
                await client.send_raw(request)
        (connection,) = (c for c in daemon.parts.bus.connections.values() if len(c._outgoing))

        assert len(connection._outgoing) < 3 * 2**20
        assert len(connection._incoming.lines) < 2**18


@pytest.mark.slow
async def test_a_client_that_takes_nothing_is_closed(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow: it waits for the daemon's patience to end, shortened to 0.3 s."""
    monkeypatch.setattr("hooklatch.service.transport.connection.WRITE_TIMEOUT", 0.3)
    async with daemon.session() as client:
        await client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"events"}\n' * 100)

        await until(lambda: len(daemon.parts.bus.connections) == 1)


@pytest.mark.slow
async def test_two_thousand_idle_connections_disturb_nobody_and_leave_nothing(daemon: Daemon) -> None:
    """Slow: 2,000 connections, each with its hello."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4_500:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients = []
    for _ in range(2_000):
        clients.append(daemon.connect())
        await clients[-1].call("hello", protocol=1)

    async with daemon.session() as client:
        assert (await client.fire_tool("Bash"))["reason"] == "no"
        assert len((await client.call("sessions"))["sessions"]) == 1

    for client in clients:
        await client.aclose()
    await until(lambda: len(daemon.parts.bus.connections) == 1)


# -- served hooks ------------------------------------------------------------------------------------------------


SERVED = {"id": "mine", "event": "pre_tool_use", "served": True, "timeout": 5.0, "match": "Read"}


async def served_answer(client: Client, answer: dict[str, Any]) -> dict[str, Any]:
    """Fire on the connection that serves, and answer its call so."""
    number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Read"})
    call = await client.read()
    assert call is not None
    assert call["method"] == "call"
    await client.send_line({"jsonrpc": "2.0", "id": call["id"], **answer})
    with trio.fail_after(4):
        return await client.answer_to(number)


SERVED_ANSWERS: list[tuple[dict[str, Any], tuple[str, str | None]]] = [
    ({"result": {"verdict": "deny", "reason": "mine"}}, ("deny", "policy")),
    ({"result": None}, ("pass", None)),
    ({"result": {}}, ("pass", None)),
    ({"result": {"verdict": None}}, ("pass", None)),
    ({"result": {"verdict": "maybe"}}, ("deny", "protocol")),
    ({"result": {"verdict": "claim", "value": 1}}, ("deny", "protocol")),
    ({"result": {"verdict": "allow", "patch": {"tool_name": "Bash"}}}, ("deny", "protocol")),
    ({"result": {"unknown": 1}}, ("deny", "protocol")),
    ({"result": [1]}, ("deny", "protocol")),
    ({"result": "deny"}, ("deny", "protocol")),
    ({"result": 7}, ("deny", "protocol")),
    ({"error": {"code": 1, "message": "it broke"}}, ("deny", "crash")),
    ({"error": {}}, ("deny", "crash")),
]


async def test_a_served_hook_of_the_connection_that_fires_is_judged_by_its_answer(daemon: Daemon) -> None:
    async with daemon.session(hooks=[SERVED]) as client:
        for answer, outcome in SERVED_ANSWERS:
            decision = await served_answer(client, answer)

            assert (answer, decision["verdict"], decision["cause"]) == (answer, *outcome)


async def test_answers_that_nobody_asked_for_are_ignored(daemon: Daemon) -> None:
    async with daemon.session(hooks=[SERVED]) as client:
        for number in (0, 1, 99, "1", None):
            await client.send_line({"jsonrpc": "2.0", "id": number, "result": {"verdict": "allow"}})

        decision = await served_answer(client, {"result": {"verdict": "deny", "reason": "mine"}})

    assert decision["reason"] == "mine"


async def test_a_served_hook_is_denied_when_its_client_leaves(daemon: Daemon) -> None:
    async with daemon.session(id="s", hooks=[SERVED]) as server:
        token = server.hello["resume_token"]  # type: ignore[attr-defined]
        async with daemon.session(id="s", resume_token=token) as client:
            number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Read"})
            assert (await server.read() or {})["method"] == "call"
            await server.aclose()

            in_mid_call = await client.answer_to(number)
            afterwards = await client.fire_tool("Read")

    assert [(one["verdict"], one["cause"]) for one in (in_mid_call, afterwards)] == [("deny", "crash")] * 2


# -- fuzz --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_random_bytes_never_disturb_the_daemon(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    """Slow: 400 connections."""
    chance = random.Random(20240229)
    seeds = [data for data, *_ in BAD_LINES.values() if len(data) < 2_000] + [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
        for method, params in (
            ("hello", {"protocol": 1, "session": {"hooks": [SERVED]}}),
            ("register", {"hooks": [SERVED]}),
            ("fire", {"event": "pre_tool_use", "payload": {"tool_name": "Bash"}, "context": {"a": 1}}),
            ("explain", {"event": "pre_tool_use", "payload": {"tool_name": "Bash"}}),
            ("subscribe", {"topics": ["registry", "decisions"]}),
            ("status", {}),
            ("hooks", {}),
        )
    ]
    for _ in range(400):
        client = daemon.connect()
        if chance.random() < 0.7:
            await client.call("hello", protocol=1)
        with trio.move_on_after(5) as scope:
            try:
                for _ in range(chance.randrange(1, 6)):
                    await client.send_raw(mutated(chance, chance.choice(seeds)))
                await client.stream.send_eof()
                await client.hears_the_end()
            except trio.BrokenResourceError:
                pass
        await client.aclose()
        assert not scope.cancelled_caught

    await until(lambda: len(daemon.parts.bus.connections) == 1)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def mutated(chance: random.Random, data: bytes) -> bytes:
    match chance.randrange(5):
        case 0:
            return data
        case 1:
            return chance.randbytes(chance.randrange(200)) + b"\n"
        case 2:
            cut = chance.randrange(len(data))
            return data[:cut] + data[cut + chance.randrange(1, 9) :]
        case 3:
            at = chance.randrange(len(data))
            return data[:at] + chance.randbytes(chance.randrange(1, 4)) + data[at:]
        case _:
            other = bytearray(data)
            other[chance.randrange(len(data))] = chance.randrange(256)
            return bytes(other)
