"""What a reload changes, and what it leaves as it was.  Pure: knows what was read; reads nothing.

    plan(active, seen)    which version of each file, which events, plugins and projects, and which sources are wanted
    too_weak(held, …)     whether a build must go although its source has no other
    manifests(before, …)  what to remember for a start at which a file is broken

A file with an error changes nothing that is active: its last good version stays.  Only what does not exist and was
never active counts as empty; what is gone or has lost its hooks waits for an explicit reload, and what cannot be read
is never accepted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

import msgspec

from hooklatch.core.hooks.builtin_sources import LSP
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import Hook, Layer
from hooklatch.dialects.dialect import Dialect
from hooklatch.processes.pool import PoolLimits
from hooklatch.service.config.configuration import Diagnostic, FileConfig, place_of
from hooklatch.service.config.custom_events import catalogue_of, dialects_of, unknown_event
from hooklatch.service.config.isolation_levels import as_strong_as, levels_of
from hooklatch.service.config.main_tables import MainTables, Override
from hooklatch.service.config.path_lookup import Absent, Fault, Names
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.settings_files import ENDING
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading.layer_builder import DeclaredFile, Layers, ProjectFiles, manifest_of
from hooklatch.service.loading.plugins import PLUGIN, Discovery, Plugin, in_force
from hooklatch.service.loading.sources import Unit
from hooklatch_worker.wire import Isolation, Source

__all__ = [
    "Active", "Plan", "Seen", "SeenFile", "Wanted", "is_text", "known_files", "manifests", "paths_of", "plan",
    "too_weak",
]  # fmt: skip

ENDINGS = (".toml", ".py", ENDING)  # what hooks.d may contain
SeenFile: TypeAlias = (
    FileConfig | Diagnostic | Absent | Fault
)  # its content, what is wrong in it, or that it cannot be read
Manifests: TypeAlias = Mapping[str, list[ManifestHook]]
Wanted: TypeAlias = dict[str, tuple[Source, int | None]]  # by location: a source, and its number of workers


class Active(msgspec.Struct, frozen=True):
    """What is active: the last good version of each file, and the manifests from before the last start."""

    configs: Mapping[str, FileConfig] = {}
    manifests: Manifests = {}
    settings: Settings = Settings()
    overrides: list[Override] = []
    plugins: Mapping[str, Plugin] = {}
    packages: Collection[str] = frozenset()  # the directories whose plugins were known


class Seen(msgspec.Struct, frozen=True):
    """What is there now; every file was read once."""

    main: str
    folder: str
    listing: Names | Absent | Fault
    files: Mapping[str, SeenFile]
    packages: Discovery
    projects: list[ProjectFiles] = []


class Plan(msgspec.Struct, frozen=True):
    """What a reload is about to make active."""

    files: list[DeclaredFile]
    catalogue: Catalogue
    dialects: dict[str, Dialect]
    main: MainTables
    settings: Settings
    limits: PoolLimits
    levels: dict[str, str]
    plugins: list[Plugin]
    unreadable: dict[str, str]
    projects: list[ProjectFiles]
    wanted: Wanted
    diagnostics: list[Diagnostic]
    is_main_good: bool
    is_to_retry: bool  # a fault may go away by itself, without a change of any file

    @property
    def configs(self) -> list[FileConfig]:
        return [*configs_of(self.files), *(config for project in self.projects for config in project.configs)]

    @property
    def good(self) -> dict[str, FileConfig]:
        """Return the versions that are active from now on."""
        return {file.path: file.config for file in self.files if file.config and not file.is_accepted_absence}

    @property
    def absent(self) -> set[str]:
        return {file.path for file in self.files if file.is_accepted_absence}

    @property
    def extra(self) -> list[Source]:
        """Return the sources that no file names."""
        plugins = [plugin.source for plugin in self.plugins if plugin.fault is None]
        return [*plugins, LSP.source] if self.main.lsp is not None else plugins


def plan(active: Active, seen: Seen, *, is_explicit: bool) -> Plan:
    """Decide what a reload changes; an explicit one also accepts what is gone or empty."""
    files, diagnostics = declared_files(active, seen, is_explicit=is_explicit)
    catalogue = catalogue_of(configs_of(files), [])
    files, unknown = with_known_events(files, catalogue, active.configs)
    diagnostics += unknown
    good = {file.path: file.config for file in files if file.config is not None}
    catalogue = catalogue_of(good.values(), diagnostics)
    dialects = dialects_of(good.values(), catalogue, diagnostics)
    main_file = good.get(seen.main)
    # If the main file has an error, its last good switches and overrides must at least not be undone.
    main = main_file.main if main_file is not None else MainTables(overrides=active.overrides)
    settings = main_file.main.settings if main_file is not None else active.settings
    remembered = remembered_plugins(active.manifests)
    plugins, complaints = in_force(active.plugins, remembered, seen.packages, is_explicit=is_explicit)
    projects = [
        msgspec.structs.replace(project, files=with_known_events(project.files, catalogue, {})[0])
        for project in seen.projects
    ]
    looked_at = (seen.listing, *seen.files.values(), *seen.packages.faults.values())
    found = Plan(
        files=files, catalogue=catalogue, dialects=dialects, main=main, settings=settings,
        limits=(main_file.limits if main_file is not None else None) or PoolLimits(), levels={}, plugins=plugins,
        unreadable=seen.packages.unread(set(active.packages)), projects=projects, wanted={},
        diagnostics=[*diagnostics, *complaints], is_main_good=main_file is not None,
        is_to_retry=any(isinstance(one, Fault) and one.is_passing for one in looked_at),
    )  # fmt: skip
    levels = levels_of(
        found.configs, lambda path: is_ours(path, seen.main, seen.folder), settings.isolation.level, main.lsp_isolation
    )
    return msgspec.structs.replace(found, levels=levels, wanted=wanted_sources(found.configs, found.extra))


# -- files -------------------------------------------------------------------------------------------------------


def declared_files(active: Active, seen: Seen, *, is_explicit: bool) -> tuple[list[DeclaredFile], list[Diagnostic]]:
    """Return the files in their order: the main one, then the hooks.d directory itself, then the files in it.

    One that existed and is gone keeps its place until an explicit reload.
    """
    listing, misnamed = seen.listing, list[Diagnostic]()
    found: list[tuple[DeclaredFile, Diagnostic | None]] = [
        version(active, seen.main, seen.files[seen.main], is_explicit)
    ]
    paths: set[str] = set()
    if isinstance(listing, Names):
        misnamed = [misnamed_file(seen.folder, name) for name in listing.names if is_misnamed(name)]
        paths = set(paths_of(seen.folder, listing))
        found.append((DeclaredFile(seen.folder, FileConfig(seen.folder)), None))
    else:
        # Without a listing the directory's present content is unknown, but what was active stays.
        found.append(version(active, seen.folder, listing, is_explicit))
    if isinstance(listing, Fault) or not is_explicit:
        paths |= known_files(active, seen.folder)
    found += [version(active, path, seen.files[path], is_explicit) for path in sorted(paths)]
    return [file for file, _ in found], [*misnamed, *(fault for _, fault in found if fault is not None)]


def version(active: Active, path: str, seen: SeenFile, is_explicit: bool) -> tuple[DeclaredFile, Diagnostic | None]:
    """Decide which version of a file is used: the present one, or the last good one, and why."""
    known = active.configs.get(path)
    match seen:
        case FileConfig():
            held_hooks = bool(known and (known.hooks or known.sources)) or bool(active.manifests.get(path))
            fault = missing(seen) if held_hooks and not is_explicit else None
            if fault is None:
                return DeclaredFile(path, seen), None
        case Absent():
            if is_explicit or (known is None and path not in active.manifests):
                return DeclaredFile(path, FileConfig(path), is_absent=True), None
            fault = Diagnostic(path, 0, "it was active and is gone; to accept that: hooklatch reload")
            return DeclaredFile(path, known, str(fault), is_absent=True), fault
        case Fault():
            fault = Diagnostic(path, 0, seen.reason)
        case Diagnostic():
            fault = seen
    return DeclaredFile(fault.file if not is_text(path) else path, known, str(fault)), fault


def with_known_events(
    files: Iterable[DeclaredFile], catalogue: Catalogue, known: Mapping[str, FileConfig]
) -> tuple[list[DeclaredFile], list[Diagnostic]]:
    """Refuse each file that names an undefined event: what it guards is unknown."""
    checked: list[DeclaredFile] = []
    diagnostics: list[Diagnostic] = []
    for file in files:
        hooks = file.config.hooks if file.config is not None and file.fault is None else []
        unknown = next((hook for hook in hooks if hook.event not in catalogue), None)
        if unknown is None:
            checked.append(file)
            continue
        text = f"hook {unknown.id!r}: {unknown_event(catalogue, unknown.event)}"
        diagnostics.append(Diagnostic(file.path, unknown.line, text))
        checked.append(DeclaredFile(file.path, known.get(file.path), str(diagnostics[-1])))
    return checked, diagnostics


def missing(config: FileConfig) -> Diagnostic | None:
    """Return what a file that held hooks seems to have lost: all of them, or an entry that is no longer readable."""
    if not (config.hooks or config.sources):
        return Diagnostic(config.path, 0, "it held hooks and is empty now; to accept that: hooklatch reload")
    dropped = next((one for one in config.diagnostics if one.is_red), None)
    if dropped is None:
        return None
    text = f"{dropped.message}; the last good version stays active; to accept the file as it is: hooklatch reload"
    return Diagnostic(config.path, dropped.line, text)


def known_files(active: Active, folder: str) -> set[str]:
    """Return the files of hooks.d that are active, or were before the last start."""
    return {path for path in (*active.configs, *active.manifests) if os.path.dirname(path) == folder}


def paths_of(folder: str, listing: Names) -> list[str]:
    return [os.path.join(folder, name) for name in listing.names if name.endswith(ENDINGS) and name[0] != "."]


def is_misnamed(name: str) -> bool:
    """Return whether a file was most likely meant to be read, and is not because of its ending."""
    return name[0] != "." and name.lower().endswith((*ENDINGS, f"{ENDING}c")) and not name.endswith(ENDINGS)


def misnamed_file(folder: str, name: str) -> Diagnostic:
    path = os.path.join(folder, name).encode("utf-8", "backslashreplace").decode()
    return Diagnostic(path, 0, f"it is not read, since its ending is not one of {', '.join(ENDINGS)}; rename it")


def is_ours(path: str, main: str, folder: str) -> bool:
    return path in (main, folder) or os.path.dirname(path) == folder


def is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def configs_of(files: Iterable[DeclaredFile]) -> list[FileConfig]:
    return [file.config for file in files if file.config is not None]


# -- sources -----------------------------------------------------------------------------------------------------


def wanted_sources(configs: Iterable[FileConfig], extra: Iterable[Source]) -> Wanted:
    """Return the sources that files and packages name; a file's own number of workers wins."""
    wanted: Wanted = {source.location: (source, None) for source in extra}
    for config in configs:
        folder = os.path.dirname(config.path)
        named = [(Source(entry.kind, entry.location), entry.workers) for entry in config.sources]
        for source, workers in (*named, *((place_of(hook, folder)[0], None) for hook in config.hooks)):
            if source.location not in wanted or workers is not None:
                wanted[source.location] = source, workers
    return wanted


def too_weak(held: Isolation | None, wanted: Isolation) -> bool:
    """Return whether an active build must go, though the new version of its source cannot be built."""
    return held is not None and wanted.is_required and not as_strong_as(held, wanted)


# -- what is remembered ------------------------------------------------------------------------------------------


def manifests(
    before: Manifests,
    taken: Plan,
    seen: Seen,
    layers: Layers,
    units: Mapping[str, Unit],
    faults: Collection[str],
    *,
    is_explicit: bool,
) -> dict[str, list[ManifestHook]]:
    """Return the manifest of every good file, including those without hooks; an accepted removal leaves none.

    A source with one of the `faults` keeps the manifest that it had.
    """
    # Another configuration of the same user may share this state.
    kept = {path: hooks for path, hooks in before.items() if not is_ours(path, seen.main, seen.folder)}
    kept = {path: hooks for path, hooks in kept.items() if path not in taken.wanted}
    known = {path for path in taken.good.keys() | before.keys() if is_ours(path, seen.main, seen.folder)} - taken.absent
    for path, hooks in layers.by_file.items():
        is_sound = all(hook.problem is None for hook in hooks)
        remembered = None if is_sound else before.get(path)
        if not remembered:  # the stand-ins of a file that is good in part are better remembered than nothing
            remembered = manifest_of(hooks) if is_sound or path in known else []
        if remembered or path in known:
            kept[path] = remembered
    for location, unit in units.items():
        found = [hook for hook in layers.hooks if declared_in(hook, location)]
        if found and unit.loaded.hooks:
            kept[location] = manifest_of(found)
    kept |= {path: hooks for path, hooks in before.items() if path in faults}
    if is_explicit and not seen.packages.faults:
        for name in remembered_plugins(before) - {plugin.name for plugin in taken.plugins}:
            kept.pop(PLUGIN + name, None)
    return kept


def remembered_plugins(known: Iterable[str]) -> set[str]:
    """Return the plugins that had hooks before the last start."""
    keys = (key.partition(PLUGIN) for key in known)
    return {name for before, found, name in keys if found and not before}


def declared_in(hook: Hook, location: str) -> bool:
    is_there = hook.origin is not None and hook.origin.file == location
    return is_there and hook.problem is None and hook.layer is not Layer.PLUGIN
