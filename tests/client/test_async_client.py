"""The client under trio and under asyncio, against a daemon on a real socket that does what each test says."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import hooklatch
from client.scripts import FAILURES, IMPATIENT, PINGING, Recorder, answer_pings_first, decide, never_welcome, under_both
from hooklatch import connect
from hooklatch.client.protocol.liveness import Liveness
from support.scripted_daemon import Peer, ScriptedDaemon, decision


@under_both
async def test_without_a_daemon_gates_deny_and_others_pass(path: Path) -> None:
    async with connect(path) as s:
        gate = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})
        other = await s.fire("stop", finish_reason="done")
        unknown = await s.fire("deploy_requested", target="production")

    assert (gate.verdict, gate.cause, gate.allowed) == ("deny", "no_daemon", False)
    assert (other.verdict, other.allowed) == ("pass", True)
    assert "no_daemon" in other.warnings[0]
    assert (unknown.verdict, unknown.cause) == ("deny", "no_daemon")


@under_both
async def test_a_daemon_can_be_required(path: Path) -> None:
    with pytest.raises(hooklatch.DaemonUnreachableError, match="hooklatch serve"):
        async with hooklatch.connect(path, require=True):
            pytest.fail("there is no daemon")


@under_both
async def test_a_decision_comes_back(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(decide(verdict="deny", reason="no", cause="policy", hook="guard"))

    async with connect(path) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "ls"})

    assert (answer.verdict, answer.reason, answer.hook) == ("deny", "no", "guard")
    assert (s.session_id, s.revision, s.is_closed) == ("s1", 7, True)


@pytest.mark.parametrize(("script", "liveness", "cause"), FAILURES)
@under_both
async def test_no_usable_answer_is_decided_in_the_client(
    daemon: ScriptedDaemon, path: Path, script: Callable[[Peer], None], liveness: Liveness, cause: str
) -> None:
    daemon.play(script)

    async with connect(path, liveness=liveness) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.cause) == ("deny", cause)


@under_both
async def test_a_slow_daemon_that_answers_pings_is_waited_for(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(answer_pings_first)

    async with connect(path, liveness=PINGING) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert answer.verdict == "allow"


@under_both
async def test_a_lost_daemon_ends_every_waiting_fire_at_once(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.read_until("fire"), peer.read_until("fire")

    daemon.play(script)
    answers: list[str | None] = []

    async def fire(s: hooklatch.Session) -> None:
        answers.append((await s.fire("pre_tool_use", tool_name="Bash", tool_input={})).cause)

    async with connect(path) as s, anyio.create_task_group() as group:
        group.start_soon(fire, s)
        group.start_soon(fire, s)

    assert answers == ["no_daemon", "no_daemon"]


@under_both
async def test_what_the_fire_says_is_what_the_daemon_reads(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        recorder.note(peer.welcome())
        fire = peer.read_until("fire")
        recorder.note(fire["params"])
        peer.answer(fire, decision())
        peer.read()

    daemon.play(script)

    async with connect(path, cwd="/somewhere", host="agent", require_handlers=["pre_tool_use"]) as s:
        await s.fire(
            "pre_tool_use",
            tool_name="Bash",
            payload={"timeout": 3},
            envelope={"turn": 2},
            context={"k": 1},
            call_id="c",
            timeout=9,
        )

    hello, fire = recorder.seen
    assert hello["session"] == {"cwd": "/somewhere", "host": "agent", "require_handlers": ["pre_tool_use"]}
    assert fire == {
        "event": "pre_tool_use",
        "payload": {"timeout": 3, "tool_name": "Bash"},
        "envelope": {"turn": 2},
        "context": {"k": 1},
        "call_id": "c",
        "timeout": 9,
    }


@under_both
async def test_a_payload_over_the_limit_is_marked_and_not_sent(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        peer.welcome(limits={"payload_bytes": 100})
        fire = peer.read_until("fire")
        recorder.note(fire["params"])
        peer.answer(fire, decision(verdict="deny", cause="payload"))
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        answer = await s.fire("pre_tool_use", tool_input={"content": "x" * 101})

    assert recorder.seen == [{"event": "pre_tool_use", "payload": {}, "truncated": True}]
    assert answer.cause == "payload"


@under_both
async def test_a_payload_that_is_no_json_is_the_callers_mistake(path: Path) -> None:
    async with connect(path) as s:
        with pytest.raises(ValueError, match="nan"):
            await s.fire("pre_tool_use", tool_input={"n": float("nan")})
        with pytest.raises(ValueError, match="given twice"):
            await s.fire("pre_tool_use", tool_name="a", payload={"tool_name": "b"})
        with pytest.raises(ValueError, match="above 0"):
            await s.fire("pre_tool_use", timeout=0)


@under_both
async def test_a_fire_that_does_not_wait_gives_an_acceptance(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        fire = peer.read_until("fire")
        assert fire["params"]["wait"] is False
        peer.answer(fire, {"accepted": True, "decision_id": "d9"})
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        accepted = await s.fire("stop", wait=False)

    assert (accepted.accepted, accepted.decision_id) == (True, "d9")


@under_both
async def test_an_exception_in_the_body_comes_out_as_it_is(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(decide(verdict="halt", reason="stop here"))

    with pytest.raises(hooklatch.RefusedError, match="stop here"):
        async with connect(path) as s:
            (await s.fire("pre_tool_use", tool_input={})).raise_for_refusal()


@under_both
async def test_a_cancelled_fire_leaves_the_connection_in_order(daemon: ScriptedDaemon, path: Path) -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        first = peer.read_until("fire")
        asked.set()
        second = peer.read_until("fire")
        peer.answer(first, decision(verdict="deny"))
        peer.answer(second, decision(verdict="allow"))
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        async with anyio.create_task_group() as group:
            group.start_soon(s.fire, "pre_tool_use")
            await anyio.to_thread.run_sync(asked.wait)
            group.cancel_scope.cancel()
        answer = await s.fire("pre_tool_use", tool_input={})

    assert answer.verdict == "allow"


@under_both
async def test_a_fire_cancelled_in_mid_line_spoils_nothing(daemon: ScriptedDaemon, path: Path) -> None:
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        go_on.wait()
        assert len(peer.read_until("fire")["params"]["payload"]["text"]) == 4_000_000
        peer.answer(peer.read_until("fire"), decision(verdict="allow"))
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: s.fire("pre_tool_use", text="x" * 4_000_000))
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        go_on.set()
        answer = await s.fire("pre_tool_use", tool_input={})

    assert answer.verdict == "allow"


@under_both
async def test_a_full_backlog_is_waited_for(path: Path) -> None:
    daemon = ScriptedDaemon(path, backlog=0)
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.connect(str(path))  # the one place that a backlog of 0 has

        async with anyio.create_task_group() as group:
            group.start_soon(fire_and_expect_allow, path)
            await anyio.wait_all_tasks_blocked()
            daemon.play(lambda peer: None, decide(verdict="allow"))
    daemon.close()


async def fire_and_expect_allow(path: Path) -> None:
    async with connect(path, require=True) as s:
        assert (await s.fire("pre_tool_use", tool_input={})).verdict == "allow"


@under_both
async def test_a_backlog_that_stays_full_is_no_daemon(path: Path) -> None:
    daemon = ScriptedDaemon(path, backlog=0)
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.connect(str(path))

        async with connect(path, liveness=Liveness(connect=0.01)) as s:
            answer = await s.fire("pre_tool_use", tool_input={})
    daemon.close()

    assert "backlog" in (answer.reason or "")


@under_both
async def test_a_daemon_that_never_welcomes_is_no_daemon(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(never_welcome)

    async with connect(path, liveness=IMPATIENT) as s:
        answer = await s.fire("pre_tool_use", tool_input={})

    assert answer.cause == "no_daemon"


@under_both
async def test_the_known_places_are_tried_in_turn(
    monkeypatch: pytest.MonkeyPatch, daemon: ScriptedDaemon, path: Path
) -> None:
    with tempfile.TemporaryDirectory(prefix="hl-") as home:  # a socket's path may have 107 bytes and no more
        runs, known = Path(home) / "run", Path(home) / ".local/state/hooklatch/run"
        runs.mkdir(mode=0o700)
        known.mkdir(parents=True)
        os.rename(path, known / "agent.sock")
        monkeypatch.delenv("HOOKLATCH_RUNTIME_DIR", raising=False)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runs))
        monkeypatch.setenv("HOME", home)
        daemon.play(decide(verdict="allow"))

        async with hooklatch.session(require=True) as s:
            answer = await s.fire("pre_tool_use", tool_input={})

    assert answer.verdict == "allow"


@under_both
async def test_a_closed_session_says_so(path: Path) -> None:
    async with connect(path) as s:
        pass

    with pytest.raises(hooklatch.SessionClosedError):
        await s.fire("pre_tool_use", tool_input={})


@under_both
async def test_a_block_that_is_cancelled_tells_the_daemon_that_its_session_is_over(
    daemon: ScriptedDaemon, path: Path
) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("fire"), decision(verdict="allow"))
        peer.answer(peer.read_until("session.close"), {"ended": True})
        recorder.note("closed")

    daemon.play(script)

    with anyio.CancelScope() as scope:
        async with connect(path) as s:
            await s.fire("pre_tool_use")
            scope.cancel()
            await anyio.sleep_forever()

    assert recorder.done.wait(5)
    assert (scope.cancelled_caught, s.is_closed) == (True, True)


@under_both
async def test_a_daemon_that_does_not_read_is_no_daemon(daemon: ScriptedDaemon, path: Path) -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        over.wait()

    daemon.play(script)

    async with connect(path, liveness=IMPATIENT) as s:
        answer = await s.fire("pre_tool_use", text="x" * 4_000_000)
        over.set()

    assert answer.cause == "no_daemon"


@under_both
async def test_tasks_share_a_session(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for fire in reversed([peer.read_until("fire") for _ in range(8)]):
            peer.answer(fire, decision(reason=fire["params"]["payload"]["tool_name"]))
        peer.read()

    daemon.play(script)

    answers: dict[str, str | None] = {}

    async def fire(s: hooklatch.Session, name: str) -> None:
        answers[name] = (await s.fire("pre_tool_use", tool_name=name)).reason

    async with connect(path) as s, anyio.create_task_group() as group:
        for name in "abcdefgh":
            group.start_soon(fire, s, name)

    assert answers == {name: name for name in "abcdefgh"}
