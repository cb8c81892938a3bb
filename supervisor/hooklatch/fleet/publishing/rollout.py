"""The rollout of a version: wider step by step, or stopped.

Each step is a version of its own, signed by the publisher that drives the rollout.  Without that process no version
widens.  A stopped rollout stays where it is, and only a rollback takes it back.

A step is a share of the hosts that report, in the order of their places by name, and of at least one host: by a plain
share of all places most small steps of a small fleet would have none, and a version would be everywhere before it was
somewhere.  The version names the place after the last of them, so each host still judges by itself.

A step is judged by the hosts' reports: the share of gate decisions that were denied because a hook is broken (crash,
timeout, load, …), and if that is wanted of all that were denied, on the hosts that have the bundle and on those that do
not, since the rollout began.  One busy host could hide many others in that share, so a host on which most decisions are
such denials, and were not before, is enough to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

import msgspec
import trio

from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import UnreachableError
from hooklatch.fleet.manifests import BUCKETS, FleetError, Manifest, find_bucket
from hooklatch.fleet.publishing.publisher import LostRaceError, Publisher, ReceivedReport
from hooklatch.fleet.publishing.versions import VersionDraft, format_percent, format_rollback, plan_wider_rollout
from hooklatch.fleet.reports import GateCounts, HostReport, sum_gates
from hooklatch.fleet.signing import PrivateKey

__all__ = [
    "RolloutPace", "Rollout", "StoppedError", "find_cut", "list_present_hosts", "StopThreshold", "CanaryComparison",
    "RolloutJudgement", "RolloutAction", "compare_hosts", "judge_rollout",
]  # fmt: skip

FEWEST = 5  # such denials on one host: fewer may be chance
ROUNDING = 1e-9  # of shares: 5 % less 3 % is a little over 2 %
SHOWN = 8  # hosts that a message names


class StopThreshold(msgspec.Struct, frozen=True):
    """The bounds of a rollout: the share by which denials of broken hooks may rise, and the decisions that it needs.

    `max_denied_increase` is the share by which all denials may rise; None if a version may deny as much as it likes.
    """

    max_increase: float = 0.02
    min_decisions: int = 50
    max_denied_increase: float | None = None


class RolloutAction(Enum):
    """The next action of a rollout."""

    GO_ON = "go on"
    WAIT = "wait"
    STOP = "stop"


class RolloutJudgement(msgspec.Struct, frozen=True):
    """The next action of a rollout, and the reason."""

    action: RolloutAction
    reason: str


class CanaryComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that have the bundle (`canary`) and the others (`baseline`), by name, and their counts.

    Of the hosts that should have it, `missing` do not yet, `silent` have not reported since the step began, `absent`
    had not for a while before, `refusing` report why they refuse, and the daemons of `unreachable` give no answer.
    `broken` are hosts that have it, on which most gates deny because of that, and did not before.
    """

    canary: tuple[str, ...]
    baseline: tuple[str, ...]
    canary_gates: GateCounts
    baseline_gates: GateCounts
    missing: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    refusing: tuple[tuple[str, str], ...] = ()
    unreachable: tuple[str, ...] = ()
    broken: tuple[tuple[str, GateCounts], ...] = ()

    @property
    def included(self) -> int:
        """Return how many hosts should have it, of those that report or did so until it was out."""
        return len(self.canary) + len(self.missing) + len(self.refusing) + len(self.silent)


def compare_hosts(
    manifest: Manifest,
    before: Mapping[str, HostReport],
    now: Mapping[str, HostReport],
    *,
    silent: Collection[str] = (),
    absent: Collection[str] = (),
) -> CanaryComparison:
    """Compare the hosts of a rollout's newest version; `before` is what they reported when the rollout began."""
    canary, baseline, missing = dict[str, GateCounts](), dict[str, GateCounts](), list[str]()
    refusing, unreachable = list[tuple[str, str]](), list[str]()
    unheard: dict[bool, list[str]] = {True: [], False: []}  # by whether the host is silent, or else absent
    for host, report in sorted(now.items()):
        is_included = manifest.rollout.includes(host, report.labels)
        if is_included and (host in silent or host in absent):
            unheard[host in silent].append(host)
            continue
        if is_included and report.health == "unreachable":
            unreachable.append(host)
        if has_content(report, manifest):
            canary[host] = count_gates_since(before.get(host), report)
        elif is_included and (problem := find_new_problem(before.get(host), report, manifest)) is not None:
            refusing.append((host, problem))
        elif is_included:
            missing.append(host)
        else:
            baseline[host] = count_gates_since(before.get(host), report)
    return CanaryComparison(
        canary=tuple(canary),
        baseline=tuple(baseline),
        canary_gates=sum_gates(canary.values()),
        baseline_gates=sum_gates(baseline.values()),
        missing=tuple(missing),
        silent=tuple(unheard[True]),
        absent=tuple(unheard[False]),
        refusing=tuple(refusing),
        unreachable=tuple(unreachable),
        broken=tuple((host, gates) for host, gates in canary.items() if is_broken(gates, before.get(host))),
    )


def has_content(report: HostReport, manifest: Manifest) -> bool:
    """Return whether a host has the bundle of a version, and enforces it unless the version only observes."""
    of = report.by_policy.get(manifest.policy)
    if of is None or of.applied is None or of.bundle != manifest.bundle:
        return False
    return manifest.observe_end > 0 or not of.observes


def is_broken(gates: GateCounts, before: HostReport | None) -> bool:
    """Return whether a host denies most of what it decides because a hook is broken, and did not so before."""
    gates_before = before.gates if before is not None else GateCounts()
    return (
        gates.faults >= FEWEST and 2 * gates.faults > gates.decided and 2 * gates_before.faults <= gates_before.decided
    )


def find_new_problem(before: HostReport | None, now: HostReport, manifest: Manifest) -> str | None:
    """Return why a host that has read a version does not have it, unless that was wrong with the host already."""
    is_new = before is None or before.problem != now.problem
    return now.problem if is_new and now.head.version >= manifest.version else None


def count_gates_since(before: HostReport | None, now: HostReport) -> GateCounts:
    """Return a host's counts since the rollout began, or since its bundles took effect, if that is later."""
    return now.gates.after(before.gates if before is not None and before.bundles == now.bundles else None)


def judge_rollout(comparison: CanaryComparison, bound: StopThreshold) -> RolloutJudgement:
    """Return the next action; missing reports are never a reason to go on."""
    canary, baseline = comparison.canary_gates, comparison.baseline_gates
    if comparison.refusing:
        host, problem = comparison.refusing[0]
        return RolloutJudgement(
            RolloutAction.STOP, f"the host {host}{format_others(comparison.refusing)} refuses it: {problem}"
        )
    if comparison.broken:
        host, gates = comparison.broken[0]
        text = f"on the host {host}{format_others(comparison.broken)} most is denied because a hook is broken"
        return RolloutJudgement(RolloutAction.STOP, f"{text}: {compute_share(gates)}")
    if compute_increase(canary.faults, baseline.faults, comparison, bound) > bound.max_increase:
        text = f"{format_shares(comparison)}, and that is over the bound of {bound.max_increase:.2%} more"
        return RolloutJudgement(RolloutAction.STOP, text)
    limit = bound.max_denied_increase
    if limit is not None and compute_increase(canary.denials, baseline.denials, comparison, bound) > limit:
        counts = f"{canary.denials} of {canary.decided} with it, {baseline.denials} of {baseline.decided} without"
        text = f"denied: {counts}, and that is over the bound of {limit:.2%} more"
        return RolloutJudgement(RolloutAction.STOP, text)
    if canary.decided < bound.min_decisions:
        text = f"hosts with it have decided {canary.decided} gates, of at least {bound.min_decisions}"
        return RolloutJudgement(RolloutAction.WAIT, f"{text} that a comparison needs")
    if not comparison.canary or 2 * len(comparison.canary) < comparison.included:
        text = f"only {len(comparison.canary)} of {format_count(comparison.included, 'host')} have it"
        return RolloutJudgement(RolloutAction.WAIT, f"{text}: {format_missing_hosts(comparison)}")
    if 2 * len(comparison.unreachable) > comparison.included:
        text = f"{format_count(len(comparison.unreachable), 'daemon')} cannot be reached"
        return RolloutJudgement(RolloutAction.WAIT, f"{text}: {format_host_names(comparison.unreachable)}")
    return RolloutJudgement(RolloutAction.GO_ON, format_shares(comparison))


def compute_increase(denied: int, usual: int, comparison: CanaryComparison, bound: StopThreshold) -> float:
    """Return by how much a share of the decisions is higher on the hosts that have the bundle than on the others."""
    # Few decisions count against the whole sample: would the share be too high even if all the others were good?
    share = denied / max(comparison.canary_gates.decided, bound.min_decisions, 1)
    return share - usual / max(comparison.baseline_gates.decided, 1) - ROUNDING


def format_others(hosts: Sequence[object]) -> str:
    return f" (and {format_count(len(hosts) - 1, 'more host')})" if len(hosts) > 1 else ""


def format_shares(comparison: CanaryComparison) -> str:
    canary, baseline = compute_share(comparison.canary_gates), compute_share(comparison.baseline_gates)
    return f"denied because a hook is broken: {canary} with it, {baseline} without"


def compute_share(gates: GateCounts) -> str:
    if not gates.decided:
        return "none of 0"
    causes = sorted(cause for cause, count in gates.denied.items() if count and cause != "policy")
    which = f" ({', '.join(f'{cause} {gates.denied[cause]}' for cause in causes)})" if causes else ""
    return f"{gates.faults} of {gates.decided}, {gates.faults / gates.decided:.2%}{which}"


def format_missing_hosts(comparison: CanaryComparison) -> str:
    """Return the hosts that should have the bundle and do not, for people."""
    parts = [
        ("do not have it yet", comparison.missing),
        ("have not reported since", comparison.silent),
        ("were away before", comparison.absent),
    ]
    return "; ".join(f"{text}: {format_host_names(hosts)}" for text, hosts in parts if hosts) or "no host is to have it"


def format_host_names(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else ""
    return ", ".join(hosts[:SHOWN]) + more


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
