"""The part that both reconnectors share: the reason why there is no daemon, the listeners, and calls of served hooks.

Knows the state and the listeners; does not know links, tasks or threads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from weakref import WeakSet

from hooklatch.client.protocol.announcements import Announcement, AnnouncementQueue
from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.served import ServedFunction, describe_exception, encode_answer, make_served_event
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.errors import SessionClosedError
from hooklatch_worker.author.events import Event

__all__ = ["FAREWELL", "SessionBase"]

log = logging.getLogger("hooklatch.client")
FAREWELL = 1.0  # seconds that the end of a session waits for the daemon to acknowledge it


class SessionBase:
    """The base of both reconnectors. `problem` says why there is no link."""

    def __init__(self, paths: Sequence[str], state: SessionState) -> None:
        self.state = state
        self.inboxes: WeakSet[AnnouncementQueue] = WeakSet()
        self.problem = "no attempt to connect was made yet"
        self._paths = paths

    @property
    def is_connected(self) -> bool:
        raise NotImplementedError

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

    def connected(self, revision: int | None) -> None:
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
