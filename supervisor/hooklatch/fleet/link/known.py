"""The present state of a link, gathered by its tasks: its report, its log and its status line are made of it.

Times that are compared are of this machine's monotonic clock.

And the waiting for an engine: for an answer under a deadline of our own, and after failures, longer each time.  If an
engine comes back, its hosts must not all connect in the same moment.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import msgspec
import trio

from hooklatch.core.text import format_duration
from hooklatch.fleet.engine.engine import UnreachableError
from hooklatch.fleet.link.daemon import FollowAnswer
from hooklatch.fleet.manifests import PolicyVersions
from hooklatch.fleet.reports import LEFT, EngineFault, GateCounts, HostReport, RecordHead, ReportedPolicy
from hooklatch.record.storage.chain import ChainLink

__all__ = ["LinkState", "TIMEOUT", "Backoff", "await_answer"]

T = TypeVar("T")
TIMEOUT = 20.0  # seconds; the engine's own limit is shorter, and this limit is for the case that it fails
FIRST = 0.05  # seconds


async def await_answer(answer: Awaitable[T], seconds: float = TIMEOUT) -> T:
    """Return an engine's answer, or raise UnreachableError: it did not come in time."""
    with trio.move_on_after(seconds):
        return await answer
    raise UnreachableError(f"the engine did not answer within {format_duration(seconds)}")


class Backoff:
    """The pauses of one task that is retried, up to `maximum` seconds; `chance` returns a number from 0 to 1."""

    def __init__(self, maximum: float, first: float = FIRST, chance: Callable[[], float] = random.random) -> None:
        self._maximum = maximum
        self._first = min(first, maximum)
        self._chance = chance
        self._bound = self._first

    def next(self) -> float:
        """Return the next pause in seconds: from half of a bound that doubles to all of it."""
        bound = self._bound
        self._bound = min(self._maximum, bound * 2)
        return bound * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        """Begin anew with the first pause, after a success."""
        self._bound = self._first


logger = logging.getLogger("hooklatch.link")
MAX_FINDINGS = 20  # the newest are kept
MAX_TEXT = 400  # characters of a text in a report
ENGINE, DAEMON, POLICY, BUNDLE = "engine", "daemon", "policy", "bundle"
LOG_ENGINE = "engine of logs"
SHIPPING, RECORD, REPORT, FLEET = "shipping", "record", "report", "fleet"
NAME = "name"  # of this host, under which another machine reports
SIGNED = "signed"  # timestamp and key sets


class LinkState:
    """The state of one link.  `on_change` is called when a report should be sent soon."""

    def __init__(self, host: str, labels: Iterable[str], version: str) -> None:
        self.answer: FollowAnswer | None = None
        self.answered_at = 0.0  # when the answer came
        self.epoch = 0
        self.shipped = 0
        self.lost = 0
        self.oldest = 0
        self.newest: ChainLink | None = None
        self.gates = GateCounts()
        self.left_at: int | None = None  # the last entry to ship, once this host has left the fleet
        self.loss_count = 0  # how often the engine was found to have lost something
        self.on_change: Callable[[], None] = lambda: None
        self._host = host
        self._labels = tuple(labels)
        self._version = version
        self._faults: dict[str, str] = {}
        self._kinds: dict[str, str] = {}  # of the faults that are the engine's
        self._findings: list[str] = []

    @property
    def faults(self) -> dict[str, str]:
        """Return the present faults by the part that does not work."""
        return dict(self._faults)

    @property
    def engine_fault(self) -> EngineFault | None:
        """Return what is wrong with the engine."""
        for part in (ENGINE, LOG_ENGINE, POLICY, SIGNED, BUNDLE, NAME, FLEET):
            if part in self._faults and (kind := self._kinds.get(part)):
                return msgspec.convert({"kind": kind, "text": self._faults[part][: 2 * MAX_TEXT]}, EngineFault)
        return None

    def set_fault(self, part: str, text: str | None, kind: str = "") -> None:
        """Note that a part does not work, or (None) that it does; each change is logged once.

        `kind` is that of an EngineFault, if it is the engine's.
        """
        self._kinds[part] = kind
        before = self._faults.get(part)
        if text == before:
            return
        if text is None:
            del self._faults[part]
            logger.info("the %s is well again", part)
        else:
            self._faults[part] = text
            logger.warning("%s", text, extra={"of": part})
        self.on_change()

    def add_finding(self, finding: str) -> None:
        """Keep a finding about the record until this process ends."""
        if finding not in self._findings:
            self._findings = [*self._findings, finding][-MAX_FINDINGS:]
            logger.error("%s", finding, extra={"host": self._host})
            self.on_change()

    def update(self, answer: FollowAnswer, now: float) -> None:
        """Take an answer of the daemon."""
        before, self.answer, self.answered_at = self.answer, answer, now
        self.set_fault(DAEMON, None)
        if answer.host and answer.host != self._host:
            self.add_finding(
                f"the daemon calls this host {answer.host!r}, and its link {self._host!r}: restart the link"
            )
        if before is None or summarize_answer(before) != summarize_answer(answer):
            applied = {name: of.applied.version for name, of in answer.policies.items() if of.applied is not None}
            facts = {"head": answer.head.version, "applied": applied, "health": answer.health}
            logger.info("the daemon follows", extra=facts)
            self.on_change()

    def format_status(self) -> str:
        """Return one line for people, such as the status text of systemd."""
        policies = self.answer.policies if self.answer is not None else {}
        applied = [f"version {of.applied.version}" for of in policies.values() if of.applied is not None]
        version = " and ".join(applied) or "no version"
        faults = "; ".join(self._faults.values())
        return f"{version} applied, {self.unshipped} records to ship{f'; {faults}' if faults else ''}"

    @property
    def unshipped(self) -> int:
        """Return how many entries wait, at most: numbers that a crash skipped count too."""
        if self.newest is None:
            return 0
        last = self.newest.seq if self.left_at is None else self.left_at
        return max(0, last - max(self.shipped, self.oldest - 1))

    def make_report(self, now: float, clock: float) -> HostReport:
        """Return the host's report; `now` is monotonic, `clock` in seconds since the epoch."""
        answer = self.answer or FollowAnswer()
        is_there = DAEMON not in self._faults and self.answer is not None
        stale = answer.stale_s + now - self.answered_at if answer.stale_s is not None else None
        faults = self._faults
        parts = (POLICY, BUNDLE, None, DAEMON, FLEET, SIGNED)
        problem = next(filter(None, (faults.get(part) if part else answer.problem for part in parts)), None)
        if self.left_at is not None:
            problem = None  # that no daemon takes the link any more is as it should be
        not_shipping = [text for part in (SHIPPING, RECORD) if (text := self._faults.get(part)) is not None]
        newest = describe_policy(answer)
        return HostReport(
            host=self._host,
            labels=answer.labels or self._labels,
            head=answer.head,
            wanted=newest.wanted,
            applied=newest.applied,
            bundle=newest.bundle,
            policies={name: describe_policy(of) for name, of in answer.policies.items()},
            problem=problem[:MAX_TEXT] if problem is not None else None,
            health=LEFT if self.left_at is not None else answer.health if is_there else "unreachable",
            revision=answer.revision,
            stale_s=round(stale, 1) if stale is not None else None,
            gates=self.gates,
            epoch=self.epoch,
            record=RecordHead(self.newest.seq, self.newest.hash) if self.newest is not None else None,
            shipped=self.shipped,
            unshipped=self.unshipped,
            lost=self.lost,
            findings=tuple(text[:MAX_TEXT] for text in (*not_shipping, *self._findings)),
            link=self._version,
            clock=int(clock * 1000),
        )


def describe_policy(of: PolicyVersions) -> ReportedPolicy:
    """Return the versions of a policy as they are reported."""
    wanted = of.wanted.version if of.wanted is not None else None
    if of.applied is None:
        return ReportedPolicy(wanted)
    return ReportedPolicy(wanted, of.applied.version, of.applied.bundle, of.observes)


def summarize_answer(answer: FollowAnswer) -> tuple[object, ...]:
    """Return the parts of an answer whose change is reported to the engine soon."""
    return answer.head, answer.policies, answer.problem, answer.health
