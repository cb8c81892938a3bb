"""BeamAgent's own cases, fired in its words at a real daemon whose hooks run in real workers."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from conformance.beam_rows import IDS, ROWS
from conformance.rows import Row
from hooklatch import Decision, Session, connect
from support import Daemon, RpcFailure, running_daemon

Check = Callable[[Daemon], Awaitable[None]]
Hooks = list[Any]
CALLBACKS = Path(__file__).parent / "callbacks"
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
TESTED = [row for row in ROWS if row.status != "not applicable"]
CHECKS: dict[str, Check] = {}


def check(*ids: str) -> Callable[[Check], Check]:
    """Make a function the check of these rows."""

    def add(function: Check) -> Check:
        CHECKS.update(dict.fromkeys(ids, function))
        return function

    return add


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Run one daemon for all rows, in a thread of its own, since each row is a trio run of its own."""
    started: Future[tuple[Daemon, Callable[[], None]]] = Future()
    folder = tmp_path_factory.mktemp("beam")
    files = {"beam.py": (CALLBACKS / "beam.py").read_text()}

    async def serve() -> None:
        async with running_daemon(folder, files) as running:
            token, stop = trio.lowlevel.current_trio_token(), trio.Event()
            started.set_result((running, lambda: token.run_sync_soon(stop.set)))
            await stop.wait()

    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(trio.run, serve)
        running, stop = started.result(30)
        yield running
        stop()
        ended.result(30)


def test_every_case_has_one_row() -> None:
    assert [row.id for row in ROWS] == IDS


def test_every_row_has_a_check() -> None:
    assert CHECKS.keys() == {row.id for row in TESTED}


@pytest.mark.parametrize("row", TESTED, ids=lambda row: row.id)
async def test_row(row: Row, daemon: Daemon) -> None:
    await CHECKS[row.id](daemon)


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


# Making hooks and registries of them.


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


# Verdicts.


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


CHECKS |= {
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


CHECKS |= {
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


# Matchers.


def matched(pattern: str | None, tool: str, *, fires: bool) -> Check:
    async def matches(daemon: Daemon) -> None:
        matcher = {} if pattern is None else {"matcher": pattern}
        decision = await fire(daemon, [hook("no", **matcher)], tool_name=tool)

        assert decision.rendered == ({"deny": "no"} if fires else {"ok": context(tool_name=tool)})

    return matches


CHECKS |= {
    "BA-29": matched("Bash", "Bash", fires=True),
    "BA-30": matched("Bash", "Read", fires=False),
    "BA-31": matched("^Read.*", "ReadFile", fires=True),
    "BA-32": matched("^Read.*", "Write", fires=False),
    "BA-33": matched(None, "any tool", fires=True),
}


async def test_a_broken_pattern_is_refused_when_it_is_registered(daemon: Daemon) -> None:
    async with daemon.session() as plain:
        with pytest.raises(RpcFailure):
            await plain.call("register", hooks=[{"id": "x", "event": "pre_tool_use", "match": {"regex": "["}}])


# Crashes.


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

        assert decision.rendered["deny"].startswith(f"hook crashed (fail-safe deny): session/{function}")
        assert (decision.cause, ran(decision)) == ("crash", [function])

    return crashes


CHECKS |= {"BA-36": crashed("crash"), "BA-37": crashed("throw")}


async def test_a_worker_that_dies_is_a_crash_too(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("die"), hook("fine")])

    assert decision.rendered["deny"].startswith("hook crashed (fail-safe deny)")
    assert ran(decision) == ["die"]


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


# One context through all hooks.


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


CHECKS |= {"BA-42": stopped("no"), "BA-43": stopped("perhaps"), "BA-44": stopped("crash")}


@check("BA-45")
async def three_that_add(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("adds", id=key, **{key: True}) for key in "abc"])

    assert decision.rendered == {"ok": context(a=True, b=True, c=True)}


@check("BA-46")
async def a_prompt_is_rewritten(daemon: Daemon) -> None:
    event = "user_prompt_submit"
    decision = await fire(daemon, [hook("prefixes", event), hook("tells", event)], event)
    blind = await fire(daemon, [hook("prefixes_blindly", event)], event)

    assert decision.rendered["ok"]["prompt"] == "[checked] hello"
    assert decision.rendered["ok"]["told"]["prompt"] == "[checked] hello"
    assert (next(iter(blind.rendered)), blind.cause) == ("deny", "unsettled")


def threaded(*functions: str) -> Check:
    """On a notification whatever stands in the middle stops nobody."""

    async def threads(daemon: Daemon) -> None:
        middle = [hook(function, "stop") for function in functions]
        hooks = [hook("adds", "stop", a=1), *middle, hook("looks", "stop"), hook("adds", "stop", id="c", c=3)]
        decision = await fire(daemon, hooks, "stop")

        assert decision.rendered == {"ok": context("stop", a=1, c=3, seen=["a"])}

    return threads


CHECKS |= {
    "BA-47": threaded(),
    "BA-48": threaded("no"),
    "BA-49": threaded("perhaps"),
    "BA-50": threaded("crash"),
}


@check("BA-53")
async def hooks_on_other_events(daemon: Daemon) -> None:
    assert (await fire(daemon, [hook("adds", "stop", a=1)])).rendered == {"ok": context()}


@check("BA-54")
async def a_matcher_in_the_middle(daemon: Daemon) -> None:
    hooks = [hook("adds", id="a", a=1), hook("adds", id="b", b=2, matcher="Write"), hook("adds", id="c", c=3)]

    assert (await fire(daemon, hooks)).rendered == {"ok": context(a=1, c=3)}


@check("BA-55")
async def a_sanitizer_and_an_auditor(daemon: Daemon) -> None:
    seen: list[set[str]] = []

    def sanitizes(event: Any) -> object:
        return {"ok": {key: value for key, value in event.payload.items() if key != "dangerous"}}

    def audits(event: Any) -> object:
        seen.append(set(event.payload))
        return {"ok": event.payload}

    hooks = [("pre_tool_use", sanitizes, {"id": "s"}), ("pre_tool_use", audits, {"id": "a"})]
    decision = await fire(daemon, hooks, dangerous="rm -rf /")

    assert seen == [set(context())]
    assert decision.rendered == {"ok": context()}


# Global hooks.


@check("BA-56", "BA-57", "BA-66", "BA-67")
async def the_global_layer_is_there(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        first, second = await admin.call("hooks"), await admin.call("hooks")

    assert first["hooks"] == []
    assert first == second


@check("BA-58", "BA-59")
async def a_global_hook_is_listed(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no")) as admin:
        (found,) = (await admin.call("hooks"))["hooks"]

    assert (found["id"], found["layer"], found["event"]) == ("no", "global", "pre_tool_use")


@check("BA-60")
async def two_global_hooks_on_one_event(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no"), hook("fine")) as admin:
        assert await listed_everywhere(admin, "pre_tool_use") == ["no", "fine"]


@check("BA-61")
async def global_hooks_on_two_events(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no"), hook("fine", "stop")) as admin:
        assert await listed_everywhere(admin, "pre_tool_use") == ["no"]
        assert await listed_everywhere(admin, "stop") == ["fine"]


@check("BA-62")
async def a_global_hook_is_unregistered(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no")) as admin:
        await admin.call("unregister", id="no")

        assert await listed_everywhere(admin) == []
        assert (await fire(daemon, [])).rendered == {"ok": context()}


@check("BA-63")
async def one_of_two_global_hooks_is_unregistered(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no", id="a"), hook("fine", id="b")) as admin:
        await admin.call("unregister", id="a")

        assert await listed_everywhere(admin) == ["b"]


@check("BA-64", "BA-65")
async def what_never_was_is_unregistered(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        first = await admin.call("unregister", id="never")

        assert await admin.call("unregister", id="never") == first


@check("BA-68")
async def global_hooks_come_first(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("trail", "stop", name="global")):
        decision = await fire(daemon, [hook("trail", "stop", name="session")], "stop")

    assert decision.rendered == {"ok": context("stop", trail=["global", "session"])}


@check("BA-69")
async def a_global_hook_without_a_registry(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("adds", b=1)), connect(daemon.agent, dialect="beam") as session:
        decision = await session.fire("pre_tool_use", payload=context())

    assert decision.rendered == {"ok": context(b=1)}


@check("BA-70")
async def a_global_hook_with_an_empty_registry(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("adds", b=1)):
        assert (await fire(daemon, [])).rendered == {"ok": context(b=1)}


@check("BA-72")
async def a_global_deny(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no", reason="nowhere")):
        decision = await fire(daemon, [hook("adds", b=1)])

    assert (decision.rendered, decision.layer, ran(decision)) == ({"deny": "nowhere"}, "global", ["no"])


@check("BA-73")
async def a_global_ask(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("perhaps", reason="anywhere?")):
        assert (await fire(daemon, [])).rendered == {"ask": "anywhere?"}


# The reload bus.


@asynccontextmanager
async def listening(daemon: Daemon) -> AsyncGenerator[Any]:
    async with daemon.session() as client:
        await client.call("subscribe", topics=["registry"])
        yield client


async def heard(client: Any) -> list[dict[str, Any]]:
    """Give what was announced by now: announcements are queued before a change is acknowledged."""
    await client.call("ping")
    announcements, client.announcements = client.announcements, []
    return announcements


@check("BA-74", "BA-79", "BA-84")
async def a_change_is_announced(daemon: Daemon) -> None:
    async with listening(daemon) as client, everywhere(daemon) as admin:
        table = hook("no") | {"run": f"{daemon.folder}/beam.py:no"}
        answer = await admin.call("register", scope="global", hooks=[table])
        with trio.fail_after(1):
            announced = await client.announcement()
        rest = await heard(client)
        await admin.call("unregister", id="no")

    assert (announced["topic"], announced["revision"], announced["added"]) == ("registry", answer["revision"], ["no"])
    assert rest == []


@check("BA-75")
async def an_unregistration_is_announced(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no")) as admin, listening(daemon) as client:
        answer = await admin.call("unregister", id="no")
        with trio.fail_after(1):
            announced = await client.announcement()
        rest = await heard(client)

    assert (announced["revision"], announced["removed"], rest) == (answer["revision"], ["no"], [])


@check("BA-76", "BA-77")
async def the_bus_is_there(daemon: Daemon) -> None:
    async with listening(daemon) as client:
        first = await client.call("subscribe", topics=["registry"])
        second = await client.call("subscribe", topics=["registry"])

    assert first == second


@check("BA-78", "BA-88", "BA-90")
async def the_revision_begins_with_the_time(daemon: Daemon) -> None:
    async with daemon.session() as client:
        answers = [
            await client.call("unsubscribe", topics=["registry"]),
            await client.call("hooks"),
            await client.call("unregister", id="never"),
        ]

    assert {answer["revision"] for answer in answers} == {client.hello["revision"]}
    assert client.hello["revision"] > 1_500_000_000_000  # milliseconds: the summer of 2017


@check("BA-80")
async def nobody_is_subscribed_by_another(daemon: Daemon) -> None:
    async with listening(daemon) as one, daemon.session() as other:
        async with everywhere(daemon, hook("no")):
            pass

        assert [len(await heard(client)) for client in (one, other)] == [2, 0]


@check("BA-81")
async def subscribing_twice(daemon: Daemon) -> None:
    async with listening(daemon) as client:
        await client.call("subscribe", topics=["registry"])
        async with everywhere(daemon, hook("no")):
            assert len(await heard(client)) == 1


@check("BA-82")
async def unsubscribing(daemon: Daemon) -> None:
    async with listening(daemon) as client:
        await client.call("unsubscribe", topics=["registry"])
        async with everywhere(daemon, hook("no")):
            assert await heard(client) == []


@check("BA-83")
async def unsubscribing_without_a_subscription(daemon: Daemon) -> None:
    async with daemon.session() as client:
        answer = await client.call("unsubscribe", topics=["registry"])

    assert answer["revision"]


@check("BA-85", "BA-89")
async def three_changes(daemon: Daemon) -> None:
    async with listening(daemon) as client, everywhere(daemon, hook("no"), hook("fine", "stop")) as admin:
        await admin.call("disable", id="no")
        await admin.call("unregister", id="no")
        first, second, third = await heard(client)

    assert (first["added"], second["changed"], third["removed"]) == (["no", "fine"], ["no"], ["no"])
    assert (second["previous"], third["previous"]) == (first["revision"], second["revision"])
    assert first["revision"] < second["revision"] < third["revision"]


@check("BA-86")
async def a_dead_subscriber(daemon: Daemon) -> None:
    async with listening(daemon):
        pass
    async with listening(daemon) as client, everywhere(daemon, hook("no")):
        assert len(await heard(client)) == 1


@check("BA-87")
async def topics(daemon: Daemon) -> None:
    async with daemon.session() as client:
        with pytest.raises(RpcFailure, match="unknown topic 'skills'"):
            await client.call("subscribe", topics=["skills"])


# Properties.


@check("BA-91", "BA-92")
async def any_event(daemon: Daemon) -> None:
    chosen = random.Random(91).choices(list(EVENTS), k=RUNS)

    async with speak(daemon) as session:
        for number, event in enumerate(chosen):
            await session.register_all([hook("fine", event, id=str(number))])
            (found,) = (await session.hooks(event=event))["hooks"]
            assert (found["id"], found["event"]) == (str(number), event)
            assert found["target"].endswith("beam.py:fine")
            await session.unregister(str(number))


@check("BA-93")
async def a_registry_of_nothing(daemon: Daemon) -> None:
    async with speak(daemon) as session:
        assert await session.register_all([]) == []
        assert (await session.hooks())["hooks"] == []


@check("BA-94")
async def any_event_without_a_registry(daemon: Daemon) -> None:
    async with connect(daemon.agent, dialect="beam") as session:
        for event in random.Random(94).choices(list(EVENTS), k=RUNS):
            assert (await session.fire(event, payload=context(event))).rendered == {"ok": context(event)}


@check("BA-95")
async def any_notification_calls_its_callback(daemon: Daemon) -> None:
    async with speak(daemon, *(hook("tells", event, id=event) for event in NOTIFYING)) as session:
        for event in random.Random(95).choices(list(NOTIFYING), k=RUNS):
            decision = await session.fire(event, payload=context(event))
            assert decision.rendered["ok"]["told"]["event"] == event


@check("BA-96")
async def any_reason(daemon: Daemon) -> None:
    dice = random.Random(96)
    async with speak(daemon, hook("says_what_it_is_given")) as session:
        for _ in range(RUNS):
            reason = "".join(chr(dice.choice((dice.randrange(1, 0xD800), 10, 34))) for _ in range(dice.randint(1, 40)))
            decision = await session.fire("pre_tool_use", payload=context(tool_input={"reason": reason}))
            assert decision.rendered == {"deny": reason}


@check("BA-97")
async def any_tool(daemon: Daemon) -> None:
    dice = random.Random(97)
    async with speak(daemon, hook("no", matcher="^Bash$")) as session:
        for _ in range(RUNS):
            tool = dice.choice(("Bash", "bash", "Bash\n", "BashOutput", "".join(dice.choices("Bash$^.", k=4))))
            decision = await session.fire("pre_tool_use", payload=context(tool_name=tool))
            assert ("deny" in decision.rendered) == (tool == "Bash")
