"""A tool call over a socket, under each of the three clients, and what a session says of refusals."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import hooklatch
from client.scripts import each_fire, under_asyncio
from hooklatch import PermissionQuestion, ToolRun, connect, connect_sync
from support.scripted_daemon import Peer, ScriptedDaemon, decision

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


PASS: dict[str, Any] = {}
ALLOW, DENY = {"verdict": "allow"}, {"verdict": "deny", "reason": "no", "cause": "policy"}
MADE, OTHER = ({"patch": {"tool_input": {"command": command}}} for command in ("made", "other"))
AGAIN = {"verdict": "ask", "reason": "and this?"}
YES, NO = True, False

# What pre_tool_use, permission_request and pre_tool_use again say; what the host's dialog says, if it has one; what
# runs, or the cause of the refusal; what the dialog was asked: the input and the reason.
PERMITS: list[tuple[list[dict[str, Any]], bool | None, str, list[tuple[str, str | None]]]] = [
    ([PASS], None, "ls", []),
    ([MADE], None, "made", []),
    ([ALLOW], NO, "ls", []),
    ([{**ALLOW, **MADE}], NO, "made", []),
    ([PASS, PASS], YES, "ls", [("ls", None)]),
    ([ASK, PASS], None, "policy", []),
    ([ASK, ALLOW], None, "ls", []),
    ([ASK, DENY], YES, "policy", []),
    ([ASK, PASS], YES, "ls", [("ls", "sure?")]),
    ([ASK, PASS], NO, "policy", [("ls", "sure?")]),
    ([{**ASK, **MADE}, PASS], YES, "made", [("made", "sure?")]),
    # a permission hook changes the input: guards judge exactly that
    ([ASK, {**ALLOW, **MADE}, PASS], None, "made", []),
    ([ASK, {**ALLOW, **MADE}, ALLOW], NO, "made", []),
    ([ASK, {**ALLOW, **MADE}, DENY], YES, "policy", []),
    ([ASK, {**ALLOW, **MADE}, {**ALLOW, **MADE}], None, "made", []),
    ([ASK, {**ALLOW, **MADE}, {**ALLOW, **OTHER}], YES, "unsettled", []),
    ([ASK, MADE, PASS], None, "policy", []),
    ([ASK, MADE, PASS], YES, "made", [("made", "sure?")]),
    # their ask about it is a new question, which the permission hook has not answered
    ([ASK, {**ALLOW, **MADE}, AGAIN], None, "policy", []),
    ([ASK, {**ALLOW, **MADE}, AGAIN], NO, "policy", [("made", "and this?")]),
    ([ASK, {**ALLOW, **MADE}, AGAIN], YES, "made", [("made", "and this?")]),
    ([ASK, {**ALLOW, **MADE}, {**AGAIN, **MADE}], NO, "policy", [("made", "and this?")]),
    ([ASK, {**ASK, **MADE}, AGAIN], NO, "policy", [("made", "and this?")]),
    ([PASS, {**ALLOW, **MADE}, AGAIN], NO, "policy", [("made", "and this?")]),
    ([PASS, {**ALLOW, **MADE}, AGAIN], YES, "made", [("made", "and this?")]),
]


class Seen:
    """What a tool was called with and what a dialog was asked, under a client."""

    def __init__(self, says: bool | None) -> None:
        self.inputs: list[str] = []
        self.asked: list[tuple[str, str | None]] = []
        self.permission = None if says is None else self.dialog
        self.says = says

    def tool(self, tool_input: dict[str, Any]) -> str:
        self.inputs.append(tool_input["command"])
        return "done"

    def dialog(self, question: PermissionQuestion) -> bool:
        self.asked.append((question.tool_input["command"], question.reason))
        assert self.says is not None
        return self.says

    def came_of(self, run: ToolRun) -> str:
        assert self.inputs == ([run.tool_input["command"]] if run.allowed else [])
        return self.inputs[0] if self.inputs else str(run.decision.cause)


@pytest.mark.parametrize(("answers", "says", "end", "asked"), PERMITS)
async def test_a_tool_runs_with_exactly_what_was_judged_and_approved(
    daemon: ScriptedDaemon, path: Path, answers: list[Any], says: bool | None, end: str, asked: list[Any]
) -> None:
    fired: list[Any] = []
    daemon.play(*[each_fire(*answers, seen=fired)] * 3)
    seen = [Seen(says), Seen(says), Seen(says)]

    def in_a_thread(one: Seen) -> ToolRun:
        with connect_sync(path) as s:
            return s.run_tool("Bash", {"command": "ls"}, one.tool, permission=one.permission)

    async def under_asyncio(one: Seen) -> ToolRun:
        async with connect(path) as s:
            return await s.run_tool("Bash", {"command": "ls"}, one.tool, permission=one.permission)

    runs = [await under_asyncio(seen[0])]
    runs.append(await trio.to_thread.run_sync(in_a_thread, seen[1]))
    runs.append(await trio.to_thread.run_sync(asyncio.run, under_asyncio(seen[2])))

    assert [one.came_of(run) for one, run in zip(seen, runs, strict=True)] == [end] * 3
    assert [one.asked for one in seen] == [asked] * 3
    chain = ["pre_tool_use", "permission_request", "pre_tool_use"][: len(answers)]
    judged = [params["event"] for params in fired if params["event"] in chain]
    assert judged == chain * 3


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
