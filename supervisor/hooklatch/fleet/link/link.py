"""The link of one host: its connection to the engine, made again whenever it ends, and the tasks that use it.

Knows the tasks; not what they do.

    Link.run ─┬─ sessions ── one connection to the engine ─┬─ policy     versions down
              │              (a new one after each failure) ├─ shipping   records up
              │                                             └─ reporting  how this host is
              └─ telling     what was shipped, to the daemon

Whatever fails ends the connection, never the link.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import trio

from hooklatch.fleet.engine.engine import Engine, EngineError, EngineRefusedError
from hooklatch.fleet.link.daemon import LinkedDaemon
from hooklatch.fleet.link.known import ENGINE, LinkState
from hooklatch.fleet.link.outgoing import ShippingReader
from hooklatch.fleet.link.pauses import Backoff
from hooklatch.fleet.link.policy import PolicyFollower
from hooklatch.fleet.link.reporting import EVERY, Gauge, HostReporter, ShippingNotifier
from hooklatch.fleet.link.shipping import RecordShipper
from hooklatch.fleet.policy.settings import FleetSettings
from hooklatch.version import VERSION

__all__ = ["Link"]

logger = logging.getLogger("hooklatch.link")
OPENING = 30.0  # seconds to open a connection to the engine, or to close it; the engine's own limits are shorter
LONGEST_REFUSAL = 5.0  # seconds until an engine that refuses us is asked again
LONGEST_FAILURE = 30.0  # seconds until a task that failed by a fault of its own is started again


class Link:
    """A host's link.  `opened` opens the engine anew; `record` is the folder of the daemon's record.

    What happens is reported soon; a host where nothing does reports each `report_every` seconds.
    """

    def __init__(
        self,
        settings: FleetSettings,
        opened: Callable[[], AbstractAsyncContextManager[Engine]],
        daemon: LinkedDaemon,
        record: str,
        *,
        report_every: float = EVERY,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = LinkState(settings.host, settings.labels, VERSION)
        self._opened = opened
        self._reconnect = settings.reconnect
        self._now = now
        self._policy = PolicyFollower(
            daemon, self.known, reconnect=settings.reconnect, contact=settings.max_staleness / 4, now=now
        )
        outgoing = ShippingReader(record, settings.host, settings.fields)
        self._shipping = RecordShipper(settings.host, outgoing, self.known, now=now)
        self._reporting = HostReporter(
            settings.host, Gauge(record, self.known), self.known, every=report_every, now=now
        )
        self._telling = ShippingNotifier(daemon, self.known)

    async def run(self) -> None:
        """Work until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep, "telling", self._telling.run)
            nursery.start_soon(self._keep, "sessions", self._sessions)

    async def _sessions(self) -> None:
        pauses = Backoff(self._reconnect)
        refusals = Backoff(max(LONGEST_REFUSAL, self._reconnect), first=self._reconnect)
        while True:
            opened_at = self._now()
            try:
                await self._session()
            except EngineRefusedError as error:
                self.known.fault(ENGINE, str(error))
                await trio.sleep(refusals.next())
                continue
            except EngineError as error:
                self.known.fault(ENGINE, str(error))
            except Exception as error:  # a library's; whatever it is, the next connection may work
                logger.exception("the connection to the engine failed")
                self.known.fault(ENGINE, f"the connection to the engine failed: {type(error).__name__}: {error}")
            if self._now() - opened_at > LONGEST_REFUSAL:
                pauses.reset()
                refusals.reset()
            await trio.sleep(pauses.next())

    async def _session(self) -> None:
        """Use one connection until it ends.

        Raises:
            EngineError: why it did.
        """
        failures: list[EngineError] = []
        with trio.CancelScope(deadline=trio.current_time() + OPENING) as scope:
            async with self._opened() as engine:
                scope.deadline = math.inf
                self.known.fault(ENGINE, None)
                async with trio.open_nursery() as nursery:
                    for name, run in (
                        ("policy", self._policy.run),
                        ("shipping", self._shipping.run),
                        ("reporting", self._reporting.run),
                    ):
                        nursery.start_soon(self._use, name, partial(run, engine), failures, nursery.cancel_scope)
                scope.deadline = trio.current_time() + OPENING
        if failures:
            raise failures[0]

    async def _use(
        self, name: str, run: Callable[[], Awaitable[None]], failures: list[EngineError], scope: trio.CancelScope
    ) -> None:
        """Run a task on a connection; its end is that of the connection."""
        try:
            await self._keep(name, run)
        except EngineError as error:
            failures.append(error)
            scope.cancel()

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task again and again, whatever fault of its own ends it.

        Raises:
            EngineError: the connection that it uses has ended.
        """
        pauses = Backoff(LONGEST_FAILURE, first=0.5)
        while True:
            try:
                await run()
            except EngineError:
                raise
            except Exception:
                logger.exception("%s failed, and is started again", name)
                self.known.find(f"{name} failed by a fault of its own; the link's log has it")
            await trio.sleep(pauses.next())
