"""Calls of a real daemon that did not run as judged: on record, red until they are acknowledged, and an event."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.service.dispatch.call_watch import MAX_ASKED
from support.daemons import Client, Daemon, running_daemon

GUARDS = """
from pathlib import Path
from hooklatch import amend, deny, hook

@hook("pre_tool_use")
def guard(event):
    if event.tool_input.get("command") == "rm":
        return deny("no rm")
    if event.tool_input.get("command") == "mv":
        return amend(tool_input={"command": "mv -n"})

@hook("call_mismatch", match="overruled")
def tell(event):
    with Path(__file__).with_name("told").open("a") as file:
        file.write(f"{event.cause} {event.tool_name} {event.tool_input['command']}\\n")
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}
HALTING = {**FILES, "hooks.toml": f'{FILES["hooks.toml"]}\n[daemon]\non_overruled = "halt"\n'}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


async def report(
    daemon: Daemon, event: str, call_id: str, command: str = "", *, session: str = "s1", tool: str = "Bash",
    tool_input: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Report one event as Claude Code does, and return what its hook process prints."""
    document = {"hook_event_name": event, "session_id": session, "tool_name": tool, "tool_use_id": call_id,
                "tool_input": tool_input or {"command": command}}  # fmt: skip
    client = daemon.connect()
    answer = await client.call("host", host="claude-code", event=event, environ={}, document=document)
    await client.aclose()
    return json.loads(answer["stdout"] or "{}").get("hookSpecificOutput", {})


async def play(daemon: Daemon, call_id: str, asked: str, ran: str, *, event: str = "PostToolUse") -> None:
    await report(daemon, "PreToolUse", call_id, asked)
    await report(daemon, event, call_id, ran)


async def causes(admin: Client, *, kind: str = "fault") -> list[str]:
    return [entry["cause"] for entry in (await admin.call("log", kind=kind))["records"] if "cause" in entry]


async def calls_of(admin: Client) -> dict[str, Any]:
    (session,) = (await admin.call("sessions"))["reported"]
    return session["calls"]


async def test_what_runs_as_judged_says_nothing(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        await play(daemon, "1", "ls", "ls")
        await play(daemon, "2", "mv", "mv -n")
        await play(daemon, "3", "false", "false", event="PostToolUseFailure")
        await report(daemon, "PostToolUseFailure", "4", "a tool that there is not")

        assert (await admin.call("status"))["health"] == "green"
        assert await calls_of(admin) == {"ran": 4, "asked": 4, "as_judged": 4}
        assert not await causes(admin)


async def test_what_ran_otherwise_is_red_until_it_is_acknowledged(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        await play(daemon, "1", "rm", "rm")
        await play(daemon, "2", "mv", "mv")
        await play(daemon, "3", "ls", "rm", event="PostToolUseFailure")
        await report(daemon, "PostToolUse", "4", "ls")

        status = await admin.until_status(lambda status: len(status["wrong"]) == 4)
        assert {finding["reason"] for finding in status["wrong"]} == {"calls"}
        assert (await admin.call("health"))["health"] == "red"
        assert sorted(await causes(admin)) == ["altered", "altered", "overruled", "unasked"]
        assert await calls_of(admin) == {
            "ran": 4, "asked": 3, "as_judged": 0, "overruled": 1, "altered": 2, "unasked": 1,
        }  # fmt: skip
        with trio.fail_after(10):
            while not (daemon.folder / "told").exists():  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.005)
        assert (daemon.folder / "told").read_text() == "overruled Bash rm\n"

        acknowledged = await admin.call("acknowledge", reason="a trial")
        assert len(acknowledged["acknowledged"]) == 4
        assert (await admin.call("status"))["health"] == "green"


async def test_an_overruled_call_names_the_decision_that_it_contradicts(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        await play(daemon, "1", "rm", "rm")

        (fault,) = (await admin.call("log", cause="overruled"))["records"]
        (denied,) = (await admin.call("log", decision_id=fault["contradicts"]))["records"]
        assert (denied["verdict"], denied["call_id"], fault["session"]) == ("deny", "1", "s1")


async def test_it_stays_red_and_a_call_between_is_no_alarm_after_a_restart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon:
        await play(daemon, "1", "rm", "rm")
        await report(daemon, "PreToolUse", "2", "ls")
        await report(daemon, "PreToolUse", "3", "rm")

    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await report(daemon, "PostToolUse", "2", "ls")
        await report(daemon, "PostToolUse", "3", "rm")
        await report(daemon, "PostToolUse", "4", "ls")

        status = await admin.until_status(lambda status: len(status["wrong"]) == 3)
        assert [finding["what"].partition(":")[0] for finding in status["wrong"]].count("overruled") == 2
        assert sorted(await causes(admin)) == ["overruled", "overruled", "unasked"]


async def tell_gemini(daemon: Daemon, event: str, command: str) -> None:
    """Report one event as Gemini CLI does, which gives calls no ids."""
    document = {"hook_event_name": event, "session_id": "s1", "tool_name": "shell", "tool_input": {"command": command}}
    client = daemon.connect()
    await client.call("host", host="gemini", event=event, environ={}, document=document)
    await client.aclose()


async def test_a_call_that_our_own_hook_changed_is_no_alarm_after_a_restart_where_calls_have_no_ids(
    tmp_path: Path,
) -> None:
    async with running_daemon(tmp_path, FILES) as daemon:
        await tell_gemini(daemon, "BeforeTool", "mv")

    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await tell_gemini(daemon, "AfterTool", "mv -n")
        await tell_gemini(daemon, "AfterTool", "rm -n")

        status = await admin.until_status(lambda status: bool(status["wrong"]))
        assert [finding["what"].partition(" ran")[0] for finding in status["wrong"]] == ["unasked: shell"]
        assert await calls_of(admin) == {"ran": 2, "asked": 1, "as_judged": 1, "unasked": 1}


async def test_calls_of_before_a_restart_are_not_taken_for_those_that_were_asked_since(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon:
        await tell_gemini(daemon, "BeforeTool", "ls")
        await tell_gemini(daemon, "BeforeTool", "rm")

    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        for command in ("pwd", "whoami", "date"):
            await tell_gemini(daemon, "BeforeTool", command)
        for command in ("ls", "rm", "pwd", "cat"):
            await tell_gemini(daemon, "AfterTool", command)

        status = await admin.until_status(lambda status: len(status["wrong"]) > 1)
        assert sorted(finding["what"].partition(":")[0] for finding in status["wrong"]) == ["altered", "overruled"]
        assert await calls_of(admin) == {"ran": 4, "asked": 4, "as_judged": 2, "altered": 1, "overruled": 1}


async def test_what_a_person_answered_in_the_agents_dialog_is_no_alarm(daemon: Daemon) -> None:
    questions = {"questions": [{"question": "which?", "options": [{"label": "red"}]}]}
    answered = {**questions, "answers": {"which?": "red"}, "annotations": {}}
    async with daemon.administrator() as admin:
        for call_id, ran in (("1", answered), ("2", {**answered, "questions": []})):
            for event, tool_input in (("PreToolUse", questions), ("PostToolUse", ran)):
                await report(daemon, event, call_id, tool="AskUserQuestion", tool_input=tool_input)

        assert await calls_of(admin) == {"ran": 2, "asked": 2, "as_judged": 1, "altered": 1}


async def test_what_claude_code_works_out_of_a_message_before_it_asks_is_no_alarm(daemon: Daemon) -> None:
    sent = {"to": "x", "summary": "z", "message": "y"}
    shown = {**sent, "type": "message", "recipient": "x", "recipient_kind": "name", "content": "y"}
    async with daemon.administrator() as admin:
        for call_id, asked, ran in (
            ("1", shown, sent),
            ("2", shown, {**sent, "to": "z"}),
            ("3", {**shown, "command": "mv"}, {"command": "mv -n"}),
        ):
            for event, tool_input in (("PreToolUse", asked), ("PostToolUse", ran)):
                await report(daemon, event, call_id, tool="SendMessage", tool_input=tool_input)

        assert await calls_of(admin) == {"ran": 3, "asked": 3, "as_judged": 2, "altered": 1}


async def test_a_session_with_an_overruled_call_is_halted_where_that_is_set(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, HALTING) as daemon:
        await play(daemon, "1", "rm", "rm")

        assert (await report(daemon, "PreToolUse", "2", "ls"))["permissionDecision"] == "deny"
        assert "permissionDecision" not in await report(daemon, "PreToolUse", "1", "ls", session="another")

    async with running_daemon(tmp_path, HALTING) as daemon, daemon.administrator() as admin:
        said = await report(daemon, "PreToolUse", "3", "ls")
        assert said["permissionDecision"] == "deny"
        assert "ran although it was refused" in said["permissionDecisionReason"]

        await admin.call("acknowledge", reason="a trial")
        assert "permissionDecision" not in await report(daemon, "PreToolUse", "4", "ls")


async def test_a_client_that_only_logs_raises_no_alarm(daemon: Daemon) -> None:
    async with daemon.administrator() as admin, daemon.session(id="logger") as client:
        for call_id in ("1", "2"):
            payload = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
            await client.call("fire", event="post_tool_use", call_id=call_id, payload=payload)

        assert (await admin.call("status"))["health"] == "green"


async def test_calls_whose_clients_left_are_not_held_without_end(daemon: Daemon) -> None:
    await report(daemon, "PreToolUse", "1", "ls")
    calls = daemon.parts.dispatcher.call_watch
    ((fire, _),) = calls._asked

    for _ in range(MAX_ASKED):
        calls.note(fire, None)

    assert len(calls._asked) < MAX_ASKED
