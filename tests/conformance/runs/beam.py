"""What BeamAgent's own cases come to here: the first of the checks, and what all of them use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from conformance.rows.beam import ROWS
from conformance.table import Checks
from hooklatch import Decision, Session, connect
from support.daemons import Daemon
from support.repository import ROOT

Check = Callable[[Daemon], Awaitable[None]]


Hooks = list[Any]


CALLBACKS = Path(__file__).parents[1] / "callbacks"


PAGE = ROOT / "docs" / "project" / "coming-from-beamagent.md"


BLOCKING = {
    "pre_tool_use": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
    "user_prompt_submit": {"prompt": "hello"},
    "permission_request": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
    "subagent_start": {"agent_id": "a-1", "agent_type": "explore"},
    "pre_compact": {"trigger": "auto"},
    "config_change": {"reload_type": "settings"},
}


NOTIFYING = {
    "post_tool_use": {"tool_name": "Bash", "content": "done"},
    "post_tool_use_failure": {"tool_name": "Bash", "error": "failed"},
    "stop": {"stop_reason": "end_turn"},
    "session_start": {"source": "startup"},
    "session_end": {"reason": "exit"},
    "subagent_stop": {"agent_id": "a-1", "agent_type": "explore"},
    "notification": {"message": "hello", "notification_type": "info"},
    "task_completed": {"task_id": "t-1"},
    "teammate_idle": {"teammate": "b"},
}


EVENTS = {**BLOCKING, **NOTIFYING}


RUNS = 200  # of each property, as many as BeamAgent's own


check = Checks[Check](ROWS)


def hook(function: str, event: str = "pre_tool_use", *, id: str | None = None, **rest: Any) -> dict[str, Any]:  # noqa: A002
    """A hook in a worker, registered as BeamAgent names things; what the rest is not, is its config."""
    matcher = {"matcher": {"tool_name": rest.pop("matcher")}} if "matcher" in rest else {}
    return {"event": event, "run": f"beam.py:{function}", "id": id or function, "config": rest, **matcher}


def speak(daemon: Daemon, *hooks: Any) -> Session:
    return connect(daemon.agent, dialect="beam", cwd=daemon.folder, hooks=hooks)


async def fire(daemon: Daemon, hooks: Hooks, event: str = "pre_tool_use", **more: Any) -> Decision:
    async with speak(daemon, *hooks) as session:
        return await session.fire(event, payload={"event": event, **EVENTS[event], **more})


def context(event: str = "pre_tool_use", **more: Any) -> dict[str, Any]:
    return {"event": event, **EVENTS[event], **more}


def ran(decision: Decision) -> list[str]:
    return [outcome.hook for outcome in decision.outcomes]


async def listed(daemon: Daemon, *hooks: Any, event: str | None = None) -> list[dict[str, Any]]:
    async with speak(daemon, *hooks) as session:
        return (await session.hooks(**({"event": event} if event else {})))["hooks"]


@asynccontextmanager
async def everywhere(daemon: Daemon, *hooks: dict[str, Any]) -> AsyncGenerator[Any]:
    """Register global hooks, and take them out again."""
    async with daemon.administrator() as admin:
        tables = [table | {"run": f"{daemon.folder}/{table['run']}"} for table in hooks]
        try:
            if tables:
                await admin.call("register", scope="global", hooks=tables)
            yield admin
        finally:
            for table in tables:
                await admin.call("unregister", id=table["id"])


async def listed_everywhere(admin: Any, event: str | None = None) -> list[str]:
    return [one["id"] for one in (await admin.call("hooks", **({"event": event} if event else {})))["hooks"]]


@check("BA-01")
async def a_hook_without_a_matcher(daemon: Daemon) -> None:
    (found,) = await listed(daemon, hook("fine"))

    assert (found["event"], found["match"]) == ("pre_tool_use", "*")
    assert (await fire(daemon, [hook("no")], tool_name="any tool")).rendered == {"deny": "no"}


@check("BA-02")
async def a_hook_with_a_matcher(daemon: Daemon) -> None:
    (found,) = await listed(daemon, hook("fine", matcher="^(Write|Edit)$"))

    assert "^(Write|Edit)$" in found["match"]


@check("BA-03")
async def a_hook_for_each_event(daemon: Daemon) -> None:
    found = await listed(daemon, *(hook("fine", event, id=event) for event in EVENTS))

    assert [(one["id"], one["event"]) for one in found] == [(event, event) for event in EVENTS]
    assert len(EVENTS) == 15


@check("BA-04")
async def a_new_registry(daemon: Daemon) -> None:
    assert await listed(daemon) == []


@check("BA-05")
async def a_registered_hook(daemon: Daemon) -> None:
    (found,) = await listed(daemon, hook("fine", "stop"), event="stop")

    assert found["id"] == "fine"


@check("BA-06")
async def three_hooks_on_two_events(daemon: Daemon) -> None:
    hooks = [hook("fine", id="a"), hook("fine", "stop", id="b"), hook("fine", id="c")]

    assert [one["id"] for one in await listed(daemon, *hooks, event="pre_tool_use")] == ["a", "c"]
    assert [one["id"] for one in await listed(daemon, *hooks, event="stop")] == ["b"]


@check("BA-07")
async def the_order_of_registration(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("trail", id="1", name="first"), hook("trail", id="2", name="second")])

    assert decision.rendered == {"ok": context(trail=["first", "second"])}


@check("BA-08", "BA-51", "BA-71")
async def no_hooks(daemon: Daemon) -> None:
    for event in EVENTS:
        assert (await fire(daemon, [], event)).rendered == {"ok": context(event)}


@check("BA-09", "BA-52")
async def a_session_that_says_nothing_of_hooks(daemon: Daemon) -> None:
    async with connect(daemon.agent, dialect="beam") as session:
        decision = await session.fire("pre_tool_use", payload=context())

    assert decision.rendered == {"ok": context()}


@check("BA-10")
async def a_callback_is_shown_the_session(daemon: Daemon) -> None:
    async with connect(
        daemon.agent, dialect="beam", session_id="s-beam", cwd=daemon.folder, hooks=[hook("tells")]
    ) as session:
        decision = await session.fire("pre_tool_use", payload=context(session_id="s-beam"))

    assert decision.rendered["ok"]["told"]["session"] == "s-beam"
    assert decision.rendered["ok"]["session_id"] == "s-beam"


def ignored(event: str, word: str) -> Check:
    """A refusal on a notification is ignored, be it said by a worker or in BeamAgent's own words by a client."""

    async def ignores(daemon: Daemon) -> None:
        function = {"deny": "no", "ask": "perhaps"}[word]
        by_worker = await fire(daemon, [hook(function, event)], event)
        by_client = await fire(daemon, [(event, lambda _: {word: "not this"}, {"id": "served"})], event)

        assert (by_worker.rendered, by_worker.verdict) == ({"ok": context(event)}, "pass")
        assert (by_client.rendered, by_client.verdict) == ({"ok": context(event)}, "pass")
        assert any("not this" in warning for warning in by_client.warnings)

    return ignores


check |= {
    "BA-11": ignored("post_tool_use", "deny"),
    "BA-12": ignored("post_tool_use", "ask"),
    "BA-13": ignored("stop", "deny"),
    "BA-14": ignored("session_start", "deny"),
    "BA-15": ignored("session_end", "deny"),
    "BA-28": ignored("subagent_stop", "deny"),
}


def denied(event: str) -> Check:
    async def denies(daemon: Daemon) -> None:
        by_worker = await fire(daemon, [hook("no", event, reason="not here")], event)
        by_client = await fire(daemon, [(event, lambda _: {"deny": "not here"}, {"id": "served"})], event)

        assert (by_worker.rendered, by_worker.cause) == ({"deny": "not here"}, "policy")
        assert (by_client.rendered, by_client.cause) == ({"deny": "not here"}, "policy")

    return denies


check |= {
    "BA-16": denied("pre_tool_use"),
    "BA-17": denied("user_prompt_submit"),
    "BA-24": denied("subagent_start"),
    "BA-25": denied("pre_compact"),
    "BA-26": denied("config_change"),
}


@check("BA-18")
async def two_denies(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("no", id="a", reason="first"), hook("no", id="b", reason="second")])

    assert (decision.rendered, ran(decision)) == ({"deny": "first"}, ["a"])


@check("BA-19")
async def two_that_are_fine_with_it(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("fine"), ("pre_tool_use", lambda event: {"ok": event.payload}, {"id": "b"})])

    assert (decision.rendered, ran(decision)) == ({"ok": context()}, ["fine", "b"])


@check("BA-20")
async def a_deny_after_a_fine(daemon: Daemon) -> None:
    assert (await fire(daemon, [hook("fine"), hook("no")])).rendered == {"deny": "no"}


@check("BA-21")
async def an_ask(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("perhaps")])

    assert (decision.rendered, decision.needs_asking) == ({"ask": "really?"}, True)


@check("BA-22")
async def an_ask_before_a_deny(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("perhaps"), hook("no")])

    assert (decision.rendered, ran(decision)) == ({"ask": "really?"}, ["perhaps"])


@check("BA-23")
async def an_ask_after_a_fine(daemon: Daemon) -> None:
    assert (await fire(daemon, [hook("fine"), hook("perhaps")])).rendered == {"ask": "really?"}


@check("BA-27")
async def a_subagent_that_may_start(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("fine", "subagent_start")], "subagent_start")

    assert decision.rendered == {"ok": context("subagent_start")}
    assert [followed.event for followed in decision.followed_by] == ["subagent_started"]


def matched(pattern: str | None, tool: str, *, fires: bool) -> Check:
    async def matches(daemon: Daemon) -> None:
        matcher = {} if pattern is None else {"matcher": pattern}
        decision = await fire(daemon, [hook("no", **matcher)], tool_name=tool)

        assert decision.rendered == ({"deny": "no"} if fires else {"ok": context(tool_name=tool)})

    return matches


check |= {
    "BA-29": matched("Bash", "Bash", fires=True),
    "BA-30": matched("Bash", "Read", fires=False),
    "BA-31": matched("^Read.*", "ReadFile", fires=True),
    "BA-32": matched("^Read.*", "Write", fires=False),
    "BA-33": matched(None, "any tool", fires=True),
}


@check("BA-34")
async def a_crash_on_a_notification(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("crash", "stop"), hook("adds", "stop", survivor=True)], "stop")

    assert decision.rendered == {"ok": context("stop", survivor=True)}


@check("BA-35")
async def a_throw_on_a_notification(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("throw", "stop")], "stop")

    assert (decision.rendered, decision.outcomes[0].cause) == ({"ok": context("stop")}, "crash")


def crashed(function: str) -> Check:
    async def crashes(daemon: Daemon) -> None:
        decision = await fire(daemon, [hook(function), hook("fine")])

        assert decision.rendered["deny"].startswith("hook crashed (fail-safe deny): session:")
        assert f"/{function}: " in decision.rendered["deny"]
        assert (decision.cause, ran(decision)) == ("crash", [function])

    return crashes


check |= {"BA-36": crashed("crash"), "BA-37": crashed("throw")}


@check("BA-38")
async def a_crash_on_each_blocking_event(daemon: Daemon) -> None:
    for event in BLOCKING:
        decision = await fire(daemon, [hook("crash", event)], event)

        assert decision.rendered["deny"].startswith("hook crashed (fail-safe deny)"), event


@check("BA-39")
async def a_crash_on_each_notification(daemon: Daemon) -> None:
    for event in NOTIFYING:
        assert (await fire(daemon, [hook("crash", event)], event)).rendered == {"ok": context(event)}, event


@check("BA-40")
async def an_answer_that_nobody_understands(daemon: Daemon) -> None:
    by_worker = await fire(daemon, [hook("odd"), hook("fine")])
    by_client = await fire(daemon, [("pre_tool_use", lambda _: "whatever", {"id": "served"})])
    without_a_reason = await fire(daemon, [("pre_tool_use", lambda _: {"deny": 42}, {"id": "served"})])

    assert (by_worker.verdict, by_worker.cause, ran(by_worker)) == ("deny", "protocol", ["odd"])
    assert (by_client.verdict, by_client.cause) == ("deny", "protocol")
    assert without_a_reason.rendered == {"deny": "42"}


@check("BA-G1")
async def a_crash_lets_nothing_through(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("crash"), hook("fine")])

    assert (decision.verdict, ran(decision)) == ("deny", ["crash"])


@check("BA-41")
async def a_blocking_chain_hands_its_context_on(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("adds", sanitized=True), hook("looks")], old="kept")

    assert decision.rendered == {"ok": context(old="kept", sanitized=True, seen=["sanitized"])}


def stopped(function: str) -> Check:
    async def stops(daemon: Daemon) -> None:
        decision = await fire(daemon, [hook("adds", a=1), hook(function), hook("looks")])

        assert next(iter(decision.rendered)) == ("ask" if function == "perhaps" else "deny")
        assert ran(decision) == ["adds", function]

    return stops


check |= {"BA-42": stopped("no"), "BA-43": stopped("perhaps"), "BA-44": stopped("crash")}


@check("BA-45")
async def three_that_add(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("adds", id=key, **{key: True}) for key in "abc"])

    assert decision.rendered == {"ok": context(a=True, b=True, c=True)}
