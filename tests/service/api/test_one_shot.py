"""A connection whose first request is `fire`: answered, then closed; and what must come before anything else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Daemon, RpcFailure
from support.pools import until
from support.shared_daemon import daemon_in_thread

GUARDS = """
import os
import time

from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("no")

@hook("pre_tool_use", match="Slow")
def slow(event):
    open(event.tool_input["started"], "w").close()
    while not os.path.exists(event.tool_input["go"]):
        time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}
    with daemon_in_thread(tmp_path_factory.mktemp("d"), files) as daemon:
        yield daemon


def fire(number: int, tool: str = "Bash", **tool_input: Any) -> bytes:
    payload = {"tool_name": tool, "tool_input": tool_input}
    params = {"event": "pre_tool_use", "payload": payload}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "fire", "params": params}).encode()


async def exchange(daemon: Daemon, data: bytes, *, ends: bool = True) -> list[dict[str, Any]]:
    """Send bytes, perhaps end our side, and give every line until the daemon closes."""
    client = daemon.connect()
    await client.send_raw(data)
    if ends:
        await client.stream.send_eof()
    answers = []
    with trio.fail_after(10):
        while (answer := await client.read()) is not None:
            answers.append(answer)
    await client.aclose()
    return answers


@pytest.mark.parametrize(
    ("end", "ends"),
    [(b"", True), *((end, ends) for end in (b"\n", b"\r\n", b"\n\n") for ends in (True, False))],
)
async def test_a_fire_that_comes_first_is_answered_and_the_connection_closed(
    daemon: Daemon, end: bytes, ends: bool
) -> None:
    (answer,) = await exchange(daemon, fire(7) + end, ends=ends)

    assert (answer["id"], answer["result"]["reason"]) == (7, "no")


async def test_nothing_that_follows_a_one_shot_is_answered(daemon: Daemon) -> None:
    answers = await exchange(daemon, b"\n".join([fire(1), fire(2), b'{"jsonrpc":"2.0","id":3,"method":"ping"}', b"x"]))

    assert [answer["id"] for answer in answers] == [1]


async def test_a_quick_request_after_a_slow_one_shot_does_not_end_it(daemon: Daemon, tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    go.write_text("")
    slow = fire(1, "Slow", started=str(started), go=str(go))

    answers = await exchange(daemon, slow + b"\n" + fire(2) + b"\n")

    assert [(answer["id"], answer["result"]["verdict"]) for answer in answers] == [(1, "pass")]


async def test_a_one_shot_whose_input_has_ended_is_answered_when_it_is_decided(daemon: Daemon, tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    client = daemon.connect()
    await client.send_raw(fire(1, "Slow", started=str(started), go=str(go)))
    await client.stream.send_eof()
    await until(started.exists)

    go.write_text("")

    answer = await client.read()
    assert answer is not None
    assert answer["result"]["verdict"] == "pass"
    assert await client.hears_the_end()
    await client.aclose()


@pytest.mark.parametrize("end", [b"\n", b""])
async def test_a_client_that_is_gone_abandons_its_one_shot(daemon: Daemon, tmp_path: Path, end: bytes) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    before = daemon.parts.statistics.causes["abandoned"]
    client = daemon.connect()
    await client.send_raw(fire(1, "Slow", started=str(started), go=str(go)) + end)
    if not end:
        await client.stream.send_eof()
    await until(started.exists)

    await client.aclose()

    await until(lambda: not daemon.parts.bus.connections)
    assert daemon.parts.statistics.causes["abandoned"] == before + 1
    go.write_text("")


async def test_a_shell_can_fire(daemon: Daemon) -> None:
    nc = shutil.which("nc")
    command = [nc, "-U", daemon.agent] if nc else ["python3", "-c", NETCAT, daemon.agent]

    done = await trio.run_process(command, stdin=fire(1) + b"\n", capture_stdout=True)

    assert json.loads(done.stdout)["result"]["verdict"] == "deny"


NETCAT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.stdin.buffer.read())
s.shutdown(socket.SHUT_WR)
while data := s.recv(65536):
    sys.stdout.buffer.write(data)
"""


async def test_an_unknown_event_is_answered_with_the_nearest_one(daemon: Daemon) -> None:
    (answer,) = await exchange(daemon, fire(1).replace(b"pre_tool_use", b"pre_tool_uze"))

    assert answer["error"]["data"]["name"] == "unknown_event"
    assert "did you mean 'pre_tool_use'" in answer["error"]["message"]


async def test_a_fire_that_follows_a_hello_in_one_packet_is_of_that_session(daemon: Daemon) -> None:
    """The hello waits for a source to load, which must not let the fire overtake it."""
    daemon.write("own.py", "from hooklatch_worker import deny\ndef own(event):\n    return deny('own')\n")
    hook = {"event": "pre_tool_use", "run": f"{daemon.folder}/own.py:own"}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1, "session": {"hooks": [hook]}}}

    answers = await exchange(daemon, json.dumps(hello).encode() + b"\n" + fire(2, "Read") + b"\n")

    assert [(answer["id"], answer["result"].get("reason")) for answer in answers] == [(1, None), (2, "own")]


# -- hello -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_who_says_no_hello_in_time_is_told_and_closed(daemon: Daemon) -> None:
    """Slow: the daemon waits 2 s."""
    firsts = [b"", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"\n\n", b'{"jsonrpc":']
    last: dict[bytes, dict[str, Any]] = {}

    async def begin(first: bytes) -> None:
        last[first] = (await exchange(daemon, first, ends=False))[-1]["error"]

    async with trio.open_nursery() as nursery:
        for first in firsts:
            nursery.start_soon(begin, first)

    assert {error["data"]["name"] for error in last.values()} == {"hello_required"}
    assert all("no hello within 2 s" in last[first]["message"] for first in firsts)


async def test_a_second_hello_is_refused(daemon: Daemon) -> None:
    async with daemon.session() as client:
        with pytest.raises(RpcFailure, match="sent a hello already"):
            await client.call("hello", protocol=1)


@pytest.mark.parametrize("protocol", [0, 2, -1])
async def test_another_protocol_is_refused_with_ours(daemon: Daemon, protocol: int) -> None:
    client = daemon.connect()
    with pytest.raises(RpcFailure, match=f"this daemon speaks protocol 1, not {protocol}; update the older"):
        await client.call("hello", protocol=protocol)
    await client.aclose()


async def test_other_methods_need_a_hello(daemon: Daemon) -> None:
    client = daemon.connect()
    with pytest.raises(RpcFailure, match="hello_required: status needs a hello first"):
        await client.call("status")
    await client.aclose()
