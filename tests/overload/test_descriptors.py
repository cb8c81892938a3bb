"""A daemon that may have few descriptors, and clients who take all that there are for clients."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from hooklatch.core.limits import ADMIN_PLACES, divide_descriptors
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.transport.server import refuse_connection
from support.commands import PROGRAM, Daemon, new_place
from support.guards import WAITING
from support.tables import table

MOST = 200


@table("descriptors", [64, 200, 256, 1024, 2048, 4096, 2**16, 2**20])
def test_what_serves_everybody_keeps_descriptors_and_administrators_keep_places(descriptors: int) -> None:
    room = divide_descriptors(descriptors)

    assert room.agents >= room.administrators > 0
    assert room.administrators <= ADMIN_PLACES
    assert descriptors - room.agents - room.administrators >= min(1024, descriptors // 2)


def test_a_client_that_is_refused_hears_why_although_it_has_said_something() -> None:
    client, server = socket.socketpair()
    with client:
        client.sendall(b"x" * 2**16)

        refuse_connection(server, RpcError(ErrorCode.OVERLOAD, "no more"))

        assert b"no more" in client.recv(2**16)
        assert client.recv(1) == b""


@contextmanager
def daemon_with(descriptors: int) -> Generator[Daemon]:
    with new_place() as place:
        place.write({"hooks.toml": '[[source]]\npath = "guards.py"\nworkers = 2\n', "guards.py": WAITING})
        command = ["/bin/sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *PROGRAM, "serve", "--json"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=place.folder, env=place.environment,
        )  # fmt: skip
        place.begun.append(process)
        daemon = Daemon(process, place)
        yield daemon
        process.terminate()
        process.communicate(timeout=60)


class Peer:
    """A plain connection."""

    def __init__(self, path: str) -> None:
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.settimeout(60)
        self.stream.connect(path)
        self.lines = self.stream.makefile("rb")

    def send(self, method: str, **params: Any) -> None:
        line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with suppress(BrokenPipeError):  # it is refused before it has said anything
            self.stream.sendall(json.dumps(line).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        return json.loads(self.lines.readline())  # type: ignore[no-any-return]

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.send(method, **params)
        return self.read()

    def close(self) -> None:
        self.lines.close()
        self.stream.close()


def held_by(daemon: Daemon, boss: Peer) -> int:
    """Count the daemon's descriptors; who is not root may not look at them, and counts its connections."""
    if os.geteuid() != 0:
        return int(boss.call("status")["result"]["connections"])
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def until(is_so: Any) -> None:
    for _ in range(6000):
        if is_so():
            return
        select.select([], [], [], 0.005)  # nobody tells
    raise AssertionError("it is not so")


@pytest.mark.slow
def test_clients_cannot_take_the_descriptors_that_gates_need() -> None:
    """Slow: a daemon of its own, as its limit of open files is set before it starts."""
    with daemon_with(MOST) as daemon, ExitStack() as stack:

        def connect(path: str) -> Peer:
            peer = Peer(path)
            stack.callback(peer.close)
            return peer

        agent, admin = daemon.ready["agent"], daemon.ready["admin"]
        live = connect(agent)
        assert "result" in live.call("hello", protocol=1, session={"cwd": str(daemon.place.folder)})
        fire = {"event": "pre_tool_use", "payload": {"tool_name": "Bash"}}
        assert live.call("fire", **fire)["result"]["cause"] == "policy"
        boss = connect(admin)
        assert "result" in boss.call("hello", protocol=1)
        until(lambda: sum(boss.call("status")["result"]["sources"][0][state] for state in ("idle", "busy")) == 2)
        before = held_by(daemon, boss)
        go = daemon.place.folder / "go"

        flood: list[Peer] = []
        refused: dict[str, Any] | None = None
        for number in range(MOST):
            peer = Peer(agent)
            flood.append(peer)
            answer = peer.call("hello", protocol=1)
            if "error" in answer:
                refused = answer["error"]
                break
            if number % 4 == 0:  # half-closed, with something to wait for
                peer.send("fire", event="pre_tool_use", payload={"tool_name": "Slow", "tool_input": {"until": str(go)}})
                peer.stream.shutdown(socket.SHUT_WR)

        assert refused is not None
        assert (
            refused["data"]["name"],
            f"{divide_descriptors(MOST).agents} connections of agents" in refused["message"],
        ) == (
            "overload",
            True,
        )
        decision = live.call("fire", **fire)["result"]
        assert (decision["verdict"], decision["record"] is not None) == ("deny", True)
        late = connect(admin)  # administrators have places of their own
        assert "result" in late.call("hello", protocol=1)
        late.close()
        assert boss.call("reload")["result"]["diagnostics"] == []
        assert boss.call("status")["result"]["faults"] == []

        go.touch()
        for peer in flood:
            peer.close()
        until(lambda: held_by(daemon, boss) <= before)
        assert live.call("fire", **fire)["result"]["cause"] == "policy"


@pytest.mark.slow
def test_a_daemon_without_any_descriptor_denies_says_so_and_gets_over_it() -> None:
    """Slow: a daemon of its own.  Its limit is lowered while it runs, below what it has open."""
    with daemon_with(MOST) as daemon, ExitStack() as stack:
        agent = daemon.ready["agent"]
        live = Peer(agent)
        stack.callback(live.close)
        boss = Peer(daemon.ready["admin"])
        stack.callback(boss.close)
        live.call("hello", protocol=1, session={"cwd": "/"})
        boss.call("hello", protocol=1)
        fire = {"event": "pre_tool_use", "payload": {"tool_name": "Bash"}}
        assert live.call("fire", **fire)["result"]["cause"] == "policy"

        before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, MOST))
        late = Peer(agent)
        stack.callback(late.close)
        until(lambda: boss.call("status")["result"]["faults"])
        faults = boss.call("status")["result"]["faults"]
        decision = live.call("fire", **fire)["result"]
        hooks = boss.call("reload")
        after_reload = live.call("fire", **fire)["result"]
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)

        assert any("cannot be accepted" in fault for fault in faults)
        assert (decision["verdict"], after_reload["verdict"]) == ("deny", "deny"), hooks
        assert daemon.process.poll() is None
        until(lambda: not any("accepted" in fault for fault in boss.call("status")["result"]["faults"]))
        assert boss.call("reload")["result"]["diagnostics"] == []
        assert live.call("fire", **fire)["result"]["cause"] == "policy"
