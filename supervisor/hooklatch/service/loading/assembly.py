"""From files and their sources to hooks in order.  Knows declarations and builds; reads no file, starts no process.

Whatever cannot be built still stands where it stood: a hook whose source is broken keeps its place with a `problem`,
a file that cannot be read is stood for by its manifest, and one without a manifest by a hook on every gate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, from_marker
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.core.hooks.names import quoted
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, Origin, PythonTarget, ServedTarget, misfit
from hooklatch.core.hooks.shell_definitions import shell_config
from hooklatch.service.config.configuration import Diagnostic, FileConfig, SourceEntry, place_of
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading.plugins import Plugin
from hooklatch.service.loading.sources import Unit
from hooklatch_worker.author.marker import Marker
from hooklatch_worker.wire import Declared, Source

__all__ = ["Assembly", "DeclaredFile", "hook_of", "manifest_of", "stand_in", "with_way_out"]


class DeclaredFile(msgspec.Struct, frozen=True):
    """One file in its place: what it declares, or why that is not known.

    `is_absent` where there is no such file: with a fault it was in force, without one that is accepted.
    """

    path: str
    config: FileConfig | None
    fault: str | None = None
    is_absent: bool = False

    @property
    def is_accepted_absence(self) -> bool:
        return self.is_absent and self.fault is None


class Assembly:
    """Makes the hooks of a layer from all its files, and collects what is wrong with them."""

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
        self._faults = faults
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
            fault = self._faults.get(entry.location)
            self._stand_in(entry.location, str(fault) if fault else "it is not loaded")
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
            self._append(hook_of(definition, self._layer, target, origin, spec=self._catalogue.get(definition.event)))

    def add_plugin(self, plugin: Plugin) -> None:
        """Add a plugin's hooks, or what stands for them where it is broken; each is named after it."""
        before = len(self.hooks)
        unit = self._units.get(plugin.module)
        fault = plugin.fault
        if fault is None and unit is None:
            fault = str(self._faults.get(plugin.module) or "it is not loaded")
        if fault is not None or unit is None:
            self._stand_in(plugin.key, f"plugin {plugin.name!r}: {fault}", plugin=plugin.name)
        else:
            self._add_unit(unit, lambda declared: plugin.named(declared), plugin.name)
        self.by_file[plugin.key] = self.hooks[before:]

    def add_unreadable(self, path: str, fault: str) -> None:
        """Stand for a place of which nobody can tell whether it declares something."""
        self._stand_in(path, fault)
        self.diagnostics.append(Diagnostic(path, 0, fault))

    def add_changed(self, folder: str, problem: str) -> None:
        """Stand for a project whose files are not those that were trusted."""
        paths = [path for path in self._manifests if path.startswith(f"{folder}/")]
        for path in paths or [folder]:
            self._stand_in(path, "", problem=problem)

    def add_builtin(self, definition: HookDefinition, source: Source, function: str) -> None:
        """Add a hook of our own."""
        unit = self._units.get(source.location)
        fault = self._faults.get(source.location)
        target = PythonTarget(unit.source if unit else source, unit.build if unit else 0, function)
        problem = None if unit else str(fault or "it is not loaded")
        self._append(hook_of(definition, self._layer, target, None, problem, spec=self._catalogue[definition.event]))

    def _add_definition(self, definition: HookDefinition, folder: str, origin: Origin) -> None:
        source, function = place_of(definition, folder)
        unit = self._units.get(source.location)
        problem = None
        target = PythonTarget(source, 0, function)
        if unit is None:
            fault = self._faults.get(source.location)
            problem = str(fault) if fault else f"{source.location} is not loaded"
        elif function not in unit.loaded.functions:
            problem = f"{source.location} has no function {function!r}"
            self.diagnostics.append(Diagnostic(origin.file, origin.line, f"hook {definition.id!r}: {problem}"))
        else:
            target = PythonTarget(unit.source, unit.build, function)
        if definition.problem is not None and not definition.problem.startswith("match:"):
            self.diagnostics.append(
                Diagnostic(origin.file, origin.line, f"hook {definition.id!r}: {definition.problem}")
            )
        spec = self._catalogue.get(definition.event)
        self._append(hook_of(definition, self._layer, target, origin, problem, spec=spec))

    def _append(self, hook: Hook) -> None:
        origin = hook.origin or Origin("?")
        spec = self._catalogue.get(hook.event)
        if spec is None:
            self._complain(hook, origin, unknown_event(self._catalogue, hook.event))
            return
        fault = misfit(spec, hook.matcher, amends=hook.amends)
        if fault is not None:
            self._complain(hook, origin, fault)
            hook = msgspec.structs.replace(hook, matcher=compile_matcher(None), amends=False, problem=fault)
        if hook.problem is not None and hook.problem.startswith("match:"):
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
        """Stand for a declared function of which no hook can be made: it is a guard that somebody wrote."""
        target = PythonTarget(Source("file", origin.file), 0, "")
        matcher = compile_matcher(None)
        hook_id = f"{plugin}.{hook_id}" if plugin is not None else hook_id
        self._append(Hook(id=hook_id, event=event, layer=self._layer, matcher=matcher, target=target, origin=origin,
                          problem=problem, plugin=plugin))  # fmt: skip

    def _stand_in(
        self, path: str, fault: str, *, plugin: str | None = None, problem: str = "", is_gone: bool = False
    ) -> None:
        """Deny where a file's gates stood, or at every gate where nobody remembers them.

        What is gone (`is_gone`) holds no more than it held.  What cannot be read may.
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
            if hook.id in self._taken:  # each is a guard of its own, to be seen and switched alone
                hook = msgspec.structs.replace(hook, id=f"{hook.id}#{path}")
            self._keep(hook, Origin(path))


def with_way_out(problem: str, name: str) -> str:
    """Add to what is wrong with a hook what can be done about it; it is named in full."""
    remedy = ", or" if problem.rpartition("; ")[2].startswith("mend ") else "; mend it, or"
    return f"{problem}{remedy}: hooklatch hooks disable {quoted(name)}"


def placed(problem: str, origin: Origin, name: str) -> str:
    place = "" if str(origin) in problem else f"{origin}: "
    return with_way_out(f"{place}{problem}", name)


def stand_in(hook_id: str, event: str, problem: str) -> Hook:
    """Make a hook that fails in the place of one that could not be had."""
    hook = Hook(
        id=hook_id, event=event, layer=Layer.GLOBAL, matcher=compile_matcher(None),
        target=PythonTarget(Source("file", ""), 0, ""),
    )  # fmt: skip
    return msgspec.structs.replace(hook, problem=with_way_out(problem, hook.name))


def hook_of(
    definition: HookDefinition,
    layer: Layer,
    target: PythonTarget | ServedTarget,
    origin: Origin | None = None,
    problem: str | None = None,
    *,
    spec: EventSpec | None,
) -> Hook:
    """Make a hook of a definition and its target; a command must be told what its event (`spec`) allows."""
    config = definition.config
    if definition.shell is not None and spec is not None and isinstance(target, PythonTarget):
        config = shell_config(
            definition.shell, spec, hook_id=definition.id, timeout=definition.timeout, config=definition.config
        )
        target = msgspec.structs.replace(target, command=definition.shell.describe())
    return Hook(
        id=definition.id,
        event=definition.event,
        layer=layer,
        matcher=definition.matcher,
        target=target,
        timeout=definition.timeout,
        priority=definition.priority,
        enabled=definition.enabled,
        observe=definition.observe,
        optional=definition.optional,
        amends=definition.amends,
        description=definition.description,
        config=config,
        origin=origin,
        problem=definition.problem or problem,
        plugin=definition.plugin,
    )


def manifest_of(hooks: Iterable[Hook]) -> list[ManifestHook]:
    """Note what a good file's hooks are, for a start at which it is broken."""
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
