"""The files that declare hooks, and their reload.  Knows directories and last good versions; not when they change.

    reload: read every file once, in a thread ─▶ plan ─▶ build what has changed ─▶ commit, as one revision ─▶ remember

    a bundle of the fleet: the same, with its files in place of those in force; all of it is taken, or nothing
    the fleet's denial of every gate comes or goes: committed on what is active, without a reload and its waits

What a reload takes is decided in `plan_reload`; this is the reading before it and the commit after it.  If a source
does not
load, every Python file beside it is watched, since a change of any of them may fix it.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec
import trio

from hooklatch.core.hooks.registry import DeclarationSite, Hook, PythonTarget
from hooklatch.core.hooks.snapshots import SnapshotDiff
from hooklatch.dialects.dialect import Dialect
from hooklatch.processes.scratch import scratch_root
from hooklatch.service.building.layer_builder import BuiltLayers, assemble_layers
from hooklatch.service.building.manifests import list_manifests
from hooklatch.service.building.pinning import prepare_version, verify_fleet_files
from hooklatch.service.building.source_builder import BuildResults, SourceBuilder, aim_at_build, aim_at_nothing
from hooklatch.service.building.sources import SourceBuild, Sources, UnitError, read_source_version
from hooklatch.service.building.unread import UnreadEntries, UsedPaths, find_unread_entries
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.config.path_lookup import DirectoryNames, Stamp, list_directory, stamp_path
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.settling import has_lost
from hooklatch.service.config.state_file import SavedState, StateFile
from hooklatch.service.loading.bundle import BundleCandidate, BundleError, Fleet, find_bundle_faults
from hooklatch.service.reading import trust
from hooklatch.service.reading.acceptance import NOTHING, LossAcceptance
from hooklatch.service.reading.declared_files import SeenFile, list_hook_files, read_files, read_project
from hooklatch.service.reading.plan import ObservedFiles, ReloadPlan, list_known_files, plan_reload
from hooklatch.service.reading.plugins import Discovery, discover_plugins
from hooklatch.service.reading.projects import ProjectRegistry
from hooklatch.service.reading.trust import project_hooks_folder, stamp_tree
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Source

__all__ = ["Reloader", "ReloadResult", "ReloadRequest", "UnsettledError", "make_first_plan"]

logger = logging.getLogger("hooklatch.files")


class ReloadResult(msgspec.Struct, frozen=True):
    """What a reload did."""

    previous: int
    revision: int
    added: list[str]
    removed: list[str]
    changed: list[str]
    diagnostics: list[Diagnostic]
    accepted: list[str] = []  # the files and plugins that had vanished, and are removed now


class ReloadRequest(msgspec.Struct, frozen=True):
    """What somebody asks of a reload; the watch asks for nothing.

    `is_explicit`: every source is built, and otherwise those of the locations `afresh`, whatever is known of their
    files.  `on_commit` hears what is accepted as removed, in the step that takes it.
    """

    accepts: LossAcceptance = NOTHING
    is_explicit: bool = False
    afresh: Collection[str] = ()
    on_commit: Callable[[list[str]], None] = lambda removed: None


def make_first_plan(config_path: str, state: StateFile) -> ReloadPlan:
    """Return what the first hooks need: how workers are limited and isolated, and which events there are."""
    known = state.state
    last = ReloadPlan(
        main=FileConfig(os.path.abspath(config_path), overrides=known.overrides, settings=known.settings),
        temporary=scratch_root(os.path.dirname(state.path)),
    )
    listing, files = read_files(last.main.path, last.folder, list_known_files(last, known.manifests), {})
    found = plan_reload(last, ObservedFiles(listing, files, Discovery({}, {}, set()), known.manifests), NOTHING)
    return ReloadPlan(
        main=found.main,
        temporary=found.temporary,
        catalogue=found.catalogue,
        levels=found.levels,
        workers=found.workers,
    )


BY_ITSELF = ReloadRequest()


class UnsettledError(Exception):
    """Files may be half of a change, so nothing of it is taken yet."""


class Reloader:
    """Keeps the global layer in step with the configuration file and the hooks.d directory beside it."""

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
        on_reloaded: Callable[[ReloadResult], None],
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
        self._read: Mapping[str, SeenFile] = {}  # the version of each file that was read last
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
        """Return whether a fault may go away by itself, without a change of any file, or files were changed unseen."""
        is_behind = any(unit.is_behind for unit in self._sources.units.values())
        return self.active.is_to_retry or self._built.is_to_retry or is_behind

    def watched(self) -> Callable[[], list[str]]:
        """Return how to find every path whose change may matter; it uses nothing that may change meanwhile."""
        active, faulty = self.active, [fault.file for fault in self._built.faults.values()]
        files = {active.main.path, active.folder, *self._known_files(), *active.wanted, *faulty}
        files.update(one.file for one in self.silent.red)
        for unit in self._sources.units.values():
            files.update(unit.stamps)
            files.update(unit.environment.marks if unit.environment is not None else ())
        roots = [project_hooks_folder(project) for project in self._projects.used()]
        if active.fleet is not None and active.fleet.root:
            roots.append(active.fleet.root)

        def find() -> list[str]:
            found = {*files, *list_hook_files(active.folder, list_directory(active.folder))}
            for root in roots:
                found |= {root, *(stamp_tree(root) or ())}
            for file in faulty:
                found.update(list_siblings(file))
            return sorted(path for path in found if os.path.isabs(path))  # a module's name is not a path

        return find

    def _known_files(self) -> set[str]:
        return list_known_files(self.active, self._state.state.manifests)

    async def stamps(self) -> dict[str, Stamp]:
        """Return what `stamp_path` says of each watched path now."""
        find = self.watched()
        return await self._sources.look(lambda: {path: stamp_path(path) for path in find()})

    async def reload(
        self, request: ReloadRequest = BY_ITSELF, *, anew: str | None = None, known: dict[str, Stamp] | None = None
    ) -> ReloadResult:
        """Load what has changed, and what is asked for; return the result.

        The new versions of sources below the directory `anew` are not compared to the old ones.

        Raises:
            UnsettledError: these are not the `known` stamps any more, or something is gone or wrong; nothing was taken.
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
            done = ReloadResult(
                previous, revision, change.added, change.removed, change.changed, self.diagnostics, self.active.removed
            )
            if request.is_explicit or revision != previous or self.diagnostics != before:
                self._on_reloaded(done)
            return done

    def recall(self, state: SavedState) -> None:
        """Take the settings and overrides of an earlier state, for a main file that has none that are good."""
        main = msgspec.structs.replace(self.active.main, settings=state.settings, overrides=state.overrides)
        self.active = msgspec.structs.replace(self.active, main=main)

    @property
    def sources(self) -> Collection[str]:
        """Return the locations of all sources that somebody uses, loaded or not."""
        return self._used() | self._sources.units.keys()

    def place_of(self, name: str) -> str | None:
        """Return the file or the plugin that declares a hook, by its id or its name; one that has vanished first."""
        found = [path for path, hooks in self._by_file.items() for hook in hooks if name in (hook.id, hook.name)]
        return next((path for path in found if path in self.active.vanished), found[0] if found else None)

    async def apply(self, candidate: BundleCandidate) -> ReloadResult:
        """Put a bundle of the fleet in force, all of it as one revision.

        Raises:
            BundleError: something is wrong in it; nothing was taken, and what was in force still is.
        """
        async with self._lock:
            previous = self._registries.view.revision
            change = await self._reload(candidate=candidate)
            revision = self._registries.view.revision
            done = ReloadResult(previous, revision, change.added, change.removed, change.changed, self.diagnostics)
            self._on_reloaded(done)
            return done

    async def deny(self) -> None:
        """Have every gate denied, or not any more, as the fleet says now.

        At once, whatever a reload waits for: that one commits the same later, of what it has built until then.
        """
        taken = msgspec.structs.replace(self.active, fleet=self._fleet.add_denial(self.active.fleet))
        layers = self._layers_of(taken, msgspec.structs.replace(self._built, fresh={}, too_weak=set()))
        self._registries.set_global(
            files=layers.shared, catalogue=taken.catalogue, projects=layers.projects,
            personalities=taken.main.personalities,
        )  # fmt: skip
        self.active, self._names = taken, layers.names
        self._fleet.record_active(taken.fleet)
        await self._registries.announced()

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
        self._read = seen.files
        taken = plan_reload(self.active, seen, accepts)
        now = await self.stamps() if known is not None else None
        if now != known or (known is not None and self._is_unsettled(taken.diagnostics, self._lost(taken))):
            raise UnsettledError
        first = taken.files[0]
        if self._state.fault is None or (first.config is not None and not first.is_absent):  # else nobody knows them
            self._on_settings(taken.main.settings)
        known_state = self._state.state
        builder = SourceBuilder(
            self._sources, taken, self._targets(), known_state.manifests, known_state.builds, accepts=accepts,
            afresh=None if request.is_explicit else request.afresh,
        )  # fmt: skip
        built = await builder.build()
        try:
            folders = [project.folder for project in taken.projects]
            trees = await self._sources.look(lambda: {folder: trust.stamp_project(folder) for folder in folders})
            uses = UsedPaths.by(taken, self._units(built), built.faults, self._targets())
            unguarding = await self._sources.look(partial(find_unread_entries, uses))
            now = await self.stamps() if known is not None else None
        except BaseException:
            self._discard(built)
            raise
        if candidate is not None:
            await self._keep(candidate, taken, built)
        # From here to the end of the commit there is no checkpoint: every fire sees all of it or nothing.
        state = self._state.state
        taken = msgspec.structs.replace(
            taken,
            removed=sorted({*taken.removed, *built.removed}),
            projects=[self._projects.verified(one, trees[one.folder]) for one in taken.projects],
            fleet=self._fleet.add_denial(verify_fleet_files(taken.fleet, self._units(built).values())),
        )
        layers = self._layers_of(taken, built)
        diagnostics = [*taken.diagnostics, *built.diagnostics, *layers.diagnostics, *unguarding.red]
        if now != known or (known is not None and self._is_unsettled(diagnostics, self._names - layers.names)):
            self._discard(built)
            raise UnsettledError
        change = self._commit(taken, built, layers, forgets=accepts.less)
        request.on_commit(taken.removed)
        for override in layers.attempts:
            if override not in state.overrides:
                self._fleet.record_attempt("override", override.id)
        self.diagnostics, self.silent = diagnostics, unguarding
        self._names, self._by_file = layers.names, layers.by_file
        before = (state.settings, state.overrides, state.manifests, state.builds, state.fleet, state.switches)
        state.switches = dict(self._registries.switches)
        self._fleet.record_active(taken.fleet)
        state.settings, state.overrides = taken.main.settings, taken.main.overrides
        # The manifests of now: a project may have been untrusted meanwhile.
        state.manifests = list_manifests(state.manifests, taken, layers, built.faults)
        units, used = self._sources.units, self._used()
        state.builds = {
            location: units[location].digests if location in units else state.builds[location]
            for location in sorted(used & (units.keys() | state.builds.keys()))
        }
        await self._registries.announced()  # it is active already, and nobody has to wait for a disk to hear of it
        if before != (state.settings, state.overrides, state.manifests, state.builds, state.fleet, state.switches):
            await self._state.store()
        return change

    async def _keep(self, candidate: BundleCandidate, taken: ReloadPlan, built: BuildResults) -> None:
        """Have a bundle kept on the disk if nothing is wrong in it; otherwise nothing of this reload is taken."""
        taken = msgspec.structs.replace(taken, fleet=verify_fleet_files(candidate.files, self._units(built).values()))
        try:
            if wrong := find_bundle_faults(candidate.files.root, built, self._layers_of(taken, built).fleets):
                raise BundleError(wrong)
            with trio.CancelScope(shield=True):
                await candidate.keep()
        except BaseException:
            self._discard(built)
            raise

    def _discard(self, built: BuildResults) -> None:
        for unit in built.fresh.values():
            self._sources.discard(unit)

    def _lost(self, taken: ReloadPlan) -> list[str]:
        return [path for path, config in self.active.good.items() if has_lost(config, taken.good.get(path))]

    def _is_unsettled(self, found: list[Diagnostic], lost: Collection[str]) -> bool:
        return bool(lost) or not set(found) <= set(self.diagnostics)

    async def see(self, *, mends: bool = False) -> ObservedFiles:
        """Read what is there, in a thread: the disk may be slow, and files long."""
        # One that writes what it mends is not left alone.
        return await trio.to_thread.run_sync(self.look(mends=mends), abandon_on_cancel=not mends)

    def look(
        self, find_packages: Callable[[], Discovery] = discover_plugins, *, mends: bool = False
    ) -> Callable[[], ObservedFiles]:
        """Return how to read every file once; it uses nothing that may change meanwhile.

        `mends`: files of the fleet's bundle that are not those that were signed are written anew.
        """
        active, known, remembered, before = self.active, self._known_files(), self._state.state.manifests, self._read
        used = {folder: self._projects.trusted[folder] for folder in self._projects.used()}
        loaded, look_at_fleet = self._projects.active, self._fleet.look(active.fleet, mends=mends)

        def read_all() -> ObservedFiles:
            listing, files = read_files(active.main.path, active.folder, known, before)
            projects = [read_project(folder, pins, loaded.get(folder)) for folder, pins in used.items()]
            return ObservedFiles(listing, files, find_packages(), remembered, projects, look_at_fleet())

        return read_all

    def _layers_of(self, taken: ReloadPlan, built: BuildResults) -> BuiltLayers:
        ids = {hook.id: DeclarationSite("a client of the admin socket") for hook in self._registries.api_hooks}
        return assemble_layers(taken, self._units(built), built.faults, self._state.state.manifests, ids)

    def _units(self, built: BuildResults) -> dict[str, SourceBuild]:
        return {key: unit for key, unit in self._sources.units.items() if key not in built.too_weak} | built.fresh

    def _commit(self, taken: ReloadPlan, built: BuildResults, layers: BuiltLayers, *, forgets: bool) -> SnapshotDiff:
        for unit in built.fresh.values():
            self._sources.adopt(unit)
        for location in built.too_weak:
            self._sources.drop(location)
        self._registries.retarget(
            {location: partial(aim_at_build, unit) for location, unit in built.fresh.items()}
            | {location: partial(aim_at_nothing, str(built.faults[location])) for location in built.too_weak}
        )
        change = self._registries.set_global(
            files=layers.shared, catalogue=taken.catalogue, projects=layers.projects,
            personalities=taken.main.personalities, forgets=forgets,
        )  # fmt: skip
        before, self.active, self._built = self.active, taken, built
        self._projects.active = {project.folder: project for project in taken.projects}
        for path, digest in taken.digests.items():
            if before.digests.get(path) != digest:
                self._on_declared(path, digest)
        self._forget_unused()
        return change

    def _targets(self) -> list[PythonTarget]:
        """Return the Python targets of the hooks that clients registered; a stand-in has no source."""
        hooks = self._registries.api_and_own_hooks()
        targets = [hook.target for hook in hooks if isinstance(hook.target, PythonTarget)]
        return [target for target in targets if target.source.location]

    def _used(self) -> set[str]:
        return {*self.active.wanted, *(target.source.location for target in self._targets())}

    async def forget_unused(self) -> None:
        """End what no hook uses any more; a client's hook may have been the last one that did."""
        async with self._lock:
            self._forget_unused()

    def _forget_unused(self) -> None:
        self._sources.forget(self._used())

    def _drop_below(self, folder: str) -> None:
        units = self._sources.units
        self._sources.forget({location for location in units if not location.startswith(f"{folder}/")})

    async def ensure(self, source: Source) -> SourceBuild:
        """Return the unit of a source that a client names, building it if there is none.

        Raises:
            UnitError: it cannot be loaded.
        """
        async with self._lock:
            unit = await self._ensured(source)
            unit.requested_at = trio.current_time()
            return unit

    async def _ensured(self, source: Source) -> SourceBuild:
        location, units = source.location, self._sources.units
        unit = units.get(location)
        in_thread, is_used = self._sources.look, location in self._used()
        if unit is not None and is_used and not await in_thread(partial(is_untouched, unit)):
            await self._reload()  # the watch has not noticed the change yet
            if location in self._built.faults:
                raise UnitError(self._built.faults[location])
            # It may have changed again: only another reload may take that, which moves all hooks on it.
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
        found = dict(self.active.digests)
        for unit in self._sources.units.values():
            found |= unit.digests
        return found

    def digests_of(self, hook: Hook) -> dict[str, str]:
        """Return the sha256 of the files of a hook: where it is declared, and what its code was loaded from."""
        unit = self._sources.units.get(hook.target.source.location) if isinstance(hook.target, PythonTarget) else None
        found = dict(unit.digests) if unit is not None else {}
        if hook.origin is not None and hook.origin.file in self.active.digests:
            found[hook.origin.file] = self.active.digests[hook.origin.file]
        return found


def is_untouched(unit: SourceBuild) -> bool:
    return unit.is_untouched


def list_siblings(path: str) -> list[str]:
    folder = os.path.dirname(path)
    listing = list_directory(folder)
    names = listing.names if isinstance(listing, DirectoryNames) else []  # the directory itself is watched in any case
    return [os.path.join(folder, name) for name in names if name.endswith(".py")]
