"""The link of one host: its connection to the engine, made again whenever it ends, and the tasks that use it.

    Link.run ─┬─ sessions ── one connection to the engine ─┬─ policy     versions down
              │              (a new one after each failure) ├─ shipping   the record up
              │                                             └─ reporting  how this host is
              ├─ telling     what was shipped, to the daemon
              └─ attending   whether the daemon is still there

Where another engine has the logs, shipping and reporting have a session of their own.  A failure ends the connection,
and each task with the EngineError of that; never the link.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeAlias

import trio

from hooklatch.fleet.engine.engine import Engine, EngineError, EngineRefusedError
from hooklatch.fleet.enrolment import HostIdentity
from hooklatch.fleet.link.daemon import DaemonSocket
from hooklatch.fleet.link.known import ENGINE, LOG_ENGINE, Backoff, LinkState
from hooklatch.fleet.link.policy import PolicyFollower
from hooklatch.fleet.link.reporting import EVERY, Gauge, HostReporter, ShippingNotifier, find_leaving
from hooklatch.fleet.link.shipping import RecordShipper, ShippingReader
from hooklatch.fleet.reports import LEFT
from hooklatch.fleet.settings import FleetSettings
from hooklatch.threads import in_thread
from hooklatch.version import VERSION

__all__ = ["Link"]

logger = logging.getLogger("hooklatch.link")
OPENING = 30.0  # seconds to open a connection to the engine, or to close it; the engine's own limits are shorter
LOOK = 0.2  # seconds between two looks whether the daemon has left the fleet
LEAVING = 30.0  # seconds that a daemon without this link may need to record that it has left, as over a restart
LONGEST_REFUSAL = 5.0  # seconds until an engine that refuses us is asked again
LONGEST_FAILURE = 30.0  # seconds until a task that failed by a fault of its own is started again
Opens: TypeAlias = Callable[[], AbstractAsyncContextManager[Engine]]
Task: TypeAlias = Callable[[Engine], Awaitable[None]]


class Link:
    """A host's link.  `open_engine` opens the engine anew, and `open_logs` that of the logs, if it is another.

    `record` is the folder of the daemon's record.

    With an `identity` it signs what it reports and ships.  A change is reported soon; a host without changes reports
    each `report_every` seconds.
    """

    def __init__(
        self,
        settings: FleetSettings,
        open_engine: Opens,
        daemon: DaemonSocket,
        record: str,
        *,
        identity: HostIdentity | None = None,
        open_logs: Opens | None = None,
        report_every: float = EVERY,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.state = LinkState(settings.host, settings.labels, VERSION)
        self._reconnect = settings.reconnect
        self._clock = now
        self._reporter = HostReporter(
            settings.host, Gauge(record, self.state), self.state, identity=identity, every=report_every, now=now
        )
        self._policy = PolicyFollower(
            daemon, self.state, reconnect=settings.reconnect, contact=settings.max_staleness / 4, now=now,
            before_wait=self._reporter.report_when_due if open_logs is None else None,
        )  # fmt: skip
        self._daemon = daemon
        self._record = record
        self._reader = ShippingReader(record, settings.host, settings.fields)
        self._shipper = RecordShipper(settings.host, self._reader, self.state, identity=identity, now=now)
        self._notifier = ShippingNotifier(daemon, self.state)
        policy: dict[str, Task] = {"policy": self._policy.run}
        logs: dict[str, Task] = {"shipping": self._shipper.run, "reporting": self._reporter.run}
        self._sessions = [(ENGINE, open_engine, policy if open_logs is not None else policy | logs)]
        if open_logs is not None:
            self._sessions.append((LOG_ENGINE, open_logs, logs))

    async def run(self) -> None:
        """Work until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_forever, "telling", self._notifier.run)
            nursery.start_soon(self._run_forever, "attending", self._policy.attend)
            for session in self._sessions:
                nursery.start_soon(self._run_forever, "sessions", partial(self._run_sessions, *session))

    async def leave(self) -> None:
        """Return once the record up to where the daemon left the fleet is shipped, and the last report with it.

        The daemon decides when that is: until then the link, which `run` keeps at work, goes on as before.
        """
        absent_since, left_at = self._clock(), None
        while left_at is None and self._clock() - absent_since < LEAVING:
            if self._daemon.is_connected():
                absent_since = self._clock()
            else:
                left_at = await in_thread(find_leaving, self._record)
            await trio.sleep(LOOK)
        if left_at is None:  # there was no policy to leave, or there is no daemon
            left_at = self.state.newest.seq if self.state.newest is not None else 0
        self._reader.end = self.state.left_at = left_at
        while (report := self._reporter.reported) is None or report.health != LEFT or report.shipped < left_at:
            self.state.on_change()
            await trio.sleep(LOOK)

    async def _run_sessions(self, part: str, opens: Opens, tasks: Mapping[str, Task]) -> None:
        pauses = Backoff(self._reconnect)
        refusals = Backoff(max(LONGEST_REFUSAL, self._reconnect), first=self._reconnect)
        while True:
            opened_at = self._clock()
            try:
                await self._run_session(part, opens, tasks)
            except EngineRefusedError as error:
                self.state.set_fault(part, str(error), "refused")
                await trio.sleep(refusals.next())
                continue
            except EngineError as error:
                self.state.set_fault(part, str(error), "away")
            except Exception as error:  # of a library, and of any kind: the next connection may work all the same
                logger.exception("the connection to the engine failed")
                self.state.set_fault(
                    part, f"the connection to the engine failed: {type(error).__name__}: {error}", "away"
                )
            if self._clock() - opened_at > LONGEST_REFUSAL:
                pauses.reset()
                refusals.reset()
            await trio.sleep(pauses.next())

    async def _run_session(self, part: str, opens: Opens, tasks: Mapping[str, Task]) -> None:
        failures: list[EngineError] = []
        with trio.CancelScope(deadline=trio.current_time() + OPENING) as scope:
            async with opens() as engine:
                scope.deadline = math.inf  # the limit is for opening and closing alone
                self.state.set_fault(part, None)
                async with trio.open_nursery() as nursery:
                    for name, task in tasks.items():
                        run = partial(task, engine)
                        nursery.start_soon(self._run_on_connection, name, run, failures, nursery.cancel_scope)
                scope.deadline = trio.current_time() + OPENING
        if failures:
            raise failures[0]

    async def _run_on_connection(
        self, name: str, run: Callable[[], Awaitable[None]], failures: list[EngineError], scope: trio.CancelScope
    ) -> None:
        """Run a task on a connection; the task's end is that of the connection."""
        try:
            await self._run_forever(name, run)
        except EngineError as error:
            failures.append(error)
            scope.cancel()

    async def _run_forever(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task again and again, also after any fault of its own."""
        pauses = Backoff(LONGEST_FAILURE, first=0.5)
        while True:
            try:
                await run()
            except EngineError:
                raise
            except Exception:
                logger.exception("%s failed, and is started again", name)
                self.state.add_finding(f"{name} failed by a fault of its own; the link's log has it")
            await trio.sleep(pauses.next())
