"""Asks that wait for a person, in a real daemon: who answers, what is recorded, and each way in which one ends."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.asks import MAX_ASKS
from hooklatch.core.protocol import MAX_FRAME
from hooklatch.record.verify import verify_record
from hooklatch.service.config.configuration import TABLES, ConfigError, read_config
from hooklatch.service.dispatch.shown_asks import SHOWN
from support.daemons import Client, Daemon, RpcFailure, nothing_can_be_written, running_daemon
from support.tables import table

GUARDS = """
from hooklatch import amend, ask, deny, hook

@hook("pre_tool_use", match=["Bash", "Both"], priority=300)
def careful(event):
    if "rewrite" in event.tool_input.get("command", ""):
        return ask("rewritten").amend(tool_input={"command": "safe", "api_key": "sk-abcdefghijklmnopqrstuvwx"})
    return ask("is that wise?")

@hook("pre_tool_use", match="Both", priority=200)
def careful_too(event):
    return ask("and that?")

@hook("pre_tool_use", match="Bash", priority=100)
def strict(event):
    if "never" in event.tool_input.get("command", ""):
        return deny("never")

@hook("user_prompt_submit")
def prompts(event):
    return ask("may it say that?").warn("a warning")
"""
CONFIG = """
[ask]
wait = {wait}

[[source]]
path = "guards.py"
"""


@asynccontextmanager
async def daemon_with(folder: Path, wait: str) -> AsyncGenerator[Daemon]:
    async with running_daemon(folder, {"hooks.toml": CONFIG.format(wait=wait), "guards.py": GUARDS}) as daemon:
        yield daemon


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with daemon_with(tmp_path, "300") as daemon:
        yield daemon


@asynccontextmanager
async def person(daemon: Daemon) -> AsyncGenerator[Client]:
    async with daemon.administrator() as admin:
        await admin.call("subscribe", topics=["asks"])
        yield admin


async def opened(admin: Client) -> dict[str, Any]:
    with trio.fail_after(30):
        return (await admin.announcement())["opened"]


async def closed(admin: Client) -> dict[str, Any]:
    with trio.fail_after(30):
        return (await admin.announcement())["closed"]


async def answer(admin: Client, ask: dict[str, Any], verdict: str = "allow", **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"reason": "looks fine", "by": "tom", **more}
    return await admin.call("answer_ask", id=ask["id"], verdict=verdict, **said)


def records(daemon: Daemon, kind: str) -> list[dict[str, Any]]:
    lines = [line for path in sorted((daemon.folder / "state" / "record").glob("*.jsonl"))
             for line in path.read_text().splitlines()]  # fmt: skip
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


async def test_a_persons_yes_lets_exactly_this_payload_run(daemon: Daemon) -> None:
    async with person(daemon) as admin, daemon.session(id="s-1", host="mine", cwd="/srv/app") as client:
        number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Both", "tool_input": {}})
        ask = await opened(admin)
        assert (await admin.call("asks"))["asks"] == [ask]
        assert ask["cwd"] == "/srv/app"
        assert (ask["session_id"], ask["host"], ask["event"], ask["tool"]) == ("s-1", "mine", "pre_tool_use", "Both")
        assert (ask["hook"], ask["reason"]) == ("global/guards:careful", "is that wise?")
        assert ask["questions"][1] == {"hook": "global/guards:careful_too", "reason": "and that?"}
        with pytest.raises(RpcFailure, match="is about the payload"):
            await answer(admin, ask, payload_digest="0" * 64)

        told = (await answer(admin, ask, payload_digest=ask["payload_digest"]))["closed"]

        decision = await client.answer_to(number)
        assert (decision["verdict"], decision["cause"], decision["hook"]) == ("allow", "policy", "guards:careful")
        assert decision["decision_id"] == ask["id"]
        assert decision["reason"] == "allowed by tom: looks fine (global/guards:careful asked: is that wise?)"
        assert decision["payload_digest"] == ask["payload_digest"]
        assert (told["uid"], told["pid"]) == (os.getuid(), os.getpid())
        assert await closed(admin) == {"id": ask["id"], "verdict": "allow", "by": "tom", "reason": "looks fine",
                                       "cause": "policy"}  # fmt: skip
        assert (await admin.call("asks"))["asks"] == []
        with pytest.raises(RpcFailure, match="is over: allowed by tom: looks fine"):
            await answer(admin, ask, "deny")
    first, last = records(daemon, "ask")
    assert (first["action"], first["decision_id"], first["session"]) == ("opened", ask["id"], "s-1")
    assert (last["action"], last["verdict"], last["by"]) == ("closed", "allow", "tom")
    assert (last["uid"], last["pid"], last["reason"]) == (os.getuid(), os.getpid(), "looks fine")
    (decided,) = records(daemon, "decision")
    assert (decided["verdict"], decided["decision_id"]) == ("allow", ask["id"])
    assert not verify_record(str(daemon.folder / "state" / "record")).findings


async def test_an_ask_its_decision_and_its_record_name_the_same_subject_without_secrets(daemon: Daemon) -> None:
    command = "deploy --to prod\x1b[2J --token=ghp_" + "a1B2" * 9
    async with person(daemon) as admin, daemon.session() as client:
        await admin.call("subscribe", topics=["decisions"])
        payload = {"tool_name": "Both", "tool_kind": "shell", "tool_input": {"command": command}}
        number = await client.send("fire", event="pre_tool_use", payload=payload)
        ask = await opened(admin)
        await answer(admin, ask)
        await client.answer_to(number)
        log = (await admin.call("log", limit=100))["records"]
        announced = [one["subject"] for one in admin.announcements if one["topic"] == "decisions"]

    assert ask["subject"].startswith(r"deploy --to prod\x1b[2J --token=[redacted]")
    assert announced == [ask["subject"]]
    assert [one["subject"] for one in log if "subject" in one] == [ask["subject"]] * 2


async def test_as_many_asks_as_can_wait_fit_into_one_answer(daemon: Daemon) -> None:
    """Hooks of clients ask too: what they write must neither keep a person from answering, nor hide what guards ask."""
    hook = {"event": "user_prompt_submit", "served": True, "priority": 900}
    payload = {"prompt": '"' * 2**15, "tool_name": "\x01" * 2**15}
    async with person(daemon) as admin, daemon.session() as client:
        await client.call("register", hooks=[{**hook, "id": f"h-{number}"} for number in range(30)])
        folder = {"cwd": "/" + "\x01" * 4000}
        await client.send("fire", event="user_prompt_submit", payload=payload, envelope=folder)
        for _ in range(30):
            while "method" not in (asked := await client.read() or {}):
                pass
            said = {"verdict": "ask", "reason": "\x01" * 10_000}
            await client.send_line({"jsonrpc": "2.0", "id": asked["id"], "result": said})

        ask = await opened(admin)

    assert (ask["hook"], ask["reason"]) == ("global/guards:prompts", "may it say that?")
    assert len(ask["questions"]) + ask["questions_omitted"] == 31
    assert ask["cwd"] == "/" + "\x01" * 499 + "…"
    assert (len(json.dumps(ask)) + 2 * SHOWN) * MAX_ASKS < MAX_FRAME  # with as much that hooks have changed


async def test_where_an_ask_ends_the_chain_all_guards_are_asked_before_a_person_is(daemon: Daemon) -> None:
    async with person(daemon) as admin:
        client = daemon.connect()
        await client.call("hello", protocol=1, dialect="beam", session={})

        refused = await client.fire_tool("Bash", command="never")
        number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {}})
        await answer(admin, await opened(admin))
        allowed = await client.answer_to(number)

        await client.aclose()
    assert (refused["verdict"], refused["reason"]) == ("deny", "never")
    assert [one["hook"] for one in allowed["outcomes"]] == ["guards:careful", "guards:strict"]
    assert (allowed["verdict"], list(allowed["rendered"])) == ("allow", ["ok"])


async def test_what_cannot_be_recorded_is_a_deny(daemon: Daemon) -> None:
    payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}
    async with person(daemon) as admin, daemon.session() as client:
        number = await client.send("fire", event="pre_tool_use", payload=payload)
        ask = await opened(admin)
        with nothing_can_be_written():
            with pytest.raises(RpcFailure, match="could not be recorded, so the ask is denied"):
                await answer(admin, ask)
            closing = await client.answer_to(number)
            opening = await client.fire_tool("Bash", command="ls")

        assert (await closed(admin))["cause"] == "audit"
        assert [(one["verdict"], one["cause"]) for one in (closing, opening)] == [("deny", "audit")] * 2
        assert (await admin.call("asks"))["asks"] == []


async def test_what_hooks_made_of_the_payload_is_what_is_shown_and_runs(daemon: Daemon) -> None:
    async with person(daemon) as admin, daemon.session() as client:
        tool_input = {"command": "rewrite me"}
        payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": tool_input}
        number = await client.send("fire", event="pre_tool_use", payload=payload)
        ask = await opened(admin)

        await answer(admin, ask)

        decision = await client.answer_to(number)
    made = {"command": "safe", "api_key": "sk-abcdefghijklmnopqrstuvwx"}
    assert decision["patch"] == {"tool_input": made}
    assert ask["excerpt"]["tool_input"]["command"] == ask["patch"]["tool_input"]["command"] == "safe"
    assert "abcdefghijklmnop" not in json.dumps(ask), "a secret is shown"
    original = hashlib.sha256(json.dumps(payload, separators=(",", ":")).encode()).hexdigest()
    assert ask["payload_digest"] != original


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [("allow", ("pass", "policy")), ("deny", ("deny", "policy"))],
)  # fmt: skip
async def test_a_no_is_a_deny_and_a_yes_where_nothing_can_be_allowed_is_a_pass(
    daemon: Daemon, verdict: str, expected: tuple[str, str]
) -> None:
    async with person(daemon) as admin, daemon.session() as client:
        number = await client.send("fire", event="user_prompt_submit", payload={"prompt": "hello"})

        await answer(admin, await opened(admin), verdict)

        decision = await client.answer_to(number)
    assert (decision["verdict"], decision["cause"]) == expected
    assert decision["warnings"] == ["a warning"]
    assert f"{verdict.replace('deny', 'deni').rstrip('y')}" in decision["reason"]


async def test_a_deny_of_another_guard_is_no_question(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire_tool("Bash", command="never")

    assert (decision["verdict"], decision["reason"]) == ("deny", "never")
    assert records(daemon, "ask") == []


async def test_no_answer_in_time_is_a_deny(tmp_path: Path) -> None:
    async with daemon_with(tmp_path, '"50ms"') as daemon, person(daemon) as admin, daemon.session() as client:
        assert client.hello["budgets"]["pre_tool_use"] == pytest.approx(15.05)  # type: ignore[attr-defined]
        decision = await client.fire_tool("Bash", command="ls")
        ask = await opened(admin)

        assert (decision["verdict"], decision["cause"], decision["retryable"]) == ("deny", "unanswered", False)
        assert "no person answered within 50 ms" in decision["reason"]
        assert (await closed(admin))["cause"] == "unanswered"
        with pytest.raises(RpcFailure, match="is over: denied: no person answered"):
            await answer(admin, ask)
        assert [one.get("cause") for one in records(daemon, "ask")] == [None, "unanswered"]


async def test_an_ask_that_nobody_waits_for_asks_no_person(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await admin.call("subscribe", topics=["decisions"])
        payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}

        await client.call("fire", event="pre_tool_use", wait=False, payload=payload)

        with trio.fail_after(30):
            assert (await admin.announcement())["decision"]["verdict"] == "ask"


async def test_a_callers_own_time_limit_ends_the_wait_first(daemon: Daemon) -> None:
    async with daemon.session() as client:
        with trio.fail_after(30):
            payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}
            decision = await client.call("fire", event="pre_tool_use", payload=payload, timeout=0.3)

    assert (decision["verdict"], decision["cause"]) == ("deny", "unanswered")


async def test_a_host_that_cannot_ask_gets_the_answer_before_its_budget_ends(daemon: Daemon) -> None:
    document = {"hook_event_name": "PreToolUse", "session_id": "c", "tool_name": "Bash", "tool_input": {"command": "x"}}
    said: dict[str, Any] = {"host": "codex", "event": "PreToolUse", "document": json.dumps(document)}
    async with person(daemon) as admin:
        client = daemon.connect()
        number = await client.send("host", **said, budget=60)
        await answer(admin, await opened(admin))
        allowed = await client.answer_to(number)
        await client.aclose()
        client = daemon.connect()
        with trio.fail_after(30):
            late = await client.call("host", **said, budget=0.4)
        await client.aclose()

    assert "deny" not in allowed["stdout"]
    assert "no person answered" in late["stdout"] + late["stderr"]


async def test_an_agent_that_can_ask_may_be_left_to_do_so(tmp_path: Path) -> None:
    document = {"hook_event_name": "PreToolUse", "session_id": "c", "tool_name": "Bash", "tool_input": {"command": "x"}}
    said: dict[str, Any] = {"event": "PreToolUse", "document": json.dumps(document)}
    async with daemon_with(tmp_path, '"1m"\nagents = "unable"') as daemon, person(daemon) as admin:
        able = daemon.connect()
        shown = await able.call("host", host="claude-code", **said)
        unable = daemon.connect()
        number = await unable.send("host", host="codex", **said)
        ask = await opened(admin)
        await answer(admin, ask)
        await unable.answer_to(number)
        await able.aclose()
        await unable.aclose()

    assert json.loads(shown["stdout"])["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert ask["host"] == "codex"


async def test_a_client_that_hangs_up_asks_no_more(daemon: Daemon) -> None:
    async with person(daemon) as admin:
        client = daemon.connect()
        await client.send("fire", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {}})
        ask = await opened(admin)

        await client.aclose()

        assert (await closed(admin))["cause"] == "abandoned"
        with pytest.raises(RpcFailure, match="its client left"):
            await answer(admin, ask)
    assert [one["decision_id"] for one in records(daemon, "abandoned")] == [ask["id"]]


async def test_a_session_that_ends_and_a_daemon_that_drains_deny_what_waits(daemon: Daemon) -> None:
    payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}
    async with person(daemon) as admin, daemon.session(id="ends") as client, daemon.session() as other:
        number = await client.send("fire", event="pre_tool_use", payload=payload)
        await opened(admin)
        await client.send("session.close")
        decision = await client.answer_to(number)
        assert (decision["verdict"], decision["cause"]) == ("deny", "unanswered")
        assert (await closed(admin))["reason"] == "its session ended before a person answered"

        number = await other.send("fire", event="pre_tool_use", payload=payload)
        await opened(admin)
        daemon.parts.dispatcher.drain()
        decision = await other.answer_to(number)
        assert (decision["verdict"], decision["cause"], decision["retryable"]) == ("deny", "draining", True)


async def test_a_session_of_before_is_answered_within_what_it_was_told(tmp_path: Path) -> None:
    async with daemon_with(tmp_path, "0") as daemon, daemon.administrator() as admin, daemon.session() as before:
        assert (await before.fire_tool("Bash", command="ls"))["verdict"] == "ask"
        daemon.write("hooks.toml", CONFIG.format(wait='"300s"'))
        await admin.call("reload")
        assert daemon.parts.asks.wait == 300
        async with daemon.session() as after:
            told = after.hello["budgets"]["pre_tool_use"]  # type: ignore[attr-defined]
        await admin.call("subscribe", topics=["asks"])

        number = await before.send("fire", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {}})

        ask = await opened(admin)
        lasts = datetime.fromisoformat(ask["expires_at"]) - datetime.fromisoformat(ask["at"])
        budget = before.hello["budgets"]["pre_tool_use"]  # type: ignore[attr-defined]
        assert lasts.total_seconds() <= budget == told - 300
        await answer(admin, ask, "deny")
        assert (await before.answer_to(number))["verdict"] == "deny"


async def test_a_broken_file_takes_no_persons_time_away(tmp_path: Path) -> None:
    async with daemon_with(tmp_path, "300"):
        pass
    async with running_daemon(tmp_path, {"hooks.toml": "[ask\n"}) as daemon:
        assert daemon.parts.asks.wait == 300


@table(
    "text, fault",
    [
        ("wait = -1", "wait"),
        ("wait = 601", "wait"),
        ('wait = "11m"', "wait must be at most 600 s"),
        ('wait = "soon"', "'soon' is not a duration"),
        ("wait = nan", "wait"),
        ("wait = true", "wait"),
        ('agents = "some"', "agents"),
        ("time = 60", "time"),
    ],
)
def test_a_wait_that_is_none_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        read_config("/etc/hooks.toml", f"[ask]\n{text}\n".encode())


def test_only_the_main_file_says_how_long_an_ask_waits() -> None:
    with pytest.raises(ConfigError, match="main hooks"):
        read_config("/etc/hooks.d/a.toml", b"[ask]\nwait = 60\n", TABLES)


async def test_an_agent_neither_sees_nor_answers_asks(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for method, params in (
            ("asks", {}),
            ("answer_ask", {"id": "x", "verdict": "allow", "reason": "me", "by": "me"}),
            ("subscribe", {"topics": ["asks"]}),
        ):
            with pytest.raises(RpcFailure) as refused:
                await client.call(method, **params)
            assert refused.value.name == "not_admin"


async def test_too_many_asks_of_one_session_are_denied(daemon: Daemon) -> None:
    payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}
    async with person(daemon) as admin, daemon.session() as client:
        for _ in range(16):
            await client.send("fire", event="pre_tool_use", payload=payload)
            await opened(admin)

        decision = await client.fire_tool("Bash", command="one more")

        assert (decision["verdict"], decision["cause"]) == ("deny", "overload")
        async with daemon.session() as other:
            await other.send("fire", event="pre_tool_use", payload=payload)
            await opened(admin)
            assert len((await admin.call("asks"))["asks"]) == 17


async def test_whoever_takes_all_places_makes_room_for_others(daemon: Daemon) -> None:
    payload: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}
    async with person(daemon) as admin, AsyncExitStack() as stack:
        strangers: list[Client] = []
        for _ in range(16):
            strangers.append(daemon.connect())  # here, as one that says nothing for 2 s is closed
            await strangers[-1].send("fire", event="pre_tool_use", payload=payload)
            await opened(admin)
        strangers.append(daemon.connect())
        refused = await strangers[16].fire_tool("Bash", command="one more without a name")
        for size in (16, 16, 16, 16, 16, 4):
            busy = await stack.enter_async_context(daemon.session())
            for _ in range(size):
                await busy.send("fire", event="pre_tool_use", payload=payload)
                await opened(admin)
        other = await stack.enter_async_context(daemon.session())
        number = await other.send("fire", event="pre_tool_use", payload=payload)

        ended = await closed(admin)
        asked = await opened(admin)
        await answer(admin, asked)

        assert (await other.answer_to(number))["verdict"] == "allow"
        assert (refused["cause"], ended["verdict"], ended["cause"]) == ("overload", "deny", "overload")
        assert "16 asks that name no session" in refused["reason"]
        assert "worker" not in refused["reason"]
        for one in strangers:
            await one.aclose()


async def test_requests_that_wait_for_a_person_slow_nobody_down(daemon: Daemon) -> None:
    admission, payload = daemon.parts.shared.admission, {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    clients = [daemon.connect() for _ in range(3)]
    async with person(daemon) as admin, daemon.session() as client:
        for one in (client, *clients):
            await one.send("fire", event="pre_tool_use", payload=payload)
            await opened(admin)

        counted = admission.in_flight, admission.strangers.in_flight

        for one in clients:
            await one.aclose()
            await closed(admin)
    assert counted == (0, 0)
    assert admission.in_flight == admission.strangers.in_flight == 0


@pytest.mark.parametrize("params", [{"reason": " "}, {"by": " "}, {"verdict": "ask"}, {"id": "other"}])
async def test_an_answer_that_is_none_leaves_the_ask_open(daemon: Daemon, params: dict[str, str]) -> None:
    async with person(daemon) as admin, daemon.session() as client:
        await client.send("fire", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {}})
        ask = await opened(admin)

        with pytest.raises(RpcFailure):
            await admin.call("answer_ask", **{"id": ask["id"], "verdict": "allow", "reason": "r", "by": "b", **params})

        assert (await admin.call("asks"))["asks"] == [ask]
