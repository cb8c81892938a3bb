"""The workers of one source.  Knows workers, waiting calls and capacity; knows no registry and no verdict.

A pool is an actor: `run()` owns a nursery in which each worker's watch lives (restart: permanent, spread by a token
bucket), and calls come in by `call()`, in the caller's own task.

    call ─▶ idle worker? ─▶ take it ─▶ answer ─▶ back to idle
              │ no                └▶ died, or the deadline passed ─▶ killed, replaced from the spare
              ▼
            bounded queue, gates before notifications; one worker is never given to a notification
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque

import msgspec
import trio

from hooklatch.core.messages import CallOutcome, Cause
from hooklatch.core.restarts import TokenBucket
from hooklatch.processes.worker import Invocation, LoadError, Reply, Worker
from hooklatch.processes.zygote import ForkError, Zygote, ZygoteLostError
from hooklatch_worker import wire

__all__ = ["LSP_SOURCE", "Invocation", "Pool", "PoolLimits", "PoolStatus"]

logger = logging.getLogger("hooklatch.pool")
SPARES = 1  # idle workers kept ready, so that a crash costs the next call nothing
RETRY_WAIT = 1.0  # seconds after a worker could not be started
LOST_IN_A_ROW = 5  # workers that died idle or loading, one after the other, before we wait between starts
ZYGOTES = 3  # that may die over one start before it counts as failed
RECYCLED = "recycled"
LSP_SOURCE = wire.Source("module", "hooklatch_worker.lsp")  # our own; a user's code has no telemetry to hand over


class PoolLimits(msgspec.Struct, frozen=True):
    """How many workers, and when one is replaced.  `resident_bytes` holds also while a call runs.

    `queue` bounds the gates that wait for a worker, and apart from them the other calls: a flood of notifications
    leaves gates their places.  `load_timeout` is for importing, apart from any call's own limit (celery's 4 s is a
    known trap).
    """

    workers: int = 4
    calls: int = 10_000
    age: float = 3600.0
    resident_bytes: int = 512 * 2**20
    worker: wire.WorkerLimits = wire.WorkerLimits()
    queue: int = 1024
    load_timeout: float = 30.0


class PoolStatus(msgspec.Struct, frozen=True):
    source: str
    build: int
    idle: int
    busy: int
    starting: int
    waiting: int
    pids: list[int]
    started: int
    lost: int
    recycled: int
    condemned: int


class Waiter:
    """A call that waits for a worker."""

    __slots__ = ("failure", "granted", "worker")

    def __init__(self) -> None:
        self.granted = trio.Event()
        self.worker: Worker | None = None
        self.failure: CallOutcome | None = None


class Pool:
    """Runs the callbacks of one build of one source."""

    def __init__(self, source: wire.Source, build: int, zygote: Zygote, limits: PoolLimits, code: bytes = b"") -> None:
        self.source = source
        self._code = code
        self.build = build
        self.limits = limits
        self._zygote = zygote
        self._nursery: trio.Nursery | None = None
        self._idle: list[Worker] = []
        self._running: dict[Worker, float] = {}  # the deadline of each call that is under way
        self._alarm = trio.CancelScope()
        self._busy: set[Worker] = set()
        self._condemned: set[Worker] = set()
        self._starting = 0
        self._busy_notifications = 0
        self._gates: deque[Waiter] = deque()
        self._notifications: deque[Waiter] = deque()
        self._forks = TokenBucket(rate=50.0, burst=20)
        self._failures_in_a_row = 0
        self._is_closed = False
        self._counts = {"started": 0, "lost": 0, "recycled": 0}

    async def run(self, task_status: trio.TaskStatus[wire.Loaded] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the workers until cancelled.

        Raises:
            LoadError: the first worker could not import the source.
            ForkError: the first worker could not be forked.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                worker, loaded = await self._fork()
                nursery.start_soon(self._keep, worker)
                self._release(worker)
                task_status.started(loaded)
                await self._watch_deadlines()
            finally:
                self._is_closed = True
                self._fail_waiting(CallOutcome("overload", message="its source is being closed"))
                nursery.cancel_scope.cancel()

    async def call(self, invocation: Invocation, deadline: float) -> Reply:
        """Run one callback; the outcome is there by `deadline` (trio's clock), whatever the callback does.

        Cancelling it lets the callback go on until its deadline, with nobody to hear the answer.
        """
        started = time.perf_counter()
        worker = self._take(is_gate=invocation.is_gate)
        if worker is None:
            found = await self._wait_until(deadline, is_gate=invocation.is_gate)
            if isinstance(found, CallOutcome):
                return Reply(found.lasting(time.perf_counter() - started))
            worker = found
        self._fill()
        self._running[worker] = deadline
        if deadline < self._alarm.deadline:
            self._alarm.deadline = deadline
        try:
            reply = await worker.call(invocation, deadline - trio.current_time())
        except trio.Cancelled:
            self._abandon(worker, is_gate=invocation.is_gate, deadline=deadline)
            raise
        finally:
            del self._running[worker]
        if worker.is_expired:
            waited = time.perf_counter() - started
            reply = Reply(worker.lost_outcome("timeout", f"no answer within {waited:.1f} s"), is_lost=True)
        self._give_back(worker, is_gate=invocation.is_gate, is_fit=not reply.is_lost)
        reply.outcome = reply.outcome.lasting(time.perf_counter() - started)
        return reply

    async def _wait_until(self, deadline: float, *, is_gate: bool) -> Worker | CallOutcome:
        started = trio.current_time()
        with trio.move_on_at(deadline):
            return await self._wait(is_gate=is_gate)
        waited = trio.current_time() - started
        return CallOutcome("timeout", message=f"no worker became free within {waited:.1f} s")

    async def _watch_deadlines(self) -> None:
        """End each call whose deadline passes.  One alarm serves all: a scope for each call would cost every fire."""
        while True:
            self._alarm = trio.CancelScope(deadline=self._next_deadline())
            with self._alarm:
                await trio.sleep_forever()
            now = trio.current_time()
            for worker, deadline in self._running.items():
                if deadline <= now and not worker.is_expired:
                    worker.expire()

    def _next_deadline(self) -> float:
        return min((at for worker, at in self._running.items() if not worker.is_expired), default=math.inf)

    def _abandon(self, worker: Worker | None, *, is_gate: bool, deadline: float) -> None:
        if worker is None or worker not in self._busy:
            return
        if self._is_closed or self._nursery is None:
            worker.kill("the pool closes")
            self._give_back(worker, is_gate=is_gate, is_fit=False)
            return
        self._nursery.start_soon(self._drain, worker, is_gate, deadline)

    async def _drain(self, worker: Worker, is_gate: bool, deadline: float) -> None:
        is_fit = False
        try:
            with trio.move_on_at(deadline):
                is_fit = await worker.settle()
        finally:
            if not is_fit:
                worker.kill("its abandoned call went past its deadline")
            self._give_back(worker, is_gate=is_gate, is_fit=is_fit)

    def _take(self, *, is_gate: bool) -> Worker | None:
        if not self._may_run(is_gate=is_gate):
            return None
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_lost:
                self._condemned.add(worker)  # it has just died, or is dying; its watch is about to learn of it
                continue
            self._busy.add(worker)
            self._busy_notifications += not is_gate
            return worker
        return None

    def _may_run(self, *, is_gate: bool) -> bool:
        return is_gate or self._busy_notifications < self.limits.workers - 1

    async def _wait(self, *, is_gate: bool) -> Worker | CallOutcome:
        queue = self._gates if is_gate else self._notifications
        if self._is_closed:
            return CallOutcome("overload", message="its source is being closed")
        if len(queue) >= self.limits.queue:
            return CallOutcome("overload", message=f"{len(queue)} calls wait for a worker of its source already")
        waiter = Waiter()
        queue.append(waiter)
        self._fill()
        try:
            await waiter.granted.wait()
        except trio.Cancelled:
            # It may have been served at the very moment at which it was cancelled.
            if waiter.worker is not None:
                self._give_back(waiter.worker, is_gate=is_gate, is_fit=True)
            elif waiter.failure is None:
                queue.remove(waiter)
            raise
        return waiter.worker or waiter.failure or CallOutcome("overload", message="no worker could be had")

    def _give_back(self, worker: Worker, *, is_gate: bool, is_fit: bool) -> None:
        self._busy.discard(worker)
        self._busy_notifications -= not is_gate
        if worker.is_dead:
            worker.close()
        elif not is_fit or worker.is_doomed:
            self._condemned.add(worker)
        elif self._is_worn(worker):
            self.recycle(worker)
        else:
            self._idle.append(worker)
        self._serve_waiting()
        self._fill()

    def recycle(self, worker: Worker) -> None:
        """Replace a worker that is not in a call."""
        if worker in self._idle:
            self._idle.remove(worker)
        self._counts["recycled"] += 1
        self._condemned.add(worker)
        worker.kill(RECYCLED)
        self._fill()

    def _is_worn(self, worker: Worker) -> bool:
        calls = self.limits.calls * worker.endurance
        return worker.calls >= calls or trio.current_time() - worker.started_at >= self.limits.age

    def _release(self, worker: Worker) -> None:
        self._idle.append(worker)
        self._serve_waiting()
        self._fill()

    def _serve_waiting(self) -> None:
        """Hand idle workers to those that wait: gates first."""
        for queue, is_gate in ((self._gates, True), (self._notifications, False)):
            while queue and (worker := self._take(is_gate=is_gate)) is not None:
                waiter = queue.popleft()
                waiter.worker = worker
                waiter.granted.set()

    def _fail_waiting(self, failure: CallOutcome) -> None:
        for queue in (self._gates, self._notifications):
            while queue:
                waiter = queue.popleft()
                waiter.failure = failure
                waiter.granted.set()

    def _fill(self) -> None:
        """Start what is missing: a spare, and one worker for each call that waits, up to the limit."""
        if self._is_closed or self._nursery is None:
            return
        waiting = len(self._gates) + len(self._notifications)
        missing = SPARES + waiting - len(self._idle) - self._starting
        room = self.limits.workers - len(self._idle) - len(self._busy) - self._starting
        for _ in range(min(missing, room)):
            self._starting += 1
            self._nursery.start_soon(self._start_one)

    async def _start_one(self) -> None:
        try:
            while wait := self._forks.take(trio.current_time()):  # noqa: ASYNC110  (tokens come by time alone)
                await trio.sleep(wait)
            if self._failures_in_a_row >= LOST_IN_A_ROW:
                await trio.sleep(RETRY_WAIT)
            worker, _ = await self._fork()
        except (ForkError, LoadError) as error:
            self._starting -= 1
            await self._start_failed(error)
            return
        except BaseException:
            self._starting -= 1
            raise
        self._starting -= 1
        assert self._nursery is not None
        self._nursery.start_soon(self._keep, worker)
        self._release(worker)

    async def _start_failed(self, error: ForkError | LoadError) -> None:
        self._failures_in_a_row += 1
        logger.warning("worker not started source=%s: %s", self.source.location, error)
        if not self._idle and not self._busy:
            cause: Cause = "load" if isinstance(error, LoadError) else "overload"
            self._fail_waiting(CallOutcome(cause, message=f"no worker could be started: {error}"))
        await trio.sleep(RETRY_WAIT)
        self._fill()

    async def _fork(self) -> tuple[Worker, wire.Loaded]:
        for _ in range(ZYGOTES - 1):
            try:
                return await self._fork_once()
            except ZygoteLostError as error:
                logger.info("worker not started, again with the next zygote source=%s: %s", self.source.location, error)
        return await self._fork_once()

    async def _fork_once(self) -> tuple[Worker, wire.Loaded]:
        worker = Worker(await self._zygote.fork(self.source, self.limits.worker), may_emit=self.source == LSP_SOURCE)
        limit = self.limits.load_timeout
        try:
            with trio.fail_after(limit):
                loaded = await worker.load(self._code)
        except BaseException as error:
            is_orphaned = worker.process.is_orphaned
            worker.kill("it could not be loaded")
            worker.close()
            if isinstance(error, trio.TooSlowError):
                raise LoadError(f"it did not finish importing within {limit:.0f} s") from None
            if isinstance(error, LoadError) and is_orphaned:
                raise ZygoteLostError("the zygote died while the worker imported") from None
            raise
        self._counts["started"] += 1
        return worker, loaded

    async def _keep(self, worker: Worker) -> None:
        """Watch one worker until it is dead, then make up for it."""
        try:
            await worker.watch()
        except trio.Cancelled:
            worker.kill("the pool closes")
            raise
        finally:
            worker.bury()
            self._condemned.discard(worker)
            if worker not in self._busy:  # else the call closes it, which may still be reading
                if worker in self._idle:
                    self._idle.remove(worker)
                worker.close()
        if worker.kill_reason != RECYCLED:
            self._counts["lost"] += 1
        if not worker.process.is_orphaned:
            self._failures_in_a_row = 0 if worker.calls else self._failures_in_a_row + 1
        logger.info("worker ended pid=%d reason=%s", worker.pid, worker.kill_reason)
        self._fill()

    def live_workers(self) -> list[Worker]:
        """Give every worker, idle or busy."""
        return [*self._idle, *self._busy]

    def is_running(self, worker: Worker) -> bool:
        return worker in self._busy

    @property
    def is_busy(self) -> bool:
        return bool(self._busy or self._gates or self._notifications)

    def status(self) -> PoolStatus:
        return PoolStatus(
            source=self.source.location,
            build=self.build,
            idle=len(self._idle),
            busy=len(self._busy),
            starting=self._starting,
            waiting=len(self._gates) + len(self._notifications),
            condemned=len(self._condemned),
            pids=[worker.pid for worker in self.live_workers()],
            **self._counts,
        )
