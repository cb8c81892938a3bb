"""Turns the definitions that a client sends into hooks: checked, their sources loaded.

All of them or none; or each by itself, and then a hook that fails stands in for each one that is refused.

    read ─▶ what a table says, or what is left of one that is refused ─▶ load its source ─▶ bind ─▶ hooks, refusals

Knows definitions and units; does not know what layers contain, and knows connections only by number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, derive_hook_id, read_definition
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, ServedTarget, find_misfit
from hooklatch.core.limits import MAX_HOOK_BYTES, MAX_HOOKS, MAX_SESSION_HOOK_BYTES, Tables
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.dialects.registration import NativeHook
from hooklatch.service.building.binding import HookBinder
from hooklatch.service.building.sources import Sources, UnitError
from hooklatch.service.config.configuration import find_definition_target
from hooklatch.service.dispatch.dialect_fires import Dialects, read_native_hooks
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.files import Reloader
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.connection import Connection
from hooklatch_worker.author.failures import clip_error_text
from hooklatch_worker.wire import Source

__all__ = ["HookTables", "Registrant", "Registrar"]


class Registrant(msgspec.Struct, frozen=True):
    """Who registers: a session that may not be open yet, or (without an id) a client of the admin socket."""

    id: str = ""
    dialect: str | None = None
    cwd: str | None = None
    is_each: bool = False  # each definition is taken by itself
    own: Mapping[str, int] = {}  # the hooks that it has already, and how many bytes the definition of each takes

    @classmethod
    def of(cls, session: AgentSession, *, is_each: bool) -> Registrant:
        return cls(
            session.id,
            session.terms.dialect,
            session.cwd,
            is_each,
            {hook_id: hook.size for hook_id, hook in session.own.items()},
        )


HookTables: TypeAlias = Tables | dict[str, Any]  # a map of events, in dialects whose system writes one


class RefusedDefinition(NamedTuple):
    """A definition that was refused: its place in the call, the id of what stands in for it, its event, and why."""

    at: int
    id: str | None
    event: object
    reason: str


class RequestedHook(NamedTuple):
    """What becomes of a definition; of one that was `refused` on an event that nobody knows, nothing.

    `source` is None where there is nothing to load; `native` is the native event that it is for, or "".
    """

    at: int
    native: NativeHook
    definition: HookDefinition | None = None
    source: Source | None = None
    size: int = 0  # as JSON
    refused: RefusedDefinition | None = None


class RegistrationAnswer(NamedTuple):
    """The hooks of a call, and what it is answered."""

    hooks: list[Hook]
    wanted: list[RequestedHook]
    is_each: bool

    @property
    def ids(self) -> list[str | None]:
        return [one.definition.id if one.definition is not None else None for one in self.wanted]

    @property
    def refused(self) -> dict[str, Any]:
        """The part of an answer that is there if each definition was taken by itself."""
        refused = [one.refused._asdict() for one in self.wanted if one.refused is not None]
        return {"refused": refused} if self.is_each else {}

    @property
    def stored(self) -> dict[str, dict[str, Any]]:
        """What is kept of each hook, by its id: a definition for it alone, which is found again by that id."""
        made = ((one.native.table, definition) for one in self.wanted if (definition := one.definition) is not None)
        return {
            definition.id: {**table, "id": definition.id, "event": definition.event}
            | ({} if definition.problem is None else {"problem": definition.problem})
            for table, definition in made
        }


class Registrar(msgspec.Struct, frozen=True):
    """Makes hooks of the definitions that clients register."""

    registries: Registries
    files: Reloader
    sources: Sources
    dispatcher: Dispatcher
    dialects: Dialects

    def read(self, tables: HookTables, registrant: Registrant) -> list[RequestedHook]:
        """Check definitions, without side effects.

        Raises:
            RpcError: one of them is refused, and so all are, unless each is taken by itself; or they are too many.
        """
        natives = self._natives(tables, registrant)
        taken = {native.table.get("id") for _, native in natives if isinstance(native.table.get("id"), str)}
        taken |= registrant.own.keys()
        name_served_hooks(natives, free_names("served", taken))
        wanted, ids = list[RequestedHook](), set[str]()
        for at, native in natives:
            for one in self._read(at, native, registrant, ids):
                if one.definition is not None and one.definition.id in ids:
                    error = RpcError(ErrorCode.INVALID_PARAMS, f"the id {one.definition.id!r} occurs twice in one call")
                    one = self._stand_in(one, error, registrant, derive_stand_in_id(native.table, ids))
                ids |= {one.definition.id} if one.definition is not None else set()
                wanted.append(one)
        if registrant.id:
            check_limits(wanted, registrant.own)
        return wanted

    async def hooks_of(
        self, wanted: list[RequestedHook], connection: Connection, registrant: Registrant
    ) -> RegistrationAnswer:
        """Load the sources of these definitions, and make the hooks; there is no checkpoint after the last load.

        Raises:
            RpcError: one of them cannot be loaded, and so none is registered, unless each is taken by itself.
        """
        settled = list(wanted)
        for index, one in enumerate(wanted):
            if one.source is not None and one.definition is not None:
                try:
                    await self.files.ensure(one.source)
                except UnitError as failure:
                    error = RpcError(ErrorCode.LOAD_FAILED, f"hook {one.definition.id!r}: {failure}")
                    settled[index] = self._stand_in(one, error, registrant)
        # No checkpoint from here on: a reload could activate other builds than those that were just loaded.
        hooks: list[Hook] = []
        for index, one in enumerate(settled):
            if (definition := one.definition) is None:
                continue
            hook = self._hook_of(one, definition, connection, registrant)
            if hook.problem is not None and definition.problem is None:
                error = RpcError(ErrorCode.LOAD_FAILED, f"hook {hook.id!r}: {hook.problem}")
                one = settled[index] = self._stand_in(one, error, registrant)
                hook = self._hook_of(one, one.definition or definition, connection, registrant)
            hooks.append(hook)
        return RegistrationAnswer(hooks, settled, registrant.is_each)

    def _natives(self, tables: HookTables, registrant: Registrant) -> list[tuple[int, NativeHook]]:
        """Read what was sent; a dialect's session may send one map of events, in that system's format."""
        dialect = self.dialects.find(registrant.dialect) if registrant.dialect is not None else None
        if dialect is None and not isinstance(tables, list):
            text = "hooks must be a list of definitions; a map of events needs a dialect"
            raise RpcError(ErrorCode.INVALID_PARAMS, text)
        found: list[tuple[int, NativeHook]] = []
        listed: list[object] = list(tables) if isinstance(tables, list) else [tables]
        for at, table in enumerate(listed):
            if not isinstance(table, dict):
                natives = [NativeHook({}, "", InvalidHookError("", f"a hook is a table, not {table!r:.80}"))]
            elif dialect is None:
                natives = [NativeHook(cast("dict[str, Any]", table), "")]
            else:
                natives = read_native_hooks(dialect, cast("dict[str, Any]", table), self.registries.catalogue)
            found += [(at, native) for native in natives]
        return found

    def _read(
        self, at: int, native: NativeHook, registrant: Registrant, ids: Collection[str]
    ) -> Iterator[RequestedHook]:
        """Read the definitions of one table, or what stands in for it."""
        try:
            found = read_requested_hooks(at, native, registrant)
        except (InvalidHookError, RpcError) as error:
            refusal = error if isinstance(error, RpcError) else RpcError(ErrorCode.INVALID_PARAMS, str(error))
            if not registrant.is_each:
                raise refusal from None
            reason = error.reason if isinstance(error, InvalidHookError) else str(error)
            definitions = read_remains(native, reason, ids)
            if not definitions:
                yield RequestedHook(at, native, refused=RefusedDefinition(at, None, find_written_event(native), reason))
            for definition in definitions:
                yield self._stand_in(RequestedHook(at, native, definition), refusal, registrant)
            return
        for one in found:
            fault = self._fault_of(one, registrant)
            yield one if fault is None else self._stand_in(one, fault, registrant)

    def _fault_of(self, hook: RequestedHook, registrant: Registrant) -> RpcError | None:
        definition, source = hook.definition, hook.source
        if definition is None or (definition.problem is not None and definition.event == EVERY_GATE):
            return None
        try:
            spec = self.dispatcher.spec(definition.event)
        except RpcError as error:
            return error
        marks = {"amends": definition.amends, "only_judges": definition.only_judges}
        fault = find_misfit(spec, definition.matcher, definition.where, **marks) if definition.problem is None else None
        if fault is None and definition.served and not registrant.id:
            fault = "a global hook cannot be served"
        if fault is None and source is not None and source.kind == "file" and not source.location.startswith("/"):
            fault = f"{definition.run!r} is relative and there is no absolute cwd; give an absolute path"
        return RpcError(ErrorCode.INVALID_PARAMS, f"hook {definition.id!r}: {fault}") if fault is not None else None

    def _stand_in(
        self, hook: RequestedHook, error: RpcError, registrant: Registrant, hook_id: str | None = None
    ) -> RequestedHook:
        """Return the definition of a hook that fails in place of one that is refused.

        Raises:
            RpcError: the error, where one refusal is that of all.
        """
        if not registrant.is_each or hook.definition is None:
            raise error
        definition = hook.definition
        hook_id = hook_id or definition.id
        reason = definition.problem or str(error).removeprefix(f"hook {definition.id!r}: ")
        event = (
            definition.event if isinstance(hook.native.table.get("event"), list) else find_written_event(hook.native)
        )
        if definition.event not in (*self.registries.catalogue, EVERY_GATE):
            return RequestedHook(hook.at, hook.native, refused=RefusedDefinition(hook.at, None, event, reason))
        stood_in = msgspec.structs.replace(
            definition, id=hook_id, problem=reason, run=None, shell=None, served=False, amends=False, only_judges=False
        )
        refused = RefusedDefinition(hook.at, hook_id, event, reason)
        return hook._replace(definition=stood_in, source=None, refused=refused)

    def _hook_of(
        self, requested_hook: RequestedHook, definition: HookDefinition, connection: Connection, registrant: Registrant
    ) -> Hook:
        layer = Layer.SESSION if registrant.id else Layer.GLOBAL
        served = ServedTarget(connection.number) if definition.served else None
        binder = HookBinder(self.registries.catalogue, self.sources.units)
        hook = binder.bind(definition, layer, folder=registrant.cwd or "", target=served)
        target = hook.target
        if (
            requested_hook.native.event and definition.shell is None
        ):  # a command says in its `payload` which format it takes
            target = msgspec.structs.replace(
                target, dialect=registrant.dialect or "", native=requested_hook.native.event
            )
        return msgspec.structs.replace(hook, target=target, owner=registrant.id, size=requested_hook.size)


def free_names(stem: str, taken: Collection[object]) -> Iterator[str]:
    """Yield `stem-1`, `stem-2`, … without those that are taken."""
    return (name for number in count(1) if (name := f"{stem}-{number}") not in taken)


def derive_stand_in_id(table: Mapping[str, Any], ids: Collection[str]) -> str:
    """Return an id for what stands in for a table: the same whenever it is sent again, as to a resumed session."""
    stem = f"refused-{sha256(msgspec.json.encode(table)).hexdigest()[:8]}"
    return stem if stem not in ids else next(free_names(stem, ids))


def name_served_hooks(natives: list[tuple[int, NativeHook]], names: Iterator[str]) -> None:
    """Name each hook that has no id and is served, or states why there is none."""
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
    """Read what is usable of a table that is refused; nothing if it names no event."""
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
        InvalidHookError: it is not one.
        RpcError: it takes too many bytes.
    """
    if native.fault is not None:
        raise native.fault
    size = len(msgspec.json.encode(native.table))
    if size > MAX_HOOK_BYTES:
        name = clip_error_text(str(native.table.get("id")))
        text = f"the definition of hook {name!r} takes {size} bytes; {MAX_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.INVALID_PARAMS, text)
    wanted: list[RequestedHook] = []
    for definition in read_definition(native.table):
        has_source = not definition.served and definition.problem is None
        source = find_definition_target(definition, registrant.cwd or "")[0] if has_source else None
        wanted.append(RequestedHook(at, native, definition, source, size))
    return wanted


def check_limits(wanted: list[RequestedHook], own: Mapping[str, int]) -> None:
    """Refuse definitions that take a session, with its `own`, over its limits.

    Raises:
        RpcError: it would have too many hooks, or too large ones.
    """
    kept = {**own, **{one.definition.id: one.size for one in wanted if one.definition is not None}}
    if len(kept) > MAX_HOOKS:
        raise RpcError(ErrorCode.OVERLOAD, f"a session may register {MAX_HOOKS} hooks")
    if (total := sum(kept.values())) > MAX_SESSION_HOOK_BYTES:
        text = f"with these, the session's hooks take {total} bytes; {MAX_SESSION_HOOK_BYTES} are allowed"
        raise RpcError(ErrorCode.OVERLOAD, text)
