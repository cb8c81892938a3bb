"""Who is connected, to which session, and subscribed to which topics.  Knows connections; answers no request."""

from __future__ import annotations

import itertools
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from hooklatch.core.decisions.call import EventEnvelope
from hooklatch.core.messages import FireDecision
from hooklatch.core.protocol import encode_notification
from hooklatch.record.files.chain import format_timestamp
from hooklatch.service.registry.announcing import RegistryChange
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.transport.connection import Connection, ConnectionTasks, RequestHandler, Role

__all__ = ["Bus"]


class AnnouncedFire(Protocol):
    """What is told of a fire beside its decision; `tool` is the name in its payload, which may have to be read."""

    @property
    def session(self) -> AgentSession | None: ...

    @property
    def session_id(self) -> str | None: ...

    @property
    def envelope(self) -> EventEnvelope: ...

    @property
    def tool(self) -> str | None: ...


class Bus:
    """Keeps the connections, and delivers announcements to subscribers.  It never waits for one.

    `on_change` hears of each change of the global registry before any subscriber does.
    """

    def __init__(self, sessions: Sessions, on_change: Callable[[RegistryChange], None]) -> None:
        self.connections: dict[int, Connection] = {}
        self._sessions = sessions
        self._on_change = on_change
        self._listening: defaultdict[str, dict[int, Connection]] = defaultdict(dict)  # by topic, by number
        self.watching: Mapping[int, Connection] = self._listening["decisions"]
        self._administrators: defaultdict[str, dict[int, Connection]] = defaultdict(dict)  # those of them that are
        self._numbers = itertools.count(1)

    def connect(
        self, stream: socket.socket, handler: RequestHandler, shared: ConnectionTasks, *, role: Role
    ) -> Connection:
        """Create and keep the connection of an accepted client."""
        connection = Connection(next(self._numbers), stream, handler, shared, role=role)
        self.connections[connection.number] = connection
        return connection

    def join(self, connection: Connection, session: AgentSession) -> None:
        """Attach a connection to a session."""
        connection.session = session
        session.connections.add(connection.number)

    def part(self, connection: Connection, session: AgentSession) -> bool:
        """Detach a connection from its session, and return whether that has ended the session."""
        connection.retire()
        self.take_topics(connection)
        return self._sessions.closed(session, connection.number)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.connections.pop(connection.number, None)
        self._stop_listening(connection)
        if connection.session is not None:
            self._sessions.left(connection.session, connection.number)

    def close_links(self) -> None:
        """Close the connections of the fleet's link: what they have shown is not valid any more."""
        for connection in [one for one in self.connections.values() if one.role == "link"]:
            connection.close()

    def publish(self, viewer: AgentSession | None, announcement: RegistryChange) -> bool:
        """Tell a viewer's subscribers of a change in its view, and return whether there are any."""
        if viewer is None:
            self._on_change(announcement)
            told = [one for one in self._listening["registry"].values() if one.session is None]
        else:
            told = [*filter(None, map(self._listening["registry"].get, viewer.connections))]
        for connection in told:
            connection.announce(announcement.line, topic="registry")
        return bool(told)

    def decided(self, fire: AnnouncedFire, decision: FireDecision) -> None:
        """Show a decision to the subscribers of its session and of those above it, and to every admin's."""
        shown = self._audience("decisions", fire.session)
        if shown:
            envelope = fire.envelope
            self._tell("decisions", shown, {
                "at": format_timestamp(time.time()), "session_id": fire.session_id, "host": envelope.host,
                "tool": fire.tool, "decision": decision,
            })  # fmt: skip

    def operated(self, kind: str, fields: Mapping[str, object]) -> None:
        """Show every administrator's subscribers what was done about hooks, and what befell the record."""
        shown = self._audience("operations", None)
        if shown:
            self._tell("operations", shown, {"at": format_timestamp(time.time()), "kind": kind, **fields})

    def asked(self, content: Mapping[str, object]) -> None:
        """Show every administrator's subscribers that an ask waits for a person, or how it ended."""
        shown = self._audience("asks", None)
        if shown:
            self._tell("asks", shown, content)

    def told(self, session: AgentSession | None, event_type: str, data: msgspec.Raw) -> None:
        """Show telemetry to the subscribers of its session and of those above it, and to every admin's."""
        shown = self._audience("telemetry", session)
        if shown:
            session_id = session.id if session is not None else None
            self._tell("telemetry", shown, {"session_id": session_id, "event_type": event_type, "data": data})

    def _tell(self, topic: str, shown: Iterable[Connection], content: Mapping[str, object]) -> None:
        line = encode_notification("announce", {"topic": topic, **content})
        for connection in shown:
            connection.announce(line, topic=topic)

    def listeners(self, topic: str, session: AgentSession) -> list[Connection]:
        """Return the connections of a session that listen to a topic."""
        listening = self._listening[topic]
        return [listening[number] for number in session.connections if number in listening] if listening else []

    def is_watched(self, session: AgentSession) -> bool:
        """Return whether somebody is shown the session's decisions."""
        return bool(self._audience("decisions", session))

    def _audience(self, topic: str, session: AgentSession | None) -> list[Connection]:
        """Return who is shown what a session does; those who listen elsewhere cost nothing, however many they are."""
        shown = [*self._administrators[topic].values()]
        while session is not None:
            shown += [listener for listener in self.listeners(topic, session) if not listener.is_admin]
            session = session.parent
        return shown

    def take_topics(self, connection: Connection) -> None:
        """Note that a connection's topics have changed."""
        self._stop_listening(connection)
        if connection.number in self.connections:
            for topic in connection.topics:
                self._listening[topic][connection.number] = connection
                if connection.is_admin:
                    self._administrators[topic][connection.number] = connection

    def _stop_listening(self, connection: Connection) -> None:
        for listening in (*self._listening.values(), *self._administrators.values()):
            listening.pop(connection.number, None)
