"""The workers of one build, and the calls that wait for them.  Does not know the registry or verdicts.

A pool is an actor. `run()` watches each worker and replaces the dead, at a rate that a token bucket limits. Calls come
in by `call()`, in the caller's own task.  If `run()` fails, its supervisor runs it again, with new workers.

    call ─▶ idle worker? ─▶ take it ─▶ answer ─▶ back to idle
              │ no                └▶ died, or the deadline passed ─▶ killed, replaced from the spare
              ▼
            bounded queue, gates before notifications, each session in its turn (`queueing.py`)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec.structs import replace

from hooklatch.core.call import Call
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.messages import CallOutcome, Cause
from hooklatch.core.restarts import RestartPolicy, Restarts, TokenBucket
from hooklatch.processes.fire_context import FireContext
from hooklatch.processes.pool_limits import IN_PLACE, PoolLimits
from hooklatch.processes.queueing import CallQueue
from hooklatch.processes.starting import WorkerStarter, remove_scratch
from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.worker import Answered, PoolWorker, SourceLoadError, build_call_outcome, compute_deadline
from hooklatch.processes.zygote import ForkError, ZygoteClient
from hooklatch_worker import wire

if TYPE_CHECKING:
    from hooklatch.core.answers import HookLoad
    from hooklatch.core.status_answers import IsolationStatus, PoolStatus, WorkerCounts

__all__ = ["BegunCall", "Pool"]

logger = logging.getLogger("hooklatch.pool")
SPARES = 1  # idle workers kept ready, so that a crash costs the next call nothing
RESTARTS = RestartPolicy(waits=(0.0,) * 4 + (1.0,))  # for workers that could not be started, or died before any call
UNHURRIED = 20  # calls after a longer one for which the loop goes on at once
NO_CODE = wire.LoadCode(b"")  # of a module, which workers import by its name
RECYCLED, CLOSES = "recycled", "the pool closes"


class BegunCall(msgspec.Struct, eq=False):
    """A call that was sent to a worker; `unsent` is its outcome if that could not be done."""

    pool: Pool
    worker: PoolWorker
    call: Call
    fire: FireContext
    deadline: float
    arrived: float
    began: float
    unsent: CallOutcome | None = None


class Pool:
    """The pool of one build: it runs the callbacks of a source in its workers.

    It calls `on_busy` with itself when a worker starts to import, and when one starts to work after a `rest`.
    """

    def __init__(
        self, source: wire.Source, build: int, zygote: ZygoteClient, limits: PoolLimits, code: wire.LoadCode = NO_CODE,
        *, on_busy: Callable[[Pool], object],
    ) -> None:  # fmt: skip
        self.source = source
        self.build = build
        self.name = f"{source.location} (build {build})"
        self.limits = limits
        self.fault: str | None = None  # why no worker of this build may decide any more
        self._on_busy = partial(on_busy, self)
        self._starter = WorkerStarter(source, zygote, code, self._on_busy)
        self.workers = Supervisor("workers")
        self._idle: list[PoolWorker] = []
        self._alarm = trio.CancelScope()
        self._busy: dict[PoolWorker, FireContext] = {}  # the fire that each works for
        self._condemned: set[PoolWorker] = set()
        self._starting = 0
        self._queue = CallQueue(self._busy, limits.workers, limits.queue)
        self._forks = TokenBucket(rate=50.0, burst=20)
        self._restarts = Restarts(RESTARTS)
        self._is_closed = True  # until it runs
        self._now = trio.lowlevel.current_clock().current_time
        self._lost = self._recycled = 0
        self._unhurried = 0  # calls to come for whose answers the loop does not wait

    async def run(self, task_status: trio.TaskStatus[wire.SourceLoaded] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the workers until cancelled.

        Raises:
            SourceLoadError: the first worker could not import the source.
            ForkError: the first worker could not be forked.
        """
        async with self.workers.open():
            self._is_closed = False
            try:
                worker, loaded = await self._starter.start(self.limits)
                self.workers.spawn("worker", self._keep, worker)
                self._release(worker)
                task_status.started(loaded)
                await self._watch_deadlines()
            finally:
                self._is_closed = True
                self._queue.refuse_all(CallOutcome(cause="overload", message="its source is being closed"))

    async def call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        """Run one callback. Return its outcome by `deadline` (trio's clock), even if the callback hangs.

        The callbacks in `call.following` are run too, until one of them answers. The outcome is then that of the last,
        with the durations of the others.  If cancelled, the callback runs to its deadline, and its answer is discarded.
        """
        arrived = self._now()
        began = self.begin(call, fire, deadline, arrived)
        if began is None:
            served = await self._wait(fire, deadline)
            if isinstance(served, CallOutcome):
                return served.with_duration(self._now() - arrived)
            began = self._send(served, call, fire, deadline, arrived, self._now())
        return began if isinstance(began, CallOutcome) else await self.end(began)

    def begin(self, call: Call, fire: FireContext, deadline: float, arrived: float) -> BegunCall | CallOutcome | None:
        """Send a call that has just arrived to an idle worker, for `end`; or return its outcome, or None: it waits."""
        if self.fault is not None:
            return CallOutcome(cause="load", message=self.fault)
        if fire.queue_key != self._queue.latest:
            self._queue.note_session(fire.queue_key, arrived)
        worker = self._take(fire)
        return self._send(worker, call, fire, deadline, arrived, arrived) if worker is not None else None

    def _send(
        self, worker: PoolWorker, call: Call, fire: FireContext, deadline: float, arrived: float, began: float
    ) -> BegunCall | CallOutcome:
        if not self._idle:
            self._fill()  # before the call: its spare is forked while this worker works
        if began >= deadline:
            self._give_back(worker, began, is_fit=True)
            return CallOutcome(cause="timeout", message="no time was left to start it").with_duration(began - arrived)
        worker.ends = worker.deadline = deadline
        if call.following:
            if worker.calls + len(call.following) >= self.limits.calls * worker.endurance:
                call = replace(call, following=())  # they would exceed the calls of one worker
            worker.deadline = min([deadline, *(compute_deadline(hook, fire, began) for hook in call.following)])
        if worker.deadline < self._alarm.deadline:
            self._set_alarm(worker.deadline)
        begun = BegunCall(self, worker, call, fire, deadline, arrived, began)
        try:
            begun.unsent = worker.begin(call, fire, deadline - began)
        except BaseException:  # a fault of our own
            self.abandon(begun)
            raise
        return begun

    def has_answered(self, begun: BegunCall, *, in_place: bool) -> bool:
        """Return whether the answer has come, after waiting for it in place where this pool's pace allows that."""
        return begun.worker.has_answered(in_place=in_place and not self._unhurried)

    def abandon(self, begun: BegunCall) -> None:
        """Wait for the answer of a call no more: its worker has until its deadline."""
        worker = begun.worker
        if begun.unsent is not None:  # nothing that it could answer
            self._give_back(worker, trio.current_time(), is_fit=True)
            return
        worker.deadline = math.inf  # no call waits for it any more, and `_drain` has the deadline
        later = (compute_deadline(hook, begun.fire, begun.deadline) for hook in begun.call.following)
        if not self.workers.spawn("abandoned call", self._drain, worker, max([begun.deadline, *later])):
            worker.kill(CLOSES)
            self._give_back(worker, trio.current_time(), is_fit=False)

    async def end(self, begun: BegunCall) -> CallOutcome:
        """Return the outcome of a call that was sent."""
        worker, call = begun.worker, begun.call
        try:
            answered = begun.unsent or await worker.end(begun.fire, in_place=not self._unhurried)
        except BaseException:  # cancelled, or a fault of our own: the worker may still be at work
            self.abandon(begun)
            raise
        ended = self._now()
        seconds = ended - begun.began
        self._queue.latest_seconds.append(seconds)
        if seconds * 1000 > IN_PLACE:
            self._unhurried = UNHURRIED
        elif self._unhurried:
            self._unhurried -= 1
        if call.following and (earlier := worker.silent_durations(answered, seconds)):
            outcome = self._build_last_outcome(begun, answered, earlier, ended)
        else:
            outcome = self._build_outcome(begun, answered, ended)
        self._give_back(worker, ended, is_fit=not outcome.is_lost)
        return outcome

    def _build_last_outcome(
        self, begun: BegunCall, answered: Answered, earlier: list[float], ended: float
    ) -> CallOutcome:
        """Return the outcome of the last callback of several that a worker ran; `earlier` are the others' durations."""
        call, moment = begun.call, begun.began + sum(earlier)
        begun.worker.calls += len(earlier)
        deadline = compute_deadline(call.following[len(earlier) - 1], begun.fire, moment)
        last = replace(begun, deadline=deadline, arrived=moment, began=moment)
        earlier[0] += begun.began - begun.arrived  # the time in the queue counts for the first callback
        outcome = self._build_outcome(last, answered, ended)
        return replace(outcome, earlier_ms=tuple([round(seconds * 1000, 3) for seconds in earlier]))

    def _build_outcome(self, begun: BegunCall, answered: Answered, ended: float) -> CallOutcome:
        worker, seconds = begun.worker, ended - begun.arrived
        if worker.is_expired:
            # If it waited longer than it ran, the queue missed the deadline, not the callback.
            is_orphaned = begun.began - begun.arrived > ended - begun.began
            outcome = worker.lost_outcome("timeout", f"no answer within {seconds:.1f} s", is_orphaned=is_orphaned)
            return outcome.with_duration(seconds)
        outcome = build_call_outcome(answered, begun.call.hook, seconds)
        if ended < begun.deadline:
            return outcome
        # The answer and the alarm came in the same turn of the loop, so their order there must not decide.
        text = f"no answer within {seconds:.1f} s"
        return replace(outcome, outcome="unread", cause="timeout", answer=b"", message=text)

    async def _watch_deadlines(self) -> None:
        """End each call whose deadline passes.

        One alarm serves all calls, since a cancel scope for each call would cost every fire.
        """
        while True:
            of_calls = min((worker.deadline for worker in self._busy if not worker.is_expired), default=math.inf)
            self._alarm = trio.CancelScope(deadline=min(of_calls, self._queue.next_deadline()))
            with self._alarm:
                await trio.sleep_forever()
            now = trio.current_time()
            for worker in self._busy:
                if worker.deadline <= now and not worker.is_expired:
                    worker.deadline = worker.next_check(now)  # a later callback may have begun
                    if worker.deadline <= now:
                        worker.expire()
            self._queue.expire(now)

    def _set_alarm(self, deadline: float) -> None:
        # It is only ever moved forward here; one that rings too early finds nothing due and is set anew.
        self._alarm.deadline = deadline
        self._on_busy()

    def rest(self) -> bool:
        """Return whether no call is under way. If so, the next one sets the alarm anew, and so calls `on_busy`."""
        if self._busy or self._queue.waiting:
            return False
        self._alarm.deadline = math.inf
        return True

    async def _drain(self, worker: PoolWorker, deadline: float) -> None:
        is_fit = False
        try:
            with trio.move_on_at(deadline):
                is_fit = await worker.drain_answer()
        finally:
            if not is_fit:
                worker.kill("its abandoned call went past its deadline")
            self._give_back(worker, trio.current_time(), is_fit=is_fit)

    def _take(self, fire: FireContext) -> PoolWorker | None:
        """Return an idle worker for a call that has just arrived, if it may have one. See `_next_idle`."""
        if self._busy:  # otherwise it is the first of at least two idle workers, which any session may have
            if not self._idle:
                return None
            if self._queue.waiting:
                self._serve_waiting()  # a worker may no longer have to be kept for another session
            if not self._queue.may_run(fire):
                return None
        worker = self._next_idle()
        if worker is not None:
            self._busy[self._idle.pop()] = fire
        return worker

    def _next_idle(self) -> PoolWorker | None:
        """Return the idle worker that is the next to be taken, if any. Kill those to which no call may be sent.

        There must be no checkpoint between this and the sending, or the worker could end in between.
        """
        while self._idle:
            worker = self._idle[-1]
            fault = worker.process.fault
            if fault is None:
                return worker
            worker.kill(fault)
            self._condemned.add(self._idle.pop())  # until its watch has noticed its death
        return None

    async def _wait(self, fire: FireContext, deadline: float) -> PoolWorker | CallOutcome:
        """Wait in the queue for a worker to which a call may be sent, until the deadline."""
        while not self._is_closed:
            waiter = self._queue.wait(fire, deadline)
            if isinstance(waiter, CallOutcome):
                return waiter
            if deadline < self._alarm.deadline:
                self._set_alarm(deadline)
            self._fill()
            served = await waiter.wait_served(self._queue.leave)
            if isinstance(served, CallOutcome):
                return served
            if (fault := served.process.fault) is None:
                return served
            # It ended or broke the protocol after it was handed over.  Nothing was sent to it, so another may serve.
            served.kill(fault)
            self._give_back(served, trio.current_time(), is_fit=False)
            if (worker := self._take(fire)) is not None:
                return worker
        return CallOutcome(cause="overload", message="its source is being closed")

    def _give_back(self, worker: PoolWorker, now: float, *, is_fit: bool) -> None:
        del self._busy[worker]
        if worker.is_dead:
            worker.close()
        elif not is_fit or worker.kill_reason is not None:
            self._condemned.add(worker)
        elif worker.calls >= self.limits.calls * worker.endurance or now - worker.started_at >= self.limits.age:
            self.recycle(worker)
        else:
            worker.deadline, worker.serving = math.inf, None
            self._idle.append(worker)
            if not self._queue.waiting:
                return
        self._serve_waiting()
        self._fill()

    def recycle(self, worker: PoolWorker) -> None:
        """Replace a worker that is not in a call."""
        if worker in self._idle:
            self._idle.remove(worker)
        self._recycled += 1
        self._condemned.add(worker)
        worker.kill(RECYCLED)
        self._fill()

    def _release(self, worker: PoolWorker) -> None:
        self._idle.append(worker)
        self._serve_waiting()
        self._fill()

    def _serve_waiting(self) -> None:
        while self._queue.waiting and (worker := self._next_idle()) and (waiter := self._queue.next()):
            self._busy[self._idle.pop()] = waiter.fire
            waiter.serve(worker)

    def _fill(self) -> None:
        """Start what is missing: a spare, and one worker for each waiting call, up to the limit."""
        room = self.limits.workers - len(self._idle) - len(self._busy) - self._starting
        if room <= 0 or self._is_closed or self.fault is not None:
            return
        missing = SPARES + len(self._queue.waiting) - len(self._idle) - self._starting
        for _ in range(min(missing, room)):
            self._starting += 1
            self.workers.spawn("start of a worker", self._start_one)

    async def _start_one(self) -> None:
        try:
            while wait := self._forks.take(trio.current_time()):  # noqa: ASYNC110  (tokens come by time alone)
                await trio.sleep(wait)
            while wait := self._restarts.wait(trio.current_time()):  # noqa: ASYNC110  (it may fail again meanwhile)
                await trio.sleep(wait)
            worker, _ = await self._starter.start(self.limits)
        except Exception as error:
            self._starting -= 1
            self._start_failed(error)
            if not isinstance(error, ForkError | SourceLoadError | OSError):
                raise
            return
        except BaseException:
            self._starting -= 1
            raise
        self._starting -= 1
        self.workers.spawn("worker", self._keep, worker)
        self._release(worker)

    def _start_failed(self, error: Exception) -> None:
        self._restarts.record_failure(trio.current_time())
        logger.warning("worker not started: %s", error, extra={"source": self.source.location})
        if isinstance(error, SourceLoadError) and error.is_outside:
            # The workers that decide now and this one would not decide alike: so none decides until it is built anew.
            self.fault = f"{error}; put it back as it was, or take what is there now: hooklatch reload"
            self._queue.refuse_all(CallOutcome(cause="load", message=self.fault))
            return
        if not self._idle and not self._busy:
            cause: Cause = "load" if isinstance(error, SourceLoadError) else "overload"
            self._queue.refuse_all(CallOutcome(cause=cause, message=f"no worker could be started: {error}"))
        self._fill()

    async def _keep(self, worker: PoolWorker) -> None:
        """Watch one worker until it is dead, then replace it."""
        try:
            await trio.lowlevel.wait_readable(worker.process.pidfd)
        except BaseException as error:
            is_over = self._is_closed or isinstance(error, trio.Cancelled)
            worker.kill(CLOSES if is_over else "it could not be watched")
            raise
        finally:
            self._take_leave(worker)
            await remove_scratch(worker, self.limits.worker.isolation)

    def _take_leave(self, worker: PoolWorker) -> None:
        worker.mark_dead()
        self._condemned.discard(worker)
        if worker not in self._busy:  # otherwise the call closes it, which may still be reading
            if worker in self._idle:
                self._idle.remove(worker)
            worker.close()
        if worker.kill_reason == CLOSES:
            return
        if worker.kill_reason != RECYCLED:
            self._lost += 1
        if not worker.process.is_orphaned:
            if worker.calls:
                self._restarts.reset()
            else:
                self._restarts.record_failure(trio.current_time())
        what = {"pid": worker.pid, "source": self.source.location, "reason": worker.kill_reason}
        logger.info("worker ended", extra=what)
        self._fill()

    def live_workers(self) -> list[PoolWorker]:
        """Return every worker, idle or busy."""
        return [*self._idle, *self._busy]

    def loading_workers(self) -> list[PoolWorker]:
        """Return the workers that are importing the source."""
        return list(self._starter.loading)

    def is_idle(self, worker: PoolWorker) -> bool:
        return worker in self._idle

    @property
    def counts(self) -> WorkerCounts:
        """Return how many workers were started, lost and recycled since the start of the pool."""
        return {"started": self._starter.started, "lost": self._lost, "recycled": self._recycled}

    @property
    def isolation(self) -> IsolationStatus:
        configured = self.limits.worker.isolation.level
        first = self._starter.first
        if first is None:
            return {"configured": configured, "in_force": "standard", "missing": []}
        return {"configured": configured, "in_force": first.isolation, "missing": first.missing}

    def load_of(self, hook: Hook, memory_bytes: int | None) -> HookLoad:
        """Return what a hook of this source and the workers are doing."""
        running = [at_work for worker in self._busy if (at_work := worker.hook) is not None]
        return {
            "workers": len(self._idle) + len(self._busy), "busy": len(self._busy),
            "memory_bytes": memory_bytes, "waiting": len(self._queue.waiting),
            "in_flight": sum((called.name, called.owner) == (hook.name, hook.owner) for called in running),
        }  # fmt: skip

    def status(self) -> PoolStatus:
        return {
            "source": self.source.location, "digest": self.source.digest, "build": self.build,
            "idle": len(self._idle), "busy": len(self._busy), "starting": self._starting,
            "waiting": len(self._queue.waiting), "pids": [worker.pid for worker in self.live_workers()],
            **self.counts, "condemned": len(self._condemned), "isolation": self.isolation,
        }  # fmt: skip
