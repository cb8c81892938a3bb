"""What a connection does with its session: hello, change, close, subscribe.  Knows params and results, not bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from hooklatch.core.hooks.registry import budget
from hooklatch.core.limits import Names
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_FRAME, MAX_IN_FLIGHT, PROTOCOL, ErrorCode, RpcError
from hooklatch.core.text import did_you_mean
from hooklatch.record.writer import Record
from hooklatch.service.api.session_opening import HelloParams, SessionOpening, UpdateParams
from hooklatch.service.dispatch.dialect_fires import Dialects
from hooklatch.service.loading.projects import Projects
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Session, Sessions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection
from hooklatch.version import VERSION

__all__ = ["Method", "MethodTable", "SessionMethods", "TopicsParams", "own_session", "viewed"]

TOPICS = frozenset({"registry", "decisions", "telemetry"})
Params = TypeVar("Params")


class Method(NamedTuple, Generic[Params]):
    """The type of a method's params (Raw: it takes none, whatever is sent), and what answers it."""

    params: type[Params]
    answer: Callable[[Connection, Params], Awaitable[object]]


MethodTable: TypeAlias = Mapping[str, Method[Any]]


class TopicsParams(msgspec.Struct, frozen=True):
    topics: Names


class SessionMethods(msgspec.Struct, frozen=True):
    """Answers requests about a connection's own session."""

    opening: SessionOpening
    registries: Registries
    dialects: Dialects
    projects: Projects
    bus: Bus
    record: Record

    @property
    def methods(self) -> MethodTable:
        return {
            "hello": Method(HelloParams, self._hello),
            "session.update": Method(UpdateParams, self._update),
            "session.close": Method(msgspec.Raw, self._close),
            "subscribe": Method(TopicsParams, self._subscribe),
            "unsubscribe": Method(TopicsParams, self._unsubscribe),
        }

    async def _hello(self, connection: Connection, params: HelloParams) -> object:
        if params.protocol != PROTOCOL:
            raise RpcError(
                ErrorCode.INVALID_PARAMS, f"this daemon speaks protocol {PROTOCOL}, not {params.protocol}; update one"
            )
        dialect = self.dialects.find(params.dialect) if params.dialect is not None else None
        if connection.has_greeted:
            raise RpcError(ErrorCode.INVALID_REQUEST, "this connection has sent a hello already")
        session = None
        if params.session is not None or not connection.is_admin:
            session = await self.opening.open(connection, params, dialect)
        connection.has_greeted, connection.client = True, params.client.text
        view, catalogue = self.registries.view_of(session), self.registries.catalogue
        return {
            "protocol": PROTOCOL,
            "server": {"name": "hooklatch", "version": VERSION},
            "session_id": session.id if session else None,
            "resume_token": session.resume_token if session else None,
            "hooks": list(session.own) if session else [],
            "child_token": session.child_token if session else None,
            "revision": view.revision,
            "digest": view.digest,
            "record": self.record.head,
            "limits": {"payload_bytes": MAX_PAYLOAD, "frame_bytes": MAX_FRAME, "in_flight": MAX_IN_FLIGHT},
            "budgets": {name: budget(catalogue[name], view.for_event(catalogue[name])) for name in catalogue},
            "warnings": self.projects.warnings(session.places) if session else [],
        }

    async def _update(self, connection: Connection, params: UpdateParams) -> object:
        session = own_session(connection)
        await self.opening.update(session, params)
        await self.registries.announced()
        view = self.registries.view_of(session)
        return {"revision": view.revision, "warnings": self.projects.warnings(session.places)}

    async def _close(self, connection: Connection, raw: msgspec.Raw) -> object:
        return {"ended": self.bus.part(connection, own_session(connection))}

    async def _subscribe(self, connection: Connection, params: TopicsParams) -> object:
        topics = known_topics(params)
        view = self.registries.follow(connection.session)  # before it listens: what is due to others is not for it
        connection.topics |= topics
        self.bus.take_topics(connection)
        return {"revision": view.revision}

    async def _unsubscribe(self, connection: Connection, params: TopicsParams) -> object:
        connection.topics -= known_topics(params)
        self.bus.take_topics(connection)
        return {"revision": self.registries.view_of(connection.session).revision}


def known_topics(params: TopicsParams) -> set[str]:
    topics = set(params.topics)
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


def viewed(sessions: Sessions, connection: Connection, session_id: str | None) -> Session | None:
    """Return whose view a report shows: the connection's own, one below it, or over the admin socket any.

    Raises:
        RpcError: there is no such session, or it may not be seen from here.
    """
    own = connection.session
    if session_id is None or (own is not None and own.id == session_id):
        return own
    session = sessions.get(session_id)
    if not connection.is_admin and (own is None or session is None or not own.has_below(session)):
        raise RpcError(ErrorCode.NOT_ADMIN, "a session that this one did not start needs the admin socket")
    if session is None:
        near = did_you_mean(session_id, (session.id for session in sessions))
        raise RpcError(ErrorCode.NOT_FOUND, f"there is no live session {session_id!r}{near}")
    return session
