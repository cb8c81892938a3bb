"""The methods that only read: hooks, events, explain, status, sessions, log, ping, health.  Says who may see what."""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from hooklatch.core.hooks.registry import Snapshot
from hooklatch.core.payload import Payload
from hooklatch.core.protocol import ErrorCode, RpcError, convert
from hooklatch.core.text import did_you_mean
from hooklatch.record.files.reading import Filters, NoRecordError, query
from hooklatch.service.api.health import Health
from hooklatch.service.api.hook_reports import HookReports
from hooklatch.service.api.session_methods import ClientMethods, own_session
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.dispatch.dialect_fires import Dialects, Native
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Session, Sessions
from hooklatch.service.registry.visibility import allowed_plugins
from hooklatch.service.transport.connection import Connection

__all__ = ["Queries"]


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


class Queries(msgspec.Struct, frozen=True, kw_only=True):
    """Answers requests that only read; `record_folder` is where the log is."""

    hook_reports: HookReports
    status_report: StatusReport
    health: Health
    sessions: Sessions
    registries: Registries
    dialects: Dialects
    native: Native
    dispatcher: Dispatcher
    record_folder: str

    @property
    def methods(self) -> ClientMethods:
        return {
            "hooks": self._hooks,
            "hook": self._hook,
            "events": self._events,
            "explain": self._explain,
            "status": self._status,
            "sessions": self._sessions,
            "log": self._log,
            "ping": self._ping,
            "health": self._health,
        }

    async def _hooks(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, FilterParams)
        viewer = self._viewed(connection, params.session)
        return self.hook_reports.hooks(viewer, self._our_name(connection, params.event))

    async def _hook(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, HookParams)
        viewer = self._viewed(connection, params.session)
        return self.hook_reports.about(params.id, viewer, is_admin=connection.is_admin)

    async def _events(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, FilterParams)
        return self.hook_reports.events(self._viewed(connection, params.session), is_admin=connection.is_admin)

    async def _explain(self, connection: Connection, raw: msgspec.Raw) -> object:
        params = convert(raw, ExplainParams)
        spec = self.dispatcher.spec(self._our_name(connection, params.event) or params.event)
        viewer = self._viewed(connection, params.session)
        return self.hook_reports.explain(viewer, spec, Payload(bytes(params.payload)))

    async def _status(self, connection: Connection, raw: msgspec.Raw) -> object:
        return self.status_report.of(connection.session, is_admin=connection.is_admin)

    async def _sessions(self, connection: Connection, raw: msgspec.Raw) -> object:
        """List live sessions; on the agent socket only the caller's own and those below it."""
        only = None if connection.is_admin else own_session(connection)
        shown = [session for session in self.sessions if only is None or only.has_below(session)]
        return {"sessions": [described(session, self.registries.view_of(session)) for session in shown]}

    async def _log(self, connection: Connection, raw: msgspec.Raw) -> object:
        filters = convert(raw, Filters)
        if not connection.is_admin:
            session = self._viewed(connection, filters.session) or own_session(connection)
            filters = msgspec.structs.replace(filters, session=session.id, run=session.run)
        try:
            return await trio.to_thread.run_sync(query, self.record_folder, filters)
        except NoRecordError as error:
            raise RpcError(ErrorCode.NOT_FOUND, str(error)) from None

    async def _ping(self, connection: Connection, raw: msgspec.Raw) -> object:
        return {}

    async def _health(self, connection: Connection, raw: msgspec.Raw) -> object:
        return self.health.report()

    def _our_name(self, connection: Connection, event: str | None) -> str | None:
        """Return our name of an event that a session may have named in its dialect; any other name unchanged."""
        session = connection.session
        if event is None or session is None or session.terms.dialect is None:
            return event
        return self.native.canonical_name(self.dialects.find(session.terms.dialect), event)

    def _viewed(self, connection: Connection, session_id: str | None) -> Session | None:
        """Return whose view a report shows: the connection's own, one below it, or over the admin socket any."""
        own = connection.session
        if session_id is None or (own is not None and own.id == session_id):
            return own
        session = self.sessions.get(session_id)
        if not connection.is_admin and (own is None or session is None or not own.has_below(session)):
            raise RpcError(ErrorCode.NOT_ADMIN, "a session that this one did not start needs the admin socket")
        if session is None:
            near = did_you_mean(session_id, (session.id for session in self.sessions))
            raise RpcError(ErrorCode.NOT_FOUND, f"there is no live session {session_id!r}{near}")
        return session


def described(session: Session, view: Snapshot) -> dict[str, Any]:
    return {
        "id": session.id,
        "parent": session.parent.id if session.parent else None,
        "client": session.client,
        "host": session.terms.host,
        "cwd": session.cwd,
        "personality": session.personality,
        "plugins": sorted(allowed) if (allowed := allowed_plugins(session)) is not None else None,
        "connections": len(session.connections),
        "created_at": session.created_at,
        "fires": session.fires,
        "hooks": len(session.own),
        "revision": view.revision,
        "digest": view.digest,
    }
