"""The reload bus: each change is announced in order, before it is acknowledged, to those whose view it changed."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.protocol import encode_notification
from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon

GUARDS = """
import os
import time

from hooklatch_worker import deny

def no(event):
    return deny("no")

def wait(event):
    open(event.config["started"], "w").close()
    while not os.path.exists(event.config["go"]):
        time.sleep(0.005)
"""

QUICK = """
from hooklatch_worker import deny

def no(event):
    return deny("new")

def wait(event):
    return None
"""


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": "", "guards.py": GUARDS}) as daemon:
        yield daemon


def served(hook_id: str, event: str = "stop", **rest: Any) -> dict[str, Any]:
    return {"id": hook_id, "event": event, "served": True, **rest}


def run(daemon: Daemon, hook_id: str, function: str = "no", **rest: Any) -> dict[str, Any]:
    return {"id": hook_id, "event": "pre_tool_use", "run": f"{daemon.folder}/guards.py:{function}", **rest}


async def announced(client: Client, until: int) -> list[dict[str, Any]]:
    """Return the announcements up to the one of a revision."""
    found: list[dict[str, Any]] = []
    with trio.fail_after(10):
        while not found or max(found[-1].get("revision", 0), found[-1].get("resync", 0)) < until:
            found.append(await client.announcement())
    return found


async def test_every_revision_is_announced_in_order_and_chained_to_the_one_before(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        last = (await client.call("subscribe", topics=["registry"]))["revision"]
        for number in range(20):
            await client.call("register", hooks=[served(f"own-{number}")])
            answer = await admin.call("register", scope="global", hooks=[run(daemon, f"global-{number}")])

        heard = await announced(client, answer["revision"])

    assert [one["added"] for one in heard] == [[f"{w}-{n}"] for n in range(20) for w in ("own", "global")]
    assert [one["previous"] for one in heard] == [last, *(one["revision"] for one in heard[:-1])]
    assert all(one["previous"] < one["revision"] for one in heard)


async def test_a_change_is_announced_before_it_is_acknowledged_to_the_one_that_made_it(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("subscribe", topics=["registry"])
        number = await client.send("register", hooks=[served("a")])

        first, second = await client.read(), await client.read()

    assert first is not None
    assert second is not None
    assert (first["method"], second["id"]) == ("announce", number)
    assert first["params"]["revision"] == second["result"]["revision"]


async def test_an_announcement_is_there_for_others_when_the_change_is_acknowledged(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await client.call("subscribe", topics=["registry"])

        await admin.call("register", scope="global", hooks=[run(daemon, "no")])

        # The daemon has written it: it is in the socket's buffer, whatever the daemon does next.
        assert b'"added":["no"]' in os.read(client.stream.socket.fileno(), 2**16)


async def test_once_acknowledged_a_change_is_used_by_every_fire_that_starts_later(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        verdicts = []
        for _ in range(5):
            await admin.call("register", scope="global", hooks=[run(daemon, "no")])
            verdicts.append((await client.fire_tool("Bash"))["verdict"])
            await admin.call("unregister", id="no")
            verdicts.append((await client.fire_tool("Bash"))["verdict"])

    assert verdicts == ["deny", "pass"] * 5


async def test_a_decision_names_the_revision_that_was_acknowledged(daemon: Daemon) -> None:
    async with daemon.session() as client:
        answer = await client.call("register", hooks=[run(daemon, "no")])

        assert (await client.fire_tool("Bash"))["revision"] == answer["revision"]


async def test_a_sessions_own_change_is_announced_to_it_alone(daemon: Daemon) -> None:
    async with daemon.session() as one, daemon.session() as two, daemon.administrator() as admin:
        for client in (one, two, admin):
            await client.call("subscribe", topics=["registry"])

        await one.call("register", hooks=[served("a")])

        for client in (two, admin):
            await client.call("ping")
        assert [len(client.announcements) for client in (one, two, admin)] == [1, 0, 0]


async def test_subscribing_twice_is_subscribing_once(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for _ in range(2):
            await client.call("subscribe", topics=["registry", "registry"])

        await client.call("register", hooks=[served("a")])
        await client.call("ping")

        assert len(client.announcements) == 1


async def test_who_has_unsubscribed_hears_nothing(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("subscribe", topics=["registry", "decisions"])
        await client.call("unsubscribe", topics=["registry"])

        await client.call("register", hooks=[served("a")])
        await client.fire("notification")

        assert [one["topic"] for one in client.announcements] == ["decisions"]


async def test_an_unknown_topic_is_refused_with_those_there_are(daemon: Daemon) -> None:
    async with daemon.session() as client:
        with pytest.raises(
            RpcFailure, match="unknown topic 'registri'; there are asks, decisions, idle, operations, registry"
        ):
            await client.call("subscribe", topics=["registri"])


@pytest.mark.slow
async def test_a_lagging_subscriber_is_told_to_resync_and_blocks_nobody(daemon: Daemon) -> None:
    """Slow: it takes 150 announcements of 8 KiB to fill what the kernel and the daemon keep for one client."""
    async with daemon.session() as slow, daemon.session() as quick, daemon.administrator() as admin:
        for client in (slow, quick):
            await client.call("subscribe", topics=["registry"])
        hook = run(daemon, "no", description="x")
        for number in range(150):
            hooks = [hook | {"id": f"{n:0>150}", "priority": number} for n in range(50)]
            answer = await admin.call("register", scope="global", hooks=hooks)
            assert (await announced(quick, answer["revision"]))[-1]["revision"] == answer["revision"]

        heard = await announced(slow, answer["revision"])
        await admin.call("unregister", id=f"{0:0>150}")
        with trio.fail_after(10):
            after = await slow.announcement()

    assert heard[-1] == {"topic": "registry", "resync": answer["revision"]}
    assert [one for one in heard if "resync" in one] == [heard[-1]]
    chain = heard[:-1]
    assert [one["previous"] for one in chain[1:]] == [one["revision"] for one in chain[:-1]]
    assert after["previous"] == answer["revision"]


async def test_a_subscriber_that_lags_is_told_how_many_decisions_it_has_missed(daemon: Daemon) -> None:
    async with daemon.session() as slow, daemon.session() as quick:
        await slow.call("subscribe", topics=["decisions"])
        connection = next(iter(daemon.parts.bus.watching.values()))
        lines = [
            encode_notification("announce", {"topic": "decisions", "number": n, "x": "x" * 2**16}) for n in range(20)
        ]
        for line in lines:  # in one turn of the loop: the daemon cannot send more than the kernel takes
            connection.announce(line, topic="decisions")

        heard: list[dict[str, Any]] = []
        with trio.fail_after(10):
            while not heard or "missed" not in heard[-1]:
                heard.append(await slow.announcement())
        await slow.fire("stop")
        await quick.call("ping")

    assert [one["number"] for one in heard[:-1]] == list(range(len(heard) - 1))
    assert heard[-1] == {"topic": "decisions", "missed": 20 - (len(heard) - 1)}
    assert slow.announcements[-1]["decision"]["event"] == "stop"


async def test_a_subscriber_that_lags_in_several_topics_hears_of_each_and_then_of_what_comes(daemon: Daemon) -> None:
    async with daemon.session() as slow:
        await slow.call("subscribe", topics=["decisions", "registry"])
        connection = next(iter(daemon.parts.bus.watching.values()))
        for topic in ("decisions", "registry") * 20:  # in one turn of the loop, as above
            line = encode_notification("announce", {"topic": topic, "x": "x" * 2**16})
            connection.announce(line, topic=topic)

        heard: list[dict[str, Any]] = []
        with trio.fail_after(10):
            while not heard or "resync" not in heard[-1]:
                heard.append(await slow.announcement())
        await slow.call("register", hooks=[served("a", "pre_tool_use")])
        await slow.fire("stop")

    shown = [one for one in heard if one["topic"] == "decisions" and "missed" not in one]
    assert heard[-2] == {"topic": "decisions", "missed": 20 - len(shown)}
    assert [one["topic"] for one in slow.announcements] == ["registry", "decisions"]


async def test_decisions_are_shown_to_their_own_session_and_to_administrators(daemon: Daemon) -> None:
    async with daemon.session(id="one") as one, daemon.session() as two, daemon.administrator() as admin:
        for client in (one, two, admin):
            await client.call("subscribe", topics=["decisions"])

        decision = await one.fire_tool("Bash")
        for client in (two, admin):
            await client.call("ping")

        at = one.announcements[0].get("at")
        shown = {
            "topic": "decisions",
            "decision": decision,
            "session_id": "one",
            "at": at,
            "host": None,
            "tool": "Bash",
            "subject": "Bash",
        }
        assert [client.announcements for client in (one, two, admin)] == [[shown], [], [shown]]
        assert abs(datetime.fromisoformat(at).timestamp() - time.time()) < 60


async def test_a_decision_is_shown_with_the_session_and_the_host_that_its_fire_names(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        await admin.call("subscribe", topics=["decisions"])
        envelope = {"session_id": "claimed", "host": "cursor"}

        await admin.call("fire", event="pre_tool_use", payload={"tool_name": "B" * 300}, envelope=envelope)
        await admin.call("fire", event="stop", payload={"tool_name": ["no", "name"]})

        first, second = admin.announcements
        assert (first["session_id"], first["host"], first["tool"]) == ("claimed", "cursor", "B" * 200 + "…")
        assert (second["session_id"], second["host"], second["tool"]) == (None, None, None)


async def test_operations_are_shown_to_administrators_with_what_was_done_and_why(daemon: Daemon) -> None:
    async with daemon.session() as agent, daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[run(daemon, "no")])
        await admin.call("subscribe", topics=["operations"])
        with pytest.raises(RpcFailure, match="the topic 'operations' needs the admin socket"):
            await agent.call("subscribe", topics=["operations"])

        await admin.call("suspend", id="no", seconds=60, reason="a wrong guard")
        await admin.call("resume", id="no")
        daemon.write("hooks.toml", "[[hook]]\n")
        await admin.call("reload")
        parts, text = daemon.parts, "the disk was read-only"
        parts.bus.announce_fault("fault", text)
        await admin.call("ping")

        suspended, resumed, reloaded, fault = [one for one in admin.announcements if one["topic"] == "operations"]
        assert [one["kind"] for one in (suspended, resumed, reloaded, fault)] == [
            "suspended", "resumed", "reloaded", "fault",
        ]  # fmt: skip
        assert (suspended["hook"], suspended["reason"]) == ("global/no", "a wrong guard")
        assert (resumed["hook"], resumed["why"], fault["text"]) == ("global/no", "by an operator", text)
        assert reloaded["diagnostics"][0]["file"] == f"{daemon.folder}/hooks.toml"
        assert not agent.announcements


async def test_a_decision_is_shown_to_the_sessions_above_and_to_none_beside_or_below(daemon: Daemon) -> None:
    async with (
        daemon.session() as top,
        daemon.session(**child_of(top)) as middle,
        daemon.session(**child_of(middle)) as low,
        daemon.session(**child_of(middle)) as beside,
    ):
        for client in (top, middle, low, beside):
            await client.call("subscribe", topics=["decisions"])

        await middle.fire("stop")
        await low.fire("stop")
        for client in (top, middle, beside):
            await client.call("ping")

        assert [len(client.announcements) for client in (top, middle, low, beside)] == [2, 2, 1, 0]


async def test_an_administrator_that_is_a_session_too_is_shown_a_decision_once(daemon: Daemon) -> None:
    client = daemon.connect(daemon.admin)
    await client.call("hello", protocol=1, session={})
    await client.call("subscribe", topics=["decisions"])

    await client.fire("stop")
    await client.call("ping")

    assert len(client.announcements) == 1
    await client.aclose()


async def test_revisions_begin_with_the_time_and_grow_for_each_viewer(daemon: Daemon) -> None:
    began = time.time_ns() // 1_000_000
    async with daemon.administrator() as admin:
        revisions = []
        async with daemon.session() as client:
            revisions.append(client.hello["revision"])  # type: ignore[attr-defined]
            revisions.append((await client.call("register", hooks=[served("a")]))["revision"])
            revisions.append((await client.call("unregister", id="a"))["revision"])
            await admin.call("register", scope="global", hooks=[run(daemon, "no")])
            revisions.append((await client.call("hooks"))["revision"])
            revisions.append((await client.call("register", hooks=[served("b")]))["revision"])

    assert revisions == sorted(set(revisions))
    assert abs(revisions[0] - began) < 60_000


async def test_a_chain_under_way_goes_on_with_the_hooks_it_began_with(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    first = run(daemon, "first", "wait", config={"started": str(started), "go": str(go)})
    async with daemon.session(hooks=[first, run(daemon, "second")]) as client:
        fire = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Bash"})
        with trio.fail_after(10):
            while not started.exists():
                await client.call("ping")
        running, second = (await client.call("hooks"))["hooks"]
        for hook_id in ("first", "second"):
            await client.call("unregister", id=hook_id)
        later = await client.fire_tool("Bash")
        go.write_text("")

        decision = await client.answer_to(fire)

    assert later["verdict"] == "pass"
    assert (decision["verdict"], decision["hook"]) == ("deny", "second")
    assert (running["load"]["busy"], running["load"]["in_flight"], second["load"]["in_flight"]) == (1, 1, 0)
    assert running["load"]["workers"] >= 1
    assert running["load"]["waiting"] == 0


async def test_a_chain_under_way_ends_on_the_build_it_began_with(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    first = run(daemon, "first", "wait", config={"started": str(started), "go": str(go)})
    async with daemon.session(hooks=[first, run(daemon, "second")]) as client, daemon.administrator() as admin:
        fire = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Bash"})
        with trio.fail_after(10):
            while not started.exists():
                await client.call("ping")
        daemon.write("guards.py", QUICK)
        await admin.call("reload")
        while_under_way = len(daemon.parts.sources.pools)
        later = await client.fire_tool("Bash")
        go.write_text("")

        decision = await client.answer_to(fire)
        with trio.fail_after(10):
            while len(daemon.parts.sources.pools) > 1:
                await client.call("ping")

    assert (decision["reason"], later["reason"]) == ("no", "new")
    assert while_under_way == 2  # the old pool ends when the last fire that may need it has ended
