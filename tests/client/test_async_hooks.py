"""What an asynchronous session registers, serves, hears of, and keeps when its daemon is lost."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import hooklatch
from client.scripts import CALL, Recorder, ask_guard, lose_and_resume, under_both
from hooklatch import Announcement, Verdict, connect, deny
from support.scripted_daemon import Peer, ScriptedDaemon, decision


async def guard_in_a_task(event: Any) -> Verdict[Any]:
    await anyio.lowlevel.checkpoint()
    return deny(f"{event.config['word']} {event.tool_name}")


def guard_in_a_thread(event: Any) -> Verdict[Any]:
    assert threading.current_thread() is not threading.main_thread()
    return deny(f"{event.config['word']} {event.tool_name}")


@pytest.mark.parametrize("guard", [guard_in_a_task, guard_in_a_thread])
@under_both
async def test_a_served_hook_runs_while_its_fire_waits(daemon: ScriptedDaemon, path: Path, guard: Any) -> None:
    def script(peer: Peer) -> None:
        hooks = peer.welcome()["session"]["hooks"]
        assert hooks == [{"event": "pre_tool_use", "served": True, "id": "guard", "config": {"word": "no"}}]
        fire = peer.read_until("fire")
        peer.say(id="k", method="call", params={**CALL, "config": {"word": "no"}})
        peer.answer(fire, decision(**peer.read()["result"]))
        peer.read()

    daemon.play(script)

    hooks = [("pre_tool_use", guard, {"id": "guard", "config": {"word": "no"}})]
    async with connect(path, hooks=hooks) as s:
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.reason) == ("deny", "no Bash")


def quits(event: Any) -> None:
    raise SystemExit("over")


class Bail(BaseException):
    """What no `except Exception` catches."""


def bails_in_a_thread(event: Any) -> None:
    raise Bail("out")


async def bails_in_a_task(event: Any) -> None:
    raise Bail("out")


def stops_iterating(event: Any) -> None:
    raise StopIteration


def returns_rubbish(event: Any) -> str:
    return "yes"


def stays_silent(event: Any) -> None:
    assert threading.current_thread() is not threading.main_thread()


@pytest.mark.parametrize(
    ("function", "key", "text"),
    [
        (quits, "error", "SystemExit: over"),
        (bails_in_a_thread, "error", "Bail: out"),
        (bails_in_a_task, "error", "Bail: out"),
        (stops_iterating, "error", "StopIteration"),
        (returns_rubbish, "result", "garbage"),
        (stays_silent, "result", "None"),
    ],
)
@under_both
async def test_a_served_hook_answers_whatever_it_does(
    daemon: ScriptedDaemon, path: Path, function: Any, key: str, text: str
) -> None:
    recorder = Recorder()
    daemon.play(ask_guard(recorder))

    async with connect(path) as s:
        registration = await s.register("pre_tool_use", function, id="guard")

    (answer,) = recorder.seen
    assert text in str(answer[key])
    assert (registration.id, registration.revision) == ("guard", 8)


@under_both
async def test_whatever_its_functions_raise_a_session_connects_again(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    _, resume = lose_and_resume(recorder)

    def lose(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("subscribe"), {"revision": 7})
        peer.say(method="announce", params={"topic": "registry", "revision": 8})
        registration = peer.read_until("register")
        peer.say(id=1, method="call", params=CALL)
        assert "Bail" in peer.read()["error"]["message"]
        peer.answer(registration, {"ids": ["guard"], "revision": 8})

    daemon.play(lose, resume)
    is_told = anyio.Event()

    def bails_when_told(announcement: Announcement) -> None:
        is_told.set()
        raise Bail("out")

    async with connect(path) as s:
        s.on_reload(bails_when_told)
        await is_told.wait()
        await s.register("pre_tool_use", bails_in_a_task, id="guard")
        await anyio.to_thread.run_sync(recorder.done.wait)
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    assert (answer.verdict, answer.cause) == ("allow", "policy")


@under_both
async def test_a_call_for_an_unknown_hook_gets_an_error(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        ping = peer.read()
        peer.say(id=1, method="call", params={**CALL, "hook": "nobody"})
        assert "nobody" in peer.read()["error"]["message"]
        peer.answer(ping, {})
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        await s.ping()


@under_both
async def test_a_lost_session_is_resumed_with_its_hooks_and_subscription(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    daemon.play(*lose_and_resume(recorder))

    async with connect(path, session_id="mine") as s:
        listener = s.announcements()
        await s.register("pre_tool_use", stays_silent, id="guard")
        await s.subscribe()
        missed = await anext(listener)
        answer = await s.fire("pre_tool_use", tool_name="Bash", tool_input={})

    (session,) = recorder.seen
    assert (session["id"], session["resume_token"]) == ("s1", "t1")
    assert [hook["id"] for hook in session["hooks"]] == ["guard"]
    assert missed == Announcement(topic="registry", resync=21)
    assert answer.verdict == "allow"


@under_both
async def test_an_announcement_that_comes_with_the_answer_of_a_reconnect_is_not_taken_back(
    daemon: ScriptedDaemon, path: Path
) -> None:
    def first(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("subscribe"), {"revision": 8})

    def second(peer: Peer) -> None:
        peer.welcome(revision=20)
        answer = {"jsonrpc": "2.0", "id": peer.read_until("subscribe")["id"], "result": {"revision": 21}}
        news = {"jsonrpc": "2.0", "method": "announce", "params": {"topic": "registry", "previous": 21, "revision": 22}}
        peer.send(b"".join(json.dumps(message).encode() + b"\n" for message in (answer, news)))
        peer.read()

    daemon.play(first, second)

    async with connect(path, session_id="mine") as s:
        listener = s.announcements()
        await s.subscribe()
        told = [(await anext(listener)).current for _ in range(2)]
        revision = s.revision

    assert told == [22, 22]
    assert revision == 22


@under_both
async def test_an_unregistered_hook_is_not_registered_again(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def first(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("register"), {"ids": ["guard"], "revision": 8})
        request = peer.read_until("unregister")
        recorder.note(request["params"]["id"])
        peer.answer(request, {"revision": 9})

    def second(peer: Peer) -> None:
        recorder.note(peer.welcome()["session"].get("hooks"))
        peer.answer(peer.read_until("subscribe"), {"revision": 10})
        peer.read()

    daemon.play(first, second)

    async with connect(path) as s:
        registration = await s.register("pre_tool_use", run="guards.py:guard", id="guard")
        await registration.unregister()
        s.on_reload(lambda announcement: None)
        with anyio.fail_after(5):
            await anext(s.announcements())

    assert recorder.seen == ["guard", None]


@under_both
async def test_a_refused_hook_is_forgotten_and_named(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.refuse(peer.read_until("register"), "load_failed", "guards.py:3: syntax error")
        peer.read()

    daemon.play(script)

    async with connect(path) as s:
        with pytest.raises(hooklatch.RequestFailedError, match=r"guards\.py:3") as caught:
            await s.register("pre_tool_use", run="guards.py:guard")

    assert caught.value.name == "load_failed"


@under_both
async def test_a_refused_session_raises_and_a_draining_daemon_does_not(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(
        lambda peer: peer.refuse(peer.read_until("hello"), "session_in_use"),
        lambda peer: peer.refuse(peer.read_until("hello"), "draining", "going away"),
    )

    with pytest.raises(hooklatch.RequestFailedError, match="session_in_use"):
        async with hooklatch.session("taken", runtime_dir=path.parent):
            pytest.fail("it is taken")
    async with hooklatch.session("mine", runtime_dir=path.parent) as s:
        answer = await s.fire("pre_tool_use", tool_input={})

    assert answer.cause == "no_daemon"
    assert "going away" in (answer.reason or "")


@under_both
async def test_announcements_reach_callbacks_in_order(daemon: ScriptedDaemon, path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("subscribe"), {"revision": 7})
        for revision in (8, 9):
            params = {"topic": "registry", "previous": revision - 1, "revision": revision, "added": [str(revision)]}
            peer.say(method="announce", params=params)
        peer.read()

    daemon.play(script)
    seen: list[Any] = []
    both = anyio.Event()

    async with connect(path) as s:

        @s.on_reload
        async def note(announcement: Announcement) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(announcement.revision)
            if len(seen) == 2:
                both.set()
            raise ValueError("a callback's own trouble")

        with anyio.fail_after(5):
            await both.wait()

        assert s.revision == 9
    assert seen == [8, 9]


@under_both
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
