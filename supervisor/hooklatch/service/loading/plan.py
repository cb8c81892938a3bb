"""The plan of a reload: what it changes, and what it leaves as it was.  Pure: it reads nothing.

    plan_reload(active, seen, …)  the version of each file, the events, plugins and projects, and the wanted sources
    is_too_weak(held, …)          whether a build must go although its source has no other

The plan that was committed last is active.  A file with an error changes nothing, since its last good version stays.
Only a file that does not exist and was never active counts as empty. One that has lost its hooks, or has vanished,
keeps them until the operator accepts that. The loss of an unreadable file is never accepted:

    the watch, SIGHUP, a start           may take no loss
    a plain reload                       what files that are there do not hold any more
    a reload that accepts removals       that, and all that has vanished
    the removal of a hook by its name    the one place that declared it, and has vanished
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.tables import InvalidTableError
from hooklatch.core.text import is_unicode
from hooklatch.path_lookup import DirectoryNames, PathAbsent, PathFault
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.loading.plugins import PLUGIN, Discovery, Plugin
from hooklatch.service.loading.see import (
    DeclaredFile,
    FleetFiles,
    Manifests,
    ObservedFiles,
    ProjectFiles,
    list_hook_files,
)
from hooklatch.service.loading.sources import find_builtin_source, find_definition_target
from hooklatch.service.loading.trust import project_hooks_folder
from hooklatch_worker.wire import ISOLATION_LEVELS, Isolation, Source

if TYPE_CHECKING:
    from hooklatch.dialects.dialect import Dialect

__all__ = [
    "EVERYTHING", "LESS", "NOTHING", "REMOVAL", "LossAcceptance", "ReloadPlan",
    "is_too_weak", "list_all_configs", "list_known_files", "list_remembered_plugins", "plan_reload",
]  # fmt: skip

REMOVAL = "hooklatch reload --accept-removed"


class LossAcceptance(msgspec.Struct, frozen=True):
    """The losses that the caller of a reload accepts: files that hold `less`, and `removed` files and plugins.

    A plugin's name is its key; None stands for every name.
    """

    less: bool = False
    removed: frozenset[str] | None = frozenset()

    def takes(self, name: str) -> bool:
        """Return whether a vanished file or plugin may be taken for removed."""
        return self.removed is None or name in self.removed

    def and_of(self, names: frozenset[str]) -> LossAcceptance:
        """Return the same, and that these may be removed."""
        return self if self.removed is None else LossAcceptance(self.less, self.removed | names)


NOTHING, LESS, EVERYTHING = LossAcceptance(), LossAcceptance(less=True), LossAcceptance(less=True, removed=None)


class ReloadPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The plan of a reload, which is the active plan after the commit.

    `main` is the main file's version that applies, `packages` the directories whose plugins are known.  `vanished` are
    the files and plugins that have active hooks, or at least a place, and are gone. `absent` are the files without one,
    `removed` those of either kind whose loss was accepted.
    """

    main: FileConfig
    temporary: str = ""  # where isolated workers have their own directories
    files: list[DeclaredFile] = []
    catalogue: Catalogue = msgspec.field(default_factory=Catalogue.standard)
    dialects: dict[str, Dialect] = {}
    levels: dict[str, str] = {}  # the isolation of sources with their own level
    pythons: dict[str, str] = {}  # the interpreters that files name for sources
    named: dict[str, list[str]] = {}  # the paths of the files that are named as the data of sources
    plugins: dict[str, Plugin] = {}
    packages: set[str] = set()
    unreadable: dict[str, str] = {}
    projects: list[ProjectFiles] = []
    fleet: FleetFiles | None = None
    wanted: dict[str, Source] = {}  # by location
    workers: dict[str, int] = {}  # the number of workers of sources with their own
    diagnostics: list[Diagnostic] = []
    vanished: set[str] = set()
    absent: set[str] = set()
    removed: list[str] = []
    is_to_retry: bool = False  # a fault may go away by itself, without a change of any file

    @cached_property
    def folder(self) -> str:
        """Return the path of hooks.d, beside the main file."""
        return os.path.join(os.path.dirname(self.main.path), "hooks.d")

    @cached_property
    def configs(self) -> list[FileConfig]:
        return list_all_configs(self.files, self.fleet, self.projects)

    @cached_property
    def good(self) -> dict[str, FileConfig]:
        """Return the active version of each file; the listing of hooks.d is one of these."""
        return {file.path: file.config for file in self.files if file.config and file.path not in self.absent}

    @cached_property
    def pins(self) -> dict[str, dict[str, str]]:
        """Return the sha256 that files of bundles, projects and copies must have, by their folder and path."""
        bundles = [(bundle.root, bundle.pins) for bundle in (self.fleet.bundles if self.fleet is not None else ())]
        below = [*bundles, *((project_hooks_folder(project.folder), project.pins) for project in self.projects)]
        pins = {root: {os.path.join(root, name): digest for name, digest in of.items()} for root, of in below if root}
        return pins | {copy.root: copy.pins for config in self.configs for copy in config.copies}

    @cached_property
    def digests(self) -> dict[str, str]:
        """Return the sha256 of each active file that declares hooks."""
        return {config.path: config.digest for config in self.configs if config.digest}

    def is_ours(self, path: str) -> bool:
        """Return whether a file is the main one, or in hooks.d."""
        return path in (self.main.path, self.folder) or os.path.dirname(path) == self.folder

    def is_of_fleet(self, path: str) -> bool:
        """Return whether a file is of a bundle of the fleet."""
        return self.fleet is not None and self.fleet.find_bundle(path) is not None

    def limits_of(self, source: Source) -> PoolLimits:
        """Return a source's limits: the common ones, with its own on top."""
        common, isolation = self.main.limits, self.main.settings.isolation
        level = self.levels.get(source.location, isolation.level)
        isolation = msgspec.structs.replace(isolation, level=level, temporary=self.temporary)
        ours = find_builtin_source(source)
        return msgspec.structs.replace(
            common,
            workers=self.workers.get(source.location, common.workers),
            worker=msgspec.structs.replace(common.worker, isolation=isolation),
            total_bytes=common.total_bytes if ours is None or ours.is_total_bounded else None,
            may_emit=ours is not None and ours.may_emit,
        )


def plan_reload(active: ReloadPlan, seen: ObservedFiles, accepts: LossAcceptance) -> ReloadPlan:
    """Decide what a reload changes, and which losses it takes."""
    known_files = list_known_files(active, seen.manifests)
    read = list_declared_files(active, seen, known_files, accepts)
    catalogue, clashes = build_catalogue(read)
    files = refuse_unknown_events(read, catalogue, active.good)
    if files != read:  # without the events of the refused files
        catalogue, clashes = build_catalogue(files)
    dialects, unusable = build_dialects(files, catalogue)
    # If the main file has an error and no last good version, its last good switches must at least not be undone.
    main, fleet_losses = keep_fleet_settings(active.main, files[0].config or active.main, accepts)
    remembered = list_remembered_plugins(seen.manifests)
    plugins, plugin_faults = select_active_plugins(active.plugins, remembered, seen.packages, accepts)
    projects = [
        msgspec.structs.replace(project, files=refuse_unknown_events(project.files, catalogue, {}))
        for project in seen.projects
    ]
    configs = list_all_configs(files, seen.fleet, projects)
    options = read_source_options(configs, active, main)
    extra = [plugin.source for plugin in plugins if plugin.fault is None]
    missing = remembered - seen.packages.plugins.keys() if not seen.packages.faults else set[str]()
    gone_plugins = {PLUGIN + name for name in missing}
    vanished = {file.path for file in files if file.is_absent and file.fault is not None}
    absent = {file.path for file in files if file.is_absent and file.fault is None}
    places = (active.main.path, active.folder, *known_files)
    were_active = {path for path in places if path in active.good or path in seen.manifests}
    present = ({file.path for file in files} - absent) | {plugin.key for plugin in plugins}
    looked_at = (seen.listing, *seen.files.values(), *seen.packages.faults.values())
    return ReloadPlan(
        main=main,
        temporary=active.temporary,
        files=files,
        catalogue=catalogue,
        dialects=dialects,
        levels=options.levels,
        pythons=options.pythons,
        named=options.named,
        plugins={plugin.name: plugin for plugin in plugins},
        packages=seen.packages.known(active.packages),
        unreadable=seen.packages.unread(active.packages),
        projects=projects,
        fleet=seen.fleet,
        workers=options.workers,
        wanted=list_wanted_sources(configs, [*extra, *(find_definition_target(hook, "")[0] for hook in main.builtin)]),
        diagnostics=[
            *(file.fault for file in files if file.fault is not None),
            *fleet_losses,
            *clashes,
            *unusable,
            *plugin_faults,
            *options.contradictions,
        ],
        vanished=vanished | (gone_plugins & present),
        absent=absent,
        removed=sorted((were_active | gone_plugins) - present),
        is_to_retry=any(isinstance(file, PathFault) and file.is_passing for file in looked_at)
        or (seen.fleet is not None and seen.fleet.is_to_retry),
    )


def keep_fleet_settings(
    last: FileConfig, main: FileConfig, accepts: LossAcceptance
) -> tuple[FileConfig, list[Diagnostic]]:
    """Return the main file with the [fleet] that it had, until the operator accepts that it holds less.

    Otherwise half of a file would be enough to let a stale host pass, and to remove unshipped entries of the record.
    """
    before, now = last.settings, main.settings
    if accepts.less or before.fleet is None or now.fleet is not None:
        return main, []
    record = msgspec.structs.replace(now.record, keep_unshipped_bytes=before.record.keep_unshipped_bytes)
    kept_main = msgspec.structs.replace(main, settings=msgspec.structs.replace(now, fleet=before.fleet, record=record))
    text = f"its [fleet] is gone, and still holds; to leave the fleet {before.fleet['name']!r}: hooklatch reload"
    return kept_main, [Diagnostic(main.path, 0, text)]


# -- files -------------------------------------------------------------------------------------------------------


def list_declared_files(
    active: ReloadPlan, seen: ObservedFiles, known: set[str], accepts: LossAcceptance
) -> list[DeclaredFile]:
    """Return the files in their order: the main one, then the hooks.d directory itself, then the files in it.

    A file that was `known` and is gone keeps its place until the operator accepts that.
    """
    paths = set(list_hook_files(active.folder, seen.listing))
    # Without a listing the directory's present content is unknown, but what was active stays.
    is_unlisted = isinstance(seen.listing, PathFault)
    paths |= {path for path in known if is_unlisted or not accepts.takes(path)}
    return [choose_version(active, seen, path, accepts) for path in (active.main.path, active.folder, *sorted(paths))]


def choose_version(active: ReloadPlan, seen: ObservedFiles, path: str, accepts: LossAcceptance) -> DeclaredFile:
    """Decide which version of a file is used: the present one, or the last good one, and why."""
    known, remembered = active.good.get(path), seen.manifests.get(path)
    match seen.listing if path == active.folder else seen.files[path]:
        case FileConfig() as config:
            held_hooks = bool(known and (known.hooks or known.sources)) or bool(remembered)
            fault = find_lost_hooks(config) if held_hooks and not accepts.less else None
            return DeclaredFile(path, config if fault is None else known, fault)
        case DirectoryNames():  # what the directory holds is declared by the files in it
            return DeclaredFile(path, FileConfig(path))
        case PathAbsent():
            if accepts.takes(path) or (known is None and remembered is None):
                return DeclaredFile(path, FileConfig(path), is_absent=True)
            fault = Diagnostic(path, 0, f"it was active and is gone; to accept that: {REMOVAL}")
            return DeclaredFile(path, known, fault, is_absent=True)
        case PathFault(reason):
            return DeclaredFile(path, known, Diagnostic(path, 0, reason))
        case Diagnostic() as fault:
            return DeclaredFile(fault.file if not is_unicode(path) else path, known, fault)


def refuse_unknown_events(
    files: Iterable[DeclaredFile], catalogue: Catalogue, known: Mapping[str, FileConfig]
) -> list[DeclaredFile]:
    """Refuse each file that names an undefined event, since it is unknown what it guards."""
    checked: list[DeclaredFile] = []
    for file in files:
        hooks = file.config.hooks if file.config is not None and file.fault is None else []
        unknown = next((hook for hook in hooks if hook.event not in catalogue), None)
        if unknown is not None:
            from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

            text = f"hook {unknown.id!r}: {describe_undefined_event(catalogue, unknown.event)}"
            file = DeclaredFile(file.path, known.get(file.path), Diagnostic(file.path, unknown.line, text))
        checked.append(file)
    return checked


def find_lost_hooks(config: FileConfig) -> Diagnostic | None:
    """Return the diagnostic of a file that seems to have lost hooks: all of them, or an entry that is unreadable."""
    if not (config.hooks or config.sources):
        return Diagnostic(config.path, 0, "it held hooks and is empty now; to accept that: hooklatch reload")
    dropped = next((diagnostic for diagnostic in config.diagnostics if diagnostic.is_red), None)
    if dropped is None:
        return None
    text = f"{dropped.message}; the last good version stays active; to accept the file as it is: hooklatch reload"
    return Diagnostic(config.path, dropped.line, text)


def list_known_files(active: ReloadPlan, manifests: Manifests) -> set[str]:
    """Return the files of hooks.d that are active, or were before the last start."""
    return {path for path in (*active.good, *manifests) if os.path.dirname(path) == active.folder}


def list_all_configs(
    files: Iterable[DeclaredFile], fleet: FleetFiles | None, projects: Iterable[ProjectFiles]
) -> list[FileConfig]:
    bundled = [file for bundle in fleet.bundles for file in bundle.files] if fleet is not None else []
    found = [*files, *bundled, *(file for project in projects for file in project.files)]
    return [file.config for file in found if file.config is not None]


def select_active_plugins(
    known: Mapping[str, Plugin], had_hooks: set[str], discovery: Discovery, accepts: LossAcceptance
) -> tuple[list[Plugin], list[Diagnostic]]:
    """Return the plugins to load, and their diagnostics.

    A plugin that had hooks and is gone stays until the operator accepts that. If a directory cannot be read, it is
    unknown which plugins are gone, and all known ones stay.
    """
    plugins = dict(discovery.plugins)
    diagnostics = [
        Diagnostic(plugin.key, 0, f"plugin {plugin.name!r}: {plugin.fault}")
        for plugin in plugins.values()
        if plugin.fault
    ]
    missing = {name for name in had_hooks if not accepts.takes(PLUGIN + name)}
    if discovery.faults:
        missing = had_hooks | known.keys()
    for name in sorted(missing - plugins.keys()):
        text = f"it had hooks and is not installed any more; to accept that: {REMOVAL}"
        if discovery.faults:
            text = f"it is not found, and {next(iter(discovery.faults.values())).reason}"
        diagnostics.append(Diagnostic(PLUGIN + name, 0, text))
        plugins[name] = known.get(name) or Plugin(name, "", fault=text)
    return [plugins[name] for name in sorted(plugins)], diagnostics


# -- events and dialects ----------------------------------------------------------------------------------------


def build_catalogue(files: Iterable[DeclaredFile]) -> tuple[Catalogue, list[Diagnostic]]:
    """Return the standard catalogue with the events of these files, and which of them cannot be used."""
    catalogue, diagnostics = Catalogue.standard(), list[Diagnostic]()
    for path, event in [(file.path, event) for file in files if file.config for event in file.config.events]:
        try:
            catalogue = catalogue.with_custom([event])
        except InvalidTableError as error:
            diagnostics.append(Diagnostic(path, 0, str(error)))
    return catalogue, diagnostics


def build_dialects(files: Iterable[DeclaredFile], catalogue: Catalogue) -> tuple[dict[str, Dialect], list[Diagnostic]]:
    """Return the dialects of these files by name, and which of them cannot be used."""
    dialects: dict[str, Dialect] = {}
    diagnostics: list[Diagnostic] = []
    tables = [(file.path, custom) for file in files if file.config for custom in file.config.dialects]
    if not tables:
        return dialects, diagnostics
    from hooklatch.dialects.custom import build_dialect
    from hooklatch.dialects.dialect import InvalidDialectError

    for path, custom in tables:
        try:
            dialect = build_dialect(custom.table, catalogue)
            dialects[dialect.name] = dialect
        except InvalidDialectError as error:
            diagnostics.append(Diagnostic(path, custom.line, str(error)))
    return dialects, diagnostics


# -- sources -----------------------------------------------------------------------------------------------------


def list_wanted_sources(configs: Iterable[FileConfig], extra: Iterable[Source]) -> dict[str, Source]:
    """Return the sources that files and packages name."""
    wanted = {source.location: source for source in extra}
    for config in configs:
        folder = os.path.dirname(config.path)
        named = (
            *(table.source for table in config.sources),
            *(find_definition_target(hook, folder)[0] for hook in config.hooks),
        )
        for source in named:
            wanted.setdefault(source.location, source)
    return wanted


class SourceOptions(msgspec.Struct):
    """The options in tables of sources, by location. `contradictions` are those that cannot be followed."""

    levels: dict[str, str]
    pythons: dict[str, str] = {}
    named: dict[str, list[str]] = {}
    workers: dict[str, int] = {}
    contradictions: list[Diagnostic] = []


def read_source_options(configs: Iterable[FileConfig], active: ReloadPlan, main: FileConfig) -> SourceOptions:
    """Read the tables of all files.

    The strictest isolation level of a source wins, and the first interpreter.  The operator's files may make a source
    stricter than [isolation] says, or weaker.  A project's files, and the fleet's, may only make it stricter, since
    they do not decide over the operator's files.
    """
    options, common = SourceOptions(dict(main.levels)), main.settings.isolation.level
    for path, table in [(config.path, table) for config in configs for table in config.sources]:
        location = table.source.location
        if table.isolation is not None:
            level = table.isolation if active.is_ours(path) else find_strictest_level(table.isolation, common)
            options.levels[location] = find_strictest_level(level, options.levels.get(location, level))
        if (own := table.python) is not None and (used := options.pythons.setdefault(location, own)) != own:
            text = f"{location} runs in {used}, which another file names, and not in {own}; leave one of the two"
            options.contradictions.append(Diagnostic(path, 0, text))
        if table.files:
            paths = {os.path.join(os.path.dirname(location), name) for name in table.files}
            options.named[location] = sorted(paths.union(options.named.get(location, ())))
        if table.workers:
            options.workers[location] = table.workers
    return options


def find_strictest_level(*levels: str) -> str:
    return max(levels, key=ISOLATION_LEVELS.index)


def is_too_weak(held: Isolation | None, wanted: Isolation) -> bool:
    """Return whether an active build must go, though the new version of its source cannot be built.

    Its workers may do something that is denied to those that are required now.
    """
    return (
        held is not None
        and wanted.is_required
        and not (
            find_strictest_level(held.level, wanted.level) == held.level
            and set(held.write) <= set(wanted.write)
            and set(held.read) <= set(wanted.read)
            and held.network <= wanted.network
        )
    )


def list_remembered_plugins(known: Iterable[str]) -> set[str]:
    """Return the plugins that had hooks before the last start."""
    keys = (key.partition(PLUGIN) for key in known)
    return {name for before, prefix, name in keys if prefix and not before}
