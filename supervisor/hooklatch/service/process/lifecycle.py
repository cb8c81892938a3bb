"""Reloads or ends the daemon on request.  Knows when it drains and for how long; does not know hooks.

serving ──SIGHUP──▶ reload ──▶ serving
   │
   └──SIGTERM, SIGINT──▶ draining: fires under way are answered, new gates denied ──▶ ended
                            └── a second one, or 10 s ──────────────────────────────▶ ended
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Collection, Mapping

import trio

from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.service.api.administration import Administration
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.generations import Generations
from hooklatch.service.process.service_manager import Notifier
from hooklatch.service.transport.connection import Connection
from hooklatch.service.transport.server import Listener

__all__ = ["DRAIN_TIMEOUT", "Drain", "Lifecycle"]

logger = logging.getLogger("hooklatch.daemon")
DRAIN_TIMEOUT = 10.0  # seconds for fires under way to end when the daemon is asked to stop
FLUSH_TIMEOUT = 1.0  # seconds within which clients must then read their answers
FLUSH_INTERVAL = 0.005


class Drain:
    """The end of a daemon that was asked to stop: new gates are denied, fires under way are answered.

    `listeners` are those whose sockets outlive the daemon: they accept nobody from then on, so that clients that have
    connected wait for the next daemon.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        generations: Generations,
        connections: Mapping[int, Connection],
        listeners: Collection[Listener],
    ) -> None:
        self._dispatcher = dispatcher
        self._generations = generations
        self._connections = connections
        self._listeners = listeners

    @property
    def has_begun(self) -> bool:
        return self._dispatcher.is_draining

    def begin(self) -> None:
        """Deny what begins from now on."""
        self._dispatcher.is_draining = True
        for listener in self._listeners:
            listener.close()

    async def wait(self) -> None:
        """Wait until every request is answered and every answer read, within the timeouts."""
        with trio.move_on_after(DRAIN_TIMEOUT):
            await self._generations.quiesced()
            with trio.move_on_after(FLUSH_TIMEOUT):
                while not all(connection.is_quiet for connection in self._connections.values()):  # noqa: ASYNC110
                    await trio.sleep(FLUSH_INTERVAL)  # a client reads its answer in its own time

    def end(self) -> None:
        """Stop waiting for fires."""
        self._dispatcher.stop()


class Lifecycle:
    """Carries out what signals request; `ended` is set when the daemon has nothing left to do."""

    def __init__(
        self,
        requests: trio.MemoryReceiveChannel[int],
        notifier: Notifier,
        administration: Administration,
        drain: Drain,
    ) -> None:
        self.ended = trio.Event()
        self.supervisor = Supervisor("lifecycle")
        self._requests = requests
        self._notifier = notifier
        self._administration = administration
        self._drain = drain
        self._reload_lock = trio.Lock()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve requests until cancelled."""
        # Reading the requests is a child of its own: its failure must not cancel a drain.
        async with self.supervisor.open() as supervisor:
            await supervisor.start(ChildSpec("requests", self._take_all))
            task_status.started()
            await trio.sleep_forever()

    async def _take_all(self) -> None:
        async for number in self._requests:
            self._take(number)

    def _take(self, number: int) -> None:
        if number == signal.SIGHUP:
            self.supervisor.spawn("reload", self._reload)
        elif self._drain.has_begun:
            logger.warning("stopping without waiting further")
            self._end()
        else:
            logger.info("draining", extra={"signal": number})
            self._drain.begin()
            self.supervisor.spawn("drain", self._leave)

    async def _reload(self) -> None:
        async with self._reload_lock:
            await self._notifier.reloading()
            reloaded = await self._administration.reload()
            if not self._drain.has_begun:
                await self._notifier.ready(f"revision {reloaded.revision}")

    async def _leave(self) -> None:
        try:
            await self._notifier.stopping("draining: fires under way are answered, new gates denied")
            await self._drain.wait()
        finally:
            self._end()  # whatever happens: the daemon was asked to stop

    def _end(self) -> None:
        self._drain.end()
        self.ended.set()
