"""One battle: from an empty folder through faults to a calm fleet, and what the checker says of it.

Says in numbers what happened, so that a battle in which nothing did is not taken for a good one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from fleet.system.arena import Arena
from fleet.system.checker import Violation, check
from fleet.system.history import Answered, Committed, Declined, Line, Shipped
from fleet.system.nemesis import Nemesis

__all__ = ["Battle", "fight"]


class Battle(msgspec.Struct, frozen=True):
    """What happened; `healing`: the most seconds from the end of each kind of fault until all hosts were equal."""

    seed: int
    wires: str
    seconds: float
    gates: dict[str, int]
    versions: int
    declined: int
    shipped: int
    faults: dict[str, int]
    left_out: dict[str, str]
    healing: dict[str, float]
    violations: list[Violation]


def fight(kind: str, seed: int, play: Callable[[Nemesis], None], *, keep: Path | None = None) -> Battle:
    """Fight a battle over these wires; where it shows a violation, its folder is copied to `keep`."""
    began = time.monotonic()
    arena = Arena(kind)
    nemesis = Nemesis(arena, seed)
    is_good = False
    try:
        arena.set_up()
        play(nemesis)
        found = [Violation("end", text) for text in arena.settle()]
        found += [Violation("left", text) for text in arena.leftovers()]
        lines = arena.history()
        found += check(lines)
        is_good = not found
        return summed_up(time.monotonic() - began, lines, kind, seed, nemesis, arena, found)
    finally:
        arena.close(move_to=keep if not is_good else None)


def summed_up(
    seconds: float, lines: list[Line], kind: str, seed: int, nemesis: Nemesis, arena: Arena, found: list[Violation]
) -> Battle:
    told = [line for line in lines if isinstance(line, Answered)]
    return Battle(
        seed=seed,
        wires=kind,
        seconds=seconds,
        gates=dict(Counter(line.cause or line.verdict for line in told)),
        versions=sum(isinstance(line, Committed) for line in lines),
        declined=sum(isinstance(line, Declined) for line in lines),
        shipped=sum(isinstance(line, Shipped) for line in lines),
        faults=dict(nemesis.done),
        left_out=nemesis.left_out,
        healing={kind: round(longest, 3) for kind, longest in nemesis.healing.items()},
        violations=found,
    )
