"""Looks at files from the event loop, which waits for no disk.  Knows threads; does not know what is looked for.

What may not answer is looked at in a thread.  Each look there ends in time (`hooklatch/disks.py`), and so the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from hooklatch.disks import find_disk, look_here

__all__ = ["look_in_thread", "look_at_path"]

T = TypeVar("T")
LIMITERS = trio.lowlevel.RunVar[dict[str, trio.CapacityLimiter]]("of looks")


async def look_in_thread(look: Callable[[], T]) -> T:
    """Return what is found by a function that looks at any number of paths, and changes nothing of the loop's."""
    return await trio.to_thread.run_sync(look, abandon_on_cancel=True)


async def look_at_path(look: Callable[[str], T], path: str, *, is_tree: bool = False) -> T:
    """Return what is found by a function that looks at one path, or at all below it: at once if that is local.

    Fires wait for this.  For each disk that may not answer one at a time takes a thread, so that there are always some.
    """
    disk = find_disk(path, is_tree=is_tree)
    if disk is None:
        return look_here(look, path)
    try:
        limiters = LIMITERS.get()
    except LookupError:
        LIMITERS.set(limiters := {})
    limiter = limiters.setdefault(disk, trio.CapacityLimiter(1))
    return await trio.to_thread.run_sync(look, path, abandon_on_cancel=True, limiter=limiter)
