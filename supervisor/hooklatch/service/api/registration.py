"""The registrar: it makes hooks of the definitions that a client sends, and loads their sources.

A call registers all of its hooks or none.  With `each`, every definition is registered by itself, and a stand-in that
fails takes the place of each one that is refused.

    read ─▶ the definition of a table, or the usable rest of a refused one ─▶ load its source ─▶ bind ─▶ hooks, refusals

Knows definitions and builds; does not know what layers contain, and knows connections only by number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from hooklatch.core.hooks.definitions import (
    HookDefinition,
    InvalidHookError,
    NativeHook,
    derive_hook_id,
    read_definition,
)
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, ServedTarget, find_misfit
from hooklatch.core.limits import MAX_HOOK_BYTES, MAX_HOOKS, MAX_SESSION_HOOK_BYTES, Tables
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.dispatch.dialects import Dialects
from hooklatch.service.loading.bind import HookBinder
from hooklatch.service.loading.reloader import Reloader
from hooklatch.service.loading.sources import Sources, UnitError, find_definition_target
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.connection import Connection
from hooklatch_worker.author.failures import clip_error_text
from hooklatch_worker.wire import Source

if TYPE_CHECKING:
    from hooklatch.core.answers import RefusedDefinition

__all__ = ["HookTables", "Registrant", "Registrar"]


class Registrant(msgspec.Struct, frozen=True):
    """The one that registers: a session that may not be open yet, or (without an id) a client of the admin socket."""

    id: str = ""
    dialect: str | None = None
    cwd: str | None = None
    is_each: bool = False  # each definition is registered by itself
    own: Mapping[str, int] = {}  # the ids of the hooks that it has already, and the bytes of each definition

    @classmethod
    def of(cls, session: AgentSession | None, *, is_each: bool) -> Registrant:
        if session is None:
            return cls(is_each=is_each)
        sizes = {hook_id: hook.size for hook_id, hook in session.own.items()}
        return cls(session.id, session.terms.dialect, session.cwd, is_each, sizes)


HookTables: TypeAlias = Tables | dict[str, Any]  # a map of events, in dialects whose system writes one


class RequestedHook(NamedTuple):
    """A hook that a call requests.  It has no definition if it was `refused` and its event is unknown.

    `source` is None if there is nothing to load, and `native` is the table with its native event.
    """

    at: int
    native: NativeHook
    definition: HookDefinition | None = None
    source: Source | None = None
    size: int = 0  # as JSON
    refused: RefusedDefinition | None = None


class MadeHooks(NamedTuple):
    """The hooks of a call, and the parts of its answer."""

    hooks: list[Hook]
    requested_hooks: list[RequestedHook]
    is_each: bool

    @property
    def ids(self) -> list[str | None]:
        return [hook.definition.id if hook.definition is not None else None for hook in self.requested_hooks]

    @property
    def refusals(self) -> list[RefusedDefinition]:
        """The refusals, which an answer has if each definition was registered by itself."""
        return [hook.refused for hook in self.requested_hooks if hook.refused is not None]

    @property
    def stored(self) -> dict[str, dict[str, Any]]:
        """The table that the state file keeps of each hook, by its id: a definition of that hook alone."""
        made = (
            (hook.native.table, definition)
            for hook in self.requested_hooks
            if (definition := hook.definition) is not None
        )
        return {
            definition.id: {**table, "id": definition.id, "event": definition.event}
            | ({} if definition.problem is None else {"problem": definition.problem})
            for table, definition in made
        }


def make_refusal(at: int, hook_id: str | None, event: object, reason: str) -> RefusedDefinition:
    return {"at": at, "id": hook_id, "event": event, "reason": reason}


class Registrar(msgspec.Struct, frozen=True):
    """The maker of hooks from the definitions that clients register."""

    registries: Registries
    reloader: Reloader
    sources: Sources
    dialects: Dialects

    def read(self, tables: HookTables, registrant: Registrant) -> list[RequestedHook]:
        """Check definitions, without side effects."""
        natives = self._read_tables(tables, registrant)
        taken = {native.table.get("id") for _, native in natives if isinstance(native.table.get("id"), str)}
        taken |= registrant.own.keys()
        name_served_hooks(natives, free_names("served", taken))
        requested_hooks, ids = list[RequestedHook](), set[str]()
        for at, native in natives:
            for requested in self._read_definitions(at, native, registrant, ids):
                if requested.definition is not None and requested.definition.id in ids:
                    text = f"the id {requested.definition.id!r} occurs twice in one call; give each hook its own"
                    error = RpcError(ErrorCode.INVALID_PARAMS, text)
                    requested = self._stand_in(requested, error, registrant, derive_stand_in_id(native.table, ids))
                ids |= {requested.definition.id} if requested.definition is not None else set()
                requested_hooks.append(requested)
        if registrant.id:  # an operator's hooks on the admin socket have no limit
            check_limits(requested_hooks, registrant.own)
        return requested_hooks

    async def make_hooks(
        self, requested_hooks: list[RequestedHook], connection: Connection, registrant: Registrant
    ) -> MadeHooks:
        """Load the sources of these definitions, and make the hooks; there is no checkpoint after the last load."""
        loaded_hooks = list(requested_hooks)
        for index, requested in enumerate(requested_hooks):
            if requested.source is not None and requested.definition is not None:
                try:
                    await self.reloader.ensure(requested.source)
                except UnitError as failure:
                    error = RpcError(ErrorCode.LOAD_FAILED, f"hook {requested.definition.id!r}: {failure}")
                    loaded_hooks[index] = self._stand_in(requested, error, registrant)
        # No checkpoint from here on: a reload could activate other builds than those that were just loaded.
        hooks: list[Hook] = []
        for index, requested in enumerate(loaded_hooks):
            if (definition := requested.definition) is None:
                continue
            hook = self._make_hook(requested, definition, connection, registrant)
            if hook.problem is not None and definition.problem is None:
                error = RpcError(ErrorCode.LOAD_FAILED, f"hook {hook.id!r}: {hook.problem}")
                requested = loaded_hooks[index] = self._stand_in(requested, error, registrant)
                hook = self._make_hook(requested, requested.definition or definition, connection, registrant)
            hooks.append(hook)
        return MadeHooks(hooks, loaded_hooks, registrant.is_each)

    def _read_tables(self, tables: HookTables, registrant: Registrant) -> list[tuple[int, NativeHook]]:
        """Read the tables of a call.  A session of a dialect may send one map of events, in that system's format."""
        dialect = self.dialects.find(registrant.dialect) if registrant.dialect is not None else None
        if dialect is None and not isinstance(tables, list):
            text = "hooks must be a list of definitions; a map of events needs a dialect"
            raise RpcError(ErrorCode.INVALID_PARAMS, text)
        read_hooks: list[tuple[int, NativeHook]] = []
        listed: list[object] = list(tables) if isinstance(tables, list) else [tables]
        for at, table in enumerate(listed):
            if not isinstance(table, dict):
                natives = [NativeHook({}, "", InvalidHookError("", f"a hook is a table, not {table!r:.80}"))]
            elif dialect is None:
                natives = [NativeHook(cast("dict[str, Any]", table), "")]
            else:
                from hooklatch.service.dispatch.dialect_fires import read_native_hooks

                natives = read_native_hooks(dialect, cast("dict[str, Any]", table), self.registries.catalogue)
            read_hooks += [(at, native) for native in natives]
        return read_hooks

    def _read_definitions(
        self, at: int, native: NativeHook, registrant: Registrant, ids: Collection[str]
    ) -> Iterator[RequestedHook]:
        """Read the definitions of one table, or make its stand-ins."""
        try:
            requested_hooks = read_requested_hooks(at, native, registrant)
        except (InvalidHookError, RpcError) as error:
            refusal = error if isinstance(error, RpcError) else RpcError(ErrorCode.INVALID_PARAMS, str(error))
            if not registrant.is_each:
                raise refusal from None
            reason = error.reason if isinstance(error, InvalidHookError) else str(error)
            definitions = read_remains(native, reason, ids)
            if not definitions:
                yield RequestedHook(at, native, refused=make_refusal(at, None, find_written_event(native), reason))
            for definition in definitions:
                yield self._stand_in(RequestedHook(at, native, definition), refusal, registrant)
            return
        for requested in requested_hooks:
            fault = self._find_fault(requested, registrant)
            yield requested if fault is None else self._stand_in(requested, fault, registrant)

    def _find_fault(self, hook: RequestedHook, registrant: Registrant) -> RpcError | None:
        definition, source = hook.definition, hook.source
        if definition is None or (definition.problem is not None and definition.event == EVERY_GATE):
            return None
        try:
            spec = self.registries.find_event(definition.event)
        except RpcError as error:
            return error
        marks = {"amends": definition.amends, "only_judges": definition.only_judges}
        fault = find_misfit(spec, definition.matcher, definition.where, **marks) if definition.problem is None else None
        if fault is None and definition.served and not registrant.id:
            fault = "a global hook cannot be served"
        if fault is None and source is not None and source.kind == "file" and not source.location.startswith("/"):
            fault = f"{definition.run!r} is a relative path and the session has no absolute cwd; give an absolute path"
        return RpcError(ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: {fault}") if fault is not None else None

    def _stand_in(
        self, hook: RequestedHook, error: RpcError, registrant: Registrant, hook_id: str | None = None
    ) -> RequestedHook:
        """Return a hook that fails, in place of one that is refused."""
        if not registrant.is_each or hook.definition is None:
            raise error
        definition = hook.definition
        hook_id = hook_id or definition.id
        reason = definition.problem or str(error).removeprefix(f"hook {definition.id!r}: ")
        event = (
            definition.event if isinstance(hook.native.table.get("event"), list) else find_written_event(hook.native)
        )
        if definition.event not in (*self.registries.catalogue, EVERY_GATE):
            return RequestedHook(hook.at, hook.native, refused=make_refusal(hook.at, None, event, reason))
        stand_in = msgspec.structs.replace(
            definition, id=hook_id, problem=reason, run=None, shell=None, served=False, amends=False, only_judges=False
        )
        refused = make_refusal(hook.at, hook_id, event, reason)
        return hook._replace(definition=stand_in, source=None, refused=refused)

    def _make_hook(
        self, requested: RequestedHook, definition: HookDefinition, connection: Connection, registrant: Registrant
    ) -> Hook:
        layer = Layer.SESSION if registrant.id else Layer.GLOBAL
        served = ServedTarget(connection.number) if definition.served else None
        binder = HookBinder(self.registries.catalogue, self.sources.units)
        hook = binder.bind(definition, layer, folder=registrant.cwd or "", target=served)
        target = hook.target
        # A command says in its `payload` which format it takes.
        if requested.native.event and definition.shell is None:
            target = msgspec.structs.replace(target, dialect=registrant.dialect or "", native=requested.native.event)
        return msgspec.structs.replace(hook, target=target, owner=registrant.id, size=requested.size)


def free_names(stem: str, taken: Collection[object]) -> Iterator[str]:
    """Yield `stem-1`, `stem-2`, … without those that are taken."""
    return (name for number in count(1) if (name := f"{stem}-{number}") not in taken)


def derive_stand_in_id(table: Mapping[str, Any], ids: Collection[str]) -> str:
    """Return an id for the stand-in of a table: the same whenever the table is sent again, as by a resumed session."""
    stem = f"refused-{sha256(msgspec.json.encode(table)).hexdigest()[:8]}"
    return stem if stem not in ids else next(free_names(stem, ids))


def name_served_hooks(natives: list[tuple[int, NativeHook]], names: Iterator[str]) -> None:
    """Give an id to each hook without one that is served, or that is sent with a `problem`."""
    ids = set[str]()
    for _, native in natives:
        if native.table.get("id") is None and native.fault is None:
            if "problem" in native.table:
                native.table["id"] = derive_stand_in_id(native.table, ids)
                ids.add(native.table["id"])
            elif native.table.get("served") is True:
                native.table["id"] = next(names)


def find_written_event(native: NativeHook) -> object:
    """Return a definition's event as it was written."""
    return native.table.get("event") if native.written is None else native.written


def read_remains(native: NativeHook, reason: str, ids: Collection[str]) -> list[HookDefinition]:
    """Read the usable part of a table that is refused; nothing if it names no event."""
    table = native.table
    run = table.get("run")
    if len(msgspec.json.encode(table)) > MAX_HOOK_BYTES:
        table = {key: table.get(key) for key in ("id", "event")}
    candidates = (table.get("id"), derive_hook_id(run) if isinstance(run, str) else None)
    for hook_id in (*candidates, derive_stand_in_id(native.table, ids)):
        with suppress(InvalidHookError):
            return read_definition({**table, "id": hook_id, "problem": reason})
    return []


def read_requested_hooks(at: int, native: NativeHook, registrant: Registrant) -> list[RequestedHook]:
    """Read the definitions of one table.

    Raises:
        InvalidHookError: it is not a definition of a hook.
        RpcError: it takes too many bytes.
    """
    if native.fault is not None:
        raise native.fault
    size = len(msgspec.json.encode(native.table))
    if size > MAX_HOOK_BYTES:
        name = clip_error_text(str(native.table.get("id")))
        text = f"the definition of hook {name!r} takes {size} bytes; {MAX_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.INVALID_PARAMS, text)
    requested_hooks: list[RequestedHook] = []
    for definition in read_definition(native.table):
        has_source = not definition.served and definition.problem is None
        source = find_definition_target(definition, registrant.cwd or "")[0] if has_source else None
        requested_hooks.append(RequestedHook(at, native, definition, source, size))
    return requested_hooks


def check_limits(requested_hooks: list[RequestedHook], own: Mapping[str, int]) -> None:
    """Refuse definitions that take a session, with its `own`, over its limits."""
    # A hook that is registered again replaces the one of its id, so it counts once.
    sizes = {**own} | {hook.definition.id: hook.size for hook in requested_hooks if hook.definition is not None}
    if len(sizes) > MAX_HOOKS:
        raise RpcError(ErrorCode.OVERLOAD, f"a session may register {MAX_HOOKS} hooks")
    if (total := sum(sizes.values())) > MAX_SESSION_HOOK_BYTES:
        text = f"with these, the session's hooks take {total} bytes; {MAX_SESSION_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.OVERLOAD, text)
