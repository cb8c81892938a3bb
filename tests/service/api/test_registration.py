"""What clients register: all or nothing, in order, each in its own layer, for as long as its session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon
from support.pools import until
from support.shared_daemon import daemon_in_thread

GUARDS = """
from hooklatch_worker import deny, hook

def no(event):
    return deny("no")

def other(event):
    return deny("other")

@hook("notification")
def noted(event):
    return None
"""
SLOW = """
import os, time
open({started!r}, "w").close()
while not os.path.exists({gate!r}):
    time.sleep(0.005)
def f(event): pass
"""
CONFIG = '[[hook]]\nid = "of-file"\nevent = "stop"\nrun = "guards.py:noted"\n'


FILES = {"hooks.toml": CONFIG, "guards.py": GUARDS}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon of which each test changes its own sessions only."""
    with daemon_in_thread(tmp_path_factory.mktemp("d"), FILES) as daemon:
        yield daemon


@pytest.fixture
async def own(tmp_path: Path) -> AsyncGenerator[Daemon]:
    """A daemon for a test that changes what everybody sees, or looks at all that there is."""
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


def served(hook_id: str, event: str = "pre_tool_use", **rest: Any) -> dict[str, Any]:
    return {"id": hook_id, "event": event, "served": True, **rest}


async def refused(client: Client, **params: Any) -> RpcFailure:
    with pytest.raises(RpcFailure) as caught:
        await client.call("register", **params)
    return caught.value


async def listed(client: Client, **params: Any) -> list[str]:
    return [f"{hook['layer']}/{hook['id']}" for hook in (await client.call("hooks", **params))["hooks"]]


async def test_one_call_is_one_revision_in_the_order_of_its_list(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("subscribe", topics=["registry"])

        result = await client.call("register", hooks=[served("b"), served("a"), served("c")])

        assert result["ids"] == ["b", "a", "c"]
        assert client.announcements == [client.announcements[0] | {"added": ["b", "a", "c"], "removed": []}]
        assert client.announcements[0]["revision"] == result["revision"]
        assert await listed(client, event="pre_tool_use") == ["session/b", "session/a", "session/c"]


async def test_registering_the_same_again_makes_no_revision(daemon: Daemon) -> None:
    async with daemon.session() as client:
        first = await client.call("register", hooks=[served("a")])

        again = await client.call("register", hooks=[served("a")])
        nothing = await client.call("register", hooks=[])

    assert again["revision"] == nothing["revision"] == first["revision"]


async def test_an_id_registered_again_is_replaced_and_keeps_its_place(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("register", hooks=[served("a"), served("b")])
        await client.call("subscribe", topics=["registry"])

        await client.call("register", hooks=[served("a", match="Bash")])

        assert client.announcements[0]["changed"] == ["a"]
        assert await listed(client, event="pre_tool_use") == ["session/a", "session/b"]


async def test_priority_orders_within_a_layer_and_the_order_of_registration_breaks_the_tie(daemon: Daemon) -> None:
    async with daemon.session() as client:
        hooks = [served("late", priority=1), served("a"), served("first", priority=1000), served("b")]
        await client.call("register", hooks=hooks)

        order = await listed(client, event="pre_tool_use")

    assert order == ["session/first", "session/a", "session/b", "session/late"]


async def test_a_bad_definition_keeps_all_of_its_call_from_being_registered(daemon: Daemon) -> None:
    async with daemon.session() as client:
        before = await listed(client)

        await refused(client, hooks=[served("good"), served("bad", timeout=0)])

        assert await listed(client) == before


async def test_unregistering_removes_exactly_that_hook_and_is_idempotent(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("register", hooks=[served("a"), served("ab")])

        first = await client.call("unregister", id="a")
        second = await client.call("unregister", id="a")

        assert first == second
        assert await listed(client, event="pre_tool_use") == ["session/ab"]


async def test_a_global_change_needs_the_admin_socket(daemon: Daemon) -> None:
    async with daemon.session() as client:
        failure = await refused(client, scope="global", hooks=[served("a")])
        for method in ("unregister", "enable", "disable"):
            with pytest.raises(RpcFailure, match="not_admin"):
                await client.call(method, id="of-file", scope="global")
        with pytest.raises(RpcFailure, match="not_admin"):
            await client.call("reload")

    assert failure.name == "not_admin"


async def test_a_session_neither_replaces_nor_disables_a_hook_of_another_layer(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await client.call("register", hooks=[served("of-file", "stop")])
        await client.call("unregister", id="of-file")

        with pytest.raises(RpcFailure, match="cannot change another layer's"):
            await client.call("disable", id="of-file")

        assert "global/of-file" in await listed(client, event="stop")


async def test_two_sessions_do_not_see_each_others_hooks(daemon: Daemon) -> None:
    async with daemon.session() as one, daemon.session() as two:
        await one.call("register", hooks=[served("mine")])

        assert "session/mine" not in await listed(two)
        assert (await two.fire_tool("Bash"))["verdict"] == "pass"


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        (served("x", "stop", mtach="Bash"), "no key 'mtach'; did you mean 'match'"),
        (served("x", timeout=5000), "seconds, not milliseconds"),
        (served("x", match={"regex": "a)|(b("}), "not a pattern"),
        (served("x", "session_end", match="a"), "no field to match on"),
        (served("x", "pre_tool_uze"), "did you mean 'pre_tool_use'"),
    ],
)
async def test_a_bad_definition_is_refused_by_what_is_wrong_with_it(daemon: Daemon, hook: Any, text: str) -> None:
    async with daemon.session() as client:
        failure = await refused(client, hooks=[hook])

    assert text in failure.message
    assert failure.name in ("invalid_params", "unknown_event")


async def test_an_id_may_not_stand_twice_in_one_call(daemon: Daemon) -> None:
    async with daemon.session() as client:
        failure = await refused(client, hooks=[served("a"), served("a", "stop")])

    assert "twice" in failure.message


async def test_a_global_hook_cannot_be_served(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        failure = await refused(admin, scope="global", hooks=[served("a")])

    assert "cannot be served" in failure.message


async def test_a_relative_run_is_relative_to_the_cwd_of_the_session(daemon: Daemon) -> None:
    daemon.write("project/guards.py", GUARDS)
    async with daemon.session(cwd=str(daemon.folder / "project")) as client:
        await client.call("register", hooks=[{"event": "pre_tool_use", "run": "guards.py:no"}])

        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["layer"], decision["hook"]) == ("deny", "session", "guards:no")


@pytest.mark.parametrize("cwd", [None, "project"])
async def test_a_relative_run_without_an_absolute_cwd_is_refused(daemon: Daemon, cwd: str | None) -> None:
    async with daemon.session(cwd=cwd) as client:
        failure = await refused(client, hooks=[{"event": "pre_tool_use", "run": "guards.py:no"}])

    assert "give an absolute path" in failure.message


@pytest.mark.parametrize(
    ("text", "run", "message"),
    [
        ("x = (\n", "bad.py:f", "bad.py:1: SyntaxError"),
        ("x = 1\nraise ValueError('no')\n", "bad.py:f", "bad.py:2: ValueError: no"),
        ("x = 1\n", "bad.py:f", "has no function 'f'"),
        ("f = 1\n", "bad.py:f", "has no function 'f'"),
        ("x = 1\n", "gone.py:f", "there is no such file"),
        ("x = 1\n", "no_such_package.guards:f", "no_such_package"),
        ("x = 1\n", "nul\0l.py:f", "is not a path"),
    ],
)
async def test_a_run_that_does_not_load_is_refused_and_nothing_is_registered(
    daemon: Daemon, text: str, run: str, message: str
) -> None:
    daemon.write("bad.py", text)
    async with daemon.session(cwd=str(daemon.folder)) as client:
        failure = await refused(client, hooks=[served("good"), {"id": "bad", "event": "stop", "run": run}])

        assert (failure.name, message in failure.message) == ("load_failed", True)
        assert "session/good" not in await listed(client)


async def test_a_function_written_a_moment_ago_can_be_registered(own: Daemon) -> None:
    async with own.session(cwd=str(own.folder)) as client:
        await client.call("register", hooks=[{"id": "old", "event": "stop", "run": "guards.py:noted"}])
        own.write("guards.py", GUARDS + "\ndef newest(event):\n    return deny('newest')\n")

        await client.call("register", hooks=[{"id": "new", "event": "pre_tool_use", "run": "guards.py:newest"}])

        assert (await client.fire_tool("Bash"))["reason"] == "newest"


async def test_a_disabled_hook_stays_disabled_when_it_is_registered_again(daemon: Daemon) -> None:
    hook = {"id": "no", "event": "pre_tool_use", "run": str(daemon.folder / "guards.py") + ":no"}
    async with daemon.session(hooks=[hook]) as client:
        await client.call("disable", id="no")
        await client.call("register", hooks=[hook | {"priority": 7}])
        while_disabled = await client.fire_tool("Bash")
        await client.call("enable", id="no")
        enabled = await client.fire_tool("Bash")

    assert (while_disabled["verdict"], enabled["verdict"]) == ("pass", "deny")


async def test_a_hook_unregistered_while_disabled_begins_enabled(own: Daemon) -> None:
    async with own.administrator() as admin, own.session() as client:
        hook = {"id": "no", "event": "pre_tool_use", "run": str(own.folder / "guards.py") + ":no"}
        for who, scope in ((admin, "global"), (client, "session")):
            await who.call("register", scope=scope, hooks=[hook])
            await who.call("disable", id="no")
            await who.call("unregister", id="no")
            await who.call("register", scope=scope, hooks=[hook])

            assert [one["state"] for one in (await who.call("hooks"))["hooks"] if one["id"] == "no"] == ["active"]
            await who.call("unregister", id="no")


async def test_what_the_admin_socket_registered_fires_in_every_session(own: Daemon) -> None:
    async with own.session() as early, own.administrator() as admin:
        guard = str(own.folder / "guards.py")
        await admin.call(
            "register", scope="global", hooks=[{"id": "no", "event": "pre_tool_use", "run": guard + ":no"}]
        )
        async with own.session() as late:
            decisions = [await client.fire_tool("Bash") for client in (early, late)]

    assert [(decision["verdict"], decision["layer"]) for decision in decisions] == [("deny", "global")] * 2


async def test_a_hook_of_a_file_is_changed_in_the_file(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        run = str(daemon.folder / "guards.py") + ":no"
        failure = await refused(admin, scope="global", hooks=[{"id": "of-file", "event": "stop", "run": run}])
        with pytest.raises(RpcFailure, match="hooklatch hooks disable global/of-file"):
            await admin.call("unregister", id="of-file")

    assert "hooks.toml:1" in failure.message


# -- sessions --------------------------------------------------------------------------------------------------


async def test_hello_registers_its_hooks_with_the_session_or_opens_none(daemon: Daemon) -> None:
    async with daemon.session(id="s", hooks=[served("a")]) as client:
        assert "session/a" in await listed(client)
    other = daemon.connect()
    with pytest.raises(RpcFailure, match="seconds"):
        await other.call("hello", protocol=1, session={"id": "t", "hooks": [served("b", timeout=0)]})
    retried = await other.call("hello", protocol=1, session={"id": "t"})
    await other.aclose()

    assert retried["session_id"] == "t"


async def test_a_client_that_leaves_while_its_hello_loads_a_source_leaves_a_session_that_will_end(
    own: Daemon,
) -> None:
    """The source imports until the test lets it."""
    gate = own.folder / "gate"
    own.write("slow.py", SLOW.format(started=f"{own.folder}/started", gate=str(gate)))
    client = own.connect()
    hooks = [{"event": "stop", "run": str(own.folder / "slow.py") + ":f"}]
    await client.send("hello", protocol=1, session={"id": "gone", "hooks": hooks})
    await until((own.folder / "started").exists)

    await client.aclose()
    gate.write_text("go")

    await until(lambda: not own.parts.bus.connections)
    session = own.parts.sessions.get("gone")
    assert session is None or (session.connections, session.left_count) == (set(), 1)


async def test_connections_share_a_session_by_its_token(daemon: Daemon) -> None:
    async with daemon.session(id="shared") as one:
        token = one.hello["resume_token"]  # type: ignore[attr-defined]
        async with daemon.session(id="shared", resume_token=token) as two:
            await one.call("register", hooks=[served("a")])

            assert "session/a" in await listed(two)
            assert [s["connections"] for s in (await one.call("sessions"))["sessions"]] == [2]


@pytest.mark.parametrize("token", [None, "", "wrong", "ä"])
async def test_an_id_in_use_is_refused_without_its_token(daemon: Daemon, token: str | None) -> None:
    async with daemon.session(id=f"taken {token!r}"):
        with pytest.raises(RpcFailure, match="session_in_use"):
            async with daemon.session(id=f"taken {token!r}", resume_token=token):
                pass


@pytest.mark.parametrize("session_id", ["", "x" * 201, "a\nb"])
async def test_a_session_id_is_a_short_line(daemon: Daemon, session_id: str) -> None:
    with pytest.raises(RpcFailure, match="at most 200 characters"):
        async with daemon.session(id=session_id):
            pass


async def test_a_session_keeps_its_hooks_until_it_is_resumed(own: Daemon) -> None:
    hook = {"id": "no", "event": "pre_tool_use", "run": str(own.folder / "guards.py") + ":no"}
    async with own.session(id="s", hooks=[hook]) as client:
        token = client.hello["resume_token"]  # type: ignore[attr-defined]
    await until(lambda: not own.parts.bus.connections)

    async with own.session(id="s", resume_token=token) as client:
        decision = await client.fire_tool("Bash")

    assert decision["verdict"] == "deny"


async def test_the_hooks_of_a_client_go_with_its_session(own: Daemon) -> None:
    async with own.session(id="s", hooks=[served("a")]):
        pass
    await until(lambda: not own.parts.bus.connections)
    session = own.parts.sessions.get("s")
    assert session is not None

    own.parts.sessions.discard(session)

    async with own.session(id="s") as client:
        assert "session/a" not in await listed(client)


# -- children --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def family(daemon: Daemon) -> AsyncGenerator[tuple[Client, Client]]:
    hook = {"id": "no", "event": "pre_tool_use", "run": str(daemon.folder / "guards.py") + ":no"}
    note = {"id": "noted", "event": "stop", "run": str(daemon.folder / "guards.py") + ":noted"}
    async with (
        daemon.session(id="parent", hooks=[hook, note]) as parent,
        daemon.session(id="child", **child_of(parent)) as child,
    ):
        yield parent, child


async def test_a_child_has_the_gates_of_its_parent_and_nothing_else_of_it(own: Daemon) -> None:
    async with family(own) as (_, child):
        decision = await child.fire_tool("Bash")

        assert (decision["verdict"], decision["layer"], decision["hook"]) == ("deny", "parent", "no")
        assert await listed(child) == ["global/of-file", "parent/no"]


async def test_changes_of_the_parents_gates_arrive_in_the_child_and_its_child(own: Daemon) -> None:
    async with family(own) as (parent, child), own.session(**child_of(child)) as grandchild:
        await grandchild.call("subscribe", topics=["registry"])
        hook = {"id": "second", "event": "pre_tool_use", "run": str(own.folder / "guards.py") + ":other"}
        await parent.call("register", hooks=[hook])
        with trio.fail_after(5):
            added = await grandchild.announcement()
        await parent.call("disable", id="no")

        decisions = [await client.fire_tool("Bash") for client in (child, grandchild)]

    assert added["added"] == ["second"]
    assert [decision["reason"] for decision in decisions] == ["other", "other"]


async def test_a_child_cannot_change_its_parents_gates(own: Daemon) -> None:
    async with family(own) as (_, child):
        await child.call("unregister", id="no")
        with pytest.raises(RpcFailure, match="another layer's"):
            await child.call("disable", id="no")

        assert (await child.fire_tool("Bash"))["verdict"] == "deny"


async def test_a_child_keeps_the_gates_of_a_parent_that_ended_also_through_a_reload(own: Daemon) -> None:
    async with family(own) as (_, child):
        parent = own.parts.sessions.get("parent")
        assert parent is not None
        own.parts.sessions.discard(parent)
        after_the_end = await child.fire_tool("Bash")
        await child.call("subscribe", topics=["registry"])
        own.write("guards.py", GUARDS.replace('deny("no")', 'deny("mended")'))
        with trio.fail_after(10):
            await child.announcement()

        after_the_reload = await child.fire_tool("Bash")

    assert (after_the_end["reason"], after_the_reload["reason"]) == ("no", "mended")


async def test_a_parent_that_is_not_there_is_refused(daemon: Daemon) -> None:
    with pytest.raises(RpcFailure, match="not_found: there is no live session 'nobody'"):
        async with daemon.session(parent_session_id="nobody"):
            pass
