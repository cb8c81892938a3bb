"""From definitions that a client sends to hooks: checked, their sources loaded, all of them or none.

Knows definitions and units; knows no layer's contents and no connection but by its number.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.limits import MAX_HOOK_BYTES, MAX_HOOKS, MAX_SESSION_HOOK_BYTES
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.registry import Hook, Layer, PythonTarget, ServedTarget
from hooklatch.service.assembly import hook_of
from hooklatch.service.configuration import place_of
from hooklatch.service.connection import Connection
from hooklatch.service.hub import Hub
from hooklatch.service.native import NativeHook, read_native_hooks
from hooklatch.service.sessions import Session
from hooklatch.service.sources import UnitError
from hooklatch_worker.failures import clipped

__all__ = ["Registrar"]


class Registrar:
    """Makes hooks of what clients register."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def hooks_of(
        self, tables: list[dict[str, Any]], connection: Connection, session: Session | None
    ) -> list[Hook]:
        """Check definitions and load their sources; without a session they are global ones.

        Raises:
            RpcError: one of them cannot be accepted, and so none is.
        """
        sizes: dict[str, int] = {}
        definitions: list[tuple[HookDefinition, str]] = []
        try:
            for table in tables:
                size = size_of(table)
                for native in self._read(table, session):
                    found = read_definition(native.table)
                    definitions += [(definition, native.event) for definition in found]
                    sizes |= dict.fromkeys((definition.id for definition in found), size)
        except InvalidHookError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        ids = [definition.id for definition, _ in definitions]
        for hook_id in ids:
            if ids.count(hook_id) > 1:
                raise RpcError(ErrorCode.INVALID_PARAMS, f"the id {hook_id!r} stands twice in one call")
        if session is not None and len(session.own.keys() | set(ids)) > MAX_HOOKS:
            raise RpcError(ErrorCode.OVERLOAD, f"a session may register {MAX_HOOKS} hooks")
        if session is not None:
            take_sizes(session, sizes)
        for definition, _ in definitions:
            await self._load(definition, session)
        # No checkpoint from here on: a reload meanwhile has put other builds in force than those that were loaded.
        owner = session.id if session is not None else ""
        hooks = [self._hook_of(definition, native, connection, session) for definition, native in definitions]
        return [msgspec.structs.replace(hook, owner=owner) for hook in hooks] if owner else hooks

    def _read(self, table: dict[str, Any], session: Session | None) -> list[NativeHook]:
        if session is None or session.dialect is None:
            return [NativeHook(table, "")]
        dialect = self._hub.native.find(session.dialect)
        return read_native_hooks(dialect, table, self._hub.registries.catalogue)

    def _hook_of(
        self, definition: HookDefinition, native: str, connection: Connection, session: Session | None
    ) -> Hook:
        layer = Layer.GLOBAL if session is None else Layer.SESSION
        spec = self._hub.dispatcher.spec(definition.event)
        if spec.match is None and not definition.matcher.matches_all:
            raise RpcError(
                ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: {spec.name} has no field to match on; remove match"
            )
        if not definition.served:
            return hook_of(definition, layer, self._target_of(definition, session), spec=spec)
        if session is None:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: a global hook cannot be served")
        target = ServedTarget(connection.number, (session.dialect or "") if native else "", native)
        return hook_of(definition, layer, target, spec=spec)

    async def _load(self, definition: HookDefinition, session: Session | None) -> None:
        if definition.served:
            return
        self._hub.dispatcher.spec(definition.event)  # the cheap check first
        folder = session.cwd if session is not None else None
        source, _ = place_of(definition, folder or "")
        if source.kind == "file" and not source.location.startswith("/"):
            raise RpcError(
                ErrorCode.INVALID_PARAMS,
                f"hook {definition.id!r}: {definition.run!r} is relative and there is no absolute cwd;"
                " give the whole path",
            )
        try:
            await self._hub.files.ensure(source)
        except UnitError as error:
            raise RpcError(ErrorCode.LOAD_FAILED, f"hook {definition.id!r}: {error}") from None

    def _target_of(self, definition: HookDefinition, session: Session | None) -> PythonTarget:
        folder = session.cwd if session is not None else None
        source, function = place_of(definition, folder or "")
        unit = self._hub.sources.units.get(source.location)
        if unit is None or function not in unit.loaded.functions:
            raise RpcError(
                ErrorCode.LOAD_FAILED, f"hook {definition.id!r}: {source.location} has no function {function!r}"
            )
        return PythonTarget(unit.source, unit.build, function)


def size_of(table: dict[str, Any]) -> int:
    """Give how many bytes a definition takes, as JSON.

    Raises:
        RpcError: too many.
    """
    size = len(msgspec.json.encode(table))
    if size > MAX_HOOK_BYTES:
        name = clipped(str(table.get("id")))
        text = f"the definition of hook {name!r} takes {size} bytes; {MAX_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.INVALID_PARAMS, text)
    return size


def take_sizes(session: Session, sizes: dict[str, int]) -> None:
    """Take note of what a session's hooks take with these.

    Raises:
        RpcError: too much.
    """
    kept = {hook_id: size for hook_id, size in session.hook_bytes.items() if hook_id in session.own} | sizes
    total = sum(kept.values())
    if total > MAX_SESSION_HOOK_BYTES:
        text = f"with these, the session's hooks take {total} bytes; {MAX_SESSION_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.OVERLOAD, text)
    session.hook_bytes = kept
