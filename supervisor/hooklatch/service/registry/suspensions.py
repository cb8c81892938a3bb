"""The active suspensions, and when they end.  Knows the state file and time; does not know fires."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import trio

from hooklatch.core.hooks.names import AmbiguousNameError, strip_scope
from hooklatch.core.hooks.suspension import Suspension, validate_suspension
from hooklatch.service.config.state_file import StateFile

__all__ = ["Suspensions"]

logger = logging.getLogger("hooklatch.suspensions")
Note = Callable[[str, dict[str, Any]], None]


class Suspensions:
    """What an operator has suspended, across restarts.

    A suspension ends by the monotonic clock, so setting the clock back does not prolong it.
    """

    def __init__(self, state: StateFile, note: Note) -> None:
        self._state = state
        self._note = note
        self.ends: dict[Suspension, float] = {}  # some may be over: see `active`
        self._changed = trio.Event()

    def __iter__(self) -> Iterator[Suspension]:
        return iter(self.active)

    @property
    def active(self) -> Sequence[Suspension]:
        """Return those that have not ended."""
        now = time.monotonic()
        return [one for one, end in self.ends.items() if end > now]

    def restore(self) -> None:
        """Restore those of the state file that have not ended; none lasts longer than it was meant to."""
        now = round(time.time(), 3)
        for one in self._state.state.suspensions:
            if now < one.since:  # the clock was set back: its times say what will happen, by the clock of now
                one = Suspension(one.hook, now, round(now + one.until - one.since, 3), one.reason)
            if one.until > now:
                self.ends[one] = time.monotonic() + one.until - now
        self._changed.set()

    def seconds_left(self, suspension: Suspension) -> float:
        """Return in how many seconds a suspension ends."""
        return max(self.ends[suspension] - time.monotonic(), 0.0)

    async def suspend(self, hook: str | None, seconds: float, reason: str) -> Suspension:
        """Suspend a hook, a plugin or (None) everything, replacing an earlier suspension of the same.

        Raises:
            SuspensionError: it is for too long, or without a reason.
        """
        text = validate_suspension(seconds, reason)
        now = time.time()
        made = Suspension(hook, round(now, 3), round(now + seconds, 3), text)
        self._drop(hook)
        self.ends[made] = time.monotonic() + seconds
        logger.warning("suspended", extra={"hook": hook or "*", "seconds": round(seconds), "reason": text})
        self._note("suspended", {"hook": hook or "*", "until": made.until, "reason": text})
        await self._keep()
        return made

    async def resume(self, name: str | None) -> bool:
        """End the suspensions of a name; None ends every suspension.  Return whether there was one.

        Raises:
            AmbiguousNameError: it is the id of several.
        """
        ended = [end for end in self.ends if end.hook == name] if name is not None else list(self.ends)
        if name is not None and not ended:  # its hook may be gone: only the suspension itself still has the name
            ended = [end for end in self.ends if end.hook is not None and strip_scope(end.hook) == name]
            if len(ended) > 1:
                raise AmbiguousNameError(name, [str(one.hook) for one in ended])
        for one in ended:
            self._end(one, "by an operator")
        if ended:
            await self._keep()
        return bool(ended)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Log the end of each when it comes; a suspension ends on time without this."""
        task_status.started()
        while True:
            self._changed = trio.Event()
            left = min(self.ends.values(), default=math.inf) - time.monotonic()
            with trio.move_on_after(max(left, 0)):
                await self._changed.wait()
            over = [one for one, end in self.ends.items() if end <= time.monotonic()]
            for one in over:
                self._end(one, "its time is over")
            if over:
                await self._keep()

    def _drop(self, hook: str | None) -> None:
        for end in [end for end in self.ends if end.hook == hook]:
            del self.ends[end]

    def _end(self, suspension: Suspension, why: str) -> None:
        self._drop(suspension.hook)
        logger.warning("suspension ended: %s", why, extra={"hook": suspension.hook or "*"})
        self._note("resumed", {"hook": suspension.hook or "*", "why": why})

    async def _keep(self) -> None:
        self._changed.set()
        self._state.state.suspensions = list(self.ends)
        await self._state.store()
