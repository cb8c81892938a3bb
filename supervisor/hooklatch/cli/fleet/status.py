"""The command `fleet status`: each host as the engine knows it, with its faults; also as metrics for a collector."""

from __future__ import annotations

import argparse
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.core.text import format_count, format_duration
from hooklatch.errors import format_install_command
from hooklatch.fleet.engine.engine import Engine, EngineError, EngineRefusedError, read_url
from hooklatch.fleet.enrolment import read_enrolments
from hooklatch.fleet.logs.reading import scan_fleet
from hooklatch.fleet.logs.statuses import FleetHosts, HostStatus, list_host_statuses
from hooklatch.fleet.manifests import DEFAULT_POLICY, FleetError
from hooklatch.fleet.reports import sum_gates
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.threads import in_thread

__all__ = ["add_status", "look_at_hosts", "prepare_fleet_page"]

ALONE = "with the rights of a host, this machine sees itself alone: how other hosts are, is not known here"
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
    parser.add_argument(
        "--also", metavar="FILE", action="append", default=[],
        help="another file of hooks, whose [fleet] names one more fleet or engine; may be repeated",
    )  # fmt: skip
    parser.add_argument("--prometheus", action="store_true", help="as metrics in text, for a collector of such files")
    access.add_access(parser)


def run_fleet_status(arguments: argparse.Namespace) -> int:
    """Print each host, those that are silent first."""
    if arguments.host and arguments.also:
        raise CommandError(Exit.USAGE, "--host names hosts of one fleet: leave --also out")
    fleets: list[FleetHosts] = []
    failure: CommandError | None = None
    # Without a fleet of its own a machine shows the others.
    has_own = not arguments.also or arguments.to or access.read_own_settings(arguments) is not None
    own = [arguments] if has_own else []
    for each in (*own, *(access.of_config(arguments, file) for file in arguments.also)):
        try:
            fleet_access = access.read_engine_access(each)
            work = partial(look_at_hosts, fleet=fleet_access.fleet, names=arguments.host, silent=arguments.silent)
            url = str(msgspec.structs.replace(read_url(fleet_access.url), user=None))
            fleets.append(msgspec.structs.replace(access.run_with_engine(fleet_access, work), url=url))
        except CommandError as error:  # an engine that is away hides no other fleet
            if not arguments.also:
                raise
            failure = error
            output.print_error(str(error))
    if arguments.json:
        for fleet in fleets:
            output.say_json(fleet)
    elif arguments.prometheus:
        for line in format_fleet_metrics(fleets).splitlines():
            output.print_line(line)
    else:
        print_hosts(fleets)
    if failure is not None:
        return failure.code
    # Findings are in the metrics, and there the command did what it was asked.
    return Exit.OK if arguments.prometheus or all(fleet.ok for fleet in fleets) else Exit.FINDINGS


async def look_at_hosts(
    engine: Engine, *, fleet: str, names: Collection[str] = (), silent: float | None = None
) -> FleetHosts:
    """Return each host of a fleet, or those with these names."""
    scan = await scan_fleet(engine, names)
    newest, facts = await engine.newest_version(), await engine.facts()
    enrolments = await read_enrolments(engine, is_required=not names)
    statuses = list_host_statuses(
        scan.reports, scan.logs, newest=newest, now=int(facts["clock"]), silent_after=silent, fleet=fleet,
        enrolments=enrolments,
    )  # fmt: skip
    statuses = [status for status in statuses if not names or status.host in names]
    retired = sorted(scan.hosts - {status.host for status in statuses})
    is_well = not any(status.wrong for status in statuses)
    return FleetHosts(
        fleet, newest, facts, is_well, statuses, retired, await engine.fullness(), enrolments=enrolments.is_readable
    )


def prepare_fleet_page(config: str | None) -> Callable[[], Awaitable[tuple[FleetHosts | None, str]]] | None:
    """Return a function that reads the hosts of the fleet for a page: these, or why not.

    None on a machine without [fleet]; one that cannot be read is told on the page.  With the rights of a host it reads
    that host alone, and returns both.
    """
    arguments = access.of_config(argparse.Namespace(), config)
    with suppress(CommandError):
        if access.read_own_settings(arguments) is None:
            return None

    async def look() -> tuple[FleetHosts | None, str]:
        try:
            own, settings = await in_thread(
                lambda: (access.read_engine_access(arguments), access.read_own_settings(arguments))
            )
            work = partial(look_at_hosts, fleet=own.fleet)
            try:
                return await access.work_connected(own, work), ""
            except EngineRefusedError:
                if settings is None:
                    raise
                return await access.work_connected(own, partial(work, names=[settings.host])), ALONE
        except (CommandError, EngineError, FleetError, NoLibraryError) as error:
            return None, str(error)

    return look


def print_hosts(fleets: Sequence[FleetHosts]) -> None:
    """Print the hosts of one fleet, or of several in one table."""
    for fleet in fleets:
        output.say_lines(*list_status_head(fleet), width=10)
    are_many = len(fleets) > 1
    rows = [(*([fleet.fleet] * are_many), *host_row(host)) for fleet in fleets for host in fleet.hosts]
    if rows:
        output.print_line()
        output.say_table((*(["FLEET"] * are_many), *TITLES), rows, drop=DROP)
    for fleet in fleets:
        for host in fleet.hosts:
            for text in (*host.wrong, *describe_clock_skew(host)):
                output.print_line(f"{f'{fleet.fleet} ' * are_many}{host.host}: {text}")


def list_status_head(fleet: FleetHosts) -> Iterator[tuple[str, Any]]:
    hosts, facts = fleet.hosts, fleet.engine
    gone = f", and {len(fleet.retired)} retired" if fleet.retired else ""
    silent, wrong = (sum(1 for host in hosts if getattr(host, name)) for name in ("is_silent", "wrong"))
    what = f"version {fleet.newest}" if fleet.newest else "nothing was ever pushed"
    yield "fleet", f"{fleet.fleet}, {what}"
    yield "hosts", f"{format_count(len(hosts), 'host')}, {silent} silent, {wrong} with something wrong{gone}"
    if not fleet.enrolments:
        yield "proven", "not known here: it cannot be read with these rights who was enrolled"
    elif hosts and not any(host.proven for host in hosts):
        yield "proven", "none: nobody has proven which machine any of these is (hooklatch fleet enroll)"
    gates = sum_gates(host.gates for host in hosts)
    if observing := list_observing(hosts):
        yield "OBSERVING", f"nothing is enforced of the policies {', '.join(observing)}"
    if gates.would_deny or gates.would_ask:
        count = f"{gates.would_deny} of {format_count(gates.decided, 'gate')} would have been denied too"
        asked = f", and {gates.would_ask} asked about" if gates.would_ask else ""
        yield "observed", f"{count}{asked}, by hooks that only observe"
    syncs = facts.get("appendfsync", "unknown") if facts.get("appendonly") == "yes" else facts.get("appendonly")
    yield "engine", f"{facts.get('engine')} {facts.get('version')}, writes to its log: {syncs}"


def list_observing(hosts: Sequence[HostStatus]) -> list[str]:
    """Return the policies that only observe on one of these hosts, each with its end."""
    return sorted(
        {f"{name} until {of.observes}" for host in hosts for name, of in host.policies.items() if of.observes}
    )


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
    "gates_decided": ("Gates decided since its bundles took effect.", lambda host: host.gates.decided),
    "gates_denied": ("Those of them that were denied.", lambda host: host.gates.denials),
    "gates_would_deny": ("Those that hooks which only observe would deny.", lambda host: host.gates.would_deny),
    "gates_would_ask": ("Those that such hooks would ask about.", lambda host: host.gates.would_ask),
    "observing": ("Policies there that only observe: how many.", lambda host: len(list_observing([host]))),
}


def format_fleet_metrics(fleets: Sequence[FleetHosts]) -> str:
    """Return the metrics of fleets as text.

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
        return Gauge(f"hooklatch_fleet_{name}", text, ("engine", "fleet", *labels), registry=registry)

    newest = gauge("newest_version", "The newest version of the policy; 0: none.")
    fullness = gauge("engine_fullness", "Share of the engine's memory that is taken.")
    of_hosts = {name: gauge(f"host_{name}", text, "host") for name, (text, _) in OF_HOSTS.items()}
    versions = gauge("host_policy_version", "A version of a policy there: wanted, applied.", "host", "policy", "which")
    for fleet in fleets:
        whose = (fleet.url, fleet.fleet)  # two engines may have fleets of one name
        newest.labels(*whose).set(fleet.newest)
        if fleet.fullness is not None:
            fullness.labels(*whose).set(fleet.fullness)
        for host in fleet.hosts:
            for name, (_, measure) in OF_HOSTS.items():
                of_hosts[name].labels(*whose, host.host).set(measure(host))
            for policy, of_policy in host.policies.items():
                versions.labels(*whose, host.host, policy, "wanted").set(of_policy.wanted or 0)
                versions.labels(*whose, host.host, policy, "applied").set(of_policy.applied or 0)
    return generate_latest(registry).decode()
