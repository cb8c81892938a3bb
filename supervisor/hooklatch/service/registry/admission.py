"""The admission of requests of busy sessions, one at a time.  Knows sessions and turns of the loop, but not requests.

All requests share one thread.  If a client already has several requests here, or its session has some under way, the
next request waits for admission.  One is admitted per round of the event loop, each time of another session
(`core/fair_queue.py`).  So a flood delays other sessions by one request a round, not by all of its requests, and a
session with nothing under way is admitted at once.  While a connection waits, nothing more is read from it, so its
input stays in its socket.

Admitting more than the workers can serve would only move the queue to them, and there a request of a quiet session
meets it.  So while many requests of any sessions are under way, those that queue here are admitted slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Any

import trio

from hooklatch.core.fair_queue import FairQueue

__all__ = ["MAX_OF_SESSION", "UNHINDERED", "FairQueueKey", "Admission"]

UNHINDERED = 4  # requests of a session, or of all strangers, that may be under way before the next one queues
MAX_OF_SESSION = 256  # unanswered requests that all connections of one session may have
PER_WORKER = 2  # requests under way, of all clients, that keep a worker busy
PAUSE = 0.001  # seconds between two admissions then: slow hooks must not delay requests for other hooks for long
PLACES = 2**14  # connections that may wait: more than there can be


class FairQueueKey:
    """The flow of one session, or of all clients without one: the number of its requests under way."""

    __slots__ = ("in_flight",)

    def __init__(self) -> None:
        self.in_flight = 0


class Admission:
    """The gatekeeper of requests. It admits one per round of the event loop, or fewer, and sleeps while none waits."""

    def __init__(self, max_workers: Callable[[], int] = lambda: 4) -> None:
        """Take `max_workers`, which returns how many workers the largest pool has."""
        self._max_workers = max_workers
        self._waiting: FairQueue[Hashable, trio.lowlevel.Task] = FairQueue(PLACES)
        self._wake = trio.Event()
        self.in_flight = 0  # requests of all clients
        self.strangers = FairQueueKey()  # connections without a session: counted together, but each takes its own turns

    def __len__(self) -> int:
        return len(self._waiting)

    async def turn(self, share: Hashable) -> None:
        """Wait for a turn of `share`: a session's flow, or a connection without a session."""
        task = trio.lowlevel.current_task()
        self._waiting.put(share, task)
        self._wake.set()

        def leave(_: Any) -> trio.lowlevel.Abort:
            self._waiting.remove(share, task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    @contextmanager
    def set_aside(self, flow: FairQueueKey | None) -> Generator[None]:
        """Leave a request out of the counts while it waits for a person, since it takes no turn and no worker then.

        `flow` is its session's, or None for a client without a session.
        """
        counted = flow or self.strangers
        counted.in_flight -= 1
        self.in_flight -= 1
        try:
            yield
        finally:
            counted.in_flight += 1
            self.in_flight += 1

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._admit_next():
                if self.in_flight < PER_WORKER * self._max_workers():
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.sleep(PAUSE)
            self._wake = trio.Event()  # no checkpoint since the queue was empty, so no arrival is missed

    def _admit_next(self) -> bool:
        task = self._waiting.take()
        if task is None:
            return False
        trio.lowlevel.reschedule(task)
        return True
