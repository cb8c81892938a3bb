"""When this host was last at the head of its fleet's engine, and what follows once that is too long ago.

Knows clocks, the settings and the state file; does not know the engine, nor how gates are denied.

    fresh ── max_staleness without contact ──▶ stale ── contact ──▶ fresh
                                                 └─ when_stale = "deny": every gate is denied

A host that was never in contact is stale.  What is kept for the next start is coarse, and never newer than it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import trio

from hooklatch.fleet.policy.settings import FleetSettings
from hooklatch.fleet.policy.staleness import (
    ClockReading,
    EngineContact,
    carry_contact,
    compute_age,
    compute_seconds_left,
)
from hooklatch.record.storage.recovery import read_boot_id
from hooklatch.service.config.state_file import StateFile

__all__ = ["FleetContact", "read_clocks"]

logger = logging.getLogger("hooklatch.fleet")
KEPT_EVERY = 60.0  # seconds, at most, by which what is kept for the next start is older than the contact
LONGEST = 60.0  # seconds between two looks at the clock: a machine that sleeps ages, and our timers do not
BOOT = read_boot_id() or ""


def read_clocks() -> ClockReading:
    """Return now."""
    return ClockReading(time.time(), BOOT, time.clock_gettime(time.CLOCK_BOOTTIME))


class FleetContact:
    """The last contact.  `commit` has hooks made anew by `denial` as it then is; they are in force when it returns."""

    def __init__(
        self,
        state: StateFile,
        note: Callable[[str, dict[str, Any]], None],
        commit: Callable[[], Awaitable[object]],
        now: Callable[[], ClockReading] = read_clocks,
    ) -> None:
        self._state = state
        self._note = note
        self._commit = commit
        self._now = now
        self._settings: FleetSettings | None = None
        self._contact: EngineContact | None = None
        self._denial: str | None = None  # what it was when hooks were made by it last
        self._was_stale = False
        self._is_forgotten = False  # and the state file does not say so yet
        self._changed = trio.Event()
        self._settling = trio.Lock()

    # -- how it is ---------------------------------------------------------------------------------------------------

    @property
    def age(self) -> float | None:
        """Return the seconds since the last contact; None if there was none, or that cannot be known."""
        return compute_age(self._contact, self._now())

    @property
    def is_stale(self) -> bool:
        """Whether the last contact is too long ago; without a fleet there is none to have."""
        return self._settings is not None and self._left(self._settings) <= 0

    @property
    def at(self) -> float | None:
        """Return when the last contact was, by the wall clock of then, in seconds since the epoch."""
        return self._contact.at if self._contact is not None else None

    @property
    def problem(self) -> str | None:
        """Return what is wrong, if anything is."""
        if self._settings is None or not self.is_stale:
            return None
        if self._contact is None:
            since = "and it cannot be known when it was" if self._state.state.contact is not None else "and never was"
            return f"this host is not in contact with its fleet {self._settings.name!r}, {since}"
        since = datetime.fromtimestamp(self._contact.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"this host was last in contact with its fleet {self._settings.name!r} at {since}"

    @property
    def denial(self) -> str | None:
        """Return why every gate is to be denied now, and what to do; None if none is for this."""
        if self._settings is None or self._settings.when_stale != "deny" or (problem := self.problem) is None:
            return None
        return (
            f'{problem}: longer than max_staleness, and [fleet] has when_stale = "deny"; see that `hooklatch link` runs'
            ' and reaches the engine, or set when_stale = "serve"'
        )

    def _left(self, settings: FleetSettings) -> float:
        return compute_seconds_left(self._contact, self._now(), settings.max_staleness)

    # -- what happens ------------------------------------------------------------------------------------------------

    def take(self, settings: FleetSettings | None) -> None:
        """Take what [fleet] says now; another fleet's contact is none, and who leaves a fleet has had none with it.

        Else a host that comes back, where nothing is in force any more, would count as up to date.
        """
        name = settings.name if settings is not None else None
        if settings is None and self._settings is not None:
            self._state.state.contact, self._is_forgotten = None, True
        if self._contact is None or self._contact.fleet != name:
            kept = self._state.state.contact
            self._contact = carry_contact(kept, self._now()) if kept is not None and kept.fleet == name else None
        self._settings = settings
        self._changed.set()

    async def heard(self) -> None:
        """Note that this host is at the head of its fleet's engine, and what is wanted there is in force here."""
        if self._settings is not None:
            self._contact = EngineContact.of(self._settings.name, self._now())
            self._changed.set()  # whoever says so may leave before this has an effect
            await self.settle()

    async def settle(self) -> None:
        """Have gates denied, or not any more, as it is right now."""
        async with self._settling:
            self._tell()
            denial = self.denial
            if denial != self._denial:
                await self._commit()
                self._denial = denial

    def _tell(self) -> None:
        """Log and record that it has become stale, or is not any more."""
        problem = self.problem
        is_stale = problem is not None
        if is_stale is self._was_stale:
            return
        self._was_stale = is_stale
        if is_stale:
            logger.warning("stale: %s", problem)
            self._note("fleet", {"action": "stale", "problem": problem})
        elif self._settings is not None:
            logger.info("in contact again", extra={"fleet": self._settings.name})
            self._note("fleet", {"action": "in contact"})

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Notice when it becomes stale, and keep the contact for the next start."""
        task_status.started()
        while True:
            self._changed = trio.Event()
            await self.settle()
            await self._keep()
            settings = self._settings
            left = self._left(settings) if settings is not None else 0.0
            # What is stale stays so until something changes.
            with trio.move_on_after(min(left, LONGEST) if left > 0 else float("inf")):
                await self._changed.wait()

    async def _keep(self) -> None:
        contact, settings, kept = self._contact, self._settings, self._state.state.contact
        if self._is_forgotten:
            self._is_forgotten = False
            await self._state.store()
        if contact is None or settings is None or contact.is_carried or contact == kept:
            return
        is_of_now = kept is not None and (kept.fleet, kept.boot) == (contact.fleet, contact.boot)
        due = min(KEPT_EVERY, settings.max_staleness / 10)
        if kept is None or not is_of_now or contact.since_boot - kept.since_boot >= due:
            self._state.state.contact = contact
            await self._state.store()
