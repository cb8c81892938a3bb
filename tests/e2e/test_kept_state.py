"""SIGKILL to a daemon in the middle of counting: what a hook was told of is there after the next start.

Slow: it starts two daemons as programs of their own.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
from pathlib import Path

import pytest

from support.commands import Place, new_place, serving

pytestmark = pytest.mark.slow

COUNTING = """
from hooklatch import context, hook

@hook("pre_tool_use")
def count(event):
    by = event.tool_input["by"]
    return context(count=event.state.increment("n", by), own=event.state.session.increment("n", by))
"""
FILES = {"hooks.toml": '[[source]]\npath = "counting.py"\n[state]\nkept = true\n', "counting.py": COUNTING}
CLIENTS = 4


class Client(threading.Thread):
    """Fires until the daemon is gone; notes the last count of each kind that it was told."""

    def __init__(self, path: Path, ready: threading.Barrier) -> None:
        super().__init__()
        self._path = path
        self._ready = ready
        self.fires = 0
        self.told = {"count": 0, "own": 0}

    def run(self) -> None:
        for number in range(10_000):
            if number == 20:
                self._ready.wait()
            self.fires += 1
            try:
                self.told = fire(self._path, "one", 1)
            except (OSError, EOFError):
                return


def fire(path: Path, session_id: str, by: int) -> dict[str, int]:
    request = {
        "jsonrpc": "2.0", "id": 1, "method": "fire", "params": {
            "event": "pre_tool_use", "payload": {"tool_name": "Bash", "tool_input": {"by": by}},
            "envelope": {"session_id": session_id},
        },
    }  # fmt: skip
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(path))
        stream.sendall(json.dumps(request).encode() + b"\n")
        with stream.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise EOFError
    context: dict[str, int] = json.loads(line)["result"]["context"]
    return context


def count_until_killed(place: Place) -> tuple[int, int, int]:
    """Return the highest counts that anybody was told of, and how many fires there were."""
    ready = threading.Barrier(CLIENTS + 1)
    with serving(place) as daemon:
        clients = [Client(place.runtime / "agent.sock", ready) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        ready.wait()
        with daemon.ending():
            daemon.signal(signal.SIGKILL)
            daemon.end()
        for client in clients:
            client.join()
    told = [client.told for client in clients]
    return (
        max(one["count"] for one in told),
        max(one["own"] for one in told),
        sum(client.fires for client in clients),
    )


def test_a_kill_of_the_daemon_loses_no_count_that_a_hook_was_told_of() -> None:
    with new_place(FILES) as place:
        count, own, fires = count_until_killed(place)
        with serving(place):
            there = fire(place.runtime / "agent.sock", "one", 0)
            status = place.json("status")

    assert count >= CLIENTS * 20
    assert count <= there["count"] <= fires
    assert own <= there["own"] <= fires
    assert (status["health"], status["state"]["keys"]) == ("green", 2)
