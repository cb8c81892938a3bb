"""What hooks remember, through a real daemon: exact counts whatever becomes of workers, apart where it must be.

Slow as a whole: each has a daemon and workers.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.service.dispatch import shared_state
from hooklatch_worker import wire
from hooklatch_worker.sandbox import isolation
from support.daemons import Client, Daemon, child_of, running_daemon
from support.pools import until

pytestmark = pytest.mark.slow

GUARDS = """
import os, signal, threading, time
from hooklatch import StateError, amend, context, hook

def steps(scope, given):
    return [getattr(scope, name)(*rest) for name, *rest in given]

@hook("pre_tool_use", match="Steps")
def run(event):
    scope = event.state.session if event.tool_input.get("session") else event.state
    return context(said=steps(scope, event.tool_input["steps"]))

@hook("pre_tool_use", match="Many")
def many(event):
    for _ in range(event.tool_input["count"]):
        event.state.increment("many")

@hook("pre_tool_use", match="Die")
def die(event):
    event.state.increment("died")
    os.kill(os.getpid(), signal.SIGKILL)

@hook("pre_tool_use", match="Hang", timeout=1.5)
def hang(event):
    event.state.increment("hung")
    time.sleep(60)

@hook("pre_tool_use", match="Fork")
def fork(event):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            event.state.increment("forked")
        except StateError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    return context(said=os.read(read, 1000).decode())

later = []

@hook("pre_tool_use", match="Keep")
def keep(event):
    later.append(event.state)

@hook("pre_tool_use", match="Late")
def late(event):
    said = []
    def ask():
        try:
            said.append(later[0].increment("late"))
        except StateError as error:
            said.append(str(error))
    ask()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return context(said=said)

@hook("pre_tool_use", match="Rewrite", priority=200)
def budget(event):
    event.state.increment("asked")
    event.state.session.increment("once", once=True)
    return context(said=[event.state.get("asked"), event.state.session.get("once"), event.reinvoked])

@hook("pre_tool_use", match="Rewrite", priority=100)
def rewrite(event):
    return amend(tool_input={"rewritten": True})
"""
CONFIG = '[[source]]\npath = "guards.py"\nworkers = 4\n'
FILES = {"hooks.toml": CONFIG, "guards.py": GUARDS}
ASYNCHRONOUS = """
import asyncio
import trio
from hooklatch import context, hook

@hook("pre_tool_use", match="Trio")
async def under_trio(event):
    await trio.sleep(0)
    there = await trio.to_thread.run_sync(event.state.increment, "async")
    return context(said=[there, event.state.increment("async")])

@hook("pre_tool_use", match="Asyncio", runtime="asyncio")
async def under_asyncio(event):
    await asyncio.sleep(0)
    there = await asyncio.to_thread(event.state.increment, "async")
    return context(said=[there, event.state.increment("async")])
"""
COUNTER = """
from hooklatch import context, hook

@hook("pre_tool_use", match="Count")
def count(event):
    return context(said=[event.state.increment("n"), event.state.session.increment("n")])
"""


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


async def said(client: Client, tool: str = "Steps", **tool_input: Any) -> Any:
    decision = await client.fire_tool(tool, **tool_input)
    assert decision["verdict"] == "pass", decision
    return decision["context"]["said"]


def end(daemon: Daemon, session_id: str) -> None:
    """End a session now, as its last connection's end does a minute later."""
    session = daemon.parts.sessions.get(session_id)
    assert session is not None
    daemon.parts.sessions.discard(session)


async def value(client: Client, key: str) -> Any:
    return (await said(client, steps=[["get", key]]))[0]


# -- exact -------------------------------------------------------------------------------------------------------


async def test_four_workers_at_once_count_exactly(daemon: Daemon) -> None:
    async def fire_often() -> None:
        async with daemon.session() as client:
            for _ in range(5):
                decision = await client.fire_tool("Many", count=40)
                assert decision["verdict"] == "pass", decision

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(fire_often)
        await until(lambda: len(daemon.worker_pids) > 1)

    async with daemon.session() as client:
        assert await value(client, "many") == 8 * 5 * 40


async def test_killed_hung_and_recycled_workers_lose_no_count(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for _ in range(2):
            assert (await client.fire_tool("Die"))["cause"] == "crash"
        assert (await client.fire_tool("Hang"))["cause"] == "timeout"
        (pool,) = daemon.parts.sources.pools.values()
        for worker in pool.live_workers():
            if pool.is_idle(worker):
                pool.recycle(worker)

        assert [await value(client, "died"), await value(client, "hung")] == [2, 1]


async def test_async_hooks_ask_from_their_task_and_from_threads(tmp_path: Path) -> None:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": ASYNCHRONOUS}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        assert await said(client, "Trio") == [1, 2]
        assert await said(client, "Asyncio") == [3, 4]


async def test_a_decision_is_counted_once_though_its_hook_is_asked_twice(daemon: Daemon) -> None:
    async with daemon.session() as client:
        assert await said(client, "Rewrite") == [2, 1, True]
        assert await said(client, "Rewrite") == [4, 2, True]


# -- apart -------------------------------------------------------------------------------------------------------


async def test_sessions_their_children_and_those_who_claim_their_ids_are_apart(daemon: Daemon) -> None:
    count = {"session": True, "steps": [["increment", "n"]]}
    async with daemon.session(id="one") as parent, daemon.session(id="two", **child_of(parent)) as child:
        assert [await said(parent, **count), await said(parent, **count), await said(child, **count)] == [[1], [2], [1]]

        for session_id, expected in (("one", [1]), ("one", [2]), ("three", [1])):
            one_shot = daemon.connect()
            payload = {"tool_name": "Steps", "tool_input": count}
            decision = await one_shot.call(
                "fire", event="pre_tool_use", payload=payload, envelope={"session_id": session_id}
            )
            await one_shot.aclose()
            assert decision["context"]["said"] == expected
        assert await said(parent, **count) == [3]


async def test_a_fire_of_no_session_has_none_to_count_in(daemon: Daemon) -> None:
    one_shot = daemon.connect()
    decision = await one_shot.fire_tool("Steps", session=True, steps=[["increment", "n"]])
    await one_shot.aclose()

    assert (decision["verdict"], decision["cause"]) == ("deny", "crash")
    assert "StateError: this fire has no session" in decision["reason"]


async def test_a_session_that_ends_takes_its_values_along(daemon: Daemon) -> None:
    async with daemon.session(id="brief") as client:
        await said(client, session=True, steps=[["set", "k", 1]])
    assert daemon.parts.shared_state.status()["keys"] == 1
    end(daemon, "brief")

    assert daemon.parts.shared_state.status()["keys"] == 0


async def test_a_hook_that_a_session_brought_shares_nothing_with_the_operators(daemon: Daemon) -> None:
    daemon.write("count.py", COUNTER)
    daemon.write("hooks.d/more.toml", f'[[source]]\npath = "{daemon.folder}/count.py"\n')
    async with daemon.administrator() as admin:
        await admin.call("reload")
    run = {"event": "pre_tool_use", "id": "own", "match": "Own", "run": f"{daemon.folder}/count.py:count"}
    async with daemon.session(id="a") as one, daemon.session(id="b") as other:
        assert await said(one, "Count") == [1, 1]
        for client in (one, other):
            await client.call("register", hooks=[run])

        assert await said(one, "Own") == [1, 1]
        assert await said(other, "Own") == [1, 1]
        assert await said(other, "Count") == [2, 1]
        for name in ("a", "b"):
            end(daemon, name)
    assert {one["layer"] for one in daemon.parts.shared_state.status()["sources"]} == {"global"}


async def test_a_gate_that_was_handed_down_goes_on_counting_when_its_session_has_ended(daemon: Daemon) -> None:
    daemon.write("count.py", COUNTER)
    run = {"event": "pre_tool_use", "id": "own", "match": "Own", "run": f"{daemon.folder}/count.py:count"}
    async with daemon.session(id="parent", hooks=[run]) as parent:
        assert await said(parent, "Own") == [1, 1]
        async with daemon.session(id="child", **child_of(parent)) as child:
            assert await said(child, "Own") == [2, 1]
            end(daemon, "parent")
            assert await said(child, "Own") == [3, 2]
        end(daemon, "child")
    assert daemon.parts.shared_state.status()["sources"] == []


async def test_two_projects_do_not_share(daemon: Daemon, tmp_path: Path) -> None:
    async with daemon.administrator() as admin:
        for name in ("one", "two"):
            daemon.write(f"{name}/.hooklatch/hooks.d/count.py", COUNTER)
            await admin.call("trust", folder=str(tmp_path / name))
    async with (
        daemon.session(cwd=str(tmp_path / "one")) as one,
        daemon.session(cwd=str(tmp_path / "one")) as same,
        daemon.session(cwd=str(tmp_path / "two")) as other,
    ):
        assert [await said(client, "Count") for client in (one, same, other)] == [[1, 1], [2, 1], [1, 1]]


# -- refused -----------------------------------------------------------------------------------------------------


async def refused(client: Client, tool: str = "Steps", **tool_input: Any) -> str:
    decision = await client.fire_tool(tool, **tool_input)
    assert (decision["verdict"], decision["cause"]) == ("deny", "crash")
    assert "StateError" in decision["reason"]
    return decision["reason"]


async def test_what_cannot_be_done_is_an_error_of_the_guard(daemon: Daemon) -> None:
    async with daemon.session() as client:
        assert "does not hold a number" in await refused(client, steps=[["set", "text", "x"], ["increment", "text"]])
        assert "range of a counter" in await refused(client, steps=[["increment", "k", 2**63]])
        assert "at most 16384 bytes" in await refused(client, steps=[["set", "k", "x" * 20_000]])
        assert "at most 1000 steps" in await refused(client, "Many", count=1001)
        assert await value(client, "many") == 1000, "what was done before the bound stays done"


async def test_an_event_is_of_no_use_after_its_call_nor_in_a_forked_process(daemon: Daemon) -> None:
    async with daemon.session() as client:
        assert (await client.fire_tool("Keep"))["verdict"] == "pass"
        for answer in await said(client, "Late"):
            assert "while a worker of the daemon runs the event" in answer
        assert "that the hook has forked" in await said(client, "Fork")
        assert [await value(client, "late"), await value(client, "forked")] == [None, None]


# -- isolated, reloaded ------------------------------------------------------------------------------------------


async def test_it_is_there_under_strict_isolation_and_after_a_reload(tmp_path: Path) -> None:
    if isolation.find_effective_isolation(isolation.detect_kernel(), wire.Isolation("strict")).missing:
        pytest.skip("this kernel cannot isolate strictly")
    files = {
        "hooks.toml": f'[isolation]\nlevel = "strict"\n[[source]]\npath = "{tmp_path}/count.py"\n',
        "count.py": COUNTER,
    }
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client, daemon.administrator() as admin:
        assert await said(client, "Count") == [1, 1]
        before = daemon.worker_pids
        daemon.write("count.py", COUNTER + "# another version\n")
        await admin.call("reload")

        assert await said(client, "Count") == [2, 2]
        assert not set(daemon.worker_pids) & set(before)
        assert {pool.isolation["in_force"] for pool in daemon.parts.sources.pools.values()} == {"strict"}
        assert (await admin.call("status"))["state"]["keys"] == 2


# -- kept --------------------------------------------------------------------------------------------------------

KEPT = {"hooks.toml": f"{CONFIG}[state]\nkept = true\n", "guards.py": GUARDS}


async def test_what_is_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, KEPT) as daemon, daemon.session(id="s") as client:
        await said(client, steps=[["increment", "n", 5], ["set", "gone", 1], ["delete", "gone"]])
        await said(
            client,
            steps=[
                [
                    "set",
                    "brief",
                    1,
                ],
                ["compare_and_set", "n", 5, 6],
            ],
        )
        await said(client, session=True, steps=[["increment", "own", 2]])
        assert (await client.fire_tool("Die"))["cause"] == "crash"

    async with running_daemon(tmp_path) as daemon, daemon.session(id="s") as client:
        found = [await value(client, key) for key in ("n", "gone", "brief", "died")]
        own = await said(client, session=True, steps=[["increment", "own"]])
        (namespace,) = daemon.parts.shared_state.status()["sources"]

    assert found == [6, None, 1, 1]
    assert own == [3]
    assert namespace["keys"] == 4


async def test_without_being_told_to_keep_nothing_is_kept_and_a_change_waits_for_a_restart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.session() as client, daemon.administrator() as admin:
        await said(client, steps=[["increment", "n"]])
        daemon.write("hooks.toml", KEPT["hooks.toml"])
        await admin.call("reload")

        assert "[state] kept = true takes effect at the next start" in (await admin.call("status"))["warnings"][0]
        assert not (tmp_path / "state" / "kept-state").exists()


async def test_a_kept_file_that_cannot_be_read_denies_and_is_red(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, KEPT) as daemon, daemon.session() as client:
        await said(client, steps=[["increment", "n"]])
    path = tmp_path / "state" / "kept-state"
    path.write_bytes(path.read_bytes().replace(b'"n"', b'"m"'))

    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        for steps in ([["get", "n"]], [["set", "n", 1]]):
            assert "cannot be read" in await refused(client, steps=steps)
        status = await admin.call("status")
        health = await admin.call("health")
        assert status["health"] == "red"
        assert any("kept-state:2: the line is damaged" in fault for fault in status["faults"])
        assert "state" in health["reasons"]
    assert b'"m"' in path.read_bytes()


async def test_a_kept_file_that_cannot_be_written_denies_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk that is full is one of this test alone; in test_journal.py there is a real limit."""
    async with running_daemon(tmp_path, KEPT) as daemon, daemon.session() as client, daemon.administrator() as admin:
        write = os.write

        def full(fd: int, data: bytes) -> int:
            if bytes(data[8:10]) == b" [":  # the journal's lines, not the record's
                raise OSError(28, "No space left on device")
            return write(fd, data)

        monkeypatch.setattr(os, "write", full)
        assert "No space left" in await refused(client, steps=[["increment", "n"]])
        assert (await admin.call("status"))["health"] == "red"
        monkeypatch.setattr(os, "write", write)

        assert await said(client, steps=[["increment", "n"]]) == [1]
        await admin.until_status(lambda status: status["health"] == "green")


async def test_the_file_is_rewritten_when_it_grows_and_when_it_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_state, "SLACK", 0)
    path = tmp_path / "state" / "kept-state"
    async with running_daemon(tmp_path, KEPT) as daemon, daemon.session() as client:
        with path.open("rb") as first:  # held open: otherwise the second rewriting may get the first one's number
            await client.fire_tool("Many", count=200)
            number = os.fstat(first.fileno()).st_ino
            await until(lambda: path.stat().st_ino != number and path.read_bytes().count(b"\n") < 100)
        path.unlink()
        await said(client, steps=[["increment", "many"]])
        await until(path.exists)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert await value(client, "many") == 201


async def test_time_that_passes_while_the_daemon_is_down_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, KEPT) as daemon, daemon.session() as client:
        asked = [["increment", "brief", 1], ["increment", "long", 1]]
        await said(client, steps=asked)
        space, now = daemon.parts.shared_state, shared_state.read_boot_time()
        for place, key, entry in list(space.keyspace.live(now)):
            left = shared_state.StoredValue(entry.value, now + (100.0 if key == "brief" else 1000.0))
            space._write(place, key, left, now)
    real = shared_state.time.time
    monkeypatch.setattr(shared_state.time, "time", lambda: real() + 500)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert [await value(client, "brief"), await value(client, "long")] == [None, 1]
    monkeypatch.setattr(shared_state.time, "time", lambda: real() - 5000)
    async with running_daemon(tmp_path) as daemon:
        ends = [
            entry.ends_at - shared_state.read_boot_time()
            for _, _, entry in daemon.parts.shared_state.keyspace.live(0.0)
        ]
        assert ends
        assert all(left < 1000 for left in ends), "a clock that was set back prolongs nothing"
