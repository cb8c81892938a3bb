"""One connection under trio: one task reads it, any number wait for answers.

Whatever ends the connection ends every waiting request at once, each with the same error. A request that is
cancelled sends nothing, or all of its line; its answer is dropped when it comes.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, assert_never

import msgspec
import trio

from hooklatch.client.protocol.core import Announced, CallRequested, ReplyDue
from hooklatch.client.protocol.exchange import Action, Exchange
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.runtime import Announce, Serve
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["Link"]

CHUNK: Final = 2**16


class Link:
    """A connection in use; see `runtime.Link`. `run` reads it, owns its socket and closes it."""

    def __init__(
        self,
        connection: socket.socket,
        nursery: trio.Nursery,
        liveness: Liveness,
        *,
        serve: Serve,
        announce: Announce,
    ) -> None:
        self._plain = connection
        self._socket = trio.socket.from_stdlib_socket(connection)
        self._nursery = nursery
        self._exchange = Exchange(liveness, self._hang_up)
        self._slots = trio.CapacityLimiter(1)
        self._line_timeouts = trio.CancelScope()
        self._life = trio.CancelScope()
        self._turn = trio.Semaphore(1)  # no Lock: a task that is cancelled in mid-line hands it to another
        self.is_sessions_end = False
        self._ended = trio.Event()
        self._serve = serve
        self._announce = announce

    @property
    def failure(self) -> HooklatchError | None:
        return self._exchange.failure

    def allow(self, count: int) -> None:
        self._slots.total_tokens = count

    def end(self, failure: HooklatchError) -> None:
        self._exchange.end(failure)

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def run(self) -> None:
        """Read until the connection ends."""
        try:
            with self._life:
                while self.failure is None:
                    await self._read_once()
        finally:
            self._take_leave()
            self._socket.close()
            self.end(DaemonUnreachableError("the session was closed"))

    def _take_leave(self) -> None:
        """Say that the session is over where its block was cancelled, and this with it: nobody can wait any more."""
        if self.failure is None and self.is_sessions_end:
            _, line = self._exchange.begin("session.close", {}, wake=lambda: None, now=trio.current_time())
            with suppress(OSError):
                self._plain.send(line)

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        async with self._slots:
            answered = trio.Event()
            waiter, line = self._exchange.begin(method, params, wake=answered.set, now=trio.current_time())
            self._line_timeouts.deadline = self._exchange.due
            try:
                await self._send(line)
                await answered.wait()
            finally:
                self._exchange.finish(waiter)
                self._line_timeouts.deadline = self._exchange.due
        return waiter.read()

    def _hang_up(self) -> None:
        self._life.cancel()
        self._ended.set()

    async def _read_once(self) -> None:
        with trio.CancelScope(deadline=self._exchange.due) as self._line_timeouts:
            try:
                data = await self._socket.recv(CHUNK)
            except OSError as error:
                self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))
                return
            for action in self._exchange.receive(data, trio.current_time()):
                self._see_to(action)
        if self._line_timeouts.cancelled_caught and (ping := self._exchange.check(trio.current_time())):
            self._nursery.start_soon(self._send, ping)

    def _see_to(self, action: Action) -> None:
        match action:
            case CallRequested():
                self._nursery.start_soon(self._answer, action)
            case ReplyDue(data):
                self._nursery.start_soon(self._send, data)
            case Announced(announcement):
                self._announce(announcement)
            case _:
                assert_never(action)

    async def _answer(self, call: CallRequested) -> None:
        await self._send(self._exchange.reply(call, await self._serve(call)))

    async def _send(self, line: bytes) -> None:
        await self._turn.acquire()
        await self._send_rest(line, 0)

    async def _send_rest(self, line: bytes, sent: int) -> None:
        try:
            while sent < len(line) and self.failure is None:
                taken = await self._socket.send(memoryview(line)[sent:])
                if sent:  # the buffer was full, so it is the daemon that made room
                    self._exchange.heard(trio.current_time())
                sent += taken
        except (OSError, trio.ClosedResourceError) as error:
            self.end(DaemonUnreachableError(f"the connection broke: {error}"))
        except trio.Cancelled:
            if sent and self.failure is None:
                # Half a line would spoil all that follows: somebody else ends it, and the turn goes along.
                self._nursery.start_soon(self._send_rest, line, sent)
            else:
                self._turn.release()
            raise
        self._turn.release()
