"""Maps each method of the protocol to its handler, and checks who may call it; `fire` is answered here.

One object serves all connections; what belongs to one connection is on the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from hooklatch.core.fire_params import FireParams
from hooklatch.core.limits import Name
from hooklatch.core.protocol import ErrorCode, Request, RpcError, convert_params
from hooklatch.core.text import suggest_name
from hooklatch.service.dispatch.dialect_fires import DialectDispatcher, Dialects
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection, Role
from hooklatch.service.transport.requests import FireRequest
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "AS_LINK",
    "AccountParams",
    "ApiMethod",
    "MethodTable",
    "ApiMethods",
    "Operations",
    "require_session",
    "select_viewed_session",
]

WITHOUT_HELLO = frozenset({"hello", "fire", "host", "ping", "health"})
AS_LINK = 'a hello on the admin socket with "role": "link" and the "token" of the file fleet.token beside it'
MAX_REASON = 500  # characters of a reason in the record
SHARED_WITH_LINKS = ("ping", "health")  # of clients' methods

Params = TypeVar("Params")


class ApiMethod(NamedTuple, Generic[Params]):
    """The type of a method's params (Raw: it takes none, whatever is sent), and what answers it."""

    params: type[Params]
    answer: Callable[[Connection, Params], Awaitable[object]]


class AccountParams(msgspec.Struct, frozen=True, kw_only=True):
    """Who an operator is by their own word, and why they do it."""

    by: Name | None = None
    reason: str = ""


class Operations(msgspec.Struct, frozen=True):
    """Has on the record what an administrator has changed, and who asked: by the kernel's word, and by their own.

    It is noted in the step that makes the change, since who asks may leave before the answer.
    """

    note: Callable[[str, dict[str, Any]], None]

    def noted(
        self, connection: Connection, operation: str, account: AccountParams, hook: str | None = None, **facts: object
    ) -> None:
        """Record an operation: what it is about, a hook or a plugin or everything, and what came of it."""
        pid, uid = connection.peer
        about = {"operation": operation, "hook": hook or "*", "reason": account.reason[:MAX_REASON], **facts}
        self.note("operation", {**about, "by": account.by, "uid": uid, "pid": pid, "process": process_name(pid)})


MethodTable: TypeAlias = Mapping[str, ApiMethod[Any]]


class ApiMethods:
    """Answers requests.  What each role may call is its table of methods; besides, agents and administrators fire."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        dialects: Dialects,
        native: DialectDispatcher,
        registries: Registries,
        bus: Bus,
        *,
        of_clients: Iterable[MethodTable],
        of_administrators: MethodTable,
        of_links: MethodTable,
    ) -> None:
        self._dispatcher = dispatcher
        self._dialects = dialects
        self._native = native
        self._registries = registries
        self._bus = bus
        clients = {name: method for table in of_clients for name, method in table.items()}
        self.tables: Mapping[Role, MethodTable] = {
            "agent": clients,
            "admin": {**clients, **of_administrators},
            "link": {**{name: clients[name] for name in SHARED_WITH_LINKS}, **of_links},
        }

    def handle(self, connection: Connection, request: FireRequest | Request) -> Awaitable[object]:
        """Return what answers one request.

        Raises:
            RpcError: what is wrong with it.
        """
        fault: str | None = None
        if connection.role == "link":  # none of its methods is a fire
            return self._answer(connection, request)
        if isinstance(request, FireRequest):
            params = request.params
        elif request.method == "fire":
            # Its raw params are looked at: once decoded, a duplicate key can no longer be seen.
            params, fault = convert_params(request.params, FireParams), find_ambiguity(bytes(request.params))
        else:
            return self._answer(connection, request)
        session = connection.session
        dialect = params.dialect or (session.terms.dialect if session is not None else None)
        if dialect is not None:
            return self._native.fire(self._dialects.find(dialect), params, session, fault)
        if fault is not None or not params.wait:
            return self._fire_without_call(params, session, fault)
        return self._dispatcher.fire(params, session)

    def _answer(self, connection: Connection, request: FireRequest | Request) -> Awaitable[object]:
        method = self.tables[connection.role].get(request.method)
        if method is None or isinstance(request, FireRequest):
            raise self._refusal(connection, request.method)
        if not connection.has_greeted and request.method not in WITHOUT_HELLO:
            raise RpcError(ErrorCode.HELLO_REQUIRED, f"{request.method} needs a hello first")
        if request.method == "host" and (fault := find_ambiguity(bytes(request.params))) is not None:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"bad params: {fault}")
        return answer_request(connection, request, method)

    async def _fire_without_call(self, params: FireParams, session: AgentSession | None, fault: str | None) -> object:
        """Start a fire that nobody waits for, or refuse one whose params could be read in two ways."""
        if fault is None:
            return self._dispatcher.fire_later(params, session)
        spec = self._dispatcher.spec(params.event)
        refused = await self._dispatcher.refuse(spec, "payload", fault, params, session)
        return refused if params.wait else {"accepted": False, "decision_id": refused.decision_id}

    def _refusal(self, connection: Connection, name: str) -> RpcError:
        """Say why a connection may not call a method."""
        tables, role = self.tables, connection.role
        if role == "link":
            known = ", ".join(sorted(tables[role]))
            return RpcError(ErrorCode.NOT_PERMITTED, f"the fleet's link may not call {name!r}, only {known}")
        if name in tables["admin"]:
            return RpcError(ErrorCode.NOT_ADMIN, f"{name} needs the admin socket")
        if name in tables["link"]:
            return RpcError(ErrorCode.NOT_PERMITTED, f"{name} is for the fleet's link alone: {AS_LINK}")
        known = ", ".join(sorted(tables["admin"]))
        return RpcError(ErrorCode.METHOD_NOT_FOUND, f"unknown method {name!r}; there are fire, {known}")

    def revision_for(self, connection: Connection) -> int:
        """Return the revision of what a connection sees; from now on every change of that is announced to it."""
        return self._registries.follow(connection.session).revision

    def closed(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        session, is_watching = connection.session, "decisions" in connection.topics
        self._bus.leave(connection)
        if is_watching:  # what its watching forbade to skip may be skipped again
            self._registries.permit_anew(None if connection.is_admin else session)


def answer_request(connection: Connection, request: Request, method: ApiMethod[Any]) -> Awaitable[object]:
    takes_none = method.params is msgspec.Raw
    return method.answer(connection, request.params if takes_none else convert_params(request.params, method.params))


def require_session(connection: Connection) -> AgentSession:
    """Return the session of a connection.

    Raises:
        RpcError: it has none.
    """
    if connection.session is None:
        raise RpcError(
            ErrorCode.HELLO_REQUIRED, 'this connection has no session; say hello with one, or scope "global"'
        )
    return connection.session


def select_viewed_session(sessions: Sessions, connection: Connection, session_id: str | None) -> AgentSession | None:
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
        near = suggest_name(session_id, (session.id for session in sessions))
        raise RpcError(ErrorCode.NOT_FOUND, f"there is no live session {session_id!r}{near}")
    return session


def process_name(pid: int) -> str | None:
    """Return what the kernel calls a process; None if it has ended, or is in another PID namespace (pid 0)."""
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(64).decode("utf-8", "backslashreplace").rstrip("\n")
    except OSError:
        return None
