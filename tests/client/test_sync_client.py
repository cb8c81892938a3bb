"""The client for threads, against a daemon on a real socket that does what each test says."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hooklatch
from client.scripts import (
    CALL,
    FAILURES,
    IMPATIENT,
    PINGING,
    Recorder,
    answer_pings_first,
    ask_guard,
    decide,
    lose_and_resume,
    never_welcome,
)
from hooklatch import Announcement, Verdict, connect_sync, deny
from hooklatch.client.protocol.liveness import Liveness
from support.scripted_daemon import Peer, ScriptedDaemon, decision


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread


def test_without_a_daemon_gates_deny_and_others_pass(path: Path) -> None:
    with connect_sync(path) as s:
        gate = s.fire("pre_tool_use", tool_name="Bash", tool_input={})
        other = s.fire("stop", finish_reason="done")
        accepted = s.fire("stop", wait=False)

    assert (gate.verdict, gate.cause) == ("deny", "no_daemon")
    assert (other.verdict, other.allowed) == ("pass", True)
    assert not accepted.accepted


def test_a_daemon_can_be_required(path: Path) -> None:
    with pytest.raises(hooklatch.DaemonUnreachableError), connect_sync(path, require=True):
        pytest.fail("there is no daemon")


def test_a_decision_comes_back(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(decide(verdict="deny", reason="no", cause="policy", hook="guard"))

    with connect_sync(path) as s:
        answer = s.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "ls"})

    assert (answer.verdict, answer.reason, answer.hook) == ("deny", "no", "guard")
    assert (s.session_id, s.revision) == ("s1", 7)


@pytest.mark.parametrize(("script", "liveness", "cause"), FAILURES)
def test_no_usable_answer_is_decided_in_the_client(
    daemon: ScriptedDaemon, path: Path, script: Callable[[Peer], None], liveness: Liveness, cause: str
) -> None:
    daemon.play(script)

    with connect_sync(path, liveness=liveness) as s:
        answer = s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.cause) == ("deny", cause)


def test_a_slow_daemon_that_answers_pings_is_waited_for(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(answer_pings_first)

    with connect_sync(path, liveness=PINGING) as s:
        answer = s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert answer.verdict == "allow"


def test_a_daemon_that_never_welcomes_is_no_daemon(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(never_welcome)

    with connect_sync(path, liveness=IMPATIENT) as s:
        answer = s.fire("pre_tool_use", tool_input={})

    assert answer.cause == "no_daemon"


def test_a_daemon_that_does_not_read_is_no_daemon(daemon: ScriptedDaemon, path: Path) -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        over.wait()

    daemon.play(script)

    with connect_sync(path, liveness=IMPATIENT) as s:
        answer = s.fire("pre_tool_use", text="x" * 4_000_000)
        over.set()

    assert answer.cause == "no_daemon"


def test_threads_share_a_session(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for fire in reversed([peer.read_until("fire") for _ in range(8)]):
            peer.answer(fire, decision(reason=fire["params"]["payload"]["tool_name"]))
        peer.read()

    daemon.play(script)

    with connect_sync(path) as s, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda name: s.fire("pre_tool_use", tool_name=name).reason, "abcdefgh"))

    assert answers == list("abcdefgh")


def test_closing_ends_a_waiting_fire(daemon: ScriptedDaemon, path: Path) -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.read_until("fire")
        asked.set()
        peer.read()

    daemon.play(script)

    with ThreadPoolExecutor(1) as threads:
        with connect_sync(path) as s:
            waiting = threads.submit(s.fire, "pre_tool_use")
            asked.wait()
        answer = waiting.result()

    assert (answer.verdict, answer.cause) == ("deny", "no_daemon")
    with pytest.raises(hooklatch.SessionClosedError):
        s.fire("pre_tool_use")


def guard(event: Any) -> Verdict[Any]:
    return deny(f"{event.config['word']} {event.tool_name}")


def test_a_served_hook_runs_while_its_fire_waits(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        (hook,) = peer.welcome()["session"]["hooks"]
        fire = peer.read_until("fire")
        peer.say(id="k", method="call", params={**CALL, "hook": hook["id"], "config": hook["config"]})
        peer.answer(fire, decision(**peer.read()["result"]))
        peer.read()

    daemon.play(script)

    with connect_sync(path, hooks=[("pre_tool_use", guard, {"config": {"word": "no"}})]) as s:
        answer = s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.reason) == ("deny", "no Bash")


def test_a_served_hook_may_fire_itself(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        outer = peer.read_until("fire")
        peer.say(id="k", method="call", params=CALL)
        inner = peer.read_until("fire")
        peer.answer(inner, decision(event="stop", reason="inner"))
        peer.answer(outer, decision(**peer.read()["result"]))
        peer.read()

    daemon.play(script)

    def nested(event: object) -> Verdict[Any]:
        return deny(s.fire("stop").reason or "")

    with connect_sync(path, hooks=[("pre_tool_use", nested, {"id": "guard"})]) as s:
        answer = s.fire("pre_tool_use")

    assert answer.reason == "inner"


def bails(event: object) -> None:
    raise BaseException("out")


def test_a_served_hook_answers_whatever_it_raises(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    daemon.play(ask_guard(recorder))

    with connect_sync(path) as s:
        s.register("pre_tool_use", bails, id="guard")

    (answer,) = recorder.seen
    assert answer["error"]["message"] == "BaseException: out"


async def never(event: object) -> None: ...


def test_an_async_function_is_refused(path: Path) -> None:
    with pytest.raises(TypeError, match="is async"):
        connect_sync(path, hooks=[("stop", never)])
    with connect_sync(path) as s, pytest.raises(TypeError, match="is async"):
        s.register("stop", never)


def test_two_hooks_of_one_name_do_not_replace_each_other(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    daemon.play(lambda peer: recorder.note(peer.welcome()["session"]["hooks"]))

    with connect_sync(path, hooks=[("stop", guard), ("stop", guard), {"event": "stop", "run": "a/g.py:f"}]):
        recorder.done.wait()

    (hooks,) = recorder.seen
    assert [hook["id"] for hook in hooks] == ["test_sync_client:guard", "test_sync_client:guard@stop", "g:f"]


def test_a_lost_session_is_resumed_with_its_hooks_and_subscription(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    daemon.play(*lose_and_resume(recorder))

    with connect_sync(path, session_id="mine") as s:
        listener = s.announcements()
        s.register("pre_tool_use", guard, id="guard")
        s.subscribe()
        missed = next(listener)
        answer = s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    (session,) = recorder.seen
    assert (session["id"], session["resume_token"]) == ("s1", "t1")
    assert [hook["id"] for hook in session["hooks"]] == ["guard"]
    assert missed == Announcement(topic="registry", resync=21)
    assert answer.verdict == "allow"


def test_announcements_reach_callbacks_in_order(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("subscribe"), {"revision": 7})
        for revision in (8, 9):
            peer.say(method="announce", params={"topic": "registry", "revision": revision})
        peer.read()

    daemon.play(script)
    seen: list[int | None] = []
    both = threading.Event()

    def note(announcement: Announcement) -> None:
        seen.append(announcement.revision)
        if len(seen) == 2:
            both.set()
        raise ValueError("a callback's own trouble")

    with connect_sync(path) as s:
        s.on_reload(note)
        assert both.wait(5)

    assert seen == [8, 9]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_connection_of_its_own(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    parent: list[Peer] = []

    def first(peer: Peer) -> None:
        peer.welcome()
        parent.append(peer)
        second()

    def second() -> None:
        connection, _ = daemon.accept()
        with Peer(connection) as peer:
            recorder.note(peer.welcome()["session"])
            peer.answer(peer.read_until("fire"), decision(verdict="allow"))
            peer.read()
        parent[0].answer(parent[0].read_until("fire"), decision(verdict="deny"))
        parent[0].read()

    daemon.play(first)

    with connect_sync(path, hooks=[("pre_tool_use", guard)]) as s:
        child = os.fork()
        if child == 0:
            try:
                verdict = s.fire("pre_tool_use").verdict
                s.close()
                os._exit(0 if verdict == "allow" else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        answer = s.fire("pre_tool_use")

    assert os.waitstatus_to_exitcode(status) == 0
    assert answer.verdict == "deny"
    assert recorder.seen == [{"id": "s1", "resume_token": "t1", "cwd": os.getcwd()}]


def test_a_full_backlog_is_waited_for(path: Path) -> None:
    daemon = ScriptedDaemon(path, backlog=0)
    with socket.socket(socket.AF_UNIX) as squatter, ThreadPoolExecutor(1) as threads:
        squatter.connect(str(path))  # the one place that a backlog of 0 has
        answer = threads.submit(fire_once, path)

        daemon.play(lambda peer: None, decide(verdict="allow"))

        assert answer.result() == "allow"
    daemon.close()


def fire_once(path: Path) -> str:
    with connect_sync(path, require=True) as s:
        return s.fire("pre_tool_use").verdict
