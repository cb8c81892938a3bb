"""Turns the definitions that a client sends into hooks: checked, their sources loaded, all of them or none.

Knows definitions and units; does not know what layers contain, and knows connections only by number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.hooks.registry import Hook, Layer, ServedTarget, misfit
from hooklatch.core.limits import MAX_HOOK_BYTES, MAX_HOOKS, MAX_SESSION_HOOK_BYTES, Tables
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.building.binding import Binder
from hooklatch.service.building.sources import Sources, UnitError
from hooklatch.service.config.configuration import place_of
from hooklatch.service.dispatch.dialect_fires import Dialects, NativeHook, read_native_hooks
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.files import Files
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Session
from hooklatch.service.transport.connection import Connection
from hooklatch_worker.author.failures import clipped
from hooklatch_worker.wire import Source

__all__ = ["HookTables", "Registrant", "Registrar"]


class Registrant(msgspec.Struct, frozen=True):
    """Who registers: a session that may not be open yet, or (without an id) a client of the admin socket."""

    id: str = ""
    dialect: str | None = None
    cwd: str | None = None
    own: Mapping[str, int] = {}  # the hooks that it has already, and how many bytes the definition of each takes

    @classmethod
    def of(cls, session: Session) -> Registrant:
        return cls(
            session.id,
            session.terms.dialect,
            session.cwd,
            {hook_id: hook.size for hook_id, hook in session.own.items()},
        )


HookTables: TypeAlias = Tables | dict[str, Any]  # a map of events, in dialects whose system writes one


class Wanted(NamedTuple):
    """A definition, its source if it is not served, the native event that it is for (or ""), its size as JSON."""

    definition: HookDefinition
    source: Source | None
    native: str
    size: int


class Registrar(msgspec.Struct, frozen=True):
    """Makes hooks of the definitions that clients register."""

    registries: Registries
    files: Files
    sources: Sources
    dispatcher: Dispatcher
    dialects: Dialects

    def read(self, tables: HookTables, registrant: Registrant) -> list[Wanted]:
        """Check definitions, without side effects.

        Raises:
            RpcError: one of them is refused, and so all are.
        """
        try:
            natives = self._natives(tables, registrant)
            named(natives, registrant)
            wanted = [one for native in natives for one in wanted_of(native, registrant)]
        except InvalidHookError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        ids = [one.definition.id for one in wanted]
        for hook_id in ids:
            if ids.count(hook_id) > 1:
                raise RpcError(ErrorCode.INVALID_PARAMS, f"the id {hook_id!r} occurs twice in one call")
        if registrant.id:
            check_limits(wanted, registrant.own)
        for one in wanted:
            self._check(one, registrant)
        return wanted

    async def hooks_of(self, wanted: list[Wanted], connection: Connection, registrant: Registrant) -> list[Hook]:
        """Load the sources of these definitions, and make the hooks; there is no checkpoint after the last load.

        Raises:
            RpcError: one of them cannot be loaded, and so none is registered.
        """
        for one in wanted:
            if one.source is not None:
                try:
                    await self.files.ensure(one.source)
                except UnitError as error:
                    raise RpcError(ErrorCode.LOAD_FAILED, f"hook {one.definition.id!r}: {error}") from None
        # No checkpoint from here on: a reload could activate other builds than those that were just loaded.
        return [self._hook_of(one, connection, registrant) for one in wanted]

    def _natives(self, tables: HookTables, registrant: Registrant) -> list[NativeHook]:
        """Read what was sent; a dialect's session may send one map of events, in that system's format."""
        if registrant.dialect is not None:
            dialect = self.dialects.find(registrant.dialect)
            listed = tables if isinstance(tables, list) else [tables]
            return [
                native for table in listed for native in read_native_hooks(dialect, table, self.registries.catalogue)
            ]
        if not isinstance(tables, list):
            text = "hooks must be a list of definitions; a map of events needs a dialect"
            raise RpcError(ErrorCode.INVALID_PARAMS, text)
        return [NativeHook(table, "") for table in tables]

    def _check(self, one: Wanted, registrant: Registrant) -> None:
        definition, source = one.definition, one.source
        spec = self.dispatcher.spec(definition.event)
        marks = {"amends": definition.amends, "only_judges": definition.only_judges}
        fault = misfit(spec, definition.matcher, definition.where, **marks)
        if fault is None and source is None and not registrant.id:
            fault = "a global hook cannot be served"
        if fault is None and source is not None and source.kind == "file" and not source.location.startswith("/"):
            fault = f"{definition.run!r} is relative and there is no absolute cwd; give an absolute path"
        if fault is not None:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: {fault}")

    def _hook_of(self, one: Wanted, connection: Connection, registrant: Registrant) -> Hook:
        layer = Layer.SESSION if registrant.id else Layer.GLOBAL
        served = ServedTarget(connection.number) if one.source is None else None
        binder = Binder(self.registries.catalogue, self.sources.units)
        hook = binder.bind(one.definition, layer, folder=registrant.cwd or "", target=served)
        if hook.problem is not None:
            raise RpcError(ErrorCode.LOAD_FAILED, f"hook {hook.id!r}: {hook.problem}")
        target = hook.target
        if one.native and one.definition.shell is None:  # a command says in its `payload` which format it takes
            target = msgspec.structs.replace(target, dialect=registrant.dialect or "", native=one.native)
        return msgspec.structs.replace(hook, target=target, owner=registrant.id, size=one.size)


def named(natives: list[NativeHook], registrant: Registrant) -> None:
    """Name each served hook without an id: the first of `served-1`, `served-2`, … that is free."""
    taken: set[object] = {native.table.get("id") for native in natives}
    taken |= registrant.own.keys()
    free = (name for number in itertools.count(1) if (name := f"served-{number}") not in taken)
    for native in natives:
        if native.table.get("served") is True and native.table.get("id") is None:
            native.table["id"] = next(free)


def wanted_of(native: NativeHook, registrant: Registrant) -> Iterator[Wanted]:
    """Read the definitions of one table.

    Raises:
        InvalidHookError: it is not one.
        RpcError: it takes too many bytes.
    """
    size = len(msgspec.json.encode(native.table))
    if size > MAX_HOOK_BYTES:
        name = clipped(str(native.table.get("id")))
        text = f"the definition of hook {name!r} takes {size} bytes; {MAX_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.INVALID_PARAMS, text)
    for definition in read_definition(native.table):
        source = None if definition.served else place_of(definition, registrant.cwd or "")[0]
        yield Wanted(definition, source, native.event, size)


def check_limits(wanted: list[Wanted], own: Mapping[str, int]) -> None:
    """Refuse definitions that take a session, with its `own`, over its limits.

    Raises:
        RpcError: it would have too many hooks, or too large ones.
    """
    kept = {**own, **{one.definition.id: one.size for one in wanted}}
    if len(kept) > MAX_HOOKS:
        raise RpcError(ErrorCode.OVERLOAD, f"a session may register {MAX_HOOKS} hooks")
    if (total := sum(kept.values())) > MAX_SESSION_HOOK_BYTES:
        text = f"with these, the session's hooks take {total} bytes; {MAX_SESSION_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.OVERLOAD, text)
