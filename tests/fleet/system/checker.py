"""Judges the history of a fleet.

    signed    a host applied, or had in force, only versions that a trusted publisher committed, each with its bundle
    order     what a host applied, read and had in force never went back, over restarts too
    torn      the guards of one answer are all of one version
    older     a gate that was fired after a version was seen in force was not decided by an older one
    early     no guard answered before its publisher began
    gate      every gate was answered; none was passed that the policy denies, or without all of the policy's guards
    record    each answer of a daemon is in that host's record, with the same verdict
    sink      every record of a host is in the sink exactly once, unchanged, and nothing else is there
    healed    after the faults every host had the digest that it should have

Pure: goes through each list a fixed number of times; every question about time is a bisection.  Knows no process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from fleet.system.history import Answered, Applied, Committed, Healed, Kept, Line, Seen, Sent, Shipped

__all__ = ["GUARDS", "Violation", "check"]

GUARDS = 2  # in every version's bundle, in two files, so that half of a bundle would show
ALLOWING = ("pass", "allow", "ask", "claim")


class Violation(msgspec.Struct, frozen=True):
    """A promise that was not kept: which, and what shows it."""

    rule: str
    text: str


class Policy:
    """The versions that were committed, in order, and which of them a guard's number may stand for."""

    def __init__(self, versions: Iterable[Committed]) -> None:
        self.versions = {one.version: one for one in versions}
        self._of_number: dict[int, list[Committed]] = defaultdict(list)
        for _, one in sorted(self.versions.items()):
            self._of_number[one.number].append(one)

    def has(self, version: int, bundle: str) -> bool:
        return version in self.versions and self.versions[version].bundle == bundle

    def newest_of(self, number: int, before: int) -> int | None:
        """Return the newest version with this number whose publisher had begun by then; 0 if all came later."""
        if number not in self._of_number:
            return None
        begun = [one.version for one in self._of_number[number] if one.since <= before]
        return begun[-1] if begun else 0


def check(lines: Sequence[Line]) -> list[Violation]:
    """Return every violation; an empty list is a good history."""
    policy = Policy(line for line in lines if isinstance(line, Committed))
    hosts = sorted({line.host for line in lines if isinstance(line, Seen | Applied | Sent | Kept | Shipped)})
    found: list[Violation] = []
    for host in hosts:
        own = [line for line in lines if getattr(line, "host", None) == host]
        seen = sorted((line for line in own if isinstance(line, Seen)), key=lambda one: one.at)
        found += signed(host, own, policy)
        found += order(host, own, seen)
        found += gates(host, own, seen, policy)
        found += record(host, own)
        found += sink(host, own)
    return [*found, *healed(line for line in lines if isinstance(line, Healed))]


def signed(host: str, own: Sequence[Line], policy: Policy) -> Iterator[Violation]:
    for line in own:
        if isinstance(line, Seen | Applied) and line.version and not policy.has(line.version, line.bundle):
            what = "had in force" if isinstance(line, Seen) else f"applied, by its record {line.seq},"
            yield Violation("signed", f"{host} {what} version {line.version} as {line.bundle[:12]}: never committed")


def order(host: str, own: Sequence[Line], seen: Sequence[Seen]) -> Iterator[Violation]:
    applied = sorted((line for line in own if isinstance(line, Applied)), key=lambda one: one.seq)
    for before, after in pairwise(applied):
        if after.version < before.version:
            yield Violation("order", f"{host} applied version {after.version} after version {before.version}")
    for earlier, later in pairwise(seen):
        # Two questions that overlap may be answered in either order.
        if later.since >= earlier.at and (later.version < earlier.version or later.head < earlier.head):
            was, became = f"{earlier.version} of {earlier.head}", f"{later.version} of {later.head}"
            yield Violation("order", f"{host} had version {was} in force, and later version {became}")


def gates(host: str, own: Sequence[Line], seen: Sequence[Seen], policy: Policy) -> Iterator[Violation]:
    answers = {line.op: line for line in own if isinstance(line, Answered)}
    times = [one.at for one in seen]
    in_force = [one.version for one in seen]
    for sent in (line for line in own if isinstance(line, Sent)):
        answer = answers.get(sent.op)
        if answer is None:
            yield Violation("gate", f"{sent.op} of {host} was never answered")
            continue
        yield from passed(sent, answer)
        if len(set(answer.numbers)) > 1:
            yield Violation("torn", f"{sent.op} of {host} was answered by guards of {sorted(set(answer.numbers))}")
        place = bisect_left(times, sent.at)
        least = max(in_force[max(0, place - 1) : place], default=0)
        for number in set(answer.numbers):
            version = policy.newest_of(number, answer.at)
            if version is None:
                yield Violation("signed", f"{sent.op} of {host} was answered by guard {number}: never committed")
            elif not version:
                yield Violation("early", f"{sent.op} of {host} was answered by guard {number} before it was pushed")
            elif version < least:
                yield Violation("older", f"{sent.op} of {host} was decided by version {version} after {least}")


def passed(sent: Sent, answer: Answered) -> Iterator[Violation]:
    if answer.verdict not in ALLOWING:
        return
    if sent.is_forbidden:
        yield Violation("gate", f"{sent.op} of {sent.host} was passed, though every version denies it")
    elif answer.is_local or len(answer.numbers) != GUARDS:
        yield Violation("gate", f"{sent.op} of {sent.host} was passed by the guards {answer.numbers} alone")


def record(host: str, own: Sequence[Line]) -> Iterator[Violation]:
    kept = {line.decision_id: line for line in own if isinstance(line, Kept) and line.decision_id}
    for answer in (line for line in own if isinstance(line, Answered) and not line.is_local):
        line = kept.get(answer.decision_id)
        if line is None or line.verdict != answer.verdict:
            said = line.verdict if line is not None else "nothing"
            yield Violation("record", f"{answer.op} of {host}: told {answer.verdict}, recorded {said}")


def sink(host: str, own: Sequence[Line]) -> Iterator[Violation]:
    kept = {line.seq: line.hash for line in own if isinstance(line, Kept)}
    shipped = [(line.seq, line.hash) for line in own if isinstance(line, Shipped)]
    arrived = dict(shipped)
    if missing := sorted(set(kept) - set(arrived)):
        yield Violation("sink", f"{len(missing)} records of {host} are not in the sink, from {missing[0]} on")
    for seq, count in sorted(Counter(seq for seq, _ in shipped).items()):
        if count > 1:
            yield Violation("sink", f"record {seq} of {host} is in the sink {count} times")
    for seq, digest in sorted(arrived.items()):
        if kept.get(seq) != digest:
            yield Violation("sink", f"record {seq} of {host} is in the sink, and not, or another, in its own file")


def healed(lines: Iterable[Healed]) -> Iterator[Violation]:
    for line in lines:
        if wrong := sorted(host for host, digest in line.digests.items() if digest != line.wanted):
            yield Violation("healed", f"{', '.join(wrong)} had not the digest {line.wanted[:12]} after the faults")
