"""A tool call over a socket, under each of the three clients, and what a session says of refusals."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import hooklatch
from client.scripted import Peer, ScriptedDaemon, decision
from client.scripts import each_fire, under_asyncio
from hooklatch import PermissionQuestion, ToolRun, connect, connect_sync

ASK = {"verdict": "ask", "reason": "sure?"}
APPEND = {"append": "checked"}


def tool(tool_input: dict[str, Any]) -> str:
    return f"ran {tool_input['command']}"


async def async_tool(tool_input: dict[str, Any]) -> str:
    return tool(tool_input)


def says_yes(question: PermissionQuestion) -> bool:
    return question.reason == "sure?"


async def says_yes_later(question: PermissionQuestion) -> bool:
    return says_yes(question)


def is_done(run: ToolRun, seen: list[dict[str, Any]]) -> bool:
    assert [params["event"] for params in seen] == ["pre_tool_use", "permission_request", "post_tool_use"]
    assert [params.get("call_id") for params in seen] == ["t1"] * 3
    assert [params["envelope"] for params in seen] == [{"turn": 2}] * 3
    assert seen[2]["payload"]["duration_ms"] >= 0
    return run.unwrap() == "ran ls\n\nchecked"


OPTIONS: dict[str, Any] = {"tool_use_id": "t1", "envelope": {"turn": 2}}
FUNCTIONS = [(tool, says_yes), (async_tool, says_yes_later)]


@pytest.mark.parametrize(("function", "permission"), FUNCTIONS)
async def test_a_tool_runs_under_trio(daemon: ScriptedDaemon, path: Path, function: Any, permission: Any) -> None:
    seen: list[Any] = []
    daemon.play(each_fire(ASK, {}, APPEND, seen=seen))

    async with connect(path) as s:
        run = await s.run_tool("Bash", {"command": "ls"}, function, permission=permission, **OPTIONS)

    assert is_done(run, seen)


@pytest.mark.parametrize(("function", "permission"), FUNCTIONS)
@under_asyncio
async def test_a_tool_runs_under_asyncio(daemon: ScriptedDaemon, path: Path, function: Any, permission: Any) -> None:
    seen: list[Any] = []
    daemon.play(each_fire(ASK, {}, APPEND, seen=seen))

    async with connect(path) as s:
        run = await s.run_tool("Bash", {"command": "ls"}, function, permission=permission, **OPTIONS)

    assert is_done(run, seen)


def test_a_tool_runs_in_a_thread(daemon: ScriptedDaemon, path: Path) -> None:
    seen: list[Any] = []
    daemon.play(each_fire(ASK, {}, APPEND, seen=seen))

    with connect_sync(path) as s:
        run = s.run_tool("Bash", {"command": "ls"}, tool, permission=says_yes, **OPTIONS)

    assert is_done(run, seen)


def test_an_async_tool_is_refused_before_any_hook_is_asked(path: Path) -> None:
    with connect_sync(path) as s, pytest.raises(TypeError, match="async"):
        s.run_tool("Bash", {}, async_tool)


async def test_without_a_daemon_no_tool_runs(path: Path) -> None:
    async with connect(path) as s:
        run = await s.run_tool("Bash", {"command": "ls"}, tool, permission=says_yes)

    assert (run.allowed, run.decision.cause, run.is_error) == (False, "no_daemon", True)


class Interrupted:
    """A daemon that notes which failure is reported for a tool that was still running, and tells when."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.told = threading.Event()

    def __call__(self, peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("fire"), decision())
        fire = peer.read_until("fire")
        self.payloads.append((fire["params"]["event"], fire["params"]["payload"]["is_interrupt"]))
        peer.answer(fire, {"accepted": True})
        self.told.set()
        peer.read()


async def test_a_tool_cancelled_under_trio_is_reported_as_interrupted(daemon: ScriptedDaemon, path: Path) -> None:
    script = Interrupted()
    daemon.play(script)
    scope = trio.CancelScope()

    async def cancels(tool_input: dict[str, Any]) -> None:
        scope.cancel()
        await trio.sleep_forever()

    async with connect(path) as s:
        with scope:
            await s.run_tool("Bash", {}, cancels)
        await trio.to_thread.run_sync(script.told.wait)

    assert script.payloads == [("post_tool_use_failure", True)]


@under_asyncio
async def test_a_tool_cancelled_under_asyncio_is_reported_as_interrupted(daemon: ScriptedDaemon, path: Path) -> None:
    script = Interrupted()
    daemon.play(script)

    async def cancels(tool_input: dict[str, Any]) -> None:
        running.cancel()
        await asyncio.Event().wait()

    async with connect(path) as s:
        running = asyncio.ensure_future(s.run_tool("Bash", {}, cancels))
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.to_thread(script.told.wait)

    assert script.payloads == [("post_tool_use_failure", True)]


def test_a_tool_interrupted_in_a_thread_is_reported(daemon: ScriptedDaemon, path: Path) -> None:
    script = Interrupted()
    daemon.play(script)

    def interrupted(tool_input: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with connect_sync(path) as s, pytest.raises(KeyboardInterrupt):
        s.run_tool("Bash", {}, interrupted)

    assert script.payloads == [("post_tool_use_failure", True)]


@under_asyncio
async def test_a_tool_whose_own_task_was_cancelled_has_failed(daemon: ScriptedDaemon, path: Path) -> None:
    daemon.play(each_fire({}, {}))

    async def waits_for_what_is_cancelled(tool_input: dict[str, Any]) -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    async with connect(path) as s:
        run = await s.run_tool("Bash", {}, waits_for_what_is_cancelled, tool_use_id="t1")

    assert "was cancelled" in run.as_tool_result()["content"]


def test_plain_fires_count_towards_the_breaker(daemon: ScriptedDaemon, path: Path) -> None:
    deny = {"verdict": "deny", "cause": "policy"}
    daemon.play(each_fire(deny, deny, deny, {"verdict": "allow"}))

    with connect_sync(path, denial_breaker=3) as s:
        s.fire("pre_tool_use", tool_name="Bash")
        s.fire("pre_tool_use", tool_name="Bash")
        run = s.run_tool("Bash", {}, tool)
        refusals = s.refusals_in_a_row
        s.fire("pre_tool_use", tool_name="Bash")

    assert (run.halt, run.halt_reason, refusals) == (True, "3 refusals in a row", 3)
    assert s.refusals_in_a_row == 0


def test_run_tool_needs_an_open_session(path: Path) -> None:
    with connect_sync(path) as s:
        pass

    with pytest.raises(hooklatch.SessionClosedError):
        s.run_tool("Bash", {}, tool)
