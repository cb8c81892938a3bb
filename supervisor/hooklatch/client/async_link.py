"""One connection under trio or asyncio: one task reads it, another writes the data that the kernel did not take.

When the connection ends, for any reason, every waiting request ends at once, each with the same error. A line is sent
or queued whole in one step, so that a cancelled request never leaves half a line behind. Its response is dropped.

Plain sockets instead of `anyio.connect_unix`: with a full backlog both libraries treat a socket as connected that is
not, and each send of anyio's stream costs a turn of the loop.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from math import inf
from typing import Any, Final

import anyio
import msgspec

from hooklatch.client.link import SessionLink
from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.decisions import Decision
from hooklatch.client.protocol.exchange import CallRequested, encode_reply
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.skipping import REPORT, SkippedCounts
from hooklatch.client.sockets import hang_up
from hooklatch.client.tasks import SessionTasks
from hooklatch.errors import DaemonUnreachableError

__all__ = ["AsyncLink"]

MAX_UNBROKEN: Final = 250  # events skipped without a turn for other tasks; a request for the next one is such a turn


class AsyncLink(SessionLink):
    """A connection in use. Its creator has to `run` it in a task, which closes the socket."""

    def __init__(
        self,
        connection: socket.socket,
        tasks: SessionTasks,
        liveness: Liveness,
        *,
        serve: Callable[[CallRequested], Coroutine[Any, Any, bytes | str]],
        announce: Callable[[Announcement], None],
        skipped: SkippedCounts,
    ) -> None:
        super().__init__(
            connection, liveness, lock=nullcontext(), hang_up=self._hang_up, announce=announce, skipped=skipped
        )
        self.closed = anyio.Event()
        self._tasks = tasks
        self._serve = serve
        self._ended = anyio.Event()
        self._slots = anyio.Semaphore(1, fast_acquire=True)
        self._unsent = bytearray()
        self._has_unsent = anyio.Event()
        self._is_watched = False
        self._unbroken = 0

    def allow(self, count: int) -> None:
        self._slots = anyio.Semaphore(count, fast_acquire=True)

    async def run(self) -> None:
        """Read and write until the connection ends."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                group.start_soon(self._tasks.watch_readable, self._socket, self._receive)
                await self._ended.wait()
                group.cancel_scope.cancel()
        finally:
            self.end(DaemonUnreachableError("the session was closed"))
            self._socket.close()
            self.closed.set()

    def skip(self, event: str) -> Decision | None:
        self._unbroken += 1
        if self._unbroken > MAX_UNBROKEN:
            self._unbroken = 0
            return None
        return super().skip(event)

    def report(self) -> None:
        if line := self._take_report():
            self._start_send(line)

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: the daemon sent something that is not a message.
            DaemonUnreachableError: the connection is lost, or the daemon is silent.
        """
        async with self._slots:
            answered = anyio.Event()
            waiter, line = self._exchange.begin(method, params, wake=answered.set, now=time.monotonic())
            try:
                self._start_send(line)
                self._watch()
                await answered.wait()
            finally:
                self._exchange.finish(waiter)
        return waiter.read()

    def _hang_up(self) -> None:
        hang_up(self._socket)
        self._ended.set()

    def _start_report(self) -> None:
        self._tasks.start_from_anywhere(self._report_later)

    async def _report_later(self) -> None:
        await anyio.sleep(REPORT)
        self.report()

    def _start_answer(self, call: CallRequested) -> None:
        self._tasks.start_from_anywhere(self._answer, call)

    async def _answer(self, call: CallRequested) -> None:
        self._start_send(encode_reply(call, await self._serve(call)))

    def _start_send(self, line: bytes) -> None:
        if self.failure is not None:
            return
        # Only if nothing is queued, or this line would overtake an earlier one.
        sent = 0 if self._unsent else self._write_some(line)
        if sent < len(line):
            if not self._unsent:
                self._exchange.begin_sending(time.monotonic())
                self._watch()
            self._unsent += memoryview(line)[sent:]
            self._has_unsent.set()

    async def _write(self) -> None:
        while self.failure is None:
            if not self._unsent:
                self._has_unsent = anyio.Event()
                await self._has_unsent.wait()
            await anyio.wait_writable(self._socket)
            if sent := self._write_some(self._unsent):  # the buffer was full, and the daemon made room: a sign of life
                self._exchange.heard(time.monotonic())
                del self._unsent[:sent]
                if not self._unsent:
                    self._exchange.finish_sending()

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._tasks.start_from_anywhere(self._watch_pulse)

    async def _watch_pulse(self) -> None:
        """Check the daemon's pulse while a request or a line waits, so that a session without any never wakes up."""
        while self.failure is None and self._exchange.due < inf:
            await anyio.sleep(max(0.0, self._exchange.due - time.monotonic()))
            if ping := self._exchange.check(time.monotonic()):
                self._start_send(ping)
        self._is_watched = False
