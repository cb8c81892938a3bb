"""What a host says of itself: the JSON that its link puts into the engine.  Knows values; reads no file and no engine.

The link writes it, `fleet status` and `fleet verify` show it, and the publisher compares hosts by it.  Anybody with a
host's credentials can write that host's report, so it proves nothing about that host: it can hold a rollout, or hide
what goes wrong there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from hooklatch.fleet.policy.manifests import FleetError, Name, PolicyHead

__all__ = ["FAULTS", "GateCounts", "HostReport", "RecordHead", "encode_report", "read_report", "sum_gates"]

MAX_REPORT = 64 * 1024  # bytes of a report as stored
# Causes of a denial that blame the hooks: they broke, hung, do not load, said what no hook may say, or are quarantined
# because of it.  The others blame the load, the disk, the request, or nobody.
FAULTS = frozenset({"crash", "timeout", "load", "protocol", "quarantined"})

Count = Annotated[int, Meta(ge=0)]


class GateCounts(msgspec.Struct, frozen=True):
    """Decisions of gates since the bundle in force took effect, and those of them that were denied, by their cause.

    `since` is the first record's seq that was counted.  Two reports with one `since` are of one count, so the later
    less the earlier is what happened between them; a version with the bundle that is in force already begins no new
    count.  `denied` has the causes of the record: "policy", "crash", "timeout", "load", …
    """

    since: Count = 0
    decided: Count = 0
    denied: dict[str, Count] = {}

    @property
    def faults(self) -> int:
        """Return how many were denied because a hook is broken."""
        return sum(count for cause, count in self.denied.items() if cause in FAULTS)

    def after(self, before: GateCounts | None) -> GateCounts:
        """Return what was counted since an earlier report; all of it if a new count has begun since."""
        if before is None or before.since != self.since or before.decided > self.decided:
            return self
        denied = {cause: max(0, count - before.denied.get(cause, 0)) for cause, count in self.denied.items()}
        return GateCounts(self.since, self.decided - before.decided, denied)


class RecordHead(msgspec.Struct, frozen=True):
    """The newest record on the host: what was written there up to it cannot be changed unnoticed any more."""

    seq: Count
    hash: str


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a host last said of itself.  A field that this version does not know is passed over.

    `head`     the newest version that it has read, and its digest
    `wanted`   the version that it should have, None if none is for it; `applied` the one in force, with its `bundle`
    `problem`  why `wanted` is not in force, or why the newest versions were refused
    `health`   the daemon's: "ready", "red", "draining", or "unreachable" if the link cannot reach it
    `stale_s`  seconds since the daemon was last at the engine's head; None if it never was
    `epoch`    of its log in the engine: each one after 1 is a record that began anew
    `record`   the newest record on the host; `shipped` the seq up to which the engine has them
    `unshipped`, `lost`  how many records wait, and how many were removed before they were shipped
    `findings` what is wrong with the record, as for `fleet verify`: "the record was truncated to 17", …
    `clock`    the host's, in ms since the epoch: the engine's clock at the same moment is that of the report itself
    """

    host: Name
    labels: tuple[Name, ...] = ()
    head: PolicyHead = PolicyHead()
    wanted: int | None = None
    applied: int | None = None
    bundle: str = ""
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
    clock: int = 0


def encode_report(report: HostReport) -> bytes:
    """Return the JSON of a report."""
    return msgspec.json.encode(report)


def read_report(data: bytes, host: str) -> HostReport:
    """Read what the engine has as the report of a host.

    Raises:
        FleetError: it is none, or another host's.
    """
    if len(data) > MAX_REPORT:
        raise FleetError(f"the report of {host!r} has {len(data)} bytes; the most is {MAX_REPORT}")
    try:
        report = msgspec.json.decode(data, type=HostReport)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FleetError(f"the report of {host!r} cannot be read: {error}") from None
    if report.host != host:
        raise FleetError(f"the report of {host!r} says that it is of {report.host!r}")
    return report


def sum_gates(counts: Iterable[GateCounts]) -> GateCounts:
    """Return the sum of what several hosts counted; its `since` means nothing."""
    decided, denied = 0, dict[str, int]()
    for one in counts:
        decided += one.decided
        for cause, count in one.denied.items():
            denied[cause] = denied.get(cause, 0) + count
    return GateCounts(0, decided, denied)
