"""The metrics for Prometheus: a page on the loopback, or a file for a collector.

The library's own threads serve the page.  They get values that were read on the daemon's loop in one step
(`trio.from_thread`), so no thread reads values that the loop is changing.  They are off by default, and a reload
changes that. An error is a fault in the status, is retried, and stops nothing else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.disks import limit_look
from hooklatch.errors import format_install_command
from hooklatch.files import create_anew
from hooklatch.metrics.measurements import measure_daemon
from hooklatch.service.api.contributions import Contribution
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.config.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import Metric

    from hooklatch.service.parts import DaemonComponents

__all__ = ["MetricsPublisher"]

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
        from hooklatch.metrics.server import serve_metrics  # here: it took 10 ms of each start

        page = Page(self.measured)
        with serve_metrics(port, page.answer):
            logger.info("metrics are given", extra={"port": port})
            task_status.started()
            await trio.sleep_forever()

    async def _write(self, path: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        page = Page(self.measured)
        try:
            while True:
                await trio.to_thread.run_sync(lambda: write_whole(path, page.text()))
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await trio.sleep(WRITE_INTERVAL)
        finally:
            with trio.CancelScope(shield=True), suppress(OSError):  # a daemon that has ended must not look alive
                await trio.to_thread.run_sync(remove, path)


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
