"""Builds the sources that hooks name, when their files change.  Knows configurations and units; reads no file of hooks.

A source whose new version fails keeps the last good one, unless that is isolated less than is now required.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
import trio

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.service.config.configuration import Diagnostic, FileConfig, place_of
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading.binding import with_way_out
from hooklatch.service.loading.plan import Plan, Wanted, too_weak
from hooklatch.service.loading.sources import Sources, Unit, UnitError
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Elsewhere, Source

__all__ = ["Built", "SourceBuilder", "aimed_at", "aimed_at_nothing"]

Functions: TypeAlias = set[tuple[str, str]]  # functions that hooks name, each with the location of its source
AT_ONCE = 4  # builds; each imports in its own worker


class Built(msgspec.Struct, frozen=True):
    """The results for the sources of one reload."""

    fresh: dict[str, Unit] = {}
    faults: dict[str, Diagnostic] = {}
    too_weak: set[str] = set()  # their active build must go, though there is no other
    diagnostics: list[Diagnostic] = []
    is_to_retry: bool = False  # a fault may go away by itself, without a change of any file


class SourceBuilder:
    """Builds the wanted sources that have changed."""

    def __init__(self, sources: Sources, registries: Registries, state: StateFile) -> None:
        self._sources = sources
        self._registries = registries
        self._state = state

    async def build(self, taken: Plan, *, is_explicit: bool) -> Built:
        """Build every source whose files changed, several at once; if that fails, the last good unit stays active."""
        asked, targets = Asked(taken.configs, taken.extra), self.targets()
        wanted = dict(taken.wanted)
        for target in targets:
            wanted.setdefault(target.source.location, (target.source, None))
        stale = {location: one for location, one in wanted.items() if not self._is_current(*one)}
        named = asked.functions | {(target.source.location, target.function) for target in targets}
        results = await self._build_all(stale, asked, named, taken.catalogue, is_explicit=is_explicit)
        fresh = {location: unit for location, unit in results.items() if isinstance(unit, Unit)}
        errors = {location: error for location, error in results.items() if isinstance(error, UnitError)}
        weak = {location for location in errors if self._is_too_weak(*wanted[location])}
        faults = {location: self._fault(location, errors[location], weak) for location in stale if location in errors}
        diagnostics: list[Diagnostic] = []
        for location in wanted:
            if location in faults:
                diagnostics.append(faults[location])
            elif location in fresh:
                diagnostics += asked.unused(fresh[location])
            else:
                unit = self._sources.units[location]
                diagnostics += [*asked.strays(unit), *asked.unused(unit)]
        return Built(fresh, faults, weak, diagnostics, any(error.is_passing for error in errors.values()))

    def _is_current(self, source: Source, workers: int | None) -> bool:
        """Return whether the active unit is what a build would produce; its pool takes the current limits."""
        unit = self._sources.units.get(source.location)
        limits = self._sources.limits_of(source, workers)
        if unit is None or not unit.is_current or unit.pool.limits.worker.isolation != limits.worker.isolation:
            return False
        unit.pool.limits = limits
        return True

    def _is_too_weak(self, source: Source, workers: int | None) -> bool:
        unit = self._sources.units.get(source.location)
        held = unit.pool.limits.worker.isolation if unit is not None else None
        return too_weak(held, self._sources.limits_of(source, workers).worker.isolation)

    def _fault(self, location: str, error: UnitError, weak: set[str]) -> Diagnostic:
        is_kept = location in self._sources.units and location not in weak
        kept = "; the last good version stays active" if is_kept else ""
        return Diagnostic(error.file, error.line, error.message + kept)

    async def _build_all(
        self, stale: Wanted, asked: Asked, named: Functions, catalogue: Catalogue, *, is_explicit: bool
    ) -> dict[str, Unit | UnitError]:
        results: dict[str, Unit | UnitError] = {}
        room = trio.CapacityLimiter(AT_ONCE)

        async def build(source: Source, workers: int | None) -> None:
            async with room:
                try:
                    unit = await self._prove(source, workers, named, is_explicit=is_explicit)
                    results[source.location] = unit
                    self._check(unit, catalogue, asked)
                except UnitError as error:
                    results[source.location] = error

        try:
            async with trio.open_nursery() as nursery:
                for one in stale.values():
                    nursery.start_soon(build, *one)
        except BaseException:  # the caller was cancelled, and nobody else will adopt these units
            for unit in results.values():
                if isinstance(unit, Unit):
                    self._sources.discard(unit)
            raise
        return results

    def _check(self, unit: Unit, catalogue: Catalogue, asked: Asked) -> None:
        """Refuse a build with a function that would never be called.

        Raises:
            UnitError: which one, and why.
        """
        for declared in unit.loaded.hooks:
            event = declared.marker.event
            if event not in catalogue:
                self._sources.discard(unit)
                text = f"{declared.function}: {unknown_event(catalogue, event)}"
                raise UnitError(text, unit.source.location, declared.line)
        for stray in asked.strays(unit):
            self._sources.discard(unit)
            raise UnitError(stray.message, stray.file, stray.line)

    async def _prove(self, source: Source, workers: int | None, named: Functions, *, is_explicit: bool) -> Unit:
        old = self._sources.units.get(source.location)
        unit = await self._sources.build(source, workers=workers)
        asked_for = {function for location, function in named if location == source.location}
        missing = asked_for - set(unit.loaded.functions)
        lost_all = self._held_hooks(source.location, old) and not unit.loaded.hooks
        fault = None
        if missing and old is not None:
            fault = f"the new version lacks {', '.join(sorted(missing))}, which hooks name"
        elif lost_all and not is_explicit:
            fault = "it held hooks and has none now; to accept that: hooklatch reload"
        if fault is not None:
            self._sources.discard(unit)
            raise UnitError(fault, source.location)
        return unit

    def _held_hooks(self, location: str, old: Unit | None) -> bool:
        """Return whether a source declared hooks when it was last good, also before the last start."""
        return bool(old.loaded.hooks if old is not None else self._state.state.manifests.get(location))

    def targets(self) -> list[PythonTarget]:
        """Return the Python targets that come from the API: admin clients' and sessions'."""
        hooks = self._registries.api_and_own_hooks()
        targets = [hook.target for hook in hooks if isinstance(hook.target, PythonTarget)]
        return [target for target in targets if target.source.location]  # a stand-in has no source

    def used(self) -> set[str]:
        return {target.source.location for target in self.targets()}


class Asked:
    """Which marked functions of which files are active hooks, by what the files of hooks declare."""

    def __init__(self, configs: Iterable[FileConfig], extra: Iterable[Source]) -> None:
        self._sources = {source.location for source in extra}
        self.functions: set[tuple[str, str]] = set()
        for config in configs:
            self._sources.update(entry.location for entry in config.sources)
            for hook in config.hooks:
                source, function = place_of(hook, os.path.dirname(config.path))
                self.functions.add((source.location, function))
        self._files = {real_path(location) for location in self._sources if os.path.isabs(location)}
        self._named = {location for location, _ in self.functions}

    def strays(self, unit: Unit) -> list[Diagnostic]:
        """Find marks that a source imports from other files, and that are not called there."""
        return [
            Diagnostic(
                mark.file, mark.line,
                f"{mark.function!r} is marked with @hook, but this file is not a source, so it would never be called"
                f" ({unit.source.location} imports it); add it as a [[source]], or remove the mark",
            )
            for mark in unit.loaded.elsewhere
            if not self._is_asked(mark)
        ]  # fmt: skip

    def unused(self, unit: Unit) -> list[Diagnostic]:
        """Find unused marks in a file whose functions hooks name, but which is not a source itself."""
        location = unit.source.location
        if location in self._sources or location not in self._named:
            return []
        return [
            Diagnostic(
                location, declared.line,
                f"{declared.function!r} is marked with @hook, but this file is only named by run, so nothing calls it;"
                " add it as a [[source]], or remove the mark",
            )
            for declared in unit.loaded.hooks
            if (location, declared.function) not in self.functions
        ]  # fmt: skip

    def _is_asked(self, mark: Elsewhere) -> bool:
        is_source = mark.module in self._sources or real_path(mark.file) in self._files
        return is_source or any((place, mark.function) in self.functions for place in (mark.file, mark.module))


def real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a name with a null byte
        return path


def aimed_at_nothing(problem: str, hook: Hook) -> Hook:
    return msgspec.structs.replace(hook, problem=with_way_out(problem, hook.name))


def aimed_at(unit: Unit, hook: Hook) -> Hook:
    target = hook.target
    assert isinstance(target, PythonTarget)
    aimed = msgspec.structs.replace(target, source=unit.source, build=unit.build)
    problem = None
    if target.function not in unit.loaded.functions:
        problem = with_way_out(f"{unit.source.location} has no function {target.function!r}", hook.name)
    return msgspec.structs.replace(hook, target=aimed, problem=problem)
