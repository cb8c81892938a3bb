"""The installed packages that provide hooks.  Their metadata is read here; only workers import them.

A plugin is an entry point of the group `hooklatch.plugins`. Its name is the plugin's, its value the module whose
functions marked with @hook are its hooks.  Unreadable metadata may name a plugin, and never counts as empty.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping

import msgspec

from hooklatch.core.hooks.definitions import is_id
from hooklatch.disks import find_lane
from hooklatch.errors import explain_error
from hooklatch.files import open_regular
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.path_lookup import (
    PathAbsent,
    PathFault,
    PathFound,
    is_passing,
    list_directory,
    look_up_path,
)
from hooklatch.service.loading.acceptance import REMOVAL, LossAcceptance
from hooklatch_worker.author.marker import MarkedEvent
from hooklatch_worker.wire import HookDeclaration, Source

__all__ = ["GROUP", "PLUGIN", "Discovery", "Plugin", "discover_plugins", "select_active_plugins"]

GROUP = "hooklatch.plugins"
TIMEOUT = 20.0  # seconds for all packages: hundreds, from a cold disk
PLUGIN = "plugin:"  # prefix of the name under which its manifest is kept beside those of files


class Plugin(msgspec.Struct, frozen=True):
    """A plugin by name, or its fault. `package` is the distribution that provides it."""

    name: str
    module: str
    package: str = ""
    fault: str | None = None

    @property
    def key(self) -> str:
        return PLUGIN + self.name

    @property
    def source(self) -> Source:
        return Source("module", self.module)

    def named(self, declared: HookDeclaration) -> MarkedEvent:
        """Return a function's marker with the plugin's name in its id."""
        return msgspec.structs.replace(declared.marker, id=f"{self.name}.{declared.marker.id or declared.function}")


class Discovery(msgspec.Struct, frozen=True):
    """The plugins of installed packages. `faults` are the directories that could not be read."""

    plugins: dict[str, Plugin]
    faults: dict[str, PathFault]
    read: set[str]

    def unread(self, known: set[str]) -> dict[str, str]:
        """Return the fault of each directory that was not `known` before, since it may hold a guard."""
        return {place: fault.reason for place, fault in self.faults.items() if place not in known}

    def known(self, before: set[str]) -> set[str]:
        """Return the directories whose plugins are active: those that could be read, now or when last known."""
        return self.read | (before & self.faults.keys())


def discover_plugins() -> Discovery:
    """Find the plugins of all installed packages, by name. While their disk does not answer, none of them is known."""
    try:
        return find_lane("packages", "the disk of installed packages", TIMEOUT).look(discover_now)
    except TimeoutError as error:
        late = PathFault(f"installed packages cannot be read: {explain_error(error)}; fix that disk", is_passing=True)
        return Discovery({}, dict.fromkeys(map(os.path.abspath, sys.path), late), set())


def discover_now() -> Discovery:
    # importlib caches listings; a listing that failed is cached like an empty one.
    importlib.metadata.MetadataPathFinder().invalidate_caches()
    faults = dict(find_unreadable_folders())
    places = {entry for entry in map(os.path.abspath, sys.path) if entry not in faults}
    plugins: dict[str, Plugin] = {}
    seen: set[str] = set()
    path = [entry for entry in sys.path if os.path.abspath(entry) not in faults]
    for package in importlib.metadata.distributions(path=path):
        place = str(getattr(package, "_path", package))
        package_plugins = read_package_plugins(package, place, seen)
        if isinstance(package_plugins, PathFault):
            faults[place] = package_plugins
            continue
        places.add(place)
        for plugin in package_plugins:
            add_plugin(plugins, plugin)
    return Discovery({name: plugins[name] for name in sorted(plugins)}, faults, places)


def read_package_plugins(
    package: importlib.metadata.Distribution, place: str, seen: set[str]
) -> list[Plugin] | PathFault:
    """Read the plugins of a package. Of two packages of one name only the first on the path counts, as in imports."""
    try:
        fault = find_package_fault(package)
        if fault is not None:
            return fault
        name = str(getattr(package, "_normalized_name", None) or package.metadata["Name"])
        points = [point for point in package.entry_points if point.group == GROUP] if name not in seen else []
        seen.add(name)
        return [read_plugin(point) for point in points]
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:  # garbage raises any of these
        return PathFault(f"{place} cannot be read: {explain_error(error)}; fix it", is_passing(error))


def add_plugin(plugins: dict[str, Plugin], plugin: Plugin) -> None:
    other = plugins.get(plugin.name)
    if other is not None and other.module != plugin.module:
        fault = f"{other.package} and {plugin.package} both bring a plugin of this name; remove one of them"
        plugin = msgspec.structs.replace(other, fault=fault)
    plugins[plugin.name] = plugin


def find_unreadable_folders() -> Iterator[tuple[str, PathFault]]:
    """Find the directories on the import path that cannot be listed, which importlib treats as empty."""
    for entry in dict.fromkeys(map(os.path.abspath, sys.path)):
        seen = look_up_path(entry)
        if isinstance(seen, PathFound) and seen.is_folder:
            names = list_directory(entry)
            seen = names if isinstance(names, PathFault) else seen
        if isinstance(seen, PathFault):
            yield entry, seen


def find_package_fault(package: importlib.metadata.Distribution) -> PathFault | None:
    """Return the fault of a package whose entry points are unknown. To importlib it has none."""
    place: object = getattr(package, "_path", None)
    if not isinstance(place, pathlib.Path):
        return None  # in an archive, which is read completely or not at all
    seen = look_up_path(str(place))
    if isinstance(seen, PathFound) and not seen.is_folder:
        return None  # the old format is a single file, without entry points
    points = look_up_path(str(place / "entry_points.txt"))
    if isinstance(points, PathAbsent | PathFault):
        return points if isinstance(points, PathFault) else None
    os.close(open_regular(str(place / "entry_points.txt")))
    return None


def read_plugin(point: importlib.metadata.EntryPoint) -> Plugin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
    if not is_id(point.name):
        return Plugin(repr(point.name)[:80], "", package, "its name must be one line of at most 200 characters")
    module, colon, _ = point.value.partition(":")
    if colon or not all(part.isidentifier() for part in module.strip().split(".")):
        return Plugin(point.name, "", package, f"its entry point must name a module, not {point.value!r}")
    return Plugin(point.name, module.strip(), package)


def select_active_plugins(
    known: Mapping[str, Plugin],
    had_hooks: set[str],
    discovery: Discovery,
    accepts: LossAcceptance,
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
    for name in missing - plugins.keys():
        text = f"it had hooks and is not installed any more; to accept that: {REMOVAL}"
        if discovery.faults:
            text = f"it is not found, and {next(iter(discovery.faults.values())).reason}"
        diagnostics.append(Diagnostic(PLUGIN + name, 0, text))
        plugins[name] = known.get(name) or Plugin(name, "", fault=text)
    return [plugins[name] for name in sorted(plugins)], diagnostics
