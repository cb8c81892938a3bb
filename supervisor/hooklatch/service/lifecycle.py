"""The reload and the end of the daemon, as signals request them.  Does not know hooks.

serving ──SIGHUP──▶ reload, which accepts nothing ──▶ serving: closing a terminal and rotating logs send it too
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
from hooklatch.service.api.hook_methods import Administration
from hooklatch.service.dispatch.fires import FireGenerations
from hooklatch.service.loading.plan import NOTHING
from hooklatch.service.service_manager import Notifier
from hooklatch.service.transport.connection import Connection
from hooklatch.service.transport.server import Listener

__all__ = ["DRAIN_TIMEOUT", "DaemonLifecycle"]

logger = logging.getLogger("hooklatch.daemon")
DRAIN_TIMEOUT = 10.0  # seconds for fires under way to end when the daemon is asked to stop
FLUSH_TIMEOUT = 1.0  # seconds within which clients must then read their answers
FLUSH_INTERVAL = 0.005


class DaemonLifecycle:
    """The task that carries out requests by signal. `ended` is set when the daemon has nothing left to do.

    `outliving` are the listeners whose sockets outlive the daemon. They accept no client once it drains, so that new
    clients wait for the next daemon.
    """

    def __init__(
        self,
        requests: trio.MemoryReceiveChannel[int],
        notifier: Notifier,
        administration: Administration,
        *,
        generations: FireGenerations,
        connections: Mapping[int, Connection],
        outliving: Collection[Listener],
    ) -> None:
        self.ended = trio.Event()
        self.supervisor = Supervisor("lifecycle")
        self._requests = requests
        self._notifier = notifier
        self._administration = administration
        self._dispatcher = administration.dispatcher
        self._generations = generations
        self._connections = connections
        self._outliving = outliving
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
        elif self._dispatcher.is_draining:
            logger.warning("stopping without waiting further")
            self._end()
        else:
            logger.info("draining", extra={"signal": number})
            self._dispatcher.drain()
            for listener in self._outliving:
                listener.close()
            self.supervisor.spawn("drain", self._drain)

    async def _reload(self) -> None:
        async with self._reload_lock:
            await self._notifier.reloading()
            reloaded = await self._administration.reload_all(NOTHING)
            if not self._dispatcher.is_draining:
                await self._notifier.ready(f"revision {reloaded['revision']}")

    async def _drain(self) -> None:
        """Wait until every request is answered and every answer read, within the timeouts."""
        try:
            await self._notifier.stopping("draining: fires under way are answered, new gates denied")
            with trio.move_on_after(DRAIN_TIMEOUT):
                await self._generations.wait_quiesced()
                with trio.move_on_after(FLUSH_TIMEOUT):
                    while not all(connection.is_quiet for connection in self._connections.values()):  # noqa: ASYNC110
                        await trio.sleep(FLUSH_INTERVAL)  # a client reads its answer in its own time
        finally:
            self._end()  # after any failure too, since the daemon was asked to stop

    def _end(self) -> None:
        self._dispatcher.stop()
        self.ended.set()
