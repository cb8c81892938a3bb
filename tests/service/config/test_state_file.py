"""What outlives the daemon: hooks of the admin socket's clients, switches, manifests.

Slow as a whole: most of it is about a daemon that starts again.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from hooklatch.directories import LockedError, lock_directory
from hooklatch.service.config.state_file import ManifestHook, SavedState, StateFile
from support.daemons import Client, Daemon, running_daemon

GUARDS = """
from hooklatch_worker import deny

def no(event):
    return deny("no")

def other(event):
    return deny("other")
"""
FILES = {"hooks.toml": "", "guards.py": GUARDS}
MARKED = "from hooklatch import hook\n@hook('pre_tool_use')\ndef mine(event):\n    return None\n"

pytestmark = pytest.mark.slow


def run(daemon: Daemon, **rest: Any) -> dict[str, Any]:
    return {"event": "pre_tool_use", "run": f"{daemon.folder}/guards.py:no", **rest}


async def register(admin: Client, *hooks: dict[str, Any]) -> None:
    await admin.call("register", scope="global", hooks=list(hooks))


async def listed(client: Client) -> list[str]:
    return [hook["id"] for hook in (await client.call("hooks"))["hooks"]]


# -- over a restart ----------------------------------------------------------------------------------------------


async def test_what_the_admin_socket_registered_is_there_after_a_restart_in_its_order(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await register(admin, run(daemon, id="b"), run(daemon, id="a"))
        await register(admin, run(daemon, id="b", priority=7))
        await register(admin, run(daemon, id="c", event=["stop", "notification"]))

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

        assert await listed(client) == ["a", "c@stop", "c@notification", "b"]
        assert (decision["reason"], decision["hook"], decision["layer"]) == ("no", "a", "global")


@pytest.mark.parametrize(
    ("hook", "hook_id"),
    [({"id": "x"}, "x"), ({}, "guards:no"), ({"id": "x", "event": ["pre_tool_use", "stop"]}, "x@stop")],
)
async def test_what_was_unregistered_stays_away(tmp_path: Path, hook: dict[str, Any], hook_id: str) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await register(admin, run(daemon, **hook))
        before = await listed(admin)
        await admin.call("unregister", id=hook_id)

    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin:
        assert await listed(admin) == [one for one in before if one != hook_id]


async def test_a_definition_registered_twice_without_an_id_is_stored_once(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        for _ in range(2):
            await register(admin, run(daemon))

    assert [table["id"] for table in json.loads((tmp_path / "state/state.json").read_text())["hooks"]] == ["guards:no"]


async def test_a_switch_survives_reload_and_restart(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "f"\nevent = "pre_tool_use"\nrun = "guards.py:no"\n'
    async with (
        running_daemon(tmp_path, FILES | {"hooks.toml": config}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        await register(admin, run(daemon, id="a"))
        for hook_id in ("a", "f"):
            await admin.call("disable", id=hook_id)
        daemon.write("guards.py", GUARDS.replace('"no"', '"new"'))
        await admin.call("reload")
        after_reload = await client.fire_tool("Bash")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        after_restart = await client.fire_tool("Bash")
        await admin.call("enable", id="f")
        enabled = await client.fire_tool("Bash")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        again = await client.fire_tool("Bash")

    assert [one["verdict"] for one in (after_reload, after_restart, enabled, again)] == ["pass", "pass", "deny", "deny"]
    assert again["hook"] == "f"


async def test_a_hook_declared_disabled_can_be_enabled_for_good(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "f"\nevent = "pre_tool_use"\nrun = "guards.py:no"\nenabled = false\n'
    async with running_daemon(tmp_path, FILES | {"hooks.toml": config}) as daemon, daemon.administrator() as admin:
        await admin.call("enable", id="f")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert (await client.fire_tool("Bash"))["verdict"] == "deny"


async def test_a_hook_whose_file_is_broken_at_the_start_denies_until_it_is_mended(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await register(admin, run(daemon, id="x", match="Bash"))

    async with (
        running_daemon(tmp_path, {"guards.py": "x = (\n"}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        broken = [await client.fire_tool(tool) for tool in ("Bash", "Read")]
        status = await admin.call("status")
        daemon.write("guards.py", GUARDS)
        await admin.until_status(lambda status: status["health"] == "green")
        mended = await client.fire_tool("Bash")

    assert [(one["verdict"], one["cause"]) for one in broken] == [("deny", "load"), ("pass", None)]
    assert "guards.py:1: SyntaxError" in broken[0]["reason"]
    assert broken[0]["reason"].endswith("hooklatch hooks disable global/x")
    assert status["health"] == "red"
    assert mended["reason"] == "no"


async def test_a_hook_whose_function_is_gone_at_the_start_denies(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await register(admin, run(daemon, id="x"))

    async with running_daemon(tmp_path, {"guards.py": "x = 1\n"}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert (decision["cause"], "has no function 'no'" in decision["reason"]) == ("load", True)


async def test_revisions_grow_over_a_restart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        before = (await admin.call("hooks"))["revision"]

    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin:
        assert (await admin.call("hooks"))["revision"] > before


# -- a state that cannot be read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', '{"hooks": 7}', "\x00", "[" * 100_000])
async def test_an_unreadable_state_denies_at_every_gate_and_is_not_written_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/state.json").write_text(text)
    async with (
        running_daemon(tmp_path, FILES) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        denied = await client.fire_tool("Bash")
        notified = await client.fire("notification", notification_type="x")
        status = await admin.call("status")
        await admin.call("disable", id="state.json")
        disabled = await client.fire_tool("Bash")

    assert (denied["verdict"], denied["cause"]) == ("deny", "load")
    assert str(tmp_path / "state/state.json") in denied["reason"]
    assert (notified["verdict"], status["health"], disabled["verdict"]) == ("pass", "red", "pass")
    assert (tmp_path / "state/state.json").read_text() == text


async def test_a_stored_hook_that_cannot_be_read_denies_where_it_stood(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    stored = {"version": 1, "hooks": [{"id": "x", "event": "pre_tool_use", "rnu": "guards.py:no"}]}
    (tmp_path / "state/state.json").write_text(json.dumps(stored))
    async with running_daemon(tmp_path, FILES) as daemon, daemon.session() as client:
        denied = await client.fire_tool("Bash")
        elsewhere = await client.fire("user_prompt_submit", prompt="x")

    assert (denied["cause"], "did you mean 'run'" in denied["reason"]) == ("load", True)
    assert elsewhere["verdict"] == "pass"


async def test_a_file_cannot_take_the_id_of_a_hook_of_the_admin_socket(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "x"\nevent = "pre_tool_use"\nmatch = "Read"\nrun = "guards.py:other"\n'
    async with (
        running_daemon(tmp_path, FILES) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        await register(admin, run(daemon, id="x", match="Bash"))
        daemon.write("hooks.toml", config)
        await admin.call("reload")

        decisions = [await client.fire_tool(tool) for tool in ("Bash", "Read")]

    assert [(one["cause"], one["reason"].partition("taken by")[1]) for one in decisions] == [
        ("policy", ""), ("load", "taken by"),
    ]  # fmt: skip


# -- the file itself ---------------------------------------------------------------------------------------------


async def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = StateFile(str(tmp_path))
    written.state = SavedState(
        hooks=[{"id": "x", "n": 2**70}],
        switches={"global/x": False},
        manifests={"/f": [ManifestHook("y", "stop", "a")]},
    )
    await written.store()

    read = StateFile(str(tmp_path))

    assert read.read() is None
    assert read.state == written.state
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600


async def test_a_slow_disk_holds_neither_the_loop_nor_the_order_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, began, fsync = threading.Event(), threading.Event(), os.fsync

    def slow(fd: int) -> None:
        began.set()
        disk.wait(10)
        fsync(fd)

    state, stored = StateFile(str(tmp_path)), list[int]()

    async def change(number: int) -> None:
        state.state.hooks = [*state.state.hooks, {"id": str(number)}]
        await state.store()
        stored.append(len(on_disk(tmp_path)))

    monkeypatch.setattr(os, "fsync", slow)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change, 1)
            await trio.to_thread.run_sync(began.wait)  # the loop runs on
            for number in (2, 3):
                nursery.start_soon(change, number)
                await trio.testing.wait_all_tasks_blocked()
            assert not stored
            nursery.cancel_scope.cancel()  # who asked is gone: it is stored all the same
            disk.set()

    assert stored == [1, 3, 3]
    assert [table["id"] for table in on_disk(tmp_path)] == ["1", "2", "3"]


def on_disk(folder: Path) -> list[dict[str, Any]]:
    read = StateFile(str(folder))
    assert read.read() is None
    return read.state.hooks


async def test_a_change_that_cannot_be_stored_is_in_force_and_says_so(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, FILES) as daemon,
        daemon.administrator() as admin,
        daemon.session() as client,
    ):
        (tmp_path / "state/state.json.new").mkdir()  # what stands where the next version is written
        changed = await admin.call("register", scope="global", hooks=[run(daemon)])
        red = await admin.call("status")
        decision = await client.fire_tool("Bash")
        (tmp_path / "state/state.json.new").rmdir()
        stored = await admin.call("enable", id="guards:no")
        green = await admin.call("status")

    assert "is lost when the daemon ends" in changed["warnings"][0]
    assert (red["health"], red["faults"]) == ("red", changed["warnings"])
    assert decision["verdict"] == "deny"
    assert "warnings" not in stored
    assert green["health"] == "green"


async def test_each_change_of_the_operators_that_cannot_be_stored_says_so(tmp_path: Path) -> None:
    files = {**FILES, "hooks.toml": '[[source]]\npath = "mine.py"\n', "mine.py": MARKED}
    project = {"folder": str(tmp_path / "project")}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        (tmp_path / "project/.hooklatch").mkdir(parents=True, mode=0o700)
        (tmp_path / "project/.hooklatch/hooks.toml").touch(mode=0o600)
        (tmp_path / "state/state.json.new").mkdir()
        answers = [
            await admin.call("trust", **project),
            await admin.call("untrust", **project),
            await admin.call("disable", scope="global", id="mine"),
            await admin.call("enable", scope="global", id="mine"),
            await admin.call("suspend", id="mine", seconds=60, reason="a test"),
            await admin.call("resume", id="mine"),
            await admin.call("register", scope="global", hooks=[run(daemon, id="b")]),
            await admin.call("unregister", scope="global", id="b"),
        ]
        (tmp_path / "state/state.json.new").rmdir()

    assert all("is lost when the daemon ends" in answer["warnings"][0] for answer in answers)


async def test_what_could_not_be_stored_is_stored_as_soon_as_it_can_be(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    obstacle, state = tmp_path / "state.json.new", StateFile(str(tmp_path))
    async with trio.open_nursery() as nursery:
        await nursery.start(state.run)
        await state.store()  # a write that succeeds, as nearly all do before one that fails
        obstacle.mkdir()
        state.state.hooks = [{"id": "1"}]
        await state.store()
        await trio.sleep(60)
        assert state.unwritten is not None
        obstacle.rmdir()
        while state.unwritten is not None:  # noqa: ASYNC110  (the clock does not wait for the thread that writes)
            await trio.sleep(1)
        assert on_disk(tmp_path) == [{"id": "1"}]

        obstacle.mkdir()
        state.state.hooks = [{"id": "2"}]
        await state.store()
        obstacle.rmdir()
        nursery.cancel_scope.cancel()  # the daemon ends before the next try

    assert (state.unwritten, on_disk(tmp_path)) == (None, [{"id": "2"}])


async def test_a_torn_write_leaves_the_last_state(tmp_path: Path) -> None:
    state = StateFile(str(tmp_path))
    state.state.switches["global/x"] = False
    await state.store()
    (tmp_path / "state.json.new").write_text("{")  # as a daemon killed in mid-write leaves it

    again = StateFile(str(tmp_path))

    assert again.read() is None
    assert again.state.switches == {"global/x": False}


def test_a_folder_is_locked_for_one_daemon(tmp_path: Path) -> None:
    first = lock_directory(str(tmp_path), "daemon.lock")
    with pytest.raises(LockedError, match=rf"another hooklatch daemon \(pid {os.getpid()}\)"):
        lock_directory(str(tmp_path), "daemon.lock")
    os.close(first)

    os.close(lock_directory(str(tmp_path), "daemon.lock"))


async def test_a_change_for_which_there_is_no_thread_says_that_it_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")  # as Python has it at the limit of processes

    state = StateFile(str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(trio.to_thread, "run_sync", no_thread)
        await state.store()

    assert "can't start new thread; the change is lost when the daemon ends" in str(state.unwritten)
    await state.store()
    assert state.unwritten is None
