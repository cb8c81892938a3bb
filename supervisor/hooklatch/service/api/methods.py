"""The table of the protocol's methods, by the role of a connection; `fire` is answered here.  And what products add.

One object serves all connections; what belongs to one connection is on the connection.  Of a request that is refused,
the function that finds it out raises RpcError.

Each part that a product adds (`hooklatch/products.py`) has a slot that is empty until it is wanted:

    empty ── settings want it, or a method of its name is called ──▶ loaded, until the daemon ends
      └───── it is wanted, and fails ──▶ a fault: the daemon is red; tried again at each reload

The fleet's slot has a layer of hooks above all others.  With a fault it denies every gate: it is unknown what its
policy says.  Knows what a product may add; imports no product.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
import trio

from hooklatch.core.fire_params import FireParams
from hooklatch.core.limits import Name
from hooklatch.core.protocol import ErrorCode, RpcError, convert_params
from hooklatch.core.text import suggest_name
from hooklatch.products import DAEMON, ProductError, load_product, run_product
from hooklatch.service.config.settings import Settings
from hooklatch.service.dispatch.dialects import DialectDispatcher, Dialects
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.reloader import Fleet
from hooklatch.service.loading.see import BundleFiles, FleetFiles
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection, Role
from hooklatch.service.transport.requests import FireRequest, HostRequest, IncomingRequest, read_host_params
from hooklatch_worker.author.ambiguity import find_ambiguity
from hooklatch_worker.systems import system

if TYPE_CHECKING:
    from hooklatch.core.status_answers import FleetStatus

__all__ = [
    "AS_LINK", "AccountParams", "ApiMethod", "MethodTable", "check_live", "ApiMethods", "Operations", "load_later",
    "require_session", "select_viewed_session", "Contribution", "ContributionSlot", "PolicyContribution",
    "PolicyRejectedError", "PolicySlot",
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
        """Load the product."""
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
        """Return the awaitable answer of one request."""
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
    """Return the session of a connection."""
    if connection.session is None:
        raise RpcError(
            ErrorCode.HELLO_REQUIRED, 'this connection has no session; say hello with one, or scope "global"'
        )
    return connection.session


def check_live(session: AgentSession) -> None:
    """Refuse a request whose session ended while something was loaded for it."""
    if session.has_ended:
        raise RpcError(ErrorCode.INVALID_REQUEST, "the session was closed during this request")


def select_viewed_session(sessions: Sessions, connection: Connection, session_id: str | None) -> AgentSession | None:
    """Return the session whose snapshot a report shows: the connection's own, one below it, or for an admin any."""
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
        return system.read_name(pid).decode("utf-8", "backslashreplace")
    except OSError:
        return None


logger = logging.getLogger("hooklatch.products")
REMEDY = "repair the installation, then: hooklatch reload"


class PolicyRejectedError(Exception):
    """Manifests or a bundle are rejected, and the active policy stays; the text says why."""


class Contribution:
    """A product's part of a running daemon, made of the `DaemonComponents`.  What it does not override adds nothing."""

    @property
    def of_administrators(self) -> MethodTable:
        """Return the methods of the admin socket; each begins with the product's name and an underscore."""
        return {}

    @property
    def of_links(self) -> MethodTable:
        """Return the methods of connections that it has admitted as links."""
        return {}

    @property
    def problems(self) -> list[str]:
        """Return what is wrong, and what to do; each makes the daemon red."""
        return []

    @property
    def warnings(self) -> list[str]:
        """Return what deserves a look; each makes the daemon yellow."""
        return []

    def take(self, settings: Settings) -> None:
        """Apply new settings."""

    def status(self) -> FleetStatus | None:
        """Return what `status` shows administrators."""
        return None

    async def run(self) -> None:
        """Run under the daemon's supervisor, from when it is loaded and clients are served."""
        await trio.sleep_forever()

    def close(self) -> None:
        """Give up what a daemon that has ended must not leave behind."""


class PolicyContribution(Contribution, Fleet):
    """The part that has a policy: a layer of signed hooks above all others, and a denial of every gate."""

    def load(self) -> None:
        """Read the policy that was active before the start, without verifying it yet."""
        raise NotImplementedError

    async def leave(self) -> bool:
        """Drop the policy if its table is gone, which the operator has accepted; return whether there was one.

        Raises:
            PolicyRejectedError: it could not be removed, and stays active.
        """
        raise NotImplementedError

    async def clean(self) -> None:
        """Remove what no fire needs any more."""
        raise NotImplementedError

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        """Give a connection the role of a link."""
        raise NotImplementedError


P = TypeVar("P", bound=Contribution)


class ContributionSlot(Generic[P]):
    """The slot of one product.  `make` gives a product's class what it needs; `is_wanted` decides by the settings."""

    def __init__(
        self, name: str, kind: type[Any], make: Callable[[Callable[..., P]], P], is_wanted: Callable[[Settings], bool]
    ) -> None:
        self.name = name
        self._kind = kind
        self._make = make
        self._is_wanted = is_wanted
        self._fault: str | None = None
        self._loaded: P | None = None
        self._arrived = trio.Event()

    @property
    def loaded(self) -> P | None:
        """Return the product's part, if it was wanted and could be loaded."""
        return self._loaded

    def use(self) -> P:
        """Return the product's part, and load it at the first use.

        Raises:
            ProductError: it cannot be loaded.
        """
        if self._loaded is None:
            product = load_product(DAEMON, self.name, type)
            if not issubclass(product, self._kind):
                raise ProductError(f"{product.__qualname__} is not a {self._kind.__name__}")
            part: P = run_product(f"{product.__qualname__} cannot be made", self._kind, lambda: self._make(product))
            self._loaded = part
            self._arrived.set()
        return self._loaded

    def demand(self, settings: Settings | None = None) -> P | None:
        """Return the product's part, with new settings. That it cannot be loaded or take them is a fault."""
        try:
            part = self.use()
            if settings is not None:
                run_product("its settings cannot be applied", object, lambda: part.take(settings))
        except ProductError as error:
            text = f"{self.name}: {error}; {REMEDY}"
            if text != self._fault:
                logger.error("%s", text)
            self._fault = text
            return None
        self._fault = None
        return part

    def take(self, settings: Settings) -> None:
        """Apply new settings, if they want the product, or earlier ones did."""
        if self._loaded is None and not self._is_wanted(settings):
            self._fault = None
        else:
            self.demand(settings)

    def methods_of(self, role: Role) -> MethodTable:
        """Return the methods of a role; none while the product is not loaded."""
        if self._loaded is None or role == "agent":
            return {}
        return self._loaded.of_links if role == "link" else self._loaded.of_administrators

    def load_methods(self) -> None:
        """Load the product for its methods."""
        try:
            self.use()
        except ProductError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None

    @property
    def problems(self) -> list[str]:
        if self._fault is not None:
            return [self._fault]
        return self._loaded.problems if self._loaded is not None else []

    @property
    def warnings(self) -> list[str]:
        return self._loaded.warnings if self._loaded is not None else []

    def status(self) -> FleetStatus | None:
        return self._loaded.status() if self._loaded is not None else None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the product's part, as soon as there is one."""
        task_status.started()
        await self._arrived.wait()
        assert self._loaded is not None
        await self._loaded.run()

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()


class PolicySlot(ContributionSlot[PolicyContribution]):
    """The slot of the product with a policy.  While it is wanted and cannot be loaded, every gate denies."""

    def restore(self, settings: Settings) -> None:
        """Read the policy that was active, if settings or what is on the disk say that there was one."""
        if (self._loaded is not None or self._is_wanted(settings)) and (part := self.demand()) is not None:
            part.load()

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        if self._fault is not None:
            unknown = FleetFiles((BundleFiles(fault=self._fault, is_to_retry=True),))
            return lambda: unknown
        return self._loaded.look(before, mends=mends) if self._loaded is not None else lambda: None

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        if self._fault is not None:
            return FleetFiles((BundleFiles(fault=self._fault),))
        return self._loaded.add_denial(files) if self._loaded is not None else files

    def record_active(self, files: FleetFiles | None) -> None:
        if self._loaded is not None:
            self._loaded.record_active(files)

    def record_attempt(self, what: str, hook: str) -> None:
        if (part := self.demand()) is not None:
            part.record_attempt(what, hook)

    async def leave(self) -> bool:
        return await self._loaded.leave() if self._loaded is not None else False

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        self.load_methods()
        self.use().admit(connection, role, token, has_session=has_session)
