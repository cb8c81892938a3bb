"""fleet reset, and what status and doctor say of a fleet, at the command line.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.commands import CONFIG, GUARDS, Place, new_place, serving
from support.fleets import fleet_table

pytestmark = pytest.mark.slow
FLEET = fleet_table(more='labels = ["ci"]\nwhen_stale = "deny"')


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place({"hooks.toml": f"{CONFIG}\n{FLEET}", "guards.py": GUARDS}) as place, serving(place):
        yield place


def test_it_is_recorded_with_its_reason_and_says_what_is_in_force(place: Place) -> None:
    done = place.run("fleet", "reset", "--reason", "a new engine")
    as_json = place.json("fleet", "reset", "--reason", "a new engine")
    records = map(json.loads, place.run("log", "--kind", "fleet", "--json").stdout.splitlines())

    assert done.returncode == 0
    assert done.stdout == (
        "this host follows from version 1 again; no version is active until the link brings the one that is wanted\n"
    )
    assert (as_json["head"], as_json["applied"]) == ({"version": 0, "digest": ""}, None)
    assert [one["reason"] for one in records if one["action"] == "reset"] == ["a new engine"] * 2


def test_without_a_reason_or_a_fleet_nothing_happens(place: Place) -> None:
    empty = place.run("fleet", "reset", "--reason", " ")
    with new_place({"hooks.toml": CONFIG, "guards.py": GUARDS}) as other:
        away = other.run("fleet", "reset", "--reason", "x")
        with serving(other):
            without = other.run("fleet", "reset", "--reason", "x")
            status = other.run("status")

    assert empty.returncode != 0
    assert "give a" in empty.stderr
    assert away.returncode == 69
    assert without.returncode == 77
    assert "this host is in no fleet" in without.stderr
    assert "fleet" not in status.stdout


def test_status_and_doctor_say_that_it_is_stale_and_what_to_do(place: Place) -> None:
    status, doctor, health = place.run("status", "-v"), place.run("doctor"), place.run("health")
    denied = place.fire_tool("Read", file_path="/a")

    (line,) = (line for line in status.stdout.splitlines() if line.startswith("fleet "))
    assert line.split(maxsplit=1)[1] == (
        "acme, host h1 (ci); no version active, read up to 0; never in contact, STALE: every gate is denied,"
        " no link is connected"
    )
    assert "shipped     nothing, as far as it is known, " in status.stdout
    assert "make sure that `hooklatch link` runs" in status.stdout
    assert "wrong  this host is not in contact with its fleet 'acme', and never was" in doctor.stdout
    assert "do     start it: hooklatch link" in doctor.stdout
    assert health.stdout == "red: fleet (see: hooklatch status)\n"
    assert denied.returncode == 4
