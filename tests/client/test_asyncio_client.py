"""What only asyncio has: tasks that are cancelled by name, loops that are run by parts, and trio as its guest."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from client.scripts import (
    CALL,
    Recorder,
    ask_guard,
    decide,
    under_asyncio,
)
from hooklatch import connect
from support.scripted_daemon import Peer, ScriptedDaemon, decision


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


async def fire_once(path: Path) -> str:
    async with connect(path, require=True) as s:
        return (await s.fire("pre_tool_use")).verdict


async def waits_for_what_is_cancelled(event: Any) -> None:
    task = asyncio.ensure_future(asyncio.sleep(3600))
    task.cancel()
    await task


@under_asyncio
async def test_a_hook_that_waits_for_what_is_cancelled_has_failed(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()
    daemon.play(ask_guard(recorder))

    async with connect(path) as s:
        registration = await s.register("pre_tool_use", waits_for_what_is_cancelled, id="guard")

    (answer,) = recorder.seen
    assert "was cancelled" in str(answer["error"])
    assert (registration.id, registration.revision) == ("guard", 8)


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
