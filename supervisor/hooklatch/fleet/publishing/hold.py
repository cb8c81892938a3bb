"""Judges a step of a rollout by what hosts report.  Pure; knows reports and numbers, no engine and no clock.

    compare(manifest, before, now)  ─▶  Comparison  ─▶  judge(comparison, bound)  ─▶  go on, wait, or stop and why

Compared is the share of gate decisions that were denied because a hook is broken (crash, timeout, load, …), on the
hosts that have the bundle against those that have not, since the rollout began.  One busy host could hide many others
in that share, so a host on which most decisions are such denials, and were not before, is enough to stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

import msgspec

from hooklatch.core.text import format_count
from hooklatch.fleet.policy.manifests import Manifest
from hooklatch.fleet.policy.reports import GateCounts, HostReport, sum_gates

__all__ = ["StopThreshold", "CanaryComparison", "RolloutJudgement", "RolloutAction", "compare_hosts", "judge_rollout"]

FEWEST = 5  # such denials on one host: fewer may be bad luck
ROUNDING = 1e-9  # of shares: 5 % less 3 % is a little over 2 %
SHOWN = 8  # hosts that a message names


class StopThreshold(msgspec.Struct, frozen=True):
    """When to stop: `more`, the share by which broken denials may rise, and `sample`, the decisions that it needs."""

    more: float = 0.02
    sample: int = 50


class RolloutAction(Enum):
    """What follows for a step."""

    GO_ON = "go on"
    WAIT = "wait"
    STOP = "stop"


class RolloutJudgement(msgspec.Struct, frozen=True):
    """What follows for a step, and why."""

    word: RolloutAction
    reason: str


class CanaryComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that have the bundle (`on`) against the others (`off`), by their names and what they counted.

    Of the hosts that are to have it, `missing` do not yet, `silent` have not reported since the step began, `away` had
    not for a while before, `refusing` say why they will not, and the daemons of `unreachable` give no answer.
    `broken` are hosts that have it, on which most gates are denied because of that, and were not before.
    `eligible` is how many hosts have the labels, in the rollout or not.
    """

    on: tuple[str, ...]
    off: tuple[str, ...]
    on_gates: GateCounts
    off_gates: GateCounts
    missing: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    refusing: tuple[tuple[str, str], ...] = ()
    unreachable: tuple[str, ...] = ()
    broken: tuple[tuple[str, GateCounts], ...] = ()
    eligible: int = 0

    @property
    def included(self) -> int:
        """Return how many hosts are to have it, of those that report or did so until it was out."""
        return len(self.on) + len(self.missing) + len(self.refusing) + len(self.silent)


def compare_hosts(
    manifest: Manifest,
    before: Mapping[str, HostReport],
    now: Mapping[str, HostReport],
    *,
    silent: Collection[str] = (),
    away: Collection[str] = (),
) -> CanaryComparison:
    """Compare the hosts of a rollout's newest version; `before` is what they reported when the rollout began."""
    on, off, missing = dict[str, GateCounts](), dict[str, GateCounts](), list[str]()
    refusing, unreachable = list[tuple[str, str]](), list[str]()
    unheard: dict[str, list[str]] = {"silent": [], "away": []}
    eligible = 0
    for host, report in sorted(now.items()):
        eligible += set(manifest.rollout.labels) <= set(report.labels)
        is_included = manifest.rollout.includes(host, report.labels)
        if is_included and (host in silent or host in away):
            unheard["silent" if host in silent else "away"].append(host)
            continue
        if is_included and report.health == "unreachable":
            unreachable.append(host)
        if report.applied is not None and report.bundle == manifest.bundle:
            on[host] = count_gates_since(before.get(host), report)
        elif is_included and (problem := find_new_problem(before.get(host), report, manifest)) is not None:
            refusing.append((host, problem))
        elif is_included:
            missing.append(host)
        else:
            off[host] = count_gates_since(before.get(host), report)
    return CanaryComparison(
        on=tuple(on),
        off=tuple(off),
        on_gates=sum_gates(on.values()),
        off_gates=sum_gates(off.values()),
        missing=tuple(missing),
        silent=tuple(unheard["silent"]),
        away=tuple(unheard["away"]),
        refusing=tuple(refusing),
        unreachable=tuple(unreachable),
        broken=tuple((host, gates) for host, gates in on.items() if is_broken(gates, before.get(host))),
        eligible=eligible,
    )


def is_broken(gates: GateCounts, before: HostReport | None) -> bool:
    """Return whether a host denies most of what it decides because a hook is broken, and did not so before."""
    was = before.gates if before is not None else GateCounts()
    return gates.faults >= FEWEST and 2 * gates.faults > gates.decided and 2 * was.faults <= was.decided


def find_new_problem(before: HostReport | None, now: HostReport, manifest: Manifest) -> str | None:
    """Return why a host that has read a version does not have it, unless that was wrong with the host already."""
    is_new = before is None or before.problem != now.problem
    return now.problem if is_new and now.head.version >= manifest.version else None


def count_gates_since(before: HostReport | None, now: HostReport) -> GateCounts:
    """Return what a host counted since the rollout began, or since its bundle took effect, if that is later."""
    return now.gates.after(before.gates if before is not None and before.bundle == now.bundle else None)


def judge_rollout(seen: CanaryComparison, bound: StopThreshold) -> RolloutJudgement:
    """Say what follows; what was not seen is no reason to go on."""
    if seen.refusing:
        host, problem = seen.refusing[0]
        others = f" (and {format_count(len(seen.refusing) - 1, 'more host')})" if len(seen.refusing) > 1 else ""
        return RolloutJudgement(RolloutAction.STOP, f"the host {host}{others} refuses it: {problem}")
    if seen.broken:
        host, gates = seen.broken[0]
        others = f" (and {format_count(len(seen.broken) - 1, 'more host')})" if len(seen.broken) > 1 else ""
        return RolloutJudgement(
            RolloutAction.STOP,
            f"on the host {host}{others} most is denied because a hook is broken: {compute_share(gates)}",
        )
    # Few decisions are held against the whole sample: if all others were good, would it still be too many?
    share = seen.on_gates.faults / max(seen.on_gates.decided, bound.sample, 1)
    usual = seen.off_gates.faults / seen.off_gates.decided if seen.off_gates.decided else 0.0
    if share - usual > bound.more + ROUNDING:
        return RolloutJudgement(
            RolloutAction.STOP, f"{format_shares(seen)}, and that is over the bound of {bound.more:.2%} more"
        )
    if seen.on_gates.decided < bound.sample:
        return RolloutJudgement(
            RolloutAction.WAIT,
            f"hosts with it have decided {seen.on_gates.decided} gates, of at least {bound.sample} that a comparison"
            " needs",
        )
    if not seen.on or 2 * len(seen.on) < seen.included:
        return RolloutJudgement(
            RolloutAction.WAIT,
            f"only {len(seen.on)} of {format_count(seen.included, 'host')} have it: {format_missing_hosts(seen)}",
        )
    if 2 * len(seen.unreachable) > seen.included:
        return RolloutJudgement(
            RolloutAction.WAIT,
            f"{format_count(len(seen.unreachable), 'daemon')} cannot be reached: {format_host_names(seen.unreachable)}",
        )
    return RolloutJudgement(RolloutAction.GO_ON, format_shares(seen))


def format_shares(seen: CanaryComparison) -> str:
    """Return what was compared, for people."""
    return (
        f"denied because a hook is broken: {compute_share(seen.on_gates)} with it, "
        f"{compute_share(seen.off_gates)} without"
    )


def compute_share(gates: GateCounts) -> str:
    if not gates.decided:
        return "none of 0"
    causes = sorted(cause for cause, count in gates.denied.items() if count and cause != "policy")
    which = f" ({', '.join(f'{cause} {gates.denied[cause]}' for cause in causes)})" if causes else ""
    return f"{gates.faults} of {gates.decided}, {gates.faults / gates.decided:.2%}{which}"


def format_missing_hosts(seen: CanaryComparison) -> str:
    """Return the hosts that are to have it and do not, for people."""
    parts = [
        ("do not have it yet", seen.missing),
        ("have not reported since", seen.silent),
        ("were away before", seen.away),
    ]
    return "; ".join(f"{text}: {format_host_names(hosts)}" for text, hosts in parts if hosts) or "no host is to have it"


def format_host_names(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else ""
    return ", ".join(hosts[:SHOWN]) + more
