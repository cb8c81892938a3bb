"""The connections, their sessions, and their subscriptions to topics.  It answers no request."""

from __future__ import annotations

import itertools
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from hooklatch.core.call import EventEnvelope
from hooklatch.core.messages import FireDecision
from hooklatch.core.protocol import encode_notification
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.service.registry.announcing import RegistryChange
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.connection import Connection, ConnectionTasks, RequestHandler, Role

__all__ = ["Bus"]


class AnnouncedFire(Protocol):
    """The part of a fire that is announced with its decision. `tool` and `subject` are read when they are asked for."""

    @property
    def session(self) -> AgentSession | None: ...

    @property
    def session_id(self) -> str | None: ...

    @property
    def envelope(self) -> EventEnvelope: ...

    @property
    def tool(self) -> str | None: ...

    @property
    def subject(self) -> str: ...


class Bus:
    """The table of connections, which delivers announcements to subscribers.  It never waits for a subscriber."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self._listening: defaultdict[str, dict[int, Connection]] = defaultdict(dict)  # by topic, by number
        self.watching: Mapping[int, Connection] = self._listening["decisions"]
        self._administrators: defaultdict[str, dict[int, Connection]] = defaultdict(dict)  # of these
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

    def part(self, connection: Connection) -> None:
        """Detach a connection that closes its session."""
        connection.retire()
        self.take_topics(connection)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.connections.pop(connection.number, None)
        self._stop_listening(connection)

    def close_links(self) -> None:
        """Close the connections of the fleet's link, when their proof is not valid any more."""
        for connection in [connection for connection in self.connections.values() if connection.role == "link"]:
            connection.close()

    def publish(self, viewer: AgentSession | None, announcement: RegistryChange) -> bool:
        """Notify a viewer's subscribers of a change in its snapshot. Return whether there are any."""
        if viewer is None:
            listeners = [listener for listener in self._listening["registry"].values() if listener.session is None]
        else:
            listeners = [*filter(None, map(self._listening["registry"].get, viewer.connections))]
        for connection in listeners:
            connection.announce(announcement.line, topic="registry")
        return bool(listeners)

    def decided(self, fire: AnnouncedFire, decision: FireDecision) -> None:
        """Announce a decision to the subscribers of its session and of the ancestors, and to all administrators."""
        audience = self._audience("decisions", fire.session)
        if audience:
            envelope = fire.envelope
            self._announce("decisions", audience, {
                "at": format_timestamp(time.time()), "session_id": fire.session_id, "host": envelope.host,
                "tool": fire.tool, "subject": fire.subject, "decision": decision,
            })  # fmt: skip

    def announce_operation(self, kind: str, fields: Mapping[str, object]) -> None:
        """Announce an operation on hooks, or an event of the record, to all administrators."""
        audience = self._audience("operations", None)
        if audience:
            self._announce("operations", audience, {"at": format_timestamp(time.time()), "kind": kind, **fields})

    def announce_fault(self, kind: str, text: str) -> None:
        """Announce a fault of the record itself, or its end. The record has it, as far as it can be written."""
        self.announce_operation(kind, {"text": text})

    def announce_ask(self, content: Mapping[str, object]) -> None:
        """Announce to all administrators that an ask waits for a person, or how it ended."""
        audience = self._audience("asks", None)
        if audience:
            self._announce("asks", audience, content)

    def told(self, session: AgentSession | None, event_type: str, data: msgspec.Raw) -> None:
        """Announce telemetry to the subscribers of its session and of the ancestors, and to all administrators."""
        audience = self._audience("telemetry", session)
        if audience:
            session_id = session.id if session is not None else None
            self._announce("telemetry", audience, {"session_id": session_id, "event_type": event_type, "data": data})

    def _announce(self, topic: str, audience: Iterable[Connection], content: Mapping[str, object]) -> None:
        line = encode_notification("announce", {"topic": topic, **content})
        for connection in audience:
            connection.announce(line, topic=topic)

    def listeners(self, topic: str, session: AgentSession) -> list[Connection]:
        """Return the connections of a session that listen to a topic."""
        listening = self._listening[topic]
        return [listening[number] for number in session.connections if number in listening] if listening else []

    def is_watched(self, session: AgentSession) -> bool:
        """Return whether a subscriber gets the session's decisions."""
        return bool(self._audience("decisions", session))

    def _audience(self, topic: str, session: AgentSession | None) -> list[Connection]:
        """Return the subscribers of a session's announcements. Those of other sessions cost nothing, however many."""
        audience = [*self._administrators[topic].values()]
        while session is not None:
            audience += [listener for listener in self.listeners(topic, session) if not listener.is_admin]
            session = session.parent
        return audience

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
