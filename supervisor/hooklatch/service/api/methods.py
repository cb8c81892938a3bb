"""What each method of the protocol does.  Knows params and results; knows no bytes and no process.

One class is one handler for all connections; what belongs to one connection is on the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import trio

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.definitions import read_definition
from hooklatch.core.hooks.registry import Hook, budget
from hooklatch.core.limits import Names
from hooklatch.core.payload import MAX_PAYLOAD, Payload
from hooklatch.core.protocol import MAX_FRAME, MAX_IN_FLIGHT, PROTOCOL, ErrorCode, Request, RpcError, convert
from hooklatch.core.text import did_you_mean
from hooklatch.record.files.reading import Filters, NoRecordError, query
from hooklatch.service.api.administration import Administration, stored
from hooklatch.service.api.health import health
from hooklatch.service.api.hook_report import Inquiry
from hooklatch.service.api.hub import Hub
from hooklatch.service.api.registration import HookTables, Registrant, Registrar
from hooklatch.service.api.reports import Reports
from hooklatch.service.api.session_opening import Greeting, HelloParams, UpdateParams, check_live
from hooklatch.service.dispatch.fires import FireParams
from hooklatch.service.registry.sessions import Session
from hooklatch.service.transport.connection import Connection
from hooklatch.version import VERSION
from hooklatch_worker.author.ambiguity import ambiguity

__all__ = ["Methods"]

TOPICS = frozenset({"registry", "decisions", "telemetry"})
WITHOUT_HELLO = frozenset({"hello", "fire", "ping", "health"})


class RegisterParams(msgspec.Struct, frozen=True):
    hooks: HookTables
    scope: str = "session"


class IdParams(msgspec.Struct, frozen=True):
    id: str
    scope: str | None = None


class HookParams(msgspec.Struct, frozen=True):
    """A hook's id, or its layer and id."""

    id: str
    session: str | None = None


class FilterParams(msgspec.Struct, frozen=True):
    event: str | None = None
    session: str | None = None


class ExplainParams(msgspec.Struct, frozen=True):
    event: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    session: str | None = None


class TopicsParams(msgspec.Struct, frozen=True):
    topics: Names


class Methods:
    """Answers requests."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._reports = Reports(hub)
        self._inquiry = Inquiry(hub, self._reports)
        self._registrar = Registrar(hub)
        self._greeting = Greeting(hub, self._registrar)
        self._methods: dict[str, Callable[[Connection, msgspec.Raw], Awaitable[object]]] = {
            "hello": self._hello,
            "session.update": self._update,
            "session.close": self._close,
            "register": self._register,
            "unregister": self._unregister,
            "enable": self._enable,
            "disable": self._disable,
            "hooks": self._hooks,
            "hook": self._hook,
            "events": self._events,
            "explain": self._explain,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "status": self._status,
            "sessions": self._sessions,
            "log": self._log,
            "ping": self._ping,
            "health": self._health,
        }
        self._admin_methods = Administration(hub).methods

    async def handle(self, connection: Connection, request: Request) -> object:
        """Answer one request.

        Raises:
            RpcError: what is wrong with it.
        """
        if request.method == "fire":
            return await self._fire(connection, request.params)
        method = self._methods.get(request.method) or self._admin_method(connection, request.method)
        if not connection.has_greeted and request.method not in WITHOUT_HELLO:
            raise RpcError(ErrorCode.HELLO_REQUIRED, f"{request.method} needs a hello first")
        return await method(connection, request.params)

    def _admin_method(
        self, connection: Connection, name: str
    ) -> Callable[[Connection, msgspec.Raw], Awaitable[object]]:
        administer = self._admin_methods.get(name)
        if administer is None:
            known = ", ".join(sorted((*self._methods, *self._admin_methods)))
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"unknown method {name!r}; there are fire, {known}")
        if not connection.is_admin:
            raise RpcError(ErrorCode.NOT_ADMIN, f"{name} needs the admin socket")
        return lambda _, raw: administer(raw)

    def closed(self, connection: Connection) -> None:
        """Take note that a connection has ended."""
        self._hub.leave(connection)

    async def _fire(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, FireParams)
        session = connection.session
        # Here, for from here on the context and a native payload are read, and what was read says no more how it came.
        fault = ambiguity(bytes(raw))
        dialect = params.dialect or (session.dialect if session is not None else None)
        if dialect is not None:
            return await self._hub.native.fire(self._hub.native.find(dialect), params, session, fault)
        if fault is not None:
            spec = self._hub.dispatcher.spec(params.event)
            refused = await self._hub.dispatcher.refuse(spec, "payload", fault, params, session)
            return refused if params.wait else {"accepted": False, "decision_id": refused.decision_id}
        if not params.wait:
            return self._hub.dispatcher.fire_later(params, connection.session)
        return await self._hub.dispatcher.fire(params, connection.session)

    async def _hello(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, HelloParams)
        if params.protocol != PROTOCOL:
            raise RpcError(
                ErrorCode.INVALID_PARAMS, f"this daemon speaks protocol {PROTOCOL}, not {params.protocol}; update one"
            )
        dialect = self._hub.native.find(params.dialect) if params.dialect is not None else None
        if connection.has_greeted:
            raise RpcError(ErrorCode.INVALID_REQUEST, "this connection has said hello already")
        session = None
        if params.session is not None or not connection.is_admin:
            session = await self._greeting.open(connection, params, dialect)
        connection.has_greeted, connection.client = True, params.client.text
        view = self._hub.registries.view_of(session)
        return {
            "protocol": PROTOCOL,
            "server": {"name": "hooklatch", "version": VERSION},
            "session_id": session.id if session else None,
            "resume_token": session.resume_token if session else None,
            "hooks": list(session.own) if session else [],
            "child_token": session.child_token if session else None,
            "revision": view.revision,
            "digest": view.digest,
            "record": self._hub.record.head,
            "limits": {"payload_bytes": MAX_PAYLOAD, "frame_bytes": MAX_FRAME, "in_flight": MAX_IN_FLIGHT},
            "budgets": {spec.name: budget(spec, view.for_event(spec)) for spec in self._specs()},
            "warnings": self._hub.projects.warnings(session.places) if session else [],
        }

    async def _update(self, connection: Connection, raw: msgspec.Raw) -> object:
        session = self._own_session(connection)
        await self._greeting.update(session, convert(raw, UpdateParams))
        await self._hub.registries.announced()
        return {
            "revision": self._hub.registries.view_of(session).revision,
            "warnings": self._hub.projects.warnings(session.places),
        }

    async def _close(self, connection: Connection, raw: msgspec.Raw) -> object:
        return {"ended": self._hub.part(connection, self._own_session(connection))}

    async def _register(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, RegisterParams)
        if self._is_global(connection, params.scope):
            hooks = await self._make(params, connection, Registrant())
            self._hub.registries.register_global(hooks)
            await self._hub.store_definitions(single_tables(cast("list[dict[str, Any]]", params.hooks)))
            return stored(
                self._hub, {"ids": [hook.id for hook in hooks], "revision": self._hub.registries.view.revision}
            )
        session = self._own_session(connection)
        hooks = await self._make(params, connection, Registrant.of(session))
        check_live(session)
        registries = self._hub.registries
        registries.register_own(session, hooks)
        await registries.announced()
        return {"ids": [hook.id for hook in hooks], "revision": registries.view_of(session).revision}

    async def _make(self, params: RegisterParams, connection: Connection, registrant: Registrant) -> list[Hook]:
        return await self._registrar.hooks_of(self._registrar.read(params.hooks, registrant), connection, registrant)

    async def _unregister(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, IdParams)
        registries = self._hub.registries
        if self._is_global(connection, params.scope):
            removed = registries.unregister_global(params.id)
            if removed is not None:
                await self._hub.drop_definition(removed.id)
            return stored(self._hub, {"revision": registries.view.revision})
        session = self._own_session(connection)
        registries.unregister_own(session, params.id)
        await registries.announced()
        return {"revision": registries.view_of(session).revision}

    async def _enable(self, connection: Connection, raw: msgspec.Raw) -> object:
        return await self._switch(connection, convert(raw, IdParams), enabled=True)

    async def _disable(self, connection: Connection, raw: msgspec.Raw) -> object:
        return await self._switch(connection, convert(raw, IdParams), enabled=False)

    async def _switch(self, connection: Connection, params: IdParams, *, enabled: bool) -> object:
        registries = self._hub.registries
        if self._is_global(connection, params.scope):
            await self._hub.switch(params.id, enabled=enabled)
            return stored(self._hub, {"revision": registries.view.revision})
        session = self._own_session(connection)
        hook = registries.switch_own(session, params.id, enabled=enabled)
        if enabled:
            self._hub.dispatcher.targets.breakers.lift(hook.name)
        await registries.announced()
        return {"revision": registries.view_of(session).revision}

    async def _hooks(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, FilterParams)
        return self._reports.hooks(self._viewed(connection, params.session), self._our_name(connection, params.event))

    async def _hook(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, HookParams)
        return self._inquiry.about(params.id, self._viewed(connection, params.session), is_admin=connection.is_admin)

    def _our_name(self, connection: Connection, event: str | None) -> str | None:
        """Return our name of an event that a session may have named in its dialect; any other stays as it is."""
        session = connection.session
        if event is None or session is None or session.dialect is None:
            return event
        dialect = self._hub.native.find(session.dialect)
        return self._hub.native.canonical_name(dialect, event)

    async def _events(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, FilterParams)
        return self._reports.events(self._viewed(connection, params.session), is_admin=connection.is_admin)

    async def _explain(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, ExplainParams)
        spec = self._hub.dispatcher.spec(self._our_name(connection, params.event) or params.event)
        return self._reports.explain(self._viewed(connection, params.session), spec, Payload(bytes(params.payload)))

    async def _subscribe(self, connection: Connection, raw: msgspec.Raw) -> object:
        topics = self._known_topics(raw)
        view = self._hub.registries.follow(connection.session)  # before it listens: what others are due is not for it
        connection.topics |= topics
        self._hub.bus.take_topics(connection)
        return {"revision": view.revision}

    async def _unsubscribe(self, connection: Connection, raw: msgspec.Raw) -> object:
        connection.topics -= self._known_topics(raw)
        self._hub.bus.take_topics(connection)
        return {"revision": self._hub.registries.view_of(connection.session).revision}

    def _known_topics(self, raw: msgspec.Raw) -> set[str]:
        topics = set(convert(raw, TopicsParams).topics)
        for topic in topics - TOPICS:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown topic {topic!r}; there are {', '.join(sorted(TOPICS))}")
        return topics

    async def _status(self, connection: Connection, raw: msgspec.Raw) -> object:
        return self._reports.status(connection.session, is_admin=connection.is_admin)

    async def _sessions(self, connection: Connection, raw: msgspec.Raw) -> object:
        return self._reports.sessions(None if connection.is_admin else self._own_session(connection))

    async def _log(self, connection: Connection, raw: msgspec.Raw) -> object:
        filters = convert(raw, Filters)
        if not connection.is_admin:
            session = self._viewed(connection, filters.session) or self._own_session(connection)
            filters = msgspec.structs.replace(filters, session=session.id, run=session.run)
        try:
            return await trio.to_thread.run_sync(query, self._hub.record.folder, filters)
        except NoRecordError as error:
            raise RpcError(ErrorCode.NOT_FOUND, str(error)) from None

    async def _ping(self, connection: Connection, raw: msgspec.Raw) -> object:
        return {}

    async def _health(self, connection: Connection, raw: msgspec.Raw) -> object:
        return health(self._hub)

    def _specs(self) -> list[EventSpec]:
        catalogue = self._hub.registries.catalogue
        return [catalogue[name] for name in catalogue]

    def _viewed(self, connection: Connection, session_id: str | None) -> Session | None:
        """Whose view a report shows: the connection's own, one below it, or over the admin socket any session's."""
        own = connection.session
        if session_id is None or (own is not None and own.id == session_id):
            return own
        session = self._hub.sessions.get(session_id)
        if not connection.is_admin and (own is None or session is None or not own.has_below(session)):
            raise RpcError(ErrorCode.NOT_ADMIN, "a session that this one did not start needs the admin socket")
        if session is None:
            near = did_you_mean(session_id, (session.id for session in self._hub.sessions))
            raise RpcError(ErrorCode.NOT_FOUND, f"there is no live session {session_id!r}{near}")
        return session

    def _own_session(self, connection: Connection) -> Session:
        if connection.session is None:
            raise RpcError(
                ErrorCode.HELLO_REQUIRED, 'this connection has no session; say hello with one, or scope "global"'
            )
        return connection.session

    def _is_global(self, connection: Connection, scope: str | None) -> bool:
        """Return which layer a change is for; by default the connection's own."""
        scope = scope or ("session" if connection.session is not None else "global")
        if scope not in ("session", "global"):
            raise RpcError(ErrorCode.INVALID_PARAMS, f'scope is "session" or "global", not {scope!r}')
        if scope == "global" and not connection.is_admin:
            raise RpcError(ErrorCode.NOT_ADMIN, "a global change needs the admin socket")
        return scope == "global"


def single_tables(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one definition for each hook, with its id written out: what is stored is found again by that id."""
    return [
        {**table, "id": definition.id, "event": definition.event}
        for table in tables
        for definition in read_definition(table)
    ]
