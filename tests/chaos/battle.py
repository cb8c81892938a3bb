"""One battle: from an empty folder through chaos to calm, and what the checker says of it.

Knows all the parts; says in numbers what happened, so that a battle in which nothing did is not taken for a good one.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from chaos import history
from chaos.arena import Arena, wait_until
from chaos.checker import Violation, check
from chaos.faults import FIRES, Nemesis
from chaos.history import Answered, Line, Sent
from chaos.load import Shot, shoot
from chaos.recorded import faults_of, read_records, side_files
from support.survivors import waiting_for_an_order

__all__ = ["KINDS", "Battle", "fight"]

KINDS = ("trio", "sync", "shots")
PER_WORKER = 5  # descriptors that the daemon has of each: its socket, its pidfd, its two outputs, its progress


class Battle(msgspec.Struct, frozen=True):
    """What happened."""

    seed: int
    seconds: float
    fires: int
    answered: int
    by_policy: int
    refused_for: dict[str, int]
    faults: dict[str, int]
    records: int
    violations: list[Violation]


def fight(
    seed: int,
    play: Callable[[Nemesis], None],
    *,
    kinds: Sequence[str] = KINDS,
    longest_stop: float = 0.4,
    fires: int = FIRES,
    keep: Path | None = None,
) -> Battle:
    """Fight a battle with clients of these kinds; where it shows a violation, its folder is moved to `keep`."""
    began = time.monotonic()
    arena = Arena(seed)
    nemesis = Nemesis(arena, seed, longest_stop=longest_stop, fires=fires)
    is_good = False
    try:
        found = run(arena, nemesis, play, kinds)
        lines = list(history.read(sorted(arena.histories.glob("*.jsonl"))))
        folder = arena.state / "record"
        records = read_records(folder)
        found = [*nemesis.violations, *found, *check(lines, records), *faults_of(folder, lines)]
        if (torn := side_files(folder)) != nemesis.done["kill_daemon_and_tear"]:
            found.append(Violation("left", f"{torn} torn ends, {nemesis.done['kill_daemon_and_tear']} were made"))
        is_good = not found
        return summed_up(seed, time.monotonic() - began, lines, len(records), nemesis, found)
    finally:
        nemesis.close()
        arena.close(move_to=keep if not is_good else None)


def run(arena: Arena, nemesis: Nemesis, play: Callable[[Nemesis], None], kinds: Sequence[str]) -> list[Violation]:
    """Do it all, and say what was left behind."""
    nemesis.set_up()
    before = descriptors(arena)
    for kind in kinds:
        arena.add_client(kind)
    nemesis.breathe()
    play(nemesis)
    nemesis.calm()
    found = [Violation("recovery", text) for text in unwell(arena)]
    codes = arena.dismiss_clients()
    if any(codes):
        found.append(Violation("client", f"clients ended with {codes}: {arena.last_words()}"))
    if not wait_until(lambda: descriptors(arena) == before):
        found.append(Violation("left", f"descriptors of the daemon: {descriptors(arena)}, were {before}"))
    code, left, sockets = arena.terminate()
    if code or left or sockets:
        found.append(Violation("left", f"at the end: exit code {code}, processes {left}, sockets {sockets}"))
    return found + [Violation("left", text) for text in arena.leftovers()]


def descriptors(arena: Arena) -> int:
    """Count the daemon's descriptors but for those of its workers; 0 where it may not be looked at."""
    held = with_an_order(arena)
    while True:
        try:
            count = len(os.listdir(f"/proc/{arena.daemon.pid}/fd"))
        except PermissionError:
            return 0
        # A zygote forks its next worker after it has said that the last one is ready: what is counted must not move.
        before, held = held, with_an_order(arena)
        if held == before:
            return count - PER_WORKER * len(held)


def with_an_order(arena: Arena) -> set[int]:
    """Return the workers of which the daemon knows: all but the one that each zygote has forked ahead."""
    workers = set(arena.workers())
    return workers - {pid for zygote in arena.zygotes() for pid in waiting_for_an_order(zygote)}


def unwell(arena: Arena) -> Iterable[str]:
    """Return which of the simplest fires is not decided by policy, as it is where all is well."""
    path = str(arena.runtime / "agent.sock")
    for word, verdict in (("allow", "allow"), ("forbid", "deny"), ("shellbad", "deny"), ("projectbad", "deny")):
        op = f"probe-{word}"
        payload = {"tool_name": "Bash", "tool_input": {"command": f"{word} {op}"}}
        shot = Shot("pre_tool_use", payload, Sent(op, "", "pre_tool_use", True, 0))
        answer = shoot(path, shot, str(arena.project))
        if answer is None or (answer.verdict, answer.cause) != (verdict, "policy"):
            yield f"{word} was answered with {answer}"


def summed_up(
    seed: int, seconds: float, lines: list[Line], records: int, nemesis: Nemesis, found: list[Violation]
) -> Battle:
    answers = [line for line in lines if isinstance(line, Answered)]
    refused = Counter(one.cause or "" for one in answers if one.verdict in ("deny", "halt"))
    return Battle(
        seed=seed,
        seconds=round(seconds, 1),
        fires=sum(isinstance(line, Sent) for line in lines),
        answered=len(answers),
        by_policy=sum(not one.is_local and one.cause in (None, "policy") for one in answers),
        refused_for=dict(refused.most_common()),
        faults=dict(nemesis.done),
        records=records,
        violations=found,
    )
