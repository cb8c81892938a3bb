"""A fleet of three hosts and a real engine under faults, and an engine that lies: no promise is broken.

Slow: each fault lasts until gates were decided in spite of it, and a dozen processes are killed and started again.
`make soak-fleet` does the same for as long as one likes.  The seed is HOOKLATCH_FLEET_SEED, or always the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet.network.wires import kinds
from fleet.system.battle import fight
from fleet.system.nemesis import Nemesis
from support.daemons import nothing_left
from support.redis_server import needs_redis
from support.survivors import nobody_survives

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    needs_redis,
]
SEED = int(os.environ.get("HOOKLATCH_FLEET_SEED", "20261122"))
MISSING = kinds()
# Two publishers at once, a cut, a daemon and a link killed behind one, a disk that fills up, which ends the engine too.
DECK = ["race", "cut_silent", "restart_alone", "fill_disk"]


def wires() -> str:
    """Return the best wires that can be had here; `HOOKLATCH_FLEET_WIRES` may name others."""
    return os.environ.get("HOOKLATCH_FLEET_WIRES") or ("loopback" if MISSING["namespaces"] else "namespaces")


def test_hosts_are_network_namespaces_here() -> None:
    if reason := MISSING["namespaces"]:
        pytest.skip(f"{reason}; the faults of a fleet are played over a relay on loopback instead")


def test_no_fault_of_a_fleet_breaks_a_promise(tmp_path: Path) -> None:
    def play(nemesis: Nemesis) -> None:
        nemesis.play(DECK)

    with nobody_survives(), nothing_left():
        battle = fight(wires(), SEED, play, keep=tmp_path / "battle")

    assert battle.violations == [], f"seed {SEED}, what is left of it is in {tmp_path}"
    assert set(battle.faults) | set(battle.left_out) == set(DECK)
    assert battle.declined > 0, battle
    assert battle.gates["pass"] > 100, battle
    assert battle.gates["policy"] > 30, battle
    assert battle.shipped > sum(count for cause, count in battle.gates.items() if cause != "no_daemon"), battle
