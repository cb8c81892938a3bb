"""The builder of the ordered hooks of each layer, from files and packages.  Reads no file.

A broken part keeps its place: a hook whose source is broken is there with a `problem`, an unreadable file is replaced
by the hooks of its manifest, and one without a manifest by a hook on every gate.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, define_marked_hook, load_where
from hooklatch.core.hooks.matchers import InvalidConditionError, MatcherError, compile_matcher
from hooklatch.core.hooks.names import make_hook_id, quote_name
from hooklatch.core.hooks.registry import (
    EVERY_GATE,
    DeclarationSite,
    Hook,
    Layer,
    PythonTarget,
    ServedTarget,
    find_misfit,
)
from hooklatch.core.hooks.shell_definitions import ShellCommand, encode_shell_config
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.settings import Override
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading import trust
from hooklatch.service.loading.plan import ReloadPlan
from hooklatch.service.loading.plugins import Plugin
from hooklatch.service.loading.see import BundleFiles, DeclaredFile, FleetFiles, Manifests, ProjectFiles
from hooklatch.service.loading.sources import SourceBuild, find_definition_target
from hooklatch_worker.wire import Source

__all__ = ["BuiltLayers", "HookBinder", "add_way_out", "assemble_layers", "make_stand_in"]

CONTACT = "contact"  # the stand-in that denies every gate while the host is stale, or has no policy
POLICY = "policy"  # the stand-in for a policy that is unknown


class BuiltLayers(msgspec.Struct, frozen=True):
    """The hooks that all viewers share, those of each project, and the diagnostics.

    `by_file` has the hooks of each file and plugin, `by_source` those that are marked in a source.  `fleets` are the
    diagnostics of the fleet's bundle.  `attempts` are the overrides that name a hook of the fleet, and have no effect.
    """

    shared: list[Hook] = []
    projects: dict[str, list[Hook]] = {}
    diagnostics: list[Diagnostic] = []
    by_file: dict[str, list[Hook]] = {}
    by_source: dict[str, list[Hook]] = {}
    fleets: list[Diagnostic] = []
    attempts: list[Override] = []

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all these hooks; those of a project begin with its directory."""
        names = {hook.name for hook in self.shared}
        names.update(f"{folder} {hook.name}" for folder, hooks in self.projects.items() for hook in hooks)
        return frozenset(names)


class LayerBuilder:
    """The maker of the hooks of one layer, with their diagnostics; `taken` are the ids that are in use already."""

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
        self._taken_ids = dict(taken)
        self.hooks: list[Hook] = []
        self.diagnostics: list[Diagnostic] = []
        self.by_file: dict[str, list[Hook]] = {}
        self.by_source: dict[str, list[Hook]] = {}

    def add(self, file: DeclaredFile) -> None:
        """Add one file's hooks; call it in the order of the files."""
        before = len(self.hooks)
        if file.config is None:
            self._add_stand_ins(file.path, str(file.fault), is_gone=file.is_absent)
        else:
            folder = os.path.dirname(file.path)
            self.diagnostics += file.config.diagnostics
            for table in file.config.sources:
                self._add_source(table.source.location, str(file.fault) if file.is_absent else "")
            for definition in file.config.hooks:
                self.add_definition(definition, folder, DeclarationSite(file.path, definition.line))
        self.by_file[file.path] = self.hooks[before:]

    def _add_source(self, location: str, absence: str) -> None:
        unit, first = self._binder.units.get(location), len(self.hooks)
        if unit is None:
            self._add_stand_ins(location, absence or self._binder.explain_unloaded(location))
        else:
            self._add_build(unit)
            self.by_source.setdefault(location, []).extend(self.hooks[first:])

    def add_plugin(self, plugin: Plugin) -> None:
        """Add a plugin's hooks, or their stand-ins if it is broken; each is named after the plugin."""
        before = len(self.hooks)
        unit = self._binder.units.get(plugin.module)
        if plugin.fault is None and unit is not None:
            self._add_build(unit, plugin)
        else:
            fault = plugin.fault or self._binder.explain_unloaded(plugin.module)
            self._add_stand_ins(plugin.key, f"plugin {plugin.name!r}: {fault}", plugin=plugin.name)
        self.by_file[plugin.key] = self.hooks[before:]

    def add_unreadable(self, path: str, fault: str) -> None:
        """Add stand-ins for a path of which it is unknown whether it declares hooks."""
        self._add_stand_ins(path, fault)
        self.diagnostics.append(Diagnostic(path, 0, fault))

    def add_project(self, project: ProjectFiles) -> None:
        """Add a project's hooks, or their stand-ins if its files are not those that were trusted."""
        if project.fault is not None:
            folder = trust.project_hooks_folder(project.folder)
            for path in [path for path in self._manifests if path.startswith(f"{folder}/")] or [folder]:
                self._add_stand_ins(path, "", problem=project.fault)
            self.diagnostics.append(Diagnostic(project.folder, 0, project.fault))
        for file in project.files:
            self.add(file)
            if file.fault is not None:
                self.diagnostics.append(file.fault)

    def add_denial(self, reason: str) -> None:
        """Deny every gate."""
        self._add_stand_ins(CONTACT, reason)

    def add_bundle(self, bundle: BundleFiles) -> None:
        """Add the hooks of one of the fleet's policies; an unknown policy denies every gate."""
        if bundle.fault is not None:
            self._add_stand_ins(POLICY, bundle.fault)
            self.diagnostics.append(Diagnostic(bundle.root or POLICY, 0, bundle.fault))
        for file in bundle.files:
            self.add(file)
            if file.fault is not None:
                self.diagnostics.append(file.fault)

    def add_definition(
        self, definition: HookDefinition, folder: str = "/", origin: DeclarationSite | None = None
    ) -> None:
        self._append(self._binder.bind(definition, self._layer, folder=folder, origin=origin))

    def _add_build(self, unit: SourceBuild, plugin: Plugin | None = None) -> None:
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
            except InvalidHookError as error:  # its author meant it as a guard, so it keeps its place
                hook_id = f"{f'{name}.' if name is not None else ''}{make_hook_id(stem, declared.function)}"
                definition = HookDefinition(
                    id=hook_id, event=declared.marker.event, matcher=compile_matcher(None), problem=error.reason
                )
            definition = msgspec.structs.replace(definition, plugin=name)
            target = PythonTarget(unit.source, unit.build, declared.function, declared.marker.runtime)
            self._append(self._binder.bind(definition, self._layer, target=target, origin=origin))

    def _append(self, hook: Hook) -> None:
        origin = hook.origin or DeclarationSite("?")
        if hook.event not in self._binder.catalogue.specs:
            from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

            unknown = describe_undefined_event(self._binder.catalogue, hook.event)
            if hook.event != EVERY_GATE or hook.problem == unknown:
                self._add_diagnostic(hook, origin, unknown)
                return
        location = hook.target.source.location if isinstance(hook.target, PythonTarget) else ""
        # That a source is not loaded is a diagnostic already.
        if hook.problem is not None and hook.problem != self._binder.explain_unloaded(location):
            self._add_diagnostic(hook, origin, hook.problem)
        other = self._taken_ids.get(hook.id)
        if other is not None:
            self._add_diagnostic(hook, origin, f"the id is taken by {other}; give it another")
            hook = msgspec.structs.replace(hook, id=f"{hook.id}#{origin}", problem=f"its id is taken by {other}")
        self._keep(hook, origin)

    def _keep(self, hook: Hook, origin: DeclarationSite) -> None:
        self._taken_ids[hook.id] = origin
        is_suspendable = self._suspendable and not (self._layer is Layer.FLEET and hook.event == EVERY_GATE)
        hook = msgspec.structs.replace(hook, project=self._project, suspendable=is_suspendable)
        if hook.problem is not None:
            hook = msgspec.structs.replace(hook, problem=describe_placed_problem(hook, origin))
        self.hooks.append(hook)

    def _add_diagnostic(self, hook: Hook, origin: DeclarationSite, text: str) -> None:
        self.diagnostics.append(Diagnostic(origin.file, origin.line, f"hook {hook.id!r}: {text}"))

    def _add_stand_ins(
        self, path: str, fault: str, *, plugin: str | None = None, problem: str = "", is_gone: bool = False
    ) -> None:
        """Deny on the gates that a file had hooks on, or on every gate if no manifest remembers them.

        A file that is gone (`is_gone`) held only what its manifest says.  An unreadable file may hold more.
        """
        target = PythonTarget(Source("file", path), 0, "")
        remembered = self._manifests.get(path)
        if remembered is None or not (remembered or is_gone):
            remembered = [ManifestHook(plugin or os.path.basename(path), EVERY_GATE)]
        for entry in remembered:
            if problem and entry.id in self._taken_ids:
                continue  # a project's file and its source remember the same hook
            try:
                matcher, where = compile_matcher(entry.match), load_where(entry.where)
            except (MatcherError, InvalidConditionError):
                matcher, where = compile_matcher(None), None  # of an older version: it matches all, so it denies more
            hook = Hook(
                id=entry.id, event=entry.event, layer=self._layer, matcher=matcher, where=where, target=target,
                priority=entry.priority, enabled=entry.enabled, observe=entry.observe, optional=entry.optional,
                amends=entry.amends, origin=DeclarationSite(path), problem=problem or fault, plugin=plugin,
            )  # fmt: skip
            if hook.id in self._taken_ids:  # each is a guard of its own, to be listed and switched separately
                hook = msgspec.structs.replace(hook, id=f"{hook.id}#{path}")
            self._keep(hook, DeclarationSite(path))


def describe_placed_problem(hook: Hook, origin: DeclarationSite) -> str:
    problem = hook.problem or ""
    if hook.layer is Layer.FLEET:
        return f"the fleet's policy: {problem}"
    place = "" if str(origin) in problem else f"{origin}: "
    return add_way_out(f"{place}{problem}", hook.name)


def assemble_layers(
    plan: ReloadPlan,
    units: Mapping[str, SourceBuild],
    faults: Mapping[str, Diagnostic],
    remembered: Manifests,
    ids: Mapping[str, DeclarationSite],
) -> BuiltLayers:
    """Make the hooks of all layers; `ids` are those of hooks that clients registered globally."""
    binder = HookBinder(plan.catalogue, units, faults)
    builtin, packaged = LayerBuilder(Layer.BUILTIN, binder, {}, {}), LayerBuilder(Layer.PLUGIN, binder, remembered, {})
    own = LayerBuilder(Layer.GLOBAL, binder, remembered, ids)
    fleet_hooks, fleet_diagnostics = make_fleet_hooks(plan.fleet, units, faults)
    for definition in plan.main.builtin:
        builtin.add_definition(definition)
    for plugin in plan.plugins.values():
        packaged.add_plugin(plugin)
    for path, fault in plan.unreadable.items():
        packaged.add_unreadable(path, fault)
    for file in plan.files:
        own.add(file)
    # Only the hooks that the operator did not write: the others are changed where they are written.
    provided_hooks = [*builtin.hooks, *packaged.hooks]
    attempts: list[Override] = []
    overridden_hooks, diagnostics = provided_hooks, list[Diagnostic]()
    if plan.main.overrides or plan.main.personalities:
        from hooklatch.service.loading.overriding import apply_overrides, find_misnamed_plugins, is_meant

        attempts = [override for override in plan.main.overrides if is_meant(override.id, fleet_hooks, provided_hooks)]
        overridden_hooks, diagnostics = apply_overrides(provided_hooks, plan.main, plan.catalogue, attempts)
        diagnostics += find_misnamed_plugins(plan.main, [*provided_hooks, *own.hooks])
    by_project: dict[str, LayerBuilder] = {}
    for project in plan.projects:
        by_project[project.folder] = LayerBuilder(Layer.PROJECT, binder, remembered, {}, project.folder)
        by_project[project.folder].add_project(project)
    builders = [builtin, packaged, own, *by_project.values()]
    return BuiltLayers(
        [*fleet_hooks, *overridden_hooks, *own.hooks],
        {folder: builder.hooks for folder, builder in by_project.items()},
        [*fleet_diagnostics, *diagnostics, *(diagnostic for builder in builders for diagnostic in builder.diagnostics)],
        {path: hooks for builder in builders for path, hooks in builder.by_file.items()},
        {location: hooks for builder in builders for location, hooks in builder.by_source.items()},
        fleet_diagnostics,
        attempts,
    )


def make_fleet_hooks(
    fleet: FleetFiles | None, units: Mapping[str, SourceBuild], faults: Mapping[str, Diagnostic]
) -> tuple[list[Hook], list[Diagnostic]]:
    """Make the hooks of the fleet's policies, without any event or manifest of this host: all hosts have the same.

    The ids of hooks are those of their policy, so a hook whose id another policy has is named after its own too.
    """
    hooks, diagnostics = dict[str, Hook](), list[Diagnostic]()
    if fleet is None:
        return [], diagnostics
    binder = HookBinder(Catalogue.standard(), units, faults)
    if fleet.denies is not None:
        builder = LayerBuilder(Layer.FLEET, binder, {}, {})
        builder.add_denial(fleet.denies)
        hooks |= {hook.id: hook for hook in builder.hooks}
    for bundle in fleet.bundles:
        builder = LayerBuilder(Layer.FLEET, binder, {}, {}, suspendable=bundle.suspendable)
        builder.add_bundle(bundle)
        diagnostics += builder.diagnostics
        observes = bundle.observes > 0 and bundle.is_sound  # what cannot be read denies all the same
        for hook in builder.hooks:
            hook_id = hook.id
            while hook_id in hooks:
                hook_id += f"#{bundle.policy}"
            hooks[hook_id] = msgspec.structs.replace(hook, id=hook_id, observe=hook.observe or observes)
    return list(hooks.values()), diagnostics


NO_TARGET = PythonTarget(Source("file", ""), 0, "")  # the target of a hook that could not be made


class HookBinder(msgspec.Struct, frozen=True):
    """The maker of hooks from the current builds; `faults` say why a source has none."""

    catalogue: Catalogue
    units: Mapping[str, SourceBuild]
    faults: Mapping[str, Diagnostic] = {}

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
        problem, spec = None, self.catalogue.specs.get(definition.event)
        if target is None:
            target, problem = self._find_target(definition, folder)
        config, matcher, where, amends = definition.config, definition.matcher, definition.where, definition.amends
        problem = definition.problem or problem
        if spec is None:
            matcher, where = compile_matcher(None), None
            from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

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
            return NO_TARGET, definition.problem
        source, function = find_definition_target(definition, folder)
        unit = self.units.get(source.location)
        if unit is None:
            return PythonTarget(source, 0, function), self.explain_unloaded(source.location)
        if function not in unit.loaded.functions:
            return PythonTarget(source, 0, function), f"{source.location} has no function {function!r}"
        return PythonTarget(unit.source, unit.build, function), None

    def explain_unloaded(self, location: str) -> str:
        """Return why a source has no build."""
        fault = self.faults.get(location)
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
        target=NO_TARGET,
    )  # fmt: skip
    return msgspec.structs.replace(hook, problem=add_way_out(problem, hook.name))
