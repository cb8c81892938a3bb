"""What is known of each host, and what is wrong with it: from its report, its log and the engine's clock.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hooklatch.core.text import format_count, format_duration
from hooklatch.fleet.engine.engine import StoredReport
from hooklatch.fleet.policy.manifests import FleetError
from hooklatch.fleet.policy.reports import HostReport, RecordHead, read_report

__all__ = ["HostStatus", "list_host_statuses"]

LONGEST = 1e10  # seconds, some 300 years: a host may say any number


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A host.  `wrong` says what is wrong, in words; empty: all is well.

    `seen_s` is how long ago the engine heard its report, None if it has none; `stale_s` since the host was last at the
    engine's head; `behind` how many versions it has not read.
    """

    host: str
    labels: tuple[str, ...] = ()
    is_silent: bool = False
    seen_s: float | None = None
    head: int = 0
    wanted: int | None = None
    applied: int | None = None
    bundle: str = ""
    behind: int = 0
    stale_s: float | None = None
    health: str = "unknown"
    record: RecordHead | None = None
    epoch: int = 0
    shipped: int = 0
    unshipped: int = 0
    lost: int = 0
    skew_s: float = 0.0
    link: str = ""
    wrong: tuple[str, ...] = ()


def list_host_statuses(
    reports: Iterable[StoredReport], logs: Iterable[tuple[str, int]], *, newest: int, now: int, silent_after: float
) -> list[HostStatus]:
    """Return each host's status: silent ones first, then those with something wrong, each group by name.

    `newest` is the fleet's newest version; `now` the engine's time in ms since the epoch, which only the engine's clock
    and no host's is compared with; a host is silent after `silent_after` seconds without a report.
    """
    epochs: dict[str, int] = {}
    for host, epoch in logs:
        epochs[host] = max(epoch, epochs.get(host, 0))
    found: dict[str, HostStatus] = {}
    for report in reports:
        found[report.host] = find_host_status(report, epochs.get(report.host, 0), newest, now, silent_after)
    for host, epoch in epochs.items():
        if host not in found:
            wrong = ("it has a log and no report: its link has never reported, or its report was removed",)
            found[host] = HostStatus(host=host, is_silent=True, epoch=epoch, behind=newest, wrong=wrong)
    return sorted(found.values(), key=lambda one: (not one.is_silent, not one.wrong, one.host))


def find_host_status(report: StoredReport, epoch: int, newest: int, now: int, silent_after: float) -> HostStatus:
    seen = max(0.0, (now - report.at) / 1000)
    is_silent = seen > silent_after
    try:
        said = read_report(report.data, report.host)
    except FleetError as error:
        return HostStatus(
            host=report.host, is_silent=is_silent, seen_s=seen, behind=newest, epoch=epoch,
            wrong=(str(error),),
        )  # fmt: skip
    wrong = [f"silent for {format_duration(seen)}: its link, its machine or the network is down"] if is_silent else []
    return HostStatus(
        host=report.host,
        labels=said.labels,
        is_silent=is_silent,
        seen_s=seen,
        head=said.head.version,
        wanted=said.wanted,
        applied=said.applied,
        bundle=said.bundle,
        behind=max(0, newest - said.head.version),
        stale_s=min(max(0.0, said.stale_s), LONGEST) + seen if said.stale_s is not None else None,
        health=said.health,
        record=said.record,
        epoch=max(epoch, said.epoch),
        shipped=said.shipped,
        unshipped=said.unshipped,
        lost=said.lost,
        skew_s=max(-LONGEST, min((said.clock - report.at) / 1000, LONGEST)) if said.clock else 0.0,
        link=said.link,
        wrong=(*wrong, *list_report_problems(said, newest, epoch)),
    )


def list_report_problems(report: HostReport, newest: int, epoch: int) -> Iterable[str]:
    if report.problem:
        yield report.problem
    if report.head.version < newest:
        yield f"it has not read {format_count(newest - report.head.version, 'version')} of the policy"
    elif report.head.version > newest:
        yield f"it has read version {report.head.version}, and the engine's newest is {newest}: the engine lost some"
    if report.wanted != report.applied:
        yield f"version {report.wanted} should be in force there, and {report.applied or 'none'} is"
    if report.health != "ready":
        yield f"its daemon is {report.health}"
    if report.lost:
        yield f"{format_count(report.lost, 'record')} were removed there before they were shipped"
    if report.epoch > 1 or epoch > 1:
        yield (
            f"its record began anew ({max(report.epoch, epoch)} epochs); see: hooklatch fleet verify --host "
            f"{report.host}"
        )
    if report.shipped and report.epoch > epoch:
        yield f"it was told that epoch {report.epoch} of its log is here, and it is not: the engine lost it"
    yield from report.findings
