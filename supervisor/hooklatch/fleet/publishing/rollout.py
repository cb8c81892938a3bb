"""Widens a version step by step, and holds.  Knows a publisher and a clock; knows no terminal.

Each step is a version of its own, signed by whoever drives it.  If nobody drives it, nothing widens; a stopped rollout
stays where it is, and what takes it back is a rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import trio

from hooklatch.fleet.engine.engine import UnreachableError
from hooklatch.fleet.policy.manifests import FleetError, Manifest
from hooklatch.fleet.policy.reports import HostReport
from hooklatch.fleet.policy.signing import PrivateKey
from hooklatch.fleet.publishing.hold import (
    CanaryComparison,
    RolloutAction,
    RolloutJudgement,
    StopThreshold,
    compare_hosts,
    format_missing_hosts,
    judge_rollout,
)
from hooklatch.fleet.publishing.publisher import LostRaceError, Publisher, ReceivedReport
from hooklatch.fleet.publishing.versions import VersionDraft, format_percent, plan_wider_rollout

__all__ = ["RolloutPace", "Rollout", "StoppedError", "check_steps"]

SHORTEST, LONGEST = 0.05, 2.0  # seconds between two looks at the reports
AWAY_MS = 300_000  # behind the newest report, by the engine's clock: a host that was asleep says nothing of a version
LOOKS = 20  # at least, while a step waits
PAUSE = 5  # times as long as a look took, so that those at many hosts leave the engine alone for most of the time


class RolloutPace(msgspec.Struct, frozen=True, kw_only=True):
    """How to go: `steps` in percent, at least `wait` seconds at each, at most `patience` for enough decisions."""

    steps: tuple[float, ...]
    wait: float = 300.0
    patience: float = 3600.0
    bound: StopThreshold = StopThreshold()


class StoppedError(FleetError):
    """A rollout was stopped by what hosts report, and stays where it is."""


def check_steps(steps: Sequence[float]) -> tuple[float, ...]:
    """Return the steps of a rollout.

    Raises:
        FleetError: they do not rise, or are no percentages.
    """
    if not steps or any(not 0 < step <= 100 for step in steps) or list(steps) != sorted(set(steps)):
        raise FleetError(f"{', '.join(f'{step:g}' for step in steps)} are no steps; write them rising: 1,10,50,100")
    return tuple(steps)


class Rollout:
    """One rollout as it goes; `at` is its newest version."""

    def __init__(
        self,
        publisher: Publisher,
        key: PrivateKey,
        pace: RolloutPace,
        *,
        by: str,
        message: str,
        tell: Callable[[str], None],
    ) -> None:
        self.at: Manifest | None = None
        self.seen: CanaryComparison | None = None
        self._publisher = publisher
        self._key = key
        self._pace = pace
        self._by = by
        self._message = message
        self._tell = tell
        self._before: dict[str, HostReport] = {}

    async def run(self, first: VersionDraft) -> Manifest:
        """Commit a version at the first step, widen it at each other one; return the last.

        Raises:
            StoppedError: what hosts report is over the bound, or too little.
            LostRaceError: somebody else pushed meanwhile.
        """
        self._before = {host: heard.report for host, heard in (await self._publisher.hosts()).items()}
        for number, percent in enumerate(self._pace.steps):
            plan = first
            if self.at is not None:
                plan = plan_wider_rollout(self._publisher.history, self.at.version, percent)
            heard_before = await self._publisher.hosts()
            if self.at is not None:
                await self._check_alone(self.at, heard_before)
            self.at = await self._publisher.commit(plan, self._key, publisher=self._by, message=self._message)
            self._tell(f"version {self.at.version} is out at {format_percent(percent)}")
            await self._watch(self.at, heard_before, is_last=number == len(self._pace.steps) - 1)
        assert self.at is not None
        return self.at

    async def _check_alone(self, at: Manifest, heard: dict[str, ReceivedReport]) -> None:
        history = await self._publisher.read(heard)
        newest = history.newest
        if newest is not None and newest.version > at.version:
            winner = self._publisher.history.entries[at.version].manifest
            raise LostRaceError(
                winner, f"this rollout ends at version {at.version}, {format_percent(at.rollout.percent)}"
            )

    async def _watch(self, at: Manifest, heard_before: dict[str, ReceivedReport], *, is_last: bool) -> None:
        """Return when the step is good.  Raises what `run` does."""
        began = trio.current_time()
        judgement = RolloutJudgement(RolloutAction.WAIT, "no host has reported")
        told = ""
        while True:
            looked = trio.current_time()
            try:
                heard = await self._publisher.hosts()
                await self._check_alone(at, heard)
            except UnreachableError as error:
                judgement = RolloutJudgement(RolloutAction.WAIT, f"the reports cannot be read: {error}")
            else:
                self.seen = self._compare(at, heard_before, heard)
                if self._skips(at, self.seen, is_last=is_last):
                    return
                judgement = judge_rollout(self.seen, self._pace.bound)
            passed = trio.current_time() - began
            if judgement.word is RolloutAction.STOP:
                raise self._stopped(at, judgement.reason)
            if passed >= self._pace.wait:
                if judgement.word is RolloutAction.GO_ON:
                    self._report(at, judgement)
                    return
                if judgement.reason != told:
                    told = judgement.reason
                    self._tell(f"waiting: {told}")
                if passed >= self._pace.patience:
                    raise self._stopped(at, judgement.reason)
            await trio.sleep(self._pause(trio.current_time() - looked))

    def _compare(
        self, at: Manifest, heard_before: dict[str, ReceivedReport], heard: dict[str, ReceivedReport]
    ) -> CanaryComparison:
        quiet = {host for host, one in heard.items() if host in heard_before and heard_before[host].at == one.at}
        latest = max((one.at for one in heard_before.values()), default=0)
        away = {host for host in quiet if heard[host].at < latest - AWAY_MS}
        reports = {host: one.report for host, one in heard.items()}
        return compare_hosts(at, self._before, reports, silent=quiet - away, away=away)

    def _skips(self, at: Manifest, seen: CanaryComparison, *, is_last: bool) -> bool:
        """Return whether no host can show anything at this step, and a wider one is needed to see."""
        if is_last or seen.included or seen.silent or not seen.eligible:
            return False
        self._tell(f"no host that reports is among these {format_percent(at.rollout.percent)}; going on")
        return True

    def _report(self, at: Manifest, judgement: RolloutJudgement) -> None:
        assert self.seen is not None
        self._tell(f"at {format_percent(at.rollout.percent)}: {judgement.reason}")
        if is_incomplete(self.seen):
            self._tell(f"at {format_percent(at.rollout.percent)}: {format_missing_hosts(self.seen)}")

    def _pause(self, took: float) -> float:
        return max(SHORTEST, min(LONGEST, self._pace.wait / LOOKS), took * PAUSE)

    def _stopped(self, at: Manifest, reason: str) -> StoppedError:
        left = f"; {format_missing_hosts(self.seen)}" if self.seen is not None and is_incomplete(self.seen) else ""
        return StoppedError(
            f"stopped at version {at.version}, {format_percent(at.rollout.percent)}: {reason}{left}. Nothing widens "
            f"any more; to"
            f" take it back, run: hooklatch fleet rollback; to go on all the same: hooklatch fleet rollout {at.version}"
            " --percent N"
        )


def is_incomplete(seen: CanaryComparison) -> bool:
    return bool(seen.missing or seen.silent or seen.away)
