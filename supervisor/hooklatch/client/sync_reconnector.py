"""Keeps a session connected for threads: its own thread connects, introduces the session, reads, and starts again.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Does not know what is requested over the link. A request that finds the link just lost waits for the first attempt to
get another: replacing a daemon takes a moment. After that attempt, and until a later one succeeds, every request fails
at once.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.liveness import compute_backoff
from hooklatch.client.protocol.operations import introduce_session
from hooklatch.client.protocol.session_base import FAREWELL, SessionBase
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.steps import CallFunction, FunctionReturned, RequestStep, RunApart, Steps
from hooklatch.client.sockets import connect_to_first
from hooklatch.client.sync_link import SyncLink
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["SyncReconnector"]

T = TypeVar("T")


class SyncReconnector(SessionBase):
    """The connections of one session in one process, one at a time."""

    def __init__(self, paths: Sequence[str], state: SessionState) -> None:
        super().__init__(paths, state)
        self._link: SyncLink | None = None
        self._newest: SyncLink | None = None  # the same, or one that the daemon has not accepted yet
        self._closing = threading.Event()
        self._tried = threading.Event()  # set when the first attempt is over
        self._resettled = threading.Event()  # except from the loss of a link to the end of the next attempt
        self._resettled.set()
        self._refusal: Exception | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_connected(self) -> bool:
        return self._link is not None and self._link.failure is None

    def start(self) -> None:
        """Make the first attempt, unless it was made; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
            InvalidPayloadError: a hook of the session is not plain finite JSON.
        """
        with self._starting:
            if self._thread is None:
                self.opening()
                self._thread = threading.Thread(target=self._stay_connected, name="hooklatch", daemon=True)
                self._thread.start()
        self._tried.wait()
        if self._refusal is not None:
            raise self._refusal

    def close(self) -> None:
        """Have the daemon end the session, which may take a moment, and stop for good; listeners and the thread end."""
        is_last = not self.state.is_closed and not self.state.is_copy
        self._stop()
        if (link := self._link) is not None:
            deadline = time.monotonic() + FAREWELL
            link.report(deadline=deadline)
            if is_last:
                link.take_leave(deadline)
        if (link := self._newest) is not None:
            link.end(DaemonUnreachableError("the session was closed"))
        self.wake_listeners()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> None:
        """Drop a forked process's copy of its parent's connection."""
        if self._newest is not None:
            self._newest.abandon()

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
        if not self.is_connected:
            self._resettled.wait()
            self.check_open()
        if (link := self._link) is None:
            raise DaemonUnreachableError(self.problem)
        return link.request(method, params)

    def _stop(self) -> None:
        self.state.is_closed, self.state.skipping = True, None
        self._closing.set()
        self._resettled.set()

    def _stay_connected(self) -> None:
        try:
            self._connect_again_and_again()
        finally:
            self._resettled.set()

    def _connect_again_and_again(self) -> None:
        attempts = 0
        while not self.state.is_closed:
            try:
                link = self._open()
            except HooklatchError as error:
                if not self._tried.is_set() and self.state.must_raise(error):
                    self._refusal = error
                    self._stop()
                self.note(error)
                self._resettled.set()
            else:
                attempts = 0
                self._tried.set()
                link.run()
                self._link = None
                self.note(link.failure)
            finally:
                self._tried.set()
            self._closing.wait(compute_backoff(attempts, random.random()))
            attempts += 1

    def _open(self) -> SyncLink:
        link = SyncLink(
            self._connect(), self.state.liveness, serve=self._serve, announce=self.announce, skipped=self.state.skipped
        )
        self._newest = link
        try:
            if self.state.is_closed:  # closed since this call looked for a link to end
                raise DaemonUnreachableError("the session was closed")
            revision = self._run(introduce_session(self.state, lambda: self._publish(link)), link.request)
        except BaseException as error:
            self._link = None
            link.end(DaemonUnreachableError(str(error)))
            link.close()
            raise
        resettled, self._resettled = self._resettled, threading.Event()
        resettled.set()
        link.report()  # what the last connection could not
        self.connected(revision)
        return link

    def _connect(self) -> socket.socket:
        attempts = connect_to_first(self._paths, self.state.daemon_uid, self.state.liveness.connect)
        try:
            while not self._closing.wait(next(attempts)):
                pass
        except StopIteration as connected:
            connection: socket.socket = connected.value
            return connection
        raise DaemonUnreachableError("the session was closed")

    def _publish(self, link: SyncLink) -> None:
        link.allow(self.state.in_flight)
        self._link = self.state.skipping = link

    def _serve(self, call: CallRequested) -> bytes | str:
        try:
            function, event = self.served(call)
            return self.encoded(function(event))
        except BaseException as error:  # in a thread of its own, where nothing else would notice
            return self.failed(call, error)
