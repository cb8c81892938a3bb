"""What ExAthena's own cases come to here: the first of the checks, and what all of them use."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from conformance.rows.exathena import ROWS
from conformance.table import Checks
from hooklatch import Decision, Session, ToolRun, connect
from support.daemons import Daemon
from support.repository import ROOT, TESTS

Check = Callable[[Daemon], Awaitable[None]]


CALLBACKS = Path(__file__).parents[1] / "callbacks"


PAGE = ROOT / "docs" / "project" / "coming-from-exathena.md"


SERVER = [sys.executable, str(TESTS / "workers/lsp" / "fake_server.py")]


EVENTS = [
    "SessionStart", "SessionEnd", "UserPromptSubmit", "PreIteration", "ChatParams", "Stop", "StopFailure",
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied", "ToolDenied",
    "SubagentStart", "SubagentStop", "PreCompact", "PreCompactStage", "PostCompact", "Notification",
]  # fmt: skip


check = Checks[Check](ROWS)


def config(*, enabled: bool = True) -> str:
    """Diagnostics by a server that finds each BAD, for files that end in .bad."""
    state = "true" if enabled else "false"
    return f"[lsp]\nenabled = {state}\ntimeout = 10.0\nservers = {{ '.bad' = {json.dumps([*SERVER, 'publish'])} }}\n"


def on(event: str, function: str, *, id: str | None = None, **rest: Any) -> dict[str, Any]:  # noqa: A002
    """A hook in a worker, in one entry of ExAthena's map of hooks; what the rest is not, is its config."""
    matcher = {"matcher": rest.pop("matcher")} if "matcher" in rest else {}
    hook = {"run": f"exathena.py:{function}", "id": id or function, "config": rest}
    return {event: [{**matcher, "hooks": [hook]}] if matcher else [hook]}


def speak(daemon: Daemon, *hooks: Any, **options: Any) -> Session:
    return connect(daemon.agent, dialect="exathena", **{"cwd": daemon.folder, **options}, hooks=hooks)


def plain(daemon: Daemon, *hooks: Any, **options: Any) -> Session:
    """A session in hooklatch's own words, for what a host does around a tool call."""
    return connect(daemon.agent, cwd=daemon.folder, hooks=hooks, **options)


def ours(event: str, function: str, **config: Any) -> dict[str, Any]:
    return {"event": event, "run": f"exathena.py:{function}", "id": function, "config": config}


async def fire(daemon: Daemon, event: str, hooks: list[Any], **payload: Any) -> Decision:
    async with speak(daemon, *hooks) as session:
        return await session.fire(event, payload=payload)


def ran(decision: Decision) -> list[str]:
    return [outcome.hook for outcome in decision.outcomes]


def told(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = (decision.context or {})["told"]
    return found


async def run(session: Session, tool: str, function: Callable[[Any], object] = lambda _: "output") -> ToolRun:
    return await session.run_tool(tool, {"path": "a", "command": "ls"}, function, tool_use_id="t-1")


def result(decision: Decision) -> Any:
    return decision.rendered["result"]


@check("XA-01")
async def a_matcher_of_two_tools(daemon: Daemon) -> None:
    hooks = [on("PreToolUse", "no", matcher="write|edit")]

    for tool in ("write", "edit", "multi_edit"):  # it searches
        assert result(await fire(daemon, "PreToolUse", hooks, tool_name=tool, path="a")) == {"deny": "not this"}
    assert result(await fire(daemon, "PreToolUse", hooks, tool_name="read", path="a")) == "ok"


@check("XA-02")
async def a_deny_ends_the_chain(daemon: Daemon) -> None:
    decision = await fire(daemon, "PreToolUse", [on("PreToolUse", "no"), on("PreToolUse", "tells")], tool_name="write")

    assert (result(decision), ran(decision)) == ({"deny": "not this"}, ["no"])
    assert "finish_reason" not in decision.rendered


@check("XA-03")
async def a_deny_and_a_halt_after_a_tool(daemon: Daemon) -> None:
    served = ("PostToolUse", lambda _: {"deny": "too late"}, {"id": "served"})
    denied = [await fire(daemon, "PostToolUse", [hook], tool_name="t") for hook in (served, on("PostToolUse", "no"))]
    halted = await fire(daemon, "PostToolUse", [on("PostToolUse", "halts")], tool_name="t")

    assert [result(decision) for decision in denied] == ["ok", "ok"]
    assert result(halted) == {"halt": "stop here"}
    assert halted.rendered["finish_reason"] == "error_halted"


@check("XA-04")
async def a_flat_list(daemon: Daemon) -> None:
    decision = await fire(daemon, "Stop", [{"Stop": ["exathena.py:fine"]}], finish_reason="stop")

    assert ran(decision) == ["exathena:fine"]


@check("XA-05")
async def a_crash(daemon: Daemon) -> None:
    hooks = [{"PreToolUse": [{"hooks": [{"run": "exathena.py:crash", "id": "crash"}]}]}]
    decision = await fire(daemon, "PreToolUse", hooks, tool_name="write")

    assert result(decision)["deny"].startswith("hook crashed (fail-safe deny): session:")
    assert "/crash: RuntimeError: broken" in result(decision)["deny"]
    assert (decision.cause, "finish_reason" in decision.rendered) == ("crash", False)


def augmented(expected: object, *texts: str) -> Check:
    async def augments(daemon: Daemon) -> None:
        by_workers = [on("PostToolUse", "augments", id=str(n), text=text) for n, text in enumerate(texts)]
        by_client = [
            ("PostToolUse", lambda _, text=text: {"augment": text}, {"id": str(n)}) for n, text in enumerate(texts)
        ]
        for hooks in (by_workers, by_client):
            assert result(await fire(daemon, "PostToolUse", hooks, tool_name="t", result="out")) == expected

    return augments


check |= {
    "XA-06": augmented({"augment": "text"}, "text"),
    "XA-07": augmented({"augment": "first\nsecond"}, "first", "second"),
    "XA-08": augmented("ok", ""),
}


@check("XA-09")
async def a_halt_after_an_augment(daemon: Daemon) -> None:
    hooks = [on("PostToolUse", "augments", text="text"), on("PostToolUse", "halts")]

    assert result(await fire(daemon, "PostToolUse", hooks, tool_name="t")) == {"halt": "stop here"}


@check("XA-10")
async def an_augment_with_a_matcher(daemon: Daemon) -> None:
    hooks = [on("PostToolUse", "augments", matcher="^(Edit|Write)$", text="text")]

    assert result(await fire(daemon, "PostToolUse", hooks, tool_name="Read")) == "ok"
    assert result(await fire(daemon, "PostToolUse", hooks, tool_name="Edit")) == {"augment": "text"}


@check("XA-11")
async def every_event(daemon: Daemon) -> None:
    for event in EVENTS:
        decision = await fire(daemon, event, [on(event, "tells")], tool_name="t")
        assert (result(decision), ran(decision)) == ("ok", ["tells"]), event

    assert len(EVENTS) == 19


@check("XA-12")
async def a_clean_run(daemon: Daemon) -> None:
    assert await at_the_end(daemon, "Stop", "stop") == ["Stop", "SessionEnd"]


@check("XA-13")
async def a_run_that_is_cut_short(daemon: Daemon) -> None:
    assert await at_the_end(daemon, "StopFailure", "error_max_turns") == ["StopFailure", "SessionEnd"]


async def at_the_end(daemon: Daemon, event: str, finish_reason: str) -> list[str]:
    """Fire what a host fires at the end of a run; give the hooks that ran, each named after its event."""
    hooks = [on(name, "tells", id=name) for name in ("Stop", "StopFailure", "SessionEnd")]
    async with speak(daemon, *hooks) as session:
        decisions = [
            await session.fire(name, payload={"finish_reason": finish_reason, "result": "r"})
            for name in (event, "SessionEnd")
        ]
    assert [told(decision)["finish_reason"] for decision in decisions] == [finish_reason] * 2
    return [hook for decision in decisions for hook in ran(decision)]


@check("XA-14")
async def a_transformed_prompt(daemon: Daemon) -> None:
    hooks = [on("UserPromptSubmit", "expands_macros"), on("UserPromptSubmit", "tells")]
    decision = await fire(daemon, "UserPromptSubmit", hooks, prompt="/deploy")

    assert result(decision) == {"transform": "Deploy the staging branch."}
    assert decision.rendered["outputs"]["transform"] == "Deploy the staging branch."
    assert told(decision)["prompt"] == "Deploy the staging branch."

    hooks = [on("UserPromptSubmit", "tells"), on("UserPromptSubmit", "adds_the_ticket")]
    decision = await fire(daemon, "UserPromptSubmit", hooks, prompt="go on")

    assert result(decision) == {"transform": "For ENG-1234: go on"}
    assert told(decision)["prompt"] == "For ENG-1234: go on"


def injected(event: str, **payload: Any) -> Check:
    message = {"role": "system", "content": "Current ticket: ENG-1234", "name": "ticket-context"}

    async def injects(daemon: Daemon) -> None:
        served = (event, lambda _: {"inject": message}, {"id": "served"})
        for hook in (on(event, "injects"), served):
            decision = await fire(daemon, event, [hook], **payload)
            assert result(decision) == {"inject": [message]}
            assert decision.rendered["outputs"]["injects"] == [message]

    return injects


check |= {
    "XA-15": injected("UserPromptSubmit", prompt="hello"),
    "XA-16": injected("ChatParams", request={"model": "m-1"}, messages=[]),
    "XA-20": injected("PreIteration", iteration=0, unproductive_iterations=0, fingerprint=[]),
}


@asynccontextmanager
async def refusals(daemon: Daemon) -> AsyncGenerator[Callable[[], Awaitable[dict[str, Any]]]]:
    """Listen to what the daemon fires after a refusal, which nobody waits for."""
    send, receive = trio.open_memory_channel[dict[str, Any]](10)

    async def denied(event: Any) -> None:
        await send.send(event.payload)

    async def heard() -> dict[str, Any]:
        with trio.fail_after(10):
            return await receive.receive()

    hooks = [on("PreToolUse", "no"), ("PermissionDenied", denied, {"id": "denied"})]
    async with speak(daemon, *hooks) as session:
        await session.fire("PreToolUse", payload={"tool_name": "bash", "tool_use_id": "t-1", "command": "ls"})
        yield heard


@check("XA-17")
async def a_refused_tool(daemon: Daemon) -> None:
    async with refusals(daemon) as heard:
        payload = await heard()

    assert payload == {
        "tool_name": "bash", "tool_use_id": "t-1", "arguments": {"command": "ls"}, "reason": "not this",
        "denial": {"code": "policy"},
    }  # fmt: skip


@check("XA-18")
async def a_failed_tool(daemon: Daemon) -> None:
    hooks = [on("PostToolUseFailure", "tells")]
    decision = await fire(
        daemon, "PostToolUseFailure", hooks, tool_name="bash", tool_use_id="t-1", reason="no such file"
    )

    assert (told(decision)["tool_name"], told(decision)["error"]) == ("bash", "no such file")


def iteration(number: int, unproductive: int = 0) -> dict[str, Any]:
    return {"iteration": number, "unproductive_iterations": unproductive, "fingerprint": []}


@check("XA-19")
async def three_iterations(daemon: Daemon) -> None:
    async with speak(daemon, on("PreIteration", "tells")) as session:
        decisions = [await session.fire("PreIteration", payload=iteration(number)) for number in range(3)]

    found = [(told(one)["iteration"], told(one)["unproductive_iterations"]) for one in decisions]
    assert found == [(0, 0), (1, 0), (2, 0)]


@check("XA-21")
async def a_halt_at_an_iteration(daemon: Daemon) -> None:
    async with speak(daemon, on("PreIteration", "halts_at_one")) as session:
        decisions = [await session.fire("PreIteration", payload=iteration(number)) for number in range(2)]

    assert [result(one) for one in decisions] == ["ok", {"halt": "enough"}]
    assert decisions[1].rendered["finish_reason"] == "error_halted"


@check("XA-22")
async def a_run_that_goes_on(daemon: Daemon) -> None:
    async with speak(daemon, on("PreIteration", "fine"), on("Stop", "tells")) as session:
        first = await session.fire("PreIteration", payload=iteration(0))
        last = await session.fire("Stop", payload={"finish_reason": "stop"})

    assert (result(first), result(last), told(last)["finish_reason"]) == ("ok", "ok", "stop")


@check("XA-23")
async def a_stalled_run(daemon: Daemon) -> None:
    async with speak(daemon, on("PreIteration", "halts_when_stalled")) as session:
        decisions = [
            await session.fire("PreIteration", payload=iteration(number, unproductive))
            for number, unproductive in enumerate((0, 0, 1, 2))
        ]

    assert [result(one) for one in decisions] == ["ok", "ok", "ok", {"halt": "stalled"}]
    assert decisions[3].rendered["finish_reason"] == "error_halted"


@check("XA-24")
async def output_and_augment(daemon: Daemon) -> None:
    async with plain(daemon, ours("post_tool_use", "augments", text="formatted?")) as session:
        done = await run(session, "edit")

    assert done.as_tool_result() == {"type": "tool_result", "tool_use_id": "t-1", "content": "output\n\nformatted?"}


@check("XA-25")
async def output_alone(daemon: Daemon) -> None:
    async with plain(daemon, ours("post_tool_use", "fine")) as session:
        assert (await run(session, "edit")).content == "output"


@check("XA-26")
async def what_is_told_after_a_tool(daemon: Daemon) -> None:
    payload = {"tool_name": "edit", "arguments": {"path": "a"}, "cwd": "/w", "result": {"content": "output"}}
    shown: list[Any] = []
    hooks = [("PostToolUse", lambda event: shown.append(event.payload), {"id": "served"}), on("PostToolUse", "tells")]
    decision = await fire(daemon, "PostToolUse", hooks, **payload)

    assert shown == [payload]
    assert told(decision)["tool_input"] == {"path": "a"}
    assert (told(decision)["cwd"], told(decision)["tool_name"]) == ("/w", "edit")


@check("XA-27")
async def a_typed_denial(daemon: Daemon) -> None:
    denial = {"code": "user_denied", "requested_tool": "bash"}
    decision = await fire(
        daemon, "ToolDenied", [on("ToolDenied", "tells")], tool_name="bash", tool_use_id="t-1", denial=denial
    )

    assert told(decision)["denial"] == denial


@check("XA-28")
async def a_readable_denial(daemon: Daemon) -> None:
    served = ("pre_tool_use", lambda _: None, {"id": "other"})
    async with plain(daemon, served, ours("pre_tool_use", "no", reason="bash is not allowed here")) as session:
        assert (await run(session, "bash")).content == "bash is not allowed here"


@check("XA-29")
async def two_names_of_a_denial(daemon: Daemon) -> None:
    hooks = [on(event, "tells", id=event) for event in ("PermissionDenied", "ToolDenied")]

    for event in ("PermissionDenied", "ToolDenied"):
        assert ran(await fire(daemon, event, hooks, tool_name="bash")) == ["PermissionDenied", "ToolDenied"]


@check("XA-30")
async def a_subagent_of_a_guarded_parent(daemon: Daemon) -> None:
    file = daemon.folder / "written"
    async with (
        speak(daemon, on("PreToolUse", "no", matcher="write")) as parent,
        plain(daemon, parent=parent) as child,
    ):
        refused = await run(child, "write", lambda _: file.write_text("x"))
        passed = await run(child, "read")

    assert (refused.allowed, refused.content, file.exists()) == (False, "not this", False)
    assert passed.allowed


@check("XA-31")
async def a_subagent_that_may_not_start(daemon: Daemon) -> None:
    started: list[object] = []
    async with plain(daemon, {**ours("pre_tool_use", "no"), "match": "spawn_agent"}) as session:
        refused = await run(session, "spawn_agent", started.append)

    assert (refused.as_tool_result()["is_error"], refused.content, started) == (True, "not this", [])
