"""The judgement of a rollout's step by the hosts' reports.  Pure; knows reports and numbers, no engine and no clock.

    compare_hosts(manifest, before, now)  ─▶  CanaryComparison  ─▶  judge_rollout(comparison, bound)  ─▶  go on, wait,
                                                                                                     or stop, and why

It compares the share of gate decisions that were denied because a hook is broken (crash, timeout, load, …), and if that
is wanted of all that were denied, on the hosts that have the bundle and on those that do not, since the rollout began.
One busy host could hide many others in that share, so a host on which most decisions are such denials, and were not
before, is enough to stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import msgspec

from hooklatch.core.text import format_count
from hooklatch.fleet.manifests import Manifest
from hooklatch.fleet.reports import GateCounts, HostReport, sum_gates

__all__ = ["StopThreshold", "CanaryComparison", "RolloutJudgement", "RolloutAction", "compare_hosts", "judge_rollout"]

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
    is_there = of is not None and of.applied is not None and of.bundle == manifest.bundle
    return is_there and (manifest.observe_end > 0 or not of.observes)


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
