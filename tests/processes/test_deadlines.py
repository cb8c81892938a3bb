"""Who wins where an answer and its deadline come at one moment: the clock, whichever the loop looks at first."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator
from itertools import islice
from types import SimpleNamespace

import msgspec
import pytest
import trio
import trio.testing

from hooklatch.core.messages import CallOutcome
from hooklatch.core.payload import Payload
from hooklatch.core.protocol import Response
from hooklatch.processes.pool import UNHURRIED, Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.worker import PoolWorker, WorkerProcess, call_ids
from hooklatch.service.registry.admission import Admission
from hooklatch.service.registry.budget import Budget
from hooklatch.service.transport.connection import Connection, ConnectionTasks
from hooklatch.service.transport.watches import Hangups, LineTimeouts, ReaderHandoff
from hooklatch_worker import wire
from hooklatch_worker.systems import system
from support.calls import LoneFire, call_of
from support.daemons import nothing_left

ASKED, FIRE = call_of("guard"), LoneFire()
ALLOWED = b'{"verdict":"allow"}'
TRIES = 20  # trio takes the tasks of one turn in a random order


class Scripted:
    """A worker whose process does nothing: the test itself is at the other end of its socket."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "3600"])
        ours, self.theirs = socket.socketpair()
        pidfd = system.watch_process(self.process.pid)
        self.zygote = SimpleNamespace(is_over=False, is_alive=True, pidfd=os.dup(pidfd))
        fds = [ours.detach(), *(system.make_anonymous_file(name) for name in ("stdout", "stderr", "progress")), pidfd]
        self.held = WorkerProcess(self.zygote, 1, self.process.pid, fds)  # type: ignore[arg-type]

    def received(self) -> wire.RunCall:
        body = wire.FrameReader().take(self.theirs.recv(2**16))
        return msgspec.msgpack.decode(body or b"", type=wire.RunCall)

    def has_begun(self, number: int, call_id: int) -> None:
        """Say that the call of this number after the first one has just begun."""
        moment = wire.PROGRESS.pack(time.monotonic(), call_id)
        os.pwrite(self.held.progress_fd, moment, number * wire.PROGRESS.size)

    def answer(self) -> None:
        """Answer the call that was sent, at once."""
        call = self.received()
        self.theirs.sendall(wire.encode_frame(wire.CallAnswered(1, call.call_id, ALLOWED)))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.theirs.close()
        os.close(self.zygote.pidfd)
        self.held.close()


@pytest.fixture
def scripted() -> Generator[Scripted]:
    with nothing_left():
        worker = Scripted()
        yield worker
        worker.close()


def pool_of(worker: Scripted) -> Pool:
    """Make a pool that has this worker, and gets no other."""

    async def fork(*_: object) -> None:
        await trio.sleep_forever()

    zygote = SimpleNamespace(fork=fork)
    pool = Pool(wire.Source("module", "guard"), 1, zygote, PoolLimits(workers=1), on_busy=str)  # type: ignore[arg-type]
    pool._idle.append(PoolWorker(worker.held))
    return pool


@pytest.mark.parametrize("late_by", [0.0, 0.5])
@pytest.mark.parametrize("attempt", range(TRIES // 2))
async def test_an_answer_of_a_worker_at_its_deadline_or_after_it_is_none(
    scripted: Scripted, mock_clock: trio.testing.MockClock, late_by: float, attempt: int
) -> None:
    pool = pool_of(scripted)
    replies: list[CallOutcome] = []

    async def call() -> None:
        replies.append(await pool.call(ASKED, FIRE, trio.current_time() + 1.0))

    async with trio.open_nursery() as nursery:
        pool._nursery = nursery
        nursery.start_soon(pool._watch_deadlines)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        scripted.answer()
        mock_clock.jump(1.0 + late_by)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [(reply.cause, reply.answer) for reply in replies] == [("timeout", b"")]


async def test_an_answer_before_the_deadline_is_one(scripted: Scripted, mock_clock: trio.testing.MockClock) -> None:
    pool = pool_of(scripted)
    replies: list[CallOutcome] = []

    async def call() -> None:
        replies.append(await pool.call(ASKED, FIRE, trio.current_time() + 1.0))

    async with trio.open_nursery() as nursery:
        pool._nursery = nursery
        nursery.start_soon(pool._watch_deadlines)
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        scripted.answer()
        mock_clock.jump(0.999)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [(reply.cause, reply.answer) for reply in replies] == [("policy", ALLOWED)]


CLAIMS: dict[str, Callable[[list[int]], tuple[int, list[float]]]] = {
    "more than it was given": lambda ids: (ids[-1], [0.0] * len(ids)),
    "fewer than the one that it names": lambda ids: (ids[2], [0.0]),
    "the first one, after others": lambda ids: (ids[0], [0.0]),
    "a call that nobody made": lambda ids: (ids[1] + 1, [0.0]),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
async def test_a_worker_that_claims_to_have_run_others_than_it_can_is_garbage(
    scripted: Scripted, claim: Callable[[list[int]], tuple[int, list[float]]]
) -> None:
    pool = pool_of(scripted)
    replies: list[CallOutcome] = []

    async def call() -> None:
        asked = call_of("guard", then=["second", "third"])
        replies.append(await pool.call(asked, FIRE, trio.current_time() + 60.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        sent = scripted.received()
        number, before = claim([sent.call_id, *(following.call_id for following in sent.following)])
        scripted.theirs.sendall(wire.encode_frame(wire.CallAnswered(1, number, earlier_seconds=before)))

    assert [(reply.cause, reply.is_lost, reply.earlier_ms) for reply in replies] == [("protocol", True, ())]


@pytest.mark.parametrize("claimed", [-1.0, 1e9, math.nan, math.inf])
async def test_a_worker_says_how_long_each_took_within_what_all_did(
    scripted: Scripted, mock_clock: trio.testing.MockClock, claimed: float
) -> None:
    pool = pool_of(scripted)
    replies: list[CallOutcome] = []

    async def call() -> None:
        asked = call_of("guard", then=["second"], timeout=60.0)
        replies.append(await pool.call(asked, FIRE, trio.current_time() + 60.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        sent = scripted.received()
        mock_clock.jump(0.5)
        scripted.theirs.sendall(
            wire.encode_frame(wire.CallAnswered(1, sent.following[0].call_id, earlier_seconds=[claimed]))
        )

    assert [(reply.cause, reply.earlier_ms, reply.duration_ms) for reply in replies] == [("policy", (500.0,), 0.0)]


async def test_a_worker_puts_the_end_of_a_call_off_once_for_each_that_it_runs(
    scripted: Scripted, mock_clock: trio.testing.MockClock
) -> None:
    pool = pool_of(scripted)
    ended: list[tuple[str, int, float]] = []

    async def call() -> None:
        asked = call_of("guard", then=["second", "third"], timeout=10.0)
        outcome = await pool.call(asked, FIRE, trio.current_time() + 1.0)
        ended.append((outcome.cause, len(outcome.earlier_ms), trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool._watch_deadlines)
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        second = scripted.received().following[0]
        scripted.has_begun(0, second.call_id)
        mock_clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert not ended
        mock_clock.jump(9.5)
        await trio.testing.wait_all_tasks_blocked()
        scripted.has_begun(0, second.call_id)  # "just now"
        mock_clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [(cause, before) for cause, before, _ in ended] == [("timeout", 1)]


async def test_a_later_call_that_has_less_time_than_the_first_one_ends_when_that_is_over(
    scripted: Scripted, mock_clock: trio.testing.MockClock
) -> None:
    pool = pool_of(scripted)
    ended: list[tuple[str, int, float]] = []

    async def call() -> None:
        asked = call_of("guard", then=["second"], timeout=1.0)
        outcome = await pool.call(asked, FIRE, trio.current_time() + 100.0)
        ended.append((outcome.cause, len(outcome.earlier_ms), trio.current_time() - began))

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(pool._watch_deadlines)
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        second = scripted.received().following[0]
        for seconds in (0.9, 0.9, 0.9):  # the first one may take so long
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
        scripted.has_begun(0, second.call_id)
        for _ in range(20):
            mock_clock.jump(0.1)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    ((cause, before, after),) = ended
    assert (cause, before) == ("timeout", 1)
    assert 3.7 - 0.01 <= after < 4.7


async def test_a_later_one_that_begins_between_the_look_at_a_late_worker_and_its_death_is_not_blamed(
    scripted: Scripted, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, kill = pool_of(scripted), scripted.held.kill
    outcomes: list[CallOutcome] = []

    async def call() -> None:
        outcomes.append(await pool.call(call_of("guard", then=["second"], timeout=1.0), FIRE, trio.current_time() + 9))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool._watch_deadlines)
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        second = scripted.received().following[0]

        def kill_late() -> None:  # its process runs on another core until the signal arrives
            scripted.has_begun(0, second.call_id)
            kill()

        monkeypatch.setattr(scripted.held, "kill", kill_late)
        mock_clock.jump(9)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [(one.cause, list(one.earlier_ms)) for one in outcomes] == [("timeout", [])]


async def test_a_call_whose_deadline_has_passed_is_not_sent_and_costs_no_worker(scripted: Scripted) -> None:
    pool = pool_of(scripted)

    reply = await pool.call(ASKED, FIRE, trio.current_time())

    assert (reply.cause, reply.is_lost, pool.status()["idle"]) == ("timeout", False, 1)
    with pytest.raises(BlockingIOError):
        scripted.theirs.recv(1, socket.MSG_DONTWAIT)


async def test_each_waiting_call_ends_at_its_own_deadline(
    scripted: Scripted, mock_clock: trio.testing.MockClock
) -> None:
    pool = pool_of(scripted)
    ended: list[tuple[float, str]] = []

    async def call(timeout: float) -> None:
        outcome = await pool.call(ASKED, FIRE, trio.current_time() + timeout)
        ended.append((timeout, outcome.message))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool._watch_deadlines)
        nursery.start_soon(call, 100.0)
        await trio.testing.wait_all_tasks_blocked()
        pool._is_closed = False
        pool._starting = 1  # otherwise it would start a second worker
        for timeout in (3.0, 1.0, 2.0):
            nursery.start_soon(call, timeout)
            await trio.testing.wait_all_tasks_blocked()
        waiting = [pool.status()["waiting"]]
        for _ in range(3):
            mock_clock.jump(1.0)
            await trio.testing.wait_all_tasks_blocked()
            waiting.append(pool.status()["waiting"])
        nursery.cancel_scope.cancel()

    assert waiting == [3, 2, 1, 0]
    assert ended == [(timeout, f"no worker became free within {timeout} s") for timeout in (1.0, 2.0, 3.0)]


@pytest.mark.parametrize(("now", "cause"), [(0.999, "policy"), (1.0, "timeout"), (1.5, "timeout")])
async def test_an_answer_of_a_serving_client_counts_before_its_deadline_alone(
    mock_clock: trio.testing.MockClock, now: float, cause: str
) -> None:
    ours, theirs = socket.socketpair()
    connection = Connection(
        1,
        ours,
        None,
        ConnectionTasks(Admission(), Budget(Counter()), ReaderHandoff(), LineTimeouts(), Hangups()),
        role="agent",
    )  # type: ignore[arg-type]
    outcomes: list[str] = []

    async def call() -> None:
        outcomes.append((await connection.call(ASKED, FIRE, trio.current_time() + 1.0)).cause)

    with ours, theirs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(now)
            connection._served.take_response(Response(1, msgspec.Raw(ALLOWED)))

    assert outcomes == [cause]


def test_call_ids_are_random_and_have_64_bits() -> None:
    drawn = list(islice(call_ids, 2000))

    assert len(set(drawn)) == 2000
    assert sum(number >> 63 for number in drawn) in range(800, 1200)
    assert sorted(drawn) != drawn


async def answer_later(pool: Pool, scripted: Scripted) -> None:
    """Run a call that the loop does not wait for in place, and answer it."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.call, ASKED, FIRE, trio.current_time() + 1.0)
        await trio.testing.wait_all_tasks_blocked()
        scripted.answer()


async def test_an_answer_that_comes_at_once_costs_no_turn_of_the_loop(
    scripted: Scripted, mock_clock: trio.testing.MockClock
) -> None:
    pool = pool_of(scripted)
    scripted.held.has_said = lambda: scripted.answer() is None  # type: ignore[method-assign]

    with pytest.raises(StopIteration) as ended:
        pool.call(ASKED, FIRE, trio.current_time() + 1.0).send(None)

    assert ended.value.value.answer == ALLOWED


async def test_after_a_long_call_the_loop_waits_for_no_answer_of_that_pool(
    scripted: Scripted, mock_clock: trio.testing.MockClock
) -> None:
    pool, waits = pool_of(scripted), list[float]()

    def take_long() -> bool:
        waits.append(trio.current_time())
        mock_clock.jump(0.002)
        scripted.answer()
        return True

    scripted.held.has_said = take_long  # type: ignore[method-assign]
    await pool.call(ASKED, FIRE, trio.current_time() + 1.0)
    for _ in range(UNHURRIED):
        await answer_later(pool, scripted)
    assert len(waits) == 1

    await pool.call(ASKED, FIRE, trio.current_time() + 1.0)
    assert len(waits) == 2


@pytest.mark.parametrize("size", [10, 2**20])
async def test_a_call_that_cannot_be_sent_is_a_crash_of_its_worker(scripted: Scripted, size: int) -> None:
    pool = pool_of(scripted)
    scripted.held.exit_code = 1
    scripted.held.exit_known.set()
    scripted.theirs.shutdown(socket.SHUT_RD)
    asked = msgspec.structs.replace(ASKED, payload=Payload(b'{"tool_name":"%b"}' % (b"x" * size)))

    outcome = await pool.call(asked, FIRE, trio.current_time() + 60.0)

    assert (outcome.cause, outcome.is_lost, outcome.answer) == ("crash", True, b"")
    assert pool.status()["condemned"] == 1
