"""One battle after another, each with a seed of its own, until the time is over.  Knows no battle.

A program of a soak calls `main`: `[minutes] [first seed]` are its words, and it ends with 1 if any battle showed a
violation.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

__all__ = ["Sum", "main"]


class Violation(Protocol):
    """What a battle has shown."""

    @property
    def rule(self) -> str: ...

    @property
    def text(self) -> str: ...


class Battle(Protocol):
    """What a soak looks at in any battle."""

    @property
    def seed(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def violations(self) -> Sequence[Violation]: ...


B = TypeVar("B", bound=Battle)


class Sum(msgspec.Struct):
    """What all battles came to."""

    battles: int = 0
    seconds: float = 0.0
    violations: list[str] = []

    def count(self, battle: Battle) -> None:
        """Add what any battle has."""
        self.battles += 1
        self.seconds = round(self.seconds + battle.seconds, 1)
        self.violations += [f"seed {battle.seed}: {one.rule}: {one.text}" for one in battle.violations]


def main(
    total: Sum,
    results: Path,
    fight: Callable[[int, int, Path], B],
    add: Callable[[B], None],
    lines_of: Callable[[B], Iterable[str]],
) -> int:
    """Fight until the time is over, and return the exit code; `fight` gets the battle's number, seed and folder."""
    words = sys.argv[1:]
    minutes = float(words[0]) if words else 10.0
    seed = int(words[1]) if len(words) > 1 else int(time.time())
    kept = Path(tempfile.mkdtemp(prefix="hooklatch-soak-"))
    deadline = time.monotonic() + minutes * 60
    while time.monotonic() < deadline:
        battle = fight(total.battles, seed, kept / str(seed))
        total.count(battle)
        add(battle)
        for line in lines_of(battle):
            say(line)
        for violation in battle.violations[:10]:
            say(f"    {violation.rule}: {violation.text}")
        if battle.violations:
            say(f"    its folder: {kept / str(seed)}")
        seed += 1
    if not any(kept.iterdir()):
        kept.rmdir()
    told = msgspec.json.format(msgspec.json.encode(total), indent=2)
    say(told.decode())
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_bytes(told)
    return 1 if total.violations else 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
