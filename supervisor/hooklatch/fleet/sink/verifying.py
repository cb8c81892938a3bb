"""Verifies hosts' logs: reads all of them from the engine, and the record on this machine.  Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hooklatch.fleet.engine.engine import Engine, StoredReport
from hooklatch.fleet.policy.manifests import FleetError
from hooklatch.fleet.policy.reports import HostReport, read_report
from hooklatch.fleet.sink.chains import HostCheck, HostVerified
from hooklatch.fleet.sink.local import LocalComparison, verify_local
from hooklatch.fleet.sink.reading import list_logs
from hooklatch.fleet.sink.trimming import read_trimmed
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
    """Check the logs of these hosts, or of all; by name.

    `local` is the host that this machine is, and the folder of its record; `witnesses` are heads that clients kept.

    Raises:
        EngineError: the engine cannot be read.
        NoRecordError: there is no record in the folder.
    """
    # Reports first: a host is told that a batch is taken after it is, so a log that is read later has it.
    reports = {report.host: report async for report in engine.reports() if hosts is None or report.host in hosts}
    logs = await list_logs(engine, hosts)
    found = sorted({*reports, *(host for host, _ in logs)})
    epochs = {host: [epoch for one, epoch in logs if one == host] for host in found}
    return [
        await verify_host(
            engine, host, epochs[host], reports.get(host),
            folder=local[1] if local is not None and local[0] == host else None, witnesses=witnesses,
        )
        for host in found
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
    find = read_or_find(check, report)
    # Usually the newest; an earlier one where another machine used this host's name for a while.
    current = find.epoch if find is not None and find.epoch in epochs else max(epochs, default=0)
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
    notes_then = await engine.notes(host)  # a note is written before anything is removed
    take_notes(check, notes_then)
    was_trimmed = notes_then != notes
    for epoch, known in facts.items():
        if known is not None and not was_trimmed:
            check.check_engine(epoch, known)
    check.check_times(int((await engine.facts())["clock"]))
    if find is not None and report is not None:
        check.check_arrivals(find, report.at)
    verified = check.end(find, witnesses)
    if was_trimmed:
        verified.notes.append("an operator trimmed this log meanwhile, so batches were not counted: verify again")
    if report is None:
        verified.notes.append("it has no report: its link has never reported, or the report was removed")
    if comparison is not None:
        verified.local = verify_local(comparison, check.heads(current))
    return verified


def take_notes(check: HostCheck, notes: Mapping[int, bytes]) -> None:
    try:
        check.trimmed(read_trimmed(notes))
    except FleetError as error:
        check.find("engine", str(error))


def read_or_find(check: HostCheck, report: StoredReport | None) -> HostReport | None:
    if report is None:
        return None
    try:
        return read_report(report.data, report.host)
    except FleetError as error:
        check.find("report", str(error))
        return None
