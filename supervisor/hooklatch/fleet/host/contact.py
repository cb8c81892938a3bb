"""This host's last contact with its fleet's publisher, and the denial of gates once that is too long ago.

Knows clocks, the settings and the state file; does not know the engine, nor how gates are denied.

    fresh ── max_staleness after the newest timestamp that was true of this host ──▶ stale ── a newer one ──▶ fresh
                                                              └─ when_stale = "deny": every gate is denied

That the engine has nothing new does not count as contact: one that stands still says that too.  Contact is a timestamp
that the publisher has signed and that names the version that this host has, and counts from when it was issued.  A host
without any policy denies for that alone: see `find_lack` of `FleetContact`.
A host that was never in contact is stale.

The wall clock jumps.  The clock since the boot does not, but begins anew with each boot.  So within one boot only the
latter counts.  Over a boot only the wall clock knows: a host then counts as at least as stale as either clock says, and
as never in contact where the wall clock is before what it was.  "Not known" is stale.  The newest signed moment is a
floor for the wall clock, kept over restarts, and the boot's clock moves it on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio

from hooklatch.fleet.manifests import SKEW, FleetError, PolicyHead
from hooklatch.fleet.roles import RoleKeys, Timestamp, format_moment, read_timestamp
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.service.config.state_file import StateFile
from hooklatch_worker.systems.disks import read_boot_id, read_boot_time

__all__ = [
    "ClockReading", "EngineContact", "FleetContact", "carry_contact", "compute_age",
    "compute_seconds_left", "compute_time", "read_clocks",
]  # fmt: skip


class ClockReading(msgspec.Struct, frozen=True):
    """A moment: seconds since the epoch, the boot (empty if unknown), and seconds since it, asleep or not.

    As a floor it says that it was `at` or later by a signed moment, when the clock of that boot was at `uptime`.
    """

    at: float
    boot: str
    uptime: float

    def advance(self, now: ClockReading) -> float:
        """Return the time that it must be by now, after this floor."""
        is_same = self.boot and self.boot == now.boot and self.uptime <= now.uptime
        return self.at + (now.uptime - self.uptime if is_same else 0.0)


class EngineContact(msgspec.Struct, frozen=True):
    """The newest timestamp that was true of this host: `at` is when it was issued, by both clocks.

    `since_boot` is in seconds of the boot `boot`, and below 0 where it was issued before that.  It is contact for
    `lasts` seconds at most.
    """

    at: float
    boot: str
    since_boot: float
    lasts: float
    is_carried: bool = False

    @classmethod
    def of(cls, stamp: Timestamp, now: ClockReading, floor: ClockReading | None) -> EngineContact:
        """Return the contact that a timestamp is at this moment."""
        elapsed = max(0.0, compute_time(now, floor) - stamp.at)
        return cls(stamp.at, now.boot, now.uptime - elapsed, stamp.lasts)


def compute_time(now: ClockReading, floor: ClockReading | None) -> float:
    """Return the time by the wall clock, which cannot be before the floor."""
    return now.at if floor is None else max(now.at, floor.advance(now))


def is_clock_behind(now: ClockReading, floor: ClockReading | None) -> bool:
    """Return whether the wall clock is before a moment that is past: then it says nothing of what was issued when."""
    return floor is not None and now.at < floor.advance(now) - SKEW


def compute_age(contact: EngineContact | None, now: ClockReading, floor: ClockReading | None = None) -> float | None:
    """Return the seconds since a contact; None if that cannot be known, or there was none."""
    if contact is None:
        return None
    by_wall = compute_time(now, floor) - contact.at
    if contact.boot and contact.boot == now.boot and contact.since_boot <= now.uptime:
        elapsed = now.uptime - contact.since_boot
        return max(elapsed, by_wall) if contact.is_carried else elapsed
    is_behind = is_clock_behind(now, floor) or now.at < contact.at - SKEW
    return None if is_behind else max(by_wall, 0.0)


def carry_contact(
    contact: EngineContact | None, now: ClockReading, floor: ClockReading | None = None
) -> EngineContact | None:
    """Return an earlier boot's contact in terms of this one, so that no later jump of the wall clock makes it newer."""
    elapsed = compute_age(contact, now, floor)
    if contact is None or elapsed is None:
        return None
    if contact.boot == now.boot and not contact.is_carried:
        return contact
    return EngineContact(contact.at, now.boot, now.uptime - elapsed, contact.lasts, is_carried=True)


def compute_seconds_left(
    contact: EngineContact | None, now: ClockReading, max_staleness: float, floor: ClockReading | None = None
) -> float:
    """Return for how many seconds a contact is not stale yet; 0 if it is, or has expired.  (5.4.4: freeze)"""
    elapsed = compute_age(contact, now, floor)
    if contact is None or elapsed is None:
        return 0.0
    return max(0.0, min(max_staleness, contact.lasts) - elapsed)


class KeptContact(msgspec.Struct, frozen=True):
    """The part of a fleet that the state file keeps.

    `seen` is the newest timestamp that was verified, and `contact` the one that was true of this host.  `has_answered`:
    the engine once had nothing after what this host had read, and what it wants of that was active.
    """

    fleet: str
    contact: EngineContact | None = None
    seen: Timestamp | None = None
    floor: ClockReading | None = None
    has_answered: bool = False


logger = logging.getLogger("hooklatch.fleet")
KEPT_EVERY = 60.0  # seconds, at most, by which the kept contact is older than the last one
LONGEST = 60.0  # seconds between two looks at the clock: trio's timers do not count the time that a machine sleeps
BOOT = read_boot_id() or ""


def read_clocks() -> ClockReading:
    """Return the present readings of all clocks."""
    return ClockReading(time.time(), BOOT, read_boot_time())


class FleetContact:
    """The last contact.  `commit` makes the hooks again by the present `denial`; they are active when it returns.

    `find_lack` returns why gates are denied for want of a policy, or None, and `find_end` when the fleet's key set
    expires: nothing is contact from then on.  `find_observing` returns the policies that are to observe only, and until
    when, and `find_active` those whose hooks do: a reload may make these again at any time.
    """

    def __init__(
        self,
        state: StateFile,
        note: Callable[[str, dict[str, Any]], None],
        commit: Callable[[], Awaitable[object]],
        find_lack: Callable[[], str | None],
        clock: Callable[[], ClockReading] = read_clocks,
        find_end: Callable[[], float] = lambda: math.inf,
        find_observing: Callable[[], Mapping[str, float]] = dict[str, float],
        find_active: Callable[[], Mapping[str, float]] = dict[str, float],
    ) -> None:
        self._state = state
        self._note = note
        self._commit = commit
        self._find_lack = find_lack
        self._clock = clock
        self._find_end = find_end
        self._find_observing = find_observing
        self._find_active = find_active
        self._observing: Mapping[str, float] = {}  # those that were noted last
        self._settings: FleetSettings | None = None
        self._now = KeptContact("")  # the present state, newer than the kept one
        self._fault: str | None = None  # what is wrong with what the engine showed last
        self._denial: str | None = None  # the one by which hooks were made last
        self._was_stale = False
        self._is_forgotten = False  # the contact was dropped, and the state file still has it
        self._changed = trio.Event()
        self._applying = trio.Lock()

    # -- the present state --------------------------------------------------------------------------------------------

    @property
    def age(self) -> float | None:
        """Return the seconds since the last contact; None if there was none, or if that is unknown."""
        return compute_age(self._now.contact, self._clock(), self._now.floor)

    @property
    def is_stale(self) -> bool:
        """Return whether the last contact is too long ago; without a fleet it never is."""
        return self._settings is not None and self._seconds_left(self._settings) <= 0

    @property
    def time(self) -> float | None:
        """Return the time that it is at least; None while no signed moment vouches for it."""
        floor = self._now.floor
        return compute_time(self._clock(), floor) if floor is not None else None

    @property
    def at(self) -> float | None:
        """Return when the timestamp of the last contact was issued, in seconds since the epoch."""
        return self._now.contact.at if self._now.contact is not None else None

    @property
    def newest(self) -> Timestamp | None:
        """Return the newest timestamp that was verified here, be it true of this host or not."""
        return self._now.seen

    @property
    def has_answered(self) -> bool:
        """Return whether this host has ever read all that the engine showed it, and had what it wants of that."""
        return self._now.has_answered

    @property
    def fault(self) -> str | None:
        """Return what is wrong with what the engine showed last, or with the keys that signed it."""
        return self.expired or self._fault

    @property
    def problem(self) -> str | None:
        """Return the problem of a stale host."""
        if self._settings is None or not self.is_stale:
            return None
        name, contact = self._settings.name, self._now.contact
        if contact is not None:
            text = f"this host was last in contact with its fleet {name!r} at {format_moment(contact.at)}"
        else:
            was_once = self._state.state.contact is not None and self._now.seen is not None
            since = "the time of the last contact is unknown" if was_once else "never was"
            text = f"this host is not in contact with its fleet {name!r}, and {since}"
        if not self.has_answered or self.fault is not None:
            return text
        return (
            f"{text}: its engine shows no newer timestamp, so nobody has signed that it has the newest version; push"
            " again, or run from a timer: hooklatch fleet timestamp"
        )

    @property
    def denial(self) -> str | None:
        """Return why every gate is denied now, and the remedy; None if they are not."""
        return self.stale_denial or self._find_lack()

    @property
    def stale_denial(self) -> str | None:
        """Return why a stale host denies every gate, and the remedy; None if it does not."""
        if self._settings is None or self._settings.when_stale != "deny" or (problem := self.problem) is None:
            return None
        why = f"{problem}; {fault}" if (fault := self.fault) is not None else problem
        return (
            f'{why}: longer than max_staleness, and [fleet] has when_stale = "deny"; make sure that'
            " `hooklatch link` runs and reaches the engine, and that the publisher signs timestamps in time"
        )

    def _seconds_left(self, settings: FleetSettings) -> float:
        now, floor = self._clock(), self._now.floor
        left = compute_seconds_left(self._now.contact, now, settings.max_staleness, floor)
        return max(0.0, min(left, self._find_end() - compute_time(now, floor)))

    @property
    def expired(self) -> str | None:
        """Return that the fleet's key set has expired, if it has.  (5.3.10: freeze)"""
        end = self._find_end()
        if compute_time(self._clock(), self._now.floor) < end:
            return None
        return (
            f"the fleet's key set has expired at {format_moment(end)}: what is active stays, and nothing new is taken;"
            " sign the next one: hooklatch fleet keys rotate"
        )

    # -- changes ------------------------------------------------------------------------------------------------------

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table.  A contact with another fleet does not count, and leaving a fleet drops its contact.

        Otherwise a host that comes back, and has no active policy any more, would count as up to date.
        """
        name = settings.name if settings is not None else ""
        if settings is None and self._settings is not None:
            self._state.state.contact, self._is_forgotten = None, True
        self._settings = settings
        if self._now.fleet != name:
            self.load()
        self._changed.set()

    def load(self) -> None:
        """Go on from what the state file has of this fleet."""
        name = self._settings.name if self._settings is not None else ""
        now, stored, self._fault = self._clock(), self._stored(), None
        self._now = stored if stored is not None and stored.fleet == name else KeptContact(name)
        self._move_floor(now)
        contact = carry_contact(self._now.contact, now, stored.floor if stored is not None else None)
        self._now = msgspec.structs.replace(self._now, contact=contact)

    async def record_answer(
        self, text: str | None, role: RoleKeys, *, head: PolicyHead, is_current: bool, is_end: bool
    ) -> None:
        """Take the timestamp that the engine shows, or None.

        `head` is what this host has read, `is_current` that what it wants of that is active, and `is_end` that the
        engine shows nothing after it, by a question that was asked after the one for the timestamp.
        """
        if self._settings is None:
            return
        before, refused = self._now, None
        try:
            if text is not None and self.expired is None:
                self._verify(text.encode("utf-8", "surrogatepass"), role)
        except (FleetError, NoLibraryError) as error:
            refused = str(error)
        seen, contact = self._now.seen, self._now.contact
        now, floor = self._clock(), self._now.floor
        if is_clock_behind(now, floor):
            when = format_moment(compute_time(now, floor))
            refused = f"this host's clock is at {format_moment(now.at)}, and it is {when} or later: set it"
        elif seen is not None and seen.head == head and is_current and (contact is None or contact.at != seen.at):
            contact = EngineContact.of(seen, now, floor)
        has_answered = self.has_answered or (is_end and is_current and head.version > 0)
        self._now = msgspec.structs.replace(self._now, contact=contact, has_answered=has_answered)
        if is_end or refused is not None:
            self._report_fault(refused or self._find_difference(head))
        if self._now.seen != before.seen:  # 5.4.5: what was read by this must not be forgotten
            self._state.state.contact = msgspec.to_builtins(self._now)
            with trio.CancelScope(shield=True):
                await self._state.store()
        self._changed.set()  # for `run`: the link may leave, which cancels this, before the denial ends
        await self.apply_denial()

    def look_again(self) -> None:
        """Have `run` look at the hooks that are active now."""
        self._changed.set()

    def forget_timestamp(self) -> None:
        """Forget what keys have signed that may not sign timestamps any more.  (5.3.11: fast-forward)"""
        self._now = msgspec.structs.replace(self._now, seen=None, floor=None)

    def _verify(self, data: bytes, role: RoleKeys) -> None:
        assert self._settings is not None
        now = self._clock()
        stamp = read_timestamp(data, self._settings.name, role, self._now.seen, compute_time(now, self._now.floor))
        if stamp != self._now.seen:
            self._now = msgspec.structs.replace(self._now, seen=stamp)
            self._move_floor(now)

    def _move_floor(self, now: ClockReading) -> None:
        """Bring the floor up to the newest signed moment, and to what the boot's clock says of it by now."""
        seen, floor = self._now.seen, self._now.floor
        moments = ([seen.at] if seen is not None else []) + ([floor.advance(now)] if floor is not None else [])
        if moments:
            self._now = msgspec.structs.replace(self._now, floor=ClockReading(max(moments), now.boot, now.uptime))

    def _find_difference(self, head: PolicyHead) -> str | None:
        """Return how the engine contradicts the newest timestamp, of a host that has read all that it shows."""
        seen = self._now.seen
        if seen is None or seen.version < head.version or seen.head == head:
            return None
        when = format_moment(seen.at)
        if seen.version > head.version:  # 5.5.4, 5.6.4: the timestamp names what is not shown
            return (
                f"the engine withholds versions: {seen.version} was the newest at {when}, as the publisher has signed,"
                f" and it shows none after {head.version}; find out who runs it, or restore a newer copy"
            )
        return (  # 5.5.2
            f"the engine shows another version {head.version} than the one that was the newest at {when}, as the"
            " publisher has signed: find out who wrote it"
        )

    def _report_fault(self, fault: str | None) -> None:
        if fault is not None and fault != self._fault:
            self._note("fleet", {"action": "refused", "problem": fault})
        self._fault = fault

    async def apply_denial(self) -> None:
        """Deny gates, or stop denying them, by the present `denial`, and enforce policies that observe no more."""
        async with self._applying:
            self._report_change()
            denial, observing = self.denial, self._find_observing()
            if (denial, observing) != (self._denial, self._find_active()):
                await self._commit()
                self._denial = denial
            self._note_observing(observing)

    def _note_observing(self, now: Mapping[str, float]) -> None:
        """Log and record which policies are enforced no more, and which are again."""
        before, self._observing = self._observing, now
        for policy in sorted(policy for policy in {*before, *now} if before.get(policy) != now.get(policy)):
            until = format_moment(now[policy]) if policy in now else None
            logger.warning("the policy %s %s", policy, f"only observes until {until}" if until else "is enforced again")
            self._note("fleet", {"action": "observing" if until else "enforced", "policy": policy, "until": until})

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
            # A stale host stays stale until something changes; one that has become so since the look above is not told.
            left = [self._seconds_left(settings)] if settings is not None and not self._was_stale else []
            left += [max(0.0, end - (self.time or end)) for end in self._observing.values()]
            with trio.move_on_after(min(*left, LONGEST) if left else math.inf):
                await self._changed.wait()

    def _stored(self) -> KeptContact | None:
        """Return the contact in the state file; one that cannot be read does not count, so that the host is stale."""
        try:
            return msgspec.convert(self._state.state.contact, KeptContact | None)
        except msgspec.ValidationError:
            return None

    async def _keep(self) -> None:
        if self._is_forgotten:
            self._is_forgotten = False
            await self._state.store()
        settings, stored = self._settings, self._stored()
        if settings is None or self._now == KeptContact(settings.name):
            return
        now = self._clock()
        self._move_floor(now)
        floor = stored.floor if stored is not None and stored.fleet == settings.name else None
        interval = min(KEPT_EVERY, settings.max_staleness / 10)
        is_same = stored == msgspec.structs.replace(self._now, floor=floor)
        # Not at each change of the clock: each store syncs the whole state file.
        if is_same and floor is not None and floor.boot == now.boot and now.uptime - floor.uptime < interval:
            return
        self._state.state.contact = msgspec.to_builtins(self._now)
        await self._state.store()
