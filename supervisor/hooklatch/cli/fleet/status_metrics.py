"""The output of `fleet status --prometheus`: what is known of each host, for a collector that reads text files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.errors import format_install_command
from hooklatch.fleet.logs.statuses import HostStatus

__all__ = ["format_fleet_metrics"]


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
