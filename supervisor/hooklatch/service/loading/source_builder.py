"""Builds the sources that hooks name, when their files change.  Knows configurations and proof; reads no file of hooks.

A source whose new version fails keeps the last good one, unless that is held to less than is required by now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.service.config.configuration import Diagnostic, FileConfig, place_of
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.config.isolation_levels import as_strong_as
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading.binding import with_way_out
from hooklatch.service.loading.sources import Sources, Unit, UnitError
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Elsewhere, Source

__all__ = ["Building", "aimed_at", "aimed_at_nothing"]


class Building:
    """What is wanted of sources, and what became of each."""

    def __init__(self, sources: Sources, registries: Registries, state: StateFile) -> None:
        self._sources = sources
        self._registries = registries
        self._state = state
        self.faults: dict[str, Diagnostic] = {}
        self.wanted: set[str] = set()
        self.is_to_retry = False  # a fault may go by itself, without a change of any file
        self.too_weak: set[str] = set()  # what is in force of them must go, though there is nothing else

    async def build(
        self,
        configs: Iterable[FileConfig],
        extra: Iterable[Source],
        catalogue: Catalogue,
        diagnostics: list[Diagnostic],
        *,
        is_explicit: bool,
    ) -> dict[str, Unit]:
        """Build every source whose files have changed; a failure leaves the last good unit in force."""
        wanted: dict[str, tuple[Source, int | None]] = {source.location: (source, None) for source in extra}
        for config in configs:
            for source, workers in sources_in(config):
                if source.location not in wanted or workers is not None:
                    wanted[source.location] = source, workers
        self.wanted = set(wanted)
        asked = Asked(configs, extra)
        for target in self.targets():
            wanted.setdefault(target.source.location, (target.source, None))
        faults: dict[str, Diagnostic] = {}
        fresh: dict[str, Unit] = {}
        self.too_weak = set()
        self.is_to_retry = False
        for location, (source, workers) in wanted.items():
            unit = self._sources.units.get(location)
            limits = self._sources.limits_of(source, workers)
            held = unit.pool.limits.worker.isolation if unit is not None else None
            isolation = limits.worker.isolation
            if unit is not None and unit.is_current and held == isolation:
                unit.pool.limits = limits
                diagnostics += [*asked.strays(unit), *asked.unused(unit)]
                continue
            try:
                unit_of_now = await self._prove(source, workers, unit, configs, is_explicit=is_explicit)
                fresh[location] = self._without_strays(self._known_events_only(unit_of_now, catalogue), asked)
                diagnostics += asked.unused(unit_of_now)
            except UnitError as error:
                if held is not None and isolation.is_required and not as_strong_as(held, isolation):
                    self.too_weak.add(location)
                is_kept = unit is not None and location not in self.too_weak
                kept = "; the last good version stays in force" if is_kept else ""
                faults[location] = Diagnostic(error.file, error.line, error.message + kept)
                diagnostics.append(faults[location])
                self.is_to_retry |= error.is_passing
            except BaseException:  # whoever asked for this is gone, and nobody will ever adopt them
                for built in fresh.values():
                    self._sources.discard(built)
                raise
        self.faults = faults
        return fresh

    def _known_events_only(self, unit: Unit, catalogue: Catalogue) -> Unit:
        for declared in unit.loaded.hooks:
            event = declared.marker.event
            if event not in catalogue:
                self._sources.discard(unit)
                text = f"{declared.function}: {unknown_event(catalogue, event)}"
                raise UnitError(text, unit.source.location, declared.line)
        return unit

    def _without_strays(self, unit: Unit, asked: Asked) -> Unit:
        for stray in asked.strays(unit):
            self._sources.discard(unit)
            raise UnitError(stray.message, stray.file, stray.line)
        return unit

    async def _prove(
        self, source: Source, workers: int | None, old: Unit | None, configs: Iterable[FileConfig], *, is_explicit: bool
    ) -> Unit:
        unit = await self._sources.build(source, workers=workers)
        missing = self._named_functions(source.location, configs) - set(unit.loaded.functions)
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
        """Return whether a source declared hooks when it was last good, be it before the last start."""
        return bool(old.loaded.hooks if old is not None else self._state.state.manifests.get(location))

    def _named_functions(self, location: str, configs: Iterable[FileConfig]) -> set[str]:
        names = {
            function
            for config in configs
            for hook in config.hooks
            for source, function in [place_of(hook, os.path.dirname(config.path))]
            if source.location == location
        }
        return names | {target.function for target in self.targets() if target.source.location == location}

    def targets(self) -> list[PythonTarget]:
        """The Python targets that come from the API: admin clients' and sessions'."""
        hooks = self._registries.api_and_own_hooks()
        targets = [hook.target for hook in hooks if isinstance(hook.target, PythonTarget)]
        return [target for target in targets if target.source.location]  # what stands in for another has no source

    def used(self) -> set[str]:
        return {target.source.location for target in self.targets()}


class Asked:
    """Which marks of which files are hooks in force, by what the files of hooks declare."""

    def __init__(self, configs: Iterable[FileConfig], extra: Iterable[Source]) -> None:
        self._sources = {source.location for source in extra}
        self._functions: set[tuple[str, str]] = set()
        for config in configs:
            self._sources.update(entry.location for entry in config.sources)
            for hook in config.hooks:
                source, function = place_of(hook, os.path.dirname(config.path))
                self._functions.add((source.location, function))
        self._files = {real_path(location) for location in self._sources if os.path.isabs(location)}
        self._named = {location for location, _ in self._functions}

    def strays(self, unit: Unit) -> list[Diagnostic]:
        """Find marks that a source met in other files, and that nobody asks there."""
        return [
            Diagnostic(
                mark.file, mark.line,
                f"{mark.function!r} is marked with @hook, but this file is no source, so it would never be asked"
                f" ({unit.source.location} imports it); add it as a [[source]], or take the mark away",
            )
            for mark in unit.loaded.elsewhere
            if not self._is_asked(mark)
        ]  # fmt: skip

    def unused(self, unit: Unit) -> list[Diagnostic]:
        """Find marks in a file of which hooks name functions, and which is no source itself."""
        location = unit.source.location
        if location in self._sources or location not in self._named:
            return []
        return [
            Diagnostic(
                location, declared.line,
                f"{declared.function!r} is marked with @hook, but this file is only named by run, so it is never asked;"
                " add it as a [[source]], or take the mark away",
            )
            for declared in unit.loaded.hooks
            if (location, declared.function) not in self._functions
        ]  # fmt: skip

    def _is_asked(self, mark: Elsewhere) -> bool:
        is_source = mark.module in self._sources or real_path(mark.file) in self._files
        return is_source or any((place, mark.function) in self._functions for place in (mark.file, mark.module))


def real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a name with a null byte
        return path


def sources_in(config: FileConfig) -> list[tuple[Source, int | None]]:
    folder = os.path.dirname(config.path)
    declared = [(Source(entry.kind, entry.location), entry.workers) for entry in config.sources]
    return declared + [(place_of(hook, folder)[0], None) for hook in config.hooks]


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
