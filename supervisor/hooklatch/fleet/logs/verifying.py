"""The verification of hosts' logs in the engine, and of the record on this machine.  It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from hooklatch.fleet.engine.engine import Engine, RecordBatch, StoredReport
from hooklatch.fleet.enrolment import Enrolments, describe_retirement, is_batch_signed, read_enrolments
from hooklatch.fleet.logs.chains import HostCheck, HostVerified, LocalComparison, ShippedByHost
from hooklatch.fleet.logs.reading import MAX_BYTES, LogFinding, describe_rest, limit_epochs, scan_fleet
from hooklatch.fleet.logs.trimming import read_trimmed
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.reports import HostReport, describe_false_time, read_report
from hooklatch.fleet.signing import KeyFormatError, read_public
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
    logs, excess = (scan.logs, list[LogFinding]()) if hosts else limit_epochs(scan.logs)
    enrolments = await read_enrolments(engine)
    checks = {host: HostCheck(host) for host in sorted(scan.hosts)}
    epochs: dict[str, list[int]] = {host: [] for host in checks}
    for host, epoch in logs:
        epochs[host].append(epoch)
    for finding in excess:
        checks[finding.host].add_finding(finding.what, finding.text)
    shipped = ShippedByHost()
    return [
        await verify_host(
            engine, check, epochs[host], reports.get(host), shipped, HostSignatures(fleet, host, enrolments),
            max_bytes=None if hosts else MAX_BYTES,
            folder=local[1] if local is not None and local[0] == host else None, witnesses=witnesses,
        )
        for host, check in checks.items()
    ]  # fmt: skip


class HostSignatures:
    """The check of a host's signatures: with the key that it was enrolled with, or else with the one that it names."""

    def __init__(self, fleet: str, host: str, enrolments: Enrolments) -> None:
        self._fleet = fleet
        self._host = host
        self._enrolments = enrolments
        self._key = enrolments.find_key(host)
        self.is_enrolled = self._key is not None
        self.notes: list[str] = []

    def take_report(self, check: HostCheck, host_report: HostReport | None, report: StoredReport | None) -> None:
        """Check the report, and whose key it names."""
        retired = self._enrolments.find_retirement(self._host)
        faults = self._enrolments.list_strangers(self._host)
        if report is not None:
            faults = self._enrolments.list_faults(self._fleet, report)
        for fault in faults:
            check.add_finding("identity", fault)
        if retired is not None:
            self.notes.append(describe_retirement(retired))
        elif not faults and not self.is_enrolled:
            unreadable = "whether it is enrolled cannot be read with the rights of a host"
            never = "nobody has proven who it is: it was never enrolled (hooklatch fleet enroll)"
            self.notes.append(never if self._enrolments.is_readable else unreadable)
        if self._key is None and host_report is not None and host_report.key:
            with suppress(KeyFormatError):  # which is a fault of the report
                self._key = read_public(host_report.key)

    def find_new_name(self, host: str) -> str:
        """Return the name that another host, which was retired, has now."""
        retired = self._enrolments.find_retirement(host)
        return retired.to if retired is not None else ""

    def take_batch(self, check: HostCheck, epoch: int, batch: RecordBatch) -> None:
        """Check a batch."""
        is_good = self._key is not None and is_batch_signed(self._fleet, self._host, epoch, batch, self._key)
        check.check_signature(epoch, batch, is_good=is_good, is_demanded=self.is_enrolled)


async def verify_host(
    engine: Engine,
    check: HostCheck,
    epochs: Sequence[int],
    report: StoredReport | None,
    shipped: ShippedByHost,
    signatures: HostSignatures,
    *,
    max_bytes: int | None,
    folder: str | None,
    witnesses: Sequence[ChainWitness],
) -> HostVerified:
    host = check.host
    host_report: HostReport | None = None
    try:
        host_report = read_report(report.data, host) if report is not None else None
    except FleetError as error:
        check.add_finding("report", str(error))
    signatures.take_report(check, host_report, report)
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
                signatures.take_batch(check, epoch, batch)
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
    check.check_vouched()
    check.check_name(shipped, signatures.find_new_name)
    verified = check.end(host_report, witnesses)
    verified.notes += signatures.notes
    verified.proven = verified.ok and signatures.is_enrolled
    if was_trimmed:
        verified.notes.append("an operator trimmed this log in the meantime, so batches were not counted: verify again")
    if report is None:
        verified.notes.append("it has no report: its link has never reported, or the report was removed")
    if comparison is not None:
        verified.local = comparison.end(check.heads(current))
        verified.ok = verified.ok and verified.local.ok
    return verified
