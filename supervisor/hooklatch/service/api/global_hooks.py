"""The hooks that administrators registered and the switches that they set: active now, and again after a restart."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from hooklatch.core.health import Faults
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer
from hooklatch.service.config.configuration import Diagnostic, place_of
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.loading.binding import Binder, stand_in, with_way_out
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.sources import Sources, UnitError
from hooklatch.service.registry.registries import Registries

__all__ = ["GlobalHooks", "stored"]


class GlobalHooks:
    """Changes the hooks that all sessions share, and stores each change."""

    def __init__(
        self,
        registries: Registries,
        files: Files,
        sources: Sources,
        state: StateFile,
        breakers: Breakers,
        faults: Faults,
    ) -> None:
        self._registries = registries
        self._files = files
        self._sources = sources
        self._state = state
        self._breakers = breakers
        self._faults = faults

    async def restore(self, fault: str | None) -> None:
        """Register again what was registered before the last stop.

        A `fault` says that this is unknown; then every gate denies, since some of it may have been guards.
        """
        hooks: list[Hook] = []
        faults: list[str] = []
        if fault is not None:
            faults.append(fault)
            hooks.append(stand_in(os.path.basename(self._state.path), EVERY_GATE, fault))
        for table in self._state.state.hooks:
            try:
                definitions = read_definition(table, is_lenient=True)
            except InvalidHookError as error:
                faults.append(f"{self._state.path}: {error}")
                name, event = table.get("id"), table.get("event")
                hooks.append(stand_in(str(name), event if isinstance(event, str) else EVERY_GATE, faults[-1]))
                continue
            hooks += [await self._restored(definition) for definition in definitions]
        self._faults.report("state file", *faults)
        self._registries.set_global(api=hooks)

    async def _restored(self, definition: HookDefinition) -> Hook:
        source, _ = place_of(definition, "/")
        faults: dict[str, Diagnostic] = {}
        try:
            await self._files.ensure(source)
        except UnitError as error:  # removed by a reload that finds it fixed
            faults[source.location] = error.diagnostic
        catalogue = self._registries.catalogue
        hook = Binder(catalogue, self._sources.units, faults).bind(definition, Layer.GLOBAL)
        if hook.problem is None:
            return hook
        if hook.event not in catalogue:
            hook = msgspec.structs.replace(hook, problem=f"{hook.problem}; define it, then restart the daemon")
        return msgspec.structs.replace(hook, problem=with_way_out(str(hook.problem), hook.name))

    async def register(self, hooks: Iterable[Hook], tables: Iterable[dict[str, Any]]) -> None:
        """Add or replace hooks, and store their definitions: a table for each, in firing order.

        Raises:
            RpcError: a file declares one of these ids.
        """
        self._registries.register_global(hooks)
        kept = {table.get("id"): table for table in self._state.state.hooks}
        kept.update({table["id"]: table for table in tables})
        self._state.state.hooks = list(kept.values())
        await self._store()

    async def unregister(self, name: str) -> None:
        """Remove a hook by its id or its name; a missing one is not an error.

        Raises:
            RpcError: a file declares it.
        """
        removed = self._registries.unregister_global(name)
        if removed is not None:
            state = self._state.state
            state.hooks = [table for table in state.hooks if table.get("id") != removed.id]
            await self._store_switches()

    async def switch(self, name: str, *, enabled: bool) -> None:
        """Enable or disable a hook of the layers that sessions share; enabling lifts its quarantine.

        Raises:
            RpcError: there is no such hook, or the name is ambiguous.
        """
        target = self._registries.switch_global(name, enabled=enabled)
        for hook in target.hooks if enabled else ():
            self._breakers.lift(hook.name)
        await self._store_switches()

    async def _store_switches(self) -> None:
        self._state.state.switches = dict(self._registries.switches)
        await self._store()

    async def _store(self) -> None:
        """Wait until subscribers have been told and the state is on the disk: then a change can be acknowledged."""
        await self._registries.announced()
        await self._state.store()


def stored(state: StateFile, result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a global change, with a warning if the change is active but could not be stored."""
    return {**result, "warnings": [state.unwritten]} if state.unwritten is not None else result
