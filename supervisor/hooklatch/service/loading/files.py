"""The files that declare hooks, their reload and their watch.  Knows directories and last good versions.

    hint (inotify) or 2 s ─▶ some time or size differs ─▶ 100 ms without a further change ─▶ reload()

    reload: read every file once, in a thread ─▶ plan ─▶ build what has changed ─▶ commit, as one revision ─▶ remember

What a reload takes is decided in `plan`; this is the reading before it and the commit after it.
If a source does not load, every Python file beside it is watched, since a change of any of them may fix it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec
import trio

from hooklatch.core.hooks.registry import Difference, Origin
from hooklatch.dialects.dialect import Dialect
from hooklatch.processes.scratch import root_below
from hooklatch.service.config.configuration import (
    TABLES,
    ConfigError,
    Diagnostic,
    FileConfig,
    SourceEntry,
    read_config,
)
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.main_tables import MAIN_TABLES
from hooklatch.service.config.path_lookup import Absent, Fault, Names, Stamp, is_passing, look, names_in, stamp
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.settings_files import ENDING, read_settings
from hooklatch.service.config.state_file import ManifestHook, StateFile
from hooklatch.service.loading.layer_builder import Layers, assemble
from hooklatch.service.loading.plan import (
    Active,
    Plan,
    Seen,
    SeenFile,
    Wanted,
    is_text,
    known_files,
    manifests,
    paths_of,
    plan,
)
from hooklatch.service.loading.plugins import Discovery, Plugin, discover
from hooklatch.service.loading.projects import Projects
from hooklatch.service.loading.source_builder import Built, SourceBuilder, aimed_at, aimed_at_nothing
from hooklatch.service.loading.sources import Sources, Unit, UnitError
from hooklatch.service.registry.registries import Registries
from hooklatch_worker.wire import Source

__all__ = ["Files", "Reloaded"]

logger = logging.getLogger("hooklatch.files")
STAT_INTERVAL = 2.0  # seconds; inotify is only a hint (it does not see a directory that is recreated)
SETTLE = 0.1  # seconds without a change before a file is read: editors write in several steps


class Reloaded(msgspec.Struct, frozen=True):
    """What a reload did."""

    previous: int
    revision: int
    added: list[str]
    removed: list[str]
    changed: list[str]
    diagnostics: list[Diagnostic]


class Files:
    """Keeps the global layer in step with the configuration file and the hooks.d directory beside it."""

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
        self.reloads: Counter[str] = Counter()  # by their result
        self._lock = trio.Lock()
        self._good: dict[str, FileConfig] = {}  # the active versions; the listing of hooks.d is one of these
        self._parsed: dict[str, FileConfig] = {}  # the latest version read of each file
        self._packages: set[str] = set()  # the directories whose plugins were known at the last reload
        self._wanted: Wanted = {}
        self._built = Built()
        self._is_to_retry = False  # a fault may go away by itself, without a change of any file
        self.declared_digests: dict[str, str] = {}  # of every active file
        self._builder = SourceBuilder(sources, registries, state)

    @property
    def watched(self) -> list[str]:
        """Return every path whose change may matter."""
        listing = names_in(self.folder)
        listed = paths_of(self.folder, listing) if isinstance(listing, Names) else []
        files = {self.config_path, self.folder, *listed, *known_files(self._active, self.folder), *self._wanted}
        files.update(self._projects.watched)
        for unit in self._sources.units.values():
            files.update(unit.files)
        for fault in self._built.faults.values():
            files.update((fault.file, *siblings_of(fault.file)))
        return sorted(path for path in files if os.path.isabs(path))  # a module's name is not a path

    async def watch(self) -> None:
        """Reload whenever a watched file changes."""
        seen: dict[str, Stamp] = {}  # empty, so that the first look reloads what changed during the start
        while True:
            with trio.move_on_after(STAT_INTERVAL):
                await self.hint.wait()
            self.hint = trio.Event()
            async with self._lock:
                self._forget_unused()
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

    async def reload(self, *, is_explicit: bool = False, anew: str | None = None) -> Reloaded:
        """Load what has changed; return the result.  `is_explicit` also accepts files that are gone or empty.

        The new versions of sources below the directory `anew` are not compared to the old ones.
        """
        async with self._lock:
            if anew is not None:
                self._drop_below(anew)
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

    @property
    def _active(self) -> Active:
        state = self._state.state
        return Active(self._good, state.manifests, self.settings, state.overrides, self.plugins, self._packages)

    def prepare(self) -> None:
        """Prepare what the first hooks need: how workers are limited and isolated, and which events there are."""
        seen = self._look(self._active, Discovery({}, {}, set()))
        taken = plan(self._active, seen, is_explicit=False)
        self._limit(taken)
        self._registries.catalogue = taken.catalogue

    async def _reload(self, *, is_explicit: bool) -> Difference:
        active = self._active
        seen = msgspec.structs.replace(await self.see(active), projects=self._projects.read())
        taken = plan(active, seen, is_explicit=is_explicit)
        self._limit(taken)
        self._on_settings(self.settings)
        built = await self._builder.build(taken, is_explicit=is_explicit)
        # From here to the end of the commit there is no checkpoint: every fire sees all of it or nothing.
        layers = self._layers_of(taken, built)
        change = self._commit(taken, built, layers)
        self._packages = seen.packages.known(self._packages)
        before = self._state.state.manifests  # read now: a project may have been untrusted meanwhile
        found = manifests(before, taken, seen, layers, self._sources.units, built.faults, is_explicit=is_explicit)
        is_changed = self._remember(taken, found)
        if is_changed:
            await self._state.store()
        await self._registries.announced()
        return change

    async def see(self, active: Active) -> Seen:
        """Read what is there, in a thread: the disk may be slow, and files long."""
        return await trio.to_thread.run_sync(lambda: self._look(active, discover()))

    def _look(self, active: Active, packages: Discovery) -> Seen:
        """Read every file once, by one thread at a time."""
        listing = names_in(self.folder)
        paths = {self.config_path, *known_files(active, self.folder)}
        if isinstance(listing, Names):
            paths.update(paths_of(self.folder, listing))
        files = {path: self._read(path) for path in paths}
        self._parsed = {path: config for path, config in files.items() if isinstance(config, FileConfig)}
        return Seen(self.config_path, self.folder, listing, files, packages)

    def _read(self, path: str) -> SeenFile:
        if not is_text(path):
            shown = os.fsencode(path).decode("utf-8", "backslashreplace")
            return Diagnostic(shown, 0, "its name is not UTF-8; rename it")
        seen = look(path)
        if isinstance(seen, Absent | Fault):
            return seen
        try:
            return self._parse(path)
        except ConfigError as error:
            return error.diagnostic
        except (UnsafeFileError, OSError) as error:
            return Fault(str(error), is_passing(error))

    def _parse(self, path: str) -> FileConfig:
        if path.endswith(".py"):
            return FileConfig(path, sources=[SourceEntry("file", path)])
        data = read_safely(path)
        digest = hashlib.sha256(data).hexdigest()
        known = self._parsed.get(path)
        if known is not None and known.digest == digest:
            return known
        tables = (*TABLES, *MAIN_TABLES) if path == self.config_path else TABLES
        config = read_settings(path, data) if path.endswith(ENDING) else read_config(path, data, tables)
        return msgspec.structs.replace(config, digest=digest)

    def _limit(self, taken: Plan) -> None:
        """From now on run workers as the main file says; if it has an error, as its last good version said."""
        self.settings = taken.settings
        folder = root_below(os.path.dirname(self._state.path))
        isolation = msgspec.structs.replace(taken.settings.isolation, temporary=folder)
        worker = msgspec.structs.replace(taken.limits.worker, isolation=isolation)
        self._sources.limits = msgspec.structs.replace(taken.limits, worker=worker)
        self._sources.levels = taken.levels

    def _layers_of(self, taken: Plan, built: Built) -> Layers:
        units = {key: unit for key, unit in self._sources.units.items() if key not in built.too_weak} | built.fresh
        return assemble(
            config_path=self.config_path, main=taken.main, plugins=taken.plugins, files=taken.files,
            unreadable=taken.unreadable, projects=[self._projects.verified(project) for project in taken.projects],
            catalogue=taken.catalogue, units=units, faults=built.faults, manifests=self._state.state.manifests,
            taken={hook.id: Origin("a client of the admin socket") for hook in self._registries.api_hooks},
        )  # fmt: skip

    def _commit(self, taken: Plan, built: Built, layers: Layers) -> Difference:
        for unit in built.fresh.values():
            self._sources.adopt(unit)
        for location in built.too_weak:
            self._sources.drop(location)
        self._registries.retarget(
            {location: partial(aimed_at, unit) for location, unit in built.fresh.items()}
            | {location: partial(aimed_at_nothing, str(built.faults[location])) for location in built.too_weak}
        )
        change = self._registries.set_global(
            files=layers.shared, catalogue=taken.catalogue, projects=layers.projects,
            personalities=taken.main.personalities,
        )  # fmt: skip
        self._projects.taken()
        self._good, self.dialects, self._wanted, self._built = taken.good, taken.dialects, taken.wanted, built
        self._is_to_retry = taken.is_to_retry or built.is_to_retry
        self.plugins = {plugin.name: plugin for plugin in taken.plugins}
        self.diagnostics = [*taken.diagnostics, *built.diagnostics, *layers.diagnostics]
        before = self.declared_digests
        self.declared_digests = {config.path: config.digest for config in taken.configs if config.digest}
        for path, digest in self.declared_digests.items():
            if before.get(path) != digest:
                self._on_declared(path, digest)
        self._forget_unused()
        return change

    def _remember(self, taken: Plan, found: dict[str, list[ManifestHook]]) -> bool:
        """Store what the next start must know; return whether that has changed."""
        state = self._state.state
        before = (state.settings, state.overrides, state.manifests)
        if taken.is_main_good:
            state.settings, state.overrides = taken.settings, taken.main.overrides
        state.manifests = found
        return before != (state.settings, state.overrides, state.manifests)

    def _forget_unused(self) -> None:
        self._sources.forget(self._wanted.keys() | self._builder.used())

    def _drop_below(self, folder: str) -> None:
        units = self._sources.units
        self._sources.forget({location for location in units if not location.startswith(f"{folder}/")})

    async def ensure(self, source: Source) -> Unit:
        """Return the unit of a source that a client names, building it if there is none.

        Raises:
            UnitError: it cannot be loaded.
        """
        location = source.location
        async with self._lock:
            unit = self._sources.units.get(location)
            is_current = unit is not None and unit.is_current
            if unit is not None and not is_current and location in self._wanted.keys() | self._builder.used():
                await self._reload(is_explicit=False)  # the watch has not noticed the change yet
                if location in self._built.faults:
                    fault = self._built.faults[location]
                    raise UnitError(fault.message, fault.file, fault.line)
                unit = self._sources.units.get(location)
                # It may have changed again: only another reload may take that, which moves all hooks on it.
                is_current = unit is not None
            if unit is None or not is_current:
                unit = await self._sources.build(source)
                self._sources.adopt(unit)
            unit.asked_for = trio.current_time()
            return unit


def siblings_of(path: str) -> list[str]:
    folder = os.path.dirname(path)
    listing = names_in(folder)
    names = listing.names if isinstance(listing, Names) else []  # the directory itself is watched in any case
    return [os.path.join(folder, name) for name in names if name.endswith(".py")]
