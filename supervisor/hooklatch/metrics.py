"""The metrics for Prometheus: a page on the loopback, or a file for a collector.

The library's own threads serve the page.  They get values that were read on the daemon's loop in one step
(`trio.from_thread`), so no thread reads values that the loop is changing.  They are off by default, and a reload
changes that. An error is a fault in the status, is retried, and stops nothing else.

Names and units are those of Prometheus: seconds, bytes, counters that end in `_total`.  Labels are bounded: events of
the catalogue, hooks and sources of the global layers, causes.  The hooks of sessions are counted together.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.core.hooks.registry import Hook, HookState, PythonTarget
from hooklatch.core.messages import EngineFaultKind
from hooklatch.disks import limit_look
from hooklatch.errors import format_install_command
from hooklatch.files import create_anew
from hooklatch.record.storage.disk_space import DiskStage
from hooklatch.service.api.methods import Contribution
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.config.settings import Settings
from hooklatch.service.logs import LogHandler
from hooklatch.service.registry import statistics
from hooklatch.service.registry.statistics import BOUNDS_MS
from hooklatch.threads import in_thread
from hooklatch.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import Metric

    from hooklatch.service.parts import DaemonComponents

__all__ = ["MetricsPublisher", "measure_daemon"]

logger = logging.getLogger("hooklatch.metrics")
UNAVAILABLE = "503 Service Unavailable"
RETRY = 2.0  # seconds until a port that is in use, or a file that cannot be written, is tried again
WRITE_INTERVAL = 5.0  # seconds between two writings of the file
MISSING = "metrics need the package prometheus_client, which is not installed: "
T = TypeVar("T")


class MetricsPublisher(Contribution):
    """The task that publishes metrics at the places of the settings: a port, a file, both or neither."""

    def __init__(self, daemon: DaemonComponents) -> None:
        self.measured, self.faults = daemon.status, ActiveFaults()
        self.port: int | None = None
        self.path: str | None = None
        self._changed = trio.Event()

    @property
    def problems(self) -> list[str]:
        return list(self.faults)

    def take(self, settings: Settings) -> None:
        if (settings.metrics_port, settings.metrics_file) != (self.port, self.path):
            self.port, self.path = settings.metrics_port, settings.metrics_file
            self._changed.set()

    async def run(self) -> None:
        while True:
            changed = self._changed = trio.Event()
            port, path = self.port, self.path
            async with trio.open_nursery() as nursery:
                if port is not None:
                    nursery.start_soon(self._keep_publishing, self._serve, port)
                if path is not None:
                    nursery.start_soon(self._keep_publishing, self._write, path)
                await changed.wait()
                nursery.cancel_scope.cancel()

    async def _keep_publishing(self, publish: Callable[[T], Any], place: T) -> None:
        """Publish metrics at a port or in a file. An error is a fault while it lasts."""
        text: str | None = None
        try:
            while True:
                try:
                    async with trio.open_nursery() as nursery:
                        await nursery.start(publish, place)
                        text = self._report(place, None, before=text)
                except* ImportError:
                    text = self._report(place, MISSING + format_install_command("hooklatch[metrics]"), before=text)
                    await trio.sleep_forever()
                except* OSError as group:
                    error = group.exceptions[0]
                    explanation = getattr(error, "strerror", None) or error
                    fault = f"no metrics at {place}: {explanation}; choose another in [daemon]"
                    text = self._report(place, fault, before=text)
                await trio.sleep(RETRY)
        finally:
            self._report(place, None, before=text)

    def _report(self, place: object, text: str | None, *, before: str | None) -> str | None:
        if text is not None and text != before:
            logger.error("%s", text)
        self.faults.report(f"metrics at {place}", *([text] if text is not None else []))
        return text

    async def _serve(self, port: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        page = Page(self.measured)
        with serve_metrics(port, page.answer):
            logger.info("metrics are given", extra={"port": port})
            task_status.started()
            await trio.sleep_forever()

    async def _write(self, path: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        page = Page(self.measured)
        try:
            while True:
                await in_thread(lambda: write_whole(path, page.text()))
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await trio.sleep(WRITE_INTERVAL)
        finally:
            with trio.CancelScope(shield=True), suppress(OSError):  # a daemon that has ended must not look alive
                await in_thread(remove, path)


class Page:
    """The page of metrics, which answers the library's threads."""

    def __init__(self, status: StatusReport) -> None:
        import prometheus_client

        self._status = status
        self._token = trio.lowlevel.current_trio_token()
        self._registry = prometheus_client.CollectorRegistry()
        self._registry.register(self)
        prometheus_client.ProcessCollector(registry=self._registry)
        library: Any = prometheus_client  # its own annotations are partial
        self._metrics: Callable[..., Iterable[bytes]] = library.make_wsgi_app(self._registry)

    def describe(self) -> list[Metric]:
        return []  # otherwise registering would collect everything, here on the loop

    def collect(self) -> list[Metric]:
        return self._read_on_loop(partial(measure_daemon, self._status))

    def text(self) -> bytes:
        """Return all metrics, for the file."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, in a thread of its own (PEP 3333)."""
        try:
            if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
                return send_plain_response(start_response, "405 Method Not Allowed", "only GET is answered")
            match environ.get("PATH_INFO"):
                case "/metrics":
                    return self._metrics(environ, start_response)
                case "/healthz":
                    if self._read_on_loop(self._status.is_vital_well):
                        return send_plain_response(start_response, "200 OK", "ok")
                    return send_plain_response(
                        start_response, UNAVAILABLE, "a vital part is not well; status says which"
                    )
                case "/readyz":
                    state = self._read_on_loop(self._status.report_health)
                    text = " ".join([state["health"], *state["reasons"]])
                    return send_plain_response(start_response, "200 OK" if text == "ready" else UNAVAILABLE, text)
                case _:
                    return send_plain_response(
                        start_response, "404 Not Found", "there are /metrics, /healthz and /readyz"
                    )
        except (trio.RunFinishedError, trio.Cancelled):
            return send_plain_response(start_response, UNAVAILABLE, "the daemon has ended")

    def _read_on_loop(self, look: Callable[[], T]) -> T:
        return trio.from_thread.run_sync(look, trio_token=self._token)


def send_plain_response(start_response: Callable[..., Any], status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [f"{text}\n".encode()]


remove = limit_look(os.unlink)


@limit_look
def write_whole(path: str, data: bytes) -> None:
    """Replace the file in one step.  It holds names and counts, for a collector that is another user: 0644."""
    new = f"{path}.{os.getpid()}.new"
    fd = create_anew(new)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
        os.rename(new, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


# -- the measurements ------------------------------------------------------------------------------------------------

OF_SESSIONS = "(sessions)"  # stands for the sources that only sessions use
Labels: TypeAlias = tuple[str, ...]


def measure_daemon(parts: StatusReport) -> list[Metric]:
    """Return all values at one moment."""
    groups = (
        measure_decisions, measure_calls, measure_hooks, measure_workers, record_metrics, measure_fleet,
        measure_process,
    )  # fmt: skip
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


def measure_calls(parts: StatusReport) -> Iterator[Metric]:
    """Yield a counter only where there is something to count."""
    counts: Counter[str] = Counter()
    for session in parts.dispatcher.call_watch.add_up().sessions.values():
        counts.update(session.mismatches)
    if counts:
        yield make_metric_family(
            "counter", "hooklatch_call_mismatches", "Calls that did not run as they were judged.", ("cause",),
            label_counts(counts),
        )  # fmt: skip


def measure_hooks(parts: StatusReport) -> Iterator[Metric]:
    hooks = {hook.name: hook for hook in parts.registries.shared_hooks()}
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
    named = set(list_sources(parts.registries.shared_hooks()))
    workers: Counter[tuple[str, str]] = Counter()
    waiting: Counter[str] = Counter()
    counts = Counter({"started": 0, "lost": 0, "recycled": 0}) + parts.sources.ended
    for (location, _), pool in parts.sources.pools.items():
        source, status = location if location in named else OF_SESSIONS, pool.status()
        counts.update(pool.counts)
        waiting[source] += status["waiting"]
        workers[source, "idle"] += status["idle"]
        workers[source, "busy"] += status["busy"]
        workers[source, "starting"] += status["starting"]
        workers[source, "condemned"] += status["condemned"]
    yield make_metric_family(
        "gauge", "hooklatch_workers", "Worker processes.", ("source", "state"), dict(workers.items())
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
        (which,): float(policy["version"]) if policy is not None else 0.0
        for which, policy in (("head", status["head"]), ("wanted", status["wanted"]), ("applied", status["applied"]))
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
    fault = status["engine"]
    kinds = get_args(EngineFaultKind)
    yield make_metric_family(
        "gauge", "hooklatch_fleet_engine_fault", "Whether the link finds this wrong with the engine.", ("kind",),
        {(kind,): float(fault is not None and fault["kind"] == kind) for kind in kinds},
    )  # fmt: skip
    yield make_metric_family(
        "counter", "hooklatch_fleet_events", "What happened.", ("action",), label_counts(Counter(status["counts"]))
    )
    shipping = parts.record.status()["shipping"]
    if shipping is not None:
        text = "Records that the engine has not acknowledged"
        for name, waiting, lost in (
            ("records", shipping["waiting_records"], shipping["lost_records"]),
            ("bytes", shipping["waiting_bytes"], shipping["lost_bytes"]),
        ):
            if waiting is not None:
                yield make_single_metric("gauge", f"hooklatch_fleet_waiting_{name}", f"{text}: {name}.", waiting)
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
        {(result,): parts.reloader.reloads[result] for result in ("good", "faulty")},
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


# -- the server of the page ------------------------------------------------------------------------------------------

LOOPBACK = "127.0.0.1"
CLIENT_TIMEOUT = 5.0  # seconds that a client may take for its request


class Server(ThreadingMixIn, WSGIServer):
    """The server, with a thread for each request. These are daemon threads, so none delays the daemon's end."""

    daemon_threads = True
    is_closing = False

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # WSGIServer's own method asks a name server for our name
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])
        self.setup_environ()

    def answer_all(self) -> None:
        while not self.is_closing:
            self.handle_request()

    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("a request for metrics failed", exc_info=True)


class MetricsRequestHandler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        logger.debug("metrics: %s", format % args)


@contextmanager
def serve_metrics(port: int, answer: Callable[..., Iterable[bytes]]) -> Generator[None]:
    """Answer on a port of the loopback for the duration of the block.

    Raises:
        OSError: the port is in use, or needs privileges.
    """
    server = make_server(LOOPBACK, port, answer, Server, MetricsRequestHandler)
    thread = threading.Thread(target=server.answer_all, name="hooklatch-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.is_closing = True
        with suppress(OSError):
            server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a client
        thread.join()
        server.server_close()
