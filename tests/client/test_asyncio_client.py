"""The client under asyncio, against a daemon on a real socket that does what each test says."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import hooklatch
from client.scripts import (
    CALL,
    FAILURES,
    IMPATIENT,
    Recorder,
    answer_pings_first,
    decide,
    never_welcome,
    under_asyncio,
)
from hooklatch import Announcement, Verdict, connect, deny
from support.scripted_daemon import Peer, ScriptedDaemon, decision


@under_asyncio
async def test_without_a_daemon_gates_deny_and_others_pass(path: Path) -> None:
    async with connect(path) as s:
        gate = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})
        other = await s.fire("stop", finish_reason="done")

    assert (gate.verdict, gate.cause) == ("deny", "no_daemon")
    assert (other.verdict, other.allowed) == ("pass", True)


@under_asyncio
async def test_a_daemon_can_be_required(path: Path) -> None:
    with pytest.raises(hooklatch.DaemonUnreachableError, match="hooklatch serve"):
        async with hooklatch.session(runtime_dir=path.parent, require=True):
            pytest.fail("there is no daemon")


@under_asyncio
async def test_a_decision_comes_back(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(decide(verdict="deny", reason="no", cause="policy", hook="guard"))

    async with connect(path) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "ls"})

    assert (answer.verdict, answer.reason, answer.hook) == ("deny", "no", "guard")
    assert (s.session_id, s.revision, s.is_closed) == ("s1", 7, True)


@pytest.mark.parametrize(("script", "cause"), FAILURES)
@under_asyncio
async def test_no_usable_answer_is_decided_in_the_client(
    daemon: ScriptedDaemon, path: Path, script: Callable[[Peer], None], cause: str
) -> None:
    daemon.play(script)

    async with connect(path, liveness=IMPATIENT) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.cause) == ("deny", cause)


@under_asyncio
async def test_a_slow_daemon_that_answers_pings_is_waited_for(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(answer_pings_first)

    async with connect(path, liveness=IMPATIENT) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert answer.verdict == "allow"


@under_asyncio
async def test_a_daemon_that_never_welcomes_is_no_daemon(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(never_welcome)

    async with connect(path, liveness=IMPATIENT) as s:
        answer = await s.fire("pre_tool_use", tool_input={})

    assert answer.cause == "no_daemon"


@under_asyncio
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


@under_asyncio
async def test_tasks_share_a_session(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for fire in reversed([peer.read_until("fire") for _ in range(8)]):
            peer.answer(fire, decision(reason=fire["params"]["payload"]["tool_name"]))
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        answers = await asyncio.gather(*(s.fire("pre_tool_use", tool_name=name) for name in "abcdefgh"))

    assert [answer.reason for answer in answers] == list("abcdefgh")


@under_asyncio
async def test_an_exception_in_the_body_comes_out_as_it_is(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(decide(verdict="halt", reason="stop here"))

    with pytest.raises(hooklatch.RefusedError, match="stop here"):
        async with connect(path) as s:
            (await s.fire("pre_tool_use", tool_input={})).raise_for_refusal()


@under_asyncio
async def test_a_cancelled_fire_spoils_nothing(daemon: ScriptedDaemon, path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        first = peer.read_until("fire")
        asked.set()
        go_on.wait()  # the second one's line is longer than any buffer, and is cancelled in the middle of it
        second, third = peer.read_until("fire"), peer.read_until("fire")
        for fire, verdict in ((first, "deny"), (second, "deny"), (third, "allow")):
            peer.answer(fire, decision(verdict=verdict))
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        first = asyncio.create_task(s.fire("pre_tool_use"))
        await asyncio.to_thread(asked.wait)
        second = asyncio.create_task(s.fire("pre_tool_use", text="x" * 4_000_000))
        await asyncio.sleep(0)
        first.cancel(), second.cancel()
        await asyncio.wait([first, second])
        go_on.set()
        answer = await s.fire("pre_tool_use", tool_input={})

    assert (first.cancelled(), second.cancelled()) == (True, True)
    assert answer.verdict == "allow"


@under_asyncio
async def test_a_body_that_is_cancelled_leaves_no_task_and_no_connection(daemon: ScriptedDaemon, path: Path) -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.read_until("fire")
        asked.set()
        peer.read()

    daemon.play(script)

    async def body() -> None:
        async with connect(path) as s:
            await s.fire("pre_tool_use")

    task = asyncio.create_task(body())
    await asyncio.to_thread(asked.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert asyncio.all_tasks() == {asyncio.current_task()}


@under_asyncio
async def test_a_full_backlog_is_waited_for(path: Path) -> None:
    daemon = ScriptedDaemon(path, backlog=0)
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.connect(str(path))  # the one place that a backlog of 0 has
        firing = asyncio.create_task(fire_once(path))
        await asyncio.sleep(0)
        daemon.play(lambda peer: None, decide(verdict="allow"))

        assert await firing == "allow"
    daemon.close()


async def fire_once(path: Path) -> str:
    async with connect(path, require=True) as s:
        return (await s.fire("pre_tool_use")).verdict


async def guard_in_a_task(event: Any) -> Verdict[Any]:
    await asyncio.sleep(0)
    return deny(f"{event.config['word']} {event.tool_name}")


def guard_in_a_thread(event: Any) -> Verdict[Any]:
    assert threading.current_thread() is not threading.main_thread()
    return deny(f"{event.config['word']} {event.tool_name}")


@pytest.mark.parametrize("guard", [guard_in_a_task, guard_in_a_thread])
@under_asyncio
async def test_a_served_hook_runs_while_its_fire_waits(daemon: ScriptedDaemon, path: Path, guard: Any) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        fire = peer.read_until("fire")
        peer.say(id="k", method="call", params={**CALL, "config": {"word": "no"}})
        peer.answer(fire, decision(**peer.read()["result"]))
        peer.read()

    daemon.play(script)

    hooks = [("pre_tool_use", guard, {"id": "guard", "config": {"word": "no"}})]
    async with connect(path, hooks=hooks) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.reason) == ("deny", "no Bash")


async def waits_for_what_is_cancelled(event: Any) -> None:
    task = asyncio.ensure_future(asyncio.sleep(3600))
    task.cancel()
    await task


def stops_iterating(event: Any) -> None:
    raise StopIteration


def quits(event: Any) -> None:
    raise SystemExit("over")


def returns_rubbish(event: Any) -> str:
    return "yes"


@pytest.mark.parametrize(
    ("function", "key", "text"),
    [
        (quits, "error", "SystemExit: over"),
        (stops_iterating, "error", "StopIteration"),
        (waits_for_what_is_cancelled, "error", "was cancelled"),
        (returns_rubbish, "result", "garbage"),
    ],
)
@under_asyncio
async def test_a_served_hook_answers_whatever_it_does(
    daemon: ScriptedDaemon, path: Path, function: Any, key: str, text: str
) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        peer.welcome()
        registration = peer.read_until("register")
        peer.say(id=1, method="call", params=CALL)
        recorder.note(peer.read())
        peer.answer(registration, {"ids": ["guard"], "revision": 8})
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        registration = await s.register("pre_tool_use", function, id="guard")

    (answer,) = recorder.seen
    assert text in str(answer[key])
    assert (registration.id, registration.revision) == ("guard", 8)


@under_asyncio
async def test_a_lost_session_is_resumed_with_its_hooks_and_subscription(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def first(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("register"), {"ids": ["guard"], "revision": 8})
        peer.answer(peer.read_until("subscribe"), {"revision": 8})

    def second(peer: Peer) -> None:
        recorder.note(peer.welcome(revision=20)["session"])
        peer.answer(peer.read_until("subscribe"), {"revision": 21})
        peer.answer(peer.read_until("fire"), decision(verdict="allow"))
        peer.read()

    daemon.play(first, second)

    async with connect(path, session_id="mine") as s:
        listener = s.announcements()
        await s.register("pre_tool_use", quits, id="guard")
        await s.subscribe()
        missed = await anext(listener)
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    (session,) = recorder.seen
    assert (session["id"], session["resume_token"]) == ("s1", "t1")
    assert [hook["id"] for hook in session["hooks"]] == ["guard"]
    assert missed == Announcement(topic="registry", resync=21)
    assert answer.verdict == "allow"


@under_asyncio
async def test_announcements_reach_callbacks_in_order(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("subscribe"), {"revision": 7})
        for revision in (8, 9):
            peer.say(method="announce", params={"topic": "registry", "revision": revision})
        peer.read()

    daemon.play(script)
    seen: list[int | None] = []
    both = asyncio.Event()

    async with connect(path) as s:

        @s.on_reload
        async def note(announcement: Announcement) -> None:
            seen.append(announcement.revision)
            if len(seen) == 2:
                both.set()
            raise ValueError("a callback's own trouble")

        await both.wait()

    assert seen == [8, 9]


@under_asyncio
async def test_announcements_end_with_the_session(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("subscribe"), {"revision": 7})
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        listener = s.announcements()
        await s.subscribe()
    with pytest.raises(StopAsyncIteration):
        await anext(listener)
    with pytest.raises(hooklatch.SessionClosedError):
        await s.fire("stop")


@under_asyncio
async def test_trio_as_a_guest_of_asyncio_is_trio(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(decide(verdict="allow"))
    loop = asyncio.get_running_loop()
    over: asyncio.Future[Any] = loop.create_future()

    trio.lowlevel.start_guest_run(
        fire_once, path, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=over.set_result
    )

    assert (await over).unwrap() == "allow"


async def test_a_session_that_was_not_opened_refuses(path: Path) -> None:
    answer = await connect(path).fire("pre_tool_use", tool_name="Bash")

    assert (answer.cause, "async with" in str(answer.reason)) == ("no_daemon", True)


def test_a_session_needs_a_loop_to_be_opened_in(path: Path) -> None:
    with pytest.raises(RuntimeError, match="connect_sync"):
        connect(path).__aenter__().send(None)


def announce_twice_and_decide(peer: Peer) -> None:
    peer.welcome()
    peer.answer(peer.read_until("subscribe"), {"revision": 7})
    peer.say(method="announce", params={"topic": "registry", "revision": 8})
    peer.answer(peer.read_until("fire"), decision(verdict="allow"))
    peer.read()


def test_a_session_lives_on_between_two_runs_of_its_loop(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(announce_twice_and_decide)
    loop = asyncio.new_event_loop()
    heard = asyncio.Event()
    s = connect(path)

    loop.run_until_complete(s.__aenter__())
    s.on_reload(lambda announcement: heard.set())
    loop.run_until_complete(heard.wait())
    answer = loop.run_until_complete(s.fire("pre_tool_use"))
    loop.run_until_complete(s.__aexit__(None, None, None))
    left = asyncio.all_tasks(loop)
    loop.close()

    assert (answer.verdict, s.is_closed, left) == ("allow", True, set())


@under_asyncio
async def test_sessions_are_closed_in_any_order_and_by_any_task(daemon: ScriptedDaemon, path: Path) -> None:
    other = ScriptedDaemon(path.with_name("other.sock"))
    daemon.play(decide(verdict="deny"))
    other.play(decide(verdict="allow"))
    first, second = connect(path), connect(path.with_name("other.sock"))
    await asyncio.create_task(first.__aenter__())
    refused = await first.fire("pre_tool_use")
    await asyncio.create_task(second.__aenter__())

    await asyncio.create_task(first.__aexit__(None, None, None))
    answer = await second.fire("pre_tool_use")
    await second.__aexit__(None, None, None)
    other.close()

    assert (refused.verdict, answer.verdict) == ("deny", "allow")
    assert asyncio.all_tasks() == {asyncio.current_task()}


@under_asyncio
async def test_a_hook_that_cancels_its_own_task_ends_no_other(daemon: ScriptedDaemon, path: Path) -> None:
    cancelled = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        fire = peer.read_until("fire")
        peer.say(id="k", method="call", params=CALL)
        cancelled.wait()
        peer.answer(fire, decision(verdict="deny"))
        peer.answer(peer.read_until("fire"), decision(verdict="allow"))
        peer.read()

    async def cancel_itself(event: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        task.add_done_callback(lambda _: cancelled.set())
        await asyncio.sleep(0)

    daemon.play(script)

    async with connect(path, hooks=[("pre_tool_use", cancel_itself, {"id": "guard"})]) as s:
        answers = [await s.fire("pre_tool_use") for _ in range(2)]

    assert [answer.verdict for answer in answers] == ["deny", "allow"]
