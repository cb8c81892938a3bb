"""Changes hooks over the protocol: register, unregister, enable, disable; in a session's layer or the global one."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import msgspec

from hooklatch.core.hooks.definitions import read_definition
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.api.global_hooks import GlobalHooks
from hooklatch.service.api.registration import HookTables, Registrant, Registrar
from hooklatch.service.api.session_methods import Method, MethodTable, own_session
from hooklatch.service.api.session_opening import check_live
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Session
from hooklatch.service.transport.connection import Connection

__all__ = ["HookMethods", "RegisterParams"]


class RegisterParams(msgspec.Struct, frozen=True):
    hooks: HookTables
    scope: str = "session"


class IdParams(msgspec.Struct, frozen=True):
    id: str
    scope: str | None = None


class HookMethods(msgspec.Struct, frozen=True):
    """Answers requests that change hooks."""

    registrar: Registrar
    registries: Registries
    global_hooks: GlobalHooks
    breakers: Breakers

    @property
    def methods(self) -> MethodTable:
        return {
            "register": Method(RegisterParams, self._register),
            "unregister": Method(IdParams, self._unregister),
            "enable": Method(IdParams, partial(self._switch, enabled=True)),
            "disable": Method(IdParams, partial(self._switch, enabled=False)),
        }

    async def _register(self, connection: Connection, params: RegisterParams) -> object:
        if is_global(connection, params.scope):
            hooks = await self._make(params, connection, Registrant())
            tables = single_tables(cast("list[dict[str, Any]]", params.hooks))
            return {"ids": [hook.id for hook in hooks], **await self.global_hooks.register(hooks, tables)}
        session = own_session(connection)
        hooks = await self._make(params, connection, Registrant.of(session))
        check_live(session)
        self.registries.register_own(session, hooks)
        return {"ids": [hook.id for hook in hooks], **await self._announced(session)}

    async def _make(self, params: RegisterParams, connection: Connection, registrant: Registrant) -> list[Hook]:
        return await self.registrar.hooks_of(self.registrar.read(params.hooks, registrant), connection, registrant)

    async def _unregister(self, connection: Connection, params: IdParams) -> object:
        if is_global(connection, params.scope):
            return await self.global_hooks.unregister(params.id)
        session = own_session(connection)
        self.registries.unregister_own(session, params.id)
        return await self._announced(session)

    async def _switch(self, connection: Connection, params: IdParams, *, enabled: bool) -> object:
        if is_global(connection, params.scope):
            return await self.global_hooks.switch(params.id, enabled=enabled)
        session = own_session(connection)
        hook = self.registries.switch_own(session, params.id, enabled=enabled)
        if enabled:
            self.breakers.lift(hook.name)
        return await self._announced(session)

    async def _announced(self, session: Session) -> dict[str, Any]:
        """Wait until subscribers have been told of a session's change, and return the resulting revision."""
        await self.registries.announced()
        return {"revision": self.registries.view_of(session).revision}


def is_global(connection: Connection, scope: str | None) -> bool:
    """Return which layer a change is for; by default the connection's own."""
    scope = scope or ("session" if connection.session is not None else "global")
    if scope not in ("session", "global"):
        raise RpcError(ErrorCode.INVALID_PARAMS, f'scope must be "session" or "global", not {scope!r}')
    if scope == "global" and not connection.is_admin:
        raise RpcError(ErrorCode.NOT_ADMIN, "a global change needs the admin socket")
    return scope == "global"


def single_tables(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one definition per hook, with its id written out: a stored definition is found again by that id."""
    return [
        {**table, "id": definition.id, "event": definition.event}
        for table in tables
        for definition in read_definition(table)
    ]
