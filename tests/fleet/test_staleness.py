"""How old a contact is, whatever the clocks do: never younger than the truth, as far as anybody can know it."""

from __future__ import annotations

import random

import msgspec
import pytest

from hooklatch.fleet.host.contact import (
    ClockReading,
    EngineContact,
    carry_contact,
    compute_age,
    compute_seconds_left,
)
from support.tables import table

HOUR = 3600.0
THEN = ClockReading(at=1_000_000.0, boot="b1", uptime=500.0)
CONTACT = EngineContact(THEN.at, THEN.boot, THEN.uptime, lasts=8 * 86400.0)


def later(seconds: float, *, wall: float | None = None, boot: str = "b1", uptime: float | None = None) -> ClockReading:
    """Return a moment so much later; `wall` is by how much the wall clock went on meanwhile."""
    return ClockReading(
        THEN.at + (seconds if wall is None else wall), boot, uptime if uptime is not None else THEN.uptime + seconds
    )


def test_who_was_never_in_contact_is_stale() -> None:
    assert compute_age(None, THEN) is None
    assert compute_seconds_left(None, THEN, HOUR) == 0
    assert carry_contact(None, THEN) is None


@table("wall", [-10 * HOUR, 0.0, 60.0, 1000 * HOUR])
def test_in_one_boot_no_jump_of_the_wall_clock_counts(wall: float) -> None:
    assert compute_age(CONTACT, later(90, wall=wall)) == 90
    assert compute_seconds_left(CONTACT, later(90, wall=wall), HOUR) == HOUR - 90


def test_a_machine_that_slept_has_aged() -> None:
    """The uptime is that of a clock which goes on meanwhile."""
    assert compute_seconds_left(CONTACT, later(3 * HOUR), 2 * HOUR) == 0


@table(
    ("wall", "expected"),
    [(HOUR, HOUR), (0.0, 0.0), (-30.0, 0.0), (-301.0, None), (-HOUR, None)],
)
def test_over_a_boot_the_wall_clock_counts_unless_it_stands_before_the_contact(
    wall: float, expected: float | None
) -> None:
    assert compute_age(CONTACT, later(0, wall=wall, boot="b2", uptime=10.0)) == expected


def test_what_was_carried_over_a_boot_is_made_newer_by_no_jump() -> None:
    started = later(0, wall=20 * HOUR, boot="b2", uptime=10.0)
    contact = carry_contact(CONTACT, started)
    assert contact is not None

    back = msgspec.structs.replace(started, at=started.at - 15 * HOUR, uptime=started.uptime + HOUR)
    forth = msgspec.structs.replace(started, at=started.at + 15 * HOUR, uptime=started.uptime + HOUR)

    assert compute_age(contact, started) == 20 * HOUR
    assert compute_age(contact, back) == 21 * HOUR
    assert compute_age(contact, forth) == 35 * HOUR


def test_a_clock_that_stood_before_the_contact_at_the_boot_carries_nothing() -> None:
    assert carry_contact(CONTACT, later(0, wall=-20 * HOUR, boot="b2", uptime=10.0)) is None


def test_a_contact_of_this_boot_is_carried_as_it_is() -> None:
    assert carry_contact(CONTACT, later(HOUR, wall=-HOUR)) == CONTACT


@table("boot", ["", "b1"])
def test_without_a_clock_that_can_be_compared_the_wall_clock_counts(boot: str) -> None:
    contact = msgspec.structs.replace(CONTACT, boot=boot)
    now = later(HOUR, boot=boot, uptime=1.0)  # no boot is known, or its clock begins anew in a container

    assert compute_age(contact, now) == HOUR


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_clocks_do_it_is_never_newer_than_the_clock_of_the_boot_says(seed: int) -> None:
    chance = random.Random(seed)
    contact: EngineContact | None = CONTACT
    wall, boot, uptime, floor = THEN.at, 1, THEN.uptime, 0.0
    for _ in range(200):
        passed = chance.expovariate(1 / 600)
        wall, uptime, floor = wall + passed, uptime + passed, floor + passed
        event = chance.random()
        if event < 0.1:
            wall += chance.uniform(-5 * HOUR, 5 * HOUR)
        elif event < 0.15:  # a restart of the daemon, and maybe a boot
            if chance.random() < 0.5:
                boot, uptime = boot + 1, chance.uniform(0, 60)
            contact = carry_contact(contact, ClockReading(wall, f"b{boot}", uptime))
            floor = 0.0 if contact is None else compute_age(contact, ClockReading(wall, f"b{boot}", uptime)) or 0.0
        elif event < 0.2:
            contact, floor = EngineContact(wall, f"b{boot}", uptime, lasts=8 * HOUR), 0.0
        found = compute_age(contact, ClockReading(wall, f"b{boot}", uptime))

        assert (found is None) is (contact is None)
        assert found is None or found >= floor - 1e-6
