"""The daemon's metrics, of the parts that `status` shows too.  They are read in one step, with prometheus_client.

Names and units are those of Prometheus: seconds, bytes, counters that end in `_total`.  Labels are bounded: events of
the catalogue, hooks and sources of the global layers, causes.  The hooks of sessions are counted together.
"""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from hooklatch.core.hooks.registry import Hook, HookState, PythonTarget
from hooklatch.record.storage.disk_space import DiskStage
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.logs import LogHandler
from hooklatch.service.registry import statistics
from hooklatch.service.registry.statistics import BOUNDS_MS
from hooklatch.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["measure_daemon"]

OF_SESSIONS = "(sessions)"  # stands for the sources that only sessions use
Labels: TypeAlias = tuple[str, ...]


def measure_daemon(parts: StatusReport) -> list[Metric]:
    """Return all values at one moment."""
    groups = (measure_decisions, measure_hooks, measure_workers, record_metrics, measure_fleet, measure_process)
    return [metric for group in groups for metric in group(parts)]


def measure_decisions(parts: StatusReport) -> Iterator[Metric]:
    decisions: dict[Labels, float] = dict(parts.statistics.decisions.items())
    yield make_metric_family(
        "counter", "hooklatch_decisions", "Decisions by event, verdict and cause.", ("event", "verdict", "cause"),
        decisions,
    )  # fmt: skip
    yield make_metric_family(
        "histogram", "hooklatch_fire_duration_seconds", "Time from a fire to its decision.", ("event",),
        {(event,): make_histogram(record) for event, record in parts.statistics.event_statistics.items()},
    )  # fmt: skip
    yield make_metric_family(
        "counter",
        "hooklatch_dropped",
        "Calls and fires that were dropped.",
        ("reason",),
        label_counts(parts.statistics.dropped),
    )


def measure_hooks(parts: StatusReport) -> Iterator[Metric]:
    hooks = {hook.name: hook for hook in parts.registries.all_hooks()}
    known = [(name, found) for name in hooks if (found := parts.statistics.hook_statistics(name)) is not None]
    yield make_metric_family(
        "summary", "hooklatch_hook_duration_seconds", "Time that calls of a global hook took.", ("hook",),
        {(name,): {"count_value": record.count, "sum_value": record.total_ms / 1000} for name, record in known},
    )  # fmt: skip
    yield make_metric_family(
        "counter", "hooklatch_hook_failures", "Calls of a global hook that failed.", ("hook", "cause"),
        {(name, cause): count for name, record in known for cause, count in record.failures.items()},
    )  # fmt: skip
    states: Counter[str] = Counter(dict.fromkeys(sorted(get_args(HookState)), 0))
    states.update(parts.state_of(hook) for hook in hooks.values())
    yield make_metric_family("gauge", "hooklatch_hooks", "Global hooks by state.", ("state",), label_counts(states))


def measure_workers(parts: StatusReport) -> Iterator[Metric]:
    named = set(list_sources(parts.registries.all_hooks()))
    workers: Counter[tuple[str, str]] = Counter()
    waiting: Counter[str] = Counter()
    counts = Counter({"started": 0, "lost": 0, "recycled": 0}) + parts.sources.ended
    for (location, _), pool in parts.sources.pools.items():
        source, status = location if location in named else OF_SESSIONS, pool.status()
        counts.update(pool.counts)
        waiting[source] += status.waiting
        for state in ("idle", "busy", "starting", "condemned"):
            workers[source, state] += getattr(status, state)
    yield make_metric_family(
        "gauge",
        "hooklatch_workers",
        "Worker processes.",
        ("source", "state"),
        dict(workers.items()),
    )
    yield make_metric_family(
        "gauge", "hooklatch_waiting_calls", "Calls that wait for a worker.", ("source",), label_counts(waiting)
    )
    for name, text in (
        ("started", "Workers that were started."),
        ("lost", "Workers that died or were killed, and were replaced."),
        ("recycled", "Workers that were replaced for their age or size."),
    ):
        yield make_single_metric("counter", f"hooklatch_workers_{name}", text, counts[name])
    zygote = parts.sources.zygote
    yield make_single_metric(
        "counter", "hooklatch_zygote_restarts", "Times that the zygote was restarted.", zygote.restarts
    )
    yield make_single_metric("gauge", "hooklatch_zygote_up", "Whether the zygote runs.", zygote.is_alive)


def record_metrics(parts: StatusReport) -> Iterator[Metric]:
    status = parts.record.status()
    stages: dict[Labels, float] = {(stage.label,): float(stage.label == status["stage"]) for stage in DiskStage}
    head = parts.record.head
    yield make_metric_family(
        "gauge", "hooklatch_record_stage", "Stage of the record's disk: 1 for the present one.", ("stage",), stages
    )
    yield make_single_metric(
        "gauge", "hooklatch_record_seq", "Number of the last record.", head.seq if head is not None else 0
    )
    yield make_single_metric("gauge", "hooklatch_record_size_bytes", "Size of all segments.", status["bytes"])
    yield make_single_metric("gauge", "hooklatch_record_up", "Whether records can be written.", parts.record.is_sound)


def measure_fleet(parts: StatusReport) -> Iterator[Metric]:
    """Return the fleet's metrics, or nothing if there is no fleet."""
    status = parts.fleet.status()
    if status is None:
        return
    versions: dict[Labels, float] = {
        (which,): float(policy.version) if policy is not None else 0.0
        for which in ("head", "wanted", "applied")
        for policy in (status[which],)
    }
    yield make_metric_family(
        "gauge", "hooklatch_fleet_version", "Versions of the fleet's policy; 0: none.", ("which",), versions
    )
    stale = status["stale_s"]
    yield make_single_metric(
        "gauge", "hooklatch_fleet_staleness_seconds", "Time since the last contact; +Inf: never.",
        stale if stale is not None else float("inf"),
    )  # fmt: skip
    yield make_single_metric("gauge", "hooklatch_fleet_stale", "Whether that is too long.", status["is_stale"])
    yield make_single_metric("gauge", "hooklatch_fleet_links", "Links that are connected.", status["links"])
    yield make_metric_family(
        "counter", "hooklatch_fleet_events", "What happened.", ("action",), label_counts(Counter(status["counts"]))
    )
    shipping = parts.record.status()["shipping"]
    if shipping is not None:
        text = "Records that the engine has not acknowledged"
        for name in ("records", "bytes"):
            waiting = shipping[f"waiting_{name}"]
            if waiting is not None:
                yield make_single_metric("gauge", f"hooklatch_fleet_waiting_{name}", f"{text}: {name}.", waiting)
            lost = shipping[f"lost_{name}"]
            yield make_single_metric(
                "counter", f"hooklatch_fleet_lost_{name}", f"{text} and retention removed: {name}.", lost
            )


def measure_process(parts: StatusReport) -> Iterator[Metric]:
    state = parts.report_health()
    build = (VERSION, platform.python_version())
    yield make_metric_family(
        "gauge", "hooklatch_build_info", "The running version.", ("version", "python"), {build: 1.0}
    )
    yield make_single_metric(
        "gauge", "hooklatch_ready", "Whether the daemon is healthy and accepts fires.", state["health"] == "ready"
    )
    yield make_single_metric(
        "gauge", "hooklatch_draining", "Whether the daemon is draining.", parts.dispatcher.is_draining
    )
    wrong: dict[Labels, float] = {(reason,): 1.0 for reason in state["reasons"]}
    yield make_metric_family("gauge", "hooklatch_red", "1 for each reason for which health is red.", ("reason",), wrong)
    yield make_single_metric("gauge", "hooklatch_asks", "Asks that wait for a person.", len(parts.asks))
    yield make_single_metric("gauge", "hooklatch_sessions", "Live sessions.", len(parts.sessions))
    yield make_single_metric("gauge", "hooklatch_connections", "Open connections.", len(parts.bus.connections))
    yield make_single_metric("gauge", "hooklatch_registry_revision", "Revision of the global hooks.", state["revision"])
    held = parts.shared_state.keyspace.total
    yield make_single_metric("gauge", "hooklatch_state_keys", "Values that hooks remember.", held.keys)
    yield make_single_metric("gauge", "hooklatch_state_bytes", "Size of what hooks remember.", held.bytes)
    lost = sum(log.dropped for log in logging.getLogger().handlers if isinstance(log, LogHandler))
    yield make_single_metric("counter", "hooklatch_log_lines_dropped", "Lines of the log that were dropped.", lost)
    yield make_metric_family(
        "counter", "hooklatch_reloads", "Reloads by result.", ("result",),
        {(result,): parts.files.reloads[result] for result in ("good", "faulty")},
    )  # fmt: skip


def list_sources(hooks: Iterable[Hook]) -> Iterator[str]:
    for hook in hooks:
        if isinstance(hook.target, PythonTarget):
            yield hook.target.source.location


def label_counts(counts: Counter[str]) -> dict[Labels, float]:
    return {(label,): count for label, count in counts.items()}


def make_single_metric(kind: Literal["counter", "gauge"], name: str, text: str, value: float) -> Metric:
    return make_metric_family(kind, name, text, (), {(): float(value)})


def make_metric_family(
    kind: Literal["counter", "gauge", "histogram", "summary"],
    name: str,
    text: str,
    labels: Labels,
    values: Mapping[Labels, float | dict[str, Any]],
) -> Metric:
    """Return a metric with a value for each set of labels. Its name has no suffix that the library adds itself."""
    from prometheus_client import core

    family: Any = {
        "counter": core.CounterMetricFamily,
        "gauge": core.GaugeMetricFamily,
        "histogram": core.HistogramMetricFamily,
        "summary": core.SummaryMetricFamily,
    }[kind](name, text, labels=labels)
    for label, value in values.items():
        family.add_metric(label, **(value if isinstance(value, dict) else {"value": value}))
    return family  # type: ignore[no-any-return]  # each class has an add_metric of its own


def make_histogram(record: statistics.CallStatistics) -> dict[str, Any]:
    bounds = [*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf"]
    counts = [float(count) for count in accumulate(record.buckets)]
    return {"buckets": list(zip(bounds, counts, strict=True)), "sum_value": record.total_ms / 1000}
