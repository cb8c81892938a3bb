"""The queue of calls that wait for a worker of a pool, and the rules of their order.  Does not know processes.

Each call belongs to a session, and sessions have equal shares of the queue and of the workers (`core/fair_queue.py`).
Gates go before notifications, which never get the last worker.  If several sessions call, the last free worker is kept
for a gate of a session that holds none and waits for none. So a session that calls seldom finds a worker while others
hold theirs for long.  A session that is alone may have all workers, and then the first call of a second session waits.
A call that has no place in the queue, or cannot be served in time, is refused at once with cause `overload`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping

import trio

from hooklatch.core.fair_queue import FairQueue
from hooklatch.core.messages import CallOutcome
from hooklatch.processes.fire_context import FireContext
from hooklatch.processes.worker import PoolWorker

__all__ = ["SAMPLES", "CallQueue", "QueuedCall"]

SHARED_FOR = 600.0  # seconds without a call after which no worker is kept for a session any more
SAMPLES = 32  # calls per median; with fewer, the pace is unknown
MARGIN = 4.0  # times the usual length that a call must have left, or its worker would be killed at the deadline


class QueuedCall:
    """A call that waits for a worker. The code that takes it out of the queue serves it at once.

    The task itself waits, and the pool's alarm watches its deadline. A `trio.Event` takes 9 us to make, set and await,
    and a scope with a deadline 11.
    """

    __slots__ = ("_result", "_task", "deadline", "fire", "since")

    def __init__(self, fire: FireContext, deadline: float, now: float) -> None:
        self.fire = fire
        self.deadline = deadline
        self.since = now
        self._task = trio.lowlevel.current_task()
        self._result: PoolWorker | CallOutcome | None = None

    async def wait_served(self, on_cancel: Callable[[QueuedCall], None]) -> PoolWorker | CallOutcome:
        """Wait for a worker, or the outcome that says why there is none. If cancelled before that, call `on_cancel`."""

        def abort(_: object) -> trio.lowlevel.Abort:
            on_cancel(self)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        assert self._result is not None
        return self._result

    def serve(self, result: PoolWorker | CallOutcome) -> None:
        self._result = result
        trio.lowlevel.reschedule(self._task)


class CallQueue:
    """The calls of one pool: those that have a worker, and those that are `waiting` for one.

    `latest_seconds` are how long the latest calls occupied their workers. The code that ran a call appends it.
    """

    def __init__(self, busy: Mapping[PoolWorker, FireContext], workers: int, capacity: int) -> None:
        """Make an empty queue. `busy` is the pool's own mapping: the fire that each busy worker works for."""
        self._busy = busy
        self._workers = workers
        self._gates: FairQueue[str, QueuedCall] = FairQueue(capacity)
        self._notifications: FairQueue[str, QueuedCall] = FairQueue(capacity)
        self.waiting: dict[QueuedCall, None] = {}  # in the order of their arrival
        self.latest_seconds: deque[float] = deque(maxlen=SAMPLES)
        self.latest: str | None = None  # the session whose call has arrived last
        self._shared_until = -math.inf

    @property
    def pace(self) -> float:
        """The median duration of recent calls in seconds, which a few slow ones do not move; 0 while too few ended."""
        return sorted(self.latest_seconds)[SAMPLES // 2] if len(self.latest_seconds) == SAMPLES else 0.0

    def note_session(self, share: str, now: float) -> None:
        """Note that a call has arrived, and is of another session than the one before it."""
        if self.latest is not None:
            self._shared_until = now + SHARED_FOR
        self.latest = share

    def may_run(self, fire: FireContext) -> bool:
        """Return whether a call may have an idle worker."""
        share = fire.queue_key
        if not fire.spec.is_gate:
            return not self._is_closed_to_notifications
        return not self._is_last_kept or not (share in self._holders or self._gates.is_regular(share))

    @property
    def _holders(self) -> set[str]:
        return {fire.queue_key for fire in self._busy.values()}

    @property
    def _is_closed_to_notifications(self) -> bool:
        notifications = sum(not fire.spec.is_gate for fire in self._busy.values())
        return notifications >= self._workers - 1 or self._is_last_kept

    @property
    def _is_last_kept(self) -> bool:
        return len(self._busy) >= self._workers - 1 and trio.current_time() < self._shared_until

    def wait(self, fire: FireContext, deadline: float) -> QueuedCall | CallOutcome:
        """Queue a call. Return its place, or the outcome of a call that gets none."""
        queue, share, now = self._queue(fire), fire.queue_key, trio.current_time()
        expected = queue.ahead(share) * self.pace / self._workers
        if expected > deadline - now:  # a low estimate: later calls and slower ones are not counted
            return CallOutcome(cause="overload", message=f"its turn would come in {expected:.1f} s, past its deadline")
        waiter = QueuedCall(fire, deadline, now)
        # A full queue refuses a call of the session that has most in it, which need not be the one that came last.
        pushed_out = queue.put(share, waiter)
        self.waiting[waiter] = None
        if pushed_out is None:
            return waiter
        del self.waiting[pushed_out]
        own = queue.waiting(pushed_out.fire.queue_key)
        refused = CallOutcome(
            cause="overload",
            message=f"{len(queue)} calls wait for a worker of its source already, {own} of its own session",
        )
        if pushed_out is waiter:
            return refused
        pushed_out.serve(refused)
        return waiter

    def leave(self, waiter: QueuedCall) -> None:
        """Remove a call that does not wait any longer."""
        self._queue(waiter.fire).remove(waiter.fire.queue_key, waiter)
        self.waiting.pop(waiter, None)

    def next_deadline(self) -> float:
        """Return the earliest deadline of a waiting call."""
        return min((waiter.deadline for waiter in self.waiting), default=math.inf)

    def expire(self, now: float) -> None:
        """Refuse the calls whose deadlines have passed."""
        for waiter in [call for call in self.waiting if call.deadline <= now]:
            self.leave(waiter)
            waited = now - waiter.since
            waiter.serve(CallOutcome(cause="timeout", message=f"no worker became free within {waited:.1f} s"))

    def next(self) -> QueuedCall | None:
        """Return the next call for an idle worker, if any. Refuse those whose turn comes too late."""
        while waiter := self._next_gate() or self._next_notification():
            del self.waiting[waiter]
            time_left = waiter.deadline - trio.current_time()
            if MARGIN * self.pace <= time_left:
                return waiter
            waiter.serve(
                CallOutcome(cause="overload", message=f"its turn came {max(0.0, time_left):.1f} s before its deadline")
            )
        return None

    def _next_gate(self) -> QueuedCall | None:
        if not self._gates:
            return None
        return self._gates.take(self._holders, newcomers_only=True) if self._is_last_kept else self._gates.take()

    def _next_notification(self) -> QueuedCall | None:
        return self._notifications.take() if self._notifications and not self._is_closed_to_notifications else None

    def refuse_all(self, failure: CallOutcome) -> None:
        for waiter in list(self.waiting):
            self.leave(waiter)
            waiter.serve(failure)

    def _queue(self, fire: FireContext) -> FairQueue[str, QueuedCall]:
        return self._gates if fire.spec.is_gate else self._notifications
