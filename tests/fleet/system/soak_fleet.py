"""Faults of a fleet for as long as one likes: one battle after another, each with a seed of its own.

    make soak-fleet MINUTES=60        or        python tests/fleet/system/soak_fleet.py [minutes] [first seed]

Says how each battle went; writes the sum of them to bench/results/soak-fleet.json; keeps the folder of a battle that
shows a violation, and ends with 1 then.  Every other battle is over loopback where there can be namespaces, all where
there cannot.  Here, and only here, a time is demanded: after a fault, all hosts are equal within a second.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import msgspec

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS))

from fleet.network.wires import kinds  # noqa: E402
from fleet.system.battle import Battle, fight  # noqa: E402  (this file is run as a program, from anywhere)
from fleet.system.nemesis import FAULTS, Nemesis  # noqa: E402
from support import soaking  # noqa: E402

RESULTS = TESTS.parent / "bench" / "results" / "soak-fleet.json"
PROMISED = 1.0  # seconds


class Sum(soaking.Sum):
    """What all battles came to."""

    versions: int = 0
    declined: int = 0
    shipped: int = 0
    healing: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    gates: Counter[str] = msgspec.field(default_factory=Counter)
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def add(self, battle: Battle) -> None:
        for name in ("versions", "declined", "shipped"):
            setattr(self, name, getattr(self, name) + getattr(battle, name))
        for kind, seconds in battle.healing.items():
            self.healing[kind] = max(self.healing.get(kind, 0.0), seconds)
        self.gates.update(battle.gates)
        self.faults.update(battle.faults)
        self.left_out |= battle.left_out
        self.violations += [f"seed {battle.seed}: healed: {seconds} s after {kind}" for kind, seconds in late(battle)]


def late(battle: Battle) -> list[tuple[str, float]]:
    return [(kind, seconds) for kind, seconds in battle.healing.items() if seconds > PROMISED]


def play(nemesis: Nemesis) -> None:
    nemesis.play(FAULTS * 2)


def fight_one(number: int, seed: int, folder: Path) -> Battle:
    possible = [kind for kind, reason in kinds().items() if not reason]
    return fight(possible[number % len(possible)], seed, play, keep=folder)


def lines_of(battle: Battle) -> list[str]:
    return [
        f"seed {battle.seed}, {battle.wires}: {battle.seconds:.0f} s, {sum(battle.faults.values())} faults,"
        f" {battle.versions} versions, {sum(battle.gates.values())} gates, {battle.shipped} records, equal again"
        f" after {max(battle.healing.values()):.2f} s at most, {len(battle.violations)} violations",
        *(f"    {seconds} s after {kind} until all hosts were equal" for kind, seconds in late(battle)),
    ]


if __name__ == "__main__":
    total = Sum()
    sys.exit(soaking.main(total, RESULTS, fight_one, total.add, lines_of))
