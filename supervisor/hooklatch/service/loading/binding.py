"""The binder, which makes a hook of a definition: for files, for the registrations of clients and for the state file.

A hook that cannot be bound keeps its place, with a `problem`: on a gate it denies, elsewhere it is skipped.  Knows
definitions, builds and events; does not know files of hooks or connections.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import HookDefinition
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.names import quote_name
from hooklatch.core.hooks.registry import DeclarationSite, Hook, Layer, PythonTarget, ServedTarget, find_misfit
from hooklatch.core.hooks.shell_definitions import ShellCommand, encode_shell_config
from hooklatch.dialects.find import describe_undefined_event
from hooklatch.service.config.configuration import Diagnostic, find_definition_target
from hooklatch.service.loading.sources import SourceBuild
from hooklatch_worker.wire import Source

__all__ = ["HookBinder", "make_stand_in", "add_way_out"]

NOTHING = PythonTarget(Source("file", ""), 0, "")  # the target of a hook that could not be made


class HookBinder:
    """The maker of hooks from the current builds; `faults` say why a source has none."""

    def __init__(
        self, catalogue: Catalogue, units: Mapping[str, SourceBuild], faults: Mapping[str, Diagnostic] | None = None
    ) -> None:
        self.catalogue = catalogue
        self.units = units
        self._faults = faults or {}

    def bind(
        self,
        definition: HookDefinition,
        layer: Layer,
        *,
        folder: str = "/",
        target: PythonTarget | ServedTarget | None = None,
        origin: DeclarationSite | None = None,
    ) -> Hook:
        """Return the hook of a definition; without a `target`, its target is looked up, relative to `folder`."""
        problem, spec = None, self.catalogue.get(definition.event)
        if target is None:
            target, problem = self._find_target(definition, folder)
        config, matcher, where, amends = definition.config, definition.matcher, definition.where, definition.amends
        problem = definition.problem or problem
        if spec is None:
            matcher, where = compile_matcher(None), None
            problem = problem or describe_undefined_event(self.catalogue, definition.event)
        elif (fault := find_misfit(spec, matcher, None, amends=amends, only_judges=definition.only_judges)) is not None:
            matcher, where, amends, problem = compile_matcher(None), None, False, definition.problem or fault
        elif where is not None and (fault := where.find_unknown_field(spec)) is not None:
            # Without the condition it denies every event that it matches: a guard with a wrong one must not pass any.
            where, problem = None, definition.problem or f"where: {fault}"
        dangers = find_dangers(definition.shell, layer) if definition.shell is not None else ()
        if definition.shell is not None and spec is not None and isinstance(target, PythonTarget):
            config = encode_shell_config(
                definition.shell, spec, hook_id=definition.id, timeout=definition.timeout, config=config, folder=folder
            )
            target = msgspec.structs.replace(target, command=definition.shell.describe())
        return Hook(
            id=definition.id, event=definition.event, layer=layer, matcher=matcher, target=target,
            where=where,
            timeout=definition.timeout, priority=definition.priority, enabled=definition.enabled,
            observe=definition.observe, optional=definition.optional, amends=amends,
            only_judges=definition.only_judges,
            description=definition.description, config=config, origin=origin, problem=problem,
            plugin=definition.plugin, dangers=dangers,
        )  # fmt: skip

    def _find_target(self, definition: HookDefinition, folder: str) -> tuple[PythonTarget, str | None]:
        if definition.run is None and definition.shell is None:
            return NOTHING, definition.problem
        source, function = find_definition_target(definition, folder)
        unit = self.units.get(source.location)
        if unit is None:
            return PythonTarget(source, 0, function), self.explain_unloaded(source.location)
        if function not in unit.loaded.functions:
            return PythonTarget(source, 0, function), f"{source.location} has no function {function!r}"
        return PythonTarget(unit.source, unit.build, function), None

    def explain_unloaded(self, location: str) -> str:
        """Return why a source has no build."""
        fault = self._faults.get(location)
        return str(fault) if fault is not None else f"{location} is not loaded"


def find_dangers(shell: ShellCommand, layer: Layer) -> tuple[str, ...]:
    """Return the dangers of a shell hook.  The first one loads the parser of shells."""
    from hooklatch.core.hooks import shell_dangers

    return shell_dangers.find_dangers(shell, is_of_project=layer is Layer.PROJECT)


def add_way_out(problem: str, name: str) -> str:
    """Add the remedies to a hook's problem, with the hook's full name."""
    remedy = ", or" if problem.rpartition("; ")[2].startswith("fix ") else "; fix it, or"
    return f"{problem}{remedy}: hooklatch hooks disable {quote_name(name)}"


def make_stand_in(hook_id: str, event: str, problem: str) -> Hook:
    """Return a hook that fails, in place of one that could not be made."""
    hook = Hook(
        id=hook_id, event=event, layer=Layer.GLOBAL, matcher=compile_matcher(None),
        target=NOTHING,
    )  # fmt: skip
    return msgspec.structs.replace(hook, problem=add_way_out(problem, hook.name))
