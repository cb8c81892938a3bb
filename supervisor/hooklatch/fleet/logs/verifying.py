"""The verification of hosts' logs in the engine, and of the record on this machine.  It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hooklatch.fleet.engine.engine import Engine, StoredReport
from hooklatch.fleet.enrolment import VANISHED, read_enrolments
from hooklatch.fleet.logs.chains import HostCheck, HostVerified, LocalComparison, ShippedByHost
from hooklatch.fleet.logs.reading import MAX_BYTES, describe_rest, scan_fleet
from hooklatch.fleet.logs.trimming import read_trimmed
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.reports import describe_false_time
from hooklatch.record.findings import ChainWitness

__all__ = ["verify_hosts"]

AT_ONCE = 8  # batches in memory


async def verify_hosts(
    engine: Engine,
    hosts: Collection[str] = (),
    *,
    fleet: str = "",
    local: tuple[str, str] | None = None,
    witnesses: Sequence[ChainWitness] = (),
) -> list[HostVerified]:
    """Check the logs of these hosts, or of all, in the order of their names.

    `local` is the host that this machine is, and the folder of its record; `witnesses` are heads that clients kept.

    Raises:
        EngineError: the engine cannot be read.
        NoHostError: a name is of no host.
        NoRecordError: there is no record in the folder.
    """
    scan = await scan_fleet(engine, hosts)
    reports = {report.host: report for report in scan.reports}
    enrolments = await read_enrolments(engine, is_required=not hosts)
    names = scan.hosts if hosts else scan.hosts | enrolments.joined
    checks = {host: HostCheck(host, fleet, enrolments) for host in sorted(names)}
    epochs: dict[str, list[int]] = {host: [] for host in checks}
    for host, epoch in scan.logs:
        epochs[host].append(epoch)
    for finding in scan.excess:
        checks[finding.host].add_finding(finding.what, finding.text)
    shipped = ShippedByHost()
    return [
        await verify_host(
            engine, check, epochs[host], reports.get(host), shipped, max_bytes=None if hosts else MAX_BYTES,
            folder=local[1] if local is not None and local[0] == host else None, witnesses=witnesses,
        )
        for host, check in checks.items()
    ]  # fmt: skip


async def verify_host(
    engine: Engine,
    check: HostCheck,
    epochs: Sequence[int],
    report: StoredReport | None,
    shipped: ShippedByHost,
    *,
    max_bytes: int | None,
    folder: str | None,
    witnesses: Sequence[ChainWitness],
) -> HostVerified:
    host, host_report = check.host, check.take_report(report)
    # Usually the newest epoch; an earlier one where another machine used this host's name for a while.
    current = host_report.epoch if host_report is not None and host_report.epoch in epochs else max(epochs, default=0)
    notes = await engine.notes(host)
    facts = {epoch: await engine.log_facts(host, epoch) for epoch in epochs}
    comparison = LocalComparison(folder) if folder is not None else None
    for epoch in epochs:
        after = 0
        while check.is_within(max_bytes) and (batches := await engine.batches(host, epoch, after, limit=AT_ONCE)):
            for batch in batches:
                arrival = check.take(epoch, batch)
                if comparison is not None:
                    comparison.take(arrival.entries, is_current=epoch == current)
            after = batches[-1].last
    notes_after = await engine.notes(host)  # a note is written before anything is removed
    try:
        check.take_trim_notes(read_trimmed(notes_after))
    except FleetError as error:
        check.add_finding("engine", str(error))
    was_trimmed = notes_after != notes
    if not check.is_within(max_bytes):  # what follows would compare with a part of the log only
        what = f"the log of {host} has more than {MAX_BYTES >> 30} GiB, and the rest was not read"
        check.add_finding("much", f"{what}; {describe_rest(host)}")
        facts, host_report = {}, None
    for epoch, log_facts in facts.items():
        if log_facts is not None and not was_trimmed:
            check.check_engine(epoch, log_facts)
    now = int((await engine.facts())["clock"])
    check.check_times(now)
    if report is not None and (false_time := describe_false_time(report.at, now)) is not None:
        check.add_finding("time", false_time)
    if host_report is not None and report is not None:
        check.check_arrivals(host_report, min(report.at, now))
    if report is None and not epochs:
        check.add_finding("engine", VANISHED)
    check.check_vouched()
    check.check_name(shipped)
    verified = check.end(host_report, witnesses)
    if was_trimmed:
        verified.notes.append("an operator trimmed this log in the meantime, so batches were not counted: verify again")
    if report is None and epochs:
        verified.notes.append("it has no report: its link has never reported, or the report was removed")
    if comparison is not None:
        verified.local = comparison.end(check.heads(current))
        verified.ok = verified.ok and verified.local.ok
    return verified
