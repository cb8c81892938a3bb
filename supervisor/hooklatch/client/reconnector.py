"""Keeps a session connected: connects, introduces it, serves its hooks, and starts again when that ends.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Does not know tasks or threads, nor what is requested over the link. A request that finds the link just lost waits for
the first attempt to get another: replacing a daemon takes a moment. After that attempt, and until a later one succeeds,
every request fails at once.
"""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Generator, Sequence
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from hooklatch.client.link import SessionLink
from hooklatch.client.protocol.announcements import Announcement, AnnouncementQueue
from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.liveness import compute_backoff
from hooklatch.client.protocol.operations import introduce_session
from hooklatch.client.protocol.served import ServedFunction, describe_exception, encode_answer, make_served_event
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.steps import Steps
from hooklatch.client.sockets import connect_to_first
from hooklatch.errors import DaemonUnreachableError, HooklatchError, SessionClosedError
from hooklatch_worker.author.events import Event

__all__ = ["FAREWELL", "SessionReconnector"]

log = logging.getLogger("hooklatch.client")
FAREWELL = 1.0  # seconds that the end of a session waits for the daemon to acknowledge it
Link = TypeVar("Link", bound=SessionLink)


class Settable(Protocol):
    """An event of tasks or of threads."""

    def set(self) -> object: ...


Signal = TypeVar("Signal", bound=Settable)


class SessionReconnector(Generic[Link, Signal]):
    """The base of both reconnectors: the connections of one session, one at a time. `problem` says why there is none.

    `resettled` is set when the first attempt is over, and made anew with each link: it is then set at the end of the
    first attempt after its loss.
    """

    resettled: Signal

    def __init__(self, paths: Sequence[str], state: SessionState) -> None:
        self.state = state
        self.inboxes: WeakSet[AnnouncementQueue] = WeakSet()
        self.problem = "no attempt to connect was made yet"
        self.link: Link | None = None
        self.newest: Link | None = None  # the same, or one that the daemon has not accepted yet
        self.is_first = True  # the first attempt is not over
        self.refusal: HooklatchError | None = None
        self._paths = paths

    @property
    def is_connected(self) -> bool:
        return self.link is not None and self.link.failure is None

    def attempts(self) -> Generator[Any, Any, None]:
        """Connect again and again, until the session is closed, as steps.

        A step is a number of seconds to wait, or what a method below returned: the client that awaits, awaits it.
        """
        count = 0
        while not self.state.is_closed:
            link: Link | None = None
            try:
                connection = yield from connect_to_first(
                    self._paths, self.state.daemon_uid, self.state.liveness.connect
                )
                link = self.newest = self.make_link(connection)
                if self.state.is_closed:  # closed since this call looked for a link to end
                    raise DaemonUnreachableError("the session was closed")
                revision = yield self.introduce(link, introduce_session(self.state, self._publish))
            except BaseException as error:
                self.link = None
                if link is not None:
                    link.end(DaemonUnreachableError(str(error)))
                if not isinstance(error, HooklatchError):
                    raise
                self._failed(error)
            else:
                count, self.is_first = 0, False
                self.resettle()
                self._connected(revision)
            if link is not None:
                yield self.wait_end(link)
                if self.link is link:
                    self.link = None
                    self.note(link.failure)
            yield compute_backoff(count, random.random())
            count += 1

    def make_link(self, connection: socket.socket) -> Link:
        """Return a link over a connection, that is read from now on or by its requests."""
        raise NotImplementedError

    def introduce(self, link: Link, steps: Steps[int | None]) -> Any:
        """Run steps over a link; return their result."""
        raise NotImplementedError

    def wait_end(self, link: Link) -> Any:
        """Return once a link has ended, and its socket is closed."""
        raise NotImplementedError

    def resettle(self) -> None:
        """Set `resettled`, and make it anew."""
        raise NotImplementedError

    def _publish(self) -> None:
        assert self.newest is not None
        self.link = self.state.skipping = self.newest
        self.link.allow(self.state.in_flight)
        self.link.report()  # what the last connection could not

    def _failed(self, error: HooklatchError) -> None:
        if self.is_first and self.state.must_raise(error):
            self.refusal = error
            self.state.is_closed = True
        self.is_first = False
        self.note(error)
        self.resettled.set()

    def check_open(self) -> None:
        """Return if the session may still be used.

        Raises:
            SessionClosedError: it is over.
        """
        if self.state.is_closed:
            raise SessionClosedError("the session is closed; open another one")

    def announce(self, announcement: Announcement) -> None:
        if announcement.current is not None:
            self.state.revision = announcement.current
        for inbox in list(self.inboxes):
            inbox.put(announcement)

    def wake_listeners(self) -> None:
        for inbox in list(self.inboxes):
            inbox.wake()

    def opening(self) -> None:
        """Log why the host needs no gate, if it said so."""
        if self.state.ungated is not None and not self.state.is_copy:
            log.warning("no gate is required: session=%s %s", self.state.session_id, self.state.ungated)

    def _connected(self, revision: int | None) -> None:
        """Record that a daemon has accepted the session, and notify listeners if they missed something."""
        self.problem = ""
        log.info("connected: session=%s revision=%s", self.state.session_id, revision)
        if missed := self.state.heard_of(revision):
            self.announce(missed)

    def note(self, error: Exception | None) -> None:
        """Record why there is no daemon; each reason is logged once."""
        problem = str(error)
        if problem != self.problem:
            self.problem = problem
            if not self.state.is_closed:
                log.warning("no daemon: session=%s %s", self.state.session_id, problem)

    def served(self, call: CallRequested) -> tuple[ServedFunction, Event]:
        """Return the function that a call is for, and the event that it is called with.

        Raises:
            LookupError: there is none.
        """
        definition = self.state.hooks.served(call.hook)
        if definition is None or definition.function is None:
            raise LookupError(f"this client serves no hook {call.hook!r}")
        return definition.function, make_served_event(call)

    def encoded(self, answer: object) -> bytes:
        """Encode what a served function returned."""
        return encode_answer(answer, is_native=self.state.dialect is not None)

    def failed(self, call: CallRequested, error: BaseException) -> str:
        """Return the answer to a call whose function raised."""
        log.warning("a served hook failed: session=%s hook=%s", self.state.session_id, call.hook, exc_info=error)
        return describe_exception(error)
