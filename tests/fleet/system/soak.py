"""Faults of a fleet for as long as one likes: one battle after another, each with a seed of its own.

    make soak-fleet MINUTES=60        or        python tests/fleet/system/soak.py [minutes] [first seed]

Says how each battle went; writes the sum of them to bench/results/soak-fleet.json; keeps the folder of a battle that
shows a violation, and ends with 1 then.  Every other battle is over loopback where there can be namespaces, all where
there cannot.  Here, and only here, a time is demanded: after a fault, all hosts are equal within a second.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS))

from fleet.network.wires import kinds  # noqa: E402
from fleet.system.battle import Battle, fight  # noqa: E402  (this file is run as a program, from anywhere)
from fleet.system.nemesis import FAULTS, Nemesis  # noqa: E402

RESULTS = TESTS.parent / "bench" / "results" / "soak-fleet.json"
PROMISED = 1.0  # seconds


class Sum(msgspec.Struct):
    """What all battles came to."""

    battles: int = 0
    seconds: float = 0.0
    versions: int = 0
    declined: int = 0
    shipped: int = 0
    healing: dict[str, float] = {}
    gates: Counter[str] = msgspec.field(default_factory=Counter)
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: dict[str, str] = {}
    violations: list[str] = []

    def add(self, battle: Battle) -> None:
        self.battles += 1
        self.seconds = round(self.seconds + battle.seconds, 1)
        for name in ("versions", "declined", "shipped"):
            setattr(self, name, getattr(self, name) + getattr(battle, name))
        for kind, seconds in battle.healing.items():
            self.healing[kind] = max(self.healing.get(kind, 0.0), seconds)
        self.gates.update(battle.gates)
        self.faults.update(battle.faults)
        self.left_out |= battle.left_out
        self.violations += [f"seed {battle.seed}: {one.rule}: {one.text}" for one in battle.violations]
        late = {kind: seconds for kind, seconds in battle.healing.items() if seconds > PROMISED}
        self.violations += [f"seed {battle.seed}: healed: {seconds} s after {kind}" for kind, seconds in late.items()]


def soak(minutes: float, seed: int) -> Sum:
    total = Sum()
    possible = [kind for kind, reason in kinds().items() if not reason]
    kept = Path(tempfile.mkdtemp(prefix="hooklatch-soak-"))
    deadline = time.monotonic() + minutes * 60
    while time.monotonic() < deadline:
        battle = fight(possible[total.battles % len(possible)], seed, play, keep=kept / str(seed))
        total.add(battle)
        say(
            f"seed {seed}, {battle.wires}: {battle.seconds:.0f} s, {sum(battle.faults.values())} faults,"
            f" {battle.versions} versions, {sum(battle.gates.values())} gates, {battle.shipped} records, equal again"
            f" after {max(battle.healing.values()):.2f} s at most, {len(battle.violations)} violations"
        )
        for kind, seconds in battle.healing.items():
            if seconds > PROMISED:
                say(f"    {seconds} s after {kind} until all hosts were equal")
        for violation in battle.violations[:10]:
            say(f"    {violation.rule}: {violation.text}")
        if battle.violations:
            say(f"    its folder: {kept / str(seed)}")
        seed += 1
    if not any(kept.iterdir()):
        kept.rmdir()
    return total


def play(nemesis: Nemesis) -> None:
    nemesis.play(FAULTS * 2)


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
