"""Ethos' own cases, fired in its words at a real daemon whose hooks run in real workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from conformance.examples import by_page, host_of
from conformance.rows.ethos import ROWS
from conformance.runs.ethos import (
    BUILD,
    CALL,
    CALLBACKS,
    CONFIG,
    MESSAGE,
    PAGE,
    Check,
    check,
    fire,
    hook,
    plain,
    ran,
    run,
    speak,
)
from conformance.table import Row, with_checks
from hooklatch import Session, ToolRun, connect
from support.daemons import Daemon

FILES = {"hooks.toml": CONFIG, "ethos.py": (CALLBACKS / "ethos.py").read_text()}


@pytest.mark.parametrize("row", with_checks(ROWS), ids=lambda row: row.id)
async def test_row(row: Row, daemon: Daemon) -> None:
    await check[row.id](daemon)


async def test_a_claim_that_crashes_gives_the_next_its_chance(daemon: Daemon) -> None:
    hooks = [hook("crash", "inbound_claim"), hook("claims", "inbound_claim")]
    decision = await fire(daemon, "inbound_claim", hooks, {"message": MESSAGE})

    assert decision.rendered == {"handled": True}


async def test_a_guard_that_crashes_denies_where_ethos_lets_the_call_through(daemon: Daemon) -> None:
    decision = await fire(daemon, "before_tool_call", [hook("crash"), hook("fine")], CALL)

    assert decision.rendered["error"].startswith("hook crashed (fail-safe deny): session:")
    assert ran(decision) == ["crash", "fine"]


async def test_a_guard_is_shown_what_another_hook_has_changed_where_ethos_shows_the_original(daemon: Daemon) -> None:
    amender = hook("amends", tool_input={"command": "rm -rf /"})
    decision = await fire(daemon, "before_tool_call", [amender, hook("guards_the_terminal")], CALL)

    assert decision.rendered == {"error": "Blocked: 'rm -rf /' matches a dangerous pattern."}


async def test_an_empty_error_refuses_where_ethos_takes_it_for_none(daemon: Daemon) -> None:
    served = ("before_tool_call", lambda _: {"error": ""}, {"id": "empty"})
    decision = await fire(daemon, "before_tool_call", [served], CALL)

    assert (decision.verdict, decision.rendered) == ("deny", {"error": "hook session/empty gave no reason"})


async def test_changed_arguments_are_the_ones_to_run(daemon: Daemon) -> None:
    decision = await fire(daemon, "before_tool_call", [hook("amends", tool_input={"command": "ls -l"})], CALL)

    assert decision.rendered == {"args": {"command": "ls -l"}}


@check("ET-30")
async def a_message_without_a_handler(daemon: Daemon) -> None:
    assert (await fire(daemon, "before_dispatch", [], MESSAGE)).rendered == {"handled": False}


@check("ET-31")
async def six_fields(daemon: Daemon) -> None:
    shown: list[Any] = []
    hooks = [("before_dispatch", lambda event: shown.append(event.payload), {"id": "served"})]
    await fire(daemon, "before_dispatch", hooks, MESSAGE)

    assert shown == [MESSAGE]


def told_of(exit_code: int) -> Check:
    ended = {"processId": "p", "sessionId": "s", "sessionKey": "k", "exitCode": exit_code, "stdout": "out"}
    ended |= {"stderr": "err", "durationMs": 12.5}

    async def tells(daemon: Daemon) -> None:
        async with plain(daemon, hook("tells", "process_complete")) as session:
            decision = await session.fire("process_complete", payload=ended)

        assert (decision.context, ran(decision)) == ({"told": ended}, ["tells"])

    return tells


check |= {"ET-32": told_of(0), "ET-34": told_of(3)}


def verified(summary: str, *functions: str, verdict: str, reason: str | None = None) -> Check:
    async def verifies(daemon: Daemon) -> None:
        hooks = [hook(function, "before_ticket_complete") for function in functions]
        async with plain(daemon, *hooks) as session:
            decision = await session.fire("before_ticket_complete", summary=summary)

        assert (decision.verdict, decision.reason) == (verdict, reason)

    return verifies


check |= {
    "ET-35": verified("half of it", "verifies", verdict="deny", reason="the criteria are not met"),
    "ET-36": verified("tests pass", "verifies", verdict="pass"),
    "ET-39": verified("half of it", verdict="pass"),
}


@check("ET-38")
async def no_daemon(daemon: Daemon) -> None:
    async with connect(daemon.folder / "nobody.sock") as session:
        decision = await session.fire("before_ticket_complete", summary="tests pass")

    assert (decision.verdict, decision.cause) == ("deny", "no_daemon")


def llm_call(event: str, **more: Any) -> Check:
    sent = {"sessionId": "s", "model": "m-1", "turnNumber": 1, "requestId": "3f6c1b2e-8d0a-4a53-9a67-1f0d5b0a9c11"}
    sent |= {"system": "be brief", "tools": [{"name": "terminal"}], "messages": [{"role": "user", "content": "hi"}]}
    sent |= more

    async def shows(daemon: Daemon) -> None:
        shown: list[Any] = []
        hooks = [(event, lambda call: shown.append(call.payload), {"id": "served"}), hook("tells", event)]
        decision = await fire(daemon, event, hooks, sent)

        assert shown == [sent]
        told = (decision.context or {})["told"]
        assert (told["model_id"], told["system"], told["request_id"]) == ("m-1", "be brief", sent["requestId"])

    return shows


check |= {
    "ET-46": llm_call("before_llm_call"),
    "ET-47": llm_call("after_llm_call", finishReason="end_turn", durationMs=0.5, usage={"inputTokens": 1}),
}


@check("ET-48")
async def two_tools_at_once(daemon: Daemon) -> None:
    shown: dict[str, float] = {}

    def note(event: Any) -> None:
        shown[event.payload["toolName"]] = event.payload["durationMs"]

    async with speak(daemon, ("after_tool_call", note, {"id": "note"})) as session, trio.open_nursery() as nursery:
        for tool, duration in (("fast", 1.0), ("slow", 90.0)):
            payload = {"toolName": tool, "result": "ok", "durationMs": duration}
            nursery.start_soon(lambda payload: session.fire("after_tool_call", payload=payload), payload)

    assert shown == {"fast": 1.0, "slow": 90.0}


def origin(payload: dict[str, Any]) -> Check:
    async def shows(daemon: Daemon) -> None:
        shown: list[Any] = []
        hooks = [("before_tool_call", lambda event: shown.append(event.payload), {"id": "served"})]
        await fire(daemon, "before_tool_call", hooks, payload)

        assert shown == [payload]

    return shows


check |= {"ET-49": origin({**CALL, "voiceOrigin": {"device": "phone"}}), "ET-50": origin(CALL)}


async def approved(daemon: Daemon, command: str, answer: object, *hooks: Any) -> tuple[ToolRun, list[Any]]:
    """Run a command whose dangers a hook asks about; give the run, and what the person was asked."""
    asked: list[Any] = []

    def person(question: Any) -> object:
        asked.append(question)
        return answer

    async with plain(daemon, hook("asks_about_rm", "pre_tool_use"), *hooks) as session:
        return await run(session, command=command, permission=person, only_on_ask=True), asked


@check("ET-51")
async def a_safe_command(daemon: Daemon) -> None:
    done, asked = await approved(daemon, "ls", "never")

    assert (done.allowed, done.result, asked) == (True, "done", [])


@check("ET-52", "ET-54")
async def a_dangerous_command_is_approved(daemon: Daemon) -> None:
    done, asked = await approved(daemon, "rm a", True)

    assert (done.allowed, done.result) == (True, "done")
    assert [question.reason for question in asked] == ["it deletes files"]


@check("ET-53")
async def a_dangerous_command_is_not_approved(daemon: Daemon) -> None:
    done, _ = await approved(daemon, "rm a", "not today")

    assert (done.allowed, done.content) == (False, "not today")
    assert ("ask", "it deletes files") in [(one.verdict, one.reason) for one in done.decisions]


@check("ET-55")
async def a_dangerous_command_on_the_list(daemon: Daemon) -> None:
    listed = hook("knows_the_list", "permission_request", allowed=["rm a"])
    done, asked = await approved(daemon, "rm a", "never", listed)

    assert (done.allowed, asked) == (True, [])


async def test_the_pages_hooks_do_what_ethos_own_examples_do(daemon: Daemon) -> None:
    named = by_page(PAGE, daemon)
    hooks = [
        named("agent_done", "count_turns"),
        named(BUILD, "say_the_day"),
        named("before_tool_call", "guard_the_terminal"),
        named("inbound_claim", "take_telegram"),
    ]
    async with speak(daemon, *hooks, session_id="page") as session:
        done = await session.fire("agent_done", text="done", turnCount=3)
        built = await session.fire(BUILD, history=[])
        blocked = await session.fire("before_tool_call", toolName="terminal", args={"command": "rm -rf /"})
        claimed = await session.fire("inbound_claim", message=MESSAGE)

    assert done.outcomes[0].stdout == "turn_completed page 3\n"
    assert built.rendered["prependSystem"].startswith("Today is ")
    assert blocked.rendered == {"error": "Blocked: 'rm -rf /' is dangerous."}
    assert claimed.rendered == {"handled": True, "adapter": "telegram", "chat": "c"}


async def test_the_pages_host_runs_what_is_allowed_and_nothing_else(daemon: Daemon) -> None:
    call_tool = host_of(PAGE, 1)["call_tool"]
    called: list[Any] = []

    async def tool(args: Any) -> str:
        called.append(args)
        return "listed"

    async with speak(daemon, hook("guards_the_terminal"), hook("amends", tool_input={"command": "ls -l"})) as session:
        done = await call_tool(session, "t-1", "terminal", {"command": "ls"}, tool)
    async with speak(daemon, hook("guards_the_terminal")) as session:
        refused = await call_tool(session, "t-2", "terminal", {"command": "rm -rf /"}, tool)

    assert done == {"type": "tool_result", "tool_use_id": "t-1", "content": "listed"}
    assert (refused["is_error"], called) == (True, [{"command": "ls -l"}])


async def test_the_pages_host_declares_its_gate_and_serves_a_claim(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKLATCH_RUNTIME_DIR", str(Path(daemon.agent).parent))
    found: list[Any] = []

    async def loop(session: Session, _: object) -> None:
        found.append((await session.fire("inbound_claim", message={**MESSAGE, "platform": "cli"})).rendered)
        found.append((await session.fire("before_tool_call", payload=CALL)).cause)

    await host_of(PAGE, 1)["main"](loop)

    assert found == [{"handled": True}, "load"]
