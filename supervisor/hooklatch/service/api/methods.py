"""The table of the protocol's methods, by the role of a connection; `fire` is answered here.

One object serves all connections; what belongs to one connection is on the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from hooklatch.core.fire_params import FireParams
from hooklatch.core.limits import Name
from hooklatch.core.protocol import ErrorCode, RpcError, convert_params
from hooklatch.core.text import suggest_name
from hooklatch.service.dispatch.dialects import DialectDispatcher, Dialects
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection, Role
from hooklatch.service.transport.requests import FireRequest, HostRequest, IncomingRequest, read_host_params
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "AS_LINK", "AccountParams", "ApiMethod", "MethodTable", "check_live", "ApiMethods", "Operations", "load_later",
    "require_session", "select_viewed_session",
]  # fmt: skip

WITHOUT_HELLO = frozenset({"hello", "fire", "host", "ping", "health"})
AS_LINK = 'a hello on the admin socket with "role": "link" and the "token" of the file fleet.token beside it'
MAX_REASON = 500  # characters of a reason in the record
SHARED_WITH_LINKS = ("ping", "health")  # of clients' methods

Params = TypeVar("Params")


class ApiMethod(NamedTuple, Generic[Params]):
    """One method: the type of its params, and its handler.  Raw: it takes none, and ignores those that are sent."""

    params: type[Params]
    answer: Callable[[Connection, Params], Awaitable[object]]


class AccountParams(msgspec.Struct, frozen=True, kw_only=True):
    """The name that an operator gives, and the reason of an operation.  No name is verified."""

    by: Name | None = None
    reason: str = ""


class Operations(msgspec.Struct, frozen=True):
    """The recorder of administrators' operations, with their uid from the kernel and the name that they gave.

    An operation is recorded in the step that makes the change, since the client may leave before the answer.
    """

    note: Callable[[str, dict[str, Any]], None]

    def record(
        self, connection: Connection, operation: str, account: AccountParams, hook: str | None = None, **facts: object
    ) -> None:
        """Record an operation on a hook, a plugin or everything, and what came of it."""
        pid, uid = connection.peer
        fields = {"operation": operation, "hook": hook or "*", "reason": account.reason[:MAX_REASON], **facts}
        self.note("operation", {**fields, "by": account.by, "uid": uid, "pid": pid, "process": process_name(pid)})


MethodTable: TypeAlias = Mapping[str, ApiMethod[Any]]


class ContributedMethods(Protocol):
    """The methods of a product, whose names begin with its own and an underscore."""

    name: str

    def methods_of(self, role: Role) -> MethodTable:
        """Return the methods of a role; none while the product is not loaded."""
        ...

    def load_methods(self) -> None:
        """Load the product.

        Raises:
            RpcError: it cannot be loaded.
        """
        ...


class ApiMethods:
    """The handler of requests.  Each role has a table of methods; agents and administrators can also fire."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        dialects: Dialects,
        dialect_dispatcher: DialectDispatcher,
        registries: Registries,
        bus: Bus,
        sessions: Sessions,
        *,
        of_clients: Iterable[MethodTable],
        of_administrators: MethodTable,
        of_products: Sequence[ContributedMethods],
    ) -> None:
        self._dispatcher = dispatcher
        self._dialects = dialects
        self._dialect_dispatcher = dialect_dispatcher
        self._registries = registries
        self._bus = bus
        self._sessions = sessions
        self._products = of_products
        clients = {name: method for table in of_clients for name, method in table.items()}
        self._own: Mapping[Role, MethodTable] = {
            "agent": clients,
            "admin": {**clients, **of_administrators},
            "link": {name: clients[name] for name in SHARED_WITH_LINKS},
        }

    def handle(self, connection: Connection, request: IncomingRequest) -> Awaitable[object]:
        """Return the awaitable answer of one request.

        Raises:
            RpcError: the request is wrong, or the connection may not make it.
        """
        fault: str | None = None
        if connection.role == "link":  # none of its methods is a fire
            return self._answer(connection, request)
        if isinstance(request, FireRequest):
            params = request.params
        elif isinstance(request, HostRequest) or request.method != "fire":
            return self._answer(connection, request)
        else:
            # The raw params are checked, since a duplicate key can no longer be seen once they are decoded.
            params, fault = convert_params(request.params, FireParams), find_ambiguity(bytes(request.params))
        session = connection.session
        dialect = params.dialect or (session.terms.dialect if session is not None else None)
        if dialect is not None:
            return self._dialect_dispatcher.fire(self._dialects.find(dialect), params, session, fault)
        if fault is not None or not params.wait:
            return self._fire_without_call(params, session, fault)
        return self._dispatcher.fire(params, session)

    def _answer(self, connection: Connection, request: IncomingRequest) -> Awaitable[object]:
        role, name = connection.role, request.method
        method = self._own[role].get(name) or self._load_method(role, name)
        if method is None or isinstance(request, FireRequest):
            raise self._explain_refusal(connection, name)
        if isinstance(request, HostRequest):
            return method.answer(connection, request.params)
        if not connection.has_greeted and name not in WITHOUT_HELLO:
            raise RpcError(ErrorCode.HELLO_REQUIRED, f"{name} needs a hello first")
        if name == "host":
            return method.answer(connection, read_host_params(request.params))
        params = request.params if method.params is msgspec.Raw else convert_params(request.params, method.params)
        return method.answer(connection, params)

    @property
    def tables(self) -> Mapping[Role, MethodTable]:
        """Return the methods of each role, with those of the products that are loaded."""
        tables: dict[Role, MethodTable] = {}
        for role, own in self._own.items():
            contributed = (product.methods_of(role) for product in self._products)
            tables[role] = {**{name: method for table in contributed for name, method in table.items()}, **own}
        return tables

    def _load_method(self, role: Role, name: str) -> ApiMethod[Any] | None:
        """Return a method of the product whose name it begins with, which is loaded for it."""
        for product in self._products:
            if name.startswith(f"{product.name}_"):
                product.load_methods()
                return product.methods_of(role).get(name)
        return None

    async def _fire_without_call(self, params: FireParams, session: AgentSession | None, fault: str | None) -> object:
        """Start a fire whose decision no client waits for, or refuse one with ambiguous params."""
        if fault is None:
            return self._dispatcher.fire_later(params, session)
        spec = self._registries.find_event(params.event)
        decision = await self._dispatcher.refuse(spec, "payload", fault, params, session)
        return decision if params.wait else {"accepted": False, "decision_id": decision.decision_id}

    def _explain_refusal(self, connection: Connection, name: str) -> RpcError:
        """Return why a connection may not call a method."""
        tables, role = self.tables, connection.role
        if role == "link":
            known = ", ".join(sorted(tables[role]))
            return RpcError(ErrorCode.NOT_PERMITTED, f"the fleet's link may not call {name!r}, only {known}")
        if name in tables["admin"]:
            return RpcError(ErrorCode.NOT_ADMIN, f"{name} needs the admin socket")
        if name in tables["link"]:
            return RpcError(ErrorCode.NOT_PERMITTED, f"only the fleet's link may call {name}: {AS_LINK}")
        known = ", ".join(sorted(tables["admin"]))
        return RpcError(ErrorCode.METHOD_NOT_FOUND, f"unknown method {name!r}; there are fire, {known}")

    def revision_for(self, connection: Connection) -> int:
        """Return the revision of a connection's snapshot, and announce every later change to the connection."""
        return self._registries.follow(connection.session).revision

    def closed(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        session, is_watching = connection.session, "decisions" in connection.topics
        self._bus.leave(connection)
        if session is not None:
            self._sessions.lose_connection(session, connection.number)
        if is_watching:  # clients may skip again the events that they had to fire for this watcher
            self._registries.permit_anew(None if connection.is_admin else session)


def load_later(names: Iterable[str], load: Callable[[], MethodTable]) -> MethodTable:
    """Return methods whose module is loaded at the first call of one of them; until it is, each call is an error."""
    load_once = cache(load)

    def make(name: str) -> ApiMethod[Any]:
        def answer(connection: Connection, params: object) -> Awaitable[object]:
            method = load_once()[name]
            if isinstance(params, msgspec.Raw) and method.params is not msgspec.Raw:
                params = convert_params(params, method.params)
            return method.answer(connection, params)

        return ApiMethod[Any](msgspec.Raw, answer)

    return {name: make(name) for name in names}


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


def check_live(session: AgentSession) -> None:
    """Refuse a request whose session ended while something was loaded for it.

    Raises:
        RpcError: the session was closed.
    """
    if session.has_ended:
        raise RpcError(ErrorCode.INVALID_REQUEST, "the session was closed during this request")


def select_viewed_session(sessions: Sessions, connection: Connection, session_id: str | None) -> AgentSession | None:
    """Return the session whose snapshot a report shows: the connection's own, one below it, or for an admin any.

    Raises:
        RpcError: there is no such session, or this connection may not see it.
    """
    own = connection.session
    if session_id is None or (own is not None and own.id == session_id):
        return own
    session = sessions.get(session_id)
    # The same refusal whether or not the session exists, so that an agent cannot probe for others' ids.
    if not connection.is_admin and (own is None or session is None or not own.has_below(session)):
        raise RpcError(ErrorCode.NOT_ADMIN, "a session that this one did not start needs the admin socket")
    if session is None:
        near = suggest_name(session_id, (session.id for session in sessions))
        raise RpcError(ErrorCode.NOT_FOUND, f"there is no live session {session_id!r}{near}")
    return session


def process_name(pid: int) -> str | None:
    """Return the kernel's name of a process; None if it has ended, or is in another PID namespace (pid 0)."""
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(64).decode("utf-8", "backslashreplace").rstrip("\n")
    except OSError:
        return None
