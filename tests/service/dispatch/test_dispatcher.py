"""The four models as a host meets them: through the socket, with callbacks in workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.shared_daemon import daemon_in_thread

GUARDS = """
import os
import time

from hooklatch_worker import allow, amend, append, ask, claim, context, deny, halt, hook, inject, last, resume, warn

# Each hook does what the payload's `do` says under its name; nothing said, no opinion.
def told(event, name):
    return event.tool_input.get(name)

@hook("pre_tool_use", priority=300)
def first(event):
    if event.tool_input.get("command") == "forbidden":
        return deny("first saw " + event.tool_input["command"])
    match told(event, "first"):
        case "deny": return deny("first")
        case "ask": return ask("first asks")
        case "allow": return allow("first allows")
        case "halt": return halt("first halts")
        case "rewrite": return amend(tool_input={**event.tool_input, "first": "done", "command": "rewritten"})
        case "again": return amend(tool_input={**event.tool_input, "n": event.tool_input.get("n", 0) + 1})
        case "context": return context(seen=["first"]).warn("careful")
        case "wait":
            while not os.path.exists(event.tool_input["go"]):
                time.sleep(0.005)

@hook("pre_tool_use", priority=200)
def second(event):
    match told(event, "second"):
        case "deny": return deny("second")
        case "allow": return allow()
        case "context": return context(seen=[*event.context["seen"], "second"])
        case "again": return amend(tool_input={**event.tool_input, "n": event.tool_input["n"] + 1})
        case "forbid": return amend(tool_input={**event.tool_input, "second": "done", "command": "forbidden"})
        case "who":
            return deny(f"{event.session_id} {event.cwd} {event.call_id} {event.host} {event.reinvoked}")

@hook("post_tool_use", id="a")
def post_a(event):
    return append("a").inject({"role": "user", "content": "a"})

@hook("post_tool_use", id="b")
def post_b(event):
    raise ValueError("b is broken")

@hook("post_tool_use", id="c")
def post_c(event):
    return append("c")

@hook("stop")
def go_on(event):
    return resume("the tests fail")

@hook("post_model", id="r1", priority=200)
def r1(event):
    return amend(response=event.response + "1")

@hook("post_model", id="r2")
def r2(event):
    return amend(response=event.response + "2")

@hook("prompt_build", id="p1", priority=200)
def p1(event):
    return amend(prepend_system="one")

@hook("prompt_build", id="p2")
def p2(event):
    return amend(prepend_system="two", append_system="two")

@hook("message_claim", id="m1", priority=200, match="chat")
def m1(event):
    return None

@hook("message_claim", id="m2", match="chat")
def m2(event):
    return claim({"by": "m2"})

@hook("message_claim", id="m3", priority=50, match="chat")
def m3(event):
    return claim({"by": "m3"})

@hook("pre_model", id="watch", observe=True)
def watch(event):
    return deny("not today")

@hook("pre_model", id="maybe", optional=True)
def maybe(event):
    raise ValueError("I am broken")
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}
    with daemon_in_thread(tmp_path_factory.mktemp("daemon"), files) as daemon:
        yield daemon


async def said(client: Client, **tool_input: Any) -> tuple[Any, ...]:
    decision = await client.fire_tool("Bash", **tool_input)
    return decision["verdict"], decision["hook"], decision["reason"]


async def test_a_gate_passes_where_nobody_has_an_opinion(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert [decision[key] for key in ("verdict", "cause", "reason", "layer", "hook", "patch")] == ["pass"] + [None] * 5
    assert [one["hook"] for one in decision["outcomes"]] == ["guards:first", "guards:second"]


async def test_the_first_refusal_ends_a_chain_and_an_ask_does_not(daemon: Daemon) -> None:
    async with daemon.session() as client:
        assert await said(client, first="deny", second="deny") == ("deny", "guards:first", "first")
        assert await said(client, first="ask", second="deny") == ("deny", "guards:second", "second")
        assert await said(client, first="ask", second="allow") == ("ask", "guards:first", "first asks")
        assert await said(client, first="allow") == ("allow", "guards:first", "first allows")
        assert await said(client, first="halt") == ("halt", "guards:first", "first halts")


async def test_no_guard_approves_another_input_than_the_one_that_runs(daemon: Daemon) -> None:
    async with daemon.session() as client:
        rewritten = await client.fire_tool("Bash", first="rewrite", command="x")
        allowed = await client.fire_tool("Bash", first="allow", second="forbid", command="x")
        unsettled = await client.fire_tool("Bash", first="again", second="again")

    assert rewritten["verdict"] == "pass"
    assert rewritten["patch"] == {"tool_input": {"first": "done", "command": "rewritten"}}
    assert [one.get("reinvoked", False) for one in rewritten["outcomes"]] == [False, False]
    assert (allowed["verdict"], allowed["reason"], allowed["patch"]) == ("deny", "first saw forbidden", None)
    assert (unsettled["verdict"], unsettled["cause"], unsettled["patch"]) == ("deny", "unsettled", None)


async def test_context_threads_through_a_chain_and_comes_back(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.call(
            "fire",
            event="pre_tool_use",
            payload={"tool_name": "Bash", "tool_input": {"first": "context", "second": "context"}},
            context={"mine": 1},
        )

    assert decision["context"] == {"mine": 1, "seen": ["first", "second"]}
    assert decision["warnings"] == ["careful"]


async def test_a_callback_knows_who_asks(daemon: Daemon) -> None:
    payload = {"tool_name": "Bash", "tool_input": {"second": "who"}}
    async with daemon.session(id="s", cwd="/work", host="h") as client:
        decision = await client.call("fire", event="pre_tool_use", payload=payload, call_id="c-1")

    assert decision["reason"] == "s /work c-1 h False"


async def test_a_notification_is_heard_by_all_at_once_and_its_outputs_come_in_order(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire("post_tool_use", tool_name="Bash", tool_input={}, tool_response="x")
        stopped = await client.fire("stop")

    assert (decision["verdict"], decision["append"]) == ("pass", "a\nc")
    assert decision["inject"] == [{"role": "user", "content": "a"}]
    assert [(one["hook"], one["cause"]) for one in decision["outcomes"]] == [
        ("a", "policy"), ("b", "crash"), ("c", "policy"),
    ]  # fmt: skip
    assert (stopped["verdict"], stopped["resume"]) == ("pass", "the tests fail")


async def test_amendments_are_merged_by_the_rule_of_their_event(daemon: Daemon) -> None:
    async with daemon.session() as client:
        threaded = await client.fire("post_model", model_id="m", response="x")
        first_wins = await client.fire("prompt_build", prompt="x")

    assert threaded["patch"] == {"response": "x12"}
    assert first_wins["patch"] == {"prepend_system": "one", "append_system": "two"}


async def test_the_first_claim_ends_the_chain(daemon: Daemon) -> None:
    async with daemon.session() as client:
        claimed = await client.fire("message_claim", platform="chat")
        unclaimed = await client.fire("message_claim", platform="mail")

    assert (claimed["verdict"], claimed["value"], claimed["hook"]) == ("claim", {"by": "m2"}, "m2")
    assert [one["hook"] for one in claimed["outcomes"]] == ["m1", "m2"]
    assert (unclaimed["verdict"], unclaimed["value"]) == ("pass", None)


async def test_what_is_observed_or_optional_refuses_nothing_and_is_shown(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire("pre_model", model_id="m", request={})

    assert decision["verdict"] == "pass"
    assert [(one["hook"], one.get("verdict", None)) for one in decision["outcomes"]] == [
        ("watch", "deny"), ("maybe", None),
    ]  # fmt: skip
    assert "global/watch (observe) would have said deny: not today" in decision["warnings"]
    assert any("global/maybe is optional and was skipped" in one for one in decision["warnings"])


# -- around a fire -----------------------------------------------------------------------------------------------


SERVED = {"id": "told", "event": "permission_denied", "served": True}


async def test_a_refusal_fires_permission_denied_by_itself(daemon: Daemon) -> None:
    async with daemon.session(hooks=[SERVED]) as client:
        decision = await client.fire_tool("Bash", first="deny", command="ls")
        with trio.fail_after(5):
            call = await client.read()

    assert decision["verdict"] == "deny"
    assert call is not None
    assert call["params"]["event"] == "permission_denied"
    assert call["params"]["payload"] == {
        "tool_name": "Bash", "tool_input": {"first": "deny", "command": "ls"}, "reason": "first",
        "denial": {"code": "policy"}, "tool_kind": "shell", "tool_args": {"first": "deny", "command": "ls"},
    }  # fmt: skip


async def test_a_host_that_fires_permission_denied_itself_is_not_helped(daemon: Daemon) -> None:
    client, denied = daemon.connect(), daemon.parts.statistics.event("permission_denied")
    await client.call("hello", protocol=1, session={"hooks": [SERVED]}, emits=["permission_denied"])
    before = denied.fired

    await client.fire_tool("Bash", first="deny")

    assert await client.call("ping") == {}
    assert denied.fired == before
    await client.aclose()


async def test_a_payload_that_cannot_be_judged_is_refused_though_its_refusal_cannot_be_told(daemon: Daemon) -> None:
    async with daemon.session(hooks=[SERVED]) as client:
        decision = await client.call("fire", event="pre_tool_use", payload=[1], truncated=True)

    assert (decision["verdict"], decision["cause"]) == ("deny", "payload")


async def test_a_fire_that_is_not_waited_for_is_accepted_at_once_and_done(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("subscribe", topics=["decisions"])
        answer = await client.call("fire", event="stop", payload={}, wait=False)
        with trio.fail_after(5):
            heard = await client.announcement()

    assert answer["accepted"] is True
    assert heard["decision"]["decision_id"] == answer["decision_id"]
    assert heard["decision"]["resume"] == "the tests fail"


async def test_a_gate_denies_at_the_end_of_the_budget_that_was_asked_for(daemon: Daemon) -> None:
    go = daemon.folder / "go"
    payload = {"tool_name": "Bash", "tool_input": {"first": "wait", "go": str(go)}}
    async with daemon.session() as client:
        decision = await client.call("fire", event="pre_tool_use", payload=payload, timeout=0.05)

    assert (decision["verdict"], decision["cause"], decision["retryable"]) == ("deny", "timeout", True)
    go.write_text("")


async def test_a_required_event_without_a_hook_is_denied(daemon: Daemon) -> None:
    async with daemon.session(require_handlers=["user_prompt_submit", "pre_tool_use", "task_completed"]) as client:
        missing = await client.fire("user_prompt_submit", prompt="x")
        there = await client.fire_tool("Bash")
        open_event = await client.fire("task_completed")
        await client.call("register", hooks=[SERVED | {"event": "user_prompt_submit", "match": "other"}])
        registered = await client.fire("user_prompt_submit", prompt="x")

    assert (missing["verdict"], missing["cause"]) == ("deny", "load")
    assert "requires a hook for user_prompt_submit" in missing["reason"]
    assert [one["verdict"] for one in (there, open_event, registered)] == ["pass", "pass", "pass"]


async def test_a_hook_that_only_observes_is_not_one_that_is_required(tmp_path: Path) -> None:
    source = '@hook("pre_tool_use", observe=True)\ndef looks(event):\n    return deny("no")\n'
    async with (
        running_daemon(tmp_path, {"hooks.d/a.py": f"from hooklatch import deny, hook\n{source}"}) as daemon,
        daemon.session(require_handlers=["pre_tool_use"]) as client,
    ):
        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "there is none that is enforced" in decision["reason"]


async def test_an_unknown_event_cannot_be_required(daemon: Daemon) -> None:
    with pytest.raises(RpcFailure, match="did you mean 'pre_tool_use'"):
        async with daemon.session(require_handlers=["pre_tool_uze"]):
            pass


async def test_every_decision_has_all_its_scalars_on_the_wire(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await client.fire("session_end")

    assert set(decision) >= {
        "decision_id", "event", "verdict", "cause", "reason", "layer", "hook", "retryable", "patch", "payload_digest",
        "append", "resume", "value", "revision", "duration_ms",
    }  # fmt: skip
