"""The rollout of a version: wider step by step, or stopped.

Each step is a version of its own, signed by the publisher that drives the rollout.  Without that process no version
widens.  A stopped rollout stays where it is, and only a rollback takes it back.

A step is a share of the hosts that report, in the order of their places by name, and of at least one host: by a plain
share of all places most small steps of a small fleet would have none, and a version would be everywhere before it was
somewhere.  The version names the place after the last of them, so each host still judges by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
import trio

from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import UnreachableError
from hooklatch.fleet.manifests import BUCKETS, FleetError, Manifest, find_bucket
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
from hooklatch.fleet.publishing.versions import VersionDraft, format_percent, format_rollback, plan_wider_rollout
from hooklatch.fleet.reports import HostReport
from hooklatch.fleet.signing import PrivateKey

__all__ = ["RolloutPace", "Rollout", "StoppedError", "find_cut", "list_present_hosts"]

SHORTEST, LONGEST = 0.05, 2.0  # seconds between two looks at the reports
ABSENT_MS = 300_000  # behind the newest report, by the engine's clock: a host that was asleep says nothing of a version
LOOKS = 20  # at the reports while a step waits, at least
PAUSE = 5  # times the duration of a look, so that with many hosts the engine is idle for most of the time


class RolloutPace(msgspec.Struct, frozen=True, kw_only=True):
    """The pace of a rollout: `steps` in percent, and at each at least `wait` and at most `timeout` seconds."""

    steps: tuple[float, ...]
    wait: float = 300.0
    timeout: float = 3600.0
    bound: StopThreshold = StopThreshold()


class StoppedError(FleetError):
    """The hosts' reports have stopped a rollout, which stays where it is."""


class Rollout:
    """One rollout; `at` is its newest version, and `notify` is called with a line for people at each change."""

    def __init__(
        self,
        publisher: Publisher,
        key: PrivateKey,
        pace: RolloutPace,
        *,
        by: str,
        message: str,
        notify: Callable[[str], None],
    ) -> None:
        self.at: Manifest | None = None
        self.seen: CanaryComparison | None = None
        self._publisher = publisher
        self._key = key
        self._pace = pace
        self._by = by
        self._message = message
        self._notify = notify
        self._before: dict[str, HostReport] = {}

    async def run(self, first: VersionDraft) -> Manifest:
        """Commit a version at the first step, widen it at each other step; return the last version.

        Raises:
            StoppedError: the hosts report denials over the bound, or too few decisions.
            LostRaceError: another publisher pushed in the meantime.
        """
        self._before = {host: received.report for host, received in (await self._publisher.hosts()).items()}
        labels = first.rollout.labels
        for percent in self._pace.steps:
            reports_before = await self._publisher.hosts()
            hosts = list_present_hosts(reports_before, labels)
            cut = find_cut(hosts, percent)
            if self.at is None:
                plan = msgspec.structs.replace(first, rollout=msgspec.structs.replace(first.rollout, percent=cut))
            elif cut <= self.at.rollout.percent:
                continue  # these hosts have it already
            else:
                await self._check_alone(self.at, reports_before)
                plan = plan_wider_rollout(self._publisher.history, self.at.version, cut)
            self.at = await self._publisher.commit(plan, self._key, publisher=self._by, message=self._message)
            count = sum(self.at.rollout.includes(host, labels) for host in hosts)
            share = f", {count} of {format_count(len(hosts), 'host')} that report" if hosts else ""
            self._notify(f"version {self.at.version} is out at {format_percent(cut)}{share}")
            await self._await_step(self.at, reports_before)
        assert self.at is not None
        return self.at

    async def _check_alone(self, at: Manifest, reports: dict[str, ReceivedReport]) -> None:
        history = await self._publisher.read(reports)
        newer = (entry.manifest for entry in history.list_versions(at.policy) if entry.manifest.version > at.version)
        if (winner := next(newer, None)) is not None:
            raise LostRaceError(
                winner, f"this rollout ends at version {at.version}, {format_percent(at.rollout.percent)}"
            )

    async def _await_step(self, at: Manifest, reports_before: dict[str, ReceivedReport]) -> None:
        began = trio.current_time()
        judgement = RolloutJudgement(RolloutAction.WAIT, "no host has reported")
        reported_reason = ""
        while True:
            looked_at = trio.current_time()
            try:
                reports = await self._publisher.hosts()
                await self._check_alone(at, reports)
            except UnreachableError as error:
                judgement = RolloutJudgement(RolloutAction.WAIT, f"the reports cannot be read: {error}")
            else:
                self.seen = self._compare(at, reports_before, reports)
                judgement = judge_rollout(self.seen, self._pace.bound)
            elapsed = trio.current_time() - began
            if judgement.action is RolloutAction.STOP:
                raise self._make_stopped_error(at, judgement.reason)
            if elapsed >= self._pace.wait:
                if judgement.action is RolloutAction.GO_ON:
                    self._report(at, judgement)
                    return
                if judgement.reason != reported_reason:
                    reported_reason = judgement.reason
                    self._notify(f"waiting: {reported_reason}")
                if elapsed >= self._pace.timeout:
                    raise self._make_stopped_error(at, judgement.reason)
            await trio.sleep(self._pause(trio.current_time() - looked_at))

    def _compare(
        self, at: Manifest, reports_before: dict[str, ReceivedReport], reports: dict[str, ReceivedReport]
    ) -> CanaryComparison:
        times_before = {host: received.at for host, received in reports_before.items()}
        quiet_hosts = {host for host, received in reports.items() if times_before.get(host) == received.at}
        absent = quiet_hosts.difference(list_present_hosts(reports_before, ()))
        host_reports = {host: received.report for host, received in reports.items()}
        return compare_hosts(at, self._before, host_reports, silent=quiet_hosts - absent, absent=absent)

    def _report(self, at: Manifest, judgement: RolloutJudgement) -> None:
        assert self.seen is not None
        self._notify(f"at {format_percent(at.rollout.percent)}: {judgement.reason}")
        if is_incomplete(self.seen):
            self._notify(f"at {format_percent(at.rollout.percent)}: {format_missing_hosts(self.seen)}")

    def _pause(self, duration: float) -> float:
        return max(SHORTEST, min(LONGEST, self._pace.wait / LOOKS), duration * PAUSE)

    def _make_stopped_error(self, at: Manifest, reason: str) -> StoppedError:
        missing_hosts = (
            f"; {format_missing_hosts(self.seen)}" if self.seen is not None and is_incomplete(self.seen) else ""
        )
        return StoppedError(
            f"stopped at version {at.version}, {format_percent(at.rollout.percent)}: {reason}{missing_hosts}. It does"
            f" not widen any more; to take it back, run: {format_rollback(at.policy)}; to go on all the same: hooklatch"
            f" fleet rollout {at.version} --percent N"
        )


def list_present_hosts(reports: Mapping[str, ReceivedReport], labels: Collection[str]) -> list[str]:
    """Return the hosts with these labels that have reported lately."""
    since = max((received.at for received in reports.values()), default=0) - ABSENT_MS
    return [
        host
        for host, received in reports.items()
        if received.at >= since and set(labels) <= set(received.report.labels)
    ]


def find_cut(hosts: Collection[str], percent: float) -> float:
    """Return the percentage of all places that has this share of some hosts, and one of them at least.

    Without hosts it is the share itself.
    """
    places = sorted(map(find_bucket, hosts))
    if percent == 100 or not places:
        return percent
    return (places[max(1, int(round(len(places) * percent / 100, 6))) - 1] + 1) * 100 / BUCKETS


def is_incomplete(seen: CanaryComparison) -> bool:
    return bool(seen.missing or seen.silent or seen.absent)
