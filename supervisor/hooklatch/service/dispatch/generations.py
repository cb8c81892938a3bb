"""The generations of fires: an old build ends once all fires that began before its end have ended.

This is a grace period, as in RCU.  Knows counts; does not know fires or builds.
"""

from __future__ import annotations

import trio

__all__ = ["FireGeneration", "FireGenerations"]


class FireGeneration:
    """The fires that started between two changes of sources.

    A fire counts itself: 1 when it starts, -1 when it ends.  At its end it calls `check_ended` if this is closed.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_closed = False
        self.ended = trio.Event()

    def check_ended(self) -> None:
        """Set `ended` if this was the last fire that started before the sources changed."""
        if not self.count:
            self.ended.set()


class FireGenerations:
    """All open generations.  A fire counts for the one that is `newest` when it starts, until it has ended."""

    def __init__(self) -> None:
        self.newest = FireGeneration()
        self._open = [self.newest]

    async def wait_quiesced(self) -> None:
        """Wait until every fire that has started by now has ended."""
        waited_for = list(self._open)
        for generation in waited_for:
            generation.is_closed = True
            if not generation.count:
                generation.ended.set()
        self.newest = FireGeneration()
        self._open = [generation for generation in self._open if generation.count] + [self.newest]
        for generation in waited_for:
            await generation.ended.wait()
