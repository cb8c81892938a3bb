"""The builder of the sources that hooks name, for when their files change.  Reads no file of hooks.

A source whose new version fails keeps the last good build, unless that is isolated less than is now required.  Of the
fleet's bundle and of projects only what was signed or trusted is built.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TypeAlias

import msgspec
import trio

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.disks import limit_look
from hooklatch.errors import describe_error
from hooklatch.path_lookup import PathFound, Stamp, look_up_path, stamp_paths
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.loading.bind import add_way_out
from hooklatch.service.loading.plan import REMOVAL, LossAcceptance, ReloadPlan, is_too_weak
from hooklatch.service.loading.see import BundleFiles, FleetFiles, Manifests, mark_tampered
from hooklatch.service.loading.sources import (
    SourceBuild,
    Sources,
    SourceVersion,
    UnitError,
    add_named_files,
    find_definition_target,
    read_source_version,
    source_lock_path,
)
from hooklatch.service.loading.trust import stamp_tree
from hooklatch_worker.wire import ForeignHook, Source

__all__ = [
    "BuildResults", "SourceBuilder", "WantedVersions", "aim_at_build", "aim_at_nothing", "find_wanted_version",
    "find_wanted_versions", "is_below", "prepare_version", "verify_fleet_files",
]  # fmt: skip

logger = logging.getLogger("hooklatch.sources")
AT_ONCE = 4  # builds; each imports in its own worker


class BuildResults(msgspec.Struct, frozen=True):
    """The results for the sources of one reload."""

    fresh: dict[str, SourceBuild] = {}
    faults: dict[str, Diagnostic] = {}
    too_weak: set[str] = set()  # the sources whose active build must retire, though there is no other
    diagnostics: list[Diagnostic] = []
    is_to_retry: bool = False  # a fault may end without a change of any file
    removed: list[str] = []  # vanished files of builds, whose removal the operator accepts


# The version of each source to build, or why there is none; None if its active build has it.
WantedVersions: TypeAlias = Mapping[Source, SourceVersion | UnitError | None]


class SourceBuilder:
    """The builder of the wanted versions of the sources of one plan.

    `targets` are those of hooks that clients registered.  `remembered` and `builds` are the hooks and the files of each
    source in the state file, for a source that has no build.
    """

    def __init__(
        self,
        sources: Sources,
        plan: ReloadPlan,
        versions: WantedVersions,
        targets: Collection[PythonTarget],
        remembered: Manifests,
        builds: Mapping[str, Mapping[str, str]],
        *,
        accepts: LossAcceptance,
    ) -> None:
        self._sources = sources
        self._plan = plan
        self._versions = versions
        self._manifests = remembered
        self._builds = builds
        self._accepts = accepts
        # The sources whose marked functions are hooks.
        self._marked = {plugin.module for plugin in plan.plugins.values() if plugin.fault is None}
        self._declared: set[tuple[str, str]] = set()  # functions that files name, by the location of their source
        for config in plan.configs:
            self._marked.update(table.source.location for table in config.sources)
            for hook in config.hooks:
                source, function = find_definition_target(hook, os.path.dirname(config.path))
                self._declared.add((source.location, function))
        self._named = self._declared | {(target.source.location, target.function) for target in targets}
        self._results: dict[str, SourceBuild | UnitError] = {}
        self._removed: list[str] = []

    async def build(self) -> BuildResults:
        """Build the wanted versions, several at once; if one fails, the last good build of its source stays active.

        The pools of the other sources take new limits.
        """
        room = trio.CapacityLimiter(AT_ONCE)
        try:
            async with trio.open_nursery() as nursery:
                for source, version in self._versions.items():
                    if isinstance(version, SourceVersion):
                        nursery.start_soon(self._build_version, version, room)
                    elif version is not None:
                        self._results[source.location] = version
                    else:
                        self._sources.units[source.location].pool.limits = self._plan.limits_of(source)
            return await self._collect_results()
        except BaseException:  # cancelled: no other task will adopt these builds, and their workers must end
            for unit in self._results.values():
                if isinstance(unit, SourceBuild):
                    self._sources.discard(unit)
            raise

    async def _collect_results(self) -> BuildResults:
        fresh = {location: unit for location, unit in self._results.items() if isinstance(unit, SourceBuild)}
        errors = {location: error for location, error in self._results.items() if isinstance(error, UnitError)}
        weak = {source.location for source in self._versions if source.location in errors and self._is_too_weak(source)}
        faults = {location: self._describe_fault(location, error, weak) for location, error in errors.items()}
        diagnostics: list[Diagnostic] = []
        for location in [source.location for source in self._versions]:
            if location in faults:
                diagnostics += [faults[location]] if location not in self._plan.vanished else []
            elif location in fresh:
                diagnostics += self._find_unused(fresh[location])
            else:
                unit = self._sources.units[location]
                diagnostics += [*await self._find_strays(unit), *self._find_unused(unit)]
        is_to_retry = any(error.is_passing for error in errors.values())
        return BuildResults(fresh, faults, weak, diagnostics, is_to_retry, self._removed)

    async def _build_version(self, version: SourceVersion, room: trio.CapacityLimiter) -> None:
        """Build a version.  An error is a fault of this source alone, so the others load."""
        location = version.source.location
        try:
            self._results[location] = await self._build(version, room)
        except Exception as error:
            self._results[location] = explain_failure(location, error)

    async def _build(self, version: SourceVersion, room: trio.CapacityLimiter) -> SourceBuild:
        """Build a version.

        Raises:
            UnitError: that fails, or the build must not replace the active one.
        """
        async with room:
            unit = await self._sources.build(version, self._plan.limits_of(version.source))
        try:
            if (fault := await self._find_fault(unit)) is not None:
                raise UnitError(fault)
        except BaseException:
            self._sources.discard(unit)
            raise
        if (old := self._sources.units.get(version.source.location)) is not None and unit.is_like(old):
            unit.build = old.build  # no hook has changed, so no snapshot has to, and the calls go to the new pool
        return unit

    async def _find_fault(self, unit: SourceBuild) -> Diagnostic | None:
        """Return why a build cannot replace the active one, or has a function that would never be called."""
        location, old = unit.source.location, self._sources.units.get(unit.source.location)
        missing = {function for named, function in self._named if named == location} - set(unit.loaded.functions)
        if missing and old is not None:
            return Diagnostic(location, 0, f"the new version lacks {', '.join(sorted(missing))}, which hooks name")
        # A file that is emptied by accident, or read while it is half written, must not remove guards.
        had_hooks = bool(old.loaded.hooks if old is not None else self._manifests.get(location))
        if had_hooks and not unit.loaded.hooks and not self._accepts.less:
            return Diagnostic(location, 0, "it had hooks and has none now; to accept that: hooklatch reload")
        removed = list[str]()  # those count only with this build
        lacked = list_lacked_files(old.digests if old is not None else self._builds.get(location, {}), unit.digests)
        for path in await self._sources.look(partial(list_vanished_files, lacked)) if lacked else ():
            if not self._accepts.takes(path):
                return Diagnostic(path, 0, f"it was a part of {location} and is gone; to accept that: {REMOVAL}")
            removed.append(path)
        for declared in unit.loaded.hooks:
            event = declared.marker.event
            if event not in self._plan.catalogue.specs:
                from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

                text = f"{declared.function}: {describe_undefined_event(self._plan.catalogue, event)}"
                return Diagnostic(location, declared.line, text)
        fault = next(iter(await self._find_strays(unit)), None)
        self._removed += removed if fault is None else []
        return fault

    def _is_too_weak(self, source: Source) -> bool:
        unit = self._sources.units.get(source.location)
        isolation = unit.pool.limits.worker.isolation if unit is not None else None
        return is_too_weak(isolation, self._plan.limits_of(source).worker.isolation)

    def _describe_fault(self, location: str, error: UnitError, weak: set[str]) -> Diagnostic:
        is_kept = location in self._sources.units and location not in weak
        note = "; the last good version stays active" if is_kept else ""
        copies = [copy for config in self._plan.configs for copy in config.copies if copy.root == location]
        fault = next((copy.fault for copy in copies if copy.fault is not None), error.diagnostic)
        return msgspec.structs.replace(fault, message=fault.message + note)

    async def _find_strays(self, unit: SourceBuild) -> list[Diagnostic]:
        """Find hooks that a source imports from files which are not sources, so that nothing calls them."""
        if not unit.loaded.elsewhere:
            return []
        paths = {*filter(os.path.isabs, self._marked), *(mark.file for mark in unit.loaded.elsewhere)}
        real = await self._sources.look(lambda: {path: find_source_path(path) for path in paths})
        return [
            Diagnostic(
                mark.file, mark.line,
                f"{mark.function!r} is marked with @hook, but this file is not a source, so it would never be called"
                f" ({unit.source.location} imports it); add it as a [[source]], or remove the mark",
            )
            for mark in unit.loaded.elsewhere
            if not self._is_called(mark, real)
        ]  # fmt: skip

    def _is_called(self, mark: ForeignHook, real: Mapping[str, str]) -> bool:
        marked = {real[location] for location in self._marked if location in real}
        is_source = mark.module in self._marked or real[mark.file] in marked
        return is_source or any((location, mark.function) in self._declared for location in (mark.file, mark.module))

    def _find_unused(self, unit: SourceBuild) -> list[Diagnostic]:
        """Find hooks that nothing calls: their file is not a source itself, and only named in the `run` of others."""
        location = unit.source.location
        if location in self._marked or all(declared != location for declared, _ in self._declared):
            return []
        return [
            Diagnostic(
                location, declared.line,
                f"{declared.function!r} is marked with @hook, but this file is only named by run, so nothing calls it;"
                " add it as a [[source]], or remove the mark",
            )
            for declared in unit.loaded.hooks
            if (location, declared.function) not in self._declared
        ]  # fmt: skip


def explain_failure(location: str, error: Exception) -> UnitError:
    """Return the fault of one source, so that the others load."""
    if isinstance(error, UnitError):
        return error
    if isinstance(error, OSError):
        return UnitError(Diagnostic(location, 0, describe_error(error)), is_passing=True)
    logger.error("a source cannot be looked at", exc_info=error, extra={"source": location})
    text = f"hooklatch failed with {type(error).__name__}: {error}; the log has the traceback, please report it"
    return UnitError(Diagnostic(location, 0, text))


def list_lacked_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the files of a build that the next build lacks, if no other file of it was edited.

    Without such a file an `except ImportError` may take its other branch, which its author has not meant.
    """
    is_edited = any(now.get(path, digest) != digest for path, digest in before.items())
    return [] if is_edited or not now.keys() <= before.keys() else [path for path in before if path not in now]


def list_vanished_files(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not isinstance(look_up_path(path), PathFound)]


def find_source_path(path: str) -> str:
    try:
        return limit_look(os.path.realpath)(path)
    except (ValueError, OSError):  # a name with a null byte; or its disk does not answer
        return path


def aim_at_nothing(problem: str, hook: Hook) -> Hook:
    return msgspec.structs.replace(hook, problem=add_way_out(problem, hook.name))


def aim_at_build(unit: SourceBuild, hook: Hook) -> Hook:
    target = hook.target
    assert isinstance(target, PythonTarget)
    aimed = msgspec.structs.replace(target, source=unit.source, build=unit.build)
    problem = None
    if target.function not in unit.loaded.functions:
        problem = add_way_out(f"{unit.source.location} has no function {target.function!r}", hook.name)
    return msgspec.structs.replace(hook, target=aimed, problem=problem)


def verify_fleet_files(fleet: FleetFiles | None, units: Iterable[SourceBuild]) -> FleetFiles | None:
    """Return the fleet's policies as they were read, each with a fault if its files, or those loaded, are others."""
    if fleet is None:
        return None
    loaded = [file for unit in units for file in unit.digests.items()]
    verified = tuple(verify_bundle_files(bundle, loaded) for bundle in fleet.bundles)
    return msgspec.structs.replace(fleet, bundles=verified)


def verify_bundle_files(bundle: BundleFiles, loaded: Iterable[tuple[str, str]]) -> BundleFiles:
    if bundle.fault is not None:
        return bundle
    if bundle.stamps != stamp_tree(bundle.root):
        return mark_tampered(bundle, "it has changed just now")
    pins = {os.path.join(bundle.root, name): digest for name, digest in bundle.pins.items()}
    if any(is_below(path, bundle.root) and pins.get(path) != digest for path, digest in loaded):
        return mark_tampered(bundle, "workers have loaded something else")
    return bundle


def prepare_version(version: SourceVersion, plan: ReloadPlan) -> SourceVersion:
    """Return a version with what files declare for its source: where it runs, and what its workers may import.

    Raises:
        UnitError: its requirements are wrong; or it is of the fleet's bundle, a project or a copy, and is not what
            was signed, trusted or fetched.
    """
    location = version.source.location
    if paths := plan.named.get(location):
        version = add_named_files(version, paths)
    version = msgspec.structs.replace(version, python=plan.pythons.get(location), may_make=location in plan.wanted)
    version = msgspec.structs.replace(version, required=version.find_requirements())
    for root, pins in plan.pins.items():
        if is_below(location, root):
            compare_pins(version, pins)
            version = msgspec.structs.replace(version, folder=root, pins=pins)
    if version.required is not None and plan.is_of_fleet(location):
        text = (
            "it requires packages, which no signature covers; remove its requirements: a fleet's hooks import from the"
            " daemon's environment"
        )
        raise UnitError(Diagnostic(location, 0, text))
    return version


def find_wanted_versions(
    plan: ReloadPlan,
    targets: Iterable[PythonTarget],
    units: Mapping[str, SourceBuild],
    afresh: Collection[str] | None,
    kept: Collection[str] = (),
) -> WantedVersions:
    """Return the wanted version of each source of a plan and of the hooks of clients, in a thread.

    The sources `afresh` (None: all) are built though their files are the same.  The builds of those `kept` stay.
    """
    sources = {target.source.location: target.source for target in targets if target.source.location not in plan.wanted}
    sources = {**plan.wanted, **sources}
    stamps = stamp_paths([path for location in sources if location in units for path in units[location].stamps])
    anew = sources.keys() if afresh is None else afresh
    return {
        source: None if at in kept else find_wanted_version(source, units.get(at), plan, stamps, is_afresh=at in anew)
        for at, source in sources.items()
    }


def find_wanted_version(
    source: Source,
    unit: SourceBuild | None,
    plan: ReloadPlan,
    stamps: Mapping[str, Stamp] | None = None,
    *,
    is_afresh: bool = False,
) -> SourceVersion | UnitError | None:
    """Return the version of a source to build, or why there is none; None if its build has it.

    `stamps` are those of the files of its build, if they were read just now.
    """
    try:
        newer = stamp = None
        if unit is not None and is_afresh:
            stamp = unit.read_stamps(stamps).get(source.location)
        elif unit is not None and (newer := unit.read_newer(stamps)) is None and is_in_place(unit, plan):
            return None
        return prepare_version(newer or read_source_version(source, stamp), plan)
    except Exception as error:
        return explain_failure(source.location, error)


def is_in_place(unit: SourceBuild, plan: ReloadPlan) -> bool:
    """Return whether a build has the interpreter, the data and the isolation that files declare for its source."""
    location = unit.source.location
    return (
        unit.python == plan.pythons.get(location)
        and unit.named == set(plan.named.get(location, ()))
        and unit.pool.limits.worker.isolation == plan.limits_of(unit.source).worker.isolation
    )


def compare_pins(version: SourceVersion, pins: Mapping[str, str]) -> None:
    """Compare the bytes that were read of a source and of its lock with their pins.

    Raises:
        UnitError: one of them is not what was signed, trusted or fetched.
    """
    location = version.source.location
    if pins.get(location) != version.source.digest:
        way = "to accept or restore it: hooklatch trust, or hooklatch sources update"
        raise UnitError(Diagnostic(location, 0, f"it has changed since it was signed, trusted or fetched; {way}"))
    if version.required is not None and version.required.lock:
        path = os.path.normpath(source_lock_path(version.required, location))
        if pins.get(path) != version.required.lock_digest:
            raise UnitError(Diagnostic(path, 0, f"it is not what was trusted with {location}"))


def is_below(path: str, root: str) -> bool:
    return path.startswith(f"{root}/")
