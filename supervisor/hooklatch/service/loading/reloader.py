"""The reload of the files that declare hooks.  Knows directories and last good versions, and not times of changes.

    reload: read every file once and plan, in a thread ─▶ build what has changed ─▶ commit, as one revision ─▶ remember

    a bundle of the fleet: the same, with its files in place of the active ones; all of it is taken, or nothing
    the fleet's denial of every gate comes or goes: committed on the active plan, without a reload and its waits

`plan_reload` decides what a reload takes, in the thread that has read it: disks may be slow, and files long.  If a
source does not load, every Python file beside it is watched, since a change of any of them may fix it.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import trio

from hooklatch.core.hooks.registry import DeclarationSite, Hook, PythonTarget
from hooklatch.core.hooks.snapshots import SnapshotDiff
from hooklatch.path_lookup import Stamp, stamp_paths
from hooklatch.processes.starting import scratch_root
from hooklatch.products import search_anew
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_file import SavedState, StateFile
from hooklatch.service.loading.bind import BuiltLayers, assemble_layers
from hooklatch.service.loading.build import (
    BuildResults,
    SourceBuilder,
    WantedVersions,
    aim_at_build,
    aim_at_nothing,
    find_wanted_version,
    find_wanted_versions,
    is_below,
    verify_fleet_files,
)
from hooklatch.service.loading.commit import ActiveHooks, list_kept, list_manifests
from hooklatch.service.loading.plan import NOTHING, LossAcceptance, ReloadPlan, list_known_files, plan_reload
from hooklatch.service.loading.plugins import discover_plugins
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.see import ObservedFiles, list_watched_paths, read_files, see
from hooklatch.service.loading.settling import has_lost
from hooklatch.service.loading.sources import SourceBuild, Sources, UnitError
from hooklatch.service.loading.trust import project_hooks_folder, stamp_project
from hooklatch.service.loading.unread import UsedPaths, find_unread_entries
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Source

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReloadAnswer
    from hooklatch.dialects.dialect import Dialect
    from hooklatch.service.loading.bundle import BundleCandidate
    from hooklatch.service.loading.see import FleetFiles

__all__ = ["Fleet", "Reloader", "ReloadRequest", "UnsettledError", "make_first_plan", "of_projects"]

logger = logging.getLogger("hooklatch.files")


class Fleet(Protocol):
    """The fleet's active policies, and the receiver of attempts to weaken its hooks."""

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        """Return a function that reads the policies in a thread. It uses no state that may change during the read."""
        ...

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        """Return the files to make hooks of from now on: with or without the denial of every gate."""
        ...

    def record_active(self, files: FleetFiles | None) -> None:
        """Note the files of which hooks are made from now on."""
        ...

    def record_attempt(self, what: str, hook: str) -> None:
        """Record an attempt to weaken a hook of the fleet."""
        ...


class FirstLook(NamedTuple):
    """All that a reload reads at once, and the plan of it. `targets` are those of the hooks of clients by then.

    `stamps` are those of the watched paths after that, for a reload that compares them.
    """

    seen: ObservedFiles
    plan: ReloadPlan
    versions: WantedVersions
    targets: list[PythonTarget]
    stamps: dict[str, Stamp] | None


class ReloadRequest(msgspec.Struct, frozen=True):
    """The wishes of a caller of a reload. The watch has none.

    With `is_explicit`, every source is built. Otherwise those of the locations `afresh` are, even if their files are
    the same.  `on_commit` is called with the names that are accepted as removed, in the step of the commit.

    With `below`, only projects and the sources below these paths are read. A client has asked for that, and chooses the
    moment: a file of the operator's may be half of a change, which only the watch waits out.
    """

    accepts: LossAcceptance = NOTHING
    is_explicit: bool = False
    afresh: Collection[str] = ()
    below: Collection[str] | None = None
    on_commit: Callable[[list[str]], None] = lambda removed: None


def make_first_plan(config_path: str, state: StateFile) -> ReloadPlan:
    """Return the plan that the first hooks need: limits and isolation of workers, and the events."""
    known = state.state
    last = ReloadPlan(
        main=FileConfig(os.path.abspath(config_path), overrides=known.overrides, settings=known.settings),
        temporary=scratch_root(os.path.dirname(state.path)),
    )
    seen = read_files(last.main.path, last.folder, list_known_files(last, known.manifests), ObservedFiles())
    plan = plan_reload(last, msgspec.structs.replace(seen, manifests=known.manifests), NOTHING)
    return ReloadPlan(
        main=plan.main, temporary=plan.temporary, catalogue=plan.catalogue, levels=plan.levels, workers=plan.workers
    )


BY_ITSELF = ReloadRequest()


def of_projects(folders: Iterable[str]) -> ReloadRequest:
    """Return a request for the hooks of these projects alone."""
    return ReloadRequest(below=[*map(project_hooks_folder, folders)])


class UnsettledError(Exception):
    """The files may be half of a change, so nothing of it is taken yet."""


class Reloader:
    """The reloader, which keeps the hooks in step with what declares them, one reload at a time.

    It alone writes the hooks that files declare.  `on_declared` is told each new file and its digest.
    """

    find_packages = staticmethod(discover_plugins)

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
        self.active = ActiveHooks(first)
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

    @property
    def dialects(self) -> dict[str, Dialect]:
        return self.active.plan.dialects

    @property
    def is_to_retry(self) -> bool:
        """Return whether a fault may end without a change of any file, or files were changed unseen."""
        is_behind = any(unit.is_behind for unit in self._sources.units.values())
        return self.active.plan.is_to_retry or self.active.built.is_to_retry or is_behind

    @property
    def sources(self) -> Collection[str]:
        """Return the locations of all sources that a file or a hook uses, loaded or not."""
        return self._list_used(self.active.plan) | self._sources.units.keys()

    def _list_targets(self) -> list[PythonTarget]:
        """Return the Python targets of the hooks that clients registered. A stand-in has no source."""
        hooks = self._registries.api_and_own_hooks()
        targets = [hook.target for hook in hooks if isinstance(hook.target, PythonTarget)]
        return [target for target in targets if target.source.location]

    def _list_used(self, plan: ReloadPlan) -> set[str]:
        """Return the locations of the sources that a plan or a client's hook names."""
        return {*plan.wanted, *(target.source.location for target in self._list_targets())}

    # -- what is watched ---------------------------------------------------------------------------------------------

    def watched(self) -> Callable[[], list[str]]:
        """Return a function for a thread that finds every path whose change may matter."""
        plan, faulty = self.active.plan, [fault.file for fault in self.active.built.faults.values()]
        known = list_known_files(plan, self._state.state.manifests)
        files = {plan.main.path, plan.folder, *known, *plan.wanted, *faulty}
        files.update(diagnostic.file for diagnostic in self.active.unread.red)
        for unit in self._sources.units.values():
            files.update(unit.stamps)
            files.update(unit.environment.marks if unit.environment is not None else ())
        roots = {*map(project_hooks_folder, self._projects.used()), *plan.pins}
        # Of values alone, since the loop may change the rest while the thread runs.
        return partial(list_watched_paths, files, plan.folder, roots, faulty)

    async def stamps(self) -> dict[str, Stamp]:
        """Return the present stamp of each watched path."""
        find = self.watched()
        return await self._sources.look(lambda: stamp_paths(find()))

    # -- reloads -----------------------------------------------------------------------------------------------------

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
                units = self._sources.units
                self._sources.forget({location for location in units if not location.startswith(f"{anew}/")})
            if request.is_explicit:
                search_anew()
                self._sources.environments.renew()
            return await self._reload_and_tell(request, known=known)

    async def _reload_and_tell(
        self, request: ReloadRequest = BY_ITSELF, *, known: dict[str, Stamp] | None = None
    ) -> ReloadAnswer:
        before = self.active.diagnostics
        result = await self._reload(request, known=known)
        diagnostics = self.active.diagnostics
        for diagnostic in [found for found in diagnostics if request.is_explicit or found not in before]:
            place = {"file": diagnostic.file, "line": diagnostic.line or None}
            logger.warning("%s", diagnostic.message, extra=place)
        self.reloads["faulty" if diagnostics else "good"] += 1
        is_revised = result["revision"] != result["previous"]
        if is_revised:
            logger.info("reloaded", extra={"revision": result["revision"]})
        if request.is_explicit or is_revised or diagnostics != before:
            self._on_reloaded(result)
        return result

    async def apply(self, candidate: BundleCandidate) -> ReloadAnswer:
        """Activate a bundle of the fleet, all of it as one revision.

        Raises:
            BundleError: the bundle has diagnostics. Nothing of it was taken, and the active version stays.
        """
        async with self._lock:
            result = await self._reload(candidate=candidate)
            self._on_reloaded(result)
            return result

    async def deny(self) -> None:
        """Deny every gate, or stop denying them, as the fleet says now.

        It does not wait for a reload under way, which commits the same later, with what it has built by then.
        """
        active = self.active
        plan = msgspec.structs.replace(active.plan, fleet=self._fleet.add_denial(active.plan.fleet))
        layers = self._bind(plan, self._sources.units, active.built.faults)
        self._activate(plan, layers)
        self.active = msgspec.structs.replace(active, plan=plan, layers=layers)
        await self._registries.announcer.wait_announced()

    async def recall(self, state: SavedState) -> None:
        """Take the settings and overrides of an earlier state, for a main file without good ones."""
        async with self._lock:  # a reload under way would put the plan in place that it began with
            plan = self.active.plan
            main = msgspec.structs.replace(plan.main, settings=state.settings, overrides=state.overrides)
            self.active = msgspec.structs.replace(self.active, plan=msgspec.structs.replace(plan, main=main))

    async def _reload(
        self,
        request: ReloadRequest = BY_ITSELF,
        *,
        known: dict[str, Stamp] | None = None,
        candidate: BundleCandidate | None = None,
    ) -> ReloadAnswer:
        """See, plan, build, bind and commit."""
        previous = self._registries.view.revision
        accepts = request.accepts.and_of(self.active.unread.bare)  # what was said to declare no hook takes none with it
        watched = self.watched() if known is not None else None
        observe = self._prepare_look(request, accepts, candidate, watched)
        # A thread that mends files is not abandoned, or it would write after the next reload has begun.
        found = await self._sources.look(observe, abandon_on_cancel=not request.is_explicit)
        self._seen, plan, targets = found.seen, found.plan, found.targets
        if known is not None and (
            found.stamps != known or self._is_unsettled(plan.diagnostics, list_shrunk(self.active.plan, plan))
        ):
            raise UnsettledError
        first = plan.files[0]
        if self._state.fault is None or (first.config is not None and not first.is_absent):  # else they are unknown
            self._on_settings(plan.main.settings)  # before hooks are bound: a [fleet] that has just come denies in them
        state = self._state.state
        built = await SourceBuilder(
            self._sources, plan, found.versions, targets, state.manifests, state.builds, accepts=accepts
        ).build()
        units = self._list_units(built)
        try:
            uses = UsedPaths.by(plan, units, built.faults, targets)
            listings, folders = {plan.folder: self._seen.listing}, [project.folder for project in plan.projects]
            unread, trees, last_stamps = await self._sources.look(
                lambda: (
                    find_unread_entries(uses, listings),
                    # Projects after that: what is written during the look at the other entries still counts.
                    {folder: stamp_project(folder) for folder in folders},
                    stamp_paths(watched()) if watched is not None else None,
                )
            )
            if candidate is not None:
                await self._store_bundle(candidate, plan, units, built)
            # From here to the end of the commit there is no checkpoint: every fire sees all of it or nothing.
            plan = msgspec.structs.replace(
                plan,
                removed=sorted({*plan.removed, *built.removed}),
                projects=[self._projects.verified(project, trees[project.folder]) for project in plan.projects],
                fleet=self._fleet.add_denial(verify_fleet_files(plan.fleet, units.values())),
            )
            layers = self._bind(plan, units, built.faults)
            diagnostics = [*plan.diagnostics, *built.diagnostics, *layers.diagnostics, *unread.red]
            if known is not None and (
                last_stamps != known or self._is_unsettled(diagnostics, self.active.layers.names - layers.names)
            ):
                raise UnsettledError
        except BaseException:
            for unit in built.fresh.values():
                self._sources.discard(unit)
            raise
        kept = list_kept(state)
        change = self._commit(ActiveHooks(plan, built, layers, diagnostics, unread), forgets=accepts.less)
        is_kept = kept == list_kept(state)
        request.on_commit(plan.removed)
        # It is active already: this waits until subscribers know of it, and for the disk.
        await self._registries.announcer.wait_announced()
        if not is_kept:
            await self._state.store()
        return {
            "previous": previous, "revision": self._registries.view.revision,
            "added": change.added, "removed": change.removed, "changed": change.changed,
            "diagnostics": [diagnostic.describe() for diagnostic in diagnostics],
            "accepted": plan.removed,  # the files and plugins that had vanished, and are removed now
        }  # fmt: skip

    def _list_units(self, built: BuildResults) -> dict[str, SourceBuild]:
        """Return the builds that are active once these results are."""
        return {key: unit for key, unit in self._sources.units.items() if key not in built.too_weak} | built.fresh

    def _bind(
        self, plan: ReloadPlan, units: Mapping[str, SourceBuild], faults: Mapping[str, Diagnostic]
    ) -> BuiltLayers:
        """Make the hooks of all layers, with what this host remembers and clients have registered."""
        ids = {hook.id: DeclarationSite("a client of the admin socket") for hook in self._registries.api_hooks}
        return assemble_layers(plan, units, faults, self._state.state.manifests, ids)

    def _activate(self, plan: ReloadPlan, layers: BuiltLayers, *, forgets: bool = False) -> SnapshotDiff:
        """Change the hooks of all layers at once."""
        change = self._registries.set_global(
            declared=layers.shared, catalogue=plan.catalogue, projects=layers.projects,
            personalities=plan.main.personalities, forgets=forgets,
        )  # fmt: skip
        self._fleet.record_active(plan.fleet)
        return change

    def _commit(self, now: ActiveHooks, *, forgets: bool) -> SnapshotDiff:
        """Have every later fire use the new builds and hooks, and change the state to what they are."""
        before, plan, built, state = self.active, now.plan, now.built, self._state.state
        for unit in built.fresh.values():
            self._sources.adopt(unit)  # the old one retires in a task, which first runs after this step
        for location in built.too_weak:
            self._sources.drop(location)
        self._registries.retarget(
            {location: partial(aim_at_build, unit) for location, unit in built.fresh.items()}
            | {location: partial(aim_at_nothing, str(built.faults[location])) for location in built.too_weak}
        )
        change = self._activate(plan, now.layers, forgets=forgets)
        self._projects.active = {project.folder: project for project in plan.projects}
        for path, digest in plan.digests.items():
            if before.plan.digests.get(path) != digest:
                self._on_declared(path, digest)
        units, used = self._sources.units, self._list_used(plan)
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
        self.active = now
        return change

    def _is_unsettled(self, diagnostics: Collection[Diagnostic], lost: Collection[str]) -> bool:
        """Return whether something is lost, or newly wrong: the files may be half of a change."""
        return bool(lost) or not set(diagnostics) <= set(self.active.diagnostics)

    def _prepare_look(
        self,
        request: ReloadRequest,
        accepts: LossAcceptance,
        candidate: BundleCandidate | None,
        watched: Callable[[], list[str]] | None,
    ) -> Callable[[], FirstLook]:
        """Return a function for a thread that reads every file once, plans, and reads the sources that have changed.

        An explicit reload takes no file of hooks for unchanged by its stamp, since a write through a memory map shows
        in none, and writes anew files of the fleet's bundle that are not as they were signed.
        """
        # Of values alone, since the loop may change the rest while the thread runs.
        active, mends, projects, state = self.active.plan, request.is_explicit, self._projects, self._state.state
        loaded, fleet = ({}, None) if mends else (projects.active, active.fleet)
        see_all = partial(
            see, active.main.path, active.folder, list_known_files(active, state.manifests),
            msgspec.structs.replace(self._seen, stamps={}) if mends else self._seen,
            manifests=state.manifests,
            projects=[(folder, projects.trusted[folder], loaded.get(folder)) for folder in projects.used()],
            look_at_fleet=self._fleet.look(fleet, mends=mends),
            find_packages=self.find_packages,
        )  # fmt: skip
        units, targets = dict(self._sources.units), self._list_targets()
        afresh, last, kept = None if request.is_explicit else request.afresh, self._seen, set[str]()
        if (below := request.below) is not None:  # what is faulty is read again, or its fault would be forgotten
            whole = units.keys() - self.active.built.faults.keys()
            kept = {location for location in whole if not any(is_below(f"{location}/", path) for path in below)}

        def observe() -> FirstLook:
            seen = see_all()
            if below is not None:
                seen = msgspec.structs.replace(last, projects=seen.projects, fleet=seen.fleet, manifests=seen.manifests)
            joined = msgspec.structs.replace(seen, fleet=candidate.join(seen.fleet)) if candidate is not None else seen
            plan = plan_reload(active, joined, accepts)
            versions = find_wanted_versions(plan, targets, units, afresh, kept)
            return FirstLook(seen, plan, versions, targets, stamp_paths(watched()) if watched is not None else None)

        return observe

    async def _store_bundle(
        self, candidate: BundleCandidate, plan: ReloadPlan, units: Mapping[str, SourceBuild], built: BuildResults
    ) -> None:
        """Store a bundle on the disk if it has no diagnostics. Otherwise nothing of this reload is taken."""
        from hooklatch.service.loading.bundle import BundleError, find_bundle_faults  # only a fleet has any

        verified = msgspec.structs.replace(plan, fleet=verify_fleet_files(plan.fleet, units.values()))
        layers = self._bind(verified, units, built.faults)
        if diagnostics := find_bundle_faults(candidate.root, built, layers.fleets):
            raise BundleError(diagnostics)
        with trio.CancelScope(shield=True):
            await candidate.keep()

    # -- sources of clients ------------------------------------------------------------------------------------------

    async def forget_unused(self) -> None:
        """End the sources that no hook uses any more. The last one may have been a client's hook."""
        async with self._lock:
            self._sources.forget(self._list_used(self.active.plan))

    async def ensure(self, source: Source) -> SourceBuild:
        """Return the build of a source that a client names. Build it if there is none.

        Raises:
            UnitError: the source cannot be loaded.
        """
        location, units = source.location, self._sources.units
        async with self._lock:
            unit = units.get(location)
            wanted = await self._sources.look(partial(find_wanted_version, source, unit, self.active.plan))
            if wanted is not None and unit is not None and location in self._list_used(self.active.plan):
                # The watch has not noticed the change yet, and only a reload moves all hooks.
                await self._reload_and_tell(ReloadRequest(below=[location]))
                if location in self.active.built.faults:
                    raise UnitError(self.active.built.faults[location])
                # It may have changed again, which is for another reload.
                unit, wanted = units.get(location), None
            if unit is None and wanted is None:
                wanted = await self._sources.look(partial(find_wanted_version, source, None, self.active.plan))
            if isinstance(wanted, UnitError):
                raise wanted
            if wanted is not None:
                unit = await self._sources.build(wanted, self.active.plan.limits_of(source))
                self._sources.adopt(unit)
            assert unit is not None, "without a build there is a version to build"
            unit.requested_at = trio.current_time()
            return unit

    def digests(self) -> dict[str, str]:
        """Return the sha256 of all files that declare hooks, and of those that each source was loaded from."""
        digests = dict(self.active.plan.digests)
        for unit in self._sources.units.values():
            digests |= unit.digests
        return digests

    def digests_of(self, hook: Hook) -> dict[str, str]:
        """Return the sha256 of the files of a hook: of its declaration, and of its code."""
        unit = self._sources.units.get(hook.target.source.location) if isinstance(hook.target, PythonTarget) else None
        digests = dict(unit.digests) if unit is not None else {}
        if hook.origin is not None and hook.origin.file in self.active.plan.digests:
            digests[hook.origin.file] = self.active.plan.digests[hook.origin.file]
        return digests


def list_shrunk(before: ReloadPlan, now: ReloadPlan) -> list[str]:
    return [path for path, config in before.good.items() if has_lost(config, now.good.get(path))]
