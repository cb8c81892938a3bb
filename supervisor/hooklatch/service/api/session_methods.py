"""What a connection does with its session: hello, change, close, subscribe.  Knows params and results, not bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from hooklatch.core.hooks.registry import budget
from hooklatch.core.limits import Names
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_FRAME, MAX_IN_FLIGHT, ErrorCode, RpcError, convert
from hooklatch.record.writer import Record
from hooklatch.service.api.session_opening import HelloParams, SessionOpening, UpdateParams
from hooklatch.service.dispatch.dialect_fires import Dialects
from hooklatch.service.loading.projects import Projects
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Session
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection
from hooklatch.version import PROTOCOL, VERSION

__all__ = ["ClientMethods", "SessionMethods", "TopicsParams", "own_session"]

TOPICS = frozenset({"registry", "decisions", "telemetry"})
ClientMethods: TypeAlias = Mapping[str, Callable[[Connection, msgspec.Raw], Awaitable[object]]]


class TopicsParams(msgspec.Struct, frozen=True):
    topics: Names


class SessionMethods:
    """Answers requests about a connection's own session."""

    def __init__(
        self,
        opening: SessionOpening,
        registries: Registries,
        dialects: Dialects,
        projects: Projects,
        bus: Bus,
        record: Record,
    ) -> None:
        self._opening = opening
        self._registries = registries
        self._dialects = dialects
        self._projects = projects
        self._bus = bus
        self._record = record
        self.methods: ClientMethods = {
            "hello": self._hello,
            "session.update": self._update,
            "session.close": self._close,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
        }

    async def _hello(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, HelloParams)
        if params.protocol != PROTOCOL:
            raise RpcError(
                ErrorCode.INVALID_PARAMS, f"this daemon speaks protocol {PROTOCOL}, not {params.protocol}; update one"
            )
        dialect = self._dialects.find(params.dialect) if params.dialect is not None else None
        if connection.has_greeted:
            raise RpcError(ErrorCode.INVALID_REQUEST, "this connection has sent a hello already")
        session = None
        if params.session is not None or not connection.is_admin:
            session = await self._opening.open(connection, params, dialect)
        connection.has_greeted, connection.client = True, params.client.text
        view, catalogue = self._registries.view_of(session), self._registries.catalogue
        return {
            "protocol": PROTOCOL,
            "server": {"name": "hooklatch", "version": VERSION},
            "session_id": session.id if session else None,
            "resume_token": session.resume_token if session else None,
            "hooks": list(session.own) if session else [],
            "child_token": session.child_token if session else None,
            "revision": view.revision,
            "digest": view.digest,
            "record": self._record.head,
            "limits": {"payload_bytes": MAX_PAYLOAD, "frame_bytes": MAX_FRAME, "in_flight": MAX_IN_FLIGHT},
            "budgets": {name: budget(catalogue[name], view.for_event(catalogue[name])) for name in catalogue},
            "warnings": self._projects.warnings(session.places) if session else [],
        }

    async def _update(self, connection: Connection, raw: msgspec.Raw) -> object:
        session = own_session(connection)
        await self._opening.update(session, convert(raw, UpdateParams))
        await self._registries.announced()
        view = self._registries.view_of(session)
        return {"revision": view.revision, "warnings": self._projects.warnings(session.places)}

    async def _close(self, connection: Connection, raw: msgspec.Raw) -> object:
        return {"ended": self._bus.part(connection, own_session(connection))}

    async def _subscribe(self, connection: Connection, raw: msgspec.Raw) -> object:
        topics = known_topics(raw)
        view = self._registries.follow(connection.session)  # before it listens: what is due to others is not for it
        connection.topics |= topics
        self._bus.take_topics(connection)
        return {"revision": view.revision}

    async def _unsubscribe(self, connection: Connection, raw: msgspec.Raw) -> object:
        connection.topics -= known_topics(raw)
        self._bus.take_topics(connection)
        return {"revision": self._registries.view_of(connection.session).revision}


def known_topics(raw: msgspec.Raw) -> set[str]:
    topics = set(convert(raw, TopicsParams).topics)
    for topic in topics - TOPICS:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown topic {topic!r}; there are {', '.join(sorted(TOPICS))}")
    return topics


def own_session(connection: Connection) -> Session:
    """Return the session of a connection.

    Raises:
        RpcError: it has none.
    """
    if connection.session is None:
        raise RpcError(
            ErrorCode.HELLO_REQUIRED, 'this connection has no session; say hello with one, or scope "global"'
        )
    return connection.session
