"""One connection under asyncio: its transport reads and writes it, any number of tasks wait for answers.

A line is given to the transport whole, so that a request that is cancelled never leaves half of one behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import assert_never, cast

import msgspec

from hooklatch.client.protocol.core import Announced, CallRequested, ReplyDue
from hooklatch.client.protocol.exchange import Action, Exchange
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.runtime import Announce, Serve
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["Link"]


class Link(asyncio.Protocol):
    """A connection in use; see `runtime.Link`. It is made with its transport, which owns the socket."""

    def __init__(
        self, start_soon: Callable[..., None], liveness: Liveness, *, serve: Serve, announce: Announce
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchange = Exchange(liveness, self._hang_up)
        self._transport: asyncio.Transport | None = None
        self._slots = asyncio.Semaphore(1)
        self._start_soon = start_soon
        self._serve = serve
        self._announce = announce
        self._timer: asyncio.TimerHandle | None = None
        self._written = 0  # bytes given to the transport
        self._taken = 0  # those that the kernel had of them when we looked last
        self.is_sessions_end = False
        self._ended = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def failure(self) -> HooklatchError | None:
        return self._exchange.failure

    @property
    def is_closed(self) -> bool:
        """Its socket is closed."""
        return self._closed.is_set()

    def allow(self, count: int) -> None:
        self._slots = asyncio.Semaphore(count)

    def end(self, failure: HooklatchError) -> None:
        self._exchange.end(failure)

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def wait_closed(self) -> None:
        """End, and return once the socket is closed."""
        self.end(DaemonUnreachableError("the session was closed"))
        await self._closed.wait()

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        async with self._slots:
            answered = asyncio.Event()
            waiter, line = self._exchange.begin(method, params, wake=answered.set, now=self._loop.time())
            try:
                self._write(line)
                self._watch()
                await answered.wait()
            finally:
                self._exchange.finish(waiter)
        return waiter.read()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for action in self._exchange.receive(data, self._loop.time()):
            self._see_to(action)

    def eof_received(self) -> None:
        self._exchange.receive(b"", self._loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(DaemonUnreachableError(f"the connection broke: {exc or 'it was closed'}"))
        self._closed.set()

    def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._ended.set()

    def _see_to(self, action: Action) -> None:
        match action:
            case CallRequested():
                self._start_soon(self._answer, action)
            case ReplyDue(data):
                self._write(data)
            case Announced(announcement):
                self._announce(announcement)
            case _:
                assert_never(action)

    async def _answer(self, call: CallRequested) -> None:
        self._write(self._exchange.reply(call, await self._serve(call)))

    def _write(self, line: bytes) -> None:
        if self.failure is None and self._transport is not None:
            self._look_for_room()
            self._transport.write(line)
            self._written += len(line)
            self._taken = self._written - self._transport.get_write_buffer_size()

    def _look_for_room(self) -> None:
        assert self._transport is not None
        taken = self._written - self._transport.get_write_buffer_size()
        if taken > self._taken:  # the buffer was full, so it is the daemon that made room
            self._exchange.heard(self._loop.time())
        self._taken = taken

    def _watch(self) -> None:
        if self._timer is None and self.failure is None and self._exchange.due < inf:
            self._timer = self._loop.call_at(self._exchange.due, self._check)

    def _check(self) -> None:
        self._timer = None
        self._look_for_room()
        if ping := self._exchange.check(self._loop.time()):
            self._write(ping)
        self._watch()
