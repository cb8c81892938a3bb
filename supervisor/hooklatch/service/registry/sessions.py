"""Live sessions: identity, own hooks, places and lifetime.  Knows connections only by number."""

from __future__ import annotations

import base64
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator

import msgspec
import trio

from hooklatch.core.hooks.definitions import is_id
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.hooks.snapshots import Snapshot
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.processes.supervisor import Supervisor
from hooklatch.service.registry.admission import FairQueueKey
from hooklatch.service.registry.places import ResolvedDirectory, look_up_directory
from hooklatch.service.registry.statistics import Fires

__all__ = ["AgentSession", "Sessions", "SessionTerms", "make_session_id"]

logger = logging.getLogger("hooklatch.sessions")
LINGER = 60.0  # seconds that a session outlives its last connection
MAX_SESSIONS = 10_000
TOKEN_BYTES = 32
TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")  # 43 characters of base64 are 32 bytes


class SessionTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a session from its opening to its end. They have no defaults, so that none is forgotten.

    `plugins_without_list` are the plugins whose hooks it sees if neither its host nor its personality lists any (None:
    all).
    """

    dialect: str | None
    host: str | None
    emits: frozenset[str]
    require_handlers: frozenset[str]
    plugins_without_list: frozenset[str] | None


class AgentSession:
    """One live run of an agent, over any number of connections."""

    # Thousands of sessions are idle: slots save 1.4 KiB each, as a dictionary of so many attributes shares no keys.
    __slots__ = (
        "__weakref__", "ask_wait", "background", "children", "client", "connections", "created_at",
        "current_directory", "cwd", "epoch", "fired", "flow", "gate_plugins", "has_ended", "id", "inherited",
        "left_count", "own", "parent", "parent_id", "personality", "personality_plugins", "places_above", "plugins",
        "resume_token", "run", "start_directory", "switches", "terms", "unlisted", "view",
    )  # fmt: skip

    def __init__(self, session_id: str, view: Snapshot, terms: SessionTerms, resume_token: str | None = None) -> None:
        self.id = session_id
        self.run = secrets.token_hex(8)  # in the record: ids are reused, and a one-shot client may name any id
        self.resume_token = resume_token or secrets.token_urlsafe(TOKEN_BYTES)
        self.view = view  # as last looked at: `Registries.view_of` returns the current one
        self.epoch = 0  # of the registries, when the view was last built
        self.unlisted: Snapshot | None = None  # the view of a fire whose list replaces the session's own
        self.own: dict[str, Hook] = {}
        self.inherited: tuple[Hook, ...] = ()
        self.parent: AgentSession | None = None
        self.parent_id: str | None = None  # stays set when the parent has ended
        self.children: list[AgentSession] = []
        self.terms = terms
        self.cwd: str | None = None
        self.client: str | None = None
        self.connections: set[int] = set()
        self.flow = FairQueueKey()
        self.ask_wait = 0.0  # seconds for a person, as its clients know them: their own timeouts allow for no more
        self.background = 0  # its fires for whose decision no client waits
        # The plugins whose hooks it sees (None: all), by the lists of its host, personality and (gates) parent.
        self.personality: str | None = None
        self.plugins: frozenset[str] | None = None
        self.personality_plugins: frozenset[str] | None = None
        self.gate_plugins: frozenset[str] | None = frozenset()
        self.start_directory: ResolvedDirectory | None = None  # it keeps the hooks of this project wherever it goes
        self.current_directory: ResolvedDirectory | None = None
        self.places_above: frozenset[ResolvedDirectory] = frozenset()  # of its ancestors: it has only the gates
        self.has_ended = False
        self.switches: dict[str, bool] = {}  # of its own hooks, by layer/id, apart from their definitions
        self.left_count = 0
        self.created_at = time.time()
        self.fired: Fires = {}  # as far as they are added up

    @property
    def child_token(self) -> str:
        """Return the token with which a child gets this session's gates. It cannot be used to join the session."""
        digest = hmac.digest(self.resume_token.encode(), b"child", "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def has_below(self, other: AgentSession | None) -> bool:
        """Return whether a session is this one or a descendant of it."""
        while other is not None and other is not self:
            other = other.parent
        return other is self

    @property
    def places(self) -> tuple[ResolvedDirectory, ...]:
        """Return the start directory and the current one. The projects of both are the session's own."""
        return tuple(
            place for place in dict.fromkeys((self.start_directory, self.current_directory)) if place is not None
        )

    def enter(self, directory: ResolvedDirectory | None, start: ResolvedDirectory | None = None) -> None:
        """Move the session to a directory. The first one is its start directory, unless `start` is given."""
        if directory is not None:
            self.current_directory, self.cwd = directory, directory.named
        self.start_directory = self.start_directory or start or directory

    async def look_again(self) -> None:
        """Look up again the places that were unknown."""
        unknown = [place for place in (*self.places, *self.places_above) if place.fault is not None]
        places = {place: await look_up_directory(place.named) for place in dict.fromkeys(unknown)}
        # Replaced by key, since the session may have moved during the look-ups.
        start, current = self.start_directory, self.current_directory
        self.start_directory = places.get(start, start) if start is not None else None
        self.current_directory = places.get(current, current) if current is not None else None
        self.places_above = frozenset(places.get(place, place) for place in self.places_above)


class Sessions:
    """The table of live sessions. `on_end` is called with a session that has ended and this table."""

    def __init__(self, *, on_end: Callable[[AgentSession, Sessions], None]) -> None:
        self._by_id: dict[str, AgentSession] = {}
        self._on_end = on_end
        self.timers = Supervisor("session timers")

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: str) -> AgentSession | None:
        return self._by_id.get(session_id)

    def check(self, session_id: str | None, resume_token: str | None) -> AgentSession | None:
        """Return the live session that this id and token join, or None if they open a new one.

        Raises:
            RpcError: the id is in use and the token is wrong, or there are too many sessions.
        """
        known = self._by_id.get(session_id) if session_id is not None else None
        if known is not None:
            if not is_same(resume_token, known.resume_token):
                raise RpcError(
                    ErrorCode.SESSION_IN_USE, f"session {session_id!r} is live; joining it needs its resume_token"
                )
            return known
        if session_id is not None and not is_id(session_id):
            raise RpcError(
                ErrorCode.INVALID_PARAMS, "a session's id must be one line of at most 200 characters; or leave it out"
            )
        if len(self._by_id) >= MAX_SESSIONS:
            raise RpcError(ErrorCode.OVERLOAD, f"{MAX_SESSIONS} sessions are live already")
        return None

    def parent(self, session_id: str, child_token: str | None) -> AgentSession:
        """Return the session whose gates a new one inherits.

        Raises:
            RpcError: the session is not live, or the token is wrong.
        """
        parent = self._by_id.get(session_id)
        if parent is None:
            raise RpcError(
                ErrorCode.NOT_FOUND,
                f"there is no live session {session_id!r}; without it its gates would be missing",
            )
        if not is_same(child_token, parent.child_token):
            raise RpcError(
                ErrorCode.NOT_PERMITTED,
                f"a child of session {session_id!r} needs the child_token that its hello answered;"
                " give it as session.parent_token",
            )
        return parent

    def open(self, session_id: str, resume_token: str | None, view: Snapshot, terms: SessionTerms) -> AgentSession:
        """Return a new session on these terms, as `check` has allowed.

        It keeps a token that its client brings, since a client that outlived a daemon has given its token to others.
        """
        assert session_id not in self._by_id
        kept_token = resume_token if resume_token is not None and TOKEN.fullmatch(resume_token) else None
        session = self._by_id[session_id] = AgentSession(session_id, view, terms, kept_token)
        logger.info("session opened", extra={"session": session.id})
        return session

    def discard(self, session: AgentSession) -> None:
        """End a session now."""
        if self._by_id.get(session.id) is not session:
            return
        del self._by_id[session.id]
        session.has_ended = True
        logger.info("session ended", extra={"session": session.id})
        if session.parent is not None:
            session.parent.children.remove(session)
        for child in session.children:
            child.parent = None  # it keeps the gates it has inherited: never fewer
        session.children.clear()
        self._on_end(session, self)

    def close_connection(self, session: AgentSession, connection: int) -> bool:
        """Detach a connection that closes its session. The last one ends it now.  Return whether it has ended."""
        session.connections.discard(connection)
        if not session.connections:
            self.discard(session)
        return session.has_ended

    def lose_connection(self, session: AgentSession, connection: int) -> None:
        """Detach a connection that was lost. The last one starts the timer."""
        session.connections.discard(connection)
        if not session.connections and not session.has_ended:
            session.left_count += 1
            self.timers.spawn("end of a session", self._end_later, session, session.left_count)

    async def _end_later(self, session: AgentSession, left_count: int) -> None:
        await trio.sleep(LINGER)
        # If it came back and left again, a newer timer is running.
        if not session.connections and session.left_count == left_count:
            self.discard(session)


def make_session_id() -> str:
    """Return an id for a session that brings none."""
    return f"s-{secrets.token_hex(8)}"


def is_same(token: str | None, own: str) -> bool:
    return token is not None and secrets.compare_digest(token.encode(), own.encode())
