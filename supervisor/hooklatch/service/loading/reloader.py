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
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.processes.starting import scratch_root
from hooklatch.products import search_anew
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.config.path_lookup import Stamp, stamp_paths
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.settling import has_lost
from hooklatch.service.config.state_file import SavedState, StateFile
from hooklatch.service.loading.build import BuildResults, SourceBuilder, find_wanted_version, verify_fleet_files
from hooklatch.service.loading.bundle import BundleCandidate, BundleError, Fleet, find_bundle_faults
from hooklatch.service.loading.commit import ActiveHooks, HookCommit
from hooklatch.service.loading.plan import NOTHING, LossAcceptance, ReloadPlan, list_known_files, plan_reload
from hooklatch.service.loading.plugins import Discovery, PackageFolder, discover_plugins
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.see import FleetFiles, ObservedFiles, list_watched_paths, read_files, see
from hooklatch.service.loading.sources import SourceBuild, Sources, UnitError
from hooklatch.service.loading.trust import project_hooks_folder, stamp_project
from hooklatch.service.loading.unread import UsedPaths, find_unread_entries
from hooklatch.threads import in_thread
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
    """The reloader, which keeps the hooks in step with what declares them, one reload at a time."""

    def __init__(
        self,
        first: ReloadPlan,
        commit: HookCommit,
        sources: Sources,
        state: StateFile,
        projects: ProjectRegistry,
        fleet: Fleet,
        *,
        on_reloaded: Callable[[ReloadAnswer], None],
        on_settings: Callable[[Settings], None],
    ) -> None:
        self.active = ActiveHooks(first)
        self.reloads: Counter[str] = Counter()  # by their result
        self._commit = commit
        self._sources = sources
        self._state = state
        self._projects = projects
        self._fleet = fleet
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
        return self._commit.list_used(self.active.plan) | self._sources.units.keys()

    # -- what is watched ---------------------------------------------------------------------------------------------

    def watched(self) -> Callable[[], list[str]]:
        """Return a function for a thread that finds every path whose change may matter."""
        plan, faulty = self.active.plan, [fault.file for fault in self.active.built.faults.values()]
        files = {plan.main.path, plan.folder, *self._list_known_files(), *plan.wanted, *faulty}
        files.update(diagnostic.file for diagnostic in self.active.unread.red)
        for unit in self._sources.units.values():
            files.update(unit.stamps)
            files.update(unit.environment.marks if unit.environment is not None else ())
        roots = {*map(project_hooks_folder, self._projects.used()), *plan.pins}
        # Of values alone, since the loop may change the rest while the thread runs.
        return partial(list_watched_paths, files, plan.folder, roots, faulty)

    def _list_known_files(self) -> set[str]:
        return list_known_files(self.active.plan, self._state.state.manifests)

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
        layers = self._commit.bind(plan, msgspec.structs.replace(active.built, fresh={}, too_weak=set()))
        self._commit.activate(plan, layers)
        self.active = msgspec.structs.replace(active, plan=plan, layers=layers)
        await self._commit.finish(is_stored=False)

    def recall(self, state: SavedState) -> None:
        """Take the settings and overrides of an earlier state, for a main file without good ones."""
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
        # A file that was said to declare no hook takes none with it.
        previous, accepts = self._commit.revision, request.accepts.and_of(self.active.unread.bare)
        self._seen = seen = await self.see(mends=request.is_explicit)
        if candidate is not None:
            seen = msgspec.structs.replace(seen, fleet=candidate.join(seen.fleet))
        plan = plan_reload(self.active.plan, seen, accepts)
        if known is not None and (
            await self.stamps() != known or self._is_unsettled(plan.diagnostics, list_shrunk(self.active.plan, plan))
        ):
            raise UnsettledError
        first = plan.files[0]
        if self._state.fault is None or (first.config is not None and not first.is_absent):  # else they are unknown
            self._on_settings(plan.main.settings)
        built = await self._build(plan, request)
        try:
            uses = UsedPaths.by(plan, self._commit.list_units(built), built.faults, self._commit.list_targets())
            folders = [project.folder for project in plan.projects]
            # Projects last: what is written during the look at the other entries still counts.
            unread, trees = await self._sources.look(
                lambda: (
                    find_unread_entries(uses, {plan.folder: seen.listing}),
                    {folder: stamp_project(folder) for folder in folders},
                )
            )
            is_changed = known is not None and await self.stamps() != known
            if candidate is not None:
                await self._store_bundle(candidate, plan, built)
            # From here to the end of the commit there is no checkpoint: every fire sees all of it or nothing.
            plan = msgspec.structs.replace(
                plan,
                removed=sorted({*plan.removed, *built.removed}),
                projects=[self._projects.verified(project, trees[project.folder]) for project in plan.projects],
                fleet=self._fleet.add_denial(self._verify(plan.fleet, built)),
            )
            layers = self._commit.bind(plan, built)
            diagnostics = [*plan.diagnostics, *built.diagnostics, *layers.diagnostics, *unread.red]
            if known is not None and (
                is_changed or self._is_unsettled(diagnostics, self.active.layers.names - layers.names)
            ):
                raise UnsettledError
        except BaseException:
            self._commit.discard(built)
            raise
        now = ActiveHooks(plan, built, layers, diagnostics, unread)
        change, is_stored = self._commit.commit(self.active, now, forgets=accepts.less)
        self.active = now
        request.on_commit(plan.removed)
        await self._commit.finish(is_stored=is_stored)
        return {
            "previous": previous, "revision": self._commit.revision, "added": change.added, "removed": change.removed,
            "changed": change.changed, "diagnostics": [diagnostic.describe() for diagnostic in diagnostics],
            "accepted": plan.removed,  # the files and plugins that had vanished, and are removed now
        }  # fmt: skip

    def _is_unsettled(self, diagnostics: Collection[Diagnostic], lost: Collection[str]) -> bool:
        """Return whether something is lost, or newly wrong: the files may be half of a change."""
        return bool(lost) or not set(diagnostics) <= set(self.active.diagnostics)

    async def see(self, *, mends: bool = False) -> ObservedFiles:
        """Read all files in a thread, since the disk may be slow, and files long."""
        # A thread that mends files is not abandoned, or it would write after the next reload has begun.
        return await in_thread(self.look(mends=mends), abandon_on_cancel=not mends)

    def look(
        self,
        find_packages: Callable[[Mapping[str, PackageFolder]], Discovery] = discover_plugins,
        *,
        mends: bool = False,
    ) -> Callable[[], ObservedFiles]:
        """Return a function for a thread that reads every file once.

        With `mends`, no file of hooks is taken for unchanged by its stamp, since a write through a memory map shows in
        none, and files of the fleet's bundle that are not as they were signed are written anew.
        """
        plan, projects = self.active.plan, self._projects
        before = msgspec.structs.replace(self._seen, stamps={}) if mends else self._seen
        active, fleet = ({}, None) if mends else (projects.active, plan.fleet)
        return partial(
            see, plan.main.path, plan.folder, self._list_known_files(), before,
            manifests=self._state.state.manifests,
            projects=[(folder, projects.trusted[folder], active.get(folder)) for folder in projects.used()],
            look_at_fleet=self._fleet.look(fleet, mends=mends),
            find_packages=find_packages,
        )  # fmt: skip

    async def _build(self, plan: ReloadPlan, request: ReloadRequest) -> BuildResults:
        state = self._state.state
        builder = SourceBuilder(
            self._sources, plan, self._commit.list_targets(), state.manifests, state.builds, accepts=request.accepts,
            afresh=None if request.is_explicit else request.afresh,
        )  # fmt: skip
        return await builder.build()

    def _verify(self, fleet: FleetFiles | None, built: BuildResults) -> FleetFiles | None:
        return verify_fleet_files(fleet, self._commit.list_units(built).values())

    async def _store_bundle(self, candidate: BundleCandidate, plan: ReloadPlan, built: BuildResults) -> None:
        """Store a bundle on the disk if it has no diagnostics. Otherwise nothing of this reload is taken."""
        layers = self._commit.bind(msgspec.structs.replace(plan, fleet=self._verify(plan.fleet, built)), built)
        if diagnostics := find_bundle_faults(candidate.root, built, layers.fleets):
            raise BundleError(diagnostics)
        with trio.CancelScope(shield=True):
            await candidate.keep()

    # -- sources of clients ------------------------------------------------------------------------------------------

    async def forget_unused(self) -> None:
        """End the sources that no hook uses any more. The last one may have been a client's hook."""
        async with self._lock:
            self._sources.forget(self._commit.list_used(self.active.plan))

    async def ensure(self, source: Source) -> SourceBuild:
        """Return the build of a source that a client names. Build it if there is none.

        Raises:
            UnitError: the source cannot be loaded.
        """
        location, units = source.location, self._sources.units
        async with self._lock:
            unit = units.get(location)
            wanted = await self._sources.look(partial(find_wanted_version, source, unit, self.active.plan))
            if wanted is not None and unit is not None and location in self._commit.list_used(self.active.plan):
                await self._reload()  # the watch has not noticed the change yet, and only a reload moves all hooks
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
