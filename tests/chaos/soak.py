"""Chaos for as long as one likes: one battle after another, each with a seed of its own, until the time is over.

    make soak MINUTES=60        or        python tests/chaos/soak.py [minutes] [first seed]

Says how each battle went; writes the sum of them to bench/results/soak.json; keeps the folder of a battle that shows a
violation, and ends with 1 then.  Every battle can be had again by its seed, though not the same moments.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from chaos.battle import Battle, fight  # noqa: E402  (this file is run as a program, from anywhere)
from chaos.faults import FAULTS, Nemesis  # noqa: E402

RESULTS = TESTS.parent / "bench" / "results" / "soak.json"
CLIENTS = ("trio", "trio", "sync", "shots")
DECKS = 2  # in one battle
FIRES = 50  # that are decided between two faults
LONGEST_STOPS = (0.4, 0.4, 8.0)  # seconds; after 5 s of silence clients take the daemon for lost


class Sum(msgspec.Struct):
    """What all battles came to."""

    battles: int = 0
    seconds: float = 0.0
    fires: int = 0
    answered: int = 0
    by_policy: int = 0
    records: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    refused_for: Counter[str] = msgspec.field(default_factory=Counter)
    violations: list[str] = []

    def add(self, battle: Battle) -> None:
        self.battles += 1
        self.seconds = round(self.seconds + battle.seconds, 1)
        for name in ("fires", "answered", "by_policy", "records"):
            setattr(self, name, getattr(self, name) + getattr(battle, name))
        self.faults.update(battle.faults)
        self.refused_for.update(battle.refused_for)
        self.violations += [f"seed {battle.seed}: {one.rule}: {one.text}" for one in battle.violations]


def play(nemesis: Nemesis) -> None:
    for _ in range(DECKS):
        nemesis.play(FAULTS)


def soak(minutes: float, seed: int) -> Sum:
    total = Sum()
    kept = Path(tempfile.mkdtemp(prefix="hooklatch-soak-"))
    deadline = time.monotonic() + minutes * 60
    while time.monotonic() < deadline:
        longest_stop = LONGEST_STOPS[total.battles % len(LONGEST_STOPS)]
        battle = fight(seed, play, kinds=CLIENTS, longest_stop=longest_stop, fires=FIRES, keep=kept / str(seed))
        total.add(battle)
        say(
            f"seed {seed}: {battle.seconds:.0f} s, {sum(battle.faults.values())} faults, {battle.fires} fires, "
            f"{battle.by_policy} by policy, refused for {battle.refused_for}, {len(battle.violations)} violations"
        )
        for violation in battle.violations[:10]:
            say(f"    {violation.rule}: {violation.text}")
        if battle.violations:
            say(f"    its folder: {kept / str(seed)}")
        seed += 1
    if not any(kept.iterdir()):
        kept.rmdir()
    return total


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    words = sys.argv[1:]
    minutes = float(words[0]) if words else 10.0
    total = soak(minutes, int(words[1]) if len(words) > 1 else int(time.time()))
    say(msgspec.json.format(msgspec.json.encode(total), indent=2).decode())
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(total), indent=2))
    return 1 if total.violations else 0


if __name__ == "__main__":
    sys.exit(main())
