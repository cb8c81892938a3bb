"""Keeps a session connected for threads: one thread of its own connects, introduces it, reads, and begins again.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Knows nothing of what is asked over the link. While there is none, every request fails at once.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping, Sequence
from weakref import WeakSet

import msgspec

from hooklatch.client.announcements import Announcement, Inbox
from hooklatch.client.answers import Changed, read_answer
from hooklatch.client.core import CallRequested
from hooklatch.client.liveness import backoff
from hooklatch.client.memory import Memory
from hooklatch.client.served import describe, encode_answer, served_event
from hooklatch.client.sync_link import Link, open_connection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, SessionClosedError, UnreadableAnswerError
from hooklatch.version import VERSION

__all__ = ["Keeper"]

log = logging.getLogger("hooklatch.client")


class Keeper:
    """The connections of one session in one process, one at a time."""

    def __init__(self, paths: Sequence[str], memory: Memory) -> None:
        self.memory = memory
        self.inboxes: WeakSet[Inbox] = WeakSet()
        self.link: Link | None = None
        self._newest: Link | None = None  # the same, or one that is not welcomed yet
        self._paths = paths
        self._problem = "no attempt to connect was made yet"
        self._closing = threading.Event()
        self._tried = threading.Event()  # the first attempt is over
        self._refusal: Exception | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    def start(self) -> None:
        """Make the first attempt, unless it was made; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
        """
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._stay_connected, name="hooklatch", daemon=True)
                self._thread.start()
        self._tried.wait()
        if self._refusal is not None:
            raise self._refusal

    def close(self) -> None:
        """Stop for good; listeners end, and so does the thread."""
        self._closing.set()
        if (link := self._newest) is not None:
            link.end(DaemonUnreachableError("the session was closed"))
        for inbox in list(self.inboxes):
            inbox.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> None:
        """Give up what a forked process has of its parent's connection."""
        if self._newest is not None:
            self._newest.abandon()

    def copy(self) -> Keeper:
        """Give the keeper of a forked process: the same session, on a connection of its own."""
        keeper = Keeper(self._paths, self.memory.without_hooks())
        if self.is_closed:
            keeper.close()
        return keeper

    def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Make a request on the present link; see `Link.request`.

        Raises:
            DaemonUnreachableError: there is no link.
            SessionClosedError: there will be none.
        """
        if self.is_closed:
            raise SessionClosedError("the session is closed; open another one")
        if not self._tried.is_set():
            self.start()
        if (link := self.link) is None:
            raise DaemonUnreachableError(self._problem)
        return link.request(method, params)

    def announce(self, announcement: Announcement) -> None:
        if announcement.current is not None:
            self.memory.revision = announcement.current
        for inbox in list(self.inboxes):
            inbox.put(announcement)

    def _stay_connected(self) -> None:
        attempts = 0
        while not self.is_closed:
            try:
                link = self._open()
            except (DaemonUnreachableError, UnreadableAnswerError, RequestFailedError) as error:
                if not self._tried.is_set() and self.memory.must_raise(error):
                    self._refusal = error
                    self._closing.set()
                self._note(error)
            else:
                attempts = 0
                self._tried.set()
                link.run()
                self.link = None
                self._note(link.failure)
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
        self._problem = ""
        log.info("connected: session=%s revision=%s", self.memory.session_id, revision)
        if missed := self.memory.heard_of(revision):
            self.announce(missed)
        return link

    def _introduce(self, link: Link) -> int | None:
        self.memory.welcomed(link.request("hello", self.memory.hello(VERSION)))
        link.slots = threading.Semaphore(self.memory.in_flight)
        self.link = link
        if not self.memory.topics:
            return self.memory.welcome.revision
        result = link.request("subscribe", {"topics": sorted(self.memory.topics)})
        return read_answer(result, Changed, "revision").revision

    def _note(self, error: Exception | None) -> None:
        problem = str(error)
        if problem != self._problem:
            self._problem = problem
            if not self.is_closed:
                log.warning("no daemon: session=%s %s", self.memory.session_id, problem)

    def _serve(self, call: CallRequested) -> bytes | str:
        definition = self.memory.served(call.hook)
        if definition is None or definition.function is None:
            return f"this client serves no hook {call.hook!r}"
        try:
            return encode_answer(definition.function(served_event(call, definition.config)))
        except (Exception, SystemExit) as error:
            log.warning("a served hook failed: session=%s hook=%s", self.memory.session_id, call.hook, exc_info=True)
            return describe(error)
