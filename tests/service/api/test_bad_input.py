"""Whatever a peer sends: a clear error or a clean close, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import trio

from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_FRAME
from support.daemons import Daemon, RpcFailure
from support.rough import BAD_LINES, GUARDS, answer_to, line
from support.shared_daemon import daemon_in_thread


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}
    with daemon_in_thread(tmp_path_factory.mktemp("d"), files) as daemon:
        yield daemon


@pytest.fixture
async def daemon(shared: Daemon) -> AsyncGenerator[Daemon]:
    """The daemon, of which another client is a user before and after."""
    async with shared.session() as bystander:
        yield shared
        with trio.fail_after(5):
            assert (await bystander.fire_tool("Bash"))["reason"] == "no"


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
    before = {session.id for session in daemon.parts.sessions}
    for params in BAD_HELLOS:
        client = daemon.connect()
        with pytest.raises(RpcFailure, match=r"invalid_params|unknown_event"):
            await client.call("hello", **params)
        await client.aclose()

        assert {session.id for session in daemon.parts.sessions} <= before  # those of earlier tests may end


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


async def test_an_integer_past_all_machine_words_reaches_the_callback_and_comes_back_exactly(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire_tool("Count", number=2**64 + 3)

    assert decision["patch"] == {"tool_input": {"number": 2**64 + 3, "next": 2**64 + 4}}


async def test_a_number_that_no_float_can_hold_is_refused(daemon: Daemon) -> None:
    async with daemon.session() as client:
        answer = await answer_to(client, line(b'{"tool_name":"Bash","tool_input":{"x":1e999}}'))

    assert (answer["result"]["verdict"], answer["result"]["cause"]) == ("deny", "payload")


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
        whole = await client.call(
            "fire", event="pre_tool_use", payload={"tool_name": "Read", "tool_input": {}}, truncated=True
        )

    assert [(one["verdict"], one["cause"]) for one in (denied, odd, whole)] == [("deny", "payload")] * 3
    assert "marked truncated" in whole["reason"]


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
