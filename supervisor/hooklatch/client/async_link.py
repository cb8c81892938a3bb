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
from math import inf
from typing import Any, Final, assert_never

import anyio
import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.decisions import Decision, make_skipped_decision
from hooklatch.client.protocol.exchange import Action, CallRequested, Exchange, encode_reply
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.skipping import REPORT, SkippedCounts
from hooklatch.client.sockets import hang_up, make_poll
from hooklatch.client.tasks import SessionTasks
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["AsyncLink"]

CHUNK: Final = 2**16
MAX_UNBROKEN: Final = 250  # events skipped without a turn for other tasks; a request for the next one is such a turn


class AsyncLink:
    """A connection in use. Its creator has to `run` it, and close its socket after that."""

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
        self._socket = connection
        self._tasks = tasks
        self._exchange = Exchange(liveness, self._hang_up)
        self._ended = anyio.Event()
        self._slots = anyio.Semaphore(1, fast_acquire=True)
        self._unsent = bytearray()
        self._has_unsent = anyio.Event()
        self._is_watched = False
        self._serve = serve
        self._announce = announce
        self._skipped = skipped
        self._unbroken = 0
        self._poll = make_poll(connection)

    @property
    def failure(self) -> HooklatchError | None:
        """Return why it has ended, if it has."""
        return self._exchange.failure

    def allow(self, count: int) -> None:
        """Allow this many waiting requests at a time; before that, one."""
        self._slots = anyio.Semaphore(count, fast_acquire=True)

    def end(self, failure: HooklatchError) -> None:
        """Give up the connection: every waiting request fails now."""
        self._exchange.end(failure)

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

    def may_skip(self, event: str) -> bool:
        """Return whether the latest permission that was read has the event; `skip` looks for a later one."""
        return event in self._exchange.permission.events

    def skip(self, event: str) -> Decision | None:
        """Decide on an event in the daemon's place if the daemon permits it, and count it.

        A later permission would still be in the socket, so the socket must have nothing to read.
        """
        permission = self._exchange.permission
        if event not in permission.events or self._poll.poll(0):
            return None
        self._unbroken += 1
        if self._unbroken > MAX_UNBROKEN:
            self._unbroken = 0
            return None
        if not self._skipped.unreported:
            self._tasks.start_from_anywhere(self._report_later)
        return make_skipped_decision(event, self._skipped.add(event), permission.revision)

    async def _report_later(self) -> None:
        await anyio.sleep(REPORT)
        self.report()

    def report(self) -> None:
        """Send the daemon the counts of skipped events, if there are any."""
        if self.failure is None and (line := self._skipped.take()):
            self._send(line)

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
                self._send(line)
                self._watch()
                await answered.wait()
            finally:
                self._exchange.finish(waiter)
        return waiter.read()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))
            return
        for action in self._exchange.receive(data, time.monotonic()):
            self._perform(action)

    def _hang_up(self) -> None:
        hang_up(self._socket)
        self._ended.set()

    def _perform(self, action: Action) -> None:
        match action:
            case CallRequested():
                self._tasks.start_from_anywhere(self._answer, action)
            case bytes():
                self._send(action)
            case Announcement():
                self._announce(action)
            case _:
                assert_never(action)

    async def _answer(self, call: CallRequested) -> None:
        self._send(encode_reply(call, await self._serve(call)))

    def _send(self, line: bytes) -> None:
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

    def _write_some(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)  # the daemon hung up; its last data are still to be read, then the end
        except OSError as error:
            self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))
            return len(data)

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._tasks.start_from_anywhere(self._watch_pulse)

    async def _watch_pulse(self) -> None:
        """Check the daemon's pulse while a request or a line waits, so that a session without any never wakes up."""
        while self.failure is None and self._exchange.due < inf:
            await anyio.sleep(max(0.0, self._exchange.due - time.monotonic()))
            if ping := self._exchange.check(time.monotonic()):
                self._send(ping)
        self._is_watched = False
