"""The reconnector of a session for threads: one thread connects and reads, any number of others wait."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.steps import CallFunction, FunctionReturned, RequestStep, RunApart, Steps
from hooklatch.client.reconnector import FAREWELL, SessionReconnector
from hooklatch.client.sync_link import SyncLink
from hooklatch.errors import DaemonUnreachableError

__all__ = ["SyncReconnector"]

T = TypeVar("T")


class SyncReconnector(SessionReconnector[SyncLink, threading.Event]):
    """The connections of one session in one process, one at a time."""

    def __init__(self, paths: Sequence[str], state: SessionState) -> None:
        super().__init__(paths, state)
        self.resettled = self._tried = threading.Event()
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

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

    def resettle(self) -> None:
        resettled, self.resettled = self.resettled, threading.Event()
        resettled.set()

    def _serve(self, call: CallRequested) -> bytes | str:
        try:
            function, event = self.served(call)
            return self.encoded(function(event))
        except BaseException as error:  # in a thread of its own, where nothing else would notice
            return self.failed(call, error)
