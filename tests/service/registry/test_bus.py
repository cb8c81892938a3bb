"""The reload bus: each change is announced in order, before it is acknowledged, to those whose view it changed."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

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
        with pytest.raises(RpcFailure, match="unknown topic 'registri'; there are decisions, idle, registry"):
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


async def test_decisions_are_shown_to_their_own_session_and_to_administrators(daemon: Daemon) -> None:
    async with daemon.session(id="one") as one, daemon.session() as two, daemon.administrator() as admin:
        for client in (one, two, admin):
            await client.call("subscribe", topics=["decisions"])

        decision = await one.fire("stop")
        for client in (two, admin):
            await client.call("ping")

        shown = {"topic": "decisions", "decision": decision, "session_id": "one"}
        assert [client.announcements for client in (one, two, admin)] == [[shown], [], [shown]]


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
        for hook_id in ("first", "second"):
            await client.call("unregister", id=hook_id)
        later = await client.fire_tool("Bash")
        go.write_text("")

        decision = await client.answer_to(fire)

    assert later["verdict"] == "pass"
    assert (decision["verdict"], decision["hook"]) == ("deny", "second")


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
