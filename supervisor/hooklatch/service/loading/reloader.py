"""The reload of the files that declare hooks.  Knows directories and last good versions, and not times of changes.

    reload: read every file once, in a thread ─▶ plan ─▶ build what has changed ─▶ commit, as one revision ─▶ remember

    a bundle of the fleet: the same, with its files in place of the active ones; all of it is taken, or nothing
    the fleet's denial of every gate comes or goes: committed on the active plan, without a reload and its waits

`plan_reload` decides what a reload takes. This module has the reading before it and the commit after it.  If a source
does not load, every Python file beside it is watched, since a change of any of them may fix it.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from hooklatch.core.hooks.registry import DeclarationSite, Hook, PythonTarget
from hooklatch.core.hooks.snapshots import SnapshotDiff
from hooklatch.processes.starting import scratch_root
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.config.path_lookup import DirectoryNames, Stamp, list_directory, stamp_path
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.settling import has_lost
from hooklatch.service.config.state_file import SavedState, StateFile
from hooklatch.service.loading import trust
from hooklatch.service.loading.bind import BuiltLayers, assemble_layers
from hooklatch.service.loading.build import (
    BuildResults,
    SourceBuilder,
    aim_at_build,
    aim_at_nothing,
    prepare_version,
    verify_fleet_files,
)
from hooklatch.service.loading.bundle import BundleCandidate, BundleError, Fleet, find_bundle_faults
from hooklatch.service.loading.commit import list_manifests
from hooklatch.service.loading.plan import NOTHING, LossAcceptance, ReloadPlan, list_known_files, plan_reload
from hooklatch.service.loading.plugins import Discovery, PackageFolder, discover_plugins
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.see import ObservedFiles, list_hook_files, read_files, read_project
from hooklatch.service.loading.sources import SourceBuild, Sources, UnitError, read_source_version
from hooklatch.service.loading.trust import project_hooks_folder, stamp_tree
from hooklatch.service.loading.unread import UnreadEntries, UsedPaths, find_unread_entries
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Source

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReloadAnswer
    from hooklatch.dialects.dialect import Dialect

__all__ = ["Reloader", "ReloadRequest", "UnsettledError", "make_first_plan"]

logger = logging.getLogger("hooklatch.files")


class ReloadRequest(msgspec.Struct, frozen=True):
    """The wishes of a caller of a reload. The watch has none.

    With `is_explicit`, every source is built. Otherwise those of the locations `afresh` are, even if their files are
    the same.  `on_commit` is called with the names that are accepted as removed, in the step of the commit.
    """

    accepts: LossAcceptance = NOTHING
    is_explicit: bool = False
    afresh: Collection[str] = ()
    on_commit: Callable[[list[str]], None] = lambda removed: None


def make_first_plan(config_path: str, state: StateFile) -> ReloadPlan:
    """Return the plan that the first hooks need: limits and isolation of workers, and the events."""
    known = state.state
    last = ReloadPlan(
        main=FileConfig(os.path.abspath(config_path), overrides=known.overrides, settings=known.settings),
        temporary=scratch_root(os.path.dirname(state.path)),
    )
    seen = read_files(last.main.path, last.folder, list_known_files(last, known.manifests), ObservedFiles())
    digests = plan_reload(last, msgspec.structs.replace(seen, manifests=known.manifests), NOTHING)
    return ReloadPlan(
        main=digests.main,
        temporary=digests.temporary,
        catalogue=digests.catalogue,
        levels=digests.levels,
        workers=digests.workers,
    )


BY_ITSELF = ReloadRequest()


class UnsettledError(Exception):
    """The files may be half of a change, so nothing of it is taken yet."""


class Reloader:
    """The reloader, which keeps the global layer in step with the main file and the hooks.d directory beside it."""

    def __init__(
        self,
        first: ReloadPlan,
        sources: Sources,
        registries: Registries,
        state: StateFile,
        projects: ProjectRegistry,
        fleet: Fleet,
        *,
        on_declared: Callable[[str, str], None],
        on_reloaded: Callable[[ReloadAnswer], None],
        on_settings: Callable[[Settings], None],
    ) -> None:
        self.active = first
        self.diagnostics: list[Diagnostic] = []
        self.silent = UnreadEntries()
        self.reloads: Counter[str] = Counter()  # by their result
        self._sources = sources
        self._registries = registries
        self._state = state
        self._projects = projects
        self._fleet = fleet
        self._on_declared = on_declared
        self._on_reloaded = on_reloaded
        self._on_settings = on_settings
        self._lock = trio.Lock()
        self._seen = ObservedFiles()
        self._built = BuildResults()
        self._names: frozenset[str] = frozenset()  # of the hooks that files and packages declare
        self._by_file: dict[str, list[Hook]] = {}  # and the hooks themselves, by the file or plugin that declares them

    @property
    def dialects(self) -> dict[str, Dialect]:
        return self.active.dialects

    @property
    def settings(self) -> Settings:
        return self.active.main.settings

    @property
    def is_main_good(self) -> bool:
        """Return whether the settings are those that the main file has now."""
        return (
            bool(self.active.files) and self.active.files[0].config is not None and self.active.files[0].fault is None
        )

    @property
    def is_to_retry(self) -> bool:
        """Return whether a fault may end without a change of any file, or files were changed unseen."""
        is_behind = any(unit.is_behind for unit in self._sources.units.values())
        return self.active.is_to_retry or self._built.is_to_retry or is_behind

    def watched(self) -> Callable[[], list[str]]:
        """Return a function for a thread that finds every path whose change may matter."""
        active, faulty = self.active, [fault.file for fault in self._built.faults.values()]
        files = {active.main.path, active.folder, *self._known_files(), *active.wanted, *faulty}
        files.update(diagnostic.file for diagnostic in self.silent.red)
        for unit in self._sources.units.values():
            files.update(unit.stamps)
            files.update(unit.environment.marks if unit.environment is not None else ())
        roots = [project_hooks_folder(project) for project in self._projects.used()]
        if active.fleet is not None and active.fleet.root:
            roots.append(active.fleet.root)

        # Only what was copied above is used, since the loop may change the rest while the thread runs.
        def find() -> list[str]:
            paths = {*files, *list_hook_files(active.folder, list_directory(active.folder))}
            for root in roots:
                paths |= {root, *(stamp_tree(root) or ())}
            for file in faulty:
                paths.update(list_siblings(file))
            return sorted(path for path in paths if os.path.isabs(path))  # a module's name is not a path

        return find

    def _known_files(self) -> set[str]:
        return list_known_files(self.active, self._state.state.manifests)

    async def stamps(self) -> dict[str, Stamp]:
        """Return the present stamp of each watched path."""
        find = self.watched()
        return await self._sources.look(lambda: {path: stamp_path(path) for path in find()})

    async def reload(
        self, request: ReloadRequest = BY_ITSELF, *, anew: str | None = None, known: dict[str, Stamp] | None = None
    ) -> ReloadAnswer:
        """Load the sources that have changed, and those of the request. Return the result.

        The new versions of sources below the directory `anew` are not compared to the old ones.

        Raises:
            UnsettledError: the stamps are not the `known` ones any more, or there is a new loss or fault.
        """
        async with self._lock:
            if anew is not None:
                self._drop_below(anew)
            if request.is_explicit:
                self._sources.environments.renew()
            previous, before = self._registries.view.revision, self.diagnostics
            change = await self._reload(request, known=known)
            for diagnostic in self.diagnostics if request.is_explicit else set(self.diagnostics) - set(before):
                place = {"file": diagnostic.file, "line": diagnostic.line or None}
                logger.warning("%s", diagnostic.message, extra=place)
            self.reloads["faulty" if self.diagnostics else "good"] += 1
            revision = self._registries.view.revision
            if revision != previous:
                logger.info("reloaded", extra={"revision": revision})
            result = describe_reload(previous, revision, change, self.diagnostics, self.active.removed)
            if request.is_explicit or revision != previous or self.diagnostics != before:
                self._on_reloaded(result)
            return result

    def recall(self, state: SavedState) -> None:
        """Take the settings and overrides of an earlier state, for a main file without good ones."""
        main = msgspec.structs.replace(self.active.main, settings=state.settings, overrides=state.overrides)
        self.active = msgspec.structs.replace(self.active, main=main)

    @property
    def sources(self) -> Collection[str]:
        """Return the locations of all sources that a file or a hook uses, loaded or not."""
        return self._used() | self._sources.units.keys()

    def place_of(self, name: str) -> str | None:
        """Return the file or the plugin that declares a hook, by its id or its name, and a vanished one first."""
        paths = [path for path, hooks in self._by_file.items() for hook in hooks if name in (hook.id, hook.name)]
        return next((path for path in paths if path in self.active.vanished), paths[0] if paths else None)

    async def apply(self, candidate: BundleCandidate) -> ReloadAnswer:
        """Activate a bundle of the fleet, all of it as one revision.

        Raises:
            BundleError: the bundle has diagnostics. Nothing of it was taken, and the active version stays.
        """
        async with self._lock:
            previous = self._registries.view.revision
            change = await self._reload(candidate=candidate)
            revision = self._registries.view.revision
            result = describe_reload(previous, revision, change, self.diagnostics, [])
            self._on_reloaded(result)
            return result

    async def deny(self) -> None:
        """Deny every gate, or stop denying them, as the fleet says now.

        It does not wait for a reload under way, which commits the same later, with what it has built by then.
        """
        plan = msgspec.structs.replace(self.active, fleet=self._fleet.add_denial(self.active.fleet))
        layers = self._assemble_layers(plan, msgspec.structs.replace(self._built, fresh={}, too_weak=set()))
        self._registries.set_global(
            files=layers.shared, catalogue=plan.catalogue, projects=layers.projects,
            personalities=plan.main.personalities,
        )  # fmt: skip
        self.active, self._names = plan, layers.names
        self._fleet.record_active(plan.fleet)
        await self._registries.wait_announced()

    async def _reload(
        self,
        request: ReloadRequest = BY_ITSELF,
        *,
        known: dict[str, Stamp] | None = None,
        candidate: BundleCandidate | None = None,
    ) -> SnapshotDiff:
        accepts = request.accepts
        seen = await self.see(mends=request.is_explicit)
        if candidate is not None:
            seen = msgspec.structs.replace(seen, fleet=candidate.files)
        self._seen = seen
        plan = plan_reload(self.active, seen, accepts)
        now = await self.stamps() if known is not None else None
        if now != known or (known is not None and self._is_unsettled(plan.diagnostics, self._list_lost(plan))):
            raise UnsettledError
        first = plan.files[0]
        if self._state.fault is None or (first.config is not None and not first.is_absent):  # else they are unknown
            self._on_settings(plan.main.settings)
        known_state = self._state.state
        builder = SourceBuilder(
            self._sources, plan, self._targets(), known_state.manifests, known_state.builds, accepts=accepts,
            afresh=None if request.is_explicit else request.afresh,
        )  # fmt: skip
        built = await builder.build()
        try:
            folders = [project.folder for project in plan.projects]
            uses = UsedPaths.by(plan, self._units(built), built.faults, self._targets())
            # Projects last: what is written during the look at the other entries still counts.
            unguarding, trees = await self._sources.look(
                lambda: (find_unread_entries(uses), {folder: trust.stamp_project(folder) for folder in folders})
            )
            now = await self.stamps() if known is not None else None
        except BaseException:
            self._discard(built)
            raise
        if candidate is not None:
            await self._store_bundle(candidate, plan, built)
        # From here to the end of the commit there is no checkpoint: every fire sees all of it or nothing.
        state = self._state.state
        plan = msgspec.structs.replace(
            plan,
            removed=sorted({*plan.removed, *built.removed}),
            projects=[self._projects.verified(project, trees[project.folder]) for project in plan.projects],
            fleet=self._fleet.add_denial(verify_fleet_files(plan.fleet, self._units(built).values())),
        )
        layers = self._assemble_layers(plan, built)
        diagnostics = [*plan.diagnostics, *built.diagnostics, *layers.diagnostics, *unguarding.red]
        if now != known or (known is not None and self._is_unsettled(diagnostics, self._names - layers.names)):
            self._discard(built)
            raise UnsettledError
        change = self._commit(plan, built, layers, forgets=accepts.less)
        request.on_commit(plan.removed)
        for override in layers.attempts:
            if override not in state.overrides:
                self._fleet.record_attempt("override", override.id)
        self.diagnostics, self.silent = diagnostics, unguarding
        self._names, self._by_file = layers.names, layers.by_file
        before = (state.settings, state.overrides, state.manifests, state.builds, state.fleet, state.switches)
        state.switches = dict(self._registries.switches)
        self._fleet.record_active(plan.fleet)
        state.settings, state.overrides = plan.main.settings, plan.main.overrides
        # The present manifests, since a project may have been untrusted during the build.
        state.manifests = list_manifests(state.manifests, plan, layers, built.faults)
        units, used = self._sources.units, self._used()
        state.builds = {
            location: units[location].digests if location in units else state.builds[location]
            for location in sorted(used & (units.keys() | state.builds.keys()))
        }
        await self._registries.wait_announced()  # before the disk: it is active already
        if before != (state.settings, state.overrides, state.manifests, state.builds, state.fleet, state.switches):
            await self._state.store()
        return change

    async def _store_bundle(self, candidate: BundleCandidate, plan: ReloadPlan, built: BuildResults) -> None:
        """Store a bundle on the disk if it has no diagnostics. Otherwise nothing of this reload is taken."""
        plan = msgspec.structs.replace(plan, fleet=verify_fleet_files(candidate.files, self._units(built).values()))
        try:
            layers = self._assemble_layers(plan, built)
            if diagnostics := find_bundle_faults(candidate.files.root, built, layers.fleets):
                raise BundleError(diagnostics)
            with trio.CancelScope(shield=True):
                await candidate.keep()
        except BaseException:
            self._discard(built)
            raise

    def _discard(self, built: BuildResults) -> None:
        for unit in built.fresh.values():
            self._sources.discard(unit)

    def _list_lost(self, plan: ReloadPlan) -> list[str]:
        return [path for path, config in self.active.good.items() if has_lost(config, plan.good.get(path))]

    def _is_unsettled(self, diagnostics: list[Diagnostic], lost: Collection[str]) -> bool:
        return bool(lost) or not set(diagnostics) <= set(self.diagnostics)

    async def see(self, *, mends: bool = False) -> ObservedFiles:
        """Read all files in a thread, since the disk may be slow, and files long."""
        # A thread that mends files is not abandoned, or it would write after the next reload has begun.
        return await trio.to_thread.run_sync(self.look(mends=mends), abandon_on_cancel=not mends)

    def look(
        self,
        find_packages: Callable[[Mapping[str, PackageFolder]], Discovery] = discover_plugins,
        *,
        mends: bool = False,
    ) -> Callable[[], ObservedFiles]:
        """Return a function for a thread that reads every file once.

        With `mends`, files of the fleet's bundle that are not as they were signed are written anew.
        """
        active, known, before, remembered = self.active, self._known_files(), self._seen, self._state.state.manifests
        used = {folder: self._projects.trusted[folder] for folder in self._projects.used()}
        loaded, look_at_fleet = self._projects.active, self._fleet.look(active.fleet, mends=mends)

        def read_all() -> ObservedFiles:
            return msgspec.structs.replace(
                read_files(active.main.path, active.folder, known, before),
                packages=find_packages(before.packages.folders),
                manifests=remembered,
                projects=[read_project(folder, pins, loaded.get(folder)) for folder, pins in used.items()],
                fleet=look_at_fleet(),
            )

        return read_all

    def _assemble_layers(self, plan: ReloadPlan, built: BuildResults) -> BuiltLayers:
        ids = {hook.id: DeclarationSite("a client of the admin socket") for hook in self._registries.api_hooks}
        return assemble_layers(plan, self._units(built), built.faults, self._state.state.manifests, ids)

    def _units(self, built: BuildResults) -> dict[str, SourceBuild]:
        return {key: unit for key, unit in self._sources.units.items() if key not in built.too_weak} | built.fresh

    def _commit(self, plan: ReloadPlan, built: BuildResults, layers: BuiltLayers, *, forgets: bool) -> SnapshotDiff:
        for unit in built.fresh.values():
            self._sources.adopt(unit)
        for location in built.too_weak:
            self._sources.drop(location)
        self._registries.retarget(
            {location: partial(aim_at_build, unit) for location, unit in built.fresh.items()}
            | {location: partial(aim_at_nothing, str(built.faults[location])) for location in built.too_weak}
        )
        change = self._registries.set_global(
            files=layers.shared, catalogue=plan.catalogue, projects=layers.projects,
            personalities=plan.main.personalities, forgets=forgets,
        )  # fmt: skip
        before, self.active, self._built = self.active, plan, built
        self._projects.active = {project.folder: project for project in plan.projects}
        for path, digest in plan.digests.items():
            if before.digests.get(path) != digest:
                self._on_declared(path, digest)
        self._forget_unused()
        return change

    def _targets(self) -> list[PythonTarget]:
        """Return the Python targets of the hooks that clients registered. A stand-in has no source."""
        hooks = self._registries.api_and_own_hooks()
        targets = [hook.target for hook in hooks if isinstance(hook.target, PythonTarget)]
        return [target for target in targets if target.source.location]

    def _used(self) -> set[str]:
        return {*self.active.wanted, *(target.source.location for target in self._targets())}

    async def forget_unused(self) -> None:
        """End the sources that no hook uses any more. The last one may have been a client's hook."""
        async with self._lock:
            self._forget_unused()

    def _forget_unused(self) -> None:
        self._sources.forget(self._used())

    def _drop_below(self, folder: str) -> None:
        units = self._sources.units
        self._sources.forget({location for location in units if not location.startswith(f"{folder}/")})

    async def ensure(self, source: Source) -> SourceBuild:
        """Return the build of a source that a client names. Build it if there is none.

        Raises:
            UnitError: the source cannot be loaded.
        """
        async with self._lock:
            unit = await self._find_or_build(source)
            unit.requested_at = trio.current_time()
            return unit

    async def _find_or_build(self, source: Source) -> SourceBuild:
        location, units = source.location, self._sources.units
        unit = units.get(location)
        in_thread, is_used = self._sources.look, location in self._used()
        if unit is not None and is_used and not await in_thread(partial(is_untouched, unit)):
            await self._reload()  # the watch has not noticed the change yet
            if location in self._built.faults:
                raise UnitError(self._built.faults[location])
            # It may have changed again. Only another reload may take that, since it moves all hooks to the new build.
            if (unit := units.get(location)) is not None:
                return unit
        newer = await in_thread(unit.read_newer) if unit is not None else None
        if unit is not None and newer is None:
            return unit
        active = self.active
        version = await in_thread(lambda: prepare_version(newer or read_source_version(source), active))
        unit = await self._sources.build(version, active.limits_of(source))
        self._sources.adopt(unit)
        return unit

    def digests(self) -> dict[str, str]:
        """Return the sha256 of all files that declare hooks, and of those that each source was loaded from."""
        digests = dict(self.active.digests)
        for unit in self._sources.units.values():
            digests |= unit.digests
        return digests

    def digests_of(self, hook: Hook) -> dict[str, str]:
        """Return the sha256 of the files of a hook: of its declaration, and of its code."""
        unit = self._sources.units.get(hook.target.source.location) if isinstance(hook.target, PythonTarget) else None
        digests = dict(unit.digests) if unit is not None else {}
        if hook.origin is not None and hook.origin.file in self.active.digests:
            digests[hook.origin.file] = self.active.digests[hook.origin.file]
        return digests


def is_untouched(unit: SourceBuild) -> bool:
    return unit.is_untouched


def list_siblings(path: str) -> list[str]:
    folder = os.path.dirname(path)
    listing = list_directory(folder)
    names = listing.names if isinstance(listing, DirectoryNames) else []  # the directory itself is watched in any case
    return [os.path.join(folder, name) for name in names if name.endswith(".py")]


def describe_reload(
    previous: int, revision: int, change: SnapshotDiff, diagnostics: Iterable[Diagnostic], accepted: list[str]
) -> ReloadAnswer:
    """Return the answer of a reload; `accepted` are the files and plugins that had vanished, and are removed now."""
    return {
        "previous": previous, "revision": revision, "added": change.added, "removed": change.removed,
        "changed": change.changed, "diagnostics": [diagnostic.describe() for diagnostic in diagnostics],
        "accepted": accepted,
    }  # fmt: skip
