"""From definitions that a client sends to hooks: checked, their sources loaded, all of them or none.

Knows definitions and units; knows no layer's contents and no connection but by its number.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.registry import Hook, Layer, PythonTarget, ServedTarget
from hooklatch.service.assembly import hook_of
from hooklatch.service.configuration import place_of
from hooklatch.service.connection import Connection
from hooklatch.service.hub import Hub
from hooklatch.service.native import NativeHook, read_native_hooks
from hooklatch.service.sessions import Session
from hooklatch.service.sources import UnitError

__all__ = ["Registrant", "Registrar"]

MAX_HOOKS = 1000  # that one session may register


class Registrant(msgspec.Struct, frozen=True):
    """Who registers: a session that may not be open yet, or with no id a client of the admin socket."""

    id: str = ""
    dialect: str | None = None
    cwd: str | None = None
    own: frozenset[str] = frozenset()  # ids of hooks that it has already

    @classmethod
    def of(cls, session: Session) -> Registrant:
        return cls(session.id, session.dialect, session.cwd, frozenset(session.own))


Wanted = list[tuple[HookDefinition, str]]  # each with the native event that it was written for, or ""


class Registrar:
    """Makes hooks of what clients register."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def read(self, tables: list[dict[str, Any]], registrant: Registrant) -> Wanted:
        """Check definitions, without any effect.

        Raises:
            RpcError: one of them cannot be accepted, and so none is.
        """
        try:
            wanted = [
                (definition, native.event)
                for table in tables
                for native in self._read(table, registrant)
                for definition in read_definition(native.table)
            ]
        except InvalidHookError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        ids = [definition.id for definition, _ in wanted]
        for hook_id in ids:
            if ids.count(hook_id) > 1:
                raise RpcError(ErrorCode.INVALID_PARAMS, f"the id {hook_id!r} stands twice in one call")
        if registrant.id and len(registrant.own | set(ids)) > MAX_HOOKS:
            raise RpcError(ErrorCode.OVERLOAD, f"a session may register {MAX_HOOKS} hooks")
        for definition, _ in wanted:
            self._check(definition, registrant)
        return wanted

    async def hooks_of(self, wanted: Wanted, connection: Connection, registrant: Registrant) -> list[Hook]:
        """Load the sources of what was read, and make the hooks; there is no checkpoint after the last load.

        Raises:
            RpcError: one of them cannot be loaded, and so none is registered.
        """
        for definition, _ in wanted:
            await self._load(definition, registrant)
        # No checkpoint from here on: a reload meanwhile has put other builds in force than those that were loaded.
        hooks = [self._hook_of(definition, native, connection, registrant) for definition, native in wanted]
        return [msgspec.structs.replace(hook, owner=registrant.id) for hook in hooks]

    def _read(self, table: dict[str, Any], registrant: Registrant) -> list[NativeHook]:
        if registrant.dialect is None:
            return [NativeHook(table, "")]
        dialect = self._hub.native.find(registrant.dialect)
        return read_native_hooks(dialect, table, self._hub.registries.catalogue)

    def _check(self, definition: HookDefinition, registrant: Registrant) -> None:
        spec = self._hub.dispatcher.spec(definition.event)
        if spec.match is None and not definition.matcher.matches_all:
            raise RpcError(
                ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: {spec.name} has no field to match on; remove match"
            )
        if definition.served:
            if not registrant.id:
                raise RpcError(ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: a global hook cannot be served")
            return
        source, _ = place_of(definition, registrant.cwd or "")
        if source.kind == "file" and not source.location.startswith("/"):
            raise RpcError(
                ErrorCode.INVALID_PARAMS,
                f"hook {definition.id!r}: {definition.run!r} is relative and there is no absolute cwd;"
                " give the whole path",
            )

    def _hook_of(self, definition: HookDefinition, native: str, connection: Connection, registrant: Registrant) -> Hook:
        layer = Layer.SESSION if registrant.id else Layer.GLOBAL
        spec = self._hub.dispatcher.spec(definition.event)
        if not definition.served:
            return hook_of(definition, layer, self._target_of(definition, registrant), spec=spec)
        target = ServedTarget(connection.number, (registrant.dialect or "") if native else "", native)
        return hook_of(definition, layer, target, spec=spec)

    async def _load(self, definition: HookDefinition, registrant: Registrant) -> None:
        if definition.served:
            return
        source, _ = place_of(definition, registrant.cwd or "")
        try:
            await self._hub.files.ensure(source)
        except UnitError as error:
            raise RpcError(ErrorCode.LOAD_FAILED, f"hook {definition.id!r}: {error}") from None

    def _target_of(self, definition: HookDefinition, registrant: Registrant) -> PythonTarget:
        source, function = place_of(definition, registrant.cwd or "")
        unit = self._hub.sources.units.get(source.location)
        if unit is None or function not in unit.loaded.functions:
            raise RpcError(
                ErrorCode.LOAD_FAILED, f"hook {definition.id!r}: {source.location} has no function {function!r}"
            )
        return PythonTarget(unit.source, unit.build, function)
