"""Whatever a peer sends: a clear error or a clean close, and nobody else notices."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_FRAME, MAX_IN_FLIGHT
from support import Client, Daemon, RpcFailure, running_daemon

GUARDS = """
import os
import time

from hooklatch_worker import amend, deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("no")

@hook("pre_tool_use", match="Count")
def count(event):
    number = event.tool_input["number"]
    return amend(tool_input={"number": number, "next": number + 1})

@hook("pre_tool_use", match="Slow")
def slow(event):
    while not os.path.exists(event.tool_input["go"]):
        time.sleep(0.005)

@hook("pre_tool_use", match="Size")
def size(event):
    return deny(str(len(event.tool_input["text"])))
"""


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    """A daemon of which another client is a user before and after."""
    async with (
        running_daemon(tmp_path, {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}) as d,
        d.session() as bystander,
    ):
        yield d
        with trio.fail_after(5):
            assert (await bystander.fire_tool("Bash"))["reason"] == "no"


async def answer_to(client: Client, data: bytes) -> dict[str, Any]:
    """Send bytes; give what comes back: an error, or a result."""
    await client.send_raw(data)
    with trio.fail_after(10):
        answer = await client.read()
    assert answer is not None
    return answer


def line(payload: bytes, event: bytes = b"pre_tool_use") -> bytes:
    params = b'{"event":"%b","payload":%b}' % (event, payload)
    return b'{"jsonrpc":"2.0","id":5,"method":"fire","params":%b}\n' % params


BAD_LINES = {
    "no JSON": (b"hello\n", "parse_error", None, "no JSON"),
    "half an object": (b'{"jsonrpc":"2.0","id":5\n', "parse_error", None, "truncated"),
    "a byte order mark": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"ping"}\n', "parse_error", 5, "no JSON"),
    "UTF-16": ('{"id":5}'.encode("utf-16") + b"\n", "parse_error", 5, "utf-8"),
    "GB18030": (b'{"jsonrpc":"2.0","id":5,"method":"\xc4\xe3"}\n', "parse_error", None, "utf-8"),
    "a string cut inside a character": (line(b'{"tool_name":"\xe4\xbd"}'), "parse_error", None, "utf-8"),
    "a batch": (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]\n', "invalid_request", None, "batches"),
    "no version": (b'{"id":5,"method":"ping"}\n', "invalid_request", 5, '"jsonrpc": "2.0"'),
    "another version": (b'{"jsonrpc":"1.0","id":5,"method":"ping"}\n', "invalid_request", 5, '"jsonrpc": "2.0"'),
    "a string": (b'"ping"\n', "invalid_request", None, "Expected `object`"),
    "a number": (b"7\n", "invalid_request", None, "Expected `object`"),
    "null": (b"null\n", "invalid_request", None, "Expected `object`"),
    "an empty object": (b"{}\n", "invalid_request", None, "jsonrpc"),
    "no method": (b'{"jsonrpc":"2.0","id":5}\n', "invalid_request", None, "needs a result or an error"),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":5,"method":7}\n', "invalid_request", 5, "$.method"),
    "a floating id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', "invalid_request", None, "$.id"),
    "a true id": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', "invalid_request", None, "$.id"),
    "an unknown method": (b'{"jsonrpc":"2.0","id":5,"method":"fir"}\n', "method_not_found", 5, "there are fire"),
    "params as a list": (b'{"jsonrpc":"2.0","id":5,"method":"fire","params":[1]}\n', "invalid_params", 5, "`object`"),
    "params as null": (b'{"jsonrpc":"2.0","id":5,"method":"fire","params":null}\n', "invalid_params", 5, "`object`"),
    "a payload that is a list": (line(b"[1]"), "invalid_params", 5, "payload must be an object"),
    "a payload that is null": (line(b"null"), "invalid_params", 5, "payload must be an object"),
    "an unknown event": (line(b"{}", b"pre_tool_uze"), "unknown_event", 5, "did you mean 'pre_tool_use'"),
    "NaN": (line(b'{"tool_name":"Bash","x":NaN}'), "parse_error", 5, "no JSON"),
    "Infinity": (line(b'{"tool_name":"Bash","x":-Infinity}'), "parse_error", 5, "no JSON"),
    "a lone high surrogate": (line(rb'{"tool_name":"Bash\ud800"}'), "parse_error", 5, "lone surrogate"),
    "a lone low surrogate": (line(rb'{"tool_name":"\udc00Bash"}'), "parse_error", 5, "lone surrogate"),
    "a lone surrogate as a method": (b'{"jsonrpc":"2.0","id":5,"method":"\\ud800"}\n', "parse_error", 5, "surrogate"),
    "a lone surrogate as the id": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"p"}\n', "parse_error", None, "lone"),
    "100,000 lists": (line(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "parse_error", None, "too deep"),
    "100,000 objects": (line(b'{"x":' * 100_000 + b"1" + b"}" * 100_000), "parse_error", None, "too deep"),
    "a control character": (line(b'{"tool_name":"a\x00b"}'), "parse_error", None, "no JSON"),
    "a timeout of 0": (
        b'{"jsonrpc":"2.0","id":5,"method":"fire","params":{"event":"stop","timeout":0}}\n',
        "invalid_params", 5, "timeout is a number of seconds over 0",
    ),
    "a timeout past all numbers": (
        b'{"jsonrpc":"2.0","id":5,"method":"fire","params":{"event":"stop","timeout":1e999}}\n',
        "invalid_params", 5, "out of range",
    ),
}  # fmt: skip


async def test_each_bad_line_is_answered_by_what_is_wrong_with_it(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for name, (data, error, number, text) in BAD_LINES.items():
            answer = await answer_to(client, data)

            assert answer.get("error") is not None, name
            assert (name, answer["error"]["data"]["name"], answer["id"]) == (name, error, number)
            assert text in answer["error"]["message"], name
            await client.call("ping")


BAD_HELLOS: list[dict[str, Any]] = [
    {"protocol": "1"},
    {},
    {"protocol": 1, "session": []},
    {"protocol": 1, "session": {"id": 7}},
    {"protocol": 1, "session": {"hooks": {}}},
    {"protocol": 1, "session": {"hooks": [7]}},
    {"protocol": 1, "session": {"hooks": ["a"]}},
    {"protocol": 1, "session": {"require_handlers": "stop"}},
    {"protocol": 1, "client": "me"},
    {"protocol": 1, "emits": ["no_such_event"]},
]


async def test_a_hello_of_wrong_types_opens_no_session(daemon: Daemon) -> None:
    for params in BAD_HELLOS:
        client = daemon.connect()
        with pytest.raises(RpcFailure, match=r"invalid_params|unknown_event"):
            await client.call("hello", **params)
        await client.aclose()

        assert len(daemon.hub.sessions) == 1


BAD_PARAMS: list[tuple[str, dict[str, Any]]] = [
    ("register", {}),
    ("register", {"hooks": {}}),
    ("register", {"hooks": [], "scope": "planet"}),
    ("register", {"hooks": [], "scope": 7}),
    ("unregister", {}),
    ("unregister", {"id": 7}),
    ("enable", {"id": None}),
    ("subscribe", {}),
    ("subscribe", {"topics": "registry"}),
    ("explain", {"event": 7}),
    ("explain", {"event": "pre_tool_use", "payload": [1]}),
    ("hooks", {"event": 7}),
    ("session.update", {"cwd": 7}),
]


async def test_params_of_wrong_types_are_refused(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for method, params in BAD_PARAMS:
            with pytest.raises(RpcFailure, match="invalid_params"):
                await client.call(method, **params)


async def test_unknown_keys_outside_of_a_hook_are_ignored(daemon: Daemon) -> None:
    async with daemon.session(newer_than_us=1) as client:
        answer = await client.call("fire", event="pre_tool_use", payload={"tool_name": "Bash"}, newer_than_us=[1])

    assert answer["reason"] == "no"


async def test_an_id_comes_back_as_it_was(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for number in ("text", "", None, 0, -1, 2**70, "\u00fc\n"):
            answer = await answer_to(
                client, json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\n"
            )

            assert answer == {"jsonrpc": "2.0", "id": number, "result": {}}


async def test_a_request_without_an_id_gets_no_answer_also_where_it_fails(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for method in ("ping", "nonsense", "fire"):
            await client.send_line({"jsonrpc": "2.0", "method": method, "params": {"event": "stop"}})

        answer = await answer_to(client, b'{"jsonrpc":"2.0","id":9,"method":"ping"}\n')

    assert answer["id"] == 9


async def test_the_last_of_two_keys_of_one_name_is_the_one_that_is_judged(daemon: Daemon) -> None:
    async with daemon.session() as client:
        answer = await answer_to(client, line(b'{"tool_name":"Read","tool_name":"Bash"}'))

    assert answer["result"]["reason"] == "no"


async def test_an_integer_past_all_machine_words_reaches_the_callback_and_comes_back_exactly(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire_tool("Count", number=2**64 + 3)

    assert decision["patch"] == {"tool_input": {"number": 2**64 + 3, "next": 2**64 + 4}}


async def test_a_number_that_no_float_can_hold_is_refused_by_the_guard_that_should_judge_it(daemon: Daemon) -> None:
    async with daemon.session() as client:
        answer = await answer_to(client, line(b'{"tool_name":"Bash","tool_input":{"x":1e999}}'))

    assert (answer["result"]["verdict"], answer["result"]["cause"]) == ("deny", "protocol")


# -- size --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_payload_of_the_limit_is_judged(daemon: Daemon) -> None:
    """Slow: 8 MiB go to a worker and are decoded there."""
    size = MAX_PAYLOAD - len(json.dumps({"tool_name": "Size", "tool_input": {"text": ""}}, separators=(",", ":")))
    payload = b'{"tool_name":"Size","tool_input":{"text":"%b"}}' % (b"x" * size)
    async with daemon.session() as client:
        answer = await answer_to(client, line(payload))

    assert (len(payload), answer["result"]["reason"]) == (MAX_PAYLOAD, str(size))


@pytest.mark.slow
async def test_a_payload_over_the_limit_is_denied_for_that(daemon: Daemon) -> None:
    """Slow: it sends 8 MiB."""
    async with daemon.session() as client:
        denied = await answer_to(client, line(b'{"tool_name":"Read","x":"%b"}' % (b"x" * MAX_PAYLOAD)))
        passed = await answer_to(client, line(b'{"x":"%b"}' % (b"x" * MAX_PAYLOAD), b"stop"))

    assert (denied["result"]["verdict"], denied["result"]["cause"]) == ("deny", "payload")
    assert (passed["result"]["verdict"], passed["result"]["cause"]) == ("pass", None)


async def test_a_payload_marked_truncated_is_denied_for_that(daemon: Daemon) -> None:
    async with daemon.session() as client:
        denied = await client.call("fire", event="pre_tool_use", payload={}, truncated=True)
        odd = await client.call("fire", event="pre_tool_use", payload=[], truncated=True)

    assert [(one["verdict"], one["cause"]) for one in (denied, odd)] == [("deny", "payload")] * 2


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_frame_over_the_limit_is_told_and_closed(daemon: Daemon, end: bytes) -> None:
    """Slow: it sends 9 MiB."""
    async with daemon.session() as client:
        answer = await answer_to(client, b"x" * (MAX_FRAME + 1) + end)

        assert (answer["error"]["data"]["name"], answer["id"]) == ("frame_too_large", None)
        assert await client.hears_the_end()


async def test_a_field_that_is_matched_on_and_is_no_string_is_denied(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for name in (7, None, ["Bash"], {}):
            decision = await client.fire("pre_tool_use", tool_name=name)

            assert (decision["verdict"], decision["cause"]) == ("deny", "payload")


# -- behaviour ---------------------------------------------------------------------------------------------------


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
async def test_a_line_that_does_not_go_on_is_told_and_closed(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow: it waits for the daemon's patience to end, shortened to 0.5 s."""
    monkeypatch.setattr("hooklatch.service.connection.FRAME_TIMEOUT", 0.5)
    async with daemon.session() as client:
        answer = await answer_to(client, b'{"jsonrpc":"2.0","id":1,"meth')

        assert "begun and not ended" in answer["error"]["message"]
        assert await client.hears_the_end()


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

    await until(lambda: len(daemon.hub.bus.connections) == 1)
    assert daemon.hub.statistics.causes["abandoned"] == len(numbers)
    go.write_text("")


async def test_a_client_that_vanishes_in_mid_call_leaves_nothing(daemon: Daemon) -> None:
    go = daemon.folder / "go"
    client = daemon.connect()
    await client.call("hello", protocol=1)
    await client.send("fire", event="pre_tool_use", payload=tool("Slow", go))
    await client.call("ping")

    await client.aclose()

    await until(lambda: len(daemon.hub.bus.connections) == 1)
    go.write_text("")


@pytest.mark.slow
async def test_a_client_that_never_reads_is_not_read_from_either(daemon: Daemon) -> None:
    """Slow: it asks for some 20 MiB of answers."""
    async with daemon.session() as client:
        request = b'{"jsonrpc":"2.0","id":1,"method":"events"}\n' * 100
        with trio.move_on_after(1):
            for _ in range(100):
                await client.send_raw(request)
        (connection,) = (c for c in daemon.hub.bus.connections.values() if len(c._outgoing))

        assert len(connection._outgoing) < 3 * 2**20
        assert len(connection._lines._buffer) < 2**18


@pytest.mark.slow
async def test_a_client_that_takes_nothing_is_closed(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow: it waits for the daemon's patience to end, shortened to 0.3 s."""
    monkeypatch.setattr("hooklatch.service.connection.WRITE_TIMEOUT", 0.3)
    async with daemon.session() as client:
        await client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"events"}\n' * 100)

        await until(lambda: len(daemon.hub.bus.connections) == 1)


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
    await until(lambda: len(daemon.hub.bus.connections) == 1)


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

    await until(lambda: len(daemon.hub.bus.connections) == 1)
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


def tool(name: str, go: Path) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": {"go": str(go)}}


async def until(condition: Any) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)
