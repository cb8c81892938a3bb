"""Judges a history: what clients were told, what the nemesis changed and when, what stands in the decision record.

    policy     nothing was allowed without the answers of all who had to be asked, and nothing that had to be refused
    revision   what a viewer is told never goes back, over reconnects and restarts too
    older      no fire that began after a change was acknowledged used what was in force before it
    record     each answered gate has one record, which says the same; the heads in replies are those of the chain
    chain      each record names the one before it

Pure: sorts, and goes through each list once; every question about time is a bisection.  Knows no process and no file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec

from chaos.history import Acked, Answered, Barred, Change, Fault, Heard, Line, Lost, Outcome, Sent

__all__ = ["GENESIS", "Recorded", "Violation", "check"]

GENESIS = "0" * 64
DECIDED = ("decision", "abandoned")  # kinds of records that stand for a fire
ALLOWING = ("pass", "allow", "ask", "claim")
NEVER = 2**63
OUT, IN = 0, 1  # values of a change of a hook that is there or not; versions are higher numbers
SWITCHED_EVENT = "pre_tool_use"  # the one whose hooks are put in and taken out


class Recorded(msgspec.Struct, frozen=True):
    """One record: its links, and of a decision what was decided."""

    seq: int
    prev: str
    hash: str
    kind: str = "decision"
    op: str = ""
    decision_id: str = ""
    verdict: str | None = None
    cause: str | None = None
    digest: str | None = None
    outcomes: list[Outcome] = []
    skipped: tuple[int, int] | None = None  # of a segment after a crash: numbers that were never used


class Violation(msgspec.Struct, frozen=True):
    """A promise that was not kept: which, and what shows it."""

    rule: str
    text: str


class Fire(msgspec.Struct, frozen=True):
    """A fire from its beginning to its answer; one without an answer may have been decided at any time since."""

    sent: Sent
    answer: Answered | None

    @property
    def start(self) -> int:
        return self.sent.at

    @property
    def end(self) -> int:
        return self.answer.at if self.answer is not None else NEVER

    @property
    def is_answered(self) -> bool:
        return self.answer is not None and not self.answer.is_local


class Made(msgspec.Struct, frozen=True):
    """A change from its beginning to its end; `is_acked` is false where nobody knows whether it was made."""

    change: Change
    end: int
    is_acked: bool
    revision: int | None


class History:
    """The lines by their kind, fires and changes put together from their two ends and in the order of their starts."""

    def __init__(self, lines: Iterable[Line]) -> None:
        sent: list[Sent] = []
        answers: dict[str, Answered] = {}
        changes: list[Change] = []
        ends: dict[str, Acked | Lost] = {}
        self.heard: list[Heard] = []
        self.barred: list[Barred] = []
        for line in lines:
            match line:
                case Sent():
                    sent.append(line)
                case Answered():
                    answers[line.op] = line
                case Heard():
                    self.heard.append(line)
                case Change():
                    changes.append(line)
                case Acked() | Lost():
                    ends[line.change] = line
                case Barred():
                    self.barred.append(line)
                case Fault():
                    continue
        self.fires = sorted((Fire(one, answers.get(one.op)) for one in sent), key=attrgetter("start"))
        self.made = sorted((joined(one, ends.get(one.change)) for one in changes), key=lambda one: one.change.at)


def joined(change: Change, end: Acked | Lost | None) -> Made:
    if isinstance(end, Acked):
        return Made(change, end.at, True, end.revision)
    return Made(change, end.at if end is not None else NEVER, False, None)


def check(lines: Iterable[Line], records: Sequence[Recorded] | None) -> list[Violation]:
    """Return every violation; without `records` the rules about the record are left out."""
    history = History(lines)
    fires, made = history.fires, history.made
    found = [
        *refusals_that_were_allowed(fires),
        *revisions_that_went_back(fires, history.heard),
        *older_versions(fires, made),
        *older_revisions(fires, made),
        *hooks_that_should_not_be_there(fires, made),
        *allowed_while_barred(fires, history.barred),
    ]
    if records is not None:
        found += [*broken_links(records), *answers_without_their_record(fires, records)]
    return found


def is_allowed(fire: Fire) -> bool:
    return fire.answer is not None and fire.sent.is_gate and fire.answer.verdict in ALLOWING


# -- policy ------------------------------------------------------------------------------------------------------


def refusals_that_were_allowed(fires: Iterable[Fire]) -> Iterator[Violation]:
    for fire in filter(is_allowed, fires):
        assert fire.answer is not None
        if fire.sent.is_forbidden:
            yield Violation("policy", f"{fire.sent.op} had to be refused: {said(fire.answer)}")
        elif fire.answer.is_local:
            yield Violation("policy", f"{fire.sent.op} was allowed by the client itself: {said(fire.answer)}")
        elif fire.answer.cause not in (None, "policy"):
            yield Violation("policy", f"{fire.sent.op} was allowed for want of an answer: {said(fire.answer)}")
        elif missing := unanswered(fire.sent.required, fire.answer.outcomes):
            yield Violation("policy", f"{fire.sent.op} was allowed without {missing}: {said(fire.answer)}")


def unanswered(required: Iterable[str], outcomes: Iterable[Outcome]) -> list[str]:
    """Name the required hooks that did not answer, or failed at one of several askings."""
    outcomes = list(outcomes)
    answered = {one.hook for one in outcomes if one.outcome == "answered" and one.cause == "policy"}
    failed = {one.hook for one in outcomes if one.outcome != "answered"}
    return [hook for hook in required if hook not in answered or hook in failed]


def said(answer: Answered) -> str:
    return f"{answer.verdict}, cause {answer.cause}, decision {answer.decision_id}, revision {answer.revision}"


# -- revision ----------------------------------------------------------------------------------------------------


def revisions_that_went_back(fires: Iterable[Fire], heard: Iterable[Heard]) -> Iterator[Violation]:
    """A viewer that was told of a revision is never answered from an older one by a fire that it begins later."""
    told: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for fire in fires:
        if fire.answer is not None and fire.answer.revision is not None:
            told[fire.sent.viewer].append((fire.end, fire.answer.revision))
    last: dict[str, Heard] = {}
    for one in heard:  # in the order in which each viewer wrote them down
        before = last.get(one.viewer)
        if before is not None and one.revision < before.revision:
            yield Violation("revision", f"{one.viewer!r} heard of {one.revision} after {before.revision}")
        last[one.viewer] = one
        told[one.viewer].append((one.at, one.revision))
    highest = {viewer: Highest(entries) for viewer, entries in told.items()}
    for fire in fires:
        if fire.answer is not None and fire.answer.revision is not None:
            known = highest[fire.sent.viewer].before(fire.start)
            if fire.answer.revision < known:
                yield Violation(
                    "revision",
                    f"{fire.sent.op} of {fire.sent.viewer!r} was answered from {fire.answer.revision} after {known}",
                )


class Highest:
    """The highest of the values that were known before a moment."""

    def __init__(self, entries: Iterable[tuple[int, int]]) -> None:
        self._moments: list[int] = []
        self._values: list[int] = []
        highest = -1
        for moment, value in sorted(entries):
            highest = max(highest, value)
            self._moments.append(moment)
            self._values.append(highest)

    def before(self, moment: int) -> int:
        index = bisect_left(self._moments, moment)
        return self._values[index - 1] if index else -1


# -- older -------------------------------------------------------------------------------------------------------


def older_versions(fires: Iterable[Fire], made: Iterable[Made]) -> Iterator[Violation]:
    """A guard answers from the newest version that was acknowledged before the fire, or from one written since."""
    by_subject: dict[str, list[Made]] = defaultdict(list)
    for one in made:
        by_subject[one.change.subject].append(one)
    acked = {
        name: Highest((one.end, one.change.value) for one in some if one.is_acked) for name, some in by_subject.items()
    }
    begun = {name: Highest((one.change.at, one.change.value) for one in some) for name, some in by_subject.items()}
    for fire in fires:
        if not fire.is_answered:
            continue
        assert fire.answer is not None
        for subject, version in fire.answer.versions.items():
            if subject not in acked:
                continue
            least, most = acked[subject].before(fire.start), begun[subject].before(fire.end)
            if version < least:
                yield Violation("older", f"{fire.sent.op}: {subject} {version} answered, {least} was in force")
            if version > most:
                yield Violation("older", f"{fire.sent.op}: {subject} {version} answered, and nobody had made it")


def older_revisions(fires: Iterable[Fire], made: Iterable[Made]) -> Iterator[Violation]:
    shared = Highest((one.end, one.revision) for one in made if one.revision is not None and one.change.viewer is None)
    for fire in fires:
        if fire.answer is not None and fire.answer.revision is not None:
            least = shared.before(fire.start)
            if fire.answer.revision < least:
                yield Violation("older", f"{fire.sent.op} saw revision {fire.answer.revision} after {least}")


def hooks_that_should_not_be_there(fires: Iterable[Fire], made: Iterable[Made]) -> Iterator[Violation]:
    """A hook that was taken out is not asked; one that was put in is, unless the chain ended before it."""
    switches: dict[tuple[str | None, str], list[Made]] = defaultdict(list)
    for one in made:
        if one.change.value in (OUT, IN):
            switches[one.change.viewer, one.change.subject].append(one)
    presences: dict[str | None, dict[str, Presence]] = defaultdict(dict)
    for (viewer, hook), changes in switches.items():
        presences[viewer][hook] = Presence(changes)
    for fire in fires:
        if not fire.is_answered or fire.sent.event != SWITCHED_EVENT:
            continue
        assert fire.answer is not None
        asked = {one.hook for one in fire.answer.outcomes}
        for hook, presence in (*presences[None].items(), *presences[fire.sent.viewer].items()):
            possible = presence.between(fire.start, fire.end)
            if hook in asked and IN not in possible:
                yield Violation("older", f"{fire.sent.op}: {hook} was asked, and had been taken out")
            if hook not in asked and OUT not in possible and fire.answer.verdict in ALLOWING:
                yield Violation("older", f"{fire.sent.op}: {hook} was not asked, and had been put in")


class Presence:
    """Whether a hook could have been there: what its changes, made one after another, can have come to."""

    def __init__(self, changes: Iterable[Made]) -> None:
        self._starts = [0]
        self._states = [frozenset({OUT})]
        pending: frozenset[int] = frozenset()  # what may be made at any time: it has no end
        for one in changes:
            during = self._states[-1] | pending | {one.change.value}
            self._add(one.change.at, during)
            if one.end == NEVER:
                pending |= {one.change.value}
            else:
                self._add(one.end, pending | {one.change.value} if one.is_acked else during)

    def _add(self, start: int, state: frozenset[int]) -> None:
        self._starts.append(start)
        self._states.append(state)

    def between(self, start: int, end: int) -> frozenset[int]:
        """Return every state of some moment between two."""
        first, last = (bisect_right(self._starts, moment) for moment in (start, end))
        return frozenset().union(*self._states[first - 1 : last])


def allowed_while_barred(fires: Iterable[Fire], barred: Sequence[Barred]) -> Iterator[Violation]:
    periods = sorted(barred, key=attrgetter("since"))
    starts = [one.since for one in periods]
    for fire in filter(is_allowed, fires):
        index = bisect_right(starts, fire.start)
        for period in periods[max(0, index - 1) : index]:  # one after another: only the latest can hold
            if fire.end <= period.at and period.hook in fire.sent.required:
                yield Violation("older", f"{fire.sent.op} was allowed while {period.hook} was not to be trusted")


# -- record ------------------------------------------------------------------------------------------------------


def broken_links(records: Sequence[Recorded]) -> Iterator[Violation]:
    seq, prev = 0, GENESIS
    for record in records:
        is_next = record.seq == seq + 1 or record.skipped == (seq + 1, record.seq - 1)
        if not is_next or record.prev != prev:
            yield Violation("chain", f"record {record.seq} does not follow on {seq}")
        seq, prev = record.seq, record.hash


def answers_without_their_record(fires: Iterable[Fire], records: Iterable[Recorded]) -> Iterator[Violation]:
    by_op: dict[str, list[Recorded]] = defaultdict(list)
    for record in records:
        if record.kind in DECIDED:
            by_op[record.op].append(record)
    for fire in fires:
        if not fire.sent.is_gate:
            continue
        own = by_op[fire.sent.op]
        if len(own) > 1:
            yield Violation("record", f"{fire.sent.op} has {len(own)} records")
        for record in own:
            yield from wrong_allowances(fire.sent, record)
        if fire.is_answered:
            assert fire.answer is not None
            for fault in disagreements(fire.sent, fire.answer, own[0] if own else None):
                yield Violation("record", f"{fire.sent.op}: {fault}; told was {said(fire.answer)}")


def wrong_allowances(sent: Sent, record: Recorded) -> Iterator[Violation]:
    """Judge what was decided, whether or not the client lived to be told."""
    if record.verdict not in ALLOWING:
        return
    where = f"{sent.op}, record {record.seq},"
    if sent.is_forbidden:
        yield Violation("policy", f"{where} had to be refused: {record.verdict}")
    if record.cause not in (None, "policy"):
        yield Violation("policy", f"{where} was allowed for want of an answer: cause {record.cause}")
    if missing := unanswered(sent.required, record.outcomes):
        yield Violation("policy", f"{where} was allowed without {missing}")


def disagreements(sent: Sent, answer: Answered, record: Recorded | None) -> Iterator[str]:
    if record is None:
        yield "there is no record of it"
        return
    if answer.verdict in ALLOWING and not answer.is_patched and answer.digest != sent.digest:
        yield f"its digest is {answer.digest}, and {sent.digest} was sent"
    for name in ("decision_id", "verdict", "cause", "digest"):
        if getattr(record, name) != getattr(answer, name):
            yield f"its record has {name} {getattr(record, name)!r}"
    if answer.head is None or (record.seq, record.hash[: len(answer.head[1])]) != answer.head:
        yield f"its head is {answer.head}, its record {record.seq} {record.hash[:32]}"
