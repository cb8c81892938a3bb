"""A state file that was lost, or is not the one that was written last, denies until somebody accepts what is there.

Slow where a daemon starts again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooklatch.service.config.state_file import StateFile
from support.daemons import Daemon, running_daemon

GUARDS = """
from hooklatch_worker import deny

def no(event):
    return deny("no")
"""
FILES = {"hooks.toml": "", "guards.py": GUARDS}


# -- the two files -----------------------------------------------------------------------------------------------


async def store(folder: Path, name: str) -> bytes:
    """Store a state with one switch more; return what is in the file."""
    state = StateFile(str(folder))
    assert state.read() is None
    state.state.switches[f"global/{name}"] = False
    await state.store()
    assert state.unwritten is None
    return (folder / "state.json").read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


def read_if_any(name: str | None) -> bytes | None:
    return Path(name).read_bytes() if name is not None and Path(name).exists() else None


def recorded(folder: Path) -> None:
    (folder / "record").mkdir()
    (folder / "record" / "00000001").touch()


def test_a_first_start_has_neither_state_nor_witness_and_makes_one(tmp_path: Path) -> None:
    assert StateFile(str(tmp_path)).read() is None
    recorded(tmp_path)

    assert StateFile(str(tmp_path)).read() is None


async def test_a_state_without_a_witness_is_believed_where_nothing_was_recorded_yet(tmp_path: Path) -> None:
    await store(tmp_path, "a")
    (tmp_path / "state.witness").unlink()

    assert StateFile(str(tmp_path)).read() is None
    recorded(tmp_path)
    assert StateFile(str(tmp_path)).read() is None


def removed(path: Path) -> None:
    path.unlink()


def spoilt(path: Path) -> None:
    path.write_text("x" * 200)


def linked(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.symlink_to("away")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "damage", "text"),
    [
        ("state.json", removed, "state.json is gone, with its trust, switches and hooks"),
        ("state.json", lambda path: path.write_bytes(b'{"version": 1}'), "is not the version written last"),
        ("state.json", spoilt, "JSON is malformed"),
        ("state.witness", removed, "state.witness is gone"),
        ("state.witness", spoilt, "does not hold what was written to it"),
        ("state.witness", linked, "cannot be read"),
        ("state.witness", a_folder, "cannot be read"),
    ],
)
async def test_what_is_not_as_it_was_written_last_is_not_believed_and_not_overwritten(
    tmp_path: Path, name: str, damage: Callable[[Path], Any], text: str
) -> None:
    await store(tmp_path, "a")
    recorded(tmp_path)
    damage(tmp_path / name)
    before = contents(tmp_path)

    state = StateFile(str(tmp_path))
    fault = state.read()
    state.state.switches["global/b"] = False
    await state.store()

    assert text in str(fault)
    assert str(fault).endswith(": hooklatch state accept")
    assert state.state.switches == {"global/b": False}
    assert "is not believed, so it is not overwritten" in str(state.unwritten)
    assert contents(tmp_path) == before


async def test_an_older_copy_is_not_believed(tmp_path: Path) -> None:
    older = await store(tmp_path, "a")
    await store(tmp_path, "b")
    (tmp_path / "state.json").write_bytes(older)

    assert "an older copy" in str(StateFile(str(tmp_path)).read())


async def test_a_record_that_cannot_be_listed_is_not_taken_for_none(tmp_path: Path) -> None:
    await store(tmp_path, "a")
    (tmp_path / "state.witness").unlink()
    (tmp_path / "record").symlink_to("nowhere")

    assert "state.witness is gone" in str(StateFile(str(tmp_path)).read())


STEPS = ("fsync", "fdatasync", "replace")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_first", [False, True])
async def test_after_a_crash_at_any_step_of_a_write_what_is_there_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_first: bool
) -> None:
    """Before and after each call that brings something to the disk, as a kill leaves it."""
    for is_after in (False, True):
        folder = tmp_path / f"{is_after}"
        folder.mkdir()
        if not is_first:
            await store(folder, "a")
            recorded(folder)
        before = set[str]() if is_first else {"global/a"}
        real = getattr(os, step)

        def killed(*args: Any, is_after: bool = is_after, real: Callable[..., Any] = real) -> None:
            if is_after:
                real(*args)
            raise OSError(5, "killed")

        state = StateFile(str(folder))
        assert state.read() is None
        state.state.switches["global/b"] = False
        with monkeypatch.context() as patched:
            patched.setattr(os, step, killed)
            await state.store()

        again = StateFile(str(folder))
        assert again.read() is None
        assert set(again.state.switches) in (before, {*before, "global/b"})
        again.state.switches["global/c"] = False
        await again.store()
        assert StateFile(str(folder)).read() is None


# -- a daemon ----------------------------------------------------------------------------------------------------


async def with_a_guard(tmp_path: Path) -> bytes:
    """Have a daemon keep a hook, a switch, a suspension and a trusted project; return the state before the hook."""
    project = tmp_path / "project" / ".hooklatch"
    project.mkdir(parents=True)
    (project / "hooks.toml").write_text("")
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await admin.call("trust", folder=str(tmp_path / "project"))
        older = (tmp_path / "state/state.json").read_bytes()
        await register(daemon, "kept")
    return older


async def register(daemon: Daemon, hook_id: str) -> None:
    table = {"id": hook_id, "event": "pre_tool_use", "match": hook_id, "run": f"{daemon.folder}/guards.py:no"}
    async with daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[table])


async def shown(daemon: Daemon) -> dict[str, Any]:
    async with daemon.session() as client, daemon.administrator() as admin:
        decision, status = await client.fire_tool("Bash"), await admin.call("status")
        hooks = sorted(hook["id"] for hook in (await client.call("hooks"))["hooks"])
    return {
        "verdict": (decision["verdict"], decision["cause"]), "health": status["health"], "hooks": hooks,
        "trusted": len(status["projects"]),
    }  # fmt: skip


DENIES = {"verdict": ("deny", "load"), "health": "red"}
PASSES = {"verdict": ("pass", None), "health": "green"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "moved", "hooks", "trusted"),
    [
        (lambda path, older: path.unlink(), False, ["meanwhile"], 0),
        (lambda path, older: path.write_bytes(older), True, ["meanwhile"], 1),
        (lambda path, older: path.write_text("{"), True, ["meanwhile"], 0),
        (lambda path, older: path.with_name("state.witness").unlink(), True, ["kept", "meanwhile"], 1),
    ],
    ids=["lost", "older", "garbage", "no witness"],
)
async def test_what_is_there_is_in_force_once_somebody_accepts_it(
    tmp_path: Path, damage: Callable[[Path, bytes], object], moved: bool, hooks: list[str], trusted: int
) -> None:
    path = tmp_path / "state/state.json"
    damage(path, await with_a_guard(tmp_path))
    there = read_if_any(str(path))
    async with running_daemon(tmp_path):  # no start accepts it
        pass

    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin:
        denied = await shown(daemon)
        reason = (await admin.call("status"))["faults"][0]
        await register(daemon, "meanwhile")
        await admin.call("reload", accept_removed=True)  # which is about files of hooks
        still = await shown(daemon)
        untouched = read_if_any(str(path))
        answer = await admin.call("accept_state")
        accepted = await shown(daemon)
        again = await admin.call("accept_state")
        last = (await admin.call("log", kind="operation"))["records"][-1]
    async with running_daemon(tmp_path) as daemon:
        restarted = await shown(daemon)

    assert denied == DENIES | {"hooks": ["state.json"], "trusted": 0}
    assert still == DENIES | {"hooks": ["meanwhile", "state.json"], "trusted": 0}
    assert untouched == there
    assert accepted == restarted == PASSES | {"hooks": hooks, "trusted": trusted}
    assert (answer["fault"], again["fault"]) == (reason, None)
    assert "warnings" not in answer
    assert read_if_any(answer["moved_to"]) == there
    assert bool(answer["moved_to"]) is moved
    assert (last["operation"], last["fault"], last["uid"]) == ("accept_state", reason, os.getuid())


@pytest.mark.slow
async def test_what_vanished_before_a_state_was_accepted_denies_as_that_state_remembers(tmp_path: Path) -> None:
    table = '[[hook]]\nid = "more"\nevent = "pre_tool_use"\nmatch = "Bash"\nrun = "../guards.py:no"\n'
    async with running_daemon(tmp_path, {**FILES, "hooks.d/more.toml": table}):
        pass
    (tmp_path / "hooks.d/more.toml").unlink()
    (tmp_path / "state/state.witness").unlink()

    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin:
        await admin.call("accept_state")

        assert await shown(daemon) == DENIES | {"hooks": ["more"], "trusted": 0}
