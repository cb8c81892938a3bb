"""Keeps a session connected for threads: one thread of its own connects, introduces it, reads, and begins again.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Knows nothing of what is asked over the link. A request that finds the link just lost waits for the first attempt to get
another: a daemon that is being replaced takes a moment. After that attempt, and until a later one succeeds, every
request fails at once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence

import msgspec

from hooklatch.client.protocol.answers import Changed, read_answer
from hooklatch.client.protocol.core import CallRequested
from hooklatch.client.protocol.liveness import backoff
from hooklatch.client.session.session_base import FAREWELL, SessionBase
from hooklatch.client.session.session_state import Memory
from hooklatch.client.sync_link import Link, open_connection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import VERSION

__all__ = ["Reconnector"]


class Reconnector(SessionBase):
    """The connections of one session in one process, one at a time."""

    def __init__(self, paths: Sequence[str], memory: Memory) -> None:
        super().__init__(paths, memory, "no attempt to connect was made yet")
        self.link: Link | None = None
        self._newest: Link | None = None  # the same, or one that is not welcomed yet
        self._closing = threading.Event()
        self._tried = threading.Event()  # the first attempt is over
        self._resettled = threading.Event()  # so is the first one after the loss of a link
        self._resettled.set()
        self._refusal: Exception | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_connected(self) -> bool:
        return self.link is not None and self.link.failure is None

    def start(self) -> None:
        """Make the first attempt, unless it was made; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
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
        is_last = not self.is_closed and not self.memory.is_copy
        self._stop()
        if is_last and (link := self.link) is not None:
            link.take_leave(FAREWELL)
        if (link := self._newest) is not None:
            link.end(DaemonUnreachableError("the session was closed"))
        self.wake_listeners()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> None:
        """Give up what a forked process has of its parent's connection."""
        if self._newest is not None:
            self._newest.abandon()

    def copy(self) -> Reconnector:
        """Return the keeper of a forked process: the same session, on a connection of its own."""
        reconnector = Reconnector(self._paths, self.memory.without_hooks())
        if self.is_closed:
            reconnector.close()
        return reconnector

    def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Make a request on the present link; see `Link.request`.

        Raises:
            DaemonUnreachableError: there is no link.
            SessionClosedError: there will be none.
        """
        self.check_open()
        if not self._tried.is_set():
            self.start()
        if not self.is_connected:
            self._resettled.wait()
            self.check_open()
        if (link := self.link) is None:
            raise DaemonUnreachableError(self.problem)
        return link.request(method, params)

    def _stop(self) -> None:
        self.is_closed = True
        self._closing.set()
        self._resettled.set()

    def _stay_connected(self) -> None:
        try:
            self._connect_again_and_again()
        finally:
            self._resettled.set()

    def _connect_again_and_again(self) -> None:
        attempts = 0
        while not self.is_closed:
            try:
                link = self._open()
            except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
                if not self._tried.is_set() and self.memory.must_raise(error):
                    self._refusal = error
                    self._stop()
                self.note(error)
                self._resettled.set()
            else:
                attempts = 0
                self._tried.set()
                link.run()
                self.link = None
                self.note(link.failure)
            finally:
                self._tried.set()
            self._closing.wait(backoff(attempts, random.random()))
            attempts += 1

    def _open(self) -> Link:
        connection = open_connection(self._paths, self.memory.liveness, self._closing)
        link = Link(connection, self.memory.liveness, serve=self._serve, announce=self.announce)
        self._newest = link
        try:
            if self.is_closed:  # since it looked for a link to end
                raise DaemonUnreachableError("the session was closed")
            revision = self._introduce(link)
        except BaseException as error:
            self.link = None
            link.end(DaemonUnreachableError(str(error)))
            link.close()
            raise
        resettled, self._resettled = self._resettled, threading.Event()
        resettled.set()
        self.connected(revision)
        return link

    def _introduce(self, link: Link) -> int | None:
        self.memory.welcomed(link.request("hello", self.memory.hello(VERSION)))
        link.slots = threading.Semaphore(self.memory.in_flight)
        self.link = link
        if not self.memory.topics:
            return self.memory.welcome.revision
        result = link.request("subscribe", {"topics": sorted(self.memory.topics)})
        return read_answer(result, Changed, "revision").revision

    def _serve(self, call: CallRequested) -> bytes | str:
        try:
            function, event = self.served(call)
            return self.encoded(function(event))
        except (Exception, SystemExit) as error:
            return self.failed(call, error)
