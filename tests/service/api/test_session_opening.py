"""How sessions are opened, joined and closed: a refusal leaves nothing, a child proves its parent, an end is an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hooklatch import connect, connect_sync
from hooklatch.service.registry.sessions import LINGER
from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon
from support.pools import until

GUARDS = """
import os, time
from hooklatch_worker import deny, hook

def no(event):
    return deny("no")

def slow(event):
    open(event.tool_input["started"], "w").close()
    while not os.path.exists(event.tool_input["go"]):
        time.sleep(0.005)
    return deny("slow")
"""
FILES = {"guards.py": GUARDS, "hooks.toml": "[personality.plain]\nplugins = []\n"}
SERVED = {"id": "served", "event": "pre_tool_use", "match": "Served", "served": True}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


def guard(daemon: Daemon, hook_id: str = "no", function: str = "no", **more: Any) -> dict[str, Any]:
    return {"id": hook_id, "event": "pre_tool_use", "run": f"{daemon.folder}/guards.py:{function}", **more}


def observed(daemon: Daemon) -> str:
    """Return all that anybody could see of sessions and hooks, whatever it is that they see it by."""
    parts = daemon.parts
    others = (
        "__weakref__",
        "flow",
        "parent",
        "children",
        "view",
        "epoch",
        "unlisted",
    )  # the last three: as last looked at
    sessions = [
        {key: str(getattr(one, key)) for key in one.__slots__ if key not in others}
        | {"parent": one.parent and one.parent.id, "children": [child.id for child in one.children]}
        | {"views": [[view.revision, view.digest, [hook.name for hook in view.hooks]] for view in views]}
        for one in parts.sessions
        for views in [[parts.registries.view_of(one), parts.registries.view_of(one, [])]]
    ]
    projects = {
        folder: [hook.id for hook in parts.registries.project_hooks(folder)] for folder in parts.projects.used()
    }
    return json.dumps([sessions, parts.registries._revision, parts.registries.view.digest, projects], indent=1)


async def test_a_refused_hello_leaves_nothing_at_once_or_a_minute_later(tmp_path: Path, mock_clock: MockClock) -> None:
    mock_clock.rate = 1.0
    project = tmp_path / "project"
    (project / ".hooklatch" / "hooks.d").mkdir(parents=True)
    (project / ".hooklatch" / "hooks.d" / "more.toml").write_text('[[hook]]\nid="p"\nevent="stop"\ncommand="true"\n')
    async with (
        running_daemon(tmp_path, FILES) as daemon,
        daemon.administrator() as admin,
        daemon.session(id="live", host="h", hooks=[guard(daemon)]) as live,
        daemon.session(id="child", **child_of(live)) as child,
    ):
        await admin.call("trust", folder=str(project))
        mock_clock.jump(601)  # until the project that was trusted is let go again
        for client in (live, child, admin):
            await client.call("subscribe", topics=["registry", "decisions"])
        resumed = {"id": "live", "resume_token": live.hello["resume_token"]}  # type: ignore[attr-defined]
        grand = {"id": "child", "resume_token": child.hello["resume_token"]}  # type: ignore[attr-defined]
        changes = {"cwd": str(project), "plugins": [], "personality": "plain", "host": "x"}
        good = guard(daemon, "second", "slow")
        broken = guard(daemon, "third", "missing")
        refusals: list[tuple[str, dict[str, Any]]] = [
            ("session_in_use", {"session": {"id": "live", **changes, "hooks": [good]}}),
            ("session_in_use", {"session": {"id": "live", "resume_token": "x", **changes, **child_of(child)}}),
            ("invalid_params", {"protocol": 2, "session": {"id": "new"}}),
            ("invalid_params", {"session": {"id": "new"}, "dialect": "nope"}),
            ("invalid_params", {"session": {"id": "a\nb"}}),
            ("unknown_event", {"session": {"id": "new"}, "emits": ["nope"]}),
            ("unknown_event", {"session": {"id": "new", "require_handlers": ["nope"], "cwd": str(project)}}),
            ("not_found", {"session": {"id": "new", "parent_session_id": "nobody", "parent_token": "x"}}),
            ("not_permitted", {"session": {"id": "new", "parent_session_id": "live", **changes, "hooks": [good]}}),
            ("not_permitted", {"session": {"parent_session_id": "live", "parent_token": resumed["resume_token"]}}),
            ("invalid_params", {"session": {"id": "new", "parent_token": child_of(live)["parent_token"]}}),
            ("invalid_params", {"session": {"id": "new", **child_of(live), "personality": "nope"}}),
            ("invalid_params", {"session": {**resumed, **changes, "personality": "nope", "hooks": [good]}}),
            ("invalid_params", {"session": {**resumed, **changes, **child_of(child)}}),
            ("invalid_params", {"session": {**grand, "parent_session_id": "other", "cwd": "/"}}),
            ("invalid_params", {"session": {"id": "new", **changes, "hooks": [good, {"id": "x"}]}}),
            ("invalid_params", {"session": {"id": "new", **changes, **child_of(live), "hooks": [good, good]}}),
            ("unknown_event", {"session": {"id": "new", **changes, "hooks": [{**SERVED, "event": "nope"}]}}),
            ("load_failed", {"session": {"id": "new", **changes, **child_of(live), "hooks": [SERVED, good, broken]}}),
            ("load_failed", {"session": {**resumed, **changes, "hooks": [SERVED, good, broken]}}),
            ("load_failed", {"session": {**changes, "hooks": [broken]}, "dialect": "ethos"}),
        ]
        before = observed(daemon)
        for name, params in refusals:
            client = daemon.connect()
            with pytest.raises(RpcFailure) as caught:
                await client.call("hello", **{"protocol": 1, **params})
            at_once = observed(daemon)
            await client.aclose()
            await until(lambda: len(daemon.parts.bus.connections) == 3)
            assert (caught.value.name, params, at_once, observed(daemon)) == (name, params, before, before)

        mock_clock.jump(LINGER + 1)
        for client in (live, child, admin):
            await client.call("ping")

        assert observed(daemon) == before
        assert [client.announcements for client in (live, child, admin)] == [[], [], []]


async def test_a_hello_whose_client_left_while_its_hooks_were_loaded_leaves_nothing(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    text = f"import os, time\nopen({str(started)!r}, 'w').close()\n"
    daemon.write("late.py", text + f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\ndef f(event): ...\n")
    async with daemon.session(id="parent") as parent:
        before = observed(daemon)
        client = daemon.connect()
        hooks = [{"id": "late", "event": "stop", "run": f"{daemon.folder}/late.py:f"}]
        await client.send("hello", protocol=1, session={"id": "gone", **child_of(parent), "hooks": hooks})
        await until(started.exists)
        during = observed(daemon)
        await client.aclose()
        go.touch()

        await until(lambda: len(daemon.parts.bus.connections) == 1)
        session = daemon.parts.sessions.get("gone")
        assert during == before
        assert session is None or session.left_count == 1  # it was all there, or nothing of it


async def test_an_id_that_was_taken_while_hooks_were_loaded_is_not_taken_twice(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    text = f"import os, time\nopen({str(started)!r}, 'w').close()\n"
    daemon.write("late.py", text + f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\ndef f(event): ...\n")
    hooks = [{"id": "late", "event": "stop", "run": f"{daemon.folder}/late.py:f"}]
    slow = daemon.connect()
    number = await slow.send("hello", protocol=1, session={"id": "one", "hooks": hooks})
    await until(started.exists)
    async with daemon.session(id="one") as quick:
        before = observed(daemon)
        go.touch()

        with pytest.raises(RpcFailure, match="session_in_use"):
            await slow.answer_to(number)

        assert observed(daemon) == before
        assert (await quick.call("hooks"))["hooks"] == []
    await slow.aclose()


async def test_a_refused_update_changes_nothing(daemon: Daemon) -> None:
    async with daemon.session(cwd="/") as client:
        before = observed(daemon)

        with pytest.raises(RpcFailure, match="unknown personality"):
            await client.call("session.update", cwd="/tmp", plugins=[], personality="nope")

        assert observed(daemon) == before


# -- parents -----------------------------------------------------------------------------------------------------


async def test_what_is_missing_to_be_a_child_is_named(daemon: Daemon) -> None:
    async with daemon.session(id="parent") as parent:
        with pytest.raises(RpcFailure) as caught:
            async with daemon.session(parent_session_id="parent"):
                pass

    assert "needs the child_token that its hello answered; give it as session.parent_token" in caught.value.message
    hello = parent.hello  # type: ignore[attr-defined]
    assert len(hello["child_token"]) == len(hello["resume_token"]) == 43
    assert hello["child_token"] != hello["resume_token"]


async def test_a_child_token_joins_nothing(daemon: Daemon) -> None:
    async with daemon.session(id="parent") as parent:
        with pytest.raises(RpcFailure, match="session_in_use"):
            async with daemon.session(id="parent", resume_token=child_of(parent)["parent_token"]):
                pass


async def test_a_child_is_resumed_though_its_parent_has_ended(daemon: Daemon) -> None:
    async with daemon.session(id="parent", hooks=[guard(daemon)]) as parent:
        claim = child_of(parent)
        async with daemon.session(id="child", **claim) as child:
            token = child.hello["resume_token"]  # type: ignore[attr-defined]
            assert (await parent.call("session.close")) == {"ended": True}

            async with daemon.session(id="child", resume_token=token, **claim) as again:
                assert (await again.fire_tool("Bash"))["hook"] == "no"


async def test_a_session_sees_itself_and_what_it_started_and_nobody_else(daemon: Daemon) -> None:
    async with (
        daemon.session(id="one", hooks=[guard(daemon)]) as one,
        daemon.session(id="below", **child_of(one)) as below,
        daemon.session(id="other", hooks=[guard(daemon, "theirs")]) as other,
    ):
        for client in (one, below, other):
            await client.call("subscribe", topics=["decisions"])
        for client in (other, below):
            await client.fire_tool("Bash")
        await one_shot(daemon, session_id="one")

        seen = {name: sorted(s["id"] for s in (await c.call("sessions"))["sessions"]) for name, c in (
            ("one", one), ("below", below), ("other", other))}  # fmt: skip
        counts = {name: await fired(client) for name, client in (("one", one), ("below", below), ("other", other))}
        logs = {
            ("one", "one"): await logged(one),
            ("one", "below"): await logged(one, session="below"),
            ("below", "below"): await logged(below),
            ("other", "other"): await logged(other),
        }
        for client, name in ((one, "other"), (below, "one"), (other, "below"), (other, "nobody")):
            for method in ("hooks", "explain", "events", "log"):
                with pytest.raises(RpcFailure, match="not_admin"):
                    await client.call(method, session=name, event="pre_tool_use")

        assert seen == {"one": ["below", "one"], "below": ["below"], "other": ["other"]}
        assert counts == {"one": 0, "below": 1, "other": 1}
        assert list(logs.values()) == [0, 1, 1, 1]
        assert [hook["id"] for hook in (await one.call("hooks", session="below"))["hooks"]] == ["no"]
        announced = [{said["session_id"] for said in client.announcements} for client in (one, below, other)]
        assert announced == [{"below"}, {"below"}, {"other"}]


async def one_shot(daemon: Daemon, **envelope: Any) -> dict[str, Any]:
    client = daemon.connect()
    payload = {"tool_name": "Bash", "tool_input": {}}
    decision = await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope)
    await client.aclose()
    return decision


async def fired(client: Client) -> int:
    (event,) = [one for one in (await client.call("events"))["events"] if one["name"] == "pre_tool_use"]
    return int(event["fired"])


async def logged(client: Client, **filters: Any) -> int:
    return len((await client.call("log", **filters))["records"])


async def test_the_clients_pass_a_parent_on_by_object_by_hand_and_by_environment(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(daemon.agent, cwd=daemon.folder, hooks=[guard(daemon)]) as parent:
        by_hand = (str(parent.session_id), str(parent.child_token))
        async with connect(daemon.agent, parent=parent) as one, connect(daemon.agent, parent=by_hand) as two:
            decisions = [await child.fire("pre_tool_use", tool_name="Bash", tool_input={}) for child in (one, two)]
        monkeypatch.setenv("HOOKLATCH_PARENT", parent.child_environment["HOOKLATCH_PARENT"])

        def in_a_thread() -> str | None:
            with connect_sync(daemon.agent) as three, connect_sync(daemon.agent, parent=None) as four:
                no_child = four.fire("pre_tool_use", tool_name="Bash", tool_input={})
                return f"{three.fire('pre_tool_use', tool_name='Bash', tool_input={}).hook} {no_child.hook}"

        assert [decision.hook for decision in decisions] == ["no", "no"]
        assert await trio.to_thread.run_sync(in_a_thread) == "no None"


async def test_children_find_their_parent_again_after_a_restart(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, FILES) as daemon,
        daemon.session(id="parent") as parent,
        daemon.session(id="child", **child_of(parent)) as child,
    ):
        parent_token, claim = parent.hello["resume_token"], child_of(parent)  # type: ignore[attr-defined]
        token = child.hello["resume_token"]  # type: ignore[attr-defined]
    async with running_daemon(tmp_path) as daemon:
        with pytest.raises(RpcFailure, match="not_found"):
            async with daemon.session(id="child", resume_token=token, **claim):
                pass
        async with (
            daemon.session(id="parent", resume_token=parent_token, hooks=[guard(daemon)]),
            daemon.session(id="child", resume_token=token, **claim) as child,
        ):
            assert (await child.fire_tool("Bash"))["layer"] == "parent"


def test_an_option_that_no_session_has_is_refused() -> None:
    with pytest.raises(TypeError, match="parent_session_id"):
        connect(parent_session_id="one")  # type: ignore[call-arg]


# -- closing -----------------------------------------------------------------------------------------------------


async def test_a_session_that_was_closed_is_gone_and_its_id_free(daemon: Daemon) -> None:
    async with daemon.session(id="s", hooks=[guard(daemon)]) as client:
        answer = await client.call("session.close")
        listed = [session.id for session in daemon.parts.sessions]
        with pytest.raises(RpcFailure, match="invalid_request"):
            await raced(client)
        assert await client.hears_the_end()

        async with daemon.session(id="s") as second:
            assert (answer, listed) == ({"ended": True}, [])
            assert (await second.call("hooks"))["hooks"] == []
            assert await logged(second) == 0


async def raced(client: Client) -> None:
    """Ask once more; where the daemon has hung up already, that is refused too."""
    try:
        await client.fire_tool("Bash")
    except (AssertionError, trio.BrokenResourceError):
        raise RpcFailure({"data": {"name": "invalid_request"}, "message": "it hung up"}) from None


async def test_a_session_whose_socket_just_ends_stays_for_a_minute(daemon: Daemon) -> None:
    async with daemon.session(id="s"):
        pass
    await until(lambda: not daemon.parts.bus.connections)

    with pytest.raises(RpcFailure, match="session_in_use"):
        async with daemon.session(id="s"):
            pass


async def test_what_is_under_way_when_a_session_is_closed_is_answered_by_all_its_guards(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    hooks = [guard(daemon, "slow", "slow", match="Slow", priority=200, observe=True), {**SERVED, "match": "Slow"}]
    async with daemon.session(id="s", hooks=hooks) as client:
        payload = {"tool_name": "Slow", "tool_input": {"started": str(started), "go": str(go)}}
        number = await client.send("fire", event="pre_tool_use", payload=payload)
        await until(started.exists)
        closed = await client.call("session.close")
        async with daemon.session(id="s"):
            go.touch()
            call = await client.read() or {}
            verdict = {"verdict": "deny", "reason": "mine"}
            await client.send_line({"jsonrpc": "2.0", "id": call["id"], "result": verdict})

            assert closed == {"ended": True}
            assert (await client.answer_to(number))["reason"] == "mine"
            assert await client.hears_the_end()


async def test_what_a_closed_session_was_about_to_register_is_not_registered(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    text = f"import os, time\nopen({str(started)!r}, 'w').close()\n"
    daemon.write("late.py", text + f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\ndef f(event): ...\n")
    async with daemon.session(id="s") as client:
        hooks = [{"id": "late", "event": "stop", "run": f"{daemon.folder}/late.py:f"}]
        number = await client.send("register", hooks=hooks)
        await until(started.exists)
        await client.call("session.close")
        before = observed(daemon)
        go.touch()

        with pytest.raises(RpcFailure, match="closed during this request"):
            await client.answer_to(number)

        assert observed(daemon) == before


async def test_a_connection_that_is_done_leaves_the_session_to_the_others(daemon: Daemon) -> None:
    async with daemon.session(id="s", hooks=[SERVED, guard(daemon)]) as one:
        token = one.hello["resume_token"]  # type: ignore[attr-defined]
        async with daemon.session(id="s", resume_token=token) as two:
            answer = await one.call("session.close")
            await one.hears_the_end()

            served, ran = await two.fire_tool("Served"), await two.fire_tool("Bash")
            assert answer == {"ended": False}
            assert (served["verdict"], served["cause"], ran["reason"]) == ("deny", "crash", "no")
            assert await two.call("session.close") == {"ended": True}
    assert daemon.parts.sessions.get("s") is None


async def test_a_child_keeps_the_gates_of_a_parent_that_was_closed(daemon: Daemon) -> None:
    async with (
        daemon.session(id="parent", hooks=[guard(daemon, match="Bash"), SERVED]) as parent,
        daemon.session(**child_of(parent)) as child,
    ):
        await parent.call("session.close")
        await parent.hears_the_end()

        ran, served = await child.fire_tool("Bash"), await child.fire_tool("Served")

    assert (ran["reason"], served["verdict"], served["cause"]) == ("no", "deny", "crash")


async def test_a_fire_that_nobody_waits_for_outlives_its_session(daemon: Daemon) -> None:
    started, go = daemon.folder / "started", daemon.folder / "go"
    hooks = [guard(daemon, "late", "slow", event="post_tool_use")]
    async with daemon.session(hooks=hooks) as client:
        payload = {"tool_name": "Slow", "tool_input": {"started": str(started), "go": str(go)}, "tool_response": ""}
        accepted = await client.call("fire", event="post_tool_use", payload=payload, wait=False)
        await client.call("session.close")
        await until(started.exists)
        go.touch()

        async with daemon.administrator() as admin:
            await admin.until_status(lambda status: sum(status["verdicts"].values()) == 1)
    assert accepted["accepted"]


@asynccontextmanager
async def opened(daemon: Daemon, kind: str) -> AsyncGenerator[None]:
    """Open and end a session of a Python client."""
    if kind == "trio":
        async with connect(daemon.agent, session_id="s"):
            yield
    elif kind == "cancelled":
        with trio.CancelScope() as scope:
            async with connect(daemon.agent, session_id="s"):
                yield
                scope.cancel()
                await trio.sleep_forever()
    else:
        session = connect_sync(daemon.agent, session_id="s")
        await trio.to_thread.run_sync(session.__enter__)
        yield
        await trio.to_thread.run_sync(session.close)


@pytest.mark.parametrize("kind", ["trio", "threads"])
async def test_the_end_of_a_clients_block_is_the_end_of_its_session(daemon: Daemon, kind: str) -> None:
    for _ in range(3):
        async with opened(daemon, kind):
            assert daemon.parts.sessions.get("s") is not None
        assert daemon.parts.sessions.get("s") is None


async def test_so_is_that_of_a_block_under_asyncio(daemon: Daemon) -> None:
    async def main() -> None:
        for _ in range(3):  # a session that lingers would refuse its id
            async with connect(daemon.agent, session_id="s"):
                pass

    await trio.to_thread.run_sync(lambda: asyncio.run(main()))

    assert daemon.parts.sessions.get("s") is None


async def test_so_is_that_of_a_block_that_was_cancelled(daemon: Daemon) -> None:
    async with opened(daemon, "cancelled"):
        assert daemon.parts.sessions.get("s") is not None

    await until(lambda: daemon.parts.sessions.get("s") is None)


async def test_what_another_session_called_under_the_same_id_is_not_counted(daemon: Daemon) -> None:
    async with daemon.session(hooks=[guard(daemon)]) as one, daemon.session(hooks=[guard(daemon)]) as other:
        await other.fire_tool("Bash")

        counts = [(await client.call("hooks"))["hooks"][0]["timings"]["count"] for client in (one, other)]

    assert counts == [0, 1]
