"""Bounds the bytes of long lines and large answers that the daemon holds.  Knows sizes and whose they are, no bytes.

A line that has not ended after `SMALL` bytes needs room for the longest line there may be before any more of it is
read; when it has ended, it gives back what it did not need, and the rest when its request is answered.  So lines that
were begun never wait for each other, and a short line waits for nothing.  A background fire holds its payload until it
has ended, and a fire every large answer of its hooks.

Each holder may have half of what all others leave free.  However much one has, another one finds room.
"""

from __future__ import annotations

import ctypes
import logging
from collections import Counter
from collections.abc import Hashable

import trio

__all__ = ["MAX_HELD", "SMALL", "Budget", "BudgetShare"]

logger = logging.getLogger("hooklatch.budget")
SMALL = 2**16  # bytes; nearly all lines are shorter, and as many as there may be at once are bounded elsewhere
MAX_HELD = 96 * 2**20  # bytes: ten of the longest lines; two cores are busy with four, and each costs some copies
QUIET = 1.0  # seconds without a long line before memory is given back, which takes some milliseconds


class Budget:
    """One for all clients.  Its task gives memory back to the system once nothing is held any more.

    Lines that found no room in time are counted in `dropped`.
    """

    def __init__(self, dropped: Counter[str], limit: int = MAX_HELD) -> None:
        self.held = 0
        self._dropped = dropped
        self._limit = limit
        self._by_holder: Counter[Hashable] = Counter()
        self._waiting: dict[trio.lowlevel.Task, tuple[Hashable, int]] = {}  # in the order in which they came
        self._used = trio.Event()
        self._uses = 0

    def __len__(self) -> int:
        """Return how many lines wait for room."""
        return len(self._waiting)

    def take(self, holder: Hashable, size: int) -> bool:
        """Take room at once; return whether there was any."""
        own = self._by_holder[holder]
        if 2 * (own + size) > self._limit - (self.held - own):
            return False
        self._change(holder, size)
        self._uses += 1
        self._used.set()
        return True

    async def wait(self, holder: Hashable, size: int, timeout: float) -> bool:
        """Take room, after those of this holder that came before; return False if there is none in time (seconds)."""
        is_first = all(other != holder for other, _ in self._waiting.values())
        if is_first and self.take(holder, size):
            return True
        task = trio.lowlevel.current_task()
        self._waiting[task] = holder, size

        def leave(_: object) -> trio.lowlevel.Abort:
            del self._waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        with trio.move_on_after(timeout):
            await trio.lowlevel.wait_task_rescheduled(leave)
            return True
        self._dropped["overload"] += 1
        return False

    def give_back(self, holder: Hashable, size: int) -> None:
        """Give room back, and let in who waits for it."""
        self._change(holder, -size)
        for task, (other, wanted) in list(self._waiting.items()):
            if self.take(other, wanted):
                del self._waiting[task]
                trio.lowlevel.reschedule(task)

    def _change(self, holder: Hashable, size: int) -> None:
        self.held += size
        self._by_holder[holder] += size
        if not self._by_holder[holder]:
            del self._by_holder[holder]

    async def run(self) -> None:
        """Give memory back to the system after each burst."""
        while True:
            await self._used.wait()
            uses = -1
            while self.held or uses != self._uses:
                uses = self._uses
                await trio.sleep(QUIET)
            self._used = trio.Event()
            trim_memory()


class BudgetShare:
    """What one holder has of the budget for one thing; given back when that is over."""

    __slots__ = ("_budget", "_holder", "size")

    def __init__(self, budget: Budget, holder: Hashable) -> None:
        self._budget = budget
        self._holder = holder
        self.size = 0

    def take(self, size: int) -> bool:
        """Take so much more at once; return whether there was room."""
        if not self._budget.take(self._holder, size):
            return False
        self.size += size
        return True

    async def wait(self, size: int, timeout: float) -> bool:
        """Take so much more; return False if there is no room in time (seconds)."""
        if not await self._budget.wait(self._holder, size, timeout):
            return False
        self.size += size
        return True

    def shrink(self, size: int) -> None:
        """Keep at most so much."""
        if self.size > size:
            surplus, self.size = self.size - size, size
            self._budget.give_back(self._holder, surplus)


def trim_memory() -> None:
    """Return freed memory to the system: glibc keeps it for the next burst; other C libraries return it by themselves.

    From then on the system gives it anew, a page at a time, which is why it is not done after each line.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))
        logger.debug("memory returned")
