"""Threads beside the event loop, which must never wait for a disk.  Nothing else starts one for a call of a task.

A path on a disk that may not answer is looked at in a thread.  Each look there has a time limit (`hooklatch/disks.py`),
so the thread ends too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from hooklatch.disks import find_disk, look_here

__all__ = ["in_thread", "look_in_thread", "look_at_path"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
LIMITERS = trio.lowlevel.RunVar[dict[str, trio.CapacityLimiter]]("of looks")


async def in_thread(
    function: Callable[[*Ts], T],
    *args: *Ts,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Return the result of a function that may wait.  Where it is abandoned, a cancelled caller leaves it to run on."""
    return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)


async def look_in_thread(look: Callable[[], T], *, abandon_on_cancel: bool = True) -> T:
    """Return the result of a function that looks at any number of paths, and changes no state of the loop."""
    return await in_thread(look, abandon_on_cancel=abandon_on_cancel)


async def look_at_path(look: Callable[[str], T], path: str, *, is_tree: bool = False) -> T:
    """Return the result of a function that looks at one path, or at the tree below it: at once if its disk is local.

    Fires wait for this.
    """
    disk = find_disk(path, is_tree=is_tree)
    if disk is None:
        return look_here(look, path)
    try:
        limiters = LIMITERS.get()
    except LookupError:
        LIMITERS.set(limiters := {})
    # One look at a time for each disk that may not answer: a silent one must not take the threads of all others.
    limiter = limiters.setdefault(disk, trio.CapacityLimiter(1))
    return await in_thread(look, path, abandon_on_cancel=True, limiter=limiter)
