"""The methods of a connection's own session: hello, update, close, subscribe.

A request that is refused, or whose client leaves before the answer, leaves nothing behind: no session, no hook, no
parent, no revision, no timer.  So everything is checked and loaded first, and then applied in one step:

    check  ─▶  load the project, load the hooks' sources  ─▶  check again  ─▶  active
               (the only places where others run)             └── without a checkpoint ──┘
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.hooks.snapshots import compute_budget
from hooklatch.core.limits import MAX_BYTES_IN_FLIGHT, Name, Names, Path
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_FRAME, MAX_IN_FLIGHT, ErrorCode, RpcError
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.methods import ApiMethod, MethodTable, PolicySlot, check_live, require_session
from hooklatch.service.api.registration import HookTables, Registrant, Registrar
from hooklatch.service.dispatch.dialects import DialectDispatcher, Dialects
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.reloader import Reloader, of_projects
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.places import ResolvedDirectory, look_up_directory
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession, Sessions, SessionTerms, make_session_id
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection
from hooklatch.service.transport.permits import SkipPermissions
from hooklatch.version import PROTOCOL, VERSION

if TYPE_CHECKING:
    from hooklatch.core.answers import EndedSession, HelloAnswer, RefusedDefinition, SessionAnswer
    from hooklatch.core.status_answers import RevisionAnswer
    from hooklatch.dialects.dialect import Dialect

__all__ = ["HelloParams", "SessionMethods", "TopicsParams", "UpdateParams"]

TOPICS = frozenset({"registry", "decisions", "telemetry", "idle", "operations", "asks"})
OF_ADMINISTRATORS = frozenset({"operations", "asks"})  # of these topics: they are about all sessions


class UpdateParams(msgspec.Struct, frozen=True):
    """The settings that a session may change while it lives: an absent key changes nothing, null resets a setting."""

    cwd: Path | None = None
    personality: Name | msgspec.UnsetType | None = msgspec.UNSET
    plugins: Names | msgspec.UnsetType | None = msgspec.UNSET


class SessionParams(UpdateParams, frozen=True):
    """The session that a `hello` opens or joins."""

    id: str | None = None  # validated by `Sessions.check`, with its own messages
    resume_token: Name | None = None
    parent_session_id: Name | None = None
    parent_token: Name | None = None
    began_in: Path | None = None
    host: Name | None = None
    require_handlers: Names = []
    hooks: HookTables = []
    each: bool = False


class ClientParams(msgspec.Struct, frozen=True):
    name: Name = ""
    version: Name = ""

    @property
    def text(self) -> str:
        return f"{self.name} {self.version}".strip()


class HelloParams(msgspec.Struct, frozen=True):
    protocol: int
    client: ClientParams = ClientParams()
    session: SessionParams | None = None
    dialect: Name | None = None
    emits: Names = []
    role: Name | None = None
    token: Name | None = None


class TopicsParams(msgspec.Struct, frozen=True):
    topics: Names


class SessionMethods(msgspec.Struct, frozen=True, kw_only=True):
    """The methods about a connection's own session."""

    registrar: Registrar
    registries: Registries
    sessions: Sessions
    projects: ProjectRegistry
    reloader: Reloader
    dialects: Dialects
    dialect_dispatcher: DialectDispatcher
    bus: Bus
    permits: SkipPermissions
    record: RecordWriter
    fleet: PolicySlot
    asks: AskBroker

    @property
    def methods(self) -> MethodTable:
        return {
            "hello": ApiMethod(HelloParams, self._hello),
            "session.update": ApiMethod(UpdateParams, self._update),
            "session.close": ApiMethod(msgspec.Raw, self._close),
            "subscribe": ApiMethod(TopicsParams, self._subscribe),
            "unsubscribe": ApiMethod(TopicsParams, self._unsubscribe),
        }

    async def _hello(self, connection: Connection, params: HelloParams) -> HelloAnswer:
        if params.protocol != PROTOCOL:
            raise RpcError(
                ErrorCode.INVALID_PARAMS,
                f"this daemon speaks protocol {PROTOCOL}, not {params.protocol}; update the older of daemon and client",
            )
        dialect = self.dialects.find(params.dialect) if params.dialect is not None else None
        if connection.has_greeted:
            raise RpcError(ErrorCode.INVALID_REQUEST, "this connection has sent a hello already")
        if params.role is not None:
            self.fleet.admit(connection, params.role, params.token, has_session=params.session is not None)
        session: AgentSession | None = None
        warnings: list[str] = []
        refusals: list[RefusedDefinition] | None = None
        if params.session is not None or connection.role == "agent":
            session, refusals = await self._open(connection, params, dialect)
            warnings = await self.projects.warnings(session.places)
            # Other connections of the session may have received a smaller budget, and rely on it.
            promised_wait = session.ask_wait if len(session.connections) > 1 else self.asks.wait
            session.ask_wait = min(promised_wait, self.asks.wait)
            if len(session.connections) > 1 or session.children:  # they may still skip events that a new hook is on
                await self.registries.announcer.wait_announced()
        connection.has_greeted, connection.client = True, params.client.text
        view, catalogue = self.registries.view_of(session), self.registries.catalogue
        answer: HelloAnswer = {
            "protocol": PROTOCOL,
            "server": {"name": "hooklatch", "version": VERSION},
            "session_id": session.id if session else None,
            "resume_token": session.resume_token if session else None,
            "hooks": list(session.own) if session else [],
            "child_token": session.child_token if session else None,
            "revision": view.revision,
            "digest": view.digest,
            "record": self.record.head,
            "limits": {
                "payload_bytes": MAX_PAYLOAD,
                "frame_bytes": MAX_FRAME,
                "in_flight": MAX_IN_FLIGHT,
                "in_flight_bytes": MAX_BYTES_IN_FLIGHT,
            },
            "budgets": {
                name: compute_budget(spec, view.for_event(spec), wait=self.asks.wait)
                for name, spec in catalogue.items()
            },
            "warnings": warnings,
        }
        if refusals is not None:
            answer["refused"] = refusals
        return answer

    async def _update(self, connection: Connection, params: UpdateParams) -> SessionAnswer:
        """Change the settings of a session: all that the request names, or none."""
        session, directory = require_session(connection), await look_up_if_named(params.cwd)
        self._check_personality(params)
        async with self._load_projects(directory):
            self._check_personality(params)  # again: a reload may have removed it while the project was loaded
            check_live(session)
            self._change_settings(session, params, directory)
            self.registries.refresh(session)
        await self.registries.announcer.wait_announced()
        warnings = await self.projects.warnings(session.places)
        return {"revision": self.registries.view_of(session).revision, "warnings": warnings}

    async def _close(self, connection: Connection, raw: msgspec.Raw) -> EndedSession:
        session, is_watching = require_session(connection), "decisions" in connection.topics
        self.permits.take_back(connection)
        self.bus.part(connection)
        has_ended = self.sessions.close_connection(session, connection.number)
        if is_watching:
            self.registries.permit_anew(None if connection.is_admin else session)
        return {"ended": has_ended}

    async def _subscribe(self, connection: Connection, params: TopicsParams) -> RevisionAnswer:
        topics = validate_topics(params)
        if not connection.is_admin:
            for topic in sorted(topics & OF_ADMINISTRATORS):
                raise RpcError(ErrorCode.NOT_ADMIN, f"the topic {topic!r} needs the admin socket")
        session = require_session(connection) if "idle" in topics else connection.session
        view = self.registries.follow(session)  # before it listens: it needs no announcement of an earlier change
        connection.topics |= topics
        self.bus.take_topics(connection)
        if "decisions" in topics:
            await self._renew_permissions(connection)
        if session is not None and "idle" in topics:
            self.registries.permit(session)
        return {"revision": view.revision}

    async def _unsubscribe(self, connection: Connection, params: TopicsParams) -> RevisionAnswer:
        topics = validate_topics(params)
        if "idle" in topics:
            self.permits.take_back(connection)
        connection.topics -= topics
        self.bus.take_topics(connection)
        if "decisions" in topics:
            await self._renew_permissions(connection)
        return {"revision": self.registries.view_of(connection.session).revision}

    async def _renew_permissions(self, connection: Connection) -> None:
        """Forbid clients to skip the events whose decisions a connection watches, and permit it once none does."""
        self.registries.permit_anew(None if connection.is_admin else connection.session)
        await self.registries.announcer.wait_announced()

    async def _open(
        self, connection: Connection, hello: HelloParams, dialect: Dialect | None
    ) -> tuple[AgentSession, list[RefusedDefinition] | None]:
        """Open the session that a client requests, or join it; return it with the hooks that were refused."""
        params = hello.session or SessionParams()
        emitted = frozenset(self.dialect_dispatcher.canonical_name(dialect, event) for event in hello.emits)
        required = frozenset(
            self.dialect_dispatcher.canonical_name(dialect, event) for event in params.require_handlers
        )
        known = self.sessions.check(params.id, params.resume_token)
        self._find_parent(params, known)
        directory, start_directory = await look_up_if_named(params.cwd), await look_up_if_named(params.began_in)
        self._check_personality(params)
        if known is not None:
            registrant = Registrant.of(known, is_each=params.each)
        else:
            name = dialect.name if dialect is not None else None
            registrant = Registrant(params.id or make_session_id(), name, is_each=params.each)
        registrant = msgspec.structs.replace(registrant, cwd=params.cwd or registrant.cwd)
        requested_hooks = self.registrar.read(params.hooks, registrant)
        async with self._load_projects(directory, start_directory):
            registration = await self.registrar.make_hooks(requested_hooks, connection, registrant)
            if self.sessions.check(params.id, params.resume_token) is not known:
                change = "opened" if known is None else "ended"
                text = f"session {params.id!r} was {change} during this request; send hello again"
                raise RpcError(ErrorCode.SESSION_IN_USE, text)
            parent = self._find_parent(params, known)
            self._check_personality(params)
            # From here on nothing can fail, and there is no checkpoint.
            has_plugins_by_name = dialect is not None and dialect.plugins_without_list == "none"
            terms = SessionTerms(
                dialect=registrant.dialect, host=params.host, emits=emitted, require_handlers=required,
                plugins_without_list=frozenset() if has_plugins_by_name else None,
            )  # fmt: skip
            session = known or self.sessions.open(registrant.id, params.resume_token, self.registries.view, terms)
            session.client = hello.client.text
            self._change_settings(session, params, directory, start_directory)
            if parent is not None:
                self.registries.adopt(session, parent, registration.hooks)
            else:
                self.registries.register_own(session, registration.hooks)
            self.bus.join(connection, session)
        return session, registration.refusals if registration.is_each else None

    def _find_parent(self, params: SessionParams, known: AgentSession | None) -> AgentSession | None:
        """Return the parent of a new session; a live session has its parent, or none, already."""
        if params.parent_session_id is None:
            if params.parent_token is not None:
                raise RpcError(ErrorCode.INVALID_PARAMS, "parent_token needs its parent_session_id")
            return None
        if known is None:
            return self.sessions.parent(params.parent_session_id, params.parent_token)
        if known.parent_id != params.parent_session_id:
            raise RpcError(
                ErrorCode.INVALID_PARAMS,
                f"session {known.id!r} is live and is not a child of {params.parent_session_id!r}; open another one",
            )
        return None

    def _check_personality(self, params: UpdateParams) -> None:
        known = self.registries.personalities
        if isinstance(params.personality, str) and params.personality not in known:
            choices = f"there are {', '.join(sorted(known))}" if known else "the configuration has none"
            raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown personality {params.personality!r}; {choices}")

    def _change_settings(
        self,
        session: AgentSession,
        params: UpdateParams,
        directory: ResolvedDirectory | None,
        start_directory: ResolvedDirectory | None = None,
    ) -> None:
        """Change a session's settings, which were checked; the next commit updates its snapshot."""
        session.enter(directory, start_directory)
        if params.personality is not msgspec.UNSET:
            session.personality = params.personality
            named = self.registries.personalities[params.personality] if params.personality is not None else None
            session.personality_plugins = frozenset(named) if named is not None else None
        if params.plugins is not msgspec.UNSET:
            session.plugins = frozenset(params.plugins) if params.plugins is not None else None

    @asynccontextmanager
    async def _load_projects(self, *directories: ResolvedDirectory | None) -> AsyncGenerator[None]:
        """Load the projects of new directories, and keep them loaded until the block ends."""
        folders = self.projects.nearest(directory for directory in directories if directory is not None)
        with self.projects.holding(folders):
            if not await self.projects.are_settled(folders):
                await self.reloader.reload(of_projects(folders))
            yield


def validate_topics(params: TopicsParams) -> set[str]:
    topics = set(params.topics)
    for topic in sorted(topics - TOPICS):
        raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown topic {topic!r}; there are {', '.join(sorted(TOPICS))}")
    return topics


async def look_up_if_named(folder: str | None) -> ResolvedDirectory | None:
    return await look_up_directory(folder) if folder is not None else None
