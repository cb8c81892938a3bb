"""The age of a host's last contact with its fleet.  Pure: knows moments as values; reads no clock.

The wall clock jumps.  The clock since the boot does not, but begins anew with each boot.  So within one boot only the
latter counts.  Over a boot only the wall clock knows: a host then counts as at least as stale as either clock says, and
as never in contact where the wall clock is before the contact.  "Not known" is stale.
"""

from __future__ import annotations

import msgspec

__all__ = ["EngineContact", "ClockReading", "compute_age", "carry_contact", "compute_seconds_left"]

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
