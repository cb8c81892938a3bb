"""The moment after a link was lost: what is asked waits for the first attempt to get another, not for a second one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import hooklatch
from client.scripts import IMPATIENT, decide, never_welcome, under_both
from hooklatch.errors import SessionClosedError
from support.scripted_daemon import Peer, ScriptedDaemon

PAYLOAD = {"tool_name": "Bash", "tool_input": {}}


def leave_when_asked(peer: Peer) -> None:
    """Welcome the session, and hang up on its first fire."""
    peer.welcome()
    peer.read_until("fire")


def successor(asked: threading.Event) -> Callable[[Peer], None]:
    """Let the hello wait until the test has asked again, as a daemon that is still starting does."""

    def script(peer: Peer) -> None:
        asked.wait(10)
        decide(verdict="allow")(peer)

    return script


@under_both
async def test_a_gate_waits_for_the_successor(daemon: ScriptedDaemon, path: Path) -> None:
    asked = threading.Event()
    daemon.play(leave_when_asked, successor(asked))

    async with hooklatch.connect(path) as s:
        lost = await s.fire("pre_tool_use", payload=PAYLOAD)
        asked.set()
        answered = await s.fire("pre_tool_use", payload=PAYLOAD)

    assert (lost.cause, answered.verdict) == ("no_daemon", "allow")


def test_in_a_thread_a_gate_waits_for_the_successor(daemon: ScriptedDaemon, path: Path) -> None:
    asked = threading.Event()
    daemon.play(leave_when_asked, successor(asked))

    with hooklatch.connect_sync(path) as s:
        lost = s.fire("pre_tool_use", payload=PAYLOAD)
        asked.set()
        answered = s.fire("pre_tool_use", payload=PAYLOAD)

    assert (lost.cause, answered.verdict) == ("no_daemon", "allow")


@under_both
async def test_a_successor_that_never_answers_costs_its_silence_once(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(leave_when_asked, never_welcome, never_welcome)

    async with hooklatch.connect(path, liveness=IMPATIENT) as s:
        with anyio.fail_after(10):
            causes = [(await s.fire("pre_tool_use", payload=PAYLOAD)).cause for _ in range(50)]

    assert causes == ["no_daemon"] * 50


@under_both
async def test_closing_a_session_wakes_who_waits(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(leave_when_asked, never_welcome)
    closed: list[bool] = []

    async def ask_again(s: hooklatch.Session) -> None:
        with pytest.raises(SessionClosedError):
            await s.fire("pre_tool_use", payload=PAYLOAD)
        closed.append(True)

    async with anyio.create_task_group() as group, hooklatch.connect(path) as s:
        await s.fire("pre_tool_use", payload=PAYLOAD)
        group.start_soon(ask_again, s)
        await anyio.lowlevel.checkpoint()

    assert closed == [True]


def test_closing_a_session_wakes_the_threads_that_wait(daemon: ScriptedDaemon, path: Path) -> None:
    welcomed = threading.Event()

    def never(peer: Peer) -> None:
        welcomed.set()
        never_welcome(peer)

    daemon.play(leave_when_asked, never)
    raised: list[type[BaseException]] = []

    def ask_again() -> None:
        try:
            s.fire("pre_tool_use", payload=PAYLOAD)
        except SessionClosedError as error:
            raised.append(type(error))

    s = hooklatch.connect_sync(path)
    s.fire("pre_tool_use", payload=PAYLOAD)
    thread = threading.Thread(target=ask_again)
    thread.start()
    assert welcomed.wait(10)
    s.close()
    thread.join(10)

    assert raised == [SessionClosedError]
