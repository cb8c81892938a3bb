"""The daemon's metrics, as a table of families.  Reads the parts in one step; needs no metrics library.

Names and units are those of Prometheus: seconds, bytes, counters that end in `_total`.  Labels are bounded: events of
the catalogue, hooks and sources of the global layers, causes.  What sessions register is counted together.
"""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.record.storage.disk import Stage
from hooklatch.record.writer import Record
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.sources import Sources
from hooklatch.service.process.logs import Log
from hooklatch.service.registry import statistics
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Sessions
from hooklatch.service.registry.statistics import BOUNDS_MS, Statistics
from hooklatch.service.transport.bus import Bus
from hooklatch.version import VERSION

__all__ = ["Family", "Measurements", "Spread"]

OF_SESSIONS = "(sessions)"  # stands for the sources that only sessions use


class Spread(msgspec.Struct, frozen=True):
    """Durations in seconds: how many, their sum, and how many were at most each bound."""

    count: int
    total: float
    up_to: list[tuple[str, float]] = []


Labels: TypeAlias = tuple[str, ...]
Values: TypeAlias = dict[Labels, float | Spread]


class Family(msgspec.Struct, frozen=True):
    """One metric: its name without the unit suffixes that the library adds, and a value for each set of labels."""

    kind: Literal["counter", "gauge", "histogram", "summary"]
    name: str
    text: str
    labels: Labels
    values: Values


class Measurements(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that are measured."""

    statistics: Statistics
    registries: Registries
    sources: Sources
    record: Record
    status: StatusReport
    dispatcher: Dispatcher
    sessions: Sessions
    bus: Bus
    shared_state: SharedState
    files: Files

    def measure(self) -> list[Family]:
        """Return all values at one moment."""
        return [
            *self._decisions(), *self._hooks(), *self._workers(), *self._recording(), *self._daemon(),
        ]  # fmt: skip

    def _decisions(self) -> Iterator[Family]:
        decisions: Values = dict(self.statistics.decisions.items())
        yield Family(
            "counter", "hooklatch_decisions", "Decisions by event, verdict and cause.", ("event", "verdict", "cause"),
            decisions,
        )  # fmt: skip
        yield Family(
            "histogram", "hooklatch_fire_duration_seconds", "Time from a fire to its decision.", ("event",),
            {(event,): spread(record) for event, record in self.statistics.event_records.items()},
        )  # fmt: skip
        yield Family(
            "counter",
            "hooklatch_dropped",
            "Calls and fires that were dropped.",
            ("reason",),
            by(self.statistics.dropped),
        )

    def _hooks(self) -> Iterator[Family]:
        hooks = {hook.name: hook for hook in self.registries.all_hooks()}
        known = [(name, found) for name in hooks if (found := self.statistics.hook_record(name)) is not None]
        yield Family(
            "summary", "hooklatch_hook_duration_seconds", "Time that calls of a global hook took.", ("hook",),
            {(name,): Spread(record.count, record.total_ms / 1000) for name, record in known},
        )  # fmt: skip
        yield Family(
            "counter", "hooklatch_hook_failures", "Calls of a global hook that failed.", ("hook", "cause"),
            {(name, cause): count for name, record in known for cause, count in record.failures.items()},
        )  # fmt: skip
        states: Counter[str] = Counter({"active": 0, "disabled": 0, "inactive": 0, "quarantined": 0, "suspended": 0})
        states.update(self.status.state_of(hook) for hook in hooks.values())
        yield Family("gauge", "hooklatch_hooks", "Global hooks by state.", ("state",), by(states))

    def _workers(self) -> Iterator[Family]:
        named = set(sources_of(self.registries.all_hooks()))
        workers: Counter[tuple[str, str]] = Counter()
        waiting: Counter[str] = Counter()
        counts = Counter({"started": 0, "lost": 0, "recycled": 0}) + self.sources.ended
        for (location, _), pool in self.sources.pools.items():
            source, status = location if location in named else OF_SESSIONS, pool.status()
            counts.update(pool.counts)
            waiting[source] += status.waiting
            for state in ("idle", "busy", "starting", "condemned"):
                workers[source, state] += getattr(status, state)
        yield Family(
            "gauge",
            "hooklatch_workers",
            "Worker processes.",
            ("source", "state"),
            dict(workers.items()),
        )
        yield Family("gauge", "hooklatch_waiting_calls", "Calls that wait for a worker.", ("source",), by(waiting))
        for name, text in (
            ("started", "Workers that were started."),
            ("lost", "Workers that died or were killed, and were replaced."),
            ("recycled", "Workers that were replaced for their age or size."),
        ):
            yield single("counter", f"hooklatch_workers_{name}", text, counts[name])
        zygote = self.sources.zygote
        yield single("counter", "hooklatch_zygote_restarts", "Times that the zygote was restarted.", zygote.restarts)
        yield single("gauge", "hooklatch_zygote_up", "Whether the zygote runs.", zygote.is_alive)

    def _recording(self) -> Iterator[Family]:
        status = self.record.status()
        stages: Values = {(stage.label,): float(stage.label == status["stage"]) for stage in Stage}
        head = self.record.head
        yield Family(
            "gauge", "hooklatch_record_stage", "Stage of the record's disk: 1 for the present one.", ("stage",), stages
        )
        yield single("gauge", "hooklatch_record_seq", "Number of the last record.", head.seq if head is not None else 0)
        yield single("gauge", "hooklatch_record_size_bytes", "Size of all segments.", status["bytes"])
        yield single("gauge", "hooklatch_record_up", "Whether records can be written.", self.record.is_sound)

    def _daemon(self) -> Iterator[Family]:
        state = self.status.report()
        build = (VERSION, platform.python_version())
        yield Family("gauge", "hooklatch_build_info", "The running version.", ("version", "python"), {build: 1.0})
        yield single(
            "gauge", "hooklatch_ready", "Whether the daemon is healthy and accepts fires.", state["health"] == "ready"
        )
        yield single("gauge", "hooklatch_draining", "Whether the daemon is draining.", self.dispatcher.is_draining)
        wrong: Values = {(reason,): 1.0 for reason in state["reasons"]}
        yield Family("gauge", "hooklatch_red", "1 for each reason for which health is red.", ("reason",), wrong)
        yield single("gauge", "hooklatch_sessions", "Live sessions.", len(self.sessions))
        yield single("gauge", "hooklatch_connections", "Open connections.", len(self.bus.connections))
        yield single("gauge", "hooklatch_registry_revision", "Revision of the global hooks.", state["revision"])
        held = self.shared_state.keyspace.total
        yield single("gauge", "hooklatch_state_keys", "Values that hooks remember.", held.keys)
        yield single("gauge", "hooklatch_state_bytes", "Size of what hooks remember.", held.bytes)
        lost = sum(log.dropped for log in logging.getLogger().handlers if isinstance(log, Log))
        yield single("counter", "hooklatch_log_lines_dropped", "Lines of the log that were dropped.", lost)
        yield Family(
            "counter", "hooklatch_reloads", "Reloads by result.", ("result",),
            {(result,): self.files.reloads[result] for result in ("good", "faulty")},
        )  # fmt: skip


def sources_of(hooks: Iterable[Hook]) -> Iterator[str]:
    for hook in hooks:
        if isinstance(hook.target, PythonTarget):
            yield hook.target.source.location


def by(counts: Counter[str]) -> Values:
    return {(label,): count for label, count in counts.items()}


def single(kind: Literal["counter", "gauge"], name: str, text: str, value: float) -> Family:
    return Family(kind, name, text, (), {(): float(value)})


def spread(record: statistics.Record) -> Spread:
    bounds = [*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf"]
    counts = [float(count) for count in accumulate(record.buckets)]
    return Spread(record.count, record.total_ms / 1000, list(zip(bounds, counts, strict=True)))
