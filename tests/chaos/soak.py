"""Chaos for as long as one likes: one battle after another, each with a seed of its own, until the time is over.

    make soak MINUTES=60        or        python tests/chaos/soak.py [minutes] [first seed]

Says how each battle went; writes the sum of them to bench/results/soak.json; keeps the folder of a battle that shows a
violation, and ends with 1 then.  Every battle can be had again by its seed, though not the same moments.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import msgspec

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from chaos.battle import Battle, fight  # noqa: E402  (this file is run as a program, from anywhere)
from chaos.faults import FAULTS, Nemesis  # noqa: E402
from support import soaking  # noqa: E402

RESULTS = TESTS.parent / "bench" / "results" / "soak.json"
CLIENTS = ("trio", "trio", "sync", "shots")
DECKS = 2  # in one battle
FIRES = 50  # that are decided between two faults
LONGEST_STOPS = (0.4, 0.4, 8.0)  # seconds; after 5 s of silence clients take the daemon for lost


class Sum(soaking.Sum):
    """What all battles came to."""

    fires: int = 0
    answered: int = 0
    by_policy: int = 0
    records: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    refused_for: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, battle: Battle) -> None:
        for name in ("fires", "answered", "by_policy", "records"):
            setattr(self, name, getattr(self, name) + getattr(battle, name))
        self.faults.update(battle.faults)
        self.refused_for.update(battle.refused_for)


def play(nemesis: Nemesis) -> None:
    for _ in range(DECKS):
        nemesis.play(FAULTS)


def fight_one(number: int, seed: int, folder: Path) -> Battle:
    longest_stop = LONGEST_STOPS[number % len(LONGEST_STOPS)]
    return fight(seed, play, kinds=CLIENTS, longest_stop=longest_stop, fires=FIRES, keep=folder)


def lines_of(battle: Battle) -> list[str]:
    return [
        f"seed {battle.seed}: {battle.seconds:.0f} s, {sum(battle.faults.values())} faults, {battle.fires} fires, "
        f"{battle.by_policy} by policy, refused for {battle.refused_for}, {len(battle.violations)} violations"
    ]


if __name__ == "__main__":
    total = Sum()
    sys.exit(soaking.main(total, RESULTS, fight_one, total.add, lines_of))
