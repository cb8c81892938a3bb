"""Which fires were under way when sources changed: an old build ends when those have ended (a grace period, as in RCU).

Knows counts; does not know fires or builds.
"""

from __future__ import annotations

import trio

__all__ = ["Generation", "Generations"]


class Generation:
    """The fires that started between two changes of sources."""

    def __init__(self) -> None:
        self.count = 0
        self.is_closed = False
        self.ended = trio.Event()

    def leave(self) -> None:
        self.count -= 1
        if self.is_closed and not self.count:
            self.ended.set()


class Generations:
    """Every fire enters the newest generation, and leaves it when it has ended."""

    def __init__(self) -> None:
        self._open = [Generation()]

    def enter(self) -> Generation:
        """Count a fire that starts now; the caller must `leave`."""
        newest = self._open[-1]
        newest.count += 1
        return newest

    async def quiesced(self) -> None:
        """Wait until every fire that has started by now has ended."""
        waited_for = list(self._open)
        for generation in waited_for:
            generation.is_closed = True
            if not generation.count:
                generation.ended.set()
        self._open = [one for one in self._open if one.count] + [Generation()]
        for generation in waited_for:
            await generation.ended.wait()
