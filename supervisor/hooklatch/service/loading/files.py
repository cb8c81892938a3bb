"""The files that declare hooks, their reload and their watch.  Knows folders and last good versions.

    hint (inotify) or 2 s ─▶ something's time or size differs ─▶ 100 ms without a further change ─▶ reload()

A reload is all or nothing for each file: a file with an error changes nothing that is in force.  It ends in one
revision.  A file that vanished, or lost all its hooks, is an error until somebody asks for a reload explicitly.  What
cannot be read, the listing of hooks.d too, is never taken for what is not there: see `looking`.
Of a source that does not load, every Python file beside it is watched: who knows which one will mend it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import msgspec
import trio

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import Difference, Hook, Layer, Origin
from hooklatch.dialects.dialect import Dialect
from hooklatch.processes.pool import LSP_SOURCE, PoolLimits
from hooklatch.processes.scratch import root_below
from hooklatch.service.config.configuration import (
    TABLES,
    ConfigError,
    Diagnostic,
    FileConfig,
    SourceEntry,
    read_config,
)
from hooklatch.service.config.custom_events import catalogue_of, dialects_of, unknown_event
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.isolation_levels import levels_of
from hooklatch.service.config.main_tables import MAIN_TABLES, MainTables
from hooklatch.service.config.path_lookup import Absent, Fault, Names, Stamp, is_passing, look, names_in, stamp
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.settings_files import ENDING, read_settings
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading.layer_builder import DeclaredFile, Layers, ProjectFiles, assemble, manifest_of
from hooklatch.service.loading.plugins import PLUGIN, Plugin, discover, in_force
from hooklatch.service.loading.projects import Projects
from hooklatch.service.loading.source_builder import Building, aimed_at, aimed_at_nothing
from hooklatch.service.loading.sources import Sources, Unit, UnitError
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Source

__all__ = ["Files", "Reloaded"]

logger = logging.getLogger("hooklatch.files")
ENDINGS = (".toml", ".py", ENDING)  # of what hooks.d may hold
STAT_INTERVAL = 2.0  # seconds; a watcher is only a hint (a folder that is made anew is not seen by it)
SETTLE = 0.1  # seconds without a change before a file is taken: editors write in several steps


class Reloaded(msgspec.Struct, frozen=True):
    """What a reload did."""

    previous: int
    revision: int
    added: list[str]
    removed: list[str]
    changed: list[str]
    diagnostics: list[Diagnostic]


class Files:
    """Keeps the global layer in step with the configuration file and the hooks.d folder beside it."""

    def __init__(
        self,
        config_path: str,
        sources: Sources,
        registries: Registries,
        state: StateFile,
        projects: Projects,
        *,
        on_declared: Callable[[str, str], None],
        on_settings: Callable[[Settings], None],
    ) -> None:
        self.config_path = os.path.abspath(config_path)
        self.folder = os.path.join(os.path.dirname(self.config_path), "hooks.d")
        self.diagnostics: list[Diagnostic] = []
        self.dialects: dict[str, Dialect] = {}
        self.hint = trio.Event()
        self._sources = sources
        self._registries = registries
        self._state = state
        self._projects = projects
        self.plugins: dict[str, Plugin] = {}
        self.settings = state.state.settings
        self._on_declared = on_declared
        self._on_settings = on_settings
        self.reloads: Counter[str] = Counter()  # by what came of them
        self._lock = trio.Lock()
        self._good: dict[str, FileConfig] = {}  # what is in force; the listing of hooks.d is one of these
        self._packages: set[str] = set()  # the folders whose plugins were known at the last reload
        self._is_to_store = False
        self._is_to_retry = False  # what is wrong may go by itself, without a change of any file
        self.declared_digests: dict[str, str] = {}  # of every file that is in force
        self._building = Building(sources, registries, state)

    @property
    def watched(self) -> list[str]:
        """Every path whose change may matter."""
        listing = names_in(self.folder)
        listed = self._paths_of(listing) if isinstance(listing, Names) else []
        files = {self.config_path, self.folder, *listed, *self._known(), *self._building.wanted}
        files.update(self._projects.watched)
        for unit in self._sources.units.values():
            files.update(unit.files)
        for fault in self._building.faults.values():
            files.update((fault.file, *siblings_of(fault.file)))
        return sorted(path for path in files if os.path.isabs(path))  # a module's name is no path

    async def watch(self) -> None:
        """Reload whenever a watched file changes."""
        seen: dict[str, Stamp] = {}  # so that the first look takes what changed during the start
        while True:
            with trio.move_on_after(STAT_INTERVAL):
                await self.hint.wait()
            self.hint = trio.Event()
            async with self._lock:
                self._sources.forget(self._building.wanted | self._building.used())
            now = self._stamps()
            if now == seen and not self._is_to_retry:
                continue
            while True:
                await trio.sleep(SETTLE)
                again = self._stamps()
                if again == now:
                    break
                now = again
            seen = now
            await self.reload()

    def _stamps(self) -> dict[str, Stamp]:
        return {path: stamp(path) for path in self.watched}

    def _paths_of(self, listing: Names) -> list[str]:
        return [os.path.join(self.folder, name) for name in listing.names if name.endswith(ENDINGS) and name[0] != "."]

    def _known(self) -> set[str]:
        """Return the files of hooks.d that are in force, or were before the last start."""
        known = {*self._good, *self._state.state.manifests}
        return {path for path in known if os.path.dirname(path) == self.folder}

    async def reload(self, *, is_explicit: bool = False) -> Reloaded:
        """Take what has changed; give what came of it.  `is_explicit` also takes files that are gone or empty."""
        async with self._lock:
            previous, before = self._registries.view.revision, self.diagnostics
            change = await self._reload(is_explicit=is_explicit)
            for diagnostic in self.diagnostics if is_explicit else set(self.diagnostics) - set(before):
                place = {"file": diagnostic.file, "line": diagnostic.line or None}
                logger.warning("%s", diagnostic.message, extra=place)
            self.reloads["faulty" if self.diagnostics else "good"] += 1
            revision = self._registries.view.revision
            if revision != previous:
                logger.info("reloaded", extra={"revision": revision})
            return Reloaded(previous, revision, change.added, change.removed, change.changed, self.diagnostics)

    def prepare(self) -> None:
        """Take what the first hooks need: how workers are limited and isolated, and which events there are."""
        declared = self._read_all([], is_explicit=False)
        self._registries.catalogue = catalogue_of(configs_of(declared), [])
        config = declared[0].config
        self._limit(config)
        self._take_levels(configs_of(declared), config.main if config else MainTables())

    async def _reload(self, *, is_explicit: bool) -> Difference:
        diagnostics: list[Diagnostic] = []
        self._is_to_retry = False
        declared = self._read_all(diagnostics, is_explicit=is_explicit)
        catalogue = catalogue_of(configs_of(declared), [])
        declared = [self._checked(file, catalogue, diagnostics) for file in declared]
        good = {file.path: file.config for file in declared if file.config is not None}
        self._take_settings(good.get(self.config_path))
        catalogue = catalogue_of(good.values(), diagnostics)
        self.dialects = dialects_of(good.values(), catalogue, diagnostics)
        main = MainTables(overrides=self._state.state.overrides)  # what is not known must at least not be undone
        main = good[self.config_path].main if self.config_path in good else main
        packages = discover()
        remembered = self._remembered_plugins()
        plugins = in_force(self.plugins, remembered, packages, diagnostics, is_explicit=is_explicit)
        self._is_to_retry |= any(fault.is_passing for fault in packages.faults.values())
        projects = self._read_projects(catalogue)
        configs = [*good.values(), *(config for project in projects for config in project.configs)]
        extra = [plugin.source for plugin in plugins if plugin.fault is None]
        if main.lsp is not None:
            extra.append(LSP_SOURCE)
        self._take_levels(configs, main)
        fresh = await self._building.build(configs, extra, catalogue, diagnostics, is_explicit=is_explicit)
        # From here to the end there is no checkpoint: every fire sees all of it or nothing.
        taken = {hook.id: Origin("a client of the admin socket") for hook in self._registries.api_hooks}
        units = {key: unit for key, unit in self._sources.units.items() if key not in self._building.too_weak} | fresh
        layers = assemble(
            config_path=self.config_path, main=main, plugins=plugins, files=declared,
            unreadable=packages.unread(self._packages),
            projects=[self._projects.verified(project) for project in projects],
            catalogue=catalogue, units=units, faults=self._building.faults,
            manifests=self._state.state.manifests, taken=taken,
        )  # fmt: skip
        for unit in fresh.values():
            self._sources.adopt(unit)
        for location in self._building.too_weak:
            self._sources.drop(location)
        gone = {location: str(self._building.faults[location]) for location in self._building.too_weak}
        self._registries.retarget(
            {location: partial(aimed_at, unit) for location, unit in fresh.items()}
            | {location: partial(aimed_at_nothing, problem) for location, problem in gone.items()}
        )
        change = self._registries.set_global(
            files=layers.shared, catalogue=catalogue, projects=layers.projects, personalities=main.personalities
        )
        self._projects.taken()
        self._good = {file.path: file.config for file in declared if file.config and not file.is_accepted_absence}
        self._packages = packages.known(self._packages)
        self._is_to_retry |= self._building.is_to_retry
        before = self.declared_digests
        self.declared_digests = {config.path: config.digest for config in configs if config.digest}
        for path, digest in self.declared_digests.items():
            if before.get(path) != digest:
                self._on_declared(path, digest)
        self.plugins = {plugin.name: plugin for plugin in plugins}
        self._sources.forget(self._building.wanted | self._building.used())
        self.diagnostics = [*diagnostics, *layers.diagnostics]
        absent = {file.path for file in declared if file.is_accepted_absence}
        self._remember(layers, absent, forgets_plugins=is_explicit and not packages.faults)
        if self._is_to_store:
            self._is_to_store = False
            await self._state.store()
        await self._registries.announced()
        return change

    def _remembered_plugins(self) -> set[str]:
        keys = (key.partition(PLUGIN) for key in self._state.state.manifests)
        return {name for before, found, name in keys if found and not before}

    def _read_projects(self, catalogue: Catalogue) -> list[ProjectFiles]:
        return [
            msgspec.structs.replace(project, files=[self._checked(file, catalogue, []) for file in project.files])
            for project in self._projects.read()
        ]

    def drop_below(self, folder: str) -> None:
        """Let go of the sources below a folder, so that what is there now needs not stand up to what was."""
        units = self._sources.units
        self._sources.forget({location for location in units if not location.startswith(f"{folder}/")})

    def _read_all(self, diagnostics: list[Diagnostic], *, is_explicit: bool) -> list[DeclaredFile]:
        """Read the files in their order, the main one first; before those of hooks.d stands the folder itself.

        One that was there and is gone keeps its place until an explicit reload.
        """
        folder, listed = self._read_folder(diagnostics, is_explicit=is_explicit)
        paths = set(listed)
        if folder.fault is not None or not is_explicit:
            paths |= self._known()
        files = [self._read(path, diagnostics, is_explicit=is_explicit) for path in sorted(paths)]
        return [self._read(self.config_path, diagnostics, is_explicit=is_explicit), folder, *files]

    def _is_ours(self, path: str) -> bool:
        return path in (self.config_path, self.folder) or os.path.dirname(path) == self.folder

    def _read_folder(self, diagnostics: list[Diagnostic], *, is_explicit: bool) -> tuple[DeclaredFile, list[str]]:
        """List hooks.d; without a listing nobody knows what it holds now, but what was in force stays."""
        listing = names_in(self.folder)
        match listing:
            case Names():
                diagnostics += [misnamed(self.folder, name) for name in listing.names if is_misnamed(name)]
                return DeclaredFile(self.folder, FileConfig(self.folder)), self._paths_of(listing)
            case Absent():
                return self._absent(self.folder, diagnostics, is_explicit=is_explicit), []
            case Fault():
                return self._faulty(listing, Diagnostic(self.folder, 0, listing.reason), diagnostics), []

    def _read(self, path: str, diagnostics: list[Diagnostic], *, is_explicit: bool) -> DeclaredFile:
        if not is_text(path):
            path = os.fsencode(path).decode("utf-8", "backslashreplace")
            diagnostics.append(Diagnostic(path, 0, "its name is not UTF-8; rename it"))
            return DeclaredFile(path, None, str(diagnostics[-1]))
        seen = look(path)
        match seen:
            case Absent():
                return self._absent(path, diagnostics, is_explicit=is_explicit)
            case Fault():
                return self._faulty(seen, Diagnostic(path, 0, seen.reason), diagnostics)
            case _:
                return self._read_found(path, diagnostics, is_explicit=is_explicit)

    def _absent(self, path: str, diagnostics: list[Diagnostic], *, is_explicit: bool) -> DeclaredFile:
        """Take that something is not there: at once if it never was in force, else by an explicit reload."""
        known = self._good.get(path)
        if is_explicit or (known is None and path not in self._state.state.manifests):
            return DeclaredFile(path, FileConfig(path), is_absent=True)
        fault = Diagnostic(path, 0, "it was in force and is gone; to accept that: hooklatch reload")
        diagnostics.append(fault)
        return DeclaredFile(path, known, str(fault), is_absent=True)

    def _faulty(self, fault: Fault, diagnostic: Diagnostic, diagnostics: list[Diagnostic]) -> DeclaredFile:
        self._is_to_retry |= fault.is_passing
        diagnostics.append(diagnostic)
        return DeclaredFile(diagnostic.file, self._good.get(diagnostic.file), str(diagnostic))

    def _read_found(self, path: str, diagnostics: list[Diagnostic], *, is_explicit: bool) -> DeclaredFile:
        known = self._good.get(path)
        held_hooks = bool(known and (known.hooks or known.sources)) or bool(self._state.state.manifests.get(path))
        try:
            config = parse(path, (*TABLES, *MAIN_TABLES) if path == self.config_path else TABLES)
            fault = missing(config) if held_hooks and not is_explicit else None
            if fault is None:
                return DeclaredFile(path, config)
        except ConfigError as error:
            fault = error.diagnostic
        except (UnsafeFileError, OSError) as error:
            fault = Diagnostic(path, 0, str(error))
            self._is_to_retry |= is_passing(error)
        diagnostics.append(fault)
        return DeclaredFile(path, known, str(fault))

    def _take_settings(self, config: FileConfig | None) -> None:
        """Put in force how the daemon runs; without a sound main file, that stays as it last was."""
        self._limit(config)
        self._on_settings(self.settings)
        state = self._state.state
        if config is not None and (state.settings, state.overrides) != (self.settings, config.main.overrides):
            state.settings, state.overrides = self.settings, config.main.overrides
            self._is_to_store = True

    def _limit(self, config: FileConfig | None) -> None:
        if config is not None:
            self.settings = config.main.settings
        limits = (config.limits if config is not None else None) or PoolLimits()
        folder = root_below(os.path.dirname(self._state.path))
        isolation = msgspec.structs.replace(self.settings.isolation, temporary=folder)
        worker = msgspec.structs.replace(limits.worker, isolation=isolation)
        self._sources.limits = msgspec.structs.replace(limits, worker=worker)

    def _take_levels(self, configs: Iterable[FileConfig], main: MainTables) -> None:
        default = self.settings.isolation.level
        self._sources.levels = levels_of(configs, self._is_ours, default, main.lsp_isolation)

    def _checked(self, file: DeclaredFile, catalogue: Catalogue, diagnostics: list[Diagnostic]) -> DeclaredFile:
        """Refuse a file that names an event which nobody defines: what it guards is not known."""
        config = file.config
        for hook in config.hooks if config is not None and file.fault is None else ():
            if hook.event not in catalogue:
                fault = Diagnostic(file.path, hook.line, f"hook {hook.id!r}: {unknown_event(catalogue, hook.event)}")
                diagnostics.append(fault)
                return DeclaredFile(file.path, self._good.get(file.path), str(fault))
        return file

    def _remember(self, layers: Layers, absent: set[str], *, forgets_plugins: bool) -> None:
        """Keep the manifest of every file that is good now, also of one without hooks; forget what is rightly gone."""
        state = self._state.state
        manifests = {path: hooks for path, hooks in state.manifests.items() if self._belongs_elsewhere(path)}
        in_force = {path for path in self._good.keys() | state.manifests.keys() if self._is_ours(path)} - absent
        for path, hooks in layers.by_file.items():
            is_sound = all(hook.problem is None for hook in hooks)
            kept = None if is_sound else state.manifests.get(path)
            if not kept:  # what stands for a part of a good file is better remembered than nothing
                kept = manifest_of(hooks) if is_sound or path in in_force else []
            if kept or path in in_force:
                manifests[path] = kept
        for location, unit in self._sources.units.items():
            found = [hook for hook in layers.hooks if declared_in(hook, location)]
            if found and unit.loaded.hooks:
                manifests[location] = manifest_of(found)
        manifests |= {path: kept for path, kept in state.manifests.items() if path in self._building.faults}
        for name in self._remembered_plugins() - set(self.plugins) if forgets_plugins else ():
            manifests.pop(PLUGIN + name, None)
        if manifests != state.manifests:
            state.manifests = manifests
            self._is_to_store = True

    def _belongs_elsewhere(self, path: str) -> bool:
        # Another configuration of the same user may share this state.
        return not self._is_ours(path) and path not in self._building.wanted

    async def ensure(self, source: Source) -> Unit:
        """Return the unit of a source that a client names, building it if nobody has.

        Raises:
            UnitError: it cannot be loaded.
        """
        location = source.location
        async with self._lock:
            unit = self._sources.units.get(location)
            if unit is not None and not unit.is_current and location in self._building.wanted | self._building.used():
                await self._reload(is_explicit=False)  # the watch has not come to it yet
                if location in self._building.faults:
                    fault = self._building.faults[location]
                    raise UnitError(fault.message, fault.file, fault.line)
                unit = self._sources.units.get(location)
            if unit is None or not unit.is_current:
                unit = await self._sources.build(source)
                self._sources.adopt(unit)
            unit.asked_for = trio.current_time()
            return unit


def configs_of(files: Iterable[DeclaredFile]) -> list[FileConfig]:
    return [file.config for file in files if file.config is not None]


def is_misnamed(name: str) -> bool:
    """Return whether a file was most likely meant to be read, and is not, for its ending."""
    return name[0] != "." and name.lower().endswith((*ENDINGS, f"{ENDING}c")) and not name.endswith(ENDINGS)


def misnamed(folder: str, name: str) -> Diagnostic:
    path = os.path.join(folder, name).encode("utf-8", "backslashreplace").decode()
    return Diagnostic(path, 0, f"it is not read, for its ending is none of {', '.join(ENDINGS)}; rename it")


def siblings_of(path: str) -> list[str]:
    folder = os.path.dirname(path)
    listing = names_in(folder)
    names = listing.names if isinstance(listing, Names) else []  # the file itself is watched in any case
    return [os.path.join(folder, name) for name in names if name.endswith(".py")]


def missing(config: FileConfig) -> Diagnostic | None:
    """Return what a file that held hooks seems to have lost: all of them, or an entry that cannot be told any more."""
    if not (config.hooks or config.sources):
        return Diagnostic(config.path, 0, "it held hooks and is empty now; to accept that: hooklatch reload")
    dropped = next((one for one in config.diagnostics if one.is_red), None)
    if dropped is None:
        return None
    text = f"{dropped.message}; what was in force stays; to accept the file as it is: hooklatch reload"
    return Diagnostic(config.path, dropped.line, text)


def is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse(path: str, tables: tuple[str, ...]) -> FileConfig:
    if path.endswith(".py"):
        return FileConfig(path, sources=[SourceEntry("file", path)])
    data = read_safely(path)
    config = read_settings(path, data) if path.endswith(ENDING) else read_config(path, data, tables)
    return msgspec.structs.replace(config, digest=hashlib.sha256(data).hexdigest())


def declared_in(hook: Hook, location: str) -> bool:
    is_there = hook.origin is not None and hook.origin.file == location
    return is_there and hook.problem is None and hook.layer is not Layer.PLUGIN
