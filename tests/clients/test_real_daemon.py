"""Each client with a real daemon and real guards, also with one that is killed while it decides."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Any

import pytest

import hooklatch
from clients.conftest import RealDaemon
from clients.programs import Program, command_of
from support.tables import table

pytestmark = pytest.mark.slow  # a process of each language, and a daemon for each test


def wait_for(file: Path) -> None:
    while not file.exists():  # pytest's timeout ends it; nobody tells
        select.select([], [], [], 0.002)


def fire(program: Program, command: str) -> dict[str, Any]:
    payload = {"tool_name": "Shell", "tool_input": {"command": command}}
    answer: dict[str, Any] = program.do(do="fire", event="pre_tool_use", payload=payload)
    return answer


def test_the_operators_guards_decide(program: Program, daemon: RealDaemon) -> None:
    assert program.do(do="open", path=daemon.path)["connected"]

    passed, denied, asked, patched, failed = (
        fire(program, command) for command in ("ls", "rm -rf /", "sudo ls", "ls mine", "kaputt")
    )
    program.do(do="close")

    assert (passed["verdict"], passed["allowed"], passed["is_local"]) == ("pass", True, False)
    assert (denied["verdict"], denied["allowed"], denied["reason"]) == ("deny", False, "name the files to remove, ☃")
    assert (asked["verdict"], asked["allowed"]) == ("ask", False)
    assert patched["patch"] == {"tool_input": {"command": "ls theirs"}}
    assert patched["allowed"]
    assert (failed["verdict"], failed["allowed"], failed["cause"]) == ("deny", False, "crash")


def test_a_served_hook_is_called_by_another_clients_fire(program: Program, daemon: RealDaemon) -> None:
    opened = program.do(do="open", path=daemon.path)
    does = {"answer": {"verdict": "deny", "reason": "not in my house"}}
    program.do(do="serve", event="pre_tool_use", id="mine", does=does)

    with hooklatch.connect_sync(daemon.path, parent=(opened["session_id"], opened["child_token"])) as child:
        decision = child.fire("pre_tool_use", tool_name="Read", tool_input={"path": "é"})
    calls = program.do(do="called", count=1)
    program.do(do="close")

    assert (decision.verdict, decision.reason, decision.hook) == ("deny", "not in my house", "mine")
    words = {"tool_kind": "read", "tool_args": {"path": "é"}}  # which the daemon reads from the input
    assert calls == [{"tool_name": "Read", "tool_input": {"path": "é"}, **words}]


@table("text", ["token", "token ", " ", "token nobody"])
def test_a_child_of_a_parent_that_nobody_knows_is_allowed_nothing(
    program: Program, daemon: RealDaemon, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("HOOKLATCH_PARENT", text)

    with Program(command_of(request.node.callspec.params["program"])) as child:
        opened = child.do(do="open", path=daemon.path)

        assert "error" in opened or not fire(child, "ls")["allowed"]


def test_a_served_hook_that_throws_denies(program: Program, daemon: RealDaemon) -> None:
    program.do(do="open", path=daemon.path)
    program.do(do="serve", event="pre_tool_use", id="mine", does={"raise": "kaputt"})

    decision = fire(program, "ls")
    program.do(do="close")

    assert (decision["verdict"], decision["cause"], decision["hook"]) == ("deny", "crash", "mine")


def test_a_reload_is_announced(program: Program, own_daemon: RealDaemon) -> None:
    program.do(do="open", path=own_daemon.path)
    program.do(do="subscribe")

    fresh = own_daemon.folder / "fresh.py"
    fresh.write_text(
        'from hooklatch import deny, hook\n\n@hook("pre_tool_use")\ndef never(event):\n    return deny("never")\n'
    )
    changed = own_daemon.folder / "hooks.toml.new"
    changed.write_text('[[source]]\npath = "fresh.py"\n')
    os.replace(changed, own_daemon.folder / "hooks.toml")
    announcement = program.do(do="announcement")
    decision = fire(program, "ls")
    program.do(do="close")

    assert announcement["topic"] == "registry"
    assert announcement["revision"] is not None or announcement["resync"] is not None
    assert (decision["verdict"], decision["reason"]) == ("deny", "never")


def test_a_daemon_that_is_killed_while_it_decides_has_denied(
    program: Program, daemon: RealDaemon, tmp_path: Path
) -> None:
    program.do(do="open", path=daemon.path)
    payload = {"tool_name": "Shell", "tool_input": {"command": f"wait {tmp_path / 'begun'}"}}
    program.do(do="begin", **{"as": "a"}, event="pre_tool_use", payload=payload)
    wait_for(tmp_path / "begun")

    daemon.kill()
    lost = program.do(do="end", **{"as": "a"})
    away = fire(program, "ls")
    daemon.start()
    program.do(do="wait", **{"for": "connected"})
    back = fire(program, "ls")
    program.do(do="close")

    assert (lost["verdict"], lost["cause"], lost["is_local"]) == ("deny", "no_daemon", True)
    assert (away["verdict"], away["cause"]) == ("deny", "no_daemon")
    assert (back["verdict"], back["is_local"]) == ("pass", False)


def test_a_daemon_that_is_stopped_has_denied_and_is_used_when_it_goes_on(program: Program, daemon: RealDaemon) -> None:
    program.do(do="open", path=daemon.path, liveness={"interval": 0.5, "misses": 4})
    payload = {"tool_name": "Shell", "tool_input": {"command": "ls " + "a" * 7 * 2**20}}

    daemon.stop()
    try:
        program.do(do="begin", **{"as": "long"}, event="pre_tool_use", payload=payload)
        lost = fire(program, "ls"), program.do(do="end", **{"as": "long"})
        away = fire(program, "ls")
    finally:
        daemon.go_on()
    program.do(do="wait", **{"for": "connected"})
    back = fire(program, "ls")
    program.do(do="close")

    for one in (*lost, away):
        assert (one["verdict"], one["cause"], one["is_local"]) == ("deny", "no_daemon", True)
    assert (back["verdict"], back["is_local"]) == ("pass", False)


def test_many_fires_at_once_each_get_their_own_answer(program: Program, daemon: RealDaemon) -> None:
    program.do(do="open", path=daemon.path)
    commands = [f"{'rm -rf' if number % 3 == 0 else 'ls'} {number}" for number in range(150)]

    for number, command in enumerate(commands):
        payload = {"tool_name": "Shell", "tool_input": {"command": command}}
        program.do(do="begin", **{"as": str(number)}, event="pre_tool_use", payload=payload)
    answers = [program.do(do="end", **{"as": str(number)})["verdict"] for number in range(len(commands))]
    program.do(do="close")

    assert answers == ["deny" if number % 3 == 0 else "pass" for number in range(len(commands))]
