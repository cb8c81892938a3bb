"""The active suspensions and their ends.  Knows the state file and time; does not know fires."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import trio

from hooklatch.core.hooks.names import is_short_name, strip_scope
from hooklatch.core.hooks.resolving import AmbiguousNameError
from hooklatch.core.hooks.suspension import Suspension, validate_suspension
from hooklatch.service.config.state_file import StateFile

__all__ = ["Suspensions"]

logger = logging.getLogger("hooklatch.suspensions")
Note = Callable[[str, dict[str, Any]], None]


class Suspensions:
    """The suspensions of the operator, kept across restarts.

    A suspension ends by the clock of the event loop, so setting the clock back does not prolong it.
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
        """Return the suspensions that have not ended."""
        now = trio.current_time()
        return [suspension for suspension, end in self.ends.items() if end > now]

    def restore(self) -> None:
        """Restore the suspensions of the state file that have not ended. None lasts longer than it was meant to."""
        now = round(time.time(), 3)
        for saved in self._state.state.suspensions:
            suspension = saved
            if now < saved.since:  # the clock was set back, so the duration counts again from now
                suspension = Suspension(saved.hook, now, round(now + saved.until - saved.since, 3), saved.reason)
            if suspension.until > now:
                self.ends[suspension] = trio.current_time() + suspension.until - now
        self._changed.set()

    def seconds_left(self, suspension: Suspension) -> float:
        """Return the number of seconds until a suspension ends."""
        return max(self.ends[suspension] - trio.current_time(), 0.0)

    async def suspend(self, hook: str | None, seconds: float, reason: str) -> Suspension:
        """Suspend a hook, a plugin or (None) everything, replacing an earlier suspension of the same.

        Raises:
            SuspensionError: it is for too long, or without a reason.
        """
        text = validate_suspension(seconds, reason)
        now = time.time()
        suspension = Suspension(hook, round(now, 3), round(now + seconds, 3), text)
        self._drop(hook)
        self.ends[suspension] = trio.current_time() + seconds
        logger.warning("suspended", extra={"hook": hook or "*", "seconds": round(seconds), "reason": text})
        self._note("suspended", {"hook": hook or "*", "until": suspension.until, "reason": text})
        await self._store()
        return suspension

    async def resume(self, name: str | None) -> bool:
        """End the suspensions of a name, or all for None.  Return whether there was one.

        Raises:
            AmbiguousNameError: it is the id of several hooks.
        """
        ended = [end for end in self.ends if end.hook == name] if name is not None else list(self.ends)
        if name is not None and not ended:  # its hook may be gone: only the suspension itself still has the name
            named = [(end, strip_scope(end.hook)) for end in self.ends if end.hook is not None]
            ended = [end for end, hook_id in named if hook_id == name]
            ended = ended or [end for end, hook_id in named if is_short_name(name, hook_id)]
            if len(ended) > 1:
                raise AmbiguousNameError(name, [str(suspension.hook) for suspension in ended])
        for suspension in ended:
            self._end(suspension, "by an operator")
        if ended:
            await self._store()
        return bool(ended)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Log and record the end of each suspension. It ends on time without this task."""
        task_status.started()
        while True:
            self._changed = trio.Event()
            timeout = min(self.ends.values(), default=math.inf) - trio.current_time()
            with trio.move_on_after(max(timeout, 0)):
                await self._changed.wait()
            ended = [suspension for suspension, end in self.ends.items() if end <= trio.current_time()]
            for suspension in ended:
                self._end(suspension, "its time is over")
            if ended:
                await self._store()

    def _drop(self, hook: str | None) -> None:
        for suspension in [suspension for suspension in self.ends if suspension.hook == hook]:
            del self.ends[suspension]

    def _end(self, suspension: Suspension, why: str) -> None:
        self._drop(suspension.hook)
        logger.warning("suspension ended: %s", why, extra={"hook": suspension.hook or "*"})
        self._note("resumed", {"hook": suspension.hook or "*", "why": why})

    async def _store(self) -> None:
        self._changed.set()
        self._state.state.suspensions = list(self.ends)
        await self._state.store()
