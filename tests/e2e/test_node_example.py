"""The example in another language: it prints the decision, and treats any failure as a deny."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT
from support.scripted_daemon import Peer, ScriptedDaemon, decision

NODE = shutil.which("node")
EXAMPLE = ROOT / "examples/agent.mjs"

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ScriptedDaemon]:
    running = ScriptedDaemon(tmp_path / "agent.sock")
    yield running
    running.close()


def run_example(socket: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [NODE or "node", EXAMPLE, "rm -rf build", socket], capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("allow", 0), ("ask", 3), ("deny", 2), ("halt", 2)])
def test_it_prints_the_decision_and_exits_by_it(daemon: ScriptedDaemon, verdict: str, code: int) -> None:
    payloads: list[Any] = []

    def script(peer: Peer) -> None:
        peer.welcome()
        fire = peer.read_until("fire")
        payloads.append(fire["params"]["payload"])
        peer.answer(fire, decision(verdict=verdict, reason="because"))
        peer.read()

    daemon.play(script)

    exit_code, answer = run_example(daemon.path)

    assert (exit_code, answer["verdict"], answer["reason"]) == (code, verdict, "because")
    assert payloads == [{"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}]


def hang_up(peer: Peer) -> None:
    peer.welcome()
    peer.read_until("fire")


def refuse(peer: Peer) -> None:
    peer.refuse(peer.read_until("hello"), "draining")
    peer.read()


def talk_rubbish(peer: Peer) -> None:
    peer.welcome()
    peer.read_until("fire")
    peer.send(b"certainly!\n")
    peer.read()


@pytest.mark.parametrize(
    ("script", "cause"), [(hang_up, "no_daemon"), (refuse, "no_daemon"), (talk_rubbish, "protocol")]
)
def test_whatever_goes_wrong_is_a_refusal(daemon: ScriptedDaemon, script: Callable[[Peer], None], cause: str) -> None:
    daemon.play(script)

    exit_code, answer = run_example(daemon.path)

    assert (exit_code, answer["verdict"], answer["cause"]) == (2, "deny", cause)


def test_no_daemon_is_a_refusal(tmp_path: Path) -> None:
    exit_code, answer = run_example(tmp_path / "nobody.sock")

    assert (exit_code, answer["verdict"], answer["cause"]) == (2, "deny", "no_daemon")
