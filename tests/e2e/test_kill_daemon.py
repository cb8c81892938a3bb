"""SIGKILL to the daemon or to its zygote: whatever they and their hooks started is gone within one second."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hooklatch_worker.systems import linux
from support.crowds import BREEDING, Process, named, soon, started
from support.pools import until
from support.survivors import PATIENCE, knowing, nobody_survives, wait_until_gone

pytestmark = pytest.mark.slow  # each test starts a daemon as a program of its own: 0.5 s and more


@asynccontextmanager
async def crowded(folder: Path) -> AsyncGenerator[Process]:
    """Run a daemon two of whose workers spin in C and one waits for a command, with offspring of many kinds."""
    with nobody_survives() as word, started(folder, word) as daemon:
        assert (await daemon.fire("done"))["verdict"] == "allow"
        assert (await daemon.fire("shell-done"))["verdict"] == "pass"
        waiting = [await daemon.send(tool) for tool in ("busy", "busy", "shell-busy")]
        await until(lambda: daemon.bred == 5)
        assert len(knowing(word)) > 30
        yield daemon
        for client in waiting:
            await client.aclose()


async def test_nothing_outlives_a_killed_daemon(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


@pytest.mark.parametrize("stopped", [{"zygote"}, {"guardian"}, {"zygote", "guardian"}, {"worker"}])
async def test_nothing_outlives_a_killed_daemon_when_others_were_stopped(tmp_path: Path, stopped: set[str]) -> None:
    async with crowded(tmp_path) as daemon:
        for pid in await named(daemon, stopped):
            os.kill(pid, signal.SIGSTOP)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


@pytest.mark.parametrize("other", ["zygote", "guardian"])
async def test_nothing_outlives_a_daemon_that_is_killed_together_with_another(tmp_path: Path, other: str) -> None:
    async with crowded(tmp_path) as daemon:
        (pid,) = await named(daemon, {other})
        daemon.process.send_signal(signal.SIGSTOP)  # so that neither can do anything before both are dead
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

        assert wait_until_gone(daemon.word) == []


async def test_nothing_outlives_zygote_and_guardian_killed_together_and_the_daemon_goes_on(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        old = await daemon.strays()
        pids = await named(daemon, {"zygote", "guardian"})
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

        await soon(lambda: not old & set(knowing(daemon.word)))
        after = await daemon.fire("answer")

    assert after["verdict"] == "allow"


@pytest.mark.parametrize("tool", ["busy", "shell-busy"])
async def test_nothing_outlives_a_worker_that_is_killed(tmp_path: Path, tool: str) -> None:
    with nobody_survives() as word, started(tmp_path, word) as daemon:
        client = await daemon.send(tool)
        await until(lambda: daemon.bred == 1)
        left = await daemon.strays()
        assert len(left) >= 5
        for pid in await daemon.workers():
            os.kill(pid, signal.SIGKILL)
        await soon(lambda: not left & set(knowing(word)))
        message = await client.read()
        await client.aclose()

        assert message is not None
        assert (message["result"]["verdict"], message["result"]["cause"]) == ("deny", "crash")
        assert (await daemon.fire("answer"))["verdict"] == "allow"


@pytest.mark.parametrize("tool", ["late", "shell-late"])
async def test_nothing_outlives_a_hook_that_is_past_its_deadline(tmp_path: Path, tool: str) -> None:
    with nobody_survives() as word, started(tmp_path, word) as daemon:
        bystanders = await daemon.strays()
        decision = await daemon.fire(tool)
        with trio.fail_after(PATIENCE):
            while await daemon.strays() - bystanders:
                await trio.lowlevel.checkpoint()

    assert (decision["verdict"], decision["cause"]) == ("deny", "timeout")


async def test_nothing_outlives_a_daemon_that_ends_well(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        client = daemon.connect("admin")
        await client.call("hello", protocol=1)
        daemon.process.send_signal(signal.SIGTERM)
        while not (await client.call("status"))["draining"]:
            await trio.lowlevel.checkpoint()
        daemon.process.send_signal(signal.SIGTERM)
        await client.aclose()
        with trio.fail_after(10):
            await trio.to_thread.run_sync(daemon.process.wait)

        assert wait_until_gone(daemon.word) == []
        assert daemon.process.returncode == 0


async def test_nothing_of_a_killed_zygote_is_left_and_the_daemon_goes_on(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        old = set(knowing(daemon.word)) - {daemon.process.pid, *linux.list_children(daemon.process.pid)}
        os.kill((await daemon.status())["zygote"]["pid"], signal.SIGKILL)

        await until(lambda: not old & set(knowing(daemon.word)))
        after = await daemon.fire("answer")

        assert after["verdict"] == "allow"
        assert daemon.process.poll() is None


async def test_a_killed_zygote_denies_what_was_under_way(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        client = await daemon.send("busy")
        await until(lambda: daemon.bred == 6)
        os.kill((await daemon.status())["zygote"]["pid"], signal.SIGKILL)
        message = await client.read()
        await client.aclose()
        with trio.fail_after(5):
            while not (await daemon.status())["zygote"]["restarts"]:  # else the daemon's own end would meet its sweep
                await trio.lowlevel.checkpoint()

    assert message is not None
    assert (message["result"]["verdict"], message["result"]["cause"]) == ("deny", "crash")


async def test_a_stale_socket_does_not_stop_the_next_start(tmp_path: Path) -> None:
    async with crowded(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        assert os.path.exists(daemon.ready["agent"])  # noqa: ASYNC240  (a look, not a wait)

        with started(tmp_path, daemon.word) as successor:
            decision = await successor.fire("answer")

    assert decision["verdict"] == "allow"


async def test_a_draining_daemon_finishes_what_it_began_and_denies_what_is_new(tmp_path: Path) -> None:
    slow = BREEDING.replace("sum(range(10**12))", "time.sleep(0.5)")
    with nobody_survives() as word, started(tmp_path, word) as daemon:
        (tmp_path / "breeding.py").write_text(slow)
        client = daemon.connect("admin")
        await client.call("hello", protocol=1)
        await client.call("reload")
        waiting = await daemon.send("busy")
        await until(lambda: daemon.bred == 1)
        daemon.process.send_signal(signal.SIGTERM)
        while not (await client.call("status"))["draining"]:
            await trio.lowlevel.checkpoint()
        refused = await client.fire("pre_tool_use", tool_name="answer")
        finished = await waiting.read()
        with trio.fail_after(5):
            await trio.to_thread.run_sync(daemon.process.wait)
        for one in (client, waiting):
            await one.aclose()

    assert (refused["verdict"], refused["cause"]) == ("deny", "draining")
    assert finished is not None
    assert finished["result"]["verdict"] == "pass"
    assert daemon.process.returncode == 0
