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

from hooklatch.core.text import counted
from hooklatch.fleet.policy.manifests import Manifest
from hooklatch.fleet.policy.reports import Gates, HostReport, total

__all__ = ["Bound", "Comparison", "Judgement", "Word", "compare", "judge"]

FEWEST = 5  # such denials on one host: fewer may be bad luck
ROUNDING = 1e-9  # of shares: 5 % less 3 % is a little over 2 %
SHOWN = 8  # hosts that a message names


class Bound(msgspec.Struct, frozen=True):
    """When to stop: `more`, the share by which broken denials may rise, and `sample`, the decisions that it needs."""

    more: float = 0.02
    sample: int = 50


class Word(Enum):
    """What follows for a step."""

    GO_ON = "go on"
    WAIT = "wait"
    STOP = "stop"


class Judgement(msgspec.Struct, frozen=True):
    """What follows for a step, and why."""

    word: Word
    reason: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that have the bundle (`on`) against the others (`off`), by their names and what they counted.

    Of the hosts that are to have it, `missing` do not yet, `silent` have not reported since the step began, `away` had
    not for a while before, `refusing` say why they will not, and the daemons of `unreachable` give no answer.
    `broken` are hosts that have it, on which most gates are denied because of that, and were not before.
    `eligible` is how many hosts have the labels, in the rollout or not.
    """

    on: tuple[str, ...]
    off: tuple[str, ...]
    on_gates: Gates
    off_gates: Gates
    missing: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    refusing: tuple[tuple[str, str], ...] = ()
    unreachable: tuple[str, ...] = ()
    broken: tuple[tuple[str, Gates], ...] = ()
    eligible: int = 0

    @property
    def included(self) -> int:
        """Return how many hosts are to have it, of those that report or did so until it was out."""
        return len(self.on) + len(self.missing) + len(self.refusing) + len(self.silent)


def compare(
    manifest: Manifest,
    before: Mapping[str, HostReport],
    now: Mapping[str, HostReport],
    *,
    silent: Collection[str] = (),
    away: Collection[str] = (),
) -> Comparison:
    """Compare the hosts of a rollout's newest version; `before` is what they reported when the rollout began."""
    on, off, missing = dict[str, Gates](), dict[str, Gates](), list[str]()
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
            on[host] = counted_since(before.get(host), report)
        elif is_included and (problem := new_problem(before.get(host), report, manifest)) is not None:
            refusing.append((host, problem))
        elif is_included:
            missing.append(host)
        else:
            off[host] = counted_since(before.get(host), report)
    return Comparison(
        on=tuple(on),
        off=tuple(off),
        on_gates=total(on.values()),
        off_gates=total(off.values()),
        missing=tuple(missing),
        silent=tuple(unheard["silent"]),
        away=tuple(unheard["away"]),
        refusing=tuple(refusing),
        unreachable=tuple(unreachable),
        broken=tuple((host, gates) for host, gates in on.items() if is_broken(gates, before.get(host))),
        eligible=eligible,
    )


def is_broken(gates: Gates, before: HostReport | None) -> bool:
    """Return whether a host denies most of what it decides because a hook is broken, and did not so before."""
    was = before.gates if before is not None else Gates()
    return gates.faults >= FEWEST and 2 * gates.faults > gates.decided and 2 * was.faults <= was.decided


def new_problem(before: HostReport | None, now: HostReport, manifest: Manifest) -> str | None:
    """Return why a host that has read a version does not have it, unless that was wrong with the host already."""
    is_new = before is None or before.problem != now.problem
    return now.problem if is_new and now.head.version >= manifest.version else None


def counted_since(before: HostReport | None, now: HostReport) -> Gates:
    """Return what a host counted since the rollout began, or since its bundle took effect, if that is later."""
    return now.gates.after(before.gates if before is not None and before.bundle == now.bundle else None)


def judge(seen: Comparison, bound: Bound) -> Judgement:
    """Say what follows; what was not seen is no reason to go on."""
    if seen.refusing:
        host, problem = seen.refusing[0]
        others = f" (and {counted(len(seen.refusing) - 1, 'more host')})" if len(seen.refusing) > 1 else ""
        return Judgement(Word.STOP, f"the host {host}{others} refuses it: {problem}")
    if seen.broken:
        host, gates = seen.broken[0]
        others = f" (and {counted(len(seen.broken) - 1, 'more host')})" if len(seen.broken) > 1 else ""
        return Judgement(
            Word.STOP, f"on the host {host}{others} most is denied because a hook is broken: {share_of(gates)}"
        )
    # Few decisions are held against the whole sample: if all others were good, would it still be too many?
    share = seen.on_gates.faults / max(seen.on_gates.decided, bound.sample, 1)
    usual = seen.off_gates.faults / seen.off_gates.decided if seen.off_gates.decided else 0.0
    if share - usual > bound.more + ROUNDING:
        return Judgement(Word.STOP, f"{shares(seen)}, and that is over the bound of {bound.more:.2%} more")
    if seen.on_gates.decided < bound.sample:
        return Judgement(
            Word.WAIT,
            f"hosts with it have decided {seen.on_gates.decided} gates, of at least {bound.sample} that a comparison"
            " needs",
        )
    if not seen.on or 2 * len(seen.on) < seen.included:
        return Judgement(Word.WAIT, f"only {len(seen.on)} of {counted(seen.included, 'host')} have it: {rest(seen)}")
    if 2 * len(seen.unreachable) > seen.included:
        return Judgement(
            Word.WAIT, f"{counted(len(seen.unreachable), 'daemon')} cannot be reached: {names(seen.unreachable)}"
        )
    return Judgement(Word.GO_ON, shares(seen))


def shares(seen: Comparison) -> str:
    """Return what was compared, for people."""
    return f"denied because a hook is broken: {share_of(seen.on_gates)} with it, {share_of(seen.off_gates)} without"


def share_of(gates: Gates) -> str:
    if not gates.decided:
        return "none of 0"
    causes = sorted(cause for cause, count in gates.denied.items() if count and cause != "policy")
    which = f" ({', '.join(f'{cause} {gates.denied[cause]}' for cause in causes)})" if causes else ""
    return f"{gates.faults} of {gates.decided}, {gates.faults / gates.decided:.2%}{which}"


def rest(seen: Comparison) -> str:
    """Return the hosts that are to have it and do not, for people."""
    parts = [
        ("do not have it yet", seen.missing),
        ("have not reported since", seen.silent),
        ("were away before", seen.away),
    ]
    return "; ".join(f"{text}: {names(hosts)}" for text, hosts in parts if hosts) or "no host is to have it"


def names(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else ""
    return ", ".join(hosts[:SHOWN]) + more
