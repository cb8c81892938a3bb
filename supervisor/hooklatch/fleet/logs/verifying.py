"""The verification of hosts' logs in the engine, and of the record on this machine.  It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hooklatch.fleet.engine.engine import Engine, StoredReport
from hooklatch.fleet.logs.chains import HostCheck, HostVerified, LocalComparison
from hooklatch.fleet.logs.reading import list_logs
from hooklatch.fleet.logs.trimming import read_trimmed
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.reports import HostReport, describe_false_time, read_report
from hooklatch.record.findings import ChainWitness

__all__ = ["verify_hosts"]

AT_ONCE = 8  # batches in memory


async def verify_hosts(
    engine: Engine,
    hosts: Collection[str] | None = None,
    *,
    local: tuple[str, str] | None = None,
    witnesses: Sequence[ChainWitness] = (),
) -> list[HostVerified]:
    """Check the logs of these hosts, or of all, in the order of their names.

    `local` is the host that this machine is, and the folder of its record; `witnesses` are heads that clients kept.

    Raises:
        EngineError: the engine cannot be read.
        NoRecordError: there is no record in the folder.
    """
    # Reports first: a host reports a batch only after the engine took it, so a log that is read later has it.
    reports = {report.host: report async for report in engine.reports() if hosts is None or report.host in hosts}
    logs = await list_logs(engine, hosts)
    names = sorted({*reports, *(host for host, _ in logs)})
    epochs = {host: [epoch for log_host, epoch in logs if log_host == host] for host in names}
    return [
        await verify_host(
            engine, host, epochs[host], reports.get(host),
            folder=local[1] if local is not None and local[0] == host else None, witnesses=witnesses,
        )
        for host in names
    ]  # fmt: skip


async def verify_host(
    engine: Engine,
    host: str,
    epochs: Sequence[int],
    report: StoredReport | None,
    *,
    folder: str | None,
    witnesses: Sequence[ChainWitness],
) -> HostVerified:
    check = HostCheck(host)
    host_report: HostReport | None = None
    try:
        host_report = read_report(report.data, host) if report is not None else None
    except FleetError as error:
        check.add_finding("report", str(error))
    # Usually the newest epoch; an earlier one where another machine used this host's name for a while.
    current = host_report.epoch if host_report is not None and host_report.epoch in epochs else max(epochs, default=0)
    notes = await engine.notes(host)
    facts = {epoch: await engine.log_facts(host, epoch) for epoch in epochs}
    comparison = LocalComparison(folder) if folder is not None else None
    for epoch in epochs:
        after = 0
        while batches := await engine.batches(host, epoch, after, limit=AT_ONCE):
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
    for epoch, log_facts in facts.items():
        if log_facts is not None and not was_trimmed:
            check.check_engine(epoch, log_facts)
    now = int((await engine.facts())["clock"])
    check.check_times(now)
    if report is not None and (false_time := describe_false_time(report.at, now)) is not None:
        check.add_finding("time", false_time)
    if host_report is not None and report is not None:
        check.check_arrivals(host_report, min(report.at, now))
    verified = check.end(host_report, witnesses)
    if was_trimmed:
        verified.notes.append("an operator trimmed this log in the meantime, so batches were not counted: verify again")
    if report is None:
        verified.notes.append("it has no report: its link has never reported, or the report was removed")
    if comparison is not None:
        verified.local = comparison.end(check.heads(current))
        verified.ok = verified.ok and verified.local.ok
    return verified
