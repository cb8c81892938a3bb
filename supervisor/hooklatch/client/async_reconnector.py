"""Keeps a session connected: connects, introduces it, serves its hooks, and begins again when that ends.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Knows nothing of what is asked over the link, and not under which library it runs. A request that finds the link just
lost waits for the first attempt to get another: a daemon that is being replaced takes a moment. After that attempt, and
until a later one succeeds, every request fails at once.
"""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Mapping, Sequence

import msgspec

from hooklatch.client.protocol.answers import Changed, read_answer
from hooklatch.client.protocol.core import CallRequested
from hooklatch.client.protocol.liveness import backoff, crowd_delay
from hooklatch.client.runtime import Event, Link, Runtime
from hooklatch.client.session.session_base import FAREWELL, SessionBase
from hooklatch.client.session.session_state import Memory
from hooklatch.client.sockets import attempt
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import VERSION

__all__ = ["Reconnector"]

log = logging.getLogger("hooklatch.client")


class Reconnector(SessionBase):
    """The connections of one session, one at a time."""

    def __init__(self, paths: Sequence[str], memory: Memory) -> None:
        super().__init__(paths, memory, "the session was not opened; use it in async with")
        self.link: Link | None = None
        self._runtime: Runtime | None = None
        self._resettled: Event | None = None  # set when the first attempt after the loss of a link is over

    @property
    def is_connected(self) -> bool:
        return self.link is not None and self.link.failure is None

    @property
    def runtime(self) -> Runtime:
        """Where the session's tasks run.

        Raises:
            RuntimeError: it was not opened.
            SessionClosedError: it is over.
        """
        self.check_open()
        if self._runtime is None:
            raise RuntimeError(self.problem)
        return self._runtime

    async def start(self, runtime: Runtime) -> None:
        """Make the first attempt; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
        """
        self._runtime = runtime
        self.opening()
        try:
            await self._open(runtime)
        except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
            if self.memory.must_raise(error):
                raise
            self.note(error)
        runtime.start_soon(self._stay_connected, runtime)

    async def leave(self) -> None:
        """Have the daemon end the session, which may take a moment, and stop for good."""
        self.is_closed = True
        link, runtime = self.link, self._runtime
        try:
            if link is not None and link.failure is None and link.is_sessions_end and runtime is not None:
                await runtime.finish(self._take_leave, link, FAREWELL)
        finally:
            self.close()

    async def _take_leave(self, link: Link) -> None:
        try:
            await link.request("session.close", {})
        except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
            log.info("the daemon was not told of the session's end: session=%s %s", self.memory.session_id, error)

    def close(self) -> None:
        """Stop for good; listeners end."""
        self.is_closed = True
        if self.link is not None:
            self.link.end(DaemonUnreachableError("the session was closed"))
        self._settle()
        self.wake_listeners()

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Make a request on the present link; see `Link.request`.

        Raises:
            DaemonUnreachableError: there is no link.
            SessionClosedError: there will be none.
        """
        self.check_open()
        if self._resettled is not None and not self.is_connected:
            await self._resettled.wait()
            self.check_open()
        if self.link is None:
            if self._runtime is not None:
                await self._runtime.sleep(0)
            raise DaemonUnreachableError(self.problem)
        return await self.link.request(method, params)

    async def _stay_connected(self, runtime: Runtime) -> None:
        attempts = 0
        while not self.is_closed:
            if self.link is not None:
                await self.link.wait_ended()
                self.note(self.link.failure)
                self.link, attempts = None, 0
            await runtime.sleep(backoff(attempts, random.random()))
            attempts += 1
            try:
                await self._open(runtime)
            except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
                self.note(error)
                self._settle()

    def _settle(self) -> None:
        if self._resettled is not None:
            self._resettled.set()

    async def _open(self, runtime: Runtime) -> None:
        connection = await open_connection(runtime, self._paths, self.memory.liveness.connect)
        link = await runtime.open_link(connection, self.memory.liveness, self._serve, self.announce)
        link.is_sessions_end = not self.memory.is_copy
        try:
            self.memory.welcomed(await link.request("hello", self.memory.hello(VERSION)))
            link.allow(self.memory.in_flight)
            self.link = link
            revision = self.memory.welcome.revision
            if self.memory.topics:
                result = await link.request("subscribe", {"topics": sorted(self.memory.topics)})
                revision = read_answer(result, Changed, "revision").revision
        except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
            self.link = None
            link.end(DaemonUnreachableError(str(error)))
            raise
        self._settle()
        self._resettled = runtime.event()
        self.connected(revision)

    async def _serve(self, call: CallRequested) -> bytes | str:
        try:
            function, event = self.served(call)
            return self.encoded(await self.runtime.call(function, event))
        except (Exception, SystemExit) as error:
            return self.failed(call, error)


async def open_connection(runtime: Runtime, paths: Sequence[str], budget: float) -> socket.socket:
    """Connect to the first of `paths` where somebody listens, within `budget` seconds each.

    Raises:
        DaemonUnreachableError: nobody does.
    """
    failures: list[tuple[str, str]] = []
    await runtime.sleep(0)
    for path in paths:
        try:
            return await connect_patiently(runtime, path, budget)
        except OSError as error:
            failures.append((path, error.strerror or str(error)))
    raise DaemonUnreachableError.at(failures)


async def connect_patiently(runtime: Runtime, path: str, budget: float) -> socket.socket:
    # trio.open_unix_socket (0.35) gives an unconnected socket when the backlog is full.
    deadline = runtime.now() + budget
    attempts = 0
    while (connection := attempt(path)) is None:
        if runtime.now() >= deadline:
            raise TimeoutError(f"its backlog was full for {budget:g} s")
        await runtime.sleep(crowd_delay(attempts))
        attempts += 1
    return connection
