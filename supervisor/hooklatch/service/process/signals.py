"""What the daemon is told from outside, by signals: reload, drain, leave now.  Knows signals and the hub; no hook.

SIGTERM, SIGINT   before it is ready: it leaves at once. Then: it drains; a second one ends the wait
                  (`stop` over the admin socket is a SIGTERM to ourselves, and never a second one)
SIGHUP            it reloads
SIGCHLD           what nobody else waits for is reaped: as process 1 of a container it adopts strangers
"""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from functools import partial

import trio

from hooklatch.processes.reaping import reap_strangers
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.service.api.hub import Hub
from hooklatch.service.process.service_manager import Notifier

__all__ = ["DRAIN_TIMEOUT", "Signals"]

logger = logging.getLogger("hooklatch.daemon")
DRAIN_TIMEOUT = 10.0  # seconds that fires under way are given when the daemon is asked to end
FLUSH_TIMEOUT = 1.0  # seconds in which clients must then take their answers
FLUSH_INTERVAL = 0.005


class Signals:
    """Obeys signals; `starting` is cancelled by one that ends the daemon before it was ready."""

    def __init__(self, notifier: Notifier) -> None:
        self.starting = trio.CancelScope()
        self.ended = trio.Event()
        self._notifier = notifier
        self._hub: Hub | None = None
        self._supervisor = Supervisor("orders")
        self._reload = trio.Lock()

    def begin(self, hub: Hub) -> None:
        """Have the orders that come from now on be about this hub."""
        self._hub = hub
        hub.end = lambda: signal.raise_signal(signal.SIGTERM)

    @property
    def spec(self) -> ChildSpec:
        """How it is supervised."""
        return ChildSpec("orders", self.obey, reports_start=True, below=self._supervisor)

    async def obey(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD) as signals:
            # Apart from this task: without the receiver, the next signal would end the daemon as the system does it.
            async with self._supervisor.open() as supervisor:
                await supervisor.start(ChildSpec("signals", partial(self._hear, signals)))
                task_status.started()
                await trio.sleep_forever()

    async def _hear(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._take(number)

    def _take(self, number: int) -> None:
        hub = self._hub
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGHUP:
            if hub is not None:  # else the start reads everything anyway
                self._supervisor.spawn("reload", self._take_changes, hub)
        elif hub is None:
            logger.info("stopping before it was ready", extra={"signal": number})
            self.ended.set()
            self.starting.cancel()
        elif hub.dispatcher.is_draining:
            logger.warning("stopping without waiting further")
            self._end(hub)
        else:
            logger.info("draining", extra={"signal": number})
            hub.dispatcher.is_draining = True
            hub.stop_accepting()
            self._supervisor.spawn("drain", self._drain, hub)

    def _reap(self) -> None:
        try:
            reap_strangers()
        except OSError as error:  # no descriptor is left to look with; the next signal finds them too
            logger.warning("dead children are not reaped yet: %s", error)

    async def _take_changes(self, hub: Hub) -> None:
        async with self._reload:
            await self._notifier.reloading()
            await hub.reload()
            if not hub.dispatcher.is_draining:
                await self._notifier.ready(f"revision {hub.registries.view.revision}")

    async def _drain(self, hub: Hub) -> None:
        try:
            await self._notifier.stopping("draining: fires under way are answered, new gates denied")
            with trio.move_on_after(DRAIN_TIMEOUT):
                await hub.dispatcher.quiesced()
                with trio.move_on_after(FLUSH_TIMEOUT):
                    while not all(connection.is_quiet for connection in hub.bus.connections.values()):  # noqa: ASYNC110
                        await trio.sleep(FLUSH_INTERVAL)  # a client takes its answer when it likes
        finally:
            self._end(hub)  # whatever happens: it was asked to leave

    def _end(self, hub: Hub) -> None:
        hub.dispatcher.stop()
        self.ended.set()
