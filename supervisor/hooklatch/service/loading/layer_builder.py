"""Builds the ordered hooks of each layer from files and packages.  Knows declarations and builds; reads no file.

What cannot be built keeps its place: a hook whose source is broken is there with a `problem`, a file that cannot be
read is replaced by the hooks of its manifest, and one without a manifest by a hook on every gate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from hooklatch.core.hooks.builtin_sources import LSP
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, from_marker
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.core.hooks.names import AmbiguousNameError, UnknownNameError, resolve
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, Origin, PythonTarget, misfit
from hooklatch.core.text import did_you_mean
from hooklatch.service.config.configuration import Diagnostic, FileConfig, SourceEntry
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.config.main_tables import MainTables, Override
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading import trust
from hooklatch.service.loading.binding import Binder, with_way_out
from hooklatch.service.loading.plugins import Plugin
from hooklatch.service.loading.sources import Unit
from hooklatch_worker.author.marker import Marker
from hooklatch_worker.lsp import diagnostics
from hooklatch_worker.wire import Declared, Source

__all__ = ["DeclaredFile", "Layers", "ProjectFiles", "assemble", "manifest_of"]

LSP_MARGIN = 1.0  # seconds that the hook has beyond its server's time: no answer is better than a killed worker


class DeclaredFile(msgspec.Struct, frozen=True):
    """One file in its place: what it declares, or why that is unknown.

    `is_absent` if the file does not exist: with a fault, it was active; without one, its absence is accepted.
    """

    path: str
    config: FileConfig | None
    fault: str | None = None
    is_absent: bool = False

    @property
    def is_accepted_absence(self) -> bool:
        return self.is_absent and self.fault is None


class ProjectFiles(msgspec.Struct, frozen=True):
    """What a trusted project's files declare; a `fault` if they are not those that were trusted."""

    folder: str
    files: list[DeclaredFile] = []
    fault: str | None = None

    @property
    def configs(self) -> list[FileConfig]:
        return [file.config for file in self.files if file.config is not None]


class Layers(msgspec.Struct, frozen=True):
    """The hooks that all viewers share, those of each project, and what is wrong."""

    shared: list[Hook]
    projects: dict[str, list[Hook]]
    diagnostics: list[Diagnostic]
    by_file: dict[str, list[Hook]]

    @property
    def hooks(self) -> Iterable[Hook]:
        yield from self.shared
        for hooks in self.projects.values():
            yield from hooks


class LayerBuilder:
    """Makes the hooks of a layer from all its files, and collects the problems."""

    def __init__(
        self,
        catalogue: Catalogue,
        units: Mapping[str, Unit],
        faults: Mapping[str, Diagnostic],
        manifests: Mapping[str, list[ManifestHook]],
        taken: Mapping[str, Origin],
        layer: Layer = Layer.GLOBAL,
        project: str = "",
    ) -> None:
        self._catalogue = catalogue
        self._layer = layer
        self._project = project
        self._units = units
        self._binder = Binder(catalogue, units, faults)
        self._manifests = manifests
        self._taken = dict(taken)
        self.hooks: list[Hook] = []
        self.diagnostics: list[Diagnostic] = []
        self.by_file: dict[str, list[Hook]] = {}

    def add(self, file: DeclaredFile) -> None:
        """Add one file's hooks; call it in the order of the files."""
        before = len(self.hooks)
        if file.config is None:
            self._stand_in(file.path, file.fault or "it could not be read", is_gone=file.is_absent)
        else:
            folder = os.path.dirname(file.path)
            self.diagnostics += file.config.diagnostics
            for entry in file.config.sources:
                self._add_source(entry)
            for definition in file.config.hooks:
                self._add_definition(definition, folder, Origin(file.path, definition.line))
        self.by_file[file.path] = self.hooks[before:]

    def _add_source(self, entry: SourceEntry) -> None:
        unit = self._units.get(entry.location)
        if unit is None:
            self._stand_in(entry.location, self._binder.why_unloaded(entry.location))
            return
        self._add_unit(unit, lambda declared: declared.marker)

    def _add_unit(self, unit: Unit, marked: Callable[[Declared], Marker], plugin: str | None = None) -> None:
        location = unit.source.location
        stem = os.path.basename(location).removesuffix(".py")
        names = [declared.function for declared in unit.loaded.hooks]
        for declared in unit.loaded.hooks:
            origin = Origin(location, declared.line)
            try:
                definition = from_marker(
                    marked(declared),
                    stem=stem,
                    function=declared.function,
                    line=declared.line,
                    has_siblings=names.count(declared.function) > 1,
                )
            except InvalidHookError as error:
                self.diagnostics.append(Diagnostic(origin.file, origin.line, str(error)))
                self._add_unusable(f"{stem}:{declared.function}", declared.marker.event, str(error), origin, plugin)
                continue
            definition = msgspec.structs.replace(definition, plugin=plugin)
            target = PythonTarget(unit.source, unit.build, declared.function, declared.marker.runtime)
            self._append(self._binder.bind(definition, self._layer, target=target, origin=origin))

    def add_plugin(self, plugin: Plugin) -> None:
        """Add a plugin's hooks, or their stand-ins if it is broken; each is named after the plugin."""
        before = len(self.hooks)
        unit = self._units.get(plugin.module)
        fault = plugin.fault
        if fault is None and unit is None:
            fault = self._binder.why_unloaded(plugin.module)
        if fault is not None or unit is None:
            self._stand_in(plugin.key, f"plugin {plugin.name!r}: {fault}", plugin=plugin.name)
        else:
            self._add_unit(unit, lambda declared: plugin.named(declared), plugin.name)
        self.by_file[plugin.key] = self.hooks[before:]

    def add_unreadable(self, path: str, fault: str) -> None:
        """Add a stand-in for a place of which it is unknown whether it declares hooks."""
        self._stand_in(path, fault)
        self.diagnostics.append(Diagnostic(path, 0, fault))

    def add_changed(self, folder: str, problem: str) -> None:
        """Add the stand-ins of a project whose files are not those that were trusted."""
        paths = [path for path in self._manifests if path.startswith(f"{folder}/")]
        for path in paths or [folder]:
            self._stand_in(path, "", problem=problem)

    def add_builtin(self, definition: HookDefinition) -> None:
        """Add a built-in hook."""
        self._append(self._binder.bind(definition, self._layer))

    def _add_definition(self, definition: HookDefinition, folder: str, origin: Origin) -> None:
        self._append(self._binder.bind(definition, self._layer, folder=folder, origin=origin))

    def _append(self, hook: Hook, *, is_said: bool = False) -> None:
        origin = hook.origin or Origin("?")
        if hook.event not in self._catalogue:
            self._complain(hook, origin, unknown_event(self._catalogue, hook.event))
            return
        location = hook.target.source.location if isinstance(hook.target, PythonTarget) else ""
        is_said = is_said or hook.problem == self._binder.why_unloaded(location)  # the source's own fault
        if hook.problem is not None and not is_said:
            self._complain(hook, origin, hook.problem)
        other = self._taken.get(hook.id)
        if other is not None:
            self._complain(hook, origin, f"the id is taken by {other}; give it another")
            hook = msgspec.structs.replace(hook, id=f"{hook.id}#{origin}", problem=f"its id is taken by {other}")
        self._keep(hook, origin)

    def _keep(self, hook: Hook, origin: Origin) -> None:
        self._taken[hook.id] = origin
        hook = msgspec.structs.replace(hook, project=self._project)
        if hook.problem is not None:
            hook = msgspec.structs.replace(hook, problem=placed(hook.problem, origin, hook.name))
        self.hooks.append(hook)

    def _complain(self, hook: Hook, origin: Origin, text: str) -> None:
        self.diagnostics.append(Diagnostic(origin.file, origin.line, f"hook {hook.id!r}: {text}"))

    def _add_unusable(self, hook_id: str, event: str, problem: str, origin: Origin, plugin: str | None) -> None:
        """Add a stand-in for a marked function of which no hook can be made: somebody wrote it as a guard."""
        target = PythonTarget(Source("file", origin.file), 0, "")
        matcher = compile_matcher(None)
        hook_id = f"{plugin}.{hook_id}" if plugin is not None else hook_id
        self._append(Hook(id=hook_id, event=event, layer=self._layer, matcher=matcher, target=target, origin=origin,
                          problem=problem, plugin=plugin), is_said=True)  # fmt: skip

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
                matcher = compile_matcher(entry.match)
            except MatcherError:
                matcher = compile_matcher(None)
            hook = Hook(
                id=entry.id, event=entry.event, layer=self._layer, matcher=matcher, target=target,
                priority=entry.priority, enabled=entry.enabled, observe=entry.observe, optional=entry.optional,
                amends=entry.amends, origin=Origin(path), problem=problem or fault, plugin=plugin,
            )  # fmt: skip
            if hook.id in self._taken:  # each is a guard of its own, to be listed and switched separately
                hook = msgspec.structs.replace(hook, id=f"{hook.id}#{path}")
            self._keep(hook, Origin(path))


def placed(problem: str, origin: Origin, name: str) -> str:
    place = "" if str(origin) in problem else f"{origin}: "
    return with_way_out(f"{place}{problem}", name)


def assemble(
    *,
    config_path: str,
    main: MainTables,
    plugins: Sequence[Plugin],
    unreadable: Mapping[str, str],
    files: Sequence[DeclaredFile],
    projects: Sequence[ProjectFiles],
    catalogue: Catalogue,
    units: Mapping[str, Unit],
    faults: Mapping[str, Diagnostic],
    manifests: Mapping[str, list[ManifestHook]],
    taken: Mapping[str, Origin],
) -> Layers:
    """Make the hooks of all layers; `taken` are the ids of those that clients registered globally.

    `unreadable` are the directories that may hold a plugin, and why that is unknown.
    """

    def layer(which: Layer, ids: Mapping[str, Origin], project: str = "") -> LayerBuilder:
        made.append(LayerBuilder(catalogue, units, faults, manifests, ids, which, project))
        return made[-1]

    made: list[LayerBuilder] = []
    builtin, packaged, own = layer(Layer.BUILTIN, {}), layer(Layer.PLUGIN, {}), layer(Layer.GLOBAL, taken)
    if main.lsp is not None:
        builtin.add_builtin(lsp_definition(main.lsp))
    for plugin in plugins:
        packaged.add_plugin(plugin)
    for path, fault in unreadable.items():
        packaged.add_unreadable(path, fault)
    for file in files:
        own.add(file)
    given = [*builtin.hooks, *packaged.hooks]
    changed, complaints = overridden(given, main.overrides, config_path, plugins, catalogue)
    by_project: dict[str, list[Hook]] = {}
    for project in projects:
        builder = layer(Layer.PROJECT, {}, project.folder)
        if project.fault is not None:
            builder.add_changed(trust.folder_of(project.folder), project.fault)
            complaints.append(Diagnostic(project.folder, 0, project.fault))
        for file in project.files:
            builder.add(file)
            if file.fault is not None:
                complaints.append(Diagnostic(file.path, 0, file.fault))
        by_project[project.folder] = builder.hooks
    return Layers(
        [*changed, *own.hooks],
        by_project,
        [*complaints, *(one for builder in made for one in builder.diagnostics)],
        {path: hooks for builder in made for path, hooks in builder.by_file.items()},
    )


def lsp_definition(config: Mapping[str, object]) -> HookDefinition:
    return HookDefinition(
        id="lsp",
        event="post_tool_use",
        matcher=compile_matcher(list(diagnostics.TOOLS)),
        run=f"{LSP.source.location}:{LSP.function}",
        timeout=msgspec.convert(config, diagnostics.Config).timeout + LSP_MARGIN,
        description="a language server's diagnostics after an edit",
        config=msgspec.json.encode(config),
    )


def overridden(
    hooks: Iterable[Hook],
    overrides: Iterable[Override],
    path: str,
    plugins: Iterable[Plugin],
    catalogue: Catalogue,
) -> tuple[list[Hook], list[Diagnostic]]:
    """Apply the operator's overrides to hooks that the operator did not write."""
    by_name = {hook.name: hook for hook in hooks}
    broken = {hook.plugin for hook in by_name.values() if hook.problem is not None} - {None}
    complaints: list[Diagnostic] = []
    for override in overrides:
        try:
            target = resolve(override.id, by_name.values())
        except AmbiguousNameError as error:
            complaints.append(Diagnostic(path, override.line, str(error)))
            continue
        except UnknownNameError:
            target = None
        if target is not None and target.plugin is None:
            for hook in target.hooks:
                by_name[hook.name], fault = changed(hook, override, catalogue)
                if fault is not None:
                    complaints.append(Diagnostic(path, override.line, f"override of {override.id!r}: {fault}"))
        elif override.id.partition(".")[0] not in broken:  # the hooks of a broken plugin are unknown
            hint = did_you_mean(override.id, [hook.id for hook in by_name.values()]) or "; see: hooklatch hooks"
            text = f"there is no built-in hook and no plugin's of the id {override.id!r}{hint}"
            complaints.append(Diagnostic(path, override.line, text))
    return list(by_name.values()), complaints


def changed(hook: Hook, override: Override, catalogue: Catalogue) -> tuple[Hook, str | None]:
    """Return a hook with an override applied, and which of its keys have no meaning on the hook's event."""
    wanted = msgspec.structs.replace(hook, **override.changes)
    spec = catalogue.get(hook.event)
    fault = misfit(spec, wanted.matcher, amends=wanted.amends) if spec is not None else None
    return (wanted if fault is None else msgspec.structs.replace(wanted, amends=hook.amends)), fault


def manifest_of(hooks: Iterable[Hook]) -> list[ManifestHook]:
    """Return what a good file's hooks are, for a start at which the file is broken."""
    return [
        ManifestHook(
            hook.id,
            hook.event,
            hook.matcher.source,
            hook.priority,
            hook.enabled,
            hook.observe,
            hook.optional,
            hook.amends,
        )
        for hook in hooks
    ]
