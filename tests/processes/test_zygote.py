"""The daemon's handle on its zygote: silence, death, refusal, and orders that nobody waits for any more."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from hooklatch.processes.guardian import Guardian
from hooklatch.processes.worker import WorkerProcess
from hooklatch.processes.zygote import ForkError, ZygoteClient, ZygoteLostError, open_zygote
from hooklatch_worker import wire
from hooklatch_worker.systems import linux
from support.daemons import nothing_left
from support.pools import until
from support.survivors import nobody_survives, waiting_for_an_order

SOURCE, LIMITS = wire.Source("module", "colorsys"), wire.WorkerLimits()

pytestmark = pytest.mark.slow  # each test starts a zygote: 0.15 s and more


@asynccontextmanager
async def running_zygote() -> AsyncGenerator[ZygoteClient]:
    with nobody_survives(), nothing_left():
        async with open_zygote() as zygote:
            yield zygote


def end(worker: WorkerProcess) -> None:
    worker.kill()
    worker.close()


def nothing_but_the_next(zygote: ZygoteClient) -> bool:
    """Return whether the zygote has no child but the one worker that waits for an order."""
    next_one = waiting_for_an_order(pid_of(zygote))
    return len(next_one) == 1 and set(linux.list_children(pid_of(zygote))) == next_one


def pid_of(zygote: ZygoteClient) -> int:
    assert zygote.pid is not None
    return zygote.pid


async def test_how_a_worker_ended_is_told() -> None:
    async with running_zygote() as zygote:
        worker = await zygote.fork(SOURCE, LIMITS)
        os.kill(worker.pid, signal.SIGKILL)
        with trio.fail_after(5):
            await worker.exit_known.wait()

        assert worker.exit_code == -signal.SIGKILL
        assert worker.fault == "it ended between two calls"
        assert not worker.is_orphaned
        end(worker)


async def test_an_order_that_is_cancelled_leaves_no_worker() -> None:
    """The worker may come before, at, or after the moment at which nobody waits for it any more."""
    async with running_zygote() as zygote:
        for delay in range(60):
            with trio.move_on_after(delay * 0.0001):
                end(await zygote.fork(SOURCE, LIMITS))
        end(await zygote.fork(SOURCE, LIMITS))

        await until(lambda: nothing_but_the_next(zygote))


async def test_a_silent_zygote_is_replaced_after_two_seconds() -> None:
    """Slow: it is given 2 s to answer."""
    async with running_zygote() as zygote:
        first = pid_of(zygote)
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(ZygoteLostError):
            await zygote.fork(SOURCE, LIMITS)
        end(await zygote.fork(SOURCE, LIMITS))

        assert pid_of(zygote) != first


async def test_a_zygote_that_lives_but_takes_no_order_is_replaced() -> None:
    async with running_zygote() as zygote:
        first = zygote.pid
        with trio.fail_after(10):
            with pytest.raises(
                ZygoteLostError, match=r"the zygote is gone: (Message too long|the other end reads no more)"
            ):
                await zygote.fork(wire.Source("module", "x" * 2**20), LIMITS)
            end(await zygote.fork(SOURCE, LIMITS))

        assert zygote.pid != first


async def test_all_that_waited_for_a_dead_zygote_are_told() -> None:
    async with running_zygote() as zygote:
        os.kill(pid_of(zygote), signal.SIGSTOP)
        lost: list[ForkError] = []

        async def order() -> None:
            try:
                await zygote.fork(SOURCE, LIMITS)
            except ForkError as error:
                lost.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(order)
            await trio.testing.wait_all_tasks_blocked()
            os.kill(pid_of(zygote), signal.SIGKILL)

        assert len(lost) == 5


async def test_its_workers_die_with_it() -> None:
    async with running_zygote() as zygote:
        worker = await zygote.fork(SOURCE, LIMITS)
        os.kill(pid_of(zygote), signal.SIGKILL)
        with trio.fail_after(5):
            await trio.lowlevel.wait_readable(worker.pidfd)

        await until(lambda: worker.is_orphaned)
        worker.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_it_outlives_signals_that_are_meant_for_the_daemon(number: signal.Signals) -> None:
    async with running_zygote() as zygote:
        first = pid_of(zygote)
        os.kill(first, number)
        end(await zygote.fork(SOURCE, LIMITS))

        assert pid_of(zygote) == first


async def test_a_refused_fork_says_so_and_harms_nothing() -> None:
    async with running_zygote() as zygote:
        first = pid_of(zygote)
        before = resource.prlimit(first, resource.RLIMIT_NOFILE)
        resource.prlimit(first, resource.RLIMIT_NOFILE, (4, before[1]))
        with suppress(ForkError):
            end(await zygote.fork(SOURCE, LIMITS))  # the one that waits for an order may have come first
        for _ in range(3):
            with pytest.raises(ForkError, match="fork failed"):
                await zygote.fork(SOURCE, LIMITS)
        resource.prlimit(first, resource.RLIMIT_NOFILE, before)
        end(await zygote.fork(SOURCE, LIMITS))

        assert pid_of(zygote) == first


async def test_the_next_worker_waits_before_it_is_ordered() -> None:
    async with running_zygote() as zygote:
        await until(lambda: nothing_but_the_next(zygote))
        (waiting,) = waiting_for_an_order(pid_of(zygote))
        worker = await zygote.fork(SOURCE, LIMITS)

        assert worker.pid == waiting
        await until(lambda: waiting_for_an_order(pid_of(zygote)))
        assert set(linux.list_children(pid_of(zygote))) == {waiting, *waiting_for_an_order(pid_of(zygote))}
        end(worker)


async def test_a_worker_that_died_before_its_order_is_not_given_away() -> None:
    async with running_zygote() as zygote:
        await until(lambda: nothing_but_the_next(zygote))
        (waiting,) = waiting_for_an_order(pid_of(zygote))
        os.kill(waiting, signal.SIGKILL)
        await until(lambda: not linux.list_children(pid_of(zygote)))
        worker = await zygote.fork(SOURCE, LIMITS)

        assert worker.pid != waiting
        assert worker.fault is None
        end(worker)


async def test_the_next_zygote_is_forked_by_the_same_guardian_when_nothing_is_left_of_the_one_before() -> None:
    async with running_zygote() as zygote:
        worker = await zygote.fork(SOURCE, LIMITS)
        first, above = pid_of(zygote), zygote.roots()
        os.kill(first, signal.SIGKILL)
        await until(lambda: zygote.pid not in (None, first))

        assert linux.has_ended(worker.pidfd)
        assert zygote.roots() - {pid_of(zygote)} == above - {first}
        end(worker)


async def test_a_dead_guardian_is_replaced_with_its_zygote(caplog: pytest.LogCaptureFixture) -> None:
    async with running_zygote() as zygote:
        first = pid_of(zygote)
        (guardian,) = zygote.roots() - {first}
        os.kill(guardian, signal.SIGKILL)
        await until(lambda: zygote.pid not in (None, first))
        end(await zygote.fork(SOURCE, LIMITS))

        assert not {guardian, first} & zygote.roots()
        assert "could not be started" not in caplog.text


async def test_a_zygotes_death_is_noticed_though_its_end_of_the_socket_lives_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a guardian that is stopped right after it has forked."""
    kept: list[int] = []
    fork = Guardian.fork

    def keeping(guardian: Guardian, control: socket.socket) -> None:
        kept.append(os.dup(control.fileno()))
        fork(guardian, control)

    monkeypatch.setattr(Guardian, "fork", keeping)
    async with running_zygote() as zygote:
        first = pid_of(zygote)
        os.kill(first, signal.SIGKILL)
        await until(lambda: zygote.pid not in (None, first))
        for fd in kept:
            os.close(fd)


async def test_a_stopped_guardian_goes_on_when_a_zygote_is_needed() -> None:
    async with running_zygote() as zygote:
        first = pid_of(zygote)
        (guardian,) = zygote.roots() - {first}
        os.kill(guardian, signal.SIGSTOP)
        os.kill(first, signal.SIGKILL)
        await until(lambda: zygote.pid not in (None, first))

        assert guardian in zygote.roots()


async def test_a_daemon_without_descriptors_refuses_and_goes_on() -> None:
    async with running_zygote() as zygote:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        top = max(int(name) for name in os.listdir("/proc/self/fd")) + 2
        resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))
        try:
            filler = fill_descriptors(leave=2)
            with pytest.raises(ForkError, match="no descriptor left"):
                await zygote.fork(SOURCE, LIMITS)
            for fd in filler:
                os.close(fd)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        end(await zygote.fork(SOURCE, LIMITS))

        await until(lambda: nothing_but_the_next(zygote))


async def test_a_zygote_that_cannot_be_started_again_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running_zygote() as zygote:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.kill(pid_of(zygote), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            await until(lambda: "could not be started" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        end(await zygote.fork(SOURCE, LIMITS))


def fill_descriptors(*, leave: int) -> list[int]:
    taken: list[int] = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        for _ in range(leave):
            os.close(taken.pop())
    return taken


async def test_more_than_1024_descriptors_are_no_obstacle() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2048:
        pytest.skip("this user may not open so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, before[1]))  # often 1024 for users who are not root
    taken = [os.dup(0) for _ in range(1100)]
    try:
        async with running_zygote() as zygote:
            worker = await zygote.fork(SOURCE, LIMITS)

            assert worker.pidfd > 1024
            assert zygote.is_alive
            assert worker.fault is None
            end(worker)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
