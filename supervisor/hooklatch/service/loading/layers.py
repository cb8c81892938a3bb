"""All layers that files and packages declare, put together from what was read and built.

Knows layers and their order of making; reads no file, starts no process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hooklatch.core.hooks.builtin_sources import LSP
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import HookDefinition
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.names import AmbiguousNameError, UnknownNameError, resolve
from hooklatch.core.hooks.registry import Hook, Layer, Origin, misfit
from hooklatch.core.text import did_you_mean
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.main_tables import MainTables, Override
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading import trust
from hooklatch.service.loading.assembly import Assembly, DeclaredFile
from hooklatch.service.loading.plugins import Plugin
from hooklatch.service.loading.projects import ProjectFiles
from hooklatch.service.loading.sources import Unit
from hooklatch_worker.lsp import diagnostics

__all__ = ["Layers", "assemble"]

LSP_MARGIN = 1.0  # seconds that the hook has over what it lets a server have: silence is better than a kill


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

    `unreadable` are the folders that may hold a plugin, and why nobody can tell.
    """

    def layer(which: Layer, ids: Mapping[str, Origin], project: str = "") -> Assembly:
        made.append(Assembly(catalogue, units, faults, manifests, ids, which, project))
        return made[-1]

    made: list[Assembly] = []
    builtin, packaged, own = layer(Layer.BUILTIN, {}), layer(Layer.PLUGIN, {}), layer(Layer.GLOBAL, taken)
    if main.lsp is not None:
        builtin.add_builtin(lsp_definition(main.lsp), LSP.source, LSP.function)
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
        assembly = layer(Layer.PROJECT, {}, project.folder)
        if project.fault is not None:
            assembly.add_changed(trust.folder_of(project.folder), project.fault)
            complaints.append(Diagnostic(project.folder, 0, project.fault))
        for file in project.files:
            assembly.add(file)
            if file.fault is not None:
                complaints.append(Diagnostic(file.path, 0, file.fault))
        by_project[project.folder] = assembly.hooks
    return Layers(
        [*changed, *own.hooks],
        by_project,
        [*complaints, *(one for assembly in made for one in assembly.diagnostics)],
        {path: hooks for assembly in made for path, hooks in assembly.by_file.items()},
    )


def lsp_definition(config: Mapping[str, object]) -> HookDefinition:
    return HookDefinition(
        id="lsp",
        event="post_tool_use",
        matcher=compile_matcher(list(diagnostics.TOOLS)),
        run="hooklatch_worker.lsp.diagnostics:diagnose",
        timeout=diagnostics.read_config(config).timeout + LSP_MARGIN,
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
    """Apply an operator's word to hooks of the layers that the operator did not write."""
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
        elif override.id.partition(".")[0] not in broken:  # of a broken one nobody knows which hooks it has
            hint = did_you_mean(override.id, [hook.id for hook in by_name.values()]) or "; see: hooklatch hooks"
            text = f"there is no built-in hook and no plugin's of the id {override.id!r}{hint}"
            complaints.append(Diagnostic(path, override.line, text))
    return list(by_name.values()), complaints


def changed(hook: Hook, override: Override, catalogue: Catalogue) -> tuple[Hook, str | None]:
    """Return a hook as an override wants it, and what of that means nothing on its event."""
    wanted = msgspec.structs.replace(hook, **override.changes)
    spec = catalogue.get(hook.event)
    fault = misfit(spec, wanted.matcher, amends=wanted.amends) if spec is not None else None
    return (wanted if fault is None else msgspec.structs.replace(wanted, amends=hook.amends)), fault
