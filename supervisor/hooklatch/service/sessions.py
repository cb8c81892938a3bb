"""Live sessions: who they are, what they registered, how long they stay.  Knows no socket but by its number."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator

import trio

from hooklatch.core.definitions import is_id
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.registry import Hook, Snapshot
from hooklatch.service.turnstile import Flow

__all__ = ["Session", "Sessions"]

logger = logging.getLogger("hooklatch.sessions")
LINGER = 60.0  # seconds that a session outlives its last connection
MAX_SESSIONS = 10_000


class Session:
    """One live agent run."""

    def __init__(self, session_id: str, view: Snapshot) -> None:
        self.id = session_id
        self.resume_token = secrets.token_urlsafe(32)
        self.view = view
        self.unlisted: Snapshot | None = None  # the view of a fire whose list stands in for the session's own
        self.own: dict[str, Hook] = {}
        self.inherited: tuple[Hook, ...] = ()
        self.parent: Session | None = None
        self.children: list[Session] = []
        self.dialect: str | None = None
        self.cwd: str | None = None
        self.host: str | None = None
        self.client: str | None = None
        self.require_handlers: frozenset[str] = frozenset()
        self.emits: frozenset[str] = frozenset()
        self.connections: set[int] = set()
        self.flow = Flow()
        self.background = 0  # its fires that nobody waits for
        # Which plugins' hooks it sees (None: all): by its host's list, its personality's, and, of gates, the parent's.
        self.personality: str | None = None
        self.plugins: frozenset[str] | None = None
        self.personality_plugins: frozenset[str] | None = None
        self.plugins_without_list: frozenset[str] | None = None  # where neither of these two says which
        self.gate_plugins: frozenset[str] | None = frozenset()
        self.project: str | None = None  # its working directory, without links
        self.gate_projects: frozenset[str] = frozenset()  # those of the sessions above it
        self.switches: dict[str, bool] = {}  # of its own hooks, by layer/id, apart from their definitions
        self.left_count = 0
        self.created_at = time.time()
        self.first_record = 0  # the newest record when it was opened: what is older was no affair of its
        self.last_fired_at: float | None = None
        self.fires = 0


class Sessions:
    """Opens, resumes and ends sessions."""

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        self.on_end: Callable[[Session], None] = lambda session: None
        self._nursery: trio.Nursery | None = None

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: str) -> Session | None:
        return self._by_id.get(session_id)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the timers that end sessions."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None  # connections may still be ending

    def open(self, session_id: str | None, resume_token: str | None, view: Snapshot) -> tuple[Session, bool]:
        """Give the session and whether it is new.

        Raises:
            RpcError: the id is in use and the token is not its own, or there are too many sessions.
        """
        known = self._by_id.get(session_id) if session_id is not None else None
        if known is not None:
            if resume_token is None or not secrets.compare_digest(resume_token.encode(), known.resume_token.encode()):
                raise RpcError(
                    ErrorCode.SESSION_IN_USE, f"session {session_id!r} is live; joining it needs its resume_token"
                )
            return known, False
        if session_id is not None and not is_id(session_id):
            raise RpcError(
                ErrorCode.INVALID_PARAMS, "a session's id is a line of text, at most 200 characters; or leave it out"
            )
        if len(self._by_id) >= MAX_SESSIONS:
            raise RpcError(ErrorCode.OVERLOAD, f"{MAX_SESSIONS} sessions are live already")
        session = Session(session_id or f"s-{secrets.token_hex(8)}", view)
        self._by_id[session.id] = session
        logger.info("session opened", extra={"session": session.id})
        return session, True

    def discard(self, session: Session) -> None:
        """End a session now."""
        if self._by_id.get(session.id) is not session:
            return
        del self._by_id[session.id]
        logger.info("session ended", extra={"session": session.id})
        if session.parent is not None:
            session.parent.children.remove(session)
        for child in session.children:
            child.parent = None  # it keeps the gates it has inherited: never fewer
        session.children.clear()
        self.on_end(session)

    def left(self, session: Session, connection: int) -> None:
        """Take note that a connection has ended; the last one starts the timer."""
        session.connections.discard(connection)
        if not session.connections and self._nursery is not None:
            session.left_count += 1
            self._nursery.start_soon(self._end_later, session, session.left_count)

    async def _end_later(self, session: Session, left_count: int) -> None:
        await trio.sleep(LINGER)
        # One that came back and left again has a newer timer.
        if not session.connections and session.left_count == left_count:
            self.discard(session)
