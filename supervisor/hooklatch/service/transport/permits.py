"""The permissions to skip events: which events a client need not fire, and for how long that holds.

A client that subscribes to the topic `idle` gets the events that no hook of its session's snapshot listens to. It
answers a fire of them itself, as the daemon would.  Each line replaces the one before it.  The client reads its socket
before it skips an event, so a permission is withdrawn as soon as the kernel holds the line that says so, or the end of
the connection. `wait_delivered` waits for that, and cuts off a client that does not read in time.

Never permitted: a gate (its decision is on record before its answer leaves), an event for which the session requires a
hook, any event of a session whose decisions are watched, or that is in a trusted project, whose files are compared
before each fire.
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
TIMEOUT = 1.0  # seconds in which a client must have read enough for the line of a withdrawal to leave
NONE: frozenset[str] = frozenset()


class SkipPermissions:
    """The events that each connection may skip.  `is_in_project` tells if a session's hooks may change unannounced."""

    def __init__(self, bus: Bus, is_in_project: Callable[[AgentSession], bool]) -> None:
        self.is_allowed = True  # the operator's setting
        self._bus = bus
        self._is_in_project = is_in_project
        self.late: dict[Connection, None] = {}  # whose withdrawal is not in the kernel yet

    def notify(self, session: AgentSession, snapshot: Snapshot, catalogue: Catalogue) -> bool:
        """Notify a session's clients of the events that they may skip now. Return whether there are any clients."""
        connections = self._bus.listeners("idle", session)
        if connections:
            events = self._list_skippable(session, snapshot, catalogue)
            for connection in connections:
                self._send(connection, events, snapshot.revision)
        return bool(connections)

    def take_back(self, connection: Connection) -> None:
        """Withdraw all permissions from a connection, which gets no further announcement of them."""
        self._send(connection, NONE, None)

    async def wait_delivered(self) -> None:
        """Wait until every withdrawal is in the kernel, or its connection is cut off."""
        # Shielded, as all announcements of a change are: it is active even if the client that made it leaves.
        with trio.CancelScope(shield=True):
            late = [*self.late]
            with trio.move_on_after(TIMEOUT):
                for connection in late:
                    await connection.wait_all_sent()
                    self.late.pop(connection, None)
            for connection in [connection for connection in late if connection in self.late]:
                logger.warning("client reads nothing, cut off before a change", extra={"connection": connection.number})
                connection.close()
                self.late.pop(connection, None)

    def _list_skippable(self, session: AgentSession, snapshot: Snapshot, catalogue: Catalogue) -> frozenset[str]:
        if not self.is_allowed or session.terms.dialect is not None or self._is_in_project(session):
            return NONE
        if self._bus.is_watched(session):
            return NONE
        return catalogue.harmless - snapshot.hooked - session.terms.require_handlers

    def _send(self, connection: Connection, events: frozenset[str], revision: int | None) -> None:
        before = connection.may_skip
        if events == before:
            return
        connection.may_skip = events
        is_sent = connection.send_all(encode_permit(events, revision))
        if not is_sent and not before <= events:  # a late line that only adds events does no harm
            self.late[connection] = None


def encode_permit(events: Iterable[str], revision: int | None) -> bytes:
    return encode_notification("announce", {"topic": "idle", "revision": revision, "events": sorted(events)})
