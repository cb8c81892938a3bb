"""The command `fleet status`: each host as the engine knows it, with its faults; also as metrics for a collector."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.core.text import format_count, format_duration
from hooklatch.errors import format_install_command
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.enrolment import read_enrolments
from hooklatch.fleet.logs.reading import scan_fleet
from hooklatch.fleet.logs.statuses import FleetHosts, HostStatus, list_host_statuses
from hooklatch.fleet.manifests import DEFAULT_POLICY

__all__ = ["add_status"]

WIDEST = 20  # characters of a host's health, which the host itself reports
SKEW = 60.0  # seconds by which a clock may be off before it is shown
DROP = ("RECORD", "LABELS", "HEAD", "UNSHIPPED", "WANTED", "STALE")
TITLES = ("HOST", "LABELS", "HEAD", "WANTED", "APPLIED", "BEHIND", "STALE", "SEEN", "HEALTH", "RECORD", "UNSHIPPED")


def add_status(parser: Parser) -> None:
    parser.runs(run_fleet_status, example="hooklatch fleet status", exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.logs.statuses:FleetHosts")
    access.add_hosts(parser)
    silent = "a host is silent without a report for so long (three of its intervals: 3m)"
    parser.add_argument("--silent", metavar="TIME", type=parse_duration, help=silent)
    parser.add_argument("--prometheus", action="store_true", help="as metrics in text, for a collector of such files")
    access.add_access(parser)


def run_fleet_status(arguments: argparse.Namespace) -> int:
    """Print each host, those that are silent first."""
    fleet_access = access.read_engine_access(arguments)

    async def work(engine: Engine) -> tuple[int, dict[str, str], list[HostStatus], list[str], float | None]:
        scan = await scan_fleet(engine, arguments.host)
        newest, facts = await engine.newest_version(), await engine.facts()
        statuses = list_host_statuses(
            scan.reports, scan.logs, newest=newest, now=int(facts["clock"]), silent_after=arguments.silent,
            fleet=fleet_access.fleet, enrolments=await read_enrolments(engine),
        )  # fmt: skip
        retired = sorted(scan.hosts - {status.host for status in statuses})
        return newest, facts, statuses, retired, await engine.fullness()

    newest, facts, statuses, retired, fullness = access.run_with_engine(fleet_access, work)
    wrong = sum(1 for status in statuses if status.wrong)
    if arguments.json:
        output.say_json(FleetHosts(fleet_access.fleet, newest, facts, not wrong, statuses, retired))
        return Exit.FINDINGS if wrong else Exit.OK
    if arguments.prometheus:
        for line in format_fleet_metrics(fleet_access.fleet, newest, fullness, statuses).splitlines():
            output.print_line(line)
        return Exit.OK  # findings are in the metrics, and the command did what it was asked
    output.say_lines(*list_status_head(fleet_access.fleet, newest, facts, statuses, retired), width=10)
    if statuses:
        output.print_line()
        output.say_table(TITLES, [host_row(status) for status in statuses], drop=DROP)
    for status in statuses:
        for text in (*status.wrong, *describe_clock_skew(status)):
            output.print_line(f"{status.host}: {text}")
    return Exit.FINDINGS if wrong else Exit.OK


def list_status_head(
    fleet: str, newest: int, facts: dict[str, str], hosts: list[HostStatus], retired: list[str]
) -> Iterator[tuple[str, Any]]:
    gone = f", and {len(retired)} retired" if retired else ""
    silent, wrong = (sum(1 for host in hosts if getattr(host, name)) for name in ("is_silent", "wrong"))
    yield "fleet", f"{fleet}, version {newest}" if newest else f"{fleet}, nothing was ever pushed"
    yield "hosts", f"{format_count(len(hosts), 'host')}, {silent} silent, {wrong} with something wrong{gone}"
    if hosts and not any(host.proven for host in hosts):
        yield "proven", "none: nobody has proven which machine any of these is (hooklatch fleet enroll)"
    syncs = facts.get("appendfsync", "unknown") if facts.get("appendonly") == "yes" else facts.get("appendonly")
    yield "engine", f"{facts.get('engine')} {facts.get('version')}, writes to its log: {syncs}"


def host_row(status: HostStatus) -> tuple[object, ...]:
    unshipped = f"{status.unshipped}" + (f" ({status.lost} lost)" if status.lost else "")
    return (
        status.host, " ".join(status.labels) or None, status.head or None,
        format_versions({name: of.wanted for name, of in status.policies.items()}),
        format_versions({name: of.applied for name, of in status.policies.items()}),
        status.behind or None, format_since(status.stale_s),
        format_since(status.seen_s) + (" SILENT" if status.is_silent else ""), status.health[:WIDEST],
        f"{status.record.seq}:{status.record.hash[:16]}" if status.record is not None else None, unshipped,
    )  # fmt: skip


def format_versions(versions: dict[str, int | None]) -> str | None:
    """Return the version of each policy; without the name if there is only the default one."""
    known = {name: version for name, version in versions.items() if version is not None}
    if known.keys() == {DEFAULT_POLICY}:
        return str(known[DEFAULT_POLICY])
    return ", ".join(f"{name[:WIDEST]} {version}" for name, version in sorted(known.items())) or None


def format_since(seconds: float | None) -> str:
    return format_duration(seconds) if seconds is not None else "never"


def describe_clock_skew(status: HostStatus) -> Iterator[str]:
    if abs(status.skew_s) > SKEW:
        off = "ahead of" if status.skew_s > 0 else "behind"
        yield f"its clock is {format_duration(abs(status.skew_s))} {off} the engine's, or its link is slow"


def measure_seconds(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


# By the name after `hooklatch_fleet_host_`, as docs/reference/metrics.md lists them.
OF_HOSTS: dict[str, tuple[str, Callable[[HostStatus], float]]] = {
    "silent": ("1 if its reports have stopped coming.", lambda host: host.is_silent),
    "findings": ("What is wrong with it, as fleet status names it: how many.", lambda host: len(host.wrong)),
    "proven": ("1 if it was enrolled, and its key has signed its report.", lambda host: host.proven),
    "seen_seconds": ("Age of its last report; +Inf without one.", lambda host: measure_seconds(host.seen_s)),
    "stale_seconds": ("Time since its last contact; +Inf: never.", lambda host: measure_seconds(host.stale_s)),
    "behind_versions": ("Versions of the policy that it has not read.", lambda host: host.behind),
    "unshipped_records": ("Records that wait there to be shipped.", lambda host: host.unshipped),
    "lost_records": ("Records that it removed before they were shipped.", lambda host: host.lost),
}


def format_fleet_metrics(fleet: str, newest: int, fullness: float | None, hosts: Sequence[HostStatus]) -> str:
    """Return the metrics of a fleet as text; `fullness` is the share of the engine's memory that is taken.

    Raises:
        CommandError: the package prometheus-client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest
    except ImportError:
        text = f"the package prometheus-client is not installed: {format_install_command('hooklatch[metrics]')}"
        raise CommandError(Exit.UNAVAILABLE, text) from None
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"hooklatch_fleet_{name}", text, ("fleet", *labels), registry=registry)

    gauge("newest_version", "The newest version of the policy; 0: none.").labels(fleet).set(newest)
    if fullness is not None:
        gauge("engine_fullness", "Share of the engine's memory that is taken.").labels(fleet).set(fullness)
    for name, (text, measure) in OF_HOSTS.items():
        of_hosts = gauge(f"host_{name}", text, "host")
        for host in hosts:
            of_hosts.labels(fleet, host.host).set(measure(host))
    versions = gauge("host_policy_version", "A version of a policy there: wanted, applied.", "host", "policy", "which")
    for host in hosts:
        for policy, of_policy in host.policies.items():
            versions.labels(fleet, host.host, policy, "wanted").set(of_policy.wanted or 0)
            versions.labels(fleet, host.host, policy, "applied").set(of_policy.applied or 0)
    return generate_latest(registry).decode()
