"""The status of each host and its problems: from its report, its log and the engine's clock.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hooklatch.core.text import format_count, format_duration
from hooklatch.fleet.engine.engine import StoredReport
from hooklatch.fleet.enrolment import NOBODY, VANISHED, Enrolments
from hooklatch.fleet.manifests import DEFAULT_POLICY, SKEW, FleetError
from hooklatch.fleet.reports import (
    LEFT,
    LONGEST,
    GateCounts,
    HostReport,
    RecordHead,
    ReportedPolicy,
    describe_false_time,
    read_report,
)

__all__ = ["FleetHosts", "HostStatus", "list_host_statuses"]


MISSED = 3  # reports that have not come, after which a host is silent
EVERY = 60.0  # seconds between two reports of a host whose last one cannot be read
# Fields of a report that are shown as the host has told them.
AS_TOLD = (
    "host", "labels", "wanted", "applied", "bundle", "health", "record", "shipped", "unshipped", "lost", "link",
    "gates",
)  # fmt: skip


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a host.  `wrong` are its problems, in words; empty: all is well.

    `seen_s` is the age of its report, None if it has none, or one from the future.  `stale_s` are the seconds since the
    host was last at the engine's head.  `policies` has the versions of each policy; `wanted` and `applied` are the
    newest.  `behind` is how many versions it has not read.  `proven`: the host was enrolled, and its key has signed its
    report.  `gates` counts its decisions since its active bundles took effect.
    """

    host: str
    labels: tuple[str, ...] = ()
    is_silent: bool = False
    seen_s: float | None = None
    head: int = 0
    wanted: int | None = None
    applied: int | None = None
    bundle: str = ""
    policies: dict[str, ReportedPolicy] = {}
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
    proven: bool = False
    gates: GateCounts = GateCounts()


class FleetHosts(msgspec.Struct, frozen=True):
    """`fleet status`: hosts that are silent first, then those with something wrong; `ok` if there is none.

    `retired` are the hosts that were retired and have not reported since, which do not count.  `fullness` is the share
    of the engine's memory that is taken, null if it has no limit, or it may not be known.  `url` names the engine.
    `enrolments`: who was enrolled may be known here.
    """

    fleet: str
    newest: int
    engine: dict[str, str]
    ok: bool
    hosts: list[HostStatus]
    retired: list[str] = []
    fullness: float | None = None
    url: str = ""
    enrolments: bool = True


def list_host_statuses(
    reports: Iterable[StoredReport],
    logs: Iterable[tuple[str, int]],
    *,
    newest: int,
    now: int,
    silent_after: float | None = None,
    fleet: str = "",
    enrolments: Enrolments = NOBODY,
) -> list[HostStatus]:
    """Return each host's status: silent ones first, then those with something wrong, each group by name.

    Hosts that are retired and have not reported since are left out.

    `newest` is the fleet's newest version.  `now` is the engine's time in ms since the epoch, and is compared with
    times of the engine's clock only.  A host is silent after `silent_after` seconds without a report, or by default
    when three of its reports have not come.
    """
    epochs: dict[str, int] = {}
    for host, epoch in logs:
        epochs[host] = max(epoch, epochs.get(host, 0))
    statuses: dict[str, HostStatus] = {}
    for report in reports:
        status = find_host_status(report, epochs.pop(report.host, 0), newest, now, silent_after)
        faults = enrolments.list_faults(fleet, report)
        if not faults and enrolments.find_retirement(report.host) is not None:
            continue
        is_proven = not faults and enrolments.find_key(report.host) is not None
        if is_proven and -status.skew_s > SKEW:  # by such a clock it takes no timestamps either
            faults = [
                f"its report was made {format_duration(-status.skew_s)} before it came: an old one was stored again, as"
                " every process with the host's credentials can, or the host's clock is wrong"
            ]
        statuses[report.host] = msgspec.structs.replace(status, wrong=(*status.wrong, *faults), proven=is_proven)
    for host, epoch in epochs.items():
        if enrolments.find_retirement(host) is None:
            problem = "it has a log and no report: its link has never reported, or its report was removed"
            problems = (problem, *enrolments.list_strangers(host))
            statuses[host] = HostStatus(host=host, is_silent=True, epoch=epoch, behind=newest, wrong=problems)
    for host in enrolments.joined - statuses.keys():
        statuses[host] = HostStatus(host=host, is_silent=True, behind=newest, wrong=(VANISHED,))
    return sorted(statuses.values(), key=lambda status: (not status.is_silent, not status.wrong, status.host))


def find_host_status(report: StoredReport, epoch: int, newest: int, now: int, silent_after: float | None) -> HostStatus:
    false_time = describe_false_time(report.at, now)
    seconds_ago = max(0.0, (now - report.at) / 1000) if false_time is None else None
    host_report: HostReport | None = None
    unreadable = list[str]()
    try:
        host_report = read_report(report.data, report.host)
    except FleetError as error:
        unreadable.append(str(error))
    every = host_report.every_s if host_report is not None else EVERY
    bound = MISSED * every if silent_after is None else silent_after
    is_silent = seconds_ago is None or seconds_ago > bound
    problems = [false_time] if false_time is not None else []
    if seconds_ago is not None and is_silent:
        problems = [f"silent for {format_duration(seconds_ago)}: its link, its machine or the network is down"]
    if host_report is None:
        return HostStatus(
            host=report.host, is_silent=is_silent, seen_s=seconds_ago, behind=newest, epoch=epoch,
            wrong=(*problems, *unreadable),
        )  # fmt: skip
    if host_report.health == LEFT and false_time is None:
        is_silent, problems = False, []  # it said why
    skew = (host_report.clock - min(report.at, now)) / 1000 if host_report.clock else 0.0
    stale_s = None
    if host_report.stale_s is not None and seconds_ago is not None:
        stale_s = min(max(0.0, host_report.stale_s), LONGEST) + seconds_ago
    return HostStatus(
        **{name: getattr(host_report, name) for name in AS_TOLD},
        is_silent=is_silent,
        seen_s=seconds_ago,
        head=host_report.head.version,
        policies=host_report.by_policy,
        behind=max(0, newest - host_report.head.version),
        stale_s=stale_s,
        epoch=max(epoch, host_report.epoch),
        skew_s=max(-LONGEST, min(skew, LONGEST)),
        wrong=(*problems, *list_report_problems(host_report, newest, epoch)),
    )


def list_report_problems(report: HostReport, newest: int, epoch: int) -> Iterable[str]:
    if report.health == LEFT:
        yield "it has left the fleet: [fleet] was taken out of its hooks.toml"
        yield from report.findings
        return
    if report.problem:
        yield report.problem
    if report.head.version < newest:
        yield f"it has not read {format_count(newest - report.head.version, 'version')} of the policy"
    elif report.head.version > newest:
        lost = f"it says that it has read version {report.head.version}, and the engine's newest is {newest}"
        yield f"{lost}: the engine lost some, or this host's word is false"
    for name, of in report.by_policy.items():
        if of.wanted != of.applied:
            of_policy = f" of the policy {name}" if name != DEFAULT_POLICY else ""
            yield f"version {of.wanted}{of_policy} should be active there, and {of.applied or 'none'} is"
        if of.observes:
            yield f"its policy {name} only observes until {of.observes}: nothing that it says is enforced there"
    if report.health != "ready":
        yield f"its daemon is {report.health}"
    if report.lost:
        yield f"{format_count(report.lost, 'record')} were removed there before they were shipped"
    if report.epoch > 1 or epoch > 1:
        count = max(report.epoch, epoch)
        yield f"its record began anew ({count} epochs); see: hooklatch fleet verify --host {report.host}"
    if report.shipped and report.epoch > epoch:
        yield f"it was told that epoch {report.epoch} of its log is here, and it is not: the engine lost it"
    yield from report.findings
