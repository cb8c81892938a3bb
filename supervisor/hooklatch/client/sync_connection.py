"""The connections of a session for threads: one thread connects and reads, any number of others wait for answers.

When the connection ends, for any reason, every waiting request ends at once, each with the same error. The waiting
threads watch the daemon's pulse, so that a session without waiting requests never wakes up.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import TypeVar

import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.exchange import REPORT, CallRequested, SkippedCounts, encode_reply
from hooklatch.client.protocol.fires import CallFunction, FunctionReturned, RequestStep, RunApart, Steps
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.session_connection import FAREWELL, SessionLink, SessionReconnector
from hooklatch.client.sockets import hang_up
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["SyncLink", "SyncReconnector", "start_thread"]


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
        """Return the result of a request, while the reader's thread reads.  Raises as `AsyncLink.request` does."""
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
            return max(0.0, self._exchange.pulse.due - time.monotonic())

    def _check(self, deadline: float = inf) -> None:
        with self._state:
            line = self._exchange.check(time.monotonic())
        if line and self._sending.acquire(blocking=False):  # otherwise another thread is sending, and watches the pulse
            try:
                self._send_all(line, deadline)
            finally:
                self._sending.release()

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
                    with self._state:
                        self._exchange.pulse.heard(
                            time.monotonic()
                        )  # the daemon made room in a full buffer: a sign of life
                    unsent = unsent[self._write_some(unsent) :]
                elif time.monotonic() >= deadline:
                    self.end(DaemonUnreachableError("the daemon did not read in time"))
                else:
                    self._check()

    @contextmanager
    def _watching_pulse(self) -> Generator[None]:
        """Have the daemon's pulse checked while this thread waits for the daemon to read."""
        with self._state:
            self._exchange.pulse.begin(time.monotonic())
        try:
            yield
        finally:
            with self._state:
                self._exchange.pulse.finish()

    def _pause(self, deadline: float) -> float:
        return max(0.0, min(1.0, self._line_timeouts(), deadline - time.monotonic()))


def is_ready(connection: socket.socket, what: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(connection, what)
    return bool(poll.poll(None if timeout is None else timeout * 1000 + 1))  # poll rounds down to milliseconds


def start_thread(function: Callable[..., object], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, name=f"hooklatch-{function.__name__}", daemon=True).start()


T = TypeVar("T")


class SyncReconnector(SessionReconnector[SyncLink, threading.Event]):
    """The connections of one session in one process, one at a time."""

    def __init__(self, paths: Sequence[str], state: SessionState) -> None:
        super().__init__(paths, state, threading.Event)
        self._tried = self.resettled
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the first attempt, unless it was made.  Raises as `AsyncReconnector.start` does."""
        with self._starting:
            if self._thread is None:
                self.opening()
                self._thread = threading.Thread(target=self._stay_connected, name="hooklatch", daemon=True)
                self._thread.start()
        self._tried.wait()
        if self.refusal is not None:
            raise self.refusal

    def close(self) -> None:
        """Have the daemon end the session, which may take a moment, and stop for good; listeners and the thread end."""
        is_last = not self.state.is_closed and not self.state.is_copy
        self._stop()
        if (link := self.link) is not None:
            deadline = time.monotonic() + FAREWELL
            link.report(deadline=deadline)
            if is_last:
                link.take_leave(deadline)
        if (link := self.newest) is not None:
            link.end(DaemonUnreachableError("the session was closed"))
        self.wake_listeners()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> None:
        """Drop a forked process's copy of its parent's connection."""
        if self.newest is not None:
            self.newest.abandon()

    def copy(self) -> SyncReconnector:
        """Return the reconnector of a forked process: the same session, on its own connection."""
        reconnector = SyncReconnector(self._paths, self.state.without_hooks())
        if self.state.is_closed:
            reconnector.close()
        return reconnector

    def run(self, steps: Steps[T]) -> T:
        """Run a session's steps; requests go over the present link."""
        return self._run(steps, self._request)

    def _run(self, steps: Steps[T], request: Callable[..., msgspec.Raw]) -> T:
        answer: object
        try:
            step = next(steps)
            while True:
                try:
                    match step:
                        case RequestStep(method, params):
                            answer = request(method, params)
                        case CallFunction(function, argument):
                            started = time.perf_counter()
                            result = function(argument)
                            answer = FunctionReturned(result, (time.perf_counter() - started) * 1000)
                        case RunApart(others):
                            answer = self.run(others)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            final: T = end.value
            return final

    def _request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        self.check_open()
        if not self._tried.is_set():
            self.start()
        resettled = self.resettled  # before it is looked at, since the thread may renew it
        if not self.is_connected:
            resettled.wait()
            self.check_open()
        if (link := self.link) is None:
            raise DaemonUnreachableError(self.problem)
        return link.request(method, params)

    def _stop(self) -> None:
        self.state.is_closed, self.state.skipping = True, None
        self._closing.set()
        self.resettled.set()

    def _stay_connected(self) -> None:
        steps = self.attempts()
        try:
            step = next(steps)
            while not (isinstance(step, float) and self._closing.wait(step)):
                step = steps.send(step)
        except StopIteration:
            return
        finally:
            steps.close()
            self.resettled.set()

    def make_link(self, connection: socket.socket) -> SyncLink:
        return SyncLink(
            connection, self.state.liveness, serve=self._serve, announce=self.announce, skipped=self.state.skipped
        )

    def introduce(self, link: SyncLink, steps: Steps[int | None]) -> int | None:
        return self._run(steps, link.request)

    def wait_end(self, link: SyncLink) -> None:
        link.run()

    def _serve(self, call: CallRequested) -> bytes | str:
        try:
            function, event = self.served(call)
            return self.encoded(function(event))
        except BaseException as error:  # in a thread of its own, where nothing else would notice
            return self.failed(call, error)
