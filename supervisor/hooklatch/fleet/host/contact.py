"""This host's last contact with its fleet's engine, and the denial of gates once that is too long ago.

Knows clocks, the settings and the state file; does not know the engine, nor how gates are denied.

    fresh ── max_staleness without contact ──▶ stale ── contact ──▶ fresh
                                                 └─ when_stale = "deny": every gate is denied

A host without any policy denies for that alone: see `find_lack` of `FleetContact`.
A host that was never in contact is stale.  The contact that is kept for the next start is coarse, and never too new.

The wall clock jumps.  The clock since the boot does not, but begins anew with each boot.  So within one boot only the
latter counts.  Over a boot only the wall clock knows: a host then counts as at least as stale as either clock says, and
as never in contact where the wall clock is before the contact.  "Not known" is stale.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import trio

from hooklatch.fleet.settings import FleetSettings
from hooklatch.record.storage.recovery import read_boot_id
from hooklatch.service.config.state_file import StateFile

__all__ = [
    "EngineContact", "ClockReading", "compute_age", "carry_contact", "compute_seconds_left", "FleetContact",
    "read_clocks",
]  # fmt: skip

SLACK = 60.0  # seconds that the wall clock may be behind a contact in another boot: clocks are set at a boot


class ClockReading(msgspec.Struct, frozen=True):
    """Now: seconds since the epoch, which boot this is (empty if unknown), and seconds since it, asleep or not."""

    at: float
    boot: str
    uptime: float


class EngineContact(msgspec.Struct, frozen=True):
    """The moment when a host was last at the head of its fleet's engine, by both clocks.

    `since_boot` is in seconds of the boot `boot`, and below 0 where an earlier boot's contact is `carry_contact` over.
    """

    fleet: str
    at: float
    boot: str
    since_boot: float
    is_carried: bool = False

    @classmethod
    def of(cls, fleet: str, now: ClockReading) -> EngineContact:
        """Return a contact at this moment."""
        return cls(fleet, now.at, now.boot, now.uptime)


def compute_age(contact: EngineContact | None, now: ClockReading) -> float | None:
    """Return the seconds since a contact; None if that cannot be known, or there was none."""
    if contact is None:
        return None
    by_wall = now.at - contact.at
    if contact.boot and contact.boot == now.boot and contact.since_boot <= now.uptime:
        elapsed = now.uptime - contact.since_boot
        return max(elapsed, by_wall) if contact.is_carried else elapsed
    return max(by_wall, 0.0) if by_wall >= -SLACK else None


def carry_contact(contact: EngineContact | None, now: ClockReading) -> EngineContact | None:
    """Return an earlier boot's contact in terms of this one, so that no later jump of the wall clock makes it newer."""
    elapsed = compute_age(contact, now)
    if contact is None or elapsed is None:
        return None
    if contact.boot == now.boot and not contact.is_carried:
        return contact
    return EngineContact(contact.fleet, contact.at, now.boot, now.uptime - elapsed, is_carried=True)


def compute_seconds_left(contact: EngineContact | None, now: ClockReading, max_staleness: float) -> float:
    """Return for how many seconds a contact is not stale yet; 0 if it is."""
    elapsed = compute_age(contact, now)
    return max(0.0, max_staleness - elapsed) if elapsed is not None else 0.0


logger = logging.getLogger("hooklatch.fleet")
KEPT_EVERY = 60.0  # seconds, at most, by which the kept contact is older than the last one
LONGEST = 60.0  # seconds between two looks at the clock: trio's timers do not count the time that a machine sleeps
BOOT = read_boot_id() or ""


def read_clocks() -> ClockReading:
    """Return the present readings of all clocks."""
    return ClockReading(time.time(), BOOT, time.clock_gettime(time.CLOCK_BOOTTIME))


class FleetContact:
    """The last contact.  `commit` makes the hooks again by the present `denial`; they are active when it returns.

    `find_lack` returns why gates are denied for want of a policy, or None.
    """

    def __init__(
        self,
        state: StateFile,
        note: Callable[[str, dict[str, Any]], None],
        commit: Callable[[], Awaitable[object]],
        find_lack: Callable[[], str | None],
        clock: Callable[[], ClockReading] = read_clocks,
    ) -> None:
        self._state = state
        self._note = note
        self._commit = commit
        self._find_lack = find_lack
        self._clock = clock
        self._settings: FleetSettings | None = None
        self._contact: EngineContact | None = None
        self._denial: str | None = None  # the one by which hooks were made last
        self._was_stale = False
        self._is_forgotten = False  # the contact was dropped, and the state file still has it
        self._changed = trio.Event()
        self._applying = trio.Lock()

    # -- the present state --------------------------------------------------------------------------------------------

    @property
    def age(self) -> float | None:
        """Return the seconds since the last contact; None if there was none, or if that is unknown."""
        return compute_age(self._contact, self._clock())

    @property
    def is_stale(self) -> bool:
        """Return whether the last contact is too long ago; without a fleet it never is."""
        return self._settings is not None and self._seconds_left(self._settings) <= 0

    @property
    def at(self) -> float | None:
        """Return the moment of the last contact, by the wall clock at that time, in seconds since the epoch."""
        return self._contact.at if self._contact is not None else None

    @property
    def problem(self) -> str | None:
        """Return the problem of a stale host."""
        if self._settings is None or not self.is_stale:
            return None
        if self._contact is None:
            was_once = self._state.state.contact is not None
            since = "the time of the last contact is unknown" if was_once else "never was"
            return f"this host is not in contact with its fleet {self._settings.name!r}, and {since}"
        since = datetime.fromtimestamp(self._contact.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"this host was last in contact with its fleet {self._settings.name!r} at {since}"

    @property
    def denial(self) -> str | None:
        """Return why every gate is denied now, and the remedy; None if they are not."""
        return self.stale_denial or self._find_lack()

    @property
    def stale_denial(self) -> str | None:
        """Return why a stale host denies every gate, and the remedy; None if it does not."""
        if self._settings is None or self._settings.when_stale != "deny" or (problem := self.problem) is None:
            return None
        return (
            f'{problem}: longer than max_staleness, and [fleet] has when_stale = "deny"; make sure that'
            ' `hooklatch link` runs and reaches the engine, or set when_stale = "serve"'
        )

    def _seconds_left(self, settings: FleetSettings) -> float:
        return compute_seconds_left(self._contact, self._clock(), settings.max_staleness)

    # -- changes ------------------------------------------------------------------------------------------------------

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table.  A contact with another fleet does not count, and leaving a fleet drops its contact.

        Otherwise a host that comes back, and has no active policy any more, would count as up to date.
        """
        name = settings.name if settings is not None else None
        if settings is None and self._settings is not None:
            self._state.state.contact, self._is_forgotten = None, True
        if self._contact is None or self._contact.fleet != name:
            stored = self._stored()
            self._contact = (
                carry_contact(stored, self._clock()) if stored is not None and stored.fleet == name else None
            )
        self._settings = settings
        self._changed.set()

    async def record_contact(self) -> None:
        """Note that this host has read all that its fleet's engine has, and that the wanted version is active here."""
        if self._settings is not None:
            self._contact = EngineContact.of(self._settings.name, self._clock())
            self._changed.set()  # for `run`: the link may leave, which cancels this, before the denial ends
            await self.apply_denial()

    async def apply_denial(self) -> None:
        """Deny gates, or stop denying them, by the present `denial`."""
        async with self._applying:
            self._report_change()
            denial = self.denial
            if denial != self._denial:
                await self._commit()
                self._denial = denial

    def _report_change(self) -> None:
        """Log and record that this host has become stale, or is not stale any more."""
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
        """Notice when this host becomes stale, and keep the contact for the next start."""
        task_status.started()
        while True:
            self._changed = trio.Event()
            await self.apply_denial()
            await self._keep()
            settings = self._settings
            seconds_left = self._seconds_left(settings) if settings is not None else 0.0
            # A stale host stays stale until something changes.
            with trio.move_on_after(min(seconds_left, LONGEST) if seconds_left > 0 else float("inf")):
                await self._changed.wait()

    def _stored(self) -> EngineContact | None:
        """Return the contact in the state file; one that cannot be read does not count, so that the host is stale."""
        try:
            return msgspec.convert(self._state.state.contact, EngineContact | None)
        except msgspec.ValidationError:
            return None

    async def _keep(self) -> None:
        contact, settings, stored = self._contact, self._settings, self._stored()
        if self._is_forgotten:
            self._is_forgotten = False
            await self._state.store()
        if contact is None or settings is None or contact.is_carried or contact == stored:
            return
        is_of_this_boot = stored is not None and (stored.fleet, stored.boot) == (contact.fleet, contact.boot)
        interval = min(KEPT_EVERY, settings.max_staleness / 10)
        # Not at each contact, which may be every second: each store syncs the whole state file.
        if stored is None or not is_of_this_boot or contact.since_boot - stored.since_boot >= interval:
            self._state.state.contact = msgspec.to_builtins(contact)
            await self._state.store()
