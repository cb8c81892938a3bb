"""One connection for threads: the thread that makes it reads it, any number of others wait for answers.

Whatever ends the connection ends every waiting request at once, each with the same error. The waiting threads are
the ones that watch the daemon's pulse, so that a session in which nobody waits never wakes up.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, assert_never

import msgspec

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

__all__ = ["Link", "in_thread", "open_connection"]

CHUNK: Final = 2**16


def open_connection(paths: Sequence[str], liveness: Liveness, closing: threading.Event) -> socket.socket:
    """Connect to the first of `paths` where somebody listens.

    Raises:
        DaemonUnreachableError: nobody does.
    """
    failures: list[tuple[str, str]] = []
    for path in paths:
        try:
            return connect_patiently(path, liveness.connect, closing)
        except OSError as error:
            failures.append((path, error.strerror or str(error)))
    raise DaemonUnreachableError.at(failures)


def connect_patiently(path: str, budget: float, closing: threading.Event) -> socket.socket:
    deadline = time.monotonic() + budget
    attempts = 0
    while (connection := attempt(path)) is None:
        if time.monotonic() >= deadline or closing.wait(crowd_delay(attempts)):
            raise TimeoutError(f"its backlog was full for {budget:g} s")
        attempts += 1
    return connection


class Waiter:
    """One request that waits for its answer."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result = msgspec.Raw(b"null")
        self.error: HooklatchError | None = None


class Link:
    """A connection in use. The thread that makes it has to `run` it, which closes the socket."""

    def __init__(
        self,
        connection: socket.socket,
        liveness: Liveness,
        *,
        serve: Callable[[CallRequested], bytes | str],
        announce: Callable[[Announcement], None],
    ) -> None:
        self.failure: HooklatchError | None = None
        self.slots = threading.Semaphore(1)
        self._socket = connection
        self._reader = threading.get_ident()
        self._state = threading.Lock()  # of the four below
        self._core = ClientConnection()
        self._pulse = Pulse(liveness)
        self._waiters: dict[int, Waiter] = {}
        self._sending = threading.Lock()  # for a whole line, and for closing
        self._serve = serve
        self._announce = announce

    def end(self, failure: HooklatchError) -> None:
        """Give the connection up: every waiting request fails now, and `run` returns."""
        with self._state:
            if self.failure is not None:
                return
            self.failure = failure
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.error = failure
            waiter.done.set()
        with suppress(OSError):  # the daemon hung up first
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, and only the reader closes

    def run(self) -> None:
        """Read until the connection ends."""
        try:
            while self.failure is None:
                self._read_once(None)
        finally:
            self.close()

    def close(self) -> None:
        """Close the socket once no thread writes to it."""
        self.end(DaemonUnreachableError("the session was closed"))
        with self._sending:
            self._socket.close()

    def abandon(self) -> None:
        """Close a forked process's copy of the socket; the connection is its parent's."""
        self._socket.close()

    def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result; the reader's own thread reads meanwhile.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: the daemon sent something that is no message.
            DaemonUnreachableError: the connection is lost, or the daemon is silent.
        """
        with self.slots:
            number, line, waiter = self._begin(method, params)
            pause = self._read_once if threading.get_ident() == self._reader else waiter.done.wait
            try:
                self._send(line)
                while not waiter.done.is_set():
                    pause(self._patience())
                    self._check()
            finally:
                with self._state:
                    self._waiters.pop(number, None)
                    self._pulse.finish()
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    def _begin(self, method: str, params: Mapping[str, object]) -> tuple[int, bytes, Waiter]:
        with self._state:
            if self.failure is not None:
                raise self.failure
            number, line = self._core.request(method, params)
            self._waiters[number] = waiter = Waiter()
            self._pulse.begin(time.monotonic())
        return number, line, waiter

    def _patience(self) -> float:
        with self._state:
            return max(0.0, self._pulse.due - time.monotonic())

    def _check(self) -> None:
        with self._state:
            finding = self._pulse.check(time.monotonic())
            line = self._core.request("ping", {})[1] if finding == "ping" else b""
        if finding == "dead":
            self.end(DaemonUnreachableError("the daemon is connected but silent, even to pings"))
        if line and self._sending.acquire(blocking=False):  # else somebody sends, and watches the pulse
            try:
                self._send_all(line)
            finally:
                self._sending.release()

    def _heard(self) -> None:
        with self._state:
            self._pulse.heard(time.monotonic())

    def _read_once(self, timeout: float | None) -> None:
        try:
            if not is_ready(self._socket, select.POLLIN, timeout):
                return
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))
            return
        self._heard()
        with self._state:
            happenings = self._core.receive_data(data) if data else self._core.receive_eof()
        for happening in happenings:
            self._take(happening)

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
                in_thread(self._answer, happening)
            case ReplyDue(data):
                in_thread(self._send, data)
            case Announced(announcement):
                self._announce(announcement)
            case ProtocolFault(message):
                self.end(UnreadableAnswerError(f"the daemon sent what cannot be understood: {message}"))
            case ConnectionLost(message):
                self.end(DaemonUnreachableError(message))
            case _:
                assert_never(happening)

    def _answer(self, call: CallRequested) -> None:
        answer = self._serve(call)
        line = self._core.fail(call, answer) if isinstance(answer, str) else self._core.answer(call, answer)
        self._send(line)

    def _send(self, line: bytes) -> None:
        while not self._sending.acquire(timeout=1.0):
            self._check()
        try:
            self._send_all(line)
        finally:
            self._sending.release()

    def _send_all(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest and self.failure is None:
                try:
                    rest = rest[self._socket.send(rest) :]
                except BlockingIOError:
                    if is_ready(self._socket, select.POLLOUT, min(1.0, self._patience())):
                        self._heard()  # the buffer was full, so it is the daemon that made room
                    else:
                        self._check()
        except OSError as error:
            self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))


def is_ready(connection: socket.socket, what: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(connection, what)
    return bool(poll.poll(None if timeout is None else timeout * 1000 + 1))  # it rounds down to milliseconds


def in_thread(function: Callable[..., object], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, name=f"hooklatch-{function.__name__}", daemon=True).start()
