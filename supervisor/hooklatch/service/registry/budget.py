"""The budget for bytes of long lines and large answers that the daemon holds.  Knows sizes and holders, not bytes.

A line that has not ended after `SMALL` bytes needs room for the longest line there may be before any more of it is
read. When it has ended, it gives back the room that it did not need, and the rest when its request is answered.  So
lines that were begun never wait for each other, and a short line never waits.  A background fire holds its payload
until it has ended, and a fire holds every large answer of its hooks.

Each holder may have half of the room that all others leave.  So there is room for another holder, however much one has.
"""

from __future__ import annotations

import ctypes
import logging
from collections import Counter
from collections.abc import Hashable

import trio

__all__ = ["MAX_HELD", "SMALL", "Budget", "BudgetShare"]

logger = logging.getLogger("hooklatch.budget")
SMALL = 2**16  # bytes; nearly all lines are shorter, and their number is bounded elsewhere
MAX_HELD = 96 * 2**20  # bytes: ten of the longest lines; two cores are busy with four, and each costs some copies
QUIET = 1.0  # seconds without a long line before memory is given back, which takes some milliseconds


class Budget:
    """The budget of all clients.  Its task gives memory back to the system once nothing is held any more.

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
        """Take room at once. Return whether there was any."""
        own = self._by_holder[holder]
        if 2 * (own + size) > self._limit - (self.held - own):
            return False
        self._change(holder, size)
        self._uses += 1
        self._used.set()
        return True

    async def wait(self, holder: Hashable, size: int, timeout: float) -> bool:
        """Take room, after the earlier requests of this holder. Return False if there is none in `timeout` seconds."""
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
        """Give room back, and serve the tasks that wait for it."""
        self._change(holder, -size)
        for task, (other, waiting_size) in list(self._waiting.items()):
            if self.take(other, waiting_size):
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
    """The share of the budget that one holder has for one line or answer."""

    __slots__ = ("_budget", "_holder", "size")

    def __init__(self, budget: Budget, holder: Hashable) -> None:
        self._budget = budget
        self._holder = holder
        self.size = 0

    def take(self, size: int) -> bool:
        """Take `size` bytes more at once. Return whether there was room."""
        if not self._budget.take(self._holder, size):
            return False
        self.size += size
        return True

    async def wait(self, size: int, timeout: float) -> bool:
        """Take `size` bytes more. Return False if there is no room in `timeout` seconds."""
        if not await self._budget.wait(self._holder, size, timeout):
            return False
        self.size += size
        return True

    def shrink(self, size: int) -> None:
        """Keep at most `size` bytes, and give the rest back."""
        if self.size > size:
            surplus, self.size = self.size - size, size
            self._budget.give_back(self._holder, surplus)


def trim_memory() -> None:
    """Return freed memory to the system. Only glibc keeps it for the next burst.

    The system gives it anew a page at a time, which costs the next line. So this is not done after each line.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))
        logger.debug("memory returned")
