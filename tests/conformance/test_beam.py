"""BeamAgent's own cases, fired in its words at a real daemon whose hooks run in real workers."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from conformance.examples import blocks, by_page, host_of
from conformance.rows.beam import ROWS
from conformance.runs.beam import (
    CALLBACKS,
    EVENTS,
    NOTIFYING,
    PAGE,
    RUNS,
    Check,
    check,
    context,
    everywhere,
    fire,
    hook,
    listed_everywhere,
    ran,
    speak,
)
from conformance.table import with_checks
from hooklatch import connect
from support.daemons import Daemon, RpcFailure

FILES = {"beam.py": (CALLBACKS / "beam.py").read_text()}


@pytest.mark.parametrize("row_id", [row.id for row in with_checks(ROWS)])
async def test_row(row_id: str, daemon: Daemon) -> None:
    await check[row_id](daemon)


async def test_a_broken_pattern_is_refused_when_it_is_registered(daemon: Daemon) -> None:
    async with daemon.session() as plain:
        with pytest.raises(RpcFailure):
            await plain.call("register", hooks=[{"id": "x", "event": "pre_tool_use", "match": {"regex": "["}}])


async def test_a_worker_that_dies_is_a_crash_too(daemon: Daemon) -> None:
    decision = await fire(daemon, [hook("die"), hook("fine")])

    assert decision.rendered["deny"].startswith("hook crashed (fail-safe deny)")
    assert ran(decision) == ["die"]


@check("BA-46")
async def a_prompt_is_rewritten(daemon: Daemon) -> None:
    event = "user_prompt_submit"
    for hooks in ([hook("tells", event), hook("prefixes", event)], [hook("prefixes", event), hook("tells", event)]):
        decision = await fire(daemon, hooks, event)

        assert decision.rendered["ok"]["prompt"] == "[checked] hello"
        assert decision.rendered["ok"]["told"]["prompt"] == "[checked] hello"


async def test_of_two_that_prefix_a_prompt_both_are_marked(daemon: Daemon) -> None:
    event, second = "user_prompt_submit", {"id": "second", "with": "dated"}

    unmarked = await fire(daemon, [hook("prefixes", event), hook("prefixes", event, **second)], event)
    marked = [hook("prefixes", event), hook("prefixes", event, **second)]
    both = await fire(daemon, [{**one, "amends": True} for one in marked], event)

    assert (next(iter(unmarked.rendered)), unmarked.cause) == ("deny", "unsettled")
    assert "amends = true" in str(unmarked.reason)
    assert both.rendered == {"ok": context(event, prompt="[dated] [checked] hello")}


async def test_a_served_hook_is_told_that_it_is_asked_again(daemon: Daemon) -> None:
    event, told = "user_prompt_submit", list[tuple[str, bool]]()

    def listens(event: Any) -> None:
        told.append((event.prompt, event.reinvoked))

    await fire(daemon, [(event, listens, {"id": "served"}), hook("prefixes", event)], event)

    assert told == [("hello", False), ("[checked] hello", True)]


def threaded(*functions: str) -> Check:
    """On a notification whatever stands in the middle stops nobody."""

    async def threads(daemon: Daemon) -> None:
        middle = [hook(function, "stop") for function in functions]
        hooks = [hook("adds", "stop", a=1), *middle, hook("looks", "stop"), hook("adds", "stop", id="c", c=3)]
        decision = await fire(daemon, hooks, "stop")

        assert decision.rendered == {"ok": context("stop", a=1, c=3, seen=["a"])}

    return threads


check |= {
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


@asynccontextmanager
async def listening(daemon: Daemon) -> AsyncGenerator[Any]:
    async with daemon.session() as client:
        await client.call("subscribe", topics=["registry"])
        yield client


async def heard(client: Any) -> list[dict[str, Any]]:
    """Return what was announced by now: announcements are queued before a change is acknowledged."""
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


async def test_the_pages_hooks_do_what_beamagents_own_examples_do(daemon: Daemon) -> None:
    named = by_page(PAGE, daemon)
    hooks = [named("pre_tool_use", "sanitize", 1), named("pre_tool_use", "audit", 1)]
    async with speak(daemon, *hooks, named("post_tool_use", "log_tool")) as session:
        final = await session.fire("pre_tool_use", payload=context(tool_input={"command": "sudo ls"}))
        logged = await session.fire("post_tool_use", payload=context("post_tool_use"))
    async with speak(daemon, named("pre_tool_use", "deny_bash")) as session:
        denied = await session.fire("pre_tool_use", payload=context())

    assert final.rendered == {"ok": context(tool_input={"command": "ls"}, sanitized=True, audited=True)}
    assert logged.outcomes[0].stdout == "tool used: Bash\n"
    assert denied.rendered == {"deny": "no shell access allowed"}


async def test_the_pages_host_rejects_what_is_denied(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.write("beam_hooks.py", blocks(PAGE)[0])
    monkeypatch.setenv("HOOKLATCH_RUNTIME_DIR", str(Path(daemon.agent).parent))
    monkeypatch.chdir(daemon.folder)
    rejected: list[str] = []

    async def never(_: object) -> None:
        raise AssertionError

    async def reject(reason: str) -> None:
        rejected.append(reason)

    await host_of(PAGE, 2)["before_a_tool"](never, reject, never)

    assert rejected == ["no shell access allowed"]
