"""A host's report on itself: the JSON that its link puts into the engine.

The link writes it, `fleet status` and `fleet verify` show it, and the publisher compares hosts by it.  A process with a
host's credentials can write that host's report, so the report proves nothing: it can hold a rollout, or hide a fault of
that host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from hooklatch.core.messages import EngineFaultKind
from hooklatch.core.text import format_duration
from hooklatch.fleet.manifests import DEFAULT_POLICY, FleetError, Name, PolicyHead, decode_document

__all__ = [
    "FAULTS", "LEFT", "EngineFault", "GateCounts", "HostReport", "RecordHead", "ReportedPolicy", "describe_false_time",
    "encode_report", "read_report", "sum_gates",
]  # fmt: skip

MAX_REPORT = 64 * 1024  # bytes of a report as stored
LEFT = "left"
LONGEST = 1e10  # seconds, some 300 years: a host may report any number
# Causes of a denial that blame the hooks: they broke, hung, do not load, gave an answer that no hook may give, or are
# quarantined because of it.  The others blame the load, the disk or the request, or are a hook's own decision.
FAULTS = frozenset({"crash", "timeout", "load", "protocol", "quarantined"})

SKEW = 60_000  # ms by which the clocks of two engines, one after the other, may differ

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class GateCounts(msgspec.Struct, frozen=True):
    """The decisions of gates since the active bundles took effect, and those of them that denied, by their cause.

    `since` is the seq of the first entry that was counted.  Two reports with one `since` are of one count, so the later
    less the earlier is what happened between them.  A version with the bundle that is active already begins no new
    count.  `denied` has the causes of the record: "policy", "crash", "timeout", "load", …  `would_deny` are those that
    did not deny, and would have if no hook only observed; `would_ask` those that neither denied nor asked, and would
    have asked.
    """

    since: Count = 0
    decided: Count = 0
    denied: dict[str, Count] = {}
    would_deny: Count = 0
    would_ask: Count = 0

    @property
    def faults(self) -> int:
        """Return how many decisions denied because a hook is broken."""
        return sum(count for cause, count in self.denied.items() if cause in FAULTS)

    @property
    def denials(self) -> int:
        """Return how many decisions denied, of all causes."""
        return sum(self.denied.values())

    def after(self, before: GateCounts | None) -> GateCounts:
        """Return the counts since an earlier report; all of them if a new count has begun since."""
        if before is None or before.since != self.since or before.decided > self.decided:
            return self
        denied = {cause: max(0, count - before.denied.get(cause, 0)) for cause, count in self.denied.items()}
        would = max(0, self.would_deny - before.would_deny), max(0, self.would_ask - before.would_ask)
        return GateCounts(self.since, self.decided - before.decided, denied, *would)


class EngineFault(msgspec.Struct, frozen=True):
    """A fault that a link finds in the engine: it is away, refuses, its versions are not those of before, or it shows
    that another machine reports as this host.
    """

    kind: EngineFaultKind
    text: Annotated[str, Meta(max_length=2000)]


class RecordHead(msgspec.Struct, frozen=True):
    """The newest entry on the host: a change of the record up to it is noticed from now on."""

    seq: Count
    hash: str


class ReportedPolicy(msgspec.Struct, frozen=True):
    """Of one policy the version that a host should have, and the active one with its bundle.

    The active one only observes until `observes`, if that says a moment.
    """

    wanted: int | None = None
    applied: int | None = None
    bundle: str = ""
    observes: Annotated[str, Meta(max_length=40)] = ""


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """A host's last report on itself.  A field that this version does not know is passed over.

    `head`     the newest version that it has read, and its digest
    `policies` of each policy the version that it should have, and the active one
    `wanted`   the newest of those that it should have, None if none is for it; `applied` the newest active one, with
               its `bundle`
    `problem`  why a wanted version is not active, or why the newest versions were refused
    `health`   the daemon's: "ready", "red", "draining", "unreachable" if the link cannot reach it, or "left" in the
               last report of a host that is in this fleet no more
    `stale_s`  seconds since the daemon was last at the engine's head; None if it never was
    `epoch`    of its log in the engine: each epoch after 1 is a record that began anew
    `record`   the newest entry on the host; `shipped` the seq up to which the engine has the entries
    `unshipped`, `lost`  how many entries wait, and how many were removed before they were shipped
    `findings` what is wrong with the record, as for `fleet verify`: "the record was truncated to 17", …
    `every_s`  the seconds between two reports while nothing happens there; a host is silent after three of them
    `clock`    the host's, in ms since the epoch; the engine stores its own clock of that moment with the report
    `key`      the host's public key, `instance` the link's process, and `number` this report's among those of it; what
               is stored ends with a further field `signature`: see `HostIdentity`
    """

    host: Name
    labels: tuple[Name, ...] = ()
    head: PolicyHead = PolicyHead()
    wanted: int | None = None
    applied: int | None = None
    bundle: str = ""
    policies: dict[Name, ReportedPolicy] = {}
    problem: str | None = None
    health: str = "unreachable"
    revision: int = 0
    stale_s: float | None = None
    gates: GateCounts = GateCounts()
    epoch: Count = 0
    record: RecordHead | None = None
    shipped: Count = 0
    unshipped: Count = 0
    lost: Count = 0
    findings: tuple[str, ...] = ()
    link: str = ""
    every_s: Annotated[float, Meta(gt=0, le=600)] = 60.0
    clock: int = 0
    key: str = ""
    instance: str = ""
    number: Count = 0

    @property
    def by_policy(self) -> dict[str, ReportedPolicy]:
        """Return `policies`; a report of before there were several is of the default one."""
        return self.policies or {DEFAULT_POLICY: ReportedPolicy(self.wanted, self.applied, self.bundle)}

    @property
    def bundles(self) -> dict[str, str]:
        """Return the digest of the active bundle of each policy that has one."""
        return {name: of.bundle for name, of in self.by_policy.items() if of.applied is not None}


def encode_report(report: HostReport) -> bytes:
    """Return the JSON of a report."""
    return msgspec.json.encode(report)


def read_report(data: bytes, host: str) -> HostReport:
    """Read the bytes that the engine has as the report of a host.

    Raises:
        FleetError: they are not a report, or another host's.
    """
    if len(data) > MAX_REPORT:
        raise FleetError(f"the report of {host!r} has {len(data)} bytes; the most is {MAX_REPORT}")
    report = decode_document(data, HostReport, f"the report of {host!r}")
    if report.host != host:
        raise FleetError(f"the report of {host!r} says that it is of {report.host!r}")
    return report


def describe_false_time(at: int, now: int) -> str | None:
    """Return what is wrong with a report from the future, None if it is not; both times are ms of the engine's clock.

    The host itself may write the time, and a host of the year 2100 would never be silent.
    """
    if at <= now + SKEW:
        return None
    return (
        f"its report says that it comes {format_duration(min((at - now) / 1000, LONGEST))} from now, so it is unknown"
        " when the host was last seen: every process with the host's credentials can write that; give the host another"
        " password, and delete its report in the engine"
    )


def sum_gates(counts: Iterable[GateCounts]) -> GateCounts:
    """Return the sum of several hosts' counts; its `since` means nothing."""
    denied, numbers = Counter[str](), Counter[str]()
    for gates in counts:
        denied.update(gates.denied)
        numbers.update(decided=gates.decided, would_deny=gates.would_deny, would_ask=gates.would_ask)
    return GateCounts(denied=dict(denied), **numbers)
