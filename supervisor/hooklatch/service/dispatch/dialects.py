"""The dialects that a daemon has, and the fires in them.  The translation is imported when a dialect is used."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hooklatch.core.call import Call
from hooklatch.core.fire_params import FireParams
from hooklatch.core.messages import CallOutcome, FireDecision
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.processes.fire_context import FireContext
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.runners import HookRunner
from hooklatch.service.registry.sessions import AgentSession

if TYPE_CHECKING:
    from hooklatch.core.answers import AcceptedFire
    from hooklatch.dialects.dialect import Dialect
    from hooklatch.service.dispatch.dialect_fires import DialectFires

__all__ = ["ActiveDialects", "DialectDispatcher", "Dialects"]


class ActiveDialects(Protocol):
    """The dialects of the active configuration."""

    @property
    def dialects(self) -> Mapping[str, Dialect]: ...


class Dialects:
    """All dialects, and the calls of hooks that were registered in one."""

    def __init__(self, installed: Mapping[str, Dialect], configured: ActiveDialects) -> None:
        self._installed = installed
        self._configured = configured

    @property
    def custom(self) -> dict[str, Dialect]:
        """Return the dialects that are not built in: those of packages, and over them those of the configuration."""
        return {**self._installed, **self._configured.dialects}

    def find(self, name: str) -> Dialect:
        """Find a dialect.

        Raises:
            RpcError: there is none of that name.
        """
        from hooklatch.dialects.find import find_dialect, list_dialects

        dialect = find_dialect(name, self.custom)
        if dialect is None:
            known = ", ".join(list_dialects(self.custom))
            raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown dialect {name!r}; there are {known}")
        return dialect

    async def call(self, target: HookRunner, call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        """Call a hook that was registered in a dialect, in that dialect's format."""
        from hooklatch.dialects.find import find_dialect

        own = call.hook.target
        dialect = find_dialect(own.dialect, self.custom)
        if dialect is None:
            return CallOutcome(cause="load", message=f"its dialect {own.dialect!r} is not defined any more")
        if not dialect.has_event(own.native):
            return CallOutcome(
                cause="load", message=f"its dialect {own.dialect!r} has no event {own.native!r} any more"
            )
        from hooklatch.service.dispatch.dialect_fires import call_in_dialect

        return await call_in_dialect(dialect, target, call, fire, deadline)


class DialectDispatcher:
    """The dispatcher of native events, which a session fires in its dialect."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def canonical_name(self, dialect: Dialect | None, event: str) -> str:
        """Return the canonical name of an event; of a native one, that of the first event that it maps to.

        Raises:
            RpcError: there is no such event.
        """
        if dialect is not None and dialect.has_event(event):
            return dialect.event(event).feeds[0].event
        return self._dispatcher.registries.find_event(event).name

    def fire(
        self, dialect: Dialect, params: FireParams, session: AgentSession | None, fault: str | None = None
    ) -> Awaitable[dict[str, Any] | AcceptedFire]:
        """Fire every canonical event that a native one maps to; return the first decision, with the others in it.

        With a `fault` of the request, no hook is called.

        Raises:
            RpcError: the dialect has no such event, or the payload is not an object.
        """
        return self._translate().fire(dialect, params, session, fault)

    def decide(
        self, dialect: Dialect, params: FireParams, session: AgentSession | None, fault: str | None = None
    ) -> Awaitable[list[FireDecision]]:
        """Do as `fire` does, and return the decisions on our events, the deciding one first."""
        return self._translate().decide(dialect, params, session, fault)

    def _translate(self) -> DialectFires:
        from hooklatch.service.dispatch.dialect_fires import DialectFires

        return DialectFires(self._dispatcher)
