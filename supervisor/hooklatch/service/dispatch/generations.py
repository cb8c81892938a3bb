"""Which fires were under way when sources changed: an old build ends when those have ended (a grace period, as in RCU).

Knows counts; does not know fires or builds.
"""

from __future__ import annotations

import trio

__all__ = ["FireGeneration", "FireGenerations"]


class FireGeneration:
    """The fires that started between two changes of sources.

    A fire counts itself: 1 when it starts, -1 when it ends, and then it calls `left` if this is closed.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_closed = False
        self.ended = trio.Event()

    def left(self) -> None:
        """Note that a fire has ended which started before the sources changed."""
        if not self.count:
            self.ended.set()


class FireGenerations:
    """Every fire counts for the generation that is `newest` when it starts, until it has ended."""

    def __init__(self) -> None:
        self.newest = FireGeneration()
        self._open = [self.newest]

    async def quiesced(self) -> None:
        """Wait until every fire that has started by now has ended."""
        waited_for = list(self._open)
        for generation in waited_for:
            generation.is_closed = True
            if not generation.count:
                generation.ended.set()
        self.newest = FireGeneration()
        self._open = [one for one in self._open if one.count] + [self.newest]
        for generation in waited_for:
            await generation.ended.wait()
