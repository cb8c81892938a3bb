"""One connection for threads: the thread that makes it reads it, any number of others wait for answers.

When the connection ends, for any reason, every waiting request ends at once, each with the same error. The waiting
threads watch the daemon's pulse, so that a session without waiting requests never wakes up.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from math import inf

import msgspec

from hooklatch.client.link import SessionLink
from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.exchange import CallRequested, encode_reply
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.skipping import REPORT, SkippedCounts
from hooklatch.client.sockets import hang_up
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["SyncLink", "start_thread"]


class SyncLink(SessionLink):
    """A connection in use. The thread that makes it has to `run` it, which closes the socket."""

    def __init__(
        self,
        connection: socket.socket,
        liveness: Liveness,
        *,
        serve: Callable[[CallRequested], bytes | str],
        announce: Callable[[Announcement], None],
        skipped: SkippedCounts,
    ) -> None:
        super().__init__(
            connection, liveness, lock=threading.Lock(), hang_up=lambda: hang_up(connection), announce=announce,
            skipped=skipped,
        )  # fmt: skip
        self._slots = threading.Semaphore(1)
        self._reader = threading.get_ident()
        self._sending = threading.Lock()  # guards sending a whole line, and closing
        self._serve = serve

    def allow(self, count: int) -> None:
        self._slots = threading.Semaphore(count)

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
        """Close a forked process's copy of the socket; the connection is the parent's."""
        self._socket.close()

    def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result, while the reader's thread reads.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: the daemon sent something that is not a message.
            DaemonUnreachableError: the connection is lost, or the daemon is silent.
        """
        with self._slots:
            return self._ask(method, params)

    def _start_report(self) -> None:
        timer = threading.Timer(REPORT, self.report)
        timer.daemon = True
        timer.start()

    def report(self, *, deadline: float = inf) -> None:
        if line := self._take_report():
            self._send(line, deadline)

    def take_leave(self, deadline: float) -> None:
        """Send the daemon the end of the session, and wait until the deadline for its response."""
        with suppress(HooklatchError):  # the daemon is gone
            self._ask("session.close", {}, deadline=deadline)

    def _ask(self, method: str, params: Mapping[str, object], *, deadline: float = inf) -> msgspec.Raw:
        answered = threading.Event()
        with self._state:
            waiter, line = self._exchange.begin(method, params, wake=answered.set, now=time.monotonic())
        pause = self._read_once if threading.get_ident() == self._reader else answered.wait
        try:
            self._send(line, deadline)
            while not answered.is_set() and (remaining := deadline - time.monotonic()) > 0:
                pause(min(remaining, self._line_timeouts()))
                self._check(deadline)
        finally:
            with self._state:
                self._exchange.finish(waiter)
        return waiter.read()

    def _line_timeouts(self) -> float:
        with self._state:
            return max(0.0, self._exchange.due - time.monotonic())

    def _check(self, deadline: float = inf) -> None:
        with self._state:
            line = self._exchange.check(time.monotonic())
        if line and self._sending.acquire(blocking=False):  # otherwise another thread is sending, and watches the pulse
            try:
                self._send_all(line, deadline)
            finally:
                self._sending.release()

    def _heard(self) -> None:
        with self._state:
            self._exchange.heard(time.monotonic())

    def _read_once(self, timeout: float | None) -> None:
        if is_ready(self._socket, select.POLLIN, timeout):
            self._receive()

    def _start_answer(self, call: CallRequested) -> None:
        start_thread(self._answer, call)

    def _start_send(self, line: bytes) -> None:
        start_thread(self._send, line)

    def _answer(self, call: CallRequested) -> None:
        self._send(encode_reply(call, self._serve(call)))

    def _send(self, line: bytes, deadline: float = inf) -> None:
        """Send a line, unless the connection ends before; a line that is not sent whole at the deadline ends it."""
        if self._sending.acquire(blocking=False) or self._wait_for_turn(deadline):
            try:
                self._send_all(line, deadline)
            finally:
                self._sending.release()

    def _wait_for_turn(self, deadline: float) -> bool:
        with self._watching_pulse():
            while not self._sending.acquire(timeout=self._pause(deadline)):
                self._check()
                if self.failure is not None or time.monotonic() >= deadline:
                    return False
        return True

    def _send_all(self, line: bytes, deadline: float = inf) -> None:
        sent = self._write_some(line) if self.failure is None else len(line)
        if sent < len(line):
            self._send_remaining(memoryview(line)[sent:], deadline)

    def _send_remaining(self, unsent: memoryview, deadline: float) -> None:
        with self._watching_pulse():
            while unsent and self.failure is None:
                if is_ready(self._socket, select.POLLOUT, self._pause(deadline)):
                    self._heard()  # the buffer was full, and the daemon made room: a sign of life
                    unsent = unsent[self._write_some(unsent) :]
                elif time.monotonic() >= deadline:
                    self.end(DaemonUnreachableError("the daemon did not read in time"))
                else:
                    self._check()

    @contextmanager
    def _watching_pulse(self) -> Generator[None]:
        """Have the daemon's pulse checked while this thread waits for the daemon to read."""
        with self._state:
            self._exchange.begin_sending(time.monotonic())
        try:
            yield
        finally:
            with self._state:
                self._exchange.finish_sending()

    def _pause(self, deadline: float) -> float:
        return max(0.0, min(1.0, self._line_timeouts(), deadline - time.monotonic()))


def is_ready(connection: socket.socket, what: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(connection, what)
    return bool(poll.poll(None if timeout is None else timeout * 1000 + 1))  # poll rounds down to milliseconds


def start_thread(function: Callable[..., object], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, name=f"hooklatch-{function.__name__}", daemon=True).start()
