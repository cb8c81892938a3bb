"""The commit of a reload: the step after which every fire sees the new hooks, and what a later start needs of it.

    bind      a plan and builds ─▶ the hooks of all layers, with what this host remembers and clients have registered
    commit    builds, hooks, projects and the state's content change, without a checkpoint in between
    store     the state file is written, if its content has changed

The manifest of a file is what to remember of its hooks, for a start at which the file is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import msgspec

from hooklatch.core.hooks.registry import DeclarationSite, Hook, PythonTarget
from hooklatch.core.hooks.snapshots import SnapshotDiff
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.state_file import ManifestHook, SavedState, StateFile
from hooklatch.service.loading.bind import BuiltLayers, assemble_layers
from hooklatch.service.loading.build import BuildResults, aim_at_build, aim_at_nothing
from hooklatch.service.loading.bundle import Fleet
from hooklatch.service.loading.plan import ReloadPlan, list_remembered_plugins
from hooklatch.service.loading.plugins import PLUGIN
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.see import Manifests
from hooklatch.service.loading.sources import SourceBuild, Sources
from hooklatch.service.loading.unread import UnreadEntries
from hooklatch.service.registry.registries import Registries

__all__ = ["HookCommit", "ActiveHooks", "list_manifests"]


class ActiveHooks(msgspec.Struct, frozen=True):
    """The hooks of one plan and its builds, and what is wrong."""

    plan: ReloadPlan
    built: BuildResults = BuildResults()
    layers: BuiltLayers = BuiltLayers()
    diagnostics: list[Diagnostic] = []
    unread: UnreadEntries = UnreadEntries()

    @property
    def is_main_good(self) -> bool:
        """Return whether the settings are those that the main file has now."""
        return bool(files := self.plan.files) and files[0].config is not None and files[0].fault is None

    def find_place(self, name: str) -> str | None:
        """Return the file or the plugin that declares a hook, by its id or its name, and a vanished one first."""
        by_file = self.layers.by_file
        paths = [path for path, hooks in by_file.items() for hook in hooks if name in (hook.id, hook.name)]
        return next((path for path in paths if path in self.plan.vanished), paths[0] if paths else None)


class HookCommit:
    """The only writer of the hooks that files declare.  `on_declared` is told each new file and its digest."""

    def __init__(
        self,
        sources: Sources,
        registries: Registries,
        state: StateFile,
        projects: ProjectRegistry,
        fleet: Fleet,
        *,
        on_declared: Callable[[str, str], None],
    ) -> None:
        self._sources = sources
        self._registries = registries
        self._state = state
        self._projects = projects
        self._fleet = fleet
        self._on_declared = on_declared

    @property
    def revision(self) -> int:
        return self._registries.view.revision

    def list_targets(self) -> list[PythonTarget]:
        """Return the Python targets of the hooks that clients registered. A stand-in has no source."""
        hooks = self._registries.api_and_own_hooks()
        targets = [hook.target for hook in hooks if isinstance(hook.target, PythonTarget)]
        return [target for target in targets if target.source.location]

    def list_used(self, plan: ReloadPlan) -> set[str]:
        """Return the locations of the sources that a plan or a client's hook names."""
        return {*plan.wanted, *(target.source.location for target in self.list_targets())}

    def list_units(self, built: BuildResults) -> dict[str, SourceBuild]:
        """Return the builds that are active once these results are."""
        return {key: unit for key, unit in self._sources.units.items() if key not in built.too_weak} | built.fresh

    def bind(self, plan: ReloadPlan, units: Mapping[str, SourceBuild], faults: Mapping[str, Diagnostic]) -> BuiltLayers:
        """Make the hooks of a plan and of the builds that are active once it is; `faults` say which have none."""
        ids = {hook.id: DeclarationSite("a client of the admin socket") for hook in self._registries.api_hooks}
        return assemble_layers(plan, units, faults, self._state.state.manifests, ids)

    def discard(self, built: BuildResults) -> None:
        """End the builds that are not taken."""
        for unit in built.fresh.values():
            self._sources.discard(unit)

    def activate(self, plan: ReloadPlan, layers: BuiltLayers, *, forgets: bool = False) -> SnapshotDiff:
        """Change the hooks of all layers at once."""
        change = self._registries.set_global(
            files=layers.shared, catalogue=plan.catalogue, projects=layers.projects,
            personalities=plan.main.personalities, forgets=forgets,
        )  # fmt: skip
        self._fleet.record_active(plan.fleet)
        return change

    def commit(self, before: ActiveHooks, now: ActiveHooks, *, forgets: bool) -> tuple[SnapshotDiff, bool]:
        """Have every later fire use the new builds and hooks. Return also whether the state's content has changed."""
        plan, built, state = now.plan, now.built, self._state.state
        kept = list_kept(state)
        for unit in built.fresh.values():
            self._sources.adopt(unit)
        for location in built.too_weak:
            self._sources.drop(location)
        self._registries.retarget(
            {location: partial(aim_at_build, unit) for location, unit in built.fresh.items()}
            | {location: partial(aim_at_nothing, str(built.faults[location])) for location in built.too_weak}
        )
        change = self.activate(plan, now.layers, forgets=forgets)
        self._projects.active = {project.folder: project for project in plan.projects}
        for path, digest in plan.digests.items():
            if before.plan.digests.get(path) != digest:
                self._on_declared(path, digest)
        units, used = self._sources.units, self.list_used(plan)
        self._sources.forget(used)
        for override in now.layers.attempts:
            if override not in state.overrides:
                self._fleet.record_attempt("override", override.id)
        state.switches = dict(self._registries.switches)
        state.settings, state.overrides = plan.main.settings, plan.main.overrides
        # The present manifests, since a project may have been untrusted during the build.
        state.manifests = list_manifests(state.manifests, plan, now.layers, built.faults)
        state.builds = {
            location: units[location].digests if location in units else state.builds[location]
            for location in sorted(used & (units.keys() | state.builds.keys()))
        }
        return change, kept != list_kept(state)

    async def finish(self, *, is_stored: bool) -> None:
        """Wait until subscribers know of a commit, and then for the disk: it is active already."""
        await self._registries.announcer.wait_announced()
        if is_stored:
            await self._state.store()


def list_kept(state: SavedState) -> tuple[object, ...]:
    """Return what a commit may change in the state."""
    return (
        state.settings, state.overrides, state.manifests, state.builds, state.fleet, state.fleet_floor, state.switches,
    )  # fmt: skip


def list_manifests(
    before: Manifests, plan: ReloadPlan, layers: BuiltLayers, faults: Collection[str]
) -> dict[str, list[ManifestHook]]:
    """Return the manifest of every good file, also of one without hooks; a file whose removal is accepted has none.

    A source with one of the `faults` keeps the manifest that it had.
    """
    # Another configuration of the same user may share this state.
    ours = {path for path in plan.good.keys() | before.keys() if plan.is_ours(path)}
    manifests = {path: hooks for path, hooks in before.items() if path not in ours and path not in plan.wanted}
    known = ours - plan.absent
    for path, hooks in layers.by_file.items():
        is_sound = all(hook.problem is None for hook in hooks)
        remembered = None if is_sound else before.get(path)
        if not remembered:  # of a file that is good in part, remember the stand-ins too: without them it guards less
            remembered = describe_manifest(hooks) if is_sound or path in known else []
        if remembered or path in known:
            manifests[path] = remembered
    for location, hooks in layers.by_source.items():
        if sound_hooks := [hook for hook in hooks if hook.problem is None]:
            manifests[location] = describe_manifest(sound_hooks)
    manifests |= {path: hooks for path, hooks in before.items() if path in faults}
    for name in list_remembered_plugins(before) - plan.plugins.keys():
        manifests.pop(PLUGIN + name, None)
    return manifests


def describe_manifest(hooks: Iterable[Hook]) -> list[ManifestHook]:
    """Return the manifest of a good file's hooks."""
    return [
        ManifestHook(
            hook.id, hook.event, hook.matcher.source, hook.priority, hook.enabled, hook.observe, hook.optional,
            hook.amends, hook.where.source if hook.where is not None else None,
        )
        for hook in hooks
    ]  # fmt: skip
