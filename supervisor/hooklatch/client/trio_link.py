"""One connection under trio: one task reads it, any number wait for answers.

Whatever ends the connection ends every waiting request at once, each with the same error. A request that is
cancelled sends nothing, or all of its line; its answer is dropped when it comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, assert_never

import msgspec
import trio

from hooklatch.client.announcements import Announcement
from hooklatch.client.core import (
    Announced,
    CallRequested,
    ClientConnection,
    ConnectionLost,
    ErrorReceived,
    Happening,
    ProtocolFault,
    ReplyDue,
    ResultReceived,
)
from hooklatch.client.liveness import Liveness, Pulse, crowd_delay
from hooklatch.client.sockets import attempt
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError

__all__ = ["Link", "open_connection"]

CHUNK: Final = 2**16


async def open_connection(paths: Sequence[str], liveness: Liveness) -> trio.socket.SocketType:
    """Connect to the first of `paths` where somebody listens.

    Raises:
        DaemonUnreachableError: nobody does.
    """
    failures: list[tuple[str, str]] = []
    for path in paths:
        try:
            return await connect_patiently(path, liveness.connect)
        except OSError as error:
            failures.append((path, error.strerror or str(error)))
    raise DaemonUnreachableError.at(failures)


async def connect_patiently(path: str, budget: float) -> trio.socket.SocketType:
    # trio.open_unix_socket (0.35) gives an unconnected socket when the backlog is full.
    deadline = trio.current_time() + budget
    attempts = 0
    await trio.lowlevel.checkpoint()
    while (connection := attempt(path)) is None:
        if trio.current_time() >= deadline:
            raise TimeoutError(f"its backlog was full for {budget:g} s")
        await trio.sleep(crowd_delay(attempts))
        attempts += 1
    return trio.socket.from_stdlib_socket(connection)


class Waiter:
    """One request that waits for its answer."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result = msgspec.Raw(b"null")
        self.error: HooklatchError | None = None


class Link:
    """A connection in use. `run` reads it, owns its socket and closes it."""

    def __init__(
        self,
        connection: trio.socket.SocketType,
        nursery: trio.Nursery,
        liveness: Liveness,
        *,
        serve: Callable[[CallRequested], Awaitable[bytes | str]],
        announce: Callable[[Announcement], None],
    ) -> None:
        self.ended = trio.Event()
        self.slots = trio.CapacityLimiter(1)
        self._socket = connection
        self._nursery = nursery
        self._core = ClientConnection()
        self._pulse = Pulse(liveness)
        self._patience = trio.CancelScope()
        self._life = trio.CancelScope()
        self._turn = trio.Semaphore(1)  # no Lock: a task that is cancelled in mid-line hands it to another
        self._waiters: dict[int, Waiter] = {}
        self.failure: HooklatchError | None = None
        self._serve = serve
        self._announce = announce

    def end(self, failure: HooklatchError) -> None:
        """Give the connection up: every waiting request fails now."""
        if self.failure is None:
            self.failure = failure
            for waiter in self._waiters.values():
                waiter.error = failure
                waiter.done.set()
            self._life.cancel()
            self.ended.set()

    async def run(self) -> None:
        """Read until the connection ends."""
        try:
            with self._life:
                while self.failure is None:
                    await self._read_once()
        finally:
            self._socket.close()
            self.end(DaemonUnreachableError("the session was closed"))

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: the daemon sent something that is no message.
            DaemonUnreachableError: the connection is lost, or the daemon is silent.
        """
        async with self.slots:
            if self.failure is not None:
                raise self.failure
            number, line = self._core.request(method, params)
            self._waiters[number] = waiter = Waiter()
            self._pulse.begin(trio.current_time())
            self._patience.deadline = self._pulse.due
            try:
                await self._send(line)
                await waiter.done.wait()
            finally:
                self._waiters.pop(number, None)
                self._pulse.finish()
                self._patience.deadline = self._pulse.due
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    async def _read_once(self) -> None:
        with trio.CancelScope(deadline=self._pulse.due) as self._patience:
            try:
                data = await self._socket.recv(CHUNK)
            except OSError as error:
                self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))
                return
            self._heard()
            for happening in self._core.receive_data(data) if data else self._core.receive_eof():
                self._take(happening)
        if self._patience.cancelled_caught:
            self._check()

    def _heard(self) -> None:
        self._pulse.heard(trio.current_time())

    def _check(self) -> None:
        match self._pulse.check(trio.current_time()):
            case "ping":
                _, line = self._core.request("ping", {})
                self._nursery.start_soon(self._send, line)
            case "dead":
                self.end(DaemonUnreachableError("the daemon is connected but silent, even to pings"))
            case "fine":
                pass

    def _take(self, happening: Happening) -> None:
        match happening:
            case ResultReceived(number, result):
                if waiter := self._waiters.pop(number, None):
                    waiter.result = result
                    waiter.done.set()
            case ErrorReceived(number, code, name, message):
                if waiter := self._waiters.pop(number, None):
                    waiter.error = RequestFailedError(code, name, message)
                    waiter.done.set()
            case CallRequested():
                self._nursery.start_soon(self._answer, happening)
            case ReplyDue(data):
                self._nursery.start_soon(self._send, data)
            case Announced(announcement):
                self._announce(announcement)
            case ProtocolFault(message):
                self.end(UnreadableAnswerError(f"the daemon sent what cannot be understood: {message}"))
            case ConnectionLost(message):
                self.end(DaemonUnreachableError(message))
            case _:
                assert_never(happening)

    async def _answer(self, call: CallRequested) -> None:
        answer = await self._serve(call)
        line = self._core.fail(call, answer) if isinstance(answer, str) else self._core.answer(call, answer)
        await self._send(line)

    async def _send(self, line: bytes) -> None:
        await self._turn.acquire()
        await self._send_rest(line, 0)

    async def _send_rest(self, line: bytes, sent: int) -> None:
        try:
            while sent < len(line) and self.failure is None:
                taken = await self._socket.send(memoryview(line)[sent:])
                if sent:  # the buffer was full, so it is the daemon that made room
                    self._heard()
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
