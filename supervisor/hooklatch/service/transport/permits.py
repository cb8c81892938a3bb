"""Which events a client need not fire, and that no permission outlives its truth.  Decides nothing about hooks.

A client that subscribes to the topic `idle` is told which events no hook of its session's view listens to; it answers a
fire of them itself, as the daemon would.  Each line replaces the one before it.  The client reads what its socket holds
before it skips anything, so a permission is taken back as soon as the kernel holds the line that says so, or the end of
the connection: `delivered` waits for that, and cuts off whoever does not read in time.

Never permitted: an event that can refuse (its decision is on record before its answer leaves), one that the session
requires a hook for, any event of a session whose decisions somebody watches, or that is in a trusted project, whose
files are compared before each fire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import trio

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.snapshots import Snapshot
from hooklatch.core.protocol import encode_notification
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection

__all__ = ["SkipPermissions"]

logger = logging.getLogger("hooklatch.permits")
DEADLINE = 1.0  # seconds in which a client must have read enough for a line that takes a permission back to leave
NONE: frozenset[str] = frozenset()


class SkipPermissions:
    """What each connection was told last.  `is_in_project` says whether a session's hooks may change unannounced."""

    def __init__(self, bus: Bus, is_in_project: Callable[[AgentSession], bool]) -> None:
        self.is_allowed = True  # the operator's setting
        self._bus = bus
        self._is_in_project = is_in_project
        self._late: set[Connection] = set()  # a line that takes something back has not left yet

    def tell(self, session: AgentSession, view: Snapshot, catalogue: Catalogue) -> bool:
        """Tell a session's clients what has changed; return whether there are any."""
        connections = self._bus.listeners("idle", session)
        if connections:
            events = self._events(session, view, catalogue)
            for connection in connections:
                self._say(connection, events, view.revision)
        return bool(connections)

    def take_back(self, connection: Connection) -> None:
        """Take everything back from a connection, which is told of no further change."""
        self._say(connection, NONE, None)

    async def delivered(self) -> None:
        """Return once every line that takes something back is in the kernel, or its connection is cut off."""
        if not self._late:
            return
        # Shielded, as all of a change's announcements are: if the one who made it leaves, it is active all the same.
        with trio.CancelScope(shield=True):
            late = set(self._late)
            with trio.move_on_after(DEADLINE):
                for connection in late:
                    await connection.all_sent()
                    self._late.discard(connection)
            for connection in late & self._late:
                logger.warning("client reads nothing, cut off before a change", extra={"connection": connection.number})
                connection.close()
                self._late.discard(connection)

    def _events(self, session: AgentSession, view: Snapshot, catalogue: Catalogue) -> frozenset[str]:
        if not self.is_allowed or session.terms.dialect is not None or self._is_in_project(session):
            return NONE
        if self._bus.is_watched(session):
            return NONE
        return catalogue.harmless - view.hooked - session.terms.require_handlers

    def _say(self, connection: Connection, events: frozenset[str], revision: int | None) -> None:
        before = connection.may_skip
        if events == before:
            return
        connection.may_skip = events
        is_sent = connection.send_all(encode_permit(events, revision))
        if not is_sent and not before <= events:
            self._late.add(connection)


def encode_permit(events: Iterable[str], revision: int | None) -> bytes:
    return encode_notification("announce", {"topic": "idle", "revision": revision, "events": sorted(events)})
