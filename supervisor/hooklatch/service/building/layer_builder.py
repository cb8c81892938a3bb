"""Builds the ordered hooks of each layer from files and packages.  Knows declarations and builds; reads no file.

What cannot be built keeps its place: a hook whose source is broken is there with a `problem`, a file that cannot be
read is replaced by the hooks of its manifest, and one without a manifest by a hook on every gate.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from hooklatch.core.hooks.builtin_sources import LSP
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.conditions import InvalidConditionError, compile_where
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, define_marked_hook
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.core.hooks.registry import EVERY_GATE, DeclarationSite, Hook, Layer, PythonTarget
from hooklatch.dialects.find import describe_undefined_event
from hooklatch.service.building.binding import HookBinder, add_way_out
from hooklatch.service.building.overriding import apply_overrides, find_misnamed_plugins, is_meant
from hooklatch.service.building.sources import SourceBuild
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.main_tables import Override
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.reading import trust
from hooklatch.service.reading.declared_files import DeclaredFile, FleetFiles, ProjectFiles
from hooklatch.service.reading.plan import Manifests, ReloadPlan
from hooklatch.service.reading.plugins import Plugin
from hooklatch_worker.lsp import diagnostics
from hooklatch_worker.wire import Source

__all__ = ["BuiltLayers", "assemble_layers"]

CONTACT = "contact"  # the stand-in where every gate is denied besides what the policy says
POLICY = "policy"  # the stand-in for a policy that is unknown
LSP_MARGIN = 1.0  # seconds that the hook has beyond its server's time: no answer is better than a killed worker


class BuiltLayers(msgspec.Struct, frozen=True):
    """The hooks that all viewers share, those of each project, and what is wrong.

    `by_file` has the hooks of each file and plugin, `by_source` those that are marked in a source.  `fleets` is what is
    wrong in the fleet's bundle, and `attempts` the overrides that name a hook of the fleet, which none reaches.
    """

    shared: list[Hook]
    projects: dict[str, list[Hook]]
    diagnostics: list[Diagnostic]
    by_file: dict[str, list[Hook]]
    by_source: dict[str, list[Hook]] = {}
    fleets: list[Diagnostic] = []
    attempts: list[Override] = []

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all these hooks; a project's are told apart by its directory."""
        found = {hook.name for hook in self.shared}
        found.update(f"{folder} {hook.name}" for folder, hooks in self.projects.items() for hook in hooks)
        return frozenset(found)


class LayerBuilder:
    """Makes the hooks of one layer, and collects the problems; `taken` are the ids that are in use already."""

    def __init__(
        self,
        layer: Layer,
        binder: HookBinder,
        remembered: Manifests,
        taken: Mapping[str, DeclarationSite],
        project: str = "",
        *,
        suspendable: bool = True,
    ) -> None:
        self._layer = layer
        self._project = project
        self._suspendable = suspendable
        self._binder = binder
        self._manifests = remembered
        self._taken = dict(taken)
        self.hooks: list[Hook] = []
        self.diagnostics: list[Diagnostic] = []
        self.by_file: dict[str, list[Hook]] = {}
        self.by_source: dict[str, list[Hook]] = {}

    def add(self, file: DeclaredFile) -> None:
        """Add one file's hooks; call it in the order of the files."""
        before = len(self.hooks)
        if file.config is None:
            self._stand_in(file.path, str(file.fault), is_gone=file.is_absent)
        else:
            folder = os.path.dirname(file.path)
            self.diagnostics += file.config.diagnostics
            for table in file.config.sources:
                self._add_source(table.source.location, str(file.fault) if file.is_absent else "")
            for definition in file.config.hooks:
                self.add_definition(definition, folder, DeclarationSite(file.path, definition.line))
        self.by_file[file.path] = self.hooks[before:]

    def _add_source(self, location: str, gone: str) -> None:
        unit, first = self._binder.units.get(location), len(self.hooks)
        if unit is None:
            self._stand_in(location, gone or self._binder.why_unloaded(location))
        else:
            self._add_unit(unit)
            self.by_source.setdefault(location, []).extend(self.hooks[first:])

    def add_plugin(self, plugin: Plugin) -> None:
        """Add a plugin's hooks, or their stand-ins if it is broken; each is named after the plugin."""
        before = len(self.hooks)
        unit = self._binder.units.get(plugin.module)
        if plugin.fault is None and unit is not None:
            self._add_unit(unit, plugin)
        else:
            fault = plugin.fault or self._binder.why_unloaded(plugin.module)
            self._stand_in(plugin.key, f"plugin {plugin.name!r}: {fault}", plugin=plugin.name)
        self.by_file[plugin.key] = self.hooks[before:]

    def add_unreadable(self, path: str, fault: str) -> None:
        """Add a stand-in for a place of which it is unknown whether it declares hooks."""
        self._stand_in(path, fault)
        self.diagnostics.append(Diagnostic(path, 0, fault))

    def add_project(self, project: ProjectFiles) -> None:
        """Add a project's hooks, or their stand-ins if its files are not those that were trusted."""
        if project.fault is not None:
            folder = trust.project_hooks_folder(project.folder)
            for path in [path for path in self._manifests if path.startswith(f"{folder}/")] or [folder]:
                self._stand_in(path, "", problem=project.fault)
            self.diagnostics.append(Diagnostic(project.folder, 0, project.fault))
        for file in project.files:
            self.add(file)
            if file.fault is not None:
                self.diagnostics.append(file.fault)

    def add_fleet(self, fleet: FleetFiles) -> None:
        """Add the hooks of the fleet's policy; what is unknown of it denies at every gate."""
        if fleet.fault is not None:
            self._stand_in(POLICY, fleet.fault)
            self.diagnostics.append(Diagnostic(fleet.root or POLICY, 0, fleet.fault))
        if fleet.denies is not None:
            self._stand_in(CONTACT, fleet.denies)
        for file in fleet.files:
            self.add(file)
            if file.fault is not None:
                self.diagnostics.append(file.fault)

    def add_definition(
        self, definition: HookDefinition, folder: str = "/", origin: DeclarationSite | None = None
    ) -> None:
        self._append(self._binder.bind(definition, self._layer, folder=folder, origin=origin))

    def _add_unit(self, unit: SourceBuild, plugin: Plugin | None = None) -> None:
        location = unit.source.location
        stem = os.path.basename(location).removesuffix(".py")
        names = [declared.function for declared in unit.loaded.hooks]
        name = plugin.name if plugin is not None else None
        for declared in unit.loaded.hooks:
            origin = DeclarationSite(location, declared.line)
            try:
                definition = define_marked_hook(
                    declared.marker if plugin is None else plugin.named(declared),
                    stem=stem,
                    function=declared.function,
                    line=declared.line,
                    has_siblings=names.count(declared.function) > 1,
                )
            except InvalidHookError as error:  # somebody wrote it as a guard, so it keeps its place
                hook_id = f"{f'{name}.' if name is not None else ''}{stem}:{declared.function}"
                definition = HookDefinition(
                    id=hook_id, event=declared.marker.event, matcher=compile_matcher(None), problem=error.reason
                )
            definition = msgspec.structs.replace(definition, plugin=name)
            target = PythonTarget(unit.source, unit.build, declared.function, declared.marker.runtime)
            self._append(self._binder.bind(definition, self._layer, target=target, origin=origin))

    def _append(self, hook: Hook) -> None:
        origin = hook.origin or DeclarationSite("?")
        unknown = describe_undefined_event(self._binder.catalogue, hook.event)
        if hook.event not in self._binder.catalogue and (hook.event != EVERY_GATE or hook.problem == unknown):
            self._complain(hook, origin, unknown)
            return
        location = hook.target.source.location if isinstance(hook.target, PythonTarget) else ""
        is_sources = hook.problem == self._binder.why_unloaded(location)  # which is a diagnostic already
        if hook.problem is not None and not is_sources:
            self._complain(hook, origin, hook.problem)
        other = self._taken.get(hook.id)
        if other is not None:
            self._complain(hook, origin, f"the id is taken by {other}; give it another")
            hook = msgspec.structs.replace(hook, id=f"{hook.id}#{origin}", problem=f"its id is taken by {other}")
        self._keep(hook, origin)

    def _keep(self, hook: Hook, origin: DeclarationSite) -> None:
        self._taken[hook.id] = origin
        is_suspendable = self._suspendable and not (self._layer is Layer.FLEET and hook.event == EVERY_GATE)
        hook = msgspec.structs.replace(hook, project=self._project, suspendable=is_suspendable)
        if hook.problem is not None:
            hook = msgspec.structs.replace(hook, problem=describe_placed_problem(hook, origin))
        self.hooks.append(hook)

    def _complain(self, hook: Hook, origin: DeclarationSite, text: str) -> None:
        self.diagnostics.append(Diagnostic(origin.file, origin.line, f"hook {hook.id!r}: {text}"))

    def _stand_in(
        self, path: str, fault: str, *, plugin: str | None = None, problem: str = "", is_gone: bool = False
    ) -> None:
        """Deny where a file's gates were, or at every gate if they are not remembered.

        A file that is gone (`is_gone`) holds only what it held; one that cannot be read may hold more.
        """
        target = PythonTarget(Source("file", path), 0, "")
        remembered = self._manifests.get(path)
        if remembered is None or not (remembered or is_gone):
            remembered = [ManifestHook(plugin or os.path.basename(path), EVERY_GATE)]
        for entry in remembered:
            if problem and entry.id in self._taken:
                continue  # a project's file and its source remember the same hook
            try:
                matcher, where = compile_matcher(entry.match), compile_where(entry.where)
            except (MatcherError, InvalidConditionError):
                matcher, where = compile_matcher(None), None
            hook = Hook(
                id=entry.id, event=entry.event, layer=self._layer, matcher=matcher, where=where, target=target,
                priority=entry.priority, enabled=entry.enabled, observe=entry.observe, optional=entry.optional,
                amends=entry.amends, origin=DeclarationSite(path), problem=problem or fault, plugin=plugin,
            )  # fmt: skip
            if hook.id in self._taken:  # each is a guard of its own, to be listed and switched separately
                hook = msgspec.structs.replace(hook, id=f"{hook.id}#{path}")
            self._keep(hook, DeclarationSite(path))


def describe_placed_problem(hook: Hook, origin: DeclarationSite) -> str:
    problem = hook.problem or ""
    if hook.layer is Layer.FLEET:
        return f"the fleet's policy: {problem}"
    place = "" if str(origin) in problem else f"{origin}: "
    return add_way_out(f"{place}{problem}", hook.name)


def assemble_layers(
    taken: ReloadPlan,
    units: Mapping[str, SourceBuild],
    faults: Mapping[str, Diagnostic],
    remembered: Manifests,
    ids: Mapping[str, DeclarationSite],
) -> BuiltLayers:
    """Make the hooks of all layers; `ids` are those of hooks that clients registered globally."""
    binder = HookBinder(taken.catalogue, units, faults)
    builtin, packaged = LayerBuilder(Layer.BUILTIN, binder, {}, {}), LayerBuilder(Layer.PLUGIN, binder, remembered, {})
    own = LayerBuilder(Layer.GLOBAL, binder, remembered, ids)
    fleet = make_fleet_builder(taken.fleet, units, faults)
    if taken.main.lsp is not None:
        builtin.add_definition(define_lsp_hook(taken.main.lsp))
    for plugin in taken.plugins.values():
        packaged.add_plugin(plugin)
    for path, fault in taken.unreadable.items():
        packaged.add_unreadable(path, fault)
    for file in taken.files:
        own.add(file)
    given = [*builtin.hooks, *packaged.hooks]
    attempts = [override for override in taken.main.overrides if is_meant(override.id, fleet.hooks, given)]
    overridden_hooks, complaints = apply_overrides(given, taken.main, taken.catalogue, attempts)
    complaints += find_misnamed_plugins(taken.main, [*given, *own.hooks])
    by_project: dict[str, LayerBuilder] = {}
    for project in taken.projects:
        by_project[project.folder] = LayerBuilder(Layer.PROJECT, binder, remembered, {}, project.folder)
        by_project[project.folder].add_project(project)
    made = [builtin, packaged, own, *by_project.values()]
    return BuiltLayers(
        [*fleet.hooks, *overridden_hooks, *own.hooks],
        {folder: builder.hooks for folder, builder in by_project.items()},
        [*fleet.diagnostics, *complaints, *(diagnostic for builder in made for diagnostic in builder.diagnostics)],
        {path: hooks for builder in made for path, hooks in builder.by_file.items()},
        {location: hooks for builder in made for location, hooks in builder.by_source.items()},
        fleet.diagnostics,
        attempts,
    )


def make_fleet_builder(
    fleet: FleetFiles | None, units: Mapping[str, SourceBuild], faults: Mapping[str, Diagnostic]
) -> LayerBuilder:
    """Make the fleet's hooks: on events that are the same on every host, and with nothing that a host remembers."""
    binder = HookBinder(Catalogue.standard(), units, faults)
    builder = LayerBuilder(Layer.FLEET, binder, {}, {}, suspendable=fleet is not None and fleet.suspendable)
    if fleet is not None:
        builder.add_fleet(fleet)
    return builder


def define_lsp_hook(config: Mapping[str, object]) -> HookDefinition:
    return HookDefinition(
        id="lsp",
        event="post_tool_use",
        matcher=compile_matcher(list(diagnostics.TOOLS)),
        run=f"{LSP.source.location}:{LSP.function}",
        timeout=msgspec.convert(config, diagnostics.Config).timeout + LSP_MARGIN,
        description="a language server's diagnostics after an edit",
        config=msgspec.json.encode(config),
    )
