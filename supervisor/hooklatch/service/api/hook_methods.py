"""The methods that change what is active: register, unregister, enable, disable; reload and stop.

A global change is active at once, and again after a restart.  Its answer has a warning if it could not be stored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.hooks.names import is_name, is_short_name
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, PythonTarget
from hooklatch.core.limits import Path
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.products import FILES, ProductError, load_product, run_product
from hooklatch.service.api.methods import (
    AccountParams,
    ApiMethod,
    MethodTable,
    Operations,
    PolicyRejectedError,
    PolicySlot,
    check_live,
    require_session,
)
from hooklatch.service.api.registration import HookTables, MadeHooks, Registrant, Registrar
from hooklatch.service.config.configuration import Diagnostic, ForeignFile
from hooklatch.service.config.state_file import SavedState, StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.bind import HookBinder, add_way_out, make_stand_in
from hooklatch.service.loading.plan import EVERYTHING, LESS, LossAcceptance
from hooklatch.service.loading.reloader import Reloader, ReloadRequest
from hooklatch.service.loading.sources import Sources, UnitError, find_definition_target
from hooklatch.service.registry.registries import FleetHookError, Registries, find_named_hook
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.connection import Connection
from hooklatch.threads import in_thread

if TYPE_CHECKING:
    from hooklatch.core.answers import ChangeAnswer, SettingsAnswer
    from hooklatch.core.status_answers import AcceptedState, ChangeWarnings, ReloadAnswer, StopAnswer

__all__ = ["HookMethods", "RegisterParams", "add_storage_warning", "Administration"]

Change: TypeAlias = "Callable[[Connection, IdParams], Awaitable[ChangeAnswer]]"


class RegisterParams(AccountParams, frozen=True):
    hooks: HookTables
    scope: str = "session"
    each: bool = False


class IdParams(AccountParams, frozen=True):
    id: str
    scope: str | None = None


class SettingsParams(msgspec.Struct, frozen=True):
    source: Path
    data: bytes
    scope: Literal["project", "global", "plugin"] | None = None


class HookMethods(msgspec.Struct, frozen=True, kw_only=True):
    """The methods that change hooks."""

    registrar: Registrar
    registries: Registries
    reloader: Reloader
    sources: Sources
    state: StateFile
    breakers: Breakers
    faults: ActiveFaults
    fleet: PolicySlot
    operations: Operations

    @property
    def of_administrators(self) -> MethodTable:
        return {"accept_state": ApiMethod(AccountParams, self._accept_state)}

    @property
    def methods(self) -> MethodTable:
        return {
            "register": ApiMethod(RegisterParams, self._register),
            "settings": ApiMethod(SettingsParams, self._settings),
            "unregister": ApiMethod(IdParams, partial(self._record_attempt, "unregister", self._unregister)),
            "enable": ApiMethod(IdParams, partial(self._switch, enabled=True)),
            "disable": ApiMethod(
                IdParams, partial(self._record_attempt, "disable", partial(self._switch, enabled=False))
            ),
        }

    async def _record_attempt(
        self, operation: str, change: Change, connection: Connection, params: IdParams
    ) -> ChangeAnswer:
        """Make a change, and record the attempt if the hook is one of the fleet's."""
        try:
            return await change(connection, params)
        except FleetHookError as error:
            self.fleet.record_attempt(operation, error.hook)
            raise

    async def _register(self, connection: Connection, params: RegisterParams) -> ChangeAnswer:
        session = None if is_global(connection, params.scope) else require_session(connection)
        registrant = Registrant.of(session, is_each=params.each)
        requested_hooks = self.registrar.read(params.hooks, registrant)
        registration = await self.registrar.make_hooks(requested_hooks, connection, registrant)
        if session is None:
            hooks = [add_remedy(hook) for hook in registration.hooks]
            self.registries.register_global(hooks)
            stored: dict[Any, Any] = {table.get("id"): table for table in self.state.state.hooks}
            self.state.state.hooks = list({**stored, **registration.stored}.values())
            self.operations.record(
                connection, "register", params, ids=registration.ids,
                sha256=hashlib.sha256(msgspec.json.encode(params.hooks)).hexdigest(),
                files={path: digest for hook in hooks for path, digest in self.reloader.digests_of(hook).items()},
            )  # fmt: skip
            return self._report_registration(registration, await self._store_change())
        check_live(session)  # it may have been closed while a source was loaded
        self.registries.register_own(session, registration.hooks)
        return self._report_registration(registration, await self._announce_change(session))

    def _report_registration(self, registration: MadeHooks, answer: ChangeAnswer) -> ChangeAnswer:
        answer["ids"] = registration.ids
        if registration.is_each:
            answer["refused"] = registration.refusals
        return answer

    async def _settings(self, connection: Connection, params: SettingsParams) -> SettingsAnswer:
        """Read a settings file as in hooks.d, for a client that registers its hooks."""

        def read() -> SettingsAnswer:
            product = load_product(FILES, ".json", ForeignFile)
            define = partial(product.define, params.source, params.data, params.scope)
            return cast("SettingsAnswer", run_product("its reader fails", dict, define, RpcError))

        try:
            return await in_thread(read, abandon_on_cancel=True)
        except ProductError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None

    async def _unregister(self, connection: Connection, params: IdParams) -> ChangeAnswer:
        """Remove a hook by its id, a global one also by its name; a missing one is not an error."""
        if is_global(connection, params.scope):
            params = msgspec.structs.replace(params, id=self._spell_out(params.id))
            declared_by = self.reloader.active.find_place(params.id)
            if declared_by is not None and declared_by in self.reloader.active.plan.vanished:
                return await self._remove_vanished(declared_by, connection, params)
            removed = self.registries.unregister_global(params.id, declared_by=declared_by)
            if removed is None:
                answer = self._report_revision()
                answer["removed"] = []
                return answer
            self.state.state.hooks = [table for table in self.state.state.hooks if table.get("id") != removed.id]
            self.operations.record(connection, "unregister", params, params.id, removed=[removed.id])
            answer = await self._store_change()
            answer["removed"] = [removed.id]
            return answer
        session = require_session(connection)
        self._check_own(session, params.id)
        self.registries.unregister_own(session, params.id)
        return await self._announce_change(session)

    def _spell_out(self, name: str) -> str:
        """Return the full name that a short name means; any other name as it is."""
        hooks = self.registries.shared_hooks()
        if any(name in (hook.id, hook.name) for hook in hooks) or not any(
            is_short_name(name, each.id) for each in hooks
        ):
            return name
        return find_named_hook(name, hooks).name

    async def _remove_vanished(self, declared_by: str, connection: Connection, params: IdParams) -> ChangeAnswer:
        """Accept that the file or the plugin that declared a hook is gone, with all that it declared."""

        def record_removal(removed: list[str]) -> None:
            self.operations.record(connection, "unregister", params, params.id, accepted=removed)

        acceptance = LossAcceptance(removed=frozenset({declared_by}))
        reloaded = await self.reloader.reload(ReloadRequest(acceptance, on_commit=record_removal))
        answer: ChangeAnswer = {"revision": reloaded["revision"]}
        answer["removed"], answer["accepted"] = reloaded["removed"], reloaded["accepted"]
        add_storage_warning(self.state, answer)
        return answer

    async def _switch(self, connection: Connection, params: IdParams, *, enabled: bool) -> ChangeAnswer:
        """Enable or disable a hook; enabling lifts its quarantine."""
        if is_global(connection, params.scope):
            target = self.registries.switch_global(params.id, enabled=enabled)
            for hook in target.hooks if enabled else ():
                self.breakers.lift(hook.name)
            self.operations.record(connection, "enable" if enabled else "disable", params, params.id)
            return await self._store_change()
        session = require_session(connection)
        self._check_own(session, params.id)
        hook = self.registries.switch_own(session, params.id, enabled=enabled)
        if enabled:
            self.breakers.lift(hook.name)
        return await self._announce_change(session)

    def _check_own(self, session: AgentSession, name: str) -> None:
        if is_name(name) and name not in session.own:  # a bare id that is not there may have been the session's own
            self.registries.check_not_of_fleet(name)

    async def _announce_change(self, session: AgentSession) -> ChangeAnswer:
        """Wait until subscribers are notified of a session's change, and return the resulting revision."""
        await self.registries.announcer.wait_announced()
        return {"revision": self.registries.view_of(session).revision}

    async def _store_change(self) -> ChangeAnswer:
        """Wait until subscribers are notified and the state is on the disk, and return the resulting revision.

        The answer acknowledges the change, so it must hold for every subscriber and after a restart.
        """
        self.state.state.switches = dict(self.registries.switches)
        await self.registries.announcer.wait_announced()
        await self.state.store()
        return self._report_revision()

    def _report_revision(self) -> ChangeAnswer:
        answer: ChangeAnswer = {"revision": self.registries.view.revision}
        add_storage_warning(self.state, answer)
        return answer

    async def restore(self, fault: str | None) -> None:
        """Register again the hooks that were registered before the last stop.

        A `fault` says that these are unknown.  Then every gate denies, since some of them may have been guards.
        """
        hooks: list[Hook] = []
        faults: list[str] = []
        if fault is not None:
            faults.append(fault)
            # The fault names the only remedy: to disable the stand-in would let gates pass that were never looked at.
            hooks.append(msgspec.structs.replace(make_stand_in(self._stand_in_id, EVERY_GATE, fault), problem=fault))
        for table in self.state.state.hooks:
            try:
                definitions = read_definition(table, is_lenient=True)
            except InvalidHookError as error:
                faults.append(f"{self.state.path}: {error}")
                name, event = table.get("id"), table.get("event")
                hooks.append(make_stand_in(str(name), event if isinstance(event, str) else EVERY_GATE, faults[-1]))
                continue
            hooks += [await self._restore_hook(definition) for definition in definitions]
        self.faults.report("state file", *faults)
        self.registries.register_global(hooks, is_restored=True)

    @property
    def _stand_in_id(self) -> str:
        return os.path.basename(self.state.path)

    async def _accept_state(self, connection: Connection, params: AccountParams) -> AcceptedState:
        """Continue with the state that is there, or without one; until that is active, every gate denies."""
        content = await in_thread(self.state.read_content)
        if (fault := self.state.fault) is None:
            return self._report_acceptance(None, None)
        moved = self.state.accept(content)
        known = content.state or SavedState()
        self.operations.record(
            connection, "accept_state", params, fault=fault, moved_to=moved,
            ids=[table.get("id") for table in known.hooks], trusted=list(known.trusted), sha256=content.digest,
        )  # fmt: skip
        with trio.CancelScope(shield=True):  # the client may leave, and half of this would deny until the next start
            self.registries.switches = dict(self.state.state.switches)
            self.fleet.restore(self.reloader.active.plan.main.settings)
            if not self.reloader.active.is_main_good:
                await self.reloader.recall(known)
            await self.restore(None)
            await self.reloader.reload()
            self.registries.unregister_global(self._stand_in_id)
            await self._store_change()
        return self._report_acceptance(fault, moved)

    def _report_acceptance(self, fault: str | None, moved: str | None) -> AcceptedState:
        answer: AcceptedState = {"fault": fault, "moved_to": moved, "revision": self.registries.view.revision}
        add_storage_warning(self.state, answer)
        return answer

    async def _restore_hook(self, definition: HookDefinition) -> Hook:
        source, _ = find_definition_target(definition, "/")
        faults: dict[str, Diagnostic] = {}
        try:
            await self.reloader.ensure(source)
        except UnitError as error:  # a reload that finds the source fixed removes the fault
            faults[source.location] = error.diagnostic
        catalogue = self.registries.catalogue
        hook = HookBinder(catalogue, self.sources.units, faults).bind(definition, Layer.GLOBAL)
        if hook.problem is not None and hook.event not in (*catalogue, EVERY_GATE):
            hook = msgspec.structs.replace(hook, problem=f"{hook.problem}; define it, then restart the daemon")
        return add_remedy(hook)


def add_storage_warning(state: StateFile, answer: ChangeWarnings) -> None:
    """Add a warning to the answer of a global change, if the change is active but could not be stored."""
    if state.unwritten is not None:
        answer["warnings"] = [state.unwritten]


def add_remedy(hook: Hook) -> Hook:
    """Return a hook whose problem, if it has one, names a remedy."""
    if hook.problem is None:
        return hook
    return msgspec.structs.replace(hook, problem=add_way_out(hook.problem, hook.name))


def is_global(connection: Connection, scope: str | None) -> bool:
    """Return whether a change is for the global layer; by default it is for the connection's own."""
    scope = scope or ("session" if connection.session is not None else "global")
    if scope not in ("session", "global"):
        raise RpcError(ErrorCode.INVALID_PARAMS, f'scope must be "session" or "global", not {scope!r}')
    if scope == "global" and not connection.is_admin:
        raise RpcError(ErrorCode.NOT_ADMIN, "a global change needs the admin socket")
    return scope == "global"


class ReloadParams(AccountParams, frozen=True):
    """The source to build afresh, by its path or module, or by the id of a hook on it; without it, all of them.

    `accept_removed`: hooks that have vanished are removed.
    """

    id: str | None = None
    accept_removed: bool = False


class Administration(msgspec.Struct, frozen=True, kw_only=True):
    """The methods about the daemon itself.

    `end` ends the process; it is None if the daemon is a part of another program.
    """

    reloader: Reloader
    breakers: Breakers
    dispatcher: Dispatcher
    registries: Registries
    fleet: PolicySlot
    operations: Operations
    end: Callable[[], None] | None

    @property
    def methods(self) -> MethodTable:
        return {"reload": ApiMethod(ReloadParams, self._answer_reload), "stop": ApiMethod(msgspec.Raw, self._stop)}

    async def reload_all(
        self, accepts: LossAcceptance = LESS, on_commit: Callable[[list[str]], None] = lambda removed: None
    ) -> ReloadAnswer:
        """Apply every change of the files, build every source afresh, and lift every quarantine."""
        self.breakers.clear()
        reloaded = await self.reloader.reload(ReloadRequest(accepts, is_explicit=True, on_commit=on_commit))
        if accepts.less and self.reloader.active.is_main_good and await self.fleet.leave():
            # The first reload read that [fleet] is gone, and only then may its policy go.  This one removes its hooks.
            after = await self.reloader.reload(ReloadRequest(accepts))
            after["previous"], after["accepted"] = reloaded["previous"], reloaded["accepted"]
            return after
        return reloaded

    async def _answer_reload(self, connection: Connection, params: ReloadParams) -> ReloadAnswer:
        """Reload all, or build one source afresh."""
        if params.id is not None and params.accept_removed:
            text = 'give an "id" or "accept_removed"; to remove one hook that has vanished: hooklatch hooks remove ID'
            raise RpcError(ErrorCode.INVALID_PARAMS, text)

        def record_reload(removed: list[str]) -> None:
            self.operations.record(connection, "reload", params, params.id, accepted=removed)

        if params.id is not None:
            location = self._find_location(params.id)
            self.breakers.clear(location)
            return await self.reloader.reload(ReloadRequest(afresh={location}, on_commit=record_reload))
        try:
            return await self.reload_all(EVERYTHING if params.accept_removed else LESS, record_reload)
        except PolicyRejectedError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None

    def _find_location(self, name: str) -> str:
        """Return the location of the source that a name means: its own path or module, or a hook on it."""
        if name in self.reloader.sources:
            return name
        hook = find_named_hook(name, self.registries.all_hooks()).hooks[0]
        if not isinstance(hook.target, PythonTarget):
            raise RpcError(ErrorCode.NOT_FOUND, f"{hook.name} is served by its client, so there is nothing to reload")
        if hook.target.source.location in self.reloader.sources:
            return hook.target.source.location
        raise RpcError(ErrorCode.NOT_FOUND, f"{hook.name} has no source now: {hook.problem}")

    async def _stop(self, connection: Connection, raw: msgspec.Raw) -> StopAnswer:
        """Begin to drain, unless the daemon does already.  The connection ends with the daemon."""
        if self.end is None:
            raise RpcError(ErrorCode.NOT_PERMITTED, "this daemon is part of another program; end that program")
        if not self.dispatcher.is_draining:
            self.end()
        return {"pid": os.getpid()}
