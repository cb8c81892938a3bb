"""Environments without a daemon: shared, limited, made once though two want it, and given up."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.environments import environments as module
from hooklatch.environments import making, store
from hooklatch.environments.environments import BeingMadeError, SourceEnvironments
from hooklatch.processes.environment_slot import EnvironmentFaultError, EnvironmentSlot, Requirements
from hooklatch_worker import wire
from support.daemons import nothing_left
from support.pools import until
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # zygotes, and environments that are made
BARE = Requirements((), ">=3.11")


@asynccontextmanager
async def running(folder: Path, *, count: int = 1) -> AsyncGenerator[list[SourceEnvironments]]:
    with nobody_survives(), nothing_left():
        async with trio.open_nursery() as nursery:
            place = str(folder / "environments")
            slots = [EnvironmentSlot(place, owns_process=False, changed=lambda: None) for _ in range(count)]
            for slot in slots:
                await nursery.start(slot.run)
            yield [SourceEnvironments(place, slot.supervisor, lambda: None, owns_process=False) for slot in slots]
            nursery.cancel_scope.cancel()


async def test_who_names_the_same_interpreter_shares_its_zygote_until_nobody_does(tmp_path: Path) -> None:
    async with running(tmp_path) as (found,):
        one, other = await found.acquire_named(sys.executable), await found.acquire_named(sys.executable)
        assert one is other
        worker = await one.zygote.fork(wire.Source("module", "colorsys"), wire.WorkerLimits())
        worker.kill()
        worker.close()
        assert one.zygote.pid in found.roots()

        found.release(one)
        assert one.zygote.is_alive
        found.release(other)
        await until(lambda: not one.zygote.is_alive)
        assert found.roots() == frozenset()


async def test_there_are_not_more_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENVIRONMENTS", 0)
    async with running(tmp_path) as (found,):
        with pytest.raises(EnvironmentFaultError, match="0 environments are in use already"):
            await found.acquire_named(sys.executable)


async def test_two_daemons_that_want_the_same_make_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    async def make(recipe: making.EnvironmentRecipe, folder: str, seen: Any) -> str:
        made.append(folder)
        return await making.make_environment(recipe, folder, seen)

    monkeypatch.setattr(module, "make_environment", make)
    async with running(tmp_path, count=2) as both:
        for one in both:
            with pytest.raises(BeingMadeError):
                await one.acquire_required(BARE, may_make=True)
        for one in both:
            await one.settle()
        found = [await one.acquire_required(BARE, may_make=False) for one in both]

        assert len(made) == 1
        assert {one.interpreter.prefix for one in found} == set(made)
        store.remove_unused_environments(both[0].folder, kept_seconds=-1.0)
        assert store.is_ready(made[0])  # both hold it


async def test_what_does_not_work_any_more_is_made_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as (found,):
        with pytest.raises(BeingMadeError):
            await found.acquire_required(BARE, may_make=True)
        await found.settle()
        one = await found.acquire_required(BARE, may_make=True)
        found.release(one)
        await until(lambda: one.lock is None)
        (python,) = (tmp_path / "environments").glob("*/bin/python")
        python.unlink()

        with pytest.raises(BeingMadeError):
            await found.acquire_required(BARE, may_make=True)
        await found.settle()
        assert (await found.acquire_required(BARE, may_make=True)).interpreter.python == str(python)


async def test_something_else_in_the_place_of_a_lock_is_said_in_words(tmp_path: Path) -> None:
    async with running(tmp_path) as (found,):
        with pytest.raises(BeingMadeError):
            await found.acquire_required(BARE, may_make=True)
        await found.settle()
        (ready,) = (tmp_path / "environments").glob("*/ready")
        folder = ready.parent
        shutil.rmtree(folder)
        folder.with_suffix(".lock").unlink()
        os.mkfifo(folder.with_suffix(".lock"))

        with pytest.raises(BeingMadeError):
            await found.acquire_required(BARE, may_make=True)
        await found.settle()
        with pytest.raises(
            EnvironmentFaultError, match=rf"{folder}\.lock cannot be accessed: it is not a regular file;"
        ):
            await found.acquire_required(BARE, may_make=True)


async def test_what_somebody_removes_is_made_again_while_it_is_in_use(tmp_path: Path) -> None:
    async with running(tmp_path, count=2) as (ours, theirs):
        with pytest.raises(BeingMadeError):
            await ours.acquire_required(BARE, may_make=True)
        await ours.settle()
        before = [await one.acquire_required(BARE, may_make=True) for one in (ours, theirs)]
        folder = before[0].interpreter.prefix
        shutil.rmtree(folder)

        with pytest.raises(BeingMadeError):
            await ours.acquire_required(BARE, may_make=True)
        with trio.fail_after(60):
            await ours.settle()
        after = await ours.acquire_required(BARE, may_make=True)
        assert (after.interpreter.prefix, after.is_current, before[0].is_current) == (folder, True, False)


async def test_what_another_process_uses_is_not_spoilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, count=2) as (ours, theirs):
        with pytest.raises(BeingMadeError):
            await theirs.acquire_required(BARE, may_make=True)
        await theirs.settle()
        made = await theirs.acquire_required(BARE, may_make=True)

        for name, value, said in (
            ("MAX_ENVIRONMENTS", 0, "are in use already"),
            ("examine_interpreter", unexamined, "gave no answer"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, value)
                with pytest.raises(EnvironmentFaultError, match=said):
                    await ours.acquire_required(BARE, may_make=True)

        assert store.is_ready(made.interpreter.prefix)
        assert (await ours.acquire_required(BARE, may_make=True)).interpreter.prefix == made.interpreter.prefix


async def unexamined(python: str, *, is_ours: bool) -> None:
    raise EnvironmentFaultError(f"{python} gave no answer")


def test_what_was_not_used_for_long_is_removed_and_what_somebody_holds_stays(tmp_path: Path) -> None:
    for name, age in {"fresh": 10, "old": 100, "held": 100, "half": None}.items():
        (tmp_path / name / "bin").mkdir(parents=True)
        if age is not None:
            (tmp_path / name / store.READY).touch()
            os.utime(tmp_path / name / store.READY, (time.time() - age, time.time() - age))
    lock = store.lock_environment(str(tmp_path / "held"), fcntl.LOCK_SH)
    assert lock is not None

    store.remove_unused_environments(str(tmp_path), kept_seconds=50.0)

    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"fresh", "held"}
    os.close(lock)
    store.remove_unused_environments(str(tmp_path), kept_seconds=50.0)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"fresh"}
    store.remove_unused_environments(str(tmp_path / "nothing"))
