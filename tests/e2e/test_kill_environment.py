"""SIGKILL where a source has an environment of its own: each zygote's end is that of its workers alone."""

from __future__ import annotations

import os
import signal
import venv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hooklatch_worker.systems import linux
from support.crowds import BREEDING, Process, named, soon, started
from support.pools import until
from support.survivors import knowing, nobody_survives, wait_until_gone

ASIDE = """
[[source]]
path = "aside.py"
python = ".venv/bin/python"
"""

pytestmark = pytest.mark.slow  # each test starts a daemon as a program of its own, with two zygotes


class Two(Process):
    """A daemon with a zygote of its own interpreter, and one of another environment."""

    async def aside(self) -> list[int]:
        """Return the zygote of the other environment, and its guardian."""
        (one,) = (await self.status())["environments"]
        zygote: int = one["zygote"]
        (guardian,) = [pid for pid in linux.list_children(self.process.pid) if zygote in linux.list_children(pid)]
        return [zygote, guardian]

    async def works(self) -> bool:
        return all([(await self.fire(tool))["verdict"] == "allow" for tool in ("answer", "aside-answer")])


@asynccontextmanager
async def crowded(folder: Path) -> AsyncGenerator[Two]:
    """Run a daemon with workers of both zygotes that are at work, with offspring of many kinds."""
    venv.create(folder / ".venv", symlinks=True)
    (folder / "aside.py").write_text(BREEDING.replace('match="', 'match="aside-'))
    with nobody_survives() as word, started(folder, word, more=ASIDE) as one:
        daemon = Two.__new__(Two)
        daemon.__dict__ = one.__dict__
        assert await daemon.works()
        waiting = [await daemon.send(tool) for tool in ("busy", "aside-busy")]
        await until(lambda: daemon.bred == 2)
        yield daemon
        for client in waiting:
            await client.aclose()


async def test_nothing_of_either_zygote_outlives_a_killed_daemon(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        for pid in await daemon.aside():
            os.kill(pid, signal.SIGSTOP)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


@pytest.mark.parametrize("killed", ["the daemon's own", "the other one"])
async def test_a_zygote_that_dies_with_its_guardian_takes_only_its_own_workers(tmp_path: Path, killed: str) -> None:
    """Then the daemon itself kills what these two left; it must not take the other guardian for one of those."""
    async with crowded(tmp_path) as daemon:
        pairs = {"the daemon's own": await named(daemon, {"zygote", "guardian"}), "the other one": await daemon.aside()}
        pids = pairs.pop(killed)
        (kept,) = pairs.values()
        below = {pid for zygote in pids for pid in linux.list_descendants(zygote)} - set(pids)
        spared = {pid for zygote in kept for pid in linux.list_descendants(zygote)}
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

        await soon(lambda: not below & set(knowing(daemon.word)))
        with trio.fail_after(30):
            while not await daemon.works():
                await trio.lowlevel.checkpoint()

        assert set(kept) <= set(knowing(daemon.word))
        assert len(spared & set(knowing(daemon.word))) >= 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_an_installer_does_not_outlive_the_daemon(tmp_path: Path, number: signal.Signals) -> None:
    """Nor is it taken for something that a dead guardian left."""
    uv = tmp_path / "bin/uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\nsetsid sleep 3600 & exec sleep 3600\n")
    uv.chmod(0o755)
    block = '# /// script\n# dependencies = ["anything"]\n# ///\n'
    (tmp_path / "aside.py").write_text(block)
    with pytest.MonkeyPatch.context() as patch, nobody_survives() as word:
        patch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
        with started(tmp_path, word, more='[[source]]\npath = "aside.py"\n') as daemon:
            await until(lambda: len([pid for pid in knowing(word) if named_of(pid) == "sleep"]) == 2)
            installers = {pid for pid in knowing(word) if named_of(pid) == "sleep"}
            for pid in await named(daemon, {"zygote", "guardian"}):
                os.kill(pid, signal.SIGKILL)
            with trio.fail_after(30):
                while not (await daemon.status())["zygote"]["restarts"]:
                    await trio.lowlevel.checkpoint()
            assert installers <= set(knowing(word))
            daemon.process.send_signal(number)
            daemon.process.wait()

            assert wait_until_gone(word) == []


def named_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
