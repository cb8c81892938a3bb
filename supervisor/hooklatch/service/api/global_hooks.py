"""The hooks that administrators registered and the switches that they set: in force now, and again after a restart."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from hooklatch.core.health import Faults
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, PythonTarget
from hooklatch.service.config.configuration import place_of
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.loading.assembly import hook_of, stand_in, with_way_out
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.sources import UnitError
from hooklatch.service.registry.registries import Registries

__all__ = ["GlobalHooks", "stored"]


class GlobalHooks:
    """Changes the hooks that all sessions share, and stores each change."""

    def __init__(
        self, registries: Registries, files: Files, state: StateFile, breakers: Breakers, faults: Faults
    ) -> None:
        self._registries = registries
        self._files = files
        self._state = state
        self._breakers = breakers
        self._faults = faults

    async def restore(self, fault: str | None) -> None:
        """Register again what was registered before the last stop.

        A `fault` says that this is not known; then every gate denies, since some of it may have been guards.
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
        source, function = place_of(definition, "/")
        target, problem = PythonTarget(source, 0, function), None
        try:
            unit = await self._files.ensure(source)
            target = PythonTarget(unit.source, unit.build, function)
            if function not in unit.loaded.functions:
                problem = f"{source.location} has no function {function!r}"
        except UnitError as error:
            problem = str(error)  # a reload that finds it mended takes this away
        catalogue = self._registries.catalogue
        spec = catalogue.get(definition.event)
        if spec is None:  # what a command is told of its event cannot be known
            problem = problem or f"{unknown_event(catalogue, definition.event)}; define it, then restart the daemon"
        hook = hook_of(definition, Layer.GLOBAL, target, problem=problem, spec=spec)
        if hook.problem is not None:
            hook = msgspec.structs.replace(hook, problem=with_way_out(hook.problem, hook.name))
        return hook

    def register(self, hooks: Iterable[Hook], tables: Iterable[dict[str, Any]]) -> None:
        """Add or replace hooks, and store their definitions: a table for each, in the order of firing.

        Raises:
            RpcError: a file declares one of these ids.
        """
        self._registries.register_global(hooks)
        kept = {table.get("id"): table for table in self._state.state.hooks}
        kept.update({table["id"]: table for table in tables})
        self._state.state.hooks = list(kept.values())
        self._files.store()

    def unregister(self, name: str) -> None:
        """Remove a hook by its id or its name; a missing one is no error.

        Raises:
            RpcError: a file declares it.
        """
        removed = self._registries.unregister_global(name)
        if removed is not None:
            state = self._state.state
            state.hooks = [table for table in state.hooks if table.get("id") != removed.id]
            self._store_switches()

    def switch(self, name: str, *, enabled: bool) -> None:
        """Enable or disable a hook of the layers that sessions share; enabling lifts its quarantine.

        Raises:
            RpcError: there is no such hook, or it may be several.
        """
        target = self._registries.switch_global(name, enabled=enabled)
        for hook in target.hooks if enabled else ():
            self._breakers.lift(hook.name)
        self._store_switches()

    def _store_switches(self) -> None:
        self._state.state.switches = dict(self._registries.switches)
        self._files.store()


def stored(state: StateFile, result: dict[str, Any]) -> dict[str, Any]:
    """Add to the answer of a global change that it is in force and could not be stored, if so."""
    return {**result, "warnings": [state.unwritten]} if state.unwritten is not None else result
