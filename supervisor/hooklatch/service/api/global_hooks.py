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


class GlobalHooks(msgspec.Struct, frozen=True):
    """Changes the hooks that all sessions share, and stores each change.

    The answer of a change is the new revision, with a warning if the change is active but could not be stored.
    """

    registries: Registries
    files: Files
    sources: Sources
    state: StateFile
    breakers: Breakers
    faults: Faults

    async def restore(self, fault: str | None) -> None:
        """Register again what was registered before the last stop.

        A `fault` says that this is unknown; then every gate denies, since some of it may have been guards.
        """
        hooks: list[Hook] = []
        faults: list[str] = []
        if fault is not None:
            faults.append(fault)
            hooks.append(stand_in(os.path.basename(self.state.path), EVERY_GATE, fault))
        for table in self.state.state.hooks:
            try:
                definitions = read_definition(table, is_lenient=True)
            except InvalidHookError as error:
                faults.append(f"{self.state.path}: {error}")
                name, event = table.get("id"), table.get("event")
                hooks.append(stand_in(str(name), event if isinstance(event, str) else EVERY_GATE, faults[-1]))
                continue
            hooks += [await self._restored(definition) for definition in definitions]
        self.faults.report("state file", *faults)
        self.registries.set_global(api=hooks)

    async def _restored(self, definition: HookDefinition) -> Hook:
        source, _ = place_of(definition, "/")
        faults: dict[str, Diagnostic] = {}
        try:
            await self.files.ensure(source)
        except UnitError as error:  # removed by a reload that finds it fixed
            faults[source.location] = Diagnostic(error.file, error.line, error.message)
        catalogue = self.registries.catalogue
        hook = Binder(catalogue, self.sources.units, faults).bind(definition, Layer.GLOBAL)
        if hook.problem is None:
            return hook
        if hook.event not in catalogue:
            hook = msgspec.structs.replace(hook, problem=f"{hook.problem}; define it, then restart the daemon")
        return msgspec.structs.replace(hook, problem=with_way_out(str(hook.problem), hook.name))

    async def register(self, hooks: Iterable[Hook], tables: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Add or replace hooks, and store their definitions: a table for each, in firing order.

        Raises:
            RpcError: a file declares one of these ids.
        """
        self.registries.register_global(hooks)
        kept = {table.get("id"): table for table in self.state.state.hooks}
        kept.update({table["id"]: table for table in tables})
        self.state.state.hooks = list(kept.values())
        return await self._stored()

    async def unregister(self, name: str) -> dict[str, Any]:
        """Remove a hook by its id or its name; a missing one is not an error.

        Raises:
            RpcError: a file declares it.
        """
        removed = self.registries.unregister_global(name)
        if removed is not None:
            state = self.state.state
            state.hooks = [table for table in state.hooks if table.get("id") != removed.id]
            state.switches = dict(self.registries.switches)
        return await self._stored()

    async def switch(self, name: str, *, enabled: bool) -> dict[str, Any]:
        """Enable or disable a hook of the layers that sessions share; enabling lifts its quarantine.

        Raises:
            RpcError: there is no such hook, or the name is ambiguous.
        """
        target = self.registries.switch_global(name, enabled=enabled)
        for hook in target.hooks if enabled else ():
            self.breakers.lift(hook.name)
        self.state.state.switches = dict(self.registries.switches)
        return await self._stored()

    async def _stored(self) -> dict[str, Any]:
        """Wait until subscribers have been told and the state is on the disk: then a change can be acknowledged."""
        await self.registries.announced()
        await self.state.store()
        return stored(self.state, {"revision": self.registries.view.revision})


def stored(state: StateFile, result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a global change, with a warning if the change is active but could not be stored."""
    return {**result, "warnings": [state.unwritten]} if state.unwritten is not None else result
